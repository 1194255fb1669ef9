//! The lab's parts by hand, for looking around.

use std::io::{Write as _, stdout};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser};
use lab::control_plane::{ControlPlane, Options, definitions};
use lab::host::{BOOTED_WITHIN, Host, HostSpec};
use lab::image::Image;
use lab::registry::Registry;
use lab::tree::{Overlay, Tree};
use lab::{Lab, manifest};
use tokio::runtime::Runtime;

/// Runs a part of the lab until Ctrl-C.
#[derive(Debug, Parser)]
enum Command {
    /// A control plane.
    ControlPlane(ControlPlaneArgs),
    /// Hosts and a registry, without a control plane.
    Hosts(HostsArgs),
}

#[derive(Debug, Args)]
struct ControlPlaneArgs {
    /// Address by which hosts reach it; listens everywhere if it is not a loopback address.
    #[arg(long, default_value_t = IpAddr::from(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// A node that gets a token and a kubeconfig; may be repeated.
    #[arg(long = "node")]
    nodes: Vec<String>,
    /// Existing, empty folder for its files.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct HostsArgs {
    /// Names of the hosts.
    #[arg(default_value = "node")]
    names: Vec<String>,
    /// Versions of the operating system to put into the registry, beside the hosts' `v1`.
    #[arg(long = "image")]
    images: Vec<String>,
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::ControlPlane(args) => run_control_plane(args),
        Command::Hosts(args) => run_hosts(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "lab: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run_control_plane(
    ControlPlaneArgs {
        address,
        nodes,
        dir,
    }: ControlPlaneArgs,
) -> Result<()> {
    let mut options = if address.is_loopback() {
        Options::default()
    } else {
        Options::for_hosts(address, nodes.clone())
    };
    options.nodes = nodes;
    options.dir = dir;
    let control_plane = ControlPlane::start(&options)?;
    runtime()?.block_on(async {
        let client = control_plane.client().await?;
        manifest::define(&client, &definitions()?).await
    })?;

    let mut out = stdout().lock();
    writeln!(out, "server       {}", control_plane.server_url())?;
    writeln!(out, "audit log    {}", control_plane.audit_log().display())?;
    writeln!(
        out,
        "kubectl      {}",
        control_plane.programs().binary().display()
    )?;
    writeln!(
        out,
        "export KUBECONFIG={}",
        control_plane.admin_kubeconfig().display()
    )?;
    drop(out);
    wait_for_ctrl_c()
}

fn run_hosts(HostsArgs { names, images }: &HostsArgs) -> Result<()> {
    let tree = Tree::ready()?;
    let lab = Lab::create()?;
    let registry = Registry::start(&lab)?;
    let mut out = stdout().lock();
    writeln!(out, "registry     {}", registry.location())?;
    for version in images {
        let image = Image::native(&tree.commit(&Overlay::version(version))?)?;
        writeln!(
            out,
            "image        {}",
            registry.push(&image, &format!("os:{version}"))?
        )?;
    }
    let mut hosts = Vec::new();
    for name in names {
        let spec = HostSpec::new(name, tree.base()).registry(&registry.location());
        let mut host = Host::create(&lab, spec)?;
        host.start()?;
        hosts.push(host);
    }
    for host in &hosts {
        host.wait_booted(BOOTED_WITHIN)?;
        let leader = host.dir().join("leader");
        writeln!(out, "{:12} {}", host.name(), host.address())?;
        writeln!(
            out,
            "  nsenter --all --target $(cat {}) bash --login",
            leader.display()
        )?;
    }
    drop(out);
    wait_for_ctrl_c()
}

fn wait_for_ctrl_c() -> Result<()> {
    Ok(runtime()?.block_on(tokio::signal::ctrl_c())?)
}

fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}
