//! What comes between: a plain reboot, another target, a target that does not hold.
//!
//! One node, one pod that a budget holds on to: while that is there, the node stays in Draining.

mod scene;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::{NodeState, annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::audit::{self, nodes};
use lab::tree::Overlay;
use rustix::process::Signal;
use serde_json::json;
use tests::cluster::Image;
use tests::cluster::objects::{self, until};
use tests::observer::host;

use scene::{DONE_WITHIN, NODE, PHASE_WITHIN, POOL, Scene, layered_in, told};

/// Size of an image, and the speed at which it takes a minute to fetch.
const BALLAST_BYTES: u64 = 30 << 20;
const SLOW_KBIT: u32 = 4_000;

/// How long a held target is looked at.
const LEFT_ALONE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn what_comes_between_is_borne() -> Result<()> {
    let scene = Scene::start().await?;

    scene
        .a_reboot_while_fetching_changes_nothing()
        .await
        .context("reboot while fetching")?;
    scene
        .a_daemon_killed_while_fetching_fetches_again()
        .await
        .context("daemon killed while fetching")?;
    scene
        .a_reboot_while_draining_changes_nothing()
        .await
        .context("reboot while draining")?;
    scene
        .back_to_current_while_draining_undoes()
        .await
        .context("back while draining")?;
    scene
        .a_live_target_while_draining_uncordons()
        .await
        .context("live while draining")?;
    scene
        .a_cluster_of_one_node_is_not_drained()
        .await
        .context("one node")?;
    scene
        .a_control_plane_of_one_node_waits_for_people()
        .await
        .context("one node of the control plane")?;
    scene
        .only_the_newest_target_is_booted()
        .await
        .context("newest target")?;
    scene
        .the_last_word_holds_from_the_switch_on()
        .await
        .context("another target from the switch on")?;
    scene
        .a_paused_pool_lets_a_told_node_finish()
        .await
        .context("paused pool")?;
    scene
        .a_layered_image_goes_before_the_configuration()
        .await
        .context("layered image")?;
    scene
        .a_target_that_fails_is_held_until_another_comes()
        .await
        .context("failing target")
}

impl Scene {
    async fn a_reboot_while_fetching_changes_nothing(&self) -> Result<()> {
        let before = host::snapshot(self.host()?)?;
        let image = self
            .cluster
            .image(&Overlay::version("slow").ballast(BALLAST_BYTES, 7))?;
        let seen = self.cluster.fetches()?.get(NODE).map_or(0, Vec::len);
        self.host()?.limit(Some(SLOW_KBIT))?;
        self.ask(&json!({ "osImageURL": image.reference })).await?;
        self.phase("Fetching").await?;
        until("the download to begin", PHASE_WITHIN, async || {
            let asked = self.cluster.fetches()?.get(NODE).map_or(0, Vec::len);
            Ok(if asked > seen {
                Ok(())
            } else {
                Err(format!("{asked} requests so far"))
            })
        })
        .await?;
        self.reboots_into_the_same(&before).await?;
        self.phase("Fetching").await?;
        self.host()?.limit(None)?;
        self.back_to_origin().await
    }

