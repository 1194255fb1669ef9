//! `deployments`: what is on this host, for the daemon and for people.

use std::io::Write as _;

use anyhow::Context as _;
use chassis::report::Chain;
use host::journal::{HeldTarget, Journal, LastAttempt};
use host::ostree;
use tracing::warn;

use super::context::Context;
use crate::deployments::{self, Deployment, Ended, UnderWay, View};
use crate::protocol::HelperReport;
use crate::{installed, status};

pub(super) fn run(context: &Context, json: bool) -> anyhow::Result<HelperReport> {
    let view = view(context)?;
    let text = if json {
        serde_json::to_string_pretty(&view).context("cannot write the deployments")?
    } else {
        status::render(&view)
    };
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("cannot print")?;
    Ok(HelperReport::done().with(&view)?)
}

fn view(context: &Context) -> anyhow::Result<View> {
    let all = ostree::Deployments::open()?.list()?;
    let index = all.iter().position(|each| each.is_booted);
    let index = index.context("no deployment is booted")?;
    let booted = all.get(index).context("no deployment is booted")?;
    let store = context.store();
    Ok(View {
        boot_id: context.moment.boot_id.clone(),
        booted: describe(booted),
        next: all.first().filter(|first| !first.is_booted).map(describe),
        rollback: all.get(index + 1).map(describe),
        journal: store.journal()?.map(under_way),
        last: store.last()?.map(ended),
        held: store.held()?.map(held),
        without_effect: without_effect(context),
    })
}

/// What of the record's configuration this host cannot have; nothing where it does not say what it
/// was installed with.
fn without_effect(context: &Context) -> Vec<String> {
    let differences = installed::differences(&context.root).unwrap_or_else(|error| {
        // A broken record is shown by its deployment.
        warn!(error = %Chain(&*error), "cannot tell what the host was installed with");
        Vec::new()
    });
    let differences = differences.into_iter();
    differences
        .map(|it| {
            let (section, diff) = (it.field_path, it.diff);
            format!("{section} is not what the host was installed with: {diff}")
        })
        .collect()
}

fn describe(deployment: &ostree::ListedDeployment) -> Deployment {
    let record = deployment.record.as_ref().ok().and_then(Option::as_ref);
    Deployment {
        checksum: deployment.id.checksum.clone(),
        serial: deployment.id.serial,
        version: deployment.version.clone(),
        config: record.map(|record| record.config.clone()),
        image: record.and_then(|record| record.image.clone()),
        record_error: deployment.record.as_ref().err().cloned(),
        os_image: deployment.image.clone(),
        origin: deployment
            .image
            .clone()
            .or_else(|| deployment.origin.clone()),
        kernel_arguments: deployment.arguments.clone(),
    }
}

fn under_way(journal: Journal) -> UnderWay {
    UnderWay {
        attempt: journal.plan.attempt.0,
        stage: journal.stage,
        from: journal.plan.from,
        to: journal.plan.to,
        boots: journal.boots,
        boot_id: journal.boot_id,
        since: journal.since.to_string(),
    }
}

fn ended(last: LastAttempt) -> Ended {
    Ended {
        attempt: last.attempt.0,
        outcome: last.outcome,
        from: last.from,
        to: last.to,
        boot_id: last.boot_id,
        at: last.at.to_string(),
        cause: last.cause,
    }
}

fn held(held: HeldTarget) -> deployments::HeldView {
    let (config, image) = (held.target.config, held.target.image);
    deployments::HeldView {
        config,
        image,
        cause: held.cause,
    }
}
