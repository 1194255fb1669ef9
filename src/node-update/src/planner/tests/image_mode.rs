//! Plans of nodes in image mode: the built image takes the place of `spec.osImageURL`.

use super::*;
use crate::disruption::{Action as Word, FilePolicy};

const ONE: &str = "built@sha256:1";
const TWO: &str = "built@sha256:2";

fn in_image(config: &NodeConfig, image: Option<&str>) -> Target {
    Target {
        config: config.name.clone(),
        image: image.map(ToOwned::to_owned),
    }
}

/// Plans from a configuration and image to others, on a host in what it comes from.
fn planned_in(
    (old, from): (&NodeConfig, Option<&str>),
    (new, to): (&NodeConfig, Option<&str>),
    policies: &Policies,
) -> Result<Plan, Rejections> {
    let (from, to) = (in_image(old, from), in_image(new, to));
    let facts = Facts {
        booted_image: old.image(from.image.as_deref()).map(ToOwned::to_owned),
        ..Facts::default()
    };
    let side = |target, config| Side { target, config };
    let outcome = plan(&Request {
        attempt: &Attempt("a1".to_owned()),
        from: side(&from, old),
        to: side(&to, new),
        facts: &facts,
        policies,
        exempt: Exempt::default(),
        force: false,
    })?;
    Ok(outcome.bundle.plan)
}

fn default(
    from: (&NodeConfig, Option<&str>),
    to: (&NodeConfig, Option<&str>),
) -> Result<Plan, Rejections> {
    planned_in(from, to, &Policies::default())
}

fn with_file(name: &str, path: &str, text: &str) -> NodeConfig {
    let source = format!("data:,{text}");
    let mut spec = ignition(&json!({"storage": {"files": [
        {"path": "/etc/a", "contents": {"source": "data:,a"}},
        {"path": path, "contents": {"source": source}, "mode": 493},
    ]}}));
    spec["osImageURL"] = json!("os@sha256:0");
    config(name, &spec)
}

fn written(plan: &Plan) -> Vec<&str> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|step| match &step.action {
            Action::WriteFile { path, .. } | Action::ReleaseFile { path } => Some(path.as_str()),
            Action::MaskUnit { .. }
            | Action::UnmaskUnit { .. }
            | Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. }
            | Action::WriteAuthorizedKeys { .. }
            | Action::SetPassword { .. }
            | Action::DaemonReload
            | Action::RestartUnit { .. }
            | Action::ReloadUnit { .. } => None,
        })
        .collect()
}

fn is_checked(plan: &Plan, of: &str, digest: &Digest) -> bool {
    let mut expect = plan.expect.iter();
    expect.any(
        |it| matches!(it, Expectation::File { path, file } if path == of && file.digest == *digest),
    )
}

#[test]
fn image_alone_makes_one_reboot_whatever_way() {
    let a = with_file("a", "/etc/b", "b");
    for (from, to, deployed) in [
        // Into image mode, to another image, and out of it: back to the release's.
        (None, Some(ONE), ONE),
        (Some(ONE), Some(TWO), TWO),
        (Some(ONE), None, "os@sha256:0"),
    ] {
        let plan = default((&a, from), (&a, to)).unwrap();
        assert_eq!((plan.route, plan.drain), (Route::Reboot, true));
        assert_eq!(plan.because, ["the OS image changes"]);
        let deploy = plan.deploy.as_ref().unwrap();
        assert_eq!(deploy.image.as_deref(), Some(deployed));
        assert_eq!(
            (&plan.from, &plan.to),
            (&in_image(&a, from), &in_image(&a, to))
        );
        let record = Expectation::Record {
            config: "a".to_owned(),
            image: to.map(ToOwned::to_owned),
        };
        assert!(plan.expect.contains(&record), "{:?}", plan.expect);
        // What people changed by hand stops it, as it stops others.
        assert!(!plan.origin.is_empty());
    }
}

