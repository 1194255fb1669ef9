//! Laws of plans, on a host in memory.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::model::{Host, Node, Os};
use super::{config, target};
use crate::plan::{Mode, Owners};
use crate::planner::*;
use ignition::Config;
use ignition::arbitrary;
use machineconfig::spec::Spec;

/// Two images: the second ships other bytes for a file, another unit, other presets.
fn images() -> BTreeMap<String, Os> {
    let file = |text: &str| Node::File((text.as_bytes().to_vec(), Mode(0o600), Owners::ROOT));
    let set = |units: &[&str]| {
        units
            .iter()
            .map(|unit| (*unit).to_owned())
            .collect::<BTreeSet<_>>()
    };
    let one = Os {
        etc: BTreeMap::from([("/etc/shadowed".to_owned(), file("one"))]),
        units: set(&["os.service"]),
        presets: set(&["os.service"]),
    };
    let two = Os {
        etc: BTreeMap::from([
            ("/etc/shadowed".to_owned(), file("two")),
            (
                "/etc/systemd/system/a.service.d/10-a.conf".to_owned(),
                file("[Service]\n"),
            ),
        ]),
        units: set(&["os.service", "b.socket"]),
        presets: set(&["b.socket"]),
    };
    BTreeMap::from([("os/1".to_owned(), one), ("os/2".to_owned(), two)])
}

/// A step of a host's life: a configuration, with an image and arguments.
fn arbitrary_spec() -> impl Strategy<Value = Spec> {
    let image = select(&["os/1", "os/2"][..]);
    let arguments = vec(select(&["nosmt", "console=ttyS0", "a b"][..]), 0..3);
    (arbitrary::config(), image, arguments).prop_map(|(ignition, image, arguments)| Spec {
        os_image_url: image.to_owned(),
        kernel_arguments: arguments.into_iter().map(ToOwned::to_owned).collect(),
        ignition: with_keys(ignition),
        ..Spec::parse(&Value::Null).unwrap().0
    })
}

/// A `core` without key and password is refused.
fn with_keys(mut config: Config) -> Config {
    config
        .passwd
        .users
        .retain(|user| !user.ssh_authorized_keys.is_empty() || user.password_hash.is_some());
    config
}

fn named(name: &str, spec: &Spec) -> NodeConfig {
    config(name, &spec.to_value())
}

/// Policies under which every file and unit can change on a running system.
fn lenient() -> Policies {
    let units = ["a.service", "b.socket", "os.service", "absent.service"]
        .map(|unit| json!({"name": unit, "actions": [{"type": "DaemonReload"}]}));
    let status = json!({
        "files": [{"path": "/", "actions": [{"type": "None"}]}],
        "units": units,
        "sshkey": {"actions": [{"type": "None"}]},
    });
    Policies::parse(&status).unwrap()
}

/// Plans from where a host is to a specification.
fn next(host: &Host, at: &NodeConfig, to: &NodeConfig, policies: &Policies) -> Bundle {
    let facts = Facts {
        booted_image: host.image.clone(),
        kernel_arguments: Some(host.arguments.clone()),
        ..Facts::default()
    };
    let outcome = plan(&Request {
        attempt: &Attempt("a1".to_owned()),
        from: Side {
            target: &target(at),
            config: at,
        },
        to: Side {
            target: &target(to),
            config: to,
        },
        facts: &facts,
        policies,
        exempt: Exempt::default(),
        force: false,
    });
    outcome.unwrap().bundle
}

fn installed() -> (Host, NodeConfig) {
    let mut host = Host::installed(images()["os/1"].clone());
    host.image = Some("os/1".to_owned());
    (host, config("empty", &json!({"osImageURL": "os/1"})))
}

/// What a configuration leaves open follows history; the rest must not.
fn managed(host: &Host) -> Host {
    Host {
        record: None,
        ..host.clone()
    }
}

