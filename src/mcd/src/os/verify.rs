//! `verify`: the host against the configuration it is recorded to be in. Nothing is changed.

use host::execute::RunningUnits;
use host::ostree::Deployments;
use host::{observe, record};
use node_update::verify::{expectations, files_and_units};

use tracing::warn;

use super::context::Context;
use crate::protocol::{HelperReport, VerifyDetails};

/// Checks files and units alone with `drift_only`: they are what a person can change by hand, and
/// all that is checked while an update must still be able to mend the rest.
pub(super) fn run(context: &Context, drift_only: bool) -> anyhow::Result<HelperReport> {
    let Some(record) = record::read(&context.root)? else {
        let reason = format!("the host has no record: {} is missing", record::CONFIG);
        return Ok(HelperReport::failed(vec![reason]));
    };
    let config = record.machine_config()?;
    let at = record.into_target();
    let expected = if drift_only {
        files_and_units(&config)
    } else {
        expectations(&config, at.image.as_deref())
    };
    let mut units = RunningUnits::new(&context.runtime);
    let found = observe::mismatches(&context.root, &mut units, &expected);
    let other_os = if drift_only {
        None
    } else {
        other_os(at.image.as_deref().unwrap_or(&config.spec.os_image_url))?
    };
    let reasons: Vec<String> = other_os
        .into_iter()
        .chain(found.iter().map(ToString::to_string))
        .collect();
    let report = if reasons.is_empty() {
        HelperReport::done()
    } else {
        HelperReport::failed(reasons)
    };
    Ok(report.with(&VerifyDetails { at })?)
}

/// What runs instead of the OS that the configuration names. An administrator may have deployed
/// another, and the merge of `/etc` carried the record along. A deployment that did not come as an
/// image names none, and cannot be distinguished.
///
/// Source of the words: `checkOS` of OpenShift's MCO.
fn other_os(wanted: &str) -> anyhow::Result<Option<String>> {
    let deployments = Deployments::open()?.list()?;
    let booted = deployments
        .into_iter()
        .find(|deployment| deployment.is_booted);
    let Some((image, id)) = booted.and_then(|booted| Some((booted.image?, booted.id))) else {
        return Ok(None);
    };
    if !wanted.is_empty() && !wanted.contains("@sha256:") {
        warn!(
            image = wanted,
            "the OS image has no digest: that its name stands for what is booted cannot be proved"
        );
    }
    let is_other = !wanted.is_empty() && image != wanted;
    Ok(is_other.then(|| {
        let commit = id.checksum;
        format!("expected target osImageURL \"{wanted}\", have \"{image}\" (\"{commit}\")")
    }))
}