    /// What its last life left running neither keeps it from the host nor fetches beside it.
    async fn a_daemon_killed_while_fetching_fetches_again(&self) -> Result<()> {
        let since = Timestamp::now();
        let fetching = || -> Result<Vec<String>> {
            let list = ["systemctl", "list-units", "--plain", "--no-legend"];
            let list = list.into_iter().chain(["slipway-fetch-*"]);
            let units = self.host()?.run(list)?;
            let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
            Ok(units.lines().filter_map(name).collect())
        };
        let one_unit = async |but: Option<&String>| {
            until("one fetch", PHASE_WITHIN, async || {
                Ok(match fetching()?.as_slice() {
                    [unit] if Some(unit) != but => Ok(unit.clone()),
                    units => Err(format!("there are {units:?}")),
                })
            })
            .await
        };
        let image = self
            .cluster
            .image(&Overlay::version("slower").ballast(BALLAST_BYTES, 8))?;
        self.host()?.limit(Some(SLOW_KBIT))?;
        self.ask(&json!({ "osImageURL": image.reference })).await?;
        let left = one_unit(None).await?;
        self.cluster.daemon(NODE)?.signal(Signal::KILL)?;
        one_unit(Some(&left)).await?;
        self.phase("Fetching").await?;
        self.host()?.limit(None)?;
        self.back_to_origin().await?;

        let events = audit::load(&self.cluster.control_plane().audit_log())?;
        let histories = nodes::histories(&events);
        let history = histories.get(NODE).context("the node has no history")?;
        let degraded = history.iter().find(|state| {
            let shown = state.annotations.get(annotation::STATE);
            state.at > since && shown.map(String::as_str) == Some("Degraded")
        });
        ensure!(degraded.is_none(), "it was degraded: {degraded:?}");
        Ok(())
    }

    async fn a_reboot_while_draining_changes_nothing(&self) -> Result<()> {
        self.hold_on().await?;
        let before = host::snapshot(self.host()?)?;
        let image = self.os("drained")?;
        let target = self.ask(&json!({ "osImageURL": image.reference })).await?;
        self.draining_names_what_blocks().await?;
        self.reboots_into_the_same(&before).await?;
        self.draining_names_what_blocks().await?;

        self.no_budget()?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&image)?;
        self.back_to_origin().await
    }

    async fn back_to_current_while_draining_undoes(&self) -> Result<()> {
        self.hold_on().await?;
        let boots = self.boots()?.len();
        self.ask(&json!({ "osImageURL": self.os("undone")?.reference }))
            .await?;
        self.draining_names_what_blocks().await?;
        self.back_to_origin().await?;
        ensure!(self.boots()?.len() == boots, "the host was rebooted");
        self.no_budget()
    }