proptest! {
    #[test]
    fn applying_a_plan_leads_to_its_target_and_twice_changes_nothing(
        a in arbitrary_spec(), b in arbitrary_spec(), live in any::<bool>(),
    ) {
        let policies = if live { lenient() } else { Policies::default() };
        let (mut host, empty) = installed();
        let (a, b) = (named("a", &a), named("b", &b));
        host.apply(&next(&host, &empty, &a, &policies), &images());
        let bundle = next(&host, &a, &b, &policies);
        host.apply(&bundle, &images());
        prop_assert_eq!(host.mismatches(&bundle.plan.expect), vec![]);
        let once = host.clone();
        let again = next(&host, &b, &b, &policies);
        prop_assert!(again.plan.steps.is_empty());
        host.stop_after(&bundle, usize::MAX);
        prop_assert_eq!(host, once);
    }

    #[test]
    fn stopped_anywhere_and_run_again_a_plan_leads_to_the_same(
        a in arbitrary_spec(), b in arbitrary_spec(), live in any::<bool>(),
    ) {
        let policies = if live { lenient() } else { Policies::default() };
        let (mut host, empty) = installed();
        let (a, b) = (named("a", &a), named("b", &b));
        host.apply(&next(&host, &empty, &a, &policies), &images());
        let bundle = next(&host, &a, &b, &policies);
        let mut through = host.clone();
        through.apply(&bundle, &images());
        // A reboot starts from a new deployment each time; only a running system can be half
        // changed. What becomes of a plan that reboots is a matter of trees, boots and what
        // deployments share: `host::execute` holds it on files, for plans made up at random.
        if bundle.plan.route == Route::Live {
            for count in 0..bundle.plan.steps.len() {
                let mut stopped = host.clone();
                stopped.stop_after(&bundle, count);
                stopped.apply(&bundle, &images());
                prop_assert_eq!(&stopped, &through);
            }
        }
    }

    #[test]
    fn any_sequence_of_targets_ends_in_the_last(
        specs in vec(arbitrary_spec(), 1..5), live in of(any::<bool>()),
    ) {
        let policies = if live == Some(true) { lenient() } else { Policies::default() };
        let (mut host, mut at) = installed();
        for (index, spec) in specs.iter().enumerate() {
            let to = named(&format!("c{index}"), spec);
            let bundle = next(&host, &at, &to, &policies);
            host.apply(&bundle, &images());
            prop_assert_eq!(host.mismatches(&bundle.plan.expect), vec![]);
            at = to;
        }
        // And it is the state that going there at once leads to.
        let (mut direct, empty) = installed();
        direct.apply(&next(&direct, &empty, &at, &policies), &images());
        prop_assert_eq!(&host.nodes, &direct.nodes);
        // The presets of an OS decide when a unit is restored, not when it comes with the OS. Links
        // of a masked unit do nothing. A unit without `[Install]` has no links: that it was enabled
        // says nothing once its file is gone.
        if specs.iter().all(|spec| spec.os_image_url == "os/1") {
            for host in [&mut host, &mut direct] {
                let Host { links, nodes, os, .. } = host;
                links.retain(|unit, links| {
                    let node = nodes.get(&format!("/etc/systemd/system/{unit}"));
                    let is_absent = node.is_none() && !os.units.contains(unit);
                    node != Some(&Node::Mask) && !(links.is_empty() && is_absent)
                });
            }
            prop_assert_eq!(&host.links, &direct.links);
        }
        prop_assert_eq!(&host.keys, &direct.keys);
        prop_assert_eq!(&host.password, &direct.password);
    }

    #[test]
    fn going_back_to_nothing_leaves_the_os_as_it_ships(spec in arbitrary_spec()) {
        let (mut host, empty) = installed();
        let fresh = host.clone();
        let policies = Policies::default();
        let there = named("there", &spec);
        host.apply(&next(&host, &empty, &there, &policies), &images());
        host.apply(&next(&host, &there, &empty, &policies), &images());
        prop_assert_eq!(managed(&host), managed(&fresh));
    }
}
