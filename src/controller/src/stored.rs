//! Whether a stored object is what was rendered: it may have been edited, or made by another
//! program.
//!
//! The name of a rendered configuration is a digest of its content, so a changed content is found
//! without what it was rendered from.

use cluster::wire;
use machineconfig::name::{is_as_rendered, is_rendered_name};
use pool::hold::Hold;
use pool::view::PoolView;

use crate::configs::ConfigMeta;
use crate::requests::Requests;

/// What tells one state of a stored object from another, as far as its content and owner go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectState {
    uid: String,
    generation: Option<i64>,
    pool: Option<String>,
}

impl ObjectState {
    /// The state of an object.
    pub fn of(config: &ConfigMeta) -> Self {
        Self {
            uid: config.uid.clone(),
            generation: config.generation,
            pool: config.pool.clone(),
        }
    }
}

/// Whether an object belongs to a pool: the pool is its controller.
pub(crate) fn is_of(config: &ConfigMeta, pool: &PoolView) -> bool {
    config.pool.as_ref() == Some(&pool.uid)
}

/// Whether an object was changed since it was made. A change of its metadata is none.
pub(crate) fn was_edited(config: &ConfigMeta) -> bool {
    config.generation.is_some_and(|generation| generation > 1)
}

/// The check of a pool's target that was done last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedTarget {
    name: String,
    state: ObjectState,
    is_as_rendered: bool,
}

/// The hold on a pool whose target is not what was rendered, if it is not: its nodes would get
/// what another program wrote. Reads the object only where it was edited, or made by another, and
/// once in each state.
///
/// # Errors
/// Those of the API server.
pub(crate) async fn hold(
    requests: &Requests,
    pool: &PoolView,
    config: Option<&ConfigMeta>,
    checked: &mut Option<CheckedTarget>,
) -> Result<Option<Hold>, wire::Error> {
    let Some(config) = config.filter(|config| is_suspect(config, pool)) else {
        return Ok(None);
    };
    let state = ObjectState::of(config);
    let is_known = |last: &&CheckedTarget| last.name == config.name && last.state == state;
    let is_as_rendered = if let Some(last) = checked.as_ref().filter(is_known) {
        last.is_as_rendered
    } else {
        let Some(config) = requests.read_config(&config.name).await? else {
            return Ok(None);
        };
        is_as_rendered(
            &pool.name,
            &serde_json::to_value(config).unwrap_or_default(),
        )
    };
    *checked = Some(CheckedTarget {
        name: config.name.clone(),
        state,
        is_as_rendered,
    });
    Ok((!is_as_rendered).then(|| Hold::ConfigChanged {
        config: config.name.clone(),
    }))
}

/// Whether the content of an object with a rendered name has to be looked at. A person may name a
/// configuration of any other name in a pool.
fn is_suspect(config: &ConfigMeta, pool: &PoolView) -> bool {
    is_rendered_name(&pool.name, &config.name) && (was_edited(config) || !is_of(config, pool))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{read, settled};

    #[test]
    fn only_rendered_names_that_were_edited_or_are_of_another_are_looked_at() {
        let (cluster, _, target) = settled();
        let snapshot = cluster.snapshot();
        let pool = &snapshot.pools.get("worker").unwrap().view;
        let config = |name: &str, generation: i64, uid: &str| {
            let owner = json!([{
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                "name": "worker", "uid": uid, "controller": true
            }]);
            ConfigMeta::parse(read(&json!({ "metadata": {
                "name": name, "generation": generation, "ownerReferences": owner
            } })))
        };
        let table = [
            (target.as_str(), 1, "uid-worker", false),
            (&target, 2, "uid-worker", true),
            (&target, 1, "another", true),
            ("rendered-worker-by-hand", 2, "another", false),
        ];
        for (name, generation, uid, is_looked_at) in table {
            let config = config(name, generation, uid);
            assert_eq!(is_suspect(&config, pool), is_looked_at, "{config:?}");
        }
    }
}
