//! Steps against a world of builds, Jobs and a registry.

mod world;

use api::ConditionStatus;
use api::machineconfiguration::BuildHold;
use serde_json::json;

use self::world::World;
use super::*;
use crate::observed::ImageRemoval;

const REBUILD: &str = annotation::REBUILD;

/// A world whose image is built and on its node.
fn built() -> World {
    let mut world = World::new();
    world.settle();
    world.complete_job();
    world.settle();
    world.roll();
    world.settle();
    world
}

#[test]
fn a_config_makes_one_build_named_by_its_content() {
    let mut world = World::new();
    world.settle();
    let name = world.plan().name;
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Building)]);
    // It is named from its start.
    assert_eq!(world.current(), Some(name.clone()));
    assert_eq!(world.config_status().current_image_pull_spec, None);
    assert_eq!(world.made.len(), 2);

    world.complete_job();
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Succeeded)]);
    let status = world.config_status();
    assert_eq!(status.current_image_pull_spec, Some(world.image_of(&name)));
    assert_eq!(status.observed_generation, Some(1));
    let config = world.config.as_ref().unwrap();
    let annotations = config.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[annotation::CURRENT_MACHINE_OS_BUILD], name);
    // What it needed is gone.
    assert!(world.made.is_empty() && world.jobs.is_empty());
}

#[test]
fn a_change_of_the_config_ends_the_running_build() {
    let mut world = World::new();
    world.settle();
    let first = world.plan().name;
    world.edit("RUN true");
    world.settle();
    let second = world.plan().name;
    assert_ne!(first, second);
    assert_eq!(world.phases(), [(second.clone(), BuildPhase::Building)]);
    assert_eq!(world.current(), Some(second.clone()));
    assert_eq!(world.config_status().observed_generation, Some(2));
    let jobs: Vec<&String> = world.jobs.keys().collect();
    assert_eq!(jobs, [&second]);
}

#[test]
fn a_change_of_the_pool_and_of_the_base_image_ends_the_running_build() {
    for base in ["quay.io/base@sha256:1", "quay.io/base@sha256:2"] {
        let mut world = World::new();
        world.settle();
        world.render("rendered-worker-2", base);
        world.settle();
        let name = world.plan().name;
        assert_eq!(world.phases(), [(name, BuildPhase::Building)], "{base}");
        assert_eq!(world.job_count, 2);
    }
}

#[test]
fn a_failed_build_is_not_repeated_and_an_edit_recovers() {
    let mut world = World::new();
    world.settle();
    world.fail_job();
    world.settle();
    let failed = world.plan().name;
    assert_eq!(world.phases(), [(failed.clone(), BuildPhase::Failed)]);
    let build = world.builds.get(&failed).unwrap();
    let condition = build.condition(&api::machineconfiguration::BuildConditionType::Failed);
    let message = &condition.unwrap().message;
    assert!(
        message.contains("BackoffLimitExceeded") && message.ends_with("no space"),
        "{message}"
    );
    // It stays for inspection, with its Job.
    world.settle();
    assert_eq!((world.job_count, world.jobs.len()), (1, 1));

    world.edit("RUN true");
    world.settle();
    let second = world.plan().name;
    assert_eq!(world.phases(), [(second.clone(), BuildPhase::Building)]);
    assert_eq!(world.jobs.keys().collect::<Vec<_>>(), [&second]);
}

#[test]
fn a_deleted_job_interrupts_its_build_and_a_deleted_pod_does_not() {
    let mut world = World::new();
    world.settle();
    let name = world.plan().name;
    world.jobs.get_mut(&name).unwrap().1 = None;
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Building)]);
    world.jobs.clear();
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Interrupted)]);
    assert_eq!(world.job_count, 1);
    // A rebuild starts over.
    world.annotate(REBUILD);
    world.settle();
    assert_eq!(world.phases(), [(name, BuildPhase::Building)]);
}

