//! What comes before the switch: while the node fetches or is drained.

use anyhow::{Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::tree::Overlay;
use nix::sys::signal::Signal;
use observer::host;
use testbed::config::Config;
use testbed::objects;
use testbed::{DONE_WITHIN, SOON, until};

use crate::env::{BALLAST_BYTES, Env, NODE, POOL};
use crate::hold::Hold;

impl Env {
    pub(crate) async fn a_reboot_while_fetching_changes_nothing(&self) -> Result<()> {
        let before = host::snapshot(self.host()?)?;
        let image = self
            .cluster
            .image(&Overlay::version("slow").ballast(BALLAST_BYTES, 7))?;
        self.fetches_slowly(&image).await?;
        self.reboots_into_the_same(&before).await?;
        self.phase("Fetching").await
    }

    /// What its last life left running neither keeps it from the host nor fetches beside it.
    pub(crate) async fn a_daemon_killed_while_fetching_fetches_again(&self) -> Result<()> {
        let since = Timestamp::now();
        let fetching = || -> Result<Vec<String>> {
            let list = ["systemctl", "list-units", "--plain", "--no-legend"];
            let list = list.into_iter().chain(["slipway-fetch-*"]);
            let units = self.host()?.run(list)?;
            let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
            Ok(units.lines().filter_map(name).collect())
        };
        let one_unit = async |but: Option<&String>| {
            until("one fetch", SOON, async || {
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
        self.slow()?;
        self.target_of(&image).await?;
        let left = one_unit(None).await?;
        self.cluster.daemon(NODE)?.signal(Signal::SIGKILL)?;
        one_unit(Some(&left)).await?;
        self.phase("Fetching").await?;
        self.restore().await?;

        let was_degraded = self.showed_since(since, |shown| {
            shown.get(annotation::STATE).map(String::as_str) == Some("Degraded")
        })?;
        ensure!(!was_degraded, "it was degraded");
        Ok(())
    }

    pub(crate) async fn only_the_newest_target_is_booted(&self) -> Result<()> {
        let (since, boots) = (Timestamp::now(), self.boots()?.len());
        let passed = self
            .cluster
            .image(&Overlay::version("passed").ballast(BALLAST_BYTES, 9))?;
        let last = self.os("last")?;
        self.fetches_slowly(&passed).await?;
        let target = self.target_of(&last).await?;
        // Before the first one is through: the daemon has turned to the other.
        until("the daemon to fetch the newest", SOON, async || {
            let waits_for_it = self.showed_since(since, |shown| {
                let waits_for = shown.get(annotation::WAITS_FOR);
                waits_for.is_some_and(|what| what.contains(&last.reference))
            })?;
            let not_yet = || "it waits for something else".to_owned();
            Ok(waits_for_it.then_some(()).ok_or_else(not_yet))
        })
        .await?;
        self.fast()?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&last)?;
        self.booted_since(boots, 1)
    }

    pub(crate) async fn a_reboot_while_draining_changes_nothing(&self) -> Result<()> {
        self.hold_on().await?;
        let before = host::snapshot(self.host()?)?;
        let image = self.os("drained")?;
        let target = self.target_of(&image).await?;
        self.draining_names_what_blocks().await?;
        self.reboots_into_the_same(&before).await?;
        self.draining_names_what_blocks().await?;

        self.no_budget()?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&image)
    }

    /// As in a rollout of the DaemonSet, which waits for no node: each phase goes on where it was.
    pub(crate) async fn a_replaced_daemon_finishes_the_update(&self) -> Result<()> {
        self.hold_on().await?;
        let boots = self.boots()?.len();
        let image = self.os("replaced")?;
        let target = self.target_of(&image).await?;
        self.draining_names_what_blocks().await?;
        let replaced = self.replace_daemon().await?;
        until("the next daemon to evict", SOON, async || {
            Ok(match self.evicted_none(replaced) {
                Err(_) => Ok(()),
                Ok(()) => Err("it did not".to_owned()),
            })
        })
        .await?;
        self.draining_names_what_blocks().await?;

        Hold::Applying.hold(self.host()?)?;
        self.no_budget()?;
        self.phase_within(Hold::Applying.phase(), DONE_WITHIN)
            .await?;
        self.replace_daemon().await?;
        self.daemon_says("waiting for what the daemon before began")
            .await?;
        self.phase(Hold::Applying.phase()).await?;
        self.node_is("out of service", SOON, |node| !objects::is_in_service(node))
            .await?;
        self.booted_since(boots, 0)?;
        Hold::Applying.let_go(self.host()?)?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&image)?;
        self.booted_since(boots, 1)
    }

    pub(crate) async fn back_to_current_while_draining_undoes(&self) -> Result<()> {
        self.hold_on().await?;
        let boots = self.boots()?.len();
        self.target_of(&self.os("undone")?).await?;
        self.draining_names_what_blocks().await?;
        self.back_to_origin().await?;
        self.booted_since(boots, 0)
    }

    pub(crate) async fn a_live_target_while_draining_uncordons(&self) -> Result<()> {
        self.hold_on().await?;
        let boots = self.boots()?.len();
        self.target_of(&self.os("left")?).await?;
        self.draining_names_what_blocks().await?;
        let live = Config::new().keys(&["ssh-rsa AAAA live"]);
        let target = self.ask(&live.spec()).await?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.booted_since(boots, 0)
    }

    /// The node serves while the newer target is fetched, and is drained again.
    pub(crate) async fn another_target_while_draining_is_fetched_in_service(&self) -> Result<()> {
        self.pause(true).await?;
        self.hold_on().await?;
        let boots = self.boots()?.len();
        let first = self.target_of(&self.os("drained-for-first")?).await?;
        let image = self.os("drained-for-next")?;
        let last = self.target_of(&image).await?;
        self.cluster.objects().set_target(NODE, &first).await?;
        self.draining_names_what_blocks().await?;
        self.daemon_sees(&last).await?;
        self.no_budget()?;
        self.cluster.all_done(POOL, &last, DONE_WITHIN).await?;
        self.runs(&image)?;
        self.booted_since(boots, 1)
    }

    /// Its pods would have nowhere to go; evictions that `oc adm drain` would be refused are not
    /// even requested.
    pub(crate) async fn a_cluster_of_one_node_is_not_drained(&self) -> Result<()> {
        let since = Timestamp::now();
        self.hold_on().await?;
        self.of_topology(Some("SingleReplica")).await?;
        let image = self.os("alone")?;
        let target = self.target_of(&image).await?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&image)?;
        self.evicted_none(since)
    }

    pub(crate) async fn a_paused_pool_lets_an_assigned_node_finish(&self) -> Result<()> {
        let image = self.os("assigned")?;
        let assigned = self.target_of(&image).await?;
        let is_assigned =
            |node: &Node| objects::annotation(node, annotation::DESIRED_CONFIG) == assigned;
        self.node_is("assigned", SOON, is_assigned).await?;
        self.pause(true).await?;
        let later = self
            .ask(&Config::new().argument("slipway.test=later").spec())
            .await?;
        self.cluster.all_done(POOL, &assigned, DONE_WITHIN).await?;
        self.runs(&image)?;

        // The controller has read both, and assigns neither.
        until("the pool to wait", SOON, async || {
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
        self.node_is("left alone", SOON, is_assigned).await
    }

    /// `desiredImage`, beside a configuration that stays.
    pub(crate) async fn a_layered_image_goes_before_the_configuration(&self) -> Result<()> {
        let runs_in = |image: &str, node: &Node| {
            let says = |key| objects::annotation(node, key);
            says(annotation::CURRENT_IMAGE) == image
                && says(annotation::CURRENT_CONFIG) == self.origin
                && says(annotation::STATE) == NodeState::Done.as_str()
                && objects::is_in_service(node)
        };
        self.pause(true).await?;
        let image = self.os("layered")?;
        self.layered_in(Some(&image.reference)).await?;
        self.node_is("Done in its layered image", DONE_WITHIN, |node| {
            runs_in(&image.reference, node)
        })
        .await?;
        self.runs(&image)?;
        self.layered_in(None).await?;
        self.node_is("Done without", DONE_WITHIN, |node| runs_in("", node))
            .await
    }
}
