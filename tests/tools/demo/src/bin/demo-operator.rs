//! A small operator of the demo's releases: it reports on its ClusterOperator that it works towards
//! the version of its release, and after some seconds that it is at it.
//!
//! It has nothing else to do: what the demo shows is that a run level waits for it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterOperator, ClusterOperatorSpec};
use clap::Parser;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

/// Reports on a ClusterOperator as an operator does that is updated.
#[derive(Debug, Parser)]
struct Arguments {
    /// Name of the ClusterOperator.
    #[arg(long)]
    name: String,
    /// Version of the release.
    #[arg(long)]
    release_version: String,
    /// How long it takes to get there.
    #[arg(long, value_name = "SECONDS")]
    work_secs: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    // The first process of a container dies of no signal by itself.
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        done = run(&arguments) => match done {
            Ok(()) => {
                terminate.recv().await;
                Ok(())
            }
            failed => failed,
        },
    }
}

/// Reports until the version is declared.
async fn run(arguments: &Arguments) -> Result<()> {
    let config = Config::incluster().context("not in a pod with a service account")?;
    let operators = Api::<ClusterOperator>::all(Client::try_from(config)?);
    let found = operators.get_opt(&arguments.name).await?;
    if found.is_none() {
        let object = ClusterOperator::new(&arguments.name, ClusterOperatorSpec {});
        operators.create(&PostParams::default(), &object).await?;
    }
    let before = found.and_then(|object| object.status).unwrap_or_default();
    let version = arguments.release_version.as_str();
    let progressing = before.condition(&ClusterConditionType::Progressing);
    let is_at_rest = progressing.is_some_and(|it| it.status == ConditionStatus::False);
    if before.version("operator") == Some(version) && is_at_rest {
        // A pod in place of another: nothing changes.
        return Ok(());
    }
    let old = before.version("operator").unwrap_or_default();
    report(&operators, &arguments.name, old, Some(version)).await?;
    tokio::time::sleep(Duration::from_secs(arguments.work_secs)).await;
    report(&operators, &arguments.name, version, None).await
}

/// Writes the status: at a version, or from one towards the next.
async fn report(
    operators: &Api<ClusterOperator>,
    name: &str,
    at: &str,
    towards: Option<&str>,
) -> Result<()> {
    let (progressing, message) = match towards {
        Some(next) => ("True", format!("working towards {next}")),
        None => ("False", format!("at {at}")),
    };
    let now = Timestamp::now().to_string();
    let condition = |r#type: &str, status: &str, message: &str| {
        json!({ "type": r#type, "status": status, "reason": "AsExpected", "message": message,
                "lastTransitionTime": now })
    };
    let versions: Vec<Value> = match at {
        "" => Vec::new(),
        at => vec![json!({ "name": "operator", "version": at })],
    };
    let status = json!({ "status": {
        "versions": versions,
        "conditions": [
            condition("Available", "True", "its pod runs"),
            condition("Degraded", "False", ""),
            condition("Progressing", progressing, &message),
        ],
    } });
    let params = PatchParams::default();
    operators
        .patch_status(name, &params, &Patch::Merge(status))
        .await?;
    Ok(())
}
