//! What comes between: a plain reboot, another target, a target that does not hold.
//!
//! One node, one pod that a budget holds on to: while that is there, the node stays in Draining. A
//! phase that would end on its own is held while something is done in it.
//!
//! - `scenarios`: scenarios one after the other, each from the node's initial configuration
//! - `env`: the cluster, and what scenarios do with it
//! - `hold`: a node that stays in a phase
//! - `before`, `after`: the scenarios, before the switch and from it on

mod after;
mod before;
mod env;
mod hold;
mod scenarios;

use anyhow::Result;

use env::Env;
use scenarios::Scenarios;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn disturbances_before_the_switch_are_survived() -> Result<()> {
    let mut scenarios = Scenarios::begin("before-the-switch").await?;
    scenarios
        .run(
            "reboot while fetching",
            Env::a_reboot_while_fetching_changes_nothing,
        )
        .await?;
    scenarios
        .run(
            "daemon killed while fetching",
            Env::a_daemon_killed_while_fetching_fetches_again,
        )
        .await?;
    scenarios
        .run(
            "another target while fetching",
            Env::only_the_newest_target_is_booted,
        )
        .await?;
    scenarios
        .run(
            "reboot while draining",
            Env::a_reboot_while_draining_changes_nothing,
        )
        .await?;
    scenarios
        .run(
            "daemon replaced",
            Env::a_replaced_daemon_finishes_the_update,
        )
        .await?;
    scenarios
        .run(
            "back while draining",
            Env::back_to_current_while_draining_undoes,
        )
        .await?;
    scenarios
        .run(
            "live target while draining",
            Env::a_live_target_while_draining_uncordons,
        )
        .await?;
    scenarios
        .run(
            "another target while draining",
            Env::another_target_while_draining_is_fetched_in_service,
        )
        .await?;
    scenarios
        .run("one node", Env::a_cluster_of_one_node_is_not_drained)
        .await?;
    scenarios
        .run(
            "paused pool",
            Env::a_paused_pool_lets_an_assigned_node_finish,
        )
        .await?;
    scenarios
        .run(
            "layered image",
            Env::a_layered_image_goes_before_the_configuration,
        )
        .await?;
    scenarios.end()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn disturbances_from_the_switch_on_are_survived() -> Result<()> {
    let mut scenarios = Scenarios::begin("from-the-switch-on").await?;
    scenarios
        .run(
            "one node of the control plane",
            Env::a_control_plane_of_one_node_waits_for_people,
        )
        .await?;
    scenarios
        .run(
            "another target while applying",
            Env::a_switch_is_reverted_for_another_target,
        )
        .await?;
    scenarios
        .run(
            "another target while rebooting",
            Env::a_target_that_is_being_booted_is_verified_before_another,
        )
        .await?;
    scenarios
        .run(
            "another target while verifying",
            Env::a_target_that_fails_is_rolled_back_before_another,
        )
        .await?;
    scenarios
        .run(
            "failing target",
            Env::a_target_that_fails_is_held_until_another_comes,
        )
        .await?;
    scenarios.end()
}
