//! Plans, as text and as what they come to.

mod goldens;
mod image_mode;
mod model;
mod properties;

use serde_json::{Value, json};

use super::*;
use crate::plan::{Action, Expectation};

fn config(name: &str, spec: &Value) -> NodeConfig {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    NodeConfig::parse(&object).unwrap().0
}

fn ignition(config: &Value) -> Value {
    let mut config = config.clone();
    config["ignition"] = json!({"version": "3.5.0"});
    json!({"config": config})
}

fn target(config: &NodeConfig) -> Target {
    Target {
        config: config.name.clone(),
        image: None,
    }
}

fn planned_with(
    old: &NodeConfig,
    new: &NodeConfig,
    facts: &Facts,
    force: bool,
) -> Result<Outcome, Rejections> {
    plan(&Request {
        attempt: &Attempt("a1".to_owned()),
        from: Side {
            target: &target(old),
            config: old,
        },
        to: Side {
            target: &target(new),
            config: new,
        },
        facts,
        policies: &Policies::default(),
        exempt: Exempt::default(),
        force,
    })
}

fn planned(old: &Value, new: &Value) -> Plan {
    let (old, new) = (config("old", old), config("new", new));
    planned_with(&old, &new, &Facts::default(), false)
        .unwrap()
        .bundle
        .plan
}

fn described(old: &Value, new: &Value) -> String {
    describe(&planned(old, new))
}

fn refused(old: &Value, new: &Value) -> Vec<String> {
    let (old, new) = (config("old", old), config("new", new));
    let Rejections(rejections) = planned_with(&old, &new, &Facts::default(), false).unwrap_err();
    rejections.iter().map(ToString::to_string).collect()
}

const UNIT: &str = "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\n";

#[test]
fn a_reboot_writes_all_and_restores_what_is_gone() {
    let old = json!({
        "osImageURL": "os/1",
        "kernelArguments": ["nosmt"],
        "config": {"ignition": {"version": "3.5.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"], "passwordHash": "x"}]},
            "storage": {"files": [
                {"path": "/etc/gone", "contents": {"source": "data:,x"}},
                {"path": "/etc/same", "contents": {"source": "data:,same"}},
            ]},
            "systemd": {"units": [
                {"name": "gone.service", "contents": UNIT, "enabled": true},
                {"name": "same.service", "contents": UNIT, "enabled": true},
                {"name": "os.service", "enabled": false},
            ]},
        },
    });
    let new = json!({
        "osImageURL": "os/2",
        "kernelArguments": ["mitigations=off a=\"b c\""],
        "config": {"ignition": {"version": "3.5.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a", "b"]}]},
            "storage": {"files": [
                {"path": "/etc/same", "contents": {"source": "data:,same"}},
                {"path": "/etc/secret", "contents": {"source": "data:,s"}, "mode": 384,
                 "user": {"name": "chrony"}, "group": {"id": 7}},
            ]},
            "systemd": {"units": [
                {"name": "same.service", "contents": UNIT, "enabled": true},
                {"name": "masked.service", "mask": true},
                {"name": "crio.service", "dropins": [
                    {"name": "10-a.conf", "contents": "[Service]\nNice=1\n"}, {"name": "20-b.conf"},
                ]},
            ]},
        },
    });
    assert_eq!(
        described(&old, &new),
        "\
update  old -> new
way     drain, new deployment, reboot
because the OS image changes
because spec.kernelArguments changes
image   os/2
karg    - nosmt
karg    + mitigations=off
karg    + a=\"b c\"
release /etc/systemd/system/crio.service.d/20-b.conf (to what the OS ships, if anything)
disable gone.service
release /etc/gone (to what the OS ships, if anything)
release /etc/systemd/system/gone.service (to what the OS ships, if anything)
write   /etc/same (0644 root:root)
write   /etc/secret (0600 chrony:7)
write   /etc/systemd/system/same.service (0644 root:root)
write   /etc/systemd/system/crio.service.d/10-a.conf (0644 root:root)
mask    masked.service
preset  gone.service
preset  os.service
enable  same.service
keys    of core
passwd  of core
check   11 things that must hold then
"
    );
}

/// A signature policy with one requirement of this type.
fn policy_of(kind: &str) -> String {
    format!("data:,%7B%22default%22:%5B%7B%22type%22:%22{kind}%22%7D%5D%7D")
}