#[test]
fn what_keeps_a_pod_from_running_is_reported_once_and_ends_with_it() {
    let held = |message: &str| {
        let message = message.to_owned();
        let hold = BuildHold::PodNotScheduled;
        Some(PodHold { hold, message })
    };
    let mut world = World::new();
    world.settle();
    let name = world.plan().name;
    let text_of = |world: &World| {
        let found = world.builds[&name].hold();
        found.map(|(_, why)| why.to_owned())
    };
    assert_eq!(text_of(&world), None);
    for why in ["0/3 nodes", "0/4 nodes"] {
        world.held = held(why);
        world.settle();
        assert_eq!(text_of(&world).as_deref(), Some(why));
        assert_eq!(world.steps(1), 1, "it is written once");
    }
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Building)]);
    // Another process reads what is stored.
    world.forget();
    assert_eq!(world.steps(1), 1);
    world.held = None;
    world.settle();
    assert_eq!(text_of(&world), None);
    let started = world.builds[&name]
        .status
        .as_ref()
        .unwrap()
        .build_start
        .clone();

    // Its time ends without a pod.
    world.held = held("0/3 nodes");
    world.settle();
    world.fail_job();
    world.jobs.get_mut(&name).unwrap().1 = None;
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Failed)]);
    let build = &world.builds[&name];
    let failed = build.condition(&api::machineconfiguration::BuildConditionType::Failed);
    assert_eq!(failed.unwrap().message, "BackoffLimitExceeded: 0/3 nodes");
    assert_eq!(build.status.as_ref().unwrap().build_start, started);
    assert_eq!(text_of(&world), None);
}

#[test]
fn a_deleted_build_that_is_wanted_comes_back() {
    let mut world = World::new();
    world.settle();
    let name = world.plan().name;
    world.builds.clear();
    // Its Job is deleted after it; until then it is another's.
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Building)]);
    let uid = world.builds[&name].metadata.uid.clone().unwrap();
    assert_eq!(world.jobs[&name].0.owner, uid);
    assert_eq!(world.job_count, 2);
}

#[test]
fn a_rebuild_builds_the_same_inputs_again() {
    let mut world = built();
    let name = world.plan().name;
    let uid = world.builds[&name].metadata.uid.clone();
    // A build of another configuration, with the same content and image.
    world.render("rendered-worker-2", "quay.io/base@sha256:1");
    world.settle();
    assert_eq!(world.job_count, 1);
    world.annotate(REBUILD);
    world.settle();
    let second = world.plan().name;
    assert_eq!(world.phases(), [(second, BuildPhase::Building)]);
    assert!(!world.has_annotation(REBUILD));
    assert!(!world.builds.values().any(|build| build.metadata.uid == uid));
    assert_eq!(world.job_count, 2);
    // The image that nodes run stays until there is another.
    assert!(world.removed.is_empty());
}

#[test]
fn an_image_of_equal_content_is_reused_without_a_job() {
    let mut world = built();
    let first = world.plan().name;
    world.render("rendered-worker-2", "quay.io/base@sha256:1");
    world.settle();
    let second = world.plan().name;
    assert_ne!(first, second);
    assert_eq!(world.job_count, 1);
    let image = world.image_of(&second);
    assert_eq!(world.config_status().current_image_pull_spec, Some(image));
    assert_eq!(world.current(), Some(second));
    // A node has that image, so that both stay.
    assert_eq!(world.phases().len(), 2);
}

#[test]
fn an_image_that_left_the_registry_is_built_again_when_it_is_needed() {
    let mut world = built();
    let name = world.plan().name;
    world.registry.clear();
    world.settle();
    // All nodes have it.
    assert_eq!(world.job_count, 1);
    world.nodes.push(None);
    world.settle();
    assert_eq!(world.phases(), [(name, BuildPhase::Building)]);
    assert_eq!(world.job_count, 2);
}

#[test]
fn an_image_that_is_not_there_is_not_reused() {
    let mut world = built();
    world.registry.clear();
    world.render("rendered-worker-2", "quay.io/base@sha256:1");
    world.settle();
    let name = world.plan().name;
    assert_eq!(world.phases(), [(name, BuildPhase::Building)]);
}

