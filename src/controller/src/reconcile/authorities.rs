//! Which files of certificate authorities the nodes of a paused pool do not have as the pool's
//! configuration has them.

use std::collections::{BTreeMap, BTreeSet};

use chassis::report::Chain;
use cluster::wire;

use super::Controller;
use crate::decide::authorities::{AuthorityFiles, missed};
use crate::observed::Observed;

/// Those of rendered configurations, by name and unique id. Each is read once, and while a pool is
/// paused only.
pub(super) type KnownAuthorities = BTreeMap<(String, String), AuthorityFiles>;

impl Controller {
    /// How many files the nodes of a paused pool miss; nothing of a pool that is not paused, or
    /// where a configuration cannot be read.
    pub(super) async fn missed_authorities(&self, observed: &Observed) -> Option<usize> {
        let view = &observed.pool.view;
        let name = view.name.clone();
        let mut known =
            std::mem::take(&mut self.state().entry(name.clone()).or_default().authorities);
        let counted = if view.is_paused {
            self.count_missed(observed, &mut known).await
        } else {
            known.clear();
            Ok(None)
        };
        self.state().entry(name.clone()).or_default().authorities = known;
        counted.unwrap_or_else(|error| {
            let error = Chain(&error);
            tracing::warn!(pool = name, %error, "cannot read which authorities a paused pool misses");
            None
        })
    }

    async fn count_missed(
        &self,
        observed: &Observed,
        known: &mut KnownAuthorities,
    ) -> Result<Option<usize>, wire::Error> {
        let Some(target) = observed.pool.view.target_config() else {
            return Ok(None);
        };
        let members = observed.members.values();
        let configs = members.filter_map(|node| node.status.current_config.as_deref());
        let present: BTreeSet<&str> = configs.filter(|config| *config != target).collect();
        if present.is_empty() {
            known.clear();
            return Ok(Some(0));
        }
        let store = &self.context.store.configs;
        let mut keys = BTreeMap::new();
        for config in present.iter().copied().chain([target]) {
            let Some(meta) = store.get(config) else {
                // Not there, or not read yet: what it has is not known.
                return Ok(None);
            };
            let key = (config.to_owned(), meta.uid.clone());
            if !known.contains_key(&key) {
                let Some(files) = self.context.requests.read_authorities(config).await? else {
                    return Ok(None);
                };
                known.insert(key.clone(), files);
            }
            keys.insert(config, key);
        }
        known.retain(|key, _| keys.values().any(|kept| kept == key));
        let files = |config: &str| keys.get(config).and_then(|key| known.get(key));
        let present = present.iter().filter_map(|config| files(config));
        Ok(files(target).map(|target| missed(target, present).len()))
    }
}