#[test]
fn image_that_is_booted_is_not_deployed_again() {
    let (a, b) = (with_file("a", "/etc/b", "b"), with_file("b", "/etc/b", "c"));
    let none = FilePolicy {
        path: "/etc/b".to_owned(),
        actions: vec![Word::None],
    };
    let policies = Policies {
        files: vec![none],
        ..Policies::default()
    };
    // As a disruption policy says: live, in image mode as without.
    for image in [Some(ONE), None] {
        let plan = planned_in((&a, image), (&b, image), &policies).unwrap();
        assert_eq!((plan.route, plan.drain), (Route::Live, false), "{image:?}");
        assert_eq!(written(&plan), ["/etc/b"]);
        assert_eq!(plan.deploy, None);
    }
    // Without a policy the same image is deployed with the new files.
    let plan = default((&a, Some(ONE)), (&b, Some(ONE))).unwrap();
    assert_eq!(plan.route, Route::Reboot);
    assert_eq!(plan.deploy.unwrap().image, None);
    // The OS of the release is none of a node that has an image of its own.
    let mut released = b;
    released.spec.os_image_url = "os@sha256:9".to_owned();
    let plan = planned_in((&a, Some(ONE)), (&released, Some(ONE)), &policies).unwrap();
    assert_eq!(plan.route, Route::Live);
    // Files and image at once: one reboot.
    let plan = planned_in((&a, Some(ONE)), (&released, Some(TWO)), &policies).unwrap();
    assert_eq!(plan.route, Route::Reboot);
    assert_eq!(plan.deploy.unwrap().image.as_deref(), Some(TWO));
}

#[test]
fn files_of_the_image_are_checked_and_never_written() {
    for path in ["/usr/lib/x.conf", "/bin/x", "/lib64/x"] {
        let (without, with) = (with_file("a", "/etc/b", "b"), with_file("b", path, "1"));
        let changed = with_file("c", path, "2");
        let digest = |text: &str| Digest::of(text.as_bytes());
        let plan = default((&without, None), (&with, Some(ONE))).unwrap();
        assert!(!written(&plan).contains(&path), "{plan:?}");
        assert!(is_checked(&plan, path, &digest("1")));
        // Other files in another image need no step but the deployment.
        let plan = default((&with, Some(ONE)), (&changed, Some(TWO))).unwrap();
        assert_eq!(written(&plan), ["/etc/a"]);
        assert!(is_checked(&plan, path, &digest("2")) && !is_checked(&plan, path, &digest("1")));
        assert_eq!(plan.origin, crate::verify::files_and_units(&with));
        // They go with their image.
        let plan = default((&changed, Some(TWO)), (&without, None)).unwrap();
        assert!(!written(&plan).contains(&path), "{plan:?}");
    }
}

#[test]
fn files_of_the_image_without_an_image_are_refused_with_the_way() {
    let (plain, with) = (
        with_file("a", "/etc/b", "b"),
        with_file("b", "/usr/lib/x", "1"),
    );
    let refused = |from: (&NodeConfig, Option<&str>), to: (&NodeConfig, Option<&str>)| {
        let Rejections(rejections) = default(from, to).unwrap_err();
        rejections
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let expected = [
        "spec.config.storage.files[1]: cannot write /usr/lib/x: /usr is read-only: it is \
                     part of the OS image; a MachineOSConfig builds it into the pool's image",
    ];
    assert_eq!(refused((&plain, None), (&with, None)), expected);
    // On the way out of image mode, too.
    assert_eq!(refused((&with, Some(ONE)), (&with, None)), expected);
    // What no image brings is refused with one as without.
    for path in ["/usr/etc/x", "/run/x", "/usr"] {
        let with = with_file("b", path, "1");
        let text = refused((&plain, Some(ONE)), (&with, Some(TWO))).join("; ");
        assert!(text.contains(&format!("cannot write {path}: ")), "{text}");
    }
    // One file has one name.
    let spec = ignition(&json!({"storage": {"files": [
        {"path": "/bin/x", "contents": {"source": "data:,1"}},
        {"path": "/usr/bin/x", "contents": {"source": "data:,2"}},
    ]}}));
    let text = refused((&plain, Some(ONE)), (&config("b", &spec), Some(TWO))).join("; ");
    assert!(
        text.contains("it is /bin/x, a file of this configuration"),
        "{text}"
    );
}

#[test]
fn unit_of_the_configuration_that_names_a_changed_file_of_the_image_must_start() {
    let of = |name: &str, text: &str| {
        let contents = "[Unit]\nDefaultDependencies=no\nBefore=local-fs.target\n[Service]\n\
                        ExecStart=/usr/libexec/x\n";
        let source = format!("data:,{text}");
        let spec = ignition(&json!({
            "storage": {"files": [{"path": "/usr/libexec/x", "contents": {"source": source}}]},
            "systemd": {"units": [{"name": "x.service", "enabled": true, "contents": contents}]},
        }));
        config(name, &spec)
    };
    // So early, too: the file is there before the boot.
    let plan = default((&of("a", "1"), Some(ONE)), (&of("b", "2"), Some(TWO))).unwrap();
    let started = Expectation::Started {
        unit: "x.service".to_owned(),
    };
    assert!(plan.expect.contains(&started));
}