    async fn a_live_target_while_draining_uncordons(&self) -> Result<()> {
        self.hold_on().await?;
        let boots = self.boots()?.len();
        self.ask(&json!({ "osImageURL": self.os("left")?.reference }))
            .await?;
        self.draining_names_what_blocks().await?;
        let users =
            json!({ "users": [{ "name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAA live"] }] });
        let live = json!({ "config": { "ignition": { "version": "3.4.0" }, "passwd": users } });
        let target = self.ask(&live).await?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        ensure!(self.boots()?.len() == boots, "the host was rebooted");
        self.no_budget()?;
        self.back_to_origin().await
    }

    /// Its pods would have nowhere to go; what `oc adm drain` would be refused is not even asked for.
    async fn a_cluster_of_one_node_is_not_drained(&self) -> Result<()> {
        let since = Timestamp::now();
        self.hold_on().await?;
        self.of_topology(Some("SingleReplica")).await?;
        let image = self.os("alone")?;
        let target = self.ask(&json!({ "osImageURL": image.reference })).await?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&image)?;
        self.evicted_none(since)?;
        self.of_topology(None).await?;
        self.no_budget()?;
        self.back_to_origin().await
    }

    /// A target that does not hold stays booted on a node of the control plane. The way back is without a drain where
    /// the way there was: it would never end.
    async fn a_control_plane_of_one_node_waits_for_people(&self) -> Result<()> {
        let objects = self.cluster.objects();
        let since = Timestamp::now();
        self.hold_on().await?;
        self.of_topology(Some("SingleReplica")).await?;
        self.in_control_plane(true).await?;
        self.pause(true).await?;
        let boots = self.boots()?.len();
        let failing = self
            .cluster
            .image(&Overlay::version("alone-failing").failing_kubelet())?;
        let ask = async |image: &Image| self.ask(&json!({ "osImageURL": image.reference })).await;
        let first = ask(&failing).await?;
        objects.patch_node(NODE, &told(&first)).await?;
        let stays = |node: &Node| {
            let says = |key| objects::annotation(node, key);
            says(annotation::STATE) == NodeState::Degraded.as_str()
                && says(annotation::REASON).contains("kubelet.service")
        };
        self.node_is("Degraded by its kubelet", DONE_WITHIN, stays)
            .await?;
        tokio::time::sleep(LEFT_ALONE).await;
        self.node_is("Degraded still", PHASE_WITHIN, stays).await?;
        self.runs(&failing)?;
        let booted = self.boots()?.len() - boots;
        ensure!(booted == 1, "the host was booted {booted} times");

        let image = self.os("alone-mended")?;
        let last = ask(&image).await?;
        objects.patch_node(NODE, &told(&last)).await?;
        self.cluster.all_done(POOL, &last, DONE_WITHIN).await?;
        self.runs(&image)?;
        let booted = self.boots()?.len() - boots;
        ensure!(booted == 3, "the host was booted {booted} times");
        self.evicted_none(since)?;
        let setting = ["get", "core.per-object-fsync"];
        let ostree = ["ostree", "config", "--repo=/sysroot/ostree/repo"];
        let setting = self.host()?.run(ostree.into_iter().chain(setting))?;
        ensure!(setting.trim() == "true", "beside etcd it is {setting}");
        self.pause(false).await?;
        self.in_control_plane(false).await?;
        self.of_topology(None).await?;
        self.no_budget()?;
        self.back_to_origin().await
    }

    async fn only_the_newest_target_is_booted(&self) -> Result<()> {
        let boots = self.boots()?.len();
        let (passed, last) = (self.os("passed")?, self.os("last")?);
        self.ask(&json!({ "osImageURL": passed.reference })).await?;
        self.phase("Fetching").await?;
        let target = self.ask(&json!({ "osImageURL": last.reference })).await?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&last)?;
        let booted = self.boots()?.len() - boots;
        ensure!(booted == 1, "the host was booted {booted} times");
        self.back_to_origin().await
    }

    /// In a paused pool, the node is told another target by hand at exactly the phase that is meant.
    async fn the_last_word_holds_from_the_switch_on(&self) -> Result<()> {
        let objects = self.cluster.objects();
        self.pause(true).await?;
        let ask = async |image: &Image| self.ask(&json!({ "osImageURL": image.reference })).await;
        let one = ask(&self.os("one")?).await?;
        let failing = self
            .cluster
            .image(&Overlay::version("passed-failing").failing_kubelet())?;
        let failing = ask(&failing).await?;
        let other = self.os("other")?;
        let last = &ask(&other).await?;
        let cases = [
            // What is only switched to is taken back, and never booted.
            ("Applying", &one, 1),
            // What is being booted is proved first: from there, the way leads on.
            ("Rebooting", &one, 2),
            // Or it is rolled back first, which is where the way leads here.
            ("Verifying", &failing, 2),
        ];
        for (phase, first, boots) in cases {
            let before = self.boots()?.len();
            objects.patch_node(NODE, &told(first)).await?;
            self.phase(phase).await?;
            objects.patch_node(NODE, &told(last)).await?;
            self.cluster.all_done(POOL, last, DONE_WITHIN).await?;
            self.runs(&other)?;
            let booted = self.boots()?.len() - before;
            ensure!(
                booted == boots,
                "{phase}: the host was booted {booted} times"
            );
        }
        self.pause(false).await?;
        self.back_to_origin().await
    }

    async fn a_paused_pool_lets_a_told_node_finish(&self) -> Result<()> {
        let image = self.os("told")?;
        let told = self.ask(&json!({ "osImageURL": image.reference })).await?;
        let is_told = |node: &Node| objects::annotation(node, annotation::DESIRED_CONFIG) == told;
        self.node_is("told", PHASE_WITHIN, is_told).await?;
        self.pause(true).await?;
        let later = self
            .ask(&json!({ "kernelArguments": ["slipway.test=later"] }))
            .await?;
        self.cluster.all_done(POOL, &told, DONE_WITHIN).await?;
        self.runs(&image)?;

        // The controller has seen both, and tells nobody.
        until("the pool to wait", PHASE_WITHIN, async || {
            let status = self
                .cluster
                .objects()
                .pool(POOL)
                .await?
                .status
                .unwrap_or_default();
            let waits = format!("Pool is paused; will not update to MachineConfig {later}");
            let is_said = status
                .conditions
                .iter()
                .any(|condition| condition.message == waits);
            Ok(if is_said {
                Ok(())
            } else {
                Err(format!("{:?}", status.conditions))
            })
        })
        .await?;
        self.node_is("left alone", PHASE_WITHIN, is_told).await?;
        self.pause(false).await?;
        self.back_to_origin().await
    }

    /// `desiredImage`, beside a configuration that stays.
    async fn a_layered_image_goes_before_the_configuration(&self) -> Result<()> {
        let objects = self.cluster.objects();
        let runs_in = |image: &str, node: &Node| {
            let says = |key| objects::annotation(node, key);
            says(annotation::CURRENT_IMAGE) == image
                && says(annotation::CURRENT_CONFIG) == self.origin
                && says(annotation::STATE) == NodeState::Done.as_str()
                && objects::is_in_service(node)
        };
        self.pause(true).await?;
        let image = self.os("layered")?;
        let layered = json!(image.reference);
        objects.patch_node(NODE, &layered_in(&layered)).await?;
        self.node_is("Done in its layered image", DONE_WITHIN, |node| {
            runs_in(&image.reference, node)
        })
        .await?;
        self.runs(&image)?;
        objects
            .patch_node(NODE, &layered_in(&serde_json::Value::Null))
            .await?;
        self.node_is("Done without", DONE_WITHIN, |node| runs_in("", node))
            .await?;
        self.pause(false).await?;
        self.back_to_origin().await
    }

    async fn a_target_that_fails_is_held_until_another_comes(&self) -> Result<()> {
        let boots = self.boots()?.len();
        let image = self
            .cluster
            .image(&Overlay::version("failing").failing_kubelet())?;
        self.ask(&json!({ "osImageURL": image.reference })).await?;
        let unmet = |node: &Node| {
            let says = |key| objects::annotation(node, key);
            says(annotation::PHASE) == "Verifying"
                && says(annotation::REASON).contains("kubelet.service")
        };
        self.node_is("Verifying, with what does not hold", DONE_WITHIN, unmet)
            .await?;
        let held = |node: &Node| {
            let says = |key| objects::annotation(node, key);
            says(annotation::PHASE) == "Held"
                && says(annotation::STATE) == NodeState::Degraded.as_str()
                && says(annotation::CURRENT_CONFIG) == self.origin
                && says(annotation::REASON).contains("kubelet.service")
                && objects::is_in_service(node)
        };
        self.node_is("Held in its old state, and in service", DONE_WITHIN, held)
            .await?;
        let there_and_back = self.boots()?.len() - boots;
        ensure!(
            there_and_back == 2,
            "the host was booted {there_and_back} times"
        );

        self.says(&["Drain", "Reboot", "NodeDone", "RolledBack"])
            .await?;

        // A daemon that starts anew leaves it at that: in this time it would read, plan, fetch and drain.
        self.cluster.daemon(NODE)?.signal(Signal::KILL)?;
        tokio::time::sleep(LEFT_ALONE).await;
        self.node_is("Held still", PHASE_WITHIN, held).await?;
        ensure!(
            self.boots()?.len() - boots == 2,
            "a held target was booted again"
        );

        // Another target is tried, and this one is not in its way.
        let image = self.os("after-failing")?;
        let target = self.ask(&json!({ "osImageURL": image.reference })).await?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&image)
    }
}