#[test]
fn a_running_system_gets_only_what_differs() {
    let files = |policy: &str, id: u32| {
        ignition(&json!({"storage": {"files": [
            {"path": "/etc/nmstate/openshift/a.yml", "contents": {"source": "data:,a"}, "user": {"id": id}},
            {"path": "/etc/nmstate/openshift/b.yml", "contents": {"source": "data:,b"}},
            {"path": "/etc/containers/policy.json", "contents": {"source": policy_of(policy)}},
        ]}}))
    };
    assert_eq!(
        described(&files("x", 0), &files("y", 1)),
        "\
update  old -> new
way     the running system; no drain, no reboot
because file \"/etc/nmstate/openshift/a.yml\" changes (policy of \"/etc/nmstate/openshift\"): nothing to do
because file \"/etc/containers/policy.json\" changes: reload crio.service
write   /etc/nmstate/openshift/a.yml (0644 1:root)
write   /etc/containers/policy.json (0644 root:root)
reload  crio.service
check   6 things that must hold then
"
    );
}

#[test]
fn systemd_reads_its_units_before_a_service_restarts() {
    let unit = |nice: u32| {
        ignition(&json!({"systemd": {"units": [
            {"name": "iri-registry.service", "contents": format!("[Service]\nNice={nice}\n")},
        ]}}))
    };
    assert_eq!(
        described(&unit(1), &unit(2)),
        "\
update  old -> new
way     the running system; no drain, no reboot
because unit \"iri-registry.service\" changes: reload systemd, restart iri-registry.service
write   /etc/systemd/system/iri-registry.service (0644 root:root)
systemd daemon-reload
restart iri-registry.service
check   5 things that must hold then
"
    );
}

#[test]
fn a_path_changes_owners_without_a_restore() {
    let path = "/etc/systemd/system/crio.service.d/10-a.conf";
    let text = "[Service]\nNice=1\n";
    let contents = json!({"source": "data:,%5BService%5D%0ANice=1%0A"});
    let as_file = ignition(&json!({"storage": {"files": [{"path": path, "contents": contents}]}}));
    let as_dropin = ignition(&json!({"systemd": {"units": [
        {"name": "crio.service", "dropins": [{"name": "10-a.conf", "contents": text}]},
    ]}}));
    for (old, new) in [(&as_file, &as_dropin), (&as_dropin, &as_file)] {
        let plan = planned(old, new);
        let actions: Vec<_> = plan.steps.iter().map(|step| &step.action).collect();
        assert!(
            matches!(actions[..], [Action::WriteFile { .. }]),
            "{actions:?}"
        );
    }
}

#[test]
fn a_file_that_takes_the_place_of_a_mask_stays() {
    let path = "/etc/systemd/system/a.service";
    let mask = ignition(&json!({"systemd": {"units": [{"name": "a.service", "mask": true}]}}));
    let file = json!({"files": [{"path": path}]});
    let alone = ignition(&json!({"storage": file}));
    let beside = ignition(&json!({"storage": file, "systemd": {"units": [{"name": "a.service"}]}}));
    for new in [&alone, &beside] {
        let plan = planned(&mask, new);
        let mut actions = plan.steps.iter().map(|step| &step.action);
        assert!(
            !actions.any(|action| matches!(action, Action::ReleaseFile { .. })),
            "{plan:?}"
        );
    }
    let both = ignition(&json!({"storage": file, "systemd": {"units": [
        {"name": "a.service", "mask": true},
    ]}}));
    assert_eq!(
        refused(&mask, &both),
        [
            "spec.config.systemd.units[0].mask: cannot mask a.service: /etc/systemd/system/a.service is a file of this configuration"
        ]
    );
}

#[test]
fn a_file_goes_before_the_directory_of_its_name_comes() {
    let with = |path: &str| ignition(&json!({"storage": {"files": [{"path": path}]}}));
    for (old, new) in [("/etc/a", "/etc/a/b"), ("/etc/a/b", "/etc/a")] {
        let plan = planned(&with(old), &with(new));
        let actions: Vec<_> = plan.steps.iter().map(|step| &step.action).collect();
        let [
            Action::ReleaseFile { path: gone },
            Action::WriteFile { path, .. },
        ] = actions[..]
        else {
            panic!("{actions:?}");
        };
        assert_eq!((gone.as_str(), path.as_str()), (old, new));
    }
}

#[test]
fn nothing_to_do_is_a_plan_without_steps() {
    let same = ignition(&json!({"storage": {"files": [{"path": "/etc/a"}]}}));
    let plan = planned(&same, &same);
    assert_eq!(
        (plan.route, plan.drain, plan.steps.len()),
        (Route::Live, false, 0)
    );
}

#[test]
fn force_writes_everything_and_reboots() {
    let same = config(
        "same",
        &ignition(&json!({"storage": {"files": [{"path": "/etc/a"}]}})),
    );
    let plan = planned_with(&same, &same, &Facts::default(), true)
        .unwrap()
        .bundle
        .plan;
    assert_eq!(
        (plan.route, plan.drain, plan.steps.len()),
        (Route::Reboot, true, 1)
    );
    assert_eq!(plan.because, ["an administrator asked for it"]);
}

