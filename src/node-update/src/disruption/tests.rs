//! What changes come to.

use serde_json::{Value, json};

use super::*;
use crate::diff::diff;

fn files(files: &[(&str, &str)]) -> Spec {
    let files: Vec<Value> = (files.iter())
        .map(|(path, text)| json!({"path": path, "contents": {"source": format!("data:,{text}")}}))
        .collect();
    config(&json!({"storage": {"files": files}}))
}

fn config(config: &Value) -> Spec {
    let mut config = config.clone();
    config["ignition"] = json!({"version": "3.5.0"});
    Spec::parse(&json!({"config": config})).unwrap().0
}

fn decided(old: &Spec, new: &Spec) -> Decision {
    decide(
        old,
        new,
        &diff(old, new),
        false,
        false,
        &Policies::default(),
    )
    .unwrap()
}

fn changed(path: &str) -> Decision {
    decided(&files(&[(path, "a")]), &files(&[(path, "b")]))
}

fn restart(unit: &str) -> Live {
    Live::Restart(unit.to_owned())
}

#[test]
fn no_change_comes_to_nothing() {
    let spec = files(&[("/etc/a", "a")]);
    assert_eq!(
        decided(&spec, &spec),
        Decision {
            reboot: false,
            drain: false,
            actions: vec![],
            words: vec!["None".to_owned()],
            because: vec![]
        }
    );
}

#[test]
fn a_file_without_a_policy_reboots_and_is_named() {
    let decision = decided(&files(&[]), &files(&[("/etc/a", "a"), ("/etc/b", "b")]));
    assert_eq!(
        decision,
        Decision {
            reboot: true,
            drain: true,
            actions: vec![],
            words: vec!["Reboot".to_owned()],
            because: vec![
                "file \"/etc/a\" changes, and no policy covers it".to_owned(),
                "file \"/etc/b\" changes, and no policy covers it".to_owned(),
            ],
        }
    );
}

#[test]
fn coming_and_going_count_as_changing() {
    let policy = "/etc/containers/policy.json";
    let (with, without) = (files(&[(policy, "a")]), files(&[]));
    for (old, new) in [(&with, &without), (&without, &with)] {
        assert_eq!(
            decided(old, new).actions,
            [Live::Reload("crio.service".to_owned())]
        );
    }
}

#[test]
fn the_defaults_do_what_upstream_does() {
    let reload = || vec![Live::Reload("crio.service".to_owned())];
    let bundle = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
    let dropin =
        "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf";
    for (path, actions) in [
        ("/var/lib/kubelet/config.json", vec![]),
        ("/etc/nmstate/openshift/node.yml", vec![]),
        ("/etc/containers/registries.d/sigstore.yaml", reload()),
        ("/etc/crio/policies/ns.json", reload()),
        (
            bundle,
            vec![
                restart("coreos-update-ca-trust.service"),
                restart("crio.service"),
            ],
        ),
        (
            "/etc/kubernetes/credential-providers/x.yaml",
            vec![restart("kubelet.service")],
        ),
        (dropin, vec![Live::DaemonReload, restart("kubelet.service")]),
    ] {
        let decision = changed(path);
        assert!(!decision.reboot && !decision.drain, "{path}");
        assert_eq!(decision.actions, actions, "{path}");
    }
}

#[test]
fn what_must_restart_is_not_reloaded_before_its_trust_is_renewed() {
    let bundle = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
    let policy = "/etc/containers/policy.json";
    let decision = decided(&files(&[]), &files(&[(policy, "a"), (bundle, "b")]));
    assert_eq!(
        decision.actions,
        [
            Live::Reload("crio.service".to_owned()),
            restart("coreos-update-ca-trust.service"),
            restart("crio.service"),
        ]
    );
}

#[test]
fn keys_and_passwords_do_nothing_by_default() {
    let keys = |key: &str| {
        config(&json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]}}))
    };
    let decision = decided(&keys("a"), &keys("b"));
    assert_eq!(
        (decision.reboot, decision.drain, decision.actions),
        (false, false, vec![])
    );
    assert_eq!(
        decision.because,
        ["SSH keys or password changes: nothing to do"]
    );
}

#[test]
fn a_unit_is_matched_by_its_whole_name() {
    let unit = |name: &str| config(&json!({"systemd": {"units": [{"name": name}]}}));
    let nothing = config(&json!({}));
    assert_eq!(
        decided(&nothing, &unit("iri-registry.service")).actions,
        [Live::DaemonReload, restart("iri-registry.service")]
    );
    let decision = decided(&nothing, &unit("kubelet.service"));
    assert!(decision.reboot);
    assert_eq!(
        decision.because,
        ["unit \"kubelet.service\" changes, and no policy covers it"]
    );
}

#[test]
fn the_longest_path_of_whole_components_decides() {
    let status = json!({"files": [
        {"path": "/", "actions": [{"type": "Drain"}]},
        {"path": "/etc/a/", "actions": [{"type": "None"}]},
        {"path": "/etc//a/./x/../b//", "actions": [{"type": "Reboot"}]},
    ]});
    let policies = Policies::parse(&status).unwrap();
    for (path, policy) in [
        ("/etc/a", "/etc/a"),
        ("/etc/a/x", "/etc/a"),
        ("/etc/a/b", "/etc/a/b"),
        ("/etc/a/b/c", "/etc/a/b"),
        ("/etc/a/bc", "/etc/a"),
        ("/etc/ab", "/"),
    ] {
        assert_eq!(policies.file(path).unwrap().path, policy, "{path}");
    }
    assert_eq!(Policies::default().file("/etc/containers"), None);
}

