//! What comes from the switch on: another target, a target that does not hold.

use anyhow::{Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::tree::Overlay;
use nix::sys::signal::Signal;
use testbed::objects;
use testbed::{DONE_WITHIN, SOON, until};

use crate::env::{Env, GRACE, NODE, POOL};
use crate::hold::Hold;

/// How the daemon's log begins the line that it checks again a target that failed and stays.
const CHECKS: &str = "started unit=\"slipway-guard-";

/// How it says that it holds a target.
const HOLDS: &str = "phase phase=\"Held\"";

impl Env {
    /// A target that does not hold stays booted on a node of the control plane. The rollback skips
    /// the drain where the update did: it would never end.
    pub(crate) async fn a_control_plane_of_one_node_waits_for_people(&self) -> Result<()> {
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
        let first = self.target_of(&failing).await?;
        objects.set_target(NODE, &first).await?;
        let stays = |node: &Node| {
            let says = |key| objects::annotation(node, key);
            says(annotation::STATE) == NodeState::Degraded.as_str()
                && says(annotation::REASON).contains("kubelet.service")
        };
        self.node_is("Degraded by its kubelet", DONE_WITHIN, stays)
            .await?;
        // It checks again automatically. A second check shows that the first one changed nothing.
        let checks = self.lines(CHECKS)?;
        until("two more checks of the target", DONE_WITHIN, async || {
            let more = self.lines(CHECKS)? - checks;
            Ok(if more >= 2 {
                Ok(())
            } else {
                Err(format!("{more} so far"))
            })
        })
        .await?;
        self.node_is("Degraded still", SOON, stays).await?;
        self.runs(&failing)?;
        self.booted_since(boots, 1)?;

        let image = self.os("alone-mended")?;
        let last = self.target_of(&image).await?;
        objects.set_target(NODE, &last).await?;
        self.cluster.all_done(POOL, &last, DONE_WITHIN).await?;
        self.runs(&image)?;
        self.booted_since(boots, 3)?;
        self.evicted_none(since)?;
        let setting = ["get", "core.per-object-fsync"];
        let ostree = ["ostree", "config", "--repo=/sysroot/ostree/repo"];
        let setting = self.host()?.run(ostree.into_iter().chain(setting))?;
        ensure!(setting.trim() == "true", "beside etcd it is {setting}");
        Ok(())
    }

    /// A target that the host switched to and never booted is reverted.
    pub(crate) async fn a_switch_is_reverted_for_another_target(&self) -> Result<()> {
        let overlay = Overlay::version("switched-to");
        self.another_target_while(Hold::Applying, &overlay, 1).await
    }

    /// What is being booted is verified first; the update to the other target starts from there.
    pub(crate) async fn a_target_that_is_being_booted_is_verified_before_another(
        &self,
    ) -> Result<()> {
        let overlay = Overlay::version("booted-first");
        self.another_target_while(Hold::Rebooting, &overlay, 2)
            .await
    }

    /// What cannot be verified is rolled back first; the update to the other target starts from the
    /// origin.
    pub(crate) async fn a_target_that_fails_is_rolled_back_before_another(&self) -> Result<()> {
        let overlay = Overlay::version("failing-first").failing_kubelet();
        self.another_target_while(Hold::Verifying, &overlay, 3)
            .await
    }

    /// In a paused pool, assigns the node another target by hand while it is held in a phase of an
    /// update to a first one. It ends in the other one, after so many boots.
    async fn another_target_while(&self, hold: Hold, first: &Overlay, boots: usize) -> Result<()> {
        self.pause(true).await?;
        let first = self.target_of(&self.cluster.image(first)?).await?;
        let other = self.os(&format!("other-than-{}", hold.phase()))?;
        let last = self.target_of(&other).await?;
        let before = self.boots()?.len();
        hold.hold(self.host()?)?;
        self.cluster.objects().set_target(NODE, &first).await?;
        self.phase_within(hold.phase(), DONE_WITHIN).await?;
        self.daemon_sees(&last).await?;
        self.phase(hold.phase()).await?;
        hold.let_go(self.host()?)?;
        self.cluster.all_done(POOL, &last, DONE_WITHIN).await?;
        self.runs(&other)?;
        self.booted_since(before, boots)
    }

    pub(crate) async fn a_target_that_fails_is_held_until_another_comes(&self) -> Result<()> {
        let began = Timestamp::now();
        let boots = self.boots()?.len();
        let image = self
            .cluster
            .image(&Overlay::version("failing").failing_kubelet())?;
        // So that the daemon is there from the first check on.
        Hold::Verifying.hold(self.host()?)?;
        let target = self.target_of(&image).await?;
        self.phase_within(Hold::Verifying.phase(), DONE_WITHIN)
            .await?;
        Hold::Verifying.let_go(self.host()?)?;
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
        self.booted_since(boots, 2)?;
        let named = self.showed_since(began, |shown| {
            let says = |key| shown.get(key).map_or("", String::as_str);
            says(annotation::PHASE) == "Verifying"
                && says(annotation::REASON).contains("kubelet.service")
        })?;
        ensure!(named, "while it was checked, it did not say what fails");
        self.says(&["Drain", "Reboot", "NodeDone", "RolledBack"])
            .await?;

        // A restarted daemon leaves it at that: it has read Node and host, and holds the
        // target, too.
        let (killed, holds) = (Timestamp::now(), self.lines(HOLDS)?);
        self.cluster.daemon(NODE)?.signal(Signal::SIGKILL)?;
        until("the next daemon to hold it", DONE_WITHIN, async || {
            let is_read = self.watched_since(killed)?;
            let holds_it = self.lines(HOLDS)? > holds;
            Ok(if is_read && holds_it {
                Ok(())
            } else {
                Err(format!("Node read: {is_read}, target held: {holds_it}"))
            })
        })
        .await?;
        // To try it again, it would read the target's configuration first, at once.
        tokio::time::sleep(GRACE).await;
        self.node_is("Held still", SOON, held).await?;
        self.asked_nothing_since(killed)?;
        self.booted_since(boots, 2)?;
        let node = self.cluster.objects().node(NODE).await?;
        let desired = objects::annotation(&node, annotation::DESIRED_CONFIG);
        ensure!(desired == target, "it was assigned {desired} meanwhile");

        // Another target is tried, and this one does not block it.
        let image = self.os("after-failing")?;
        let target = self.target_of(&image).await?;
        self.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        self.runs(&image)
    }
}
