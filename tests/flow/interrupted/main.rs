//! What comes between: a plain reboot, another target, a target that does not hold.
//!
//! One node, one pod that a budget holds on to: while that is there, the node stays in Draining. A phase that would
//! pass by itself is held while something is done in it.
//!
//! - `acts`: acts one after the other, each from where the node was born
//! - `scene`: the cluster, and what is asked of it
//! - `hold`: a node that stays in a phase
//! - `before`, `after`: the acts, before the switch and from it on

mod acts;
mod after;
mod before;
mod hold;
mod scene;

use anyhow::Result;
use observer::laws::{Law, node};

use acts::Acts;
use scene::Scene;

/// What today's daemon breaks when it is told another target between the switch and the end of the checks: it plans and
/// fetches that before the node is uncordoned. See "Not there yet" in `docs/architecture.md`.
const FETCHES_WHILE_OUT: &[&Law] = &[&node::FETCH_BEFORE];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn what_comes_before_the_switch_is_borne() -> Result<()> {
    let mut acts = Acts::begin("before-the-switch").await?;
    acts.play(
        "reboot while fetching",
        Scene::a_reboot_while_fetching_changes_nothing,
    )
    .await?;
    acts.play(
        "daemon killed while fetching",
        Scene::a_daemon_killed_while_fetching_fetches_again,
    )
    .await?;
    acts.play(
        "another target while fetching",
        Scene::only_the_newest_target_is_booted,
    )
    .await?;
    acts.play(
        "reboot while draining",
        Scene::a_reboot_while_draining_changes_nothing,
    )
    .await?;
    acts.play(
        "back while draining",
        Scene::back_to_current_while_draining_undoes,
    )
    .await?;
    acts.play(
        "live target while draining",
        Scene::a_live_target_while_draining_uncordons,
    )
    .await?;
    acts.play("one node", Scene::a_cluster_of_one_node_is_not_drained)
        .await?;
    acts.play("paused pool", Scene::a_paused_pool_lets_a_told_node_finish)
        .await?;
    acts.play(
        "layered image",
        Scene::a_layered_image_goes_before_the_configuration,
    )
    .await?;
    acts.end()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn what_comes_from_the_switch_on_is_borne() -> Result<()> {
    let mut acts = Acts::begin("from-the-switch-on").await?;
    acts.play(
        "one node of the control plane",
        Scene::a_control_plane_of_one_node_waits_for_people,
    )
    .await?;
    acts.play_breaking(
        FETCHES_WHILE_OUT,
        "another target while applying",
        Scene::a_switch_is_taken_back_for_another_target,
    )
    .await?;
    acts.play_breaking(
        FETCHES_WHILE_OUT,
        "another target while rebooting",
        Scene::a_target_that_is_being_booted_is_proved_before_another,
    )
    .await?;
    acts.play_breaking(
        FETCHES_WHILE_OUT,
        "another target while verifying",
        Scene::a_target_that_fails_is_left_before_another,
    )
    .await?;
    acts.play(
        "failing target",
        Scene::a_target_that_fails_is_held_until_another_comes,
    )
    .await?;
    acts.end()
}
