//! Pinned image sets of a pool: named in its spec, and assigned to its nodes in turn.

use api::machineconfiguration::PinList;
use chassis::report::Chain;
use cluster::wire;
use pool::pinned_sets::UnpopulatedPins;
use pool::pins::PinRound;

use super::Controller;
use crate::decide;
use crate::observed::Observed;
use crate::store::{Pool, Snapshot};

/// The sets of a pool; nothing where its nodes keep what they have.
pub(super) type PoolPins = Result<Option<PinList>, UnpopulatedPins>;

impl Controller {
    /// Names the sets that a pool selects in its spec, where that changes. The pool as it is then,
    /// and its sets.
    ///
    /// # Errors
    /// Those of the API server that may pass. A lasting one is kept in the sets.
    pub(super) async fn populate_pins(
        &self,
        snapshot: &Snapshot,
        pool: Pool,
    ) -> Result<(Pool, PoolPins), wire::Error> {
        let pins = decide::pins::selected(&pool.view, snapshot);
        let Some(names) = decide::pins::names_to_write(&pool, snapshot) else {
            return Ok((pool, pins));
        };
        match self.context.requests.set_pinned_sets(&pool, &names).await {
            Ok(written) => {
                tracing::info!(
                    pool = written.view.name,
                    sets = names.len(),
                    "named pinned image sets"
                );
                self.context.store.pools.refresh(written.clone());
                Ok((written, pins))
            }
            Err(error) if error.is_transient() => Err(error),
            Err(error) => {
                let why = Chain(&error).to_string();
                let unpopulated = UnpopulatedPins::rejected(&pool.view.name, why);
                Ok((pool, Err(unpopulated)))
            }
        }
    }
}

/// Decides which of the observed nodes are assigned the pool's sets now: none while it is stopped.
pub(super) fn begin_round(observed: &mut Observed, pins: &PoolPins, snapshot: &Snapshot) {
    let Ok(Some(list)) = pins else {
        return;
    };
    if observed.pool.view.stops.are_set() {
        return;
    }
    let members = observed.members();
    let at_once = decide::pins::at_once(&observed.pool.view, snapshot, members.len());
    let round = PinRound::new(list.clone(), &members, at_once);
    observed.pool.view.pins = Some(round);
}