#[test]
fn one_reboot_makes_the_rest_needless() {
    let policy = "/etc/containers/policy.json";
    let decision = decided(&files(&[]), &files(&[(policy, "a"), ("/etc/b", "b")]));
    assert!(decision.reboot);
    assert_eq!(decision.actions, []);
    assert_eq!(
        decision.because,
        ["file \"/etc/b\" changes, and no policy covers it"]
    );
}

#[test]
fn whole_sections_and_an_administrator_reboot() {
    let nothing = config(&json!({}));
    let arguments = Spec {
        kernel_arguments: vec!["a".to_owned()],
        ..nothing.clone()
    };
    let policies = Policies::default();
    let changes = diff(&nothing, &arguments);
    let decision = decide(&nothing, &arguments, &changes, true, true, &policies).unwrap();
    assert_eq!(
        decision.because,
        [
            "an administrator asked for it",
            "the OS image changes",
            "spec.kernelArguments changes"
        ]
    );
}

#[test]
fn a_drain_by_policy_keeps_the_node_running() {
    let status = json!({"files": [{"path": "/etc/a", "actions": [
        {"type": "Drain"}, {"type": "DaemonReload"},
        {"type": "Restart", "restart": {"serviceName": "x.service"}},
        {"type": "Reload", "reload": {"serviceName": "y.service"}},
    ]}]});
    let (old, new) = (files(&[("/etc/a", "a")]), files(&[("/etc/a", "b")]));
    let policies = Policies::parse(&status).unwrap();
    let decision = decide(&old, &new, &diff(&old, &new), false, false, &policies).unwrap();
    assert_eq!(
        decision,
        Decision {
            reboot: false,
            drain: true,
            actions: vec![
                Live::DaemonReload,
                restart("x.service"),
                Live::Reload("y.service".to_owned()),
            ],
            words: ["DaemonReload", "Restart", "Reload"]
                .map(str::to_owned)
                .into(),
            because: vec![
                "file \"/etc/a\" changes, and its policy is Drain".to_owned(),
                "file \"/etc/a\" changes: reload systemd, restart x.service, reload y.service"
                    .to_owned(),
            ],
        }
    );
}

#[test]
fn a_reload_by_the_word_special_has_that_word() {
    let key = "/etc/containers/policy.json";
    let both = files(&[(REGISTRIES, ""), (key, "a")]);
    for (old, word) in [
        (files(&[(key, "a")]), "Special"),
        // By its name, too: once.
        (files(&[]), "Reload"),
        (files(&[(REGISTRIES, "")]), "Reload"),
    ] {
        assert_eq!(decided(&old, &both).words, [word]);
    }
}

#[test]
fn the_registries_configuration_drains_only_where_it_may_hurt() {
    let of = |text: &str| {
        files(&[(
            REGISTRIES,
            &text
                .replace(' ', "%20")
                .replace('"', "%22")
                .replace(['[', ']'], ""),
        )])
    };
    let search = |list: &str| of(&format!("unqualified-search-registries=%5B{list}%5D"));
    let grows = decided(&search("\"a\""), &search("\"a\",\"b\""));
    assert_eq!((grows.reboot, grows.drain), (false, false));
    assert_eq!(grows.actions, [Live::Reload("crio.service".to_owned())]);
    let shrinks = decided(&search("\"a\",\"b\""), &search("\"a\""));
    assert_eq!((shrinks.reboot, shrinks.drain), (false, true));
    let comes = decided(&files(&[]), &search("\"a\""));
    assert!(comes.drain);
    let broken = decided(&of("what?"), &search("\"a\""));
    assert!(broken.drain);
}

#[test]
fn an_unreadable_registries_configuration_is_rejected() {
    let (old, new) = (
        files(&[(REGISTRIES, "a=1")]),
        files(&[("/etc/x", "x"), (REGISTRIES, "a=")]),
    );
    let refused = decide(
        &old,
        &new,
        &diff(&old, &new),
        false,
        false,
        &Policies::default(),
    );
    let said = refused.unwrap_err().to_string();
    assert!(
        said.starts_with(
            "spec.config.storage.files[1].contents: cannot read /etc/containers/registries.conf: invalid TOML: "
        ),
        "{said}"
    );
}

#[test]
fn entry_without_actions_in_a_status_is_as_absent() {
    let status = json!({
        "files": [{ "path": "/etc/a", "actions": [] }, { "path": "/etc/b" }],
        "units": [{ "name": "a.service", "actions": [] }],
    });
    let policies = Policies::parse(&status).unwrap();
    assert_eq!(policies.file("/etc/a"), None);
    assert_eq!(policies.file("/etc/b"), None);
    assert_eq!(policies.unit("a.service"), None);
}

#[test]
fn policies_that_cannot_be_read_name_the_field() {
    for (status, said) in [
        (
            json!({"files": [{"path": "/a", "actions": [{"type": "Explode"}]}]}),
            "files[0].actions[0].type: unknown type of action \"Explode\"",
        ),
        (
            json!({"units": [{"name": "a.service", "actions": [{"type": "Restart"}]}]}),
            "units[0].actions[0].restart.serviceName: is missing or no text",
        ),
        (
            json!({"files": [{"actions": []}]}),
            "files[0].path: is missing or no text",
        ),
    ] {
        assert_eq!(Policies::parse(&status).unwrap_err().to_string(), said);
    }
}
