use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::manifest::ObjectId;

fn manifest(file: &str) -> Manifest {
    let is_job = file.contains("job");
    let (group, kind) = if is_job {
        ("batch", "Job")
    } else {
        ("", "ConfigMap")
    };
    Manifest {
        file: file.to_owned(),
        document: 1,
        id: ObjectId {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: "ns".to_owned(),
            name: file.to_owned(),
        },
        api_version: "v1".to_owned(),
        object: json!({}),
        json: None,
    }
}

/// Manifests of files `<run level>_<component>_<rest>`; one with a dash first names no place.
fn manifests(files: &str) -> Vec<Manifest> {
    let name = |file: &str| match file.strip_prefix('-') {
        Some(rest) => rest.to_owned(),
        None => format!("0000_{file}.yaml"),
    };
    files
        .split_whitespace()
        .map(|file| manifest(&name(file)))
        .collect()
}

/// The stages as text: chains apart by bars, stages by lines.
fn shape(graph: &Graph) -> String {
    let chain = |tasks: &Vec<Task>| {
        let tasks: Vec<String> = tasks.iter().map(ToString::to_string).collect();
        tasks.join(" ")
    };
    let stage = |chains: &Vec<Vec<Task>>| chains.iter().map(chain).collect::<Vec<_>>().join(" | ");
    graph
        .stages()
        .iter()
        .map(stage)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn run_levels_are_stages_and_their_components_are_chains() {
    for (files, expected) in [
        ("", ""),
        ("10_a_1", "0"),
        // Levels of one component are one chain, whatever it is called.
        ("10_a_1 10_a_2 20_b_1 30_c_1", "0 1 2 3"),
        ("10_a_1 20_a_1 20_b_1 20_b_2 30_c_1", "0\n1 | 2 3\n4"),
        ("20_a_1 20_b_1 30_c_1 30_d_1", "0 | 1\n2 | 3"),
        // Levels are texts.
        ("07_a_1 7_b_1", "0 1"),
        // Names without a place are applied one after another, where they stand.
        ("-x -y 10_a_1", "0 1 2"),
        ("10_a_1 10_b_1 -x 10_c_1", "0 | 1\n2 3"),
        // The operator's own manifests come first, so that levels may go down.
        ("90_v_1 10_a_1 10_b_1", "0\n1 | 2"),
        // A Job is alone, at the start, between and at the end.
        ("10_a_job 10_a_2", "0\n1"),
        ("10_a_1 10_a_job 10_a_3", "0\n1\n2"),
        ("10_a_1 10_b_job", "0\n1"),
        ("10_a_job 10_b_job", "0\n1"),
        ("10_a_1 10_b_1 10_b_job 10_c_1 10_d_1", "0 | 1\n2\n3 | 4"),
    ] {
        let graph = Graph::of(&manifests(files), Ordering::Updating);
        assert_eq!(shape(&graph), expected, "{files}");
    }
}

#[test]
fn a_new_cluster_gets_all_components_at_once() {
    let files = "10_a_1 10_a_2 20_b_1 -x -y 30_c_job 40_d_1 40_e_1";
    let graph = Graph::of(&manifests(files), Ordering::Initializing);
    assert_eq!(shape(&graph), "0 1 | 2 | 3 | 4\n5\n6 | 7");
    assert_eq!(graph.width(), 4);
}

#[test]
fn each_attempt_to_reconcile_has_its_own_order() {
    let files: Vec<String> = (10..40).map(|level| format!("{level}_a_1")).collect();
    let manifests = manifests(&files.join(" "));
    let order = |attempt| {
        let graph = Graph::of(&manifests, Ordering::Reconciling { attempt });
        graph.stages().concat().concat()
    };
    assert_eq!(order(3), order(3));
    let mut seen = BTreeSet::new();
    for attempt in 0..16 {
        assert!(
            seen.insert(order(attempt)),
            "attempt {attempt} repeats an order"
        );
    }
    // Within eight attempts the order is rotated: each eighth comes first once.
    let mut rotated = order(0);
    rotated.rotate_left(30 / 8);
    assert_eq!(order(1), rotated);
    let few = Graph::of(&manifests[..1], Ordering::Reconciling { attempt: 7 });
    assert_eq!(shape(&few), "0");
}

/// The tasks that have to be done before one begins.
fn before(graph: &Graph, task: Task) -> BTreeSet<Task> {
    let mut earlier = BTreeSet::new();
    for chains in graph.stages() {
        if let Some(chain) = chains.iter().find(|chain| chain.contains(&task)) {
            earlier.extend(chain.iter().take_while(|other| **other != task));
            return earlier;
        }
        earlier.extend(chains.iter().flatten());
    }
    earlier
}

#[test]
fn a_failure_holds_up_what_follows_it_only() {
    let graph = Graph::of(
        &manifests("10_a_1 10_a_2 10_b_1 10_b_2 20_c_1"),
        Ordering::Updating,
    );
    let mut run = Run::new(graph, 2);
    assert_eq!(
        (run.start(), run.start(), run.start()),
        (Some(0), Some(2), None)
    );
    run.finish(0, false);
    assert_eq!(run.start(), None, "the other chain has its task");
    run.finish(2, true);
    assert_eq!((run.start(), run.start()), (Some(3), None));
    assert!(!run.is_over());
    run.finish(3, true);
    assert_eq!(run.start(), None);
    assert!(run.is_over());
    assert_eq!(
        (&*run.tally().done, &*run.tally().failed),
        (&[2, 3][..], &[0][..])
    );
    assert_eq!(run.untried(), [1, 4]);
}

#[test]
fn nothing_is_started_after_a_cancellation() {
    let mut run = Run::new(
        Graph::of(&manifests("10_a_1 10_b_1"), Ordering::Updating),
        1,
    );
    assert_eq!(run.start(), Some(0));
    run.cancel();
    assert!(!run.is_over(), "one task runs");
    run.finish(0, true);
    assert_eq!(run.start(), None);
    assert!(run.is_over());
    assert_eq!(run.untried(), [1]);
}

#[test]
fn a_chain_waits_at_a_task_that_may_not_begin() {
    let manifests = manifests("10_a_1 10_a_2 10_b_1 20_c_1");
    let mut run = Run::new(Graph::of(&manifests, Ordering::Updating), 9);
    let first = run.start_if(|task| task != 0);
    assert_eq!(first, Some(2));
    assert_eq!(run.start_if(|task| task != 0), None);
    run.finish(2, true);
    assert!(!run.is_over(), "a task is left");
    for task in [0, 1, 3] {
        assert_eq!(run.start(), Some(task));
        run.finish(task, true);
    }
    assert!(run.is_over());
}

fn any_files() -> impl Strategy<Value = Vec<Manifest>> {
    let file =
        (0..4_u8, 0..3_u8, prop::bool::weighted(0.1)).prop_map(|(level, component, is_job)| {
            let kind = if is_job { "job" } else { "x" };
            format!("{level}0_{}_{kind}", char::from(b'a' + component))
        });
    prop::collection::vec(file, 0..30).prop_map(|mut files| {
        files.sort();
        manifests(&files.join(" "))
    })
}

fn any_ordering() -> impl Strategy<Value = Ordering> {
    prop_oneof![
        Just(Ordering::Updating),
        Just(Ordering::Initializing),
        (0..20_u64).prop_map(|attempt| Ordering::Reconciling { attempt }),
    ]
}

proptest! {
    #[test]
    fn each_manifest_is_one_task(manifests in any_files(), ordering in any_ordering()) {
        let mut tasks = Graph::of(&manifests, ordering).stages().concat().concat();
        tasks.sort_unstable();
        prop_assert_eq!(tasks, (0..manifests.len()).collect::<Vec<_>>());
    }

    #[test]
    fn an_update_waits_for_lower_run_levels(manifests in any_files()) {
        let graph = Graph::of(&manifests, Ordering::Updating);
        let level = |task: Task| Place::of(&manifests[task].file).map(|place| place.run_level);
        for task in 0..manifests.len() {
            let earlier = before(&graph, task);
            for other in 0..task {
                let (one, two) = (&manifests[other], &manifests[task]);
                let is_ordered = level(other) != level(task)
                    || Place::of(&one.file) == Place::of(&two.file)
                    || [one, two].iter().any(|manifest| manifest.id.kind == "Job");
                prop_assert!(!is_ordered || earlier.contains(&other), "{} before {}", other, task);
            }
        }
    }

    /// Whatever ends when and how: no task begins before all of those before it are done, no more
    /// run than there are workers, and all that could be done is done.
    #[test]
    fn a_run_keeps_the_order(
        manifests in any_files(),
        ordering in any_ordering(),
        workers in 1..5_usize,
        ends in prop::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.9)), 60),
    ) {
        let graph = Graph::of(&manifests, ordering);
        let mut run = Run::new(graph.clone(), workers);
        let mut ends = ends.into_iter();
        while !run.is_over() {
            while let Some(task) = run.start() {
                let done: BTreeSet<Task> = run.tally().done.iter().copied().collect();
                prop_assert!(before(&graph, task).is_subset(&done));
            }
            let running = run.tally().running.clone();
            prop_assert!(!running.is_empty() && running.len() <= workers);
            let (which, is_done) = ends.next().expect("a run that does not end");
            run.finish(running[which.index(running.len())], is_done);
        }
        let failed: BTreeSet<Task> = run.tally().failed.iter().copied().collect();
        for task in run.untried() {
            let untried: BTreeSet<Task> = run.untried().into_iter().collect();
            let earlier = before(&graph, task);
            prop_assert!(earlier.iter().any(|task| failed.contains(task) || untried.contains(task)));
        }
        prop_assert!(!failed.is_empty() || run.untried().is_empty());
    }
}
