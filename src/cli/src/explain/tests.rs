use std::collections::BTreeSet;

use api::config::ClusterConditionType;
use api::machineconfiguration::controller_config::ControllerConfigConditionType;
use api::machineconfiguration::machine_config_pool::{PoolConditionReason, PoolConditionType};
use api::machineconfiguration::{
    BuildConditionType, BuildHold, NodeState, PhaseName, SettingConditionType, annotation,
};
use api::operator::machine_configuration::MachineConfigurationConditionType;

use ::pool::image::PoolImageState;
use ::pool::pins::PinState;

use super::*;

/// Words of enums whose values are shown. Those of the programs are in `tests/workspace/words.rs`.
#[test]
fn every_value_of_the_enums_is_explained() {
    let holds = BuildHold::ALL.iter().map(|hold| hold.as_str());
    let images = PoolImageState::WORDS.into_iter();
    let pins = PinState::ALL.iter().map(|state| state.as_str());
    let phases = PhaseName::ALL.iter().map(|phase| phase.as_str());
    let states = NodeState::ALL.iter().map(|state| state.as_str());
    let known = [
        BuildConditionType::KNOWN,
        ClusterConditionType::KNOWN,
        ControllerConfigConditionType::KNOWN,
        MachineConfigurationConditionType::KNOWN,
        PoolConditionReason::KNOWN,
        PoolConditionType::KNOWN,
        SettingConditionType::KNOWN,
    ];
    let words = known.into_iter().flatten().copied();
    let mut count = 0;
    let of_images = holds.chain(images).chain(pins);
    for word in phases.chain(states).chain(words).chain(of_images) {
        // No reason at all.
        if word.is_empty() {
            continue;
        }
        assert!(!find(word).is_empty(), "{word} is not explained");
        count += 1;
    }
    assert!(count > 50, "only {count} words");
}

#[test]
fn annotations_of_builds_pins_and_people_are_explained() {
    for key in [
        annotation::REBUILD,
        annotation::CURRENT_MACHINE_OS_BUILD,
        annotation::IMAGE_CONTENT,
        annotation::PUSH_SECRET,
        annotation::DESIRED_PINS,
        annotation::CURRENT_PINS,
        annotation::NOT_PINNED,
        annotation::HOLD,
        api::stop::STOP,
        annotation::PAUSED_BY,
        api::config::control_plane_only::CONTROL_PLANE_ONLY,
    ] {
        let found = find(key);
        assert_eq!(found.len(), 1, "{key}");
        assert!(found[0].place.starts_with("annotation of "), "{key}");
    }
}

#[test]
fn each_word_is_explained_once_for_each_place() {
    let mut seen = BTreeSet::new();
    for one in all() {
        assert!(seen.insert((one.word, one.place)), "{} twice", one.word);
        for sentence in [one.meaning, one.action] {
            assert!(sentence.ends_with('.'), "{}: {sentence}", one.word);
        }
    }
}

#[test]
fn a_word_is_found_without_case_and_with_what_differs() {
    let words = |text: &str| -> Vec<_> { find(text).iter().map(|one| one.word).collect() };
    assert_eq!(words("rollouthalted"), ["RolloutHalted"]);
    assert_eq!(
        words("2 nodes are reporting degraded status on sync"),
        ["<count> nodes are reporting degraded status on sync"]
    );
    assert_eq!(words("AdminAck-ack-4.16-kube-1.30"), ["AdminAck-<gate>"]);
    // What differs is not empty.
    assert_eq!(words("AdminAck-"), [""; 0]);
    assert_eq!(words("Degraded").len(), 4);
}

#[test]
fn a_word_is_printed_for_each_place() {
    assert_eq!(
        text(&find("NodesNotReady")),
        "NodesNotReady: reason of a condition of a MachineConfigPool\n  Nodes that are next are not \
         ready, or cordoned by an administrator.\n  To do: Uncordon them, or repair their kubelet.\n"
    );
    assert!(text(&find("Completed")).contains("\n\nCompleted: state in status.history"));
}

#[test]
fn an_unknown_word_names_those_like_it() {
    let run = |word: &str| {
        let arguments = ExplainArgs {
            words: vec![word.to_owned()],
            output: None,
        };
        run(&arguments).unwrap_err().to_string()
    };
    assert_eq!(
        run("Halted"),
        "\"Halted\" is no word of Slipway; it is like RolloutHalted"
    );
    assert_eq!(
        run("xyzzy"),
        "\"xyzzy\" is no word of Slipway: `slipway explain` lists all"
    );
}

/// Each alert that is deployed is explained, and its page has the same text.
#[test]
fn every_alert_links_a_page_with_what_is_explained() {
    const PAGE: &str = include_str!("../../../../docs/guides/alerts.md");
    const FILES: [&str; 6] = [
        include_str!("../../../../deploy/monitoring/config-server-alerts.yaml"),
        include_str!("../../../../deploy/monitoring/controller-alerts.yaml"),
        include_str!("../../../../deploy/monitoring/daemon-alerts.yaml"),
        include_str!("../../../../deploy/monitoring/upgrade-alerts.yaml"),
        include_str!("../../../../deploy/monitoring/version-alerts.yaml"),
        include_str!("../../../../deploy/update-service/monitoring/alerts.yaml"),
    ];
    let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut deployed = BTreeSet::new();
    for alert in FILES
        .iter()
        .flat_map(|file| file.split("- alert: ").skip(1))
    {
        let (name, rest) = alert.split_once('\n').unwrap();
        deployed.insert(name);
        let link = format!("/guides/alerts.html#{}\n", name.to_lowercase());
        assert!(rest.contains(&link), "{name} does not link its section");
        let found = find(name).into_iter();
        let found: Vec<_> = found
            .filter(|it| it.place.starts_with("alert of "))
            .collect();
        let [one] = found[..] else {
            panic!("{name} has {} explanations", found.len());
        };
        let Explanation {
            meaning, action, ..
        } = one;
        let section = format!("## {name} {meaning} **To do.** {action}");
        assert!(page.contains(&section), "{name}: another text");
    }
    let explained = all().filter(|it| it.place.starts_with("alert of "));
    let explained: BTreeSet<_> = explained.map(|it| it.word).collect();
    assert_eq!(explained, deployed);
}
