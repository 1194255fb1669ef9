//! What a reconcile reports of a pool: its status, events and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::machineconfiguration::label::role;
use api::machineconfiguration::machine_config_pool::MachineConfigPoolStatus;
use cluster::wire;
use image_build::settings::BuildSettings;
use jiff::{SignedDuration, Timestamp};
use pool::membership::Membership;
use pool::rollout::RolloutDecision;
use pool::view::PoolView;

use super::Controller;
use super::pinning::PoolPins;
use crate::assign::Round;
use crate::context::lock;
use crate::decide::{self, reporting};
use crate::events::{self, PoolEvent, Unlabelled, on_status, record};
use crate::metrics::PoolMetrics;
use crate::metrics::builds::BuildMetrics;
use crate::observed::Observed;
use crate::store::{Pool, Snapshot};

/// How often the status of a pool reports how far a rollout is: of many nodes one is done each
/// moment.
pub(super) const PROGRESS_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// How long progress waits that was last written at `last`. Nothing if its time has come, or the
/// clock was set back.
pub(super) fn progress_after(last: Timestamp, now: Timestamp) -> Option<Duration> {
    let passed = now.duration_since(last);
    (!passed.is_negative() && passed < PROGRESS_EVERY)
        .then(|| (PROGRESS_EVERY - passed).unsigned_abs())
}

impl Controller {
    /// Writes a pool's status where it changed. Mere progress is written at most once in
    /// [`PROGRESS_EVERY`]: the time until then, if it was written a moment ago.
    pub(super) async fn report(
        &self,
        pool: &Pool,
        after: &MachineConfigPoolStatus,
    ) -> Result<Option<Duration>, wire::Error> {
        let before = pool.object.status.as_ref();
        let Some(changes) = reporting::changes(before, after) else {
            return Ok(None);
        };
        let now = self.context.now();
        let last = self
            .state()
            .get(&pool.view.name)
            .and_then(|state| state.reported);
        if let Some(left) = last.and_then(|last| progress_after(last, now))
            && reporting::is_progress(before, after)
        {
            return Ok(Some(left));
        }
        let written = self.context.requests.set_status(pool, &changes).await?;
        self.record(pool, &on_status(&pool.object, &written.object));
        self.context.store.pools.refresh(written);
        let mut state = self.state();
        state.entry(pool.view.name.clone()).or_default().reported = Some(now);
        Ok(None)
    }

    /// Records the events of a round. How long assignments wait for their event, if some do.
    pub(super) fn record_round(
        &self,
        pool: &Pool,
        decision: &RolloutDecision,
        round: &Round,
    ) -> Option<Duration> {
        for node in &round.quarantined {
            let node = node.clone();
            self.record(pool, &[PoolEvent::Quarantined { node }]);
        }
        if !round.assigned.is_empty() {
            if let Some(node) = decision.deferred() {
                let node = node.to_owned();
                self.record(pool, &[PoolEvent::Deferred { node }]);
            }
            let is_of_control_plane = pool.view.name == role::MASTER;
            let named = round.assigned.iter().filter(|_| is_of_control_plane);
            for node in named.filter_map(|name| self.context.store.nodes.get(name)) {
                events::record_assignment(&self.context.recorder, &node, self.context.now());
            }
        }
        let (events, left) = {
            let mut states = self.state();
            let pending = &mut states.entry(pool.view.name.clone()).or_default().pending;
            pending.take(&round.assigned, &pool.view.claim.target, self.context.now())
        };
        self.record(pool, &events);
        left
    }

    /// Records why nodes did not get the labels of the pool that they were made for.
    pub(super) fn report_unlabelled(
        &self,
        unlabelled: &BTreeMap<String, Unlabelled>,
        snapshot: &Snapshot,
    ) {
        let reported = std::mem::replace(&mut *lock(&self.unlabelled), unlabelled.clone());
        for (name, why) in unlabelled {
            if reported.get(name) != Some(why)
                && let Some(node) = snapshot.nodes.get(name)
            {
                events::record_unlabelled(&self.context.recorder, node, why, self.context.now());
            }
        }
    }

    pub(super) fn report_membership(&self, sorted: &Membership<'_>, snapshot: &Snapshot) {
        let orphans: BTreeSet<String> = sorted.orphans.iter().map(ToString::to_string).collect();
        let reported = std::mem::replace(&mut *lock(&self.orphans), orphans.clone());
        for orphan in orphans.difference(&reported) {
            if let Some(node) = snapshot.nodes.get(orphan) {
                events::record_orphan(&self.context.recorder, node, self.context.now());
            }
        }
        self.context.metrics.set_alerts(&sorted.alerts);
    }

    pub(super) async fn count(
        &self,
        observed: &Observed,
        decision: &RolloutDecision,
        pins: &PoolPins,
        status: &MachineConfigPoolStatus,
    ) {
        let view: &PoolView = &observed.pool.view;
        let is_image_overridden = self
            .state()
            .get(&view.name)
            .and_then(|state| state.rendering.as_ref())
            .is_some_and(|last| last.is_image_overridden);
        let members = observed.members();
        let mut metrics =
            PoolMetrics::of(view, &members, decision, is_image_overridden).with_conditions(status);
        if let Ok(Some(list)) = pins {
            metrics = metrics.with_pins(list, &members);
        }
        metrics = metrics.with_build(self.build_of(view));
        metrics.missed_authorities = self.missed_authorities(observed).await;
        self.context.metrics.set_pool(&view.name, metrics);
    }

    fn build_of(&self, view: &PoolView) -> Option<BuildMetrics> {
        let image = view.image.as_ref()?;
        let snapshot = self.context.store.snapshot();
        let build = image.build().and_then(|name| snapshot.os_builds.get(name));
        let policy = snapshot.policies.get(&view.name).map(AsRef::as_ref);
        let settings = BuildSettings::read(policy).ok();
        let limit = settings.map(|settings| settings.timeout);
        Some(BuildMetrics::of(image, build.map(AsRef::as_ref), limit))
    }

    /// Names the stream of OS images that the pool's nodes have. While the rendering waits, they
    /// have what the pool was rendered from before.
    pub(super) fn name_stream(
        &self,
        pool: &Pool,
        snapshot: &Snapshot,
        status: &mut MachineConfigPoolStatus,
    ) {
        let target = pool.view.target_config();
        if let Some(target) = target.and_then(|target| self.context.store.configs.get(target)) {
            let stream = decide::rendering::reached_stream(pool, &target, snapshot);
            reporting::stream(status, stream);
        }
    }

    pub(super) fn record(&self, pool: &Pool, events: &[PoolEvent]) {
        let at = self.context.now();
        for event in events {
            if matches!(event, PoolEvent::SelectingAll { .. }) {
                let mut states = self.state();
                let state = states.entry(pool.view.name.clone()).or_default();
                if state.warned.is_some() && state.warned == pool.view.generation {
                    continue;
                }
                state.warned = pool.view.generation;
            }
            record(&self.context.recorder, pool, event, at);
        }
    }
}
