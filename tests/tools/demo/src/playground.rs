//! `make playground`: the demo's cluster stays up, with a shell beside it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use lab::control_plane::Program;
use lab::tree::Overlay;
use serde_json::{Value, json};
use testbed::config::{Config, File};
use testbed::{Cluster, Programs, logs};

use crate::live::Screen;
use crate::run;

/// The shell's settings: what it offers, and what it says at its start.
const SETTINGS: &str = include_str!("objects/playground.sh");

/// What a booted target has until it must be proven: ten minutes are too long to wait for a kubelet
/// that fails.
const VERIFIED_WITHIN_SECS: u32 = 30;

/// Starts the demo's cluster, and a shell that ends it.
///
/// # Errors
///
/// The cluster does not start, or there is no shell.
pub(crate) async fn run(programs: &Programs, out: &Path) -> Result<bool> {
    let mut screen = Screen::new();
    logs::empty(out)?;
    let cluster = run::start(programs, out, &mut screen, Some(VERIFIED_WITHIN_SECS), None).await?;
    write_objects(&cluster, out)?;
    run::wait_for_pods(cluster.objects()).await?;
    let mut shell = shell(&cluster, out)?;
    // The shell has the terminal; what is waited for goes on meanwhile.
    let status = tokio::task::spawn_blocking(move || shell.status())
        .await?
        .context("cannot run bash")?;
    screen.say("ending the cluster")?;
    // Its last command's code says nothing of the playground.
    Ok(status.signal().is_none())
}

/// A shell in `out`, with the administrator's credentials and kubectl.
#[expect(
    clippy::disallowed_methods,
    reason = "the playground is a shell; it ships nowhere"
)]
fn shell(cluster: &Cluster, out: &Path) -> Result<Command> {
    let settings = out.join(".settings");
    fs::write(&settings, SETTINGS)?;
    let control_plane = cluster.control_plane();
    let kubectl = control_plane.programs().path(Program::Kubectl);
    let programs = kubectl.parent().context("kubectl is in no folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let hosts = cluster.hosts().first().and_then(|host| host.dir().parent());
    let mut shell = Command::new("bash");
    shell
        .arg("--rcfile")
        .arg(settings.canonicalize()?)
        .arg("-i")
        .current_dir(out)
        .env("KUBECONFIG", control_plane.admin_kubeconfig())
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("SLIPWAY_HOSTS", hosts.context("there is no host")?);
    Ok(shell)
}

/// Writes what there is to try.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
fn write_objects(cluster: &Cluster, out: &Path) -> Result<()> {
    let path = "/etc/nmstate/openshift/playground.yml";
    let file = Config::new().files([File::new(path, "a file that needs no reboot\n")]);
    let with = |os| anyhow::Ok(Config::new().os(cluster.image(&os)?.reference));
    let os = with(Overlay::version("v2"))?;
    let broken = with(Overlay::version("broken").failing_kubelet())?;
    let objects = [
        ("file", file.object("50-file", "worker")),
        ("os", os.object("60-os", "worker")),
        ("broken", broken.object("70-broken", "worker")),
        ("budget", budget()),
    ];
    for (name, object) in objects {
        let text = serde_json::to_string_pretty(&object)? + "\n";
        // JSON is YAML, and the name is what people expect.
        fs::write(out.join(format!("{name}.yaml")), text)?;
    }
    Ok(())
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "keep-all" },
        "spec": { "minAvailable": "100%", "selector": { "matchLabels": { "app": "scratch" } } },
    })
}
