//! `mcd pivot`: this host to another OS image, with the configuration it has, without a cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args as ClapArgs;
use host::files::Root;
use host::journal::JournalStore;
use host::record;
use host::systemd::SystemdClient;
use jiff::Timestamp;
use node_update::plan::{self, Attempt, Bundle, Deploy, Digest, Plan, Route, Target};
use node_update::verify::expectations;

use crate::local_helper::Helper;
use crate::protocol::{Guard, HelperOutcome, Verb, VerbName};

/// How attempts begin that a person made, and not the daemon.
const BY_HAND: &str = "pivot-";

/// Whether a person made this attempt.
pub fn is_by_hand(attempt: &Attempt) -> bool {
    attempt.0.starts_with(BY_HAND)
}

/// Changes the OS of this host to an image, keeping its configuration
///
/// Both forms of images are known: native container images, and those with a repository at
/// /srv/repo. Exit codes: 0 done, 1 failed, 2 usage, 3 refused (nothing was changed), 4 needs
/// reboot.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Pull spec of the image, without transport.
    image: String,
    /// Reboots into it.
    #[arg(short, long)]
    reboot: bool,
}

/// Fetches the image, rehearses, and has the boot loader boot it.
///
/// # Errors
/// Where the host cannot be read, or the helper is not to be had; what the helper says goes to
/// standard error, and its exit code is returned.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let helper = Helper::find()?;
    let root = Root::open(Path::new("/"), None)?;
    let bundle = plan(&root, &args.image, Timestamp::now())?;
    let directory = JournalStore::plan_directory(&bundle.plan.attempt)?;
    let store = JournalStore::new(&root);
    // What may be refused comes first, and leaves nothing behind then.
    for verb in [
        Verb::Fetch {
            image: args.image.clone(),
        },
        Verb::Rehearse {
            plan: directory.clone(),
        },
        Verb::Guard(Guard::install()),
        Verb::Apply {
            plan: directory,
            stay: false,
        },
    ] {
        let is_rehearsal = verb.name() == VerbName::Rehearse;
        if is_rehearsal {
            store.put_plan(&bundle)?;
        }
        let code = helper.act(&verb)?.code;
        let code = code.with_context(|| format!("mcd-os {} was killed", verb.name()))?;
        match HelperOutcome::of_exit_code(code) {
            Some(HelperOutcome::Done) => {}
            Some(HelperOutcome::NeedsReboot) if args.reboot => return reboot(),
            Some(_) | None => {
                if is_rehearsal {
                    store.discard_plan(&bundle.plan.attempt)?;
                }
                return exit_code(code);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan that changes the image and nothing else. The record goes along as it is: what the host
/// is configured to be does not change.
fn plan(root: &Root, image: &str, now: Timestamp) -> anyhow::Result<Bundle> {
    let (from, to, bytes, expect) = match record::read(root)? {
        Some(record) => {
            let config = record.machine_config()?;
            // Named only where it is not the one that the configuration asks for anyway.
            let is_layered = config.spec.os_image_url != image;
            let bytes = record.bytes().to_owned();
            let from = record.into_target();
            let to = Target {
                config: from.config.clone(),
                image: is_layered.then(|| image.to_owned()),
            };
            let expect = expectations(&config, to.image.as_deref());
            (from, to, bytes, expect)
        }
        None => (unmanaged(), unmanaged(), Vec::new(), Vec::new()),
    };
    let record = Digest::of(&bytes);
    let plan = Plan {
        schema: plan::SCHEMA,
        attempt: Attempt(format!("{BY_HAND}{}", now.as_millisecond())),
        from,
        to,
        route: Route::Reboot,
        drain: false,
        // It writes no file: what was changed by hand is merged as it is.
        origin: Vec::new(),
        because: vec![format!("pivot to {image} by hand")],
        without_effect: Vec::new(),
        deploy: Some(Deploy {
            image: Some(image.to_owned()),
            ..Deploy::default()
        }),
        steps: Vec::new(),
        record: record.clone(),
        expect,
    };
    Ok(Bundle {
        plan,
        blobs: BTreeMap::from([(record, bytes)]),
    })
}

/// A host that no cluster has configured yet.
fn unmanaged() -> Target {
    Target {
        config: String::new(),
        image: None,
    }
}

fn reboot() -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let reboot = async { SystemdClient::connect(None).await?.reboot().await };
    match runtime.block_on(reboot) {
        // The host may go down before the answer is through.
        Err(error) if !error.is_answer_lost() => {
            Err(error).context("the boot loader names the new OS, but the host does not reboot")
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

fn exit_code(code: i32) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::from(
        u8::try_from(code).context("mcd-os ended strangely")?,
    ))
}

#[cfg(test)]
mod tests {
    use host::record::write;

    use super::*;

    const CONFIG: &[u8] = br#"{"metadata":{"name":"rendered-a"},"spec":{"osImageURL":"r/os:1"}}"#;

    fn host(config: Option<(&[u8], Option<&str>)>) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        if let Some((config, image)) = config {
            write(&root, config, image).unwrap();
        }
        (dir, root)
    }

    fn target(image: Option<&str>) -> Target {
        Target {
            config: "rendered-a".to_owned(),
            image: image.map(str::to_owned),
        }
    }

    #[test]
    fn only_the_image_changes() {
        let (_dir, root) = host(Some((CONFIG, None)));
        let bundle = plan(&root, "r/os:2", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(
            (&bundle.plan.from, &bundle.plan.to),
            (&target(None), &target(Some("r/os:2")))
        );
        assert_eq!(bundle.blobs[&bundle.plan.record], CONFIG);
        assert!(bundle.plan.steps.is_empty());
        let back = plan(&root, "r/os:1", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(
            back.plan.to,
            target(None),
            "what the configuration asks for is no layer"
        );
    }

    #[test]
    fn a_host_without_a_configuration_gets_none() {
        let (_dir, root) = host(None);
        let bundle = plan(&root, "r/os:2", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(bundle.plan.to, unmanaged());
        assert!(bundle.blobs[&bundle.plan.record].is_empty());
        assert!(bundle.plan.expect.is_empty());
    }

    #[test]
    fn host_with_a_broken_record_is_not_pivoted() {
        for config in [
            &b"not json"[..],
            br#"{"metadata":{"name":"a"},"spec":{"fips":1}}"#,
        ] {
            let (_dir, root) = host(Some((config, None)));
            let error = plan(&root, "r/os:2", Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(error.to_string().contains(record::CONFIG), "{error}");
        }
    }
}