#[test]
fn a_registry_that_is_silent_or_refuses_loses_no_image() {
    for reply in [
        RegistryReply::Unreachable("timeout".to_owned()),
        RegistryReply::NotAllowed("401".to_owned()),
        RegistryReply::NotSupported("405".to_owned()),
    ] {
        let mut world = built();
        world.nodes.push(None);
        world.override_reply = Some(reply);
        world.settle();
        assert_eq!(world.job_count, 1);
        assert_eq!(world.phases()[0].1, BuildPhase::Succeeded);
    }
}

#[test]
fn the_tag_has_the_digest_where_the_pod_is_gone() {
    let mut world = World::new();
    world.settle();
    world.complete_job();
    let name = world.plan().name;
    world.jobs.get_mut(&name).unwrap().1 = None;
    world.override_reply = Some(RegistryReply::Unreachable("timeout".to_owned()));
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Building)]);
    world.override_reply = None;
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Succeeded)]);
    assert!(world.image_of(&name).contains("@sha256:"));
    // A registry that has no such tag says that nothing was pushed.
    let mut world = World::new();
    world.settle();
    world.complete_job();
    world.jobs.get_mut(&name).unwrap().1 = None;
    world.registry.clear();
    world.settle();
    assert_eq!(world.phases(), [(name, BuildPhase::Failed)]);
}

#[test]
fn a_superseded_image_goes_once_no_node_has_it() {
    let mut world = built();
    let first = world.plan().name;
    let old = world.image_of(&first);
    world.edit("RUN true");
    world.settle();
    world.complete_job();
    world.settle();
    // The node still has it.
    assert_eq!(world.phases().len(), 2);
    assert!(world.removed.is_empty());
    world.roll();
    world.settle();
    assert_eq!(world.phases(), [(world.plan().name, BuildPhase::Succeeded)]);
    assert_eq!(world.removed, [old]);
}

#[test]
fn a_registry_that_keeps_an_image_is_asked_again_or_never() {
    for (removal, count) in [
        (ImageRemoval::Later("401".to_owned()), 2),
        (ImageRemoval::Stays("405".to_owned()), 1),
    ] {
        let mut world = built();
        world.edit("RUN true");
        world.settle();
        world.complete_job();
        world.settle();
        world.roll();
        world.override_removal = Some(removal);
        world.settle();
        assert_eq!(world.phases().len(), count);
    }
}

#[test]
fn without_its_config_nothing_stays_but_what_nodes_have() {
    let mut world = built();
    let image = world.image_of(&world.plan().name);
    world.edit("RUN true");
    world.settle();
    assert_eq!(world.phases().len(), 2);
    world.config = None;
    world.settle();
    // The running build ends, and the image that a node has stays.
    assert_eq!(world.phases().len(), 1);
    assert!(world.jobs.is_empty() && world.removed.is_empty());
    world.nodes.clear();
    world.settle();
    assert!(world.builds.is_empty());
    assert_eq!(world.removed, [image]);
}

#[test]
fn refused_inputs_end_what_runs_and_are_reported() {
    let mut world = built();
    let first = world.plan().name;
    world.edit("RUN true");
    world.settle();
    world.refusal = Some(BuildRefusal::new(&"MachineOSConfig worker", "spec.x", "no"));
    world.edit("RUN false");
    world.settle();
    assert_eq!(world.phases(), [(first, BuildPhase::Succeeded)]);
    let status = world.config_status();
    assert_eq!(
        (status.observed_generation, status.machine_os_build),
        (Some(3), None)
    );
    assert!(status.current_image_pull_spec.is_some());
    let refused = &status.conditions[0];
    assert_eq!(
        (
            refused.r#type.as_str(),
            refused.status,
            refused.message.as_str()
        ),
        ("Refused", ConditionStatus::True, "spec.x: no")
    );
    world.refusal = None;
    world.settle();
    let refused = &world.config_status().conditions[0];
    assert_eq!(
        (refused.status, refused.reason.as_str()),
        (ConditionStatus::False, "Accepted")
    );
}

