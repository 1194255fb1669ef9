//! `mcd pivot`: this host to another OS image, with the configuration it has, without a cluster.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args as ClapArgs;
use host::files::Root;
use host::record;
use jiff::Timestamp;
use node_update::plan::{self, Bundle, Deploy, Digest, Plan, Route, Target};
use node_update::verify::expectations;

use crate::by_hand;
use crate::deployments::View;
use crate::local_helper::Helper;

/// Changes the OS of this host to an image, keeping its configuration
///
/// Both forms of images are accepted: native container images, and those with a repository at
/// /srv/repo. An image that is booted changes nothing. Exit codes: 0 done, 1 failed, 2 usage, 3
/// refused (nothing was changed), 4 needs reboot.
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
    if is_booted(&helper.view()?, &args.image, None) {
        return nothing_to_do(&args.image);
    }
    let root = Root::open(Path::new("/"), None)?;
    let bundle = plan(&root, &args.image, Timestamp::now())?;
    let fetched = match by_hand::fetch(&helper, &root, &bundle.plan.attempt, &args.image)? {
        Ok(fetched) => fetched.checksum,
        Err(code) => return Ok(code),
    };
    if is_booted(&helper.view()?, &args.image, Some(&fetched)) {
        return nothing_to_do(&args.image);
    }
    by_hand::carry_out(&helper, &root, &bundle, args.reboot)
}

/// Whether an image is what runs and what boots next: then another deployment of it would only
/// take the place of the previous one. A pull spec with a digest tells it alone; what a tag names
/// is read once it is fetched, by the checksum of its commit.
pub(crate) fn is_booted(view: &View, image: &str, fetched: Option<&str>) -> bool {
    let is_settled = view.journal.is_none() && view.next.is_none();
    let is_named = image.contains("@sha256:") && view.booted.os_image.as_deref() == Some(image);
    is_settled && (is_named || fetched == Some(view.booted.checksum.as_str()))
}

fn nothing_to_do(image: &str) -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout(), "nothing to do: {image} is booted").context("cannot print")?;
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
        attempt: by_hand::attempt(by_hand::PIVOT, now),
        from,
        to,
        route: Route::Reboot,
        drain: false,
        // It writes no file: what was changed by hand is merged as it is.
        origin: Vec::new(),
        because: vec![format!("pivot to {image} by hand")],
        without_effect: Vec::new(),
        post_config_actions: Vec::new(),
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

#[cfg(test)]
mod tests {
    use host::record::write;

    use crate::deployments::Deployment;

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
    fn only_the_image_that_runs_and_boots_next_is_nothing_to_do() {
        let deployment = |checksum: &str, image: &str| Deployment {
            checksum: checksum.to_owned(),
            serial: 0,
            version: None,
            config: None,
            image: None,
            record_error: None,
            os_image: Some(image.to_owned()),
            origin: None,
            kernel_arguments: Vec::new(),
        };
        let view = View {
            boot_id: "boot".to_owned(),
            booted: deployment("aaa", "r/os@sha256:1"),
            next: None,
            rollback: Some(deployment("bbb", "r/os:2")),
            journal: None,
            last: None,
            held: None,
            without_effect: Vec::new(),
        };
        let table = [
            ("r/os@sha256:1", None, true),
            ("r/os@sha256:2", None, false),
            ("r/os:1", Some("aaa"), true),
            ("mirror/os:1", Some("aaa"), true),
            ("r/os:2", Some("bbb"), false),
            ("r/os:1", None, false),
        ];
        for (image, fetched, expected) in table {
            assert_eq!(is_booted(&view, image, fetched), expected, "{image}");
            let next = Some(deployment("bbb", "r/os:2"));
            let pending = View {
                next,
                ..view.clone()
            };
            assert!(!is_booted(&pending, image, fetched), "{image}");
        }
        // What a tag named when it was booted says nothing of what it names now.
        let tagged = View {
            booted: deployment("aaa", "r/os:1"),
            ..view
        };
        assert!(!is_booted(&tagged, "r/os:1", None));
        assert!(!is_booted(&tagged, "r/os:1", Some("ccc")));
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
