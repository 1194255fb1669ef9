//! `verify`: the host against the configuration it is recorded to be in. Nothing is changed.

use anyhow::Context as _;
use host::execute::{Running, record};
use host::observe;
use machineconfig::spec::MachineConfig;
use machineconfig::verify::expectations;
use serde_json::json;

use super::context::Context;
use super::report::Report;

pub(super) fn run(context: &Context) -> anyhow::Result<Report> {
    let (Some(at), Some(bytes)) = (
        record::read(&context.root)?,
        record::read_config(&context.root)?,
    ) else {
        let reason = format!("{} is not there, or names no configuration", record::CONFIG);
        return Ok(Report::failed(vec![reason]));
    };
    let config = serde_json::from_slice(&bytes)
        .with_context(|| format!("cannot understand {}", record::CONFIG))?;
    let (config, warnings) = MachineConfig::parse(&config)
        .with_context(|| format!("cannot understand {}", record::CONFIG))?;
    for warning in warnings {
        tracing::debug!(config = at.config, "{warning}");
    }
    let expected = expectations(&config, at.image.as_deref());
    let mut units = Running::new(&context.runtime);
    let found = observe::mismatches(&context.root, &mut units, &expected);
    let report = if found.is_empty() {
        Report::done()
    } else {
        Report::failed(found.iter().map(ToString::to_string).collect())
    };
    report.with(&json!({ "at": at }))
}