#[test]
fn a_missing_secret_or_builder_holds_a_build_and_ends_none() {
    let obstacle = BuildRefusal::new(&"ConfigMap images", "images.json", "no builder");
    let mut world = World::new();
    world.logins = Err(obstacle.clone());
    world.settle();
    let name = world.plan().name;
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Initial)]);
    assert_eq!(
        world.config_status().conditions[0].message,
        obstacle.to_string()
    );
    assert_eq!(world.current(), Some(name.clone()));
    world.logins = Ok(());
    world.obstacle = Some(obstacle.clone());
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Initial)]);
    world.obstacle = None;
    world.settle();
    assert_eq!(world.phases(), [(name.clone(), BuildPhase::Building)]);
    assert_eq!(
        world.config_status().conditions[0].status,
        ConditionStatus::False
    );
    world.obstacle = Some(obstacle);
    world.settle();
    assert_eq!(world.phases(), [(name, BuildPhase::Building)]);
}

#[test]
fn a_pool_without_configuration_waits() {
    let mut world = World::new();
    world.is_rendered = false;
    world.settle();
    assert!(world.builds.is_empty());
    assert_eq!(world.config.as_ref().unwrap().status, None);
}

#[test]
fn a_build_that_ends_while_the_controller_is_away_is_taken_up() {
    // The controller stops after each number of actions, and another one continues.
    let whole = built();
    for stop in 0..40 {
        let mut world = World::new();
        world.steps(stop);
        world.forget();
        world.settle();
        world.complete_job();
        world.steps(stop % 5);
        world.forget();
        world.settle();
        world.roll();
        world.settle();
        assert_eq!(world.phases(), whole.phases(), "stopped after {stop}");
        assert_eq!(world.config_status(), whole.config_status());
        assert_eq!(world.job_count, 1);
        assert!(world.made.is_empty() && world.jobs.is_empty());
    }
}

proptest::proptest! {
    #[test]
    fn whatever_happens_one_build_runs_and_the_newest_inputs_are_built(
        events in proptest::collection::vec((0_u8..12, 0_usize..4), 0..25),
    ) {
        let mut world = World::new();
        for (event, steps) in events {
            match event {
                0 => world.edit("RUN true"),
                1 => world.edit("RUN false"),
                2 => world.render("rendered-worker-1", "quay.io/base@sha256:1"),
                3 => world.render("rendered-worker-2", "quay.io/base@sha256:1"),
                4 => world.annotate(REBUILD),
                5 => world.complete_job(),
                6 => world.fail_job(),
                7 => world.jobs.clear(),
                8 => world.registry.clear(),
                9 => world.roll(),
                10 => world.forget(),
                _ => { world.builds.clear(); }
            }
            world.steps(steps);
        }
        world.settle();
        let running = world.phases().into_iter().filter(|(_, phase)| !phase.is_final());
        proptest::prop_assert!(running.count() <= 1);
        let name = world.plan().name;
        proptest::prop_assert_eq!(world.current(), Some(name.clone()));
        // A rebuild leads out of whatever state.
        world.annotate(REBUILD);
        world.settle();
        world.complete_job();
        world.settle();
        world.roll();
        world.settle();
        proptest::prop_assert_eq!(world.phases(), vec![(name.clone(), BuildPhase::Succeeded)]);
        let image = world.image_of(&name);
        proptest::prop_assert_eq!(world.config_status().current_image_pull_spec, Some(image.clone()));
        proptest::prop_assert!(world.registry.values().any(|there| *there == image));
        world.collect_garbage();
        proptest::prop_assert!(world.made.is_empty() && world.jobs.is_empty());
        proptest::prop_assert!(json!(world.config_status())["machineOSBuild"]["name"] == name);
    }
}