#[test]
fn the_only_node_is_not_drained() {
    let (old, new) = (
        config("old", &json!({})),
        config("new", &json!({"osImageURL": "os"})),
    );
    let facts = Facts {
        single_replica: true,
        ..Facts::default()
    };
    let plan = planned_with(&old, &new, &facts, false).unwrap().bundle.plan;
    assert_eq!((plan.route, plan.drain), (Route::Reboot, false));
}

#[test]
fn an_image_that_is_booted_is_not_deployed_again() {
    let image = |image: &str| config(image, &json!({"osImageURL": image}));
    let plan = |old: &str, new: &str, booted: Option<&str>| {
        let facts = Facts {
            booted_image: booted.map(ToOwned::to_owned),
            ..Facts::default()
        };
        planned_with(&image(old), &image(new), &facts, false)
            .unwrap()
            .bundle
            .plan
            .deploy
    };
    let deployed = |deploy: Option<Deploy>| deploy.and_then(|deploy| deploy.image);
    assert_eq!(deployed(plan("a", "b", Some("a"))), Some("b".to_owned()));
    assert_eq!(deployed(plan("a", "b", None)), Some("b".to_owned()));
    // Booted already, or not named: no reboot.
    assert_eq!(plan("a", "b", Some("b")), None);
    assert_eq!(plan("a", "a", None), None);
    // The host is not where its configuration says.
    assert_eq!(
        deployed(plan("a", "a", Some("other"))),
        Some("a".to_owned())
    );
}

#[test]
fn a_layered_image_goes_before_the_configurations() {
    let config = config("c", &json!({"osImageURL": "os"}));
    let from = Target {
        config: "c".to_owned(),
        image: None,
    };
    let to = Target {
        config: "c".to_owned(),
        image: Some("layered".to_owned()),
    };
    let outcome = plan(&Request {
        attempt: &Attempt("a1".to_owned()),
        from: Side {
            target: &from,
            config: &config,
        },
        to: Side {
            target: &to,
            config: &config,
        },
        facts: &Facts {
            booted_image: Some("os".to_owned()),
            ..Facts::default()
        },
        policies: &Policies::default(),
        exempt: Exempt::default(),
        force: false,
    });
    let plan = outcome.unwrap().bundle.plan;
    assert_eq!(plan.deploy.unwrap().image.as_deref(), Some("layered"));
    let recorded = Expectation::Record {
        config: "c".to_owned(),
        image: Some("layered".to_owned()),
    };
    assert_eq!(plan.expect[0], recorded);
}

#[test]
fn arguments_are_compared_with_what_was_booted() {
    let with = |arguments: &[&str]| config("c", &json!({"kernelArguments": arguments}));
    let plan = |old: &[&str], new: &[&str], booted: &str| {
        let present = Some(kargs::split_line(booted));
        let facts = Facts {
            kernel_arguments: present,
            ..Facts::default()
        };
        planned_with(&with(old), &with(new), &facts, false).map(|outcome| outcome.bundle.plan)
    };
    assert_eq!(plan(&["a"], &["a"], "x a").unwrap().route, Route::Live);
    // Split otherwise, the same.
    assert_eq!(
        plan(&["a b"], &["a", "b"], "x a b").unwrap().route,
        Route::Live
    );
    let lacking = plan(&["a"], &["a"], "x").unwrap();
    assert_eq!(
        lacking.because,
        ["the host was booted without kernel arguments of its configuration"]
    );
    assert_eq!(lacking.deploy.unwrap().append_arguments, ["a"]);
    let long = "b".repeat(kargs::COMMAND_LINE_SIZE);
    assert_eq!(
        plan(&[], &[&long], "x").unwrap_err().to_string(),
        "spec.kernelArguments: the command line would have 2050 bytes, the kernel reads 2047"
    );
}

#[test]
fn a_reboot_for_another_reason_leaves_arguments_alone() {
    let old = config("c", &json!({"kernelArguments": ["a"], "osImageURL": "1"}));
    let new = config("c", &json!({"kernelArguments": ["a"], "osImageURL": "2"}));
    let facts = Facts {
        kernel_arguments: Some(kargs::split_line("x a")),
        ..Facts::default()
    };
    let deploy = planned_with(&old, &new, &facts, false)
        .unwrap()
        .bundle
        .plan
        .deploy
        .unwrap();
    assert_eq!(
        (deploy.delete_arguments, deploy.append_arguments),
        (vec![], vec![])
    );
}

