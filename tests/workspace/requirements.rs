//! Weaknesses of OpenShift's programs that this project avoids, each with the tests that say how.
//!
//! Source: the specifications of the update service, the command line, the version operator and
//! managed upgrades, "Known weaknesses".

use std::collections::BTreeSet;

use crate::sources::{root, sources};

/// A requirement, and names of its tests.
type Requirement = (&'static str, &'static [&'static str]);

/// Those of the version operator, in the order of its specification: the first one is 1.
const OF_VERSION_OPERATOR: [Requirement; 20] = [
    (
        "a restart resumes, and the percentage does not fall",
        &[
            "percentage_never_falls_and_ends_at_100",
            "restart_resumes_until_it_is_where_the_process_before_was",
            "a_release_is_applied_run_level_by_run_level_and_then_left_alone",
        ],
    ),
    (
        "only included manifests count, and what is waited for has the weight of its earlier runs",
        &[
            "a_release_is_applied_run_level_by_run_level_and_then_left_alone",
            "rest_is_estimated_by_earlier_runs_of_its_steps",
        ],
    ),
    (
        "what is waited for is said with its cause, since when, and its manifest",
        &[
            "operator_that_is_waited_for_is_said_with_its_cause",
            "run_level_80_ends_when_the_control_plane_is_updated",
            "stuck_operator_is_named_and_what_was_applied_is_kept",
        ],
    ),
    (
        "several errors are said by name, and two conditions agree",
        &["several_errors_name_their_members"],
    ),
    (
        "a pass with nothing to do writes nothing, and what is undone again and again is counted",
        &[
            "a_release_is_applied_run_level_by_run_level_and_then_left_alone",
            "page_has_what_dashboards_read",
        ],
    ),
    (
        "dropped labels, annotations and keys go, and those of others stay",
        &["jobs_are_made_anew_and_dropped_fields_go"],
    ),
    (
        "dropped objects are found by inventories, and removed where that is safe",
        &[
            "objects_that_a_release_dropped_are_found_once",
            "jobs_are_made_anew_and_dropped_fields_go",
        ],
    ),
    (
        "a field that the definition rejects is left out, and the rest is written",
        &["refused_fields_are_named_but_for_those_that_each_status_has"],
    ),
    (
        "what the API server rejects of a release is found before anything is applied",
        &[
            "preflight_says_all_that_is_wrong_and_changes_nothing",
            "all_that_is_wrong_with_a_release_is_said_and_nothing_is_changed",
        ],
    ),
    (
        "an operator's opinion counts for the release that it is at",
        &["opinion_of_an_operator_counts_for_its_own_release"],
    ),
    (
        "a Job that cannot be changed or has failed is made anew",
        &["jobs_are_made_anew_and_dropped_fields_go"],
    ),
    (
        "the state of a pull is said, times are options, and a refusal is tried again soon",
        &[
            "state_of_the_pull_is_said",
            "refused_release_is_tried_again_within_a_quarter_of_the_interval",
            "bad_release_is_refused_and_the_running_one_stays",
        ],
    ),
    (
        "each store of signatures is reported, and has its own authority",
        &[
            "signed_release_is_pulled_applied_and_completed",
            "store_of_the_cluster_is_asked_with_its_own_authority",
        ],
    ),
    (
        "queries of risks wait for each other only a second, and advice has its age",
        &[
            "queries_take_turns",
            "advice_stays_while_the_service_is_away",
        ],
    ),
    (
        "an outage of the service erases no advice",
        &[
            "advice_stays_while_the_service_is_away",
            "updates_are_offered_with_their_risks_and_stay_while_the_service_is_away",
        ],
    ),
    (
        "overrides are always said, and can end",
        &["overrides_are_said_while_they_are_there_and_end_when_asked"],
    ),
    (
        "an administrator may let a release go on past a degraded operator",
        &["tolerated_operator_may_be_degraded_and_nothing_else"],
    ),
    (
        "a malformed manifest is an error of the payload, with its file",
        &["bad_manifests_end_in_a_condition_that_names_the_file"],
    ),
    (
        "a rollout is waited for without a failure, and not for ever",
        &[
            "rollout_is_no_failure_before_its_deadline",
            "run_level_80_ends_when_the_control_plane_is_updated",
        ],
    ),
    (
        "each try counts, keys are those of the release that runs, and the history's versions apply",
        &[
            "bad_manifests_end_in_a_condition_that_names_the_file",
            "signed_release_is_pulled_applied_and_completed",
            "version_of_the_history_has_the_image_that_it_had",
        ],
    ),
];

/// Those of the update service and the command line.
/// Those of managed upgrades, in the order of their specification.
const OF_MANAGED_UPGRADES: [Requirement; 12] = [
    (
        "all pools count, and each that waits or is paused is named",
        &["pool_is_open_until_all_its_machines_run_its_configuration"],
    ),
    (
        "a deleted UpgradeConfig takes with it what was added, and cancels before the start only",
        &["an_upgrade_that_is_withdrawn_or_deleted_takes_what_it_added_with_it"],
    ),
    (
        "state is in the status, and Prometheus is needed for its own gate only",
        &[
            "servers_of_alerts_that_are_away_hold_an_upgrade_and_a_closed_window_ends_it",
            "announced_states_of_one_version_are_kept",
        ],
    ),
    (
        "pods are evicted first, then removed kind by kind, except those that are exempt",
        &[
            "each_kind_of_pod_is_removed_after_its_time_in_order",
            "exempt_pods_stay_and_budgets_protect_those_of_their_namespace",
            "pods_are_removed_only_under_a_lease_that_the_daemon_has_seen",
        ],
    ),
    (
        "metrics of drains end with what they are about",
        &["series_follow_the_status_and_the_flags"],
    ),
    (
        "progress outlives the process, and nothing is done twice",
        &[
            "an_operator_that_is_killed_after_each_write_resumes_its_upgrade",
            "done_steps_are_not_run_again_and_gates_are_until_the_commencement",
        ],
    ),
    (
        "alerts that fire hold a gate, are asked about steadily, and are not the operator's own",
        &[
            "an_upgrade_waits_for_its_gates_and_leaves_nothing_behind",
            "query_leaves_out_what_is_ignored",
        ],
    ),
    (
        "windows recur, also those of the workers, whose canaries come first; hooks run between steps",
        &[
            "recurring_windows_put_a_start_off",
            "job_is_done_running_failed_or_foreign",
            "nodes_go_in_windows_only",
            "a_policy_rolls_nodes_in_steps",
        ],
    ),
    (
        "the number of extra machines is a setting, and no label of one fleet manager is needed",
        &[
            "each_missing_copy_is_made_with_machines_of_its_own",
            "each_of_several_machines_is_waited_for",
            "without_pools_the_role_of_the_machines_counts",
        ],
    ),
    (
        "steps are composed by the configuration",
        &[
            "custom_list_takes_the_place_of_the_usual_one",
            "list_that_changes_nothing_or_leaves_something_behind_is_refused",
        ],
    ),
    (
        "a scrape leaves out what is not known",
        &["nothing_is_said_of_a_cluster_without_a_version"],
    ),
    (
        "one program writes the status",
        &["an_operator_that_is_killed_after_each_write_resumes_its_upgrade"],
    ),
];

const REQUIREMENTS: &[Requirement] = &[
    (
        "queries of risks take turns, the newest release's first",
        &[
            "queries_take_turns",
            "queries_of_the_newest_release_come_first",
        ],
    ),
    (
        "a silent block wins over a risk, and what was left out is listed",
        &[
            "a_silent_block_wins_over_a_risk",
            "a_broken_rule_of_curators_is_listed_and_the_block_counts",
        ],
    ),
    (
        "a stale graph is seen, a part of a graph is served, and problems are listed",
        &[
            "readiness_names_age_and_error",
            "what_is_no_release_is_listed_and_the_rest_is_served",
            "of_two_digests_the_first_counts_and_both_are_named",
        ],
    ),
    (
        "before the first graph clients are asked to wait",
        &["before_the_first_graph_clients_are_asked_to_wait"],
    ),
    (
        "all guards are listed, and a request can be tried",
        &[
            "all_states_that_speak_against_it_are_listed",
            "a_dry_run_has_the_server_check_and_changes_nothing",
        ],
    ),
    (
        "one verdict says who holds an update up and since when, and what is not read is not taken for done",
        &["one_line_says_who_holds_an_update_up_and_since_when"],
    ),
    (
        "updates of one risk are grouped",
        &["updates_of_one_risk_have_its_text_once"],
    ),
    (
        "a forecast is a range, from this cluster's own nodes and updates",
        &[
            "a_roll_is_forecast_from_its_nodes",
            "few_updates_are_no_history",
        ],
    ),
    (
        "a message of several lines does not break a table",
        &[
            "a_pool_is_printed_with_what_its_nodes_wait_for",
            "nodes_are_sorted_by_what_is_thought_of_them_and_bad_ones_are_always_shown",
        ],
    ),
    (
        "releases differ by objects and fields, not by text",
        &["manifests_differ_by_object_and_field"],
    ),
    (
        "all bad manifests of a release are named at once, with image and file",
        &[
            "all_problems_are_named_at_once",
            "each_problem_names_image_and_file",
        ],
    ),
    (
        "signatures have limits, an identity if asked for, and are verified without a cluster",
        &[
            "claim_is_about_one_image_and_one_name",
            "large_file_is_refused",
            "release_is_made_signed_and_read",
        ],
    ),
    (
        "a mirror has the signatures too, and goes on after a failure",
        &[
            "attached_signatures_are_looked_for_by_digest",
            "release_is_mirrored_and_goes_on_after_a_failure",
        ],
    ),
];

#[test]
fn each_requirement_has_its_tests() {
    let mut functions = BTreeSet::new();
    for folder in ["src", "tests"] {
        for path in sources(&root().join(folder), "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for rest in text.split("fn ").skip(1) {
                let name = rest.split('(').next().unwrap_or_default();
                functions.insert(name.to_owned());
            }
        }
    }
    let all = OF_VERSION_OPERATOR.iter().chain(&OF_MANAGED_UPGRADES);
    for (requirement, tests) in all.chain(REQUIREMENTS) {
        for test in *tests {
            assert!(
                functions.contains(*test),
                "{requirement}: there is no test {test}"
            );
        }
    }
}