#[test]
fn every_rejection_names_field_and_object() {
    let new = json!({
        "kernelType": "realtime",
        "extensions": ["usbguard"],
        "config": {"ignition": {"version": "3.5.0"},
            "storage": {
                "directories": [{"path": "/etc/d"}],
                "files": [
                    {"path": "/usr/bin/x"}, {"path": "/etc/a"}, {"path": "/etc/a/b/c"},
                    {"path": "/etc/remote", "contents": {"source": "http://h/x"}},
                ],
            },
            "systemd": {"units": [{"name": "slipway-guard.service", "mask": true}]},
        },
    });
    assert_eq!(
        refused(&json!({}), &new),
        [
            "spec.config.storage.directories: ignition directories section contains changes",
            "spec.config.storage.files[3].contents.source: /etc/remote: source must be a data: URL, is http:",
            "spec.config.storage.files[0]: cannot write /usr/bin/x: /usr is read-only: it is part of the OS image; a MachineOSConfig builds it into the pool's image",
            "spec.config.storage.files[2]: cannot write /etc/a/b/c: /etc/a is a file of this configuration",
            "spec.config.systemd.units[0].name: slipway-guard.service belongs to Slipway",
            "spec.kernelType: going from kernelType default to kernelType realtime changes packages of the booted OS; a MachineOSConfig builds them into the pool's image",
            "spec.extensions: going from extensions [] to extensions [usbguard] changes packages of the booted OS; a MachineOSConfig builds them into the pool's image",
        ]
    );
}

#[test]
fn packages_that_stay_are_those_of_the_booted_system() {
    let with = |text: &str| {
        json!({"extensions": ["usbguard"], "kernelType": "realtime",
            "config": {"ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/etc/containers/policy.json",
                "contents": {"source": policy_of(text)}}]}}})
    };
    assert_eq!(planned(&with("a"), &with("b")).route, Route::Live);
    // The next deployment has the content of the booted one.
    let mut reboots = with("a");
    reboots["kernelArguments"] = json!(["nosmt"]);
    let plan = planned(&with("a"), &reboots);
    assert_eq!(plan.route, Route::Reboot);
    assert_eq!(plan.deploy.unwrap().image, None);
    let mut os = with("a");
    os["osImageURL"] = json!("os");
    assert_eq!(
        refused(&with("a"), &os),
        [
            "spec.kernelType: the OS image has no packages of kernelType realtime; a MachineOSConfig builds them into the pool's image",
            "spec.extensions: the OS image has no packages of extensions [usbguard]; a MachineOSConfig builds them into the pool's image",
        ]
    );
}

#[test]
fn a_kernel_in_another_fips_mode_is_refused() {
    let same = config("c", &json!({"fips": true}));
    let facts = Facts {
        fips: Some(false),
        ..Facts::default()
    };
    assert_eq!(
        planned_with(&same, &same, &facts, false)
            .unwrap_err()
            .to_string(),
        "spec.fips: detected change to FIPS flag; refusing to modify FIPS on a running cluster"
    );
}

#[test]
fn certificates_that_rotate_are_left_to_who_rotates_them() {
    let ca = "/etc/kubernetes/kubelet-ca.crt";
    let with = |text: &str| {
        ignition(&json!({"storage": {"files": [
            {"path": ca, "contents": {"source": format!("data:,{text}")}}, {"path": "/etc/x"},
        ]}}))
    };
    let without = ignition(&json!({"storage": {"files": [{"path": "/etc/x"}]}}));
    let written = |plan: &Plan| {
        let mut actions = plan.steps.iter().map(|step| &step.action);
        actions.any(|action| matches!(action, Action::WriteFile { path, .. } if path == ca))
    };
    assert!(written(&planned(&without, &with("a"))));
    assert!(!written(&planned(&with("a"), &with("b"))));
    let released = planned(&with("a"), &without);
    assert_eq!(released.steps.len(), 1, "{:?}", released.steps);
}

#[test]
fn a_plan_prints_and_reads_back() {
    let plan = planned(
        &json!({}),
        &ignition(&json!({"storage": {"files": [{"path": "/etc/a", "user": {"name": "core"}}]}})),
    );
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn a_plan_shows_no_contents() {
    let secret = json!({
        "config": {"ignition": {"version": "3.5.0"},
            "passwd": {"users": [{"name": "core", "passwordHash": "topsecret"}]},
            "storage": {"files": [{"path": "/etc/a", "contents": {"source": "data:,topsecret"}}]},
        },
    });
    let plan = planned(&json!({}), &secret);
    assert!(!serde_json::to_string(&plan).unwrap().contains("topsecret"));
    assert!(!describe(&plan).contains("topsecret"));
}
