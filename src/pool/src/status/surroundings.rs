//! What else holds about a pool: who paused it and since when, and whether its kubelets are new
//! enough for the next minor release of the API server.

use api::machineconfiguration::machine_config_pool::{PoolConditionReason, PoolConditionType};
use api::machineconfiguration::{MachineConfigPool, annotation};

use crate::finding::Finding;
use crate::kubelet_skew::{KubeletSkew, KubernetesMinor};
use crate::node::NodeView;

/// Minor releases to the one that is asked about.
const NEXT: u64 = 1;

/// Whether the pool is paused, and by whom.
pub(super) fn paused(pool: &MachineConfigPool) -> Finding {
    if !pool.spec.paused {
        return Finding::no(PoolConditionType::Paused);
    }
    let (reason, by) = match paused_by(pool) {
        Some(annotation::CONTROL_PLANE_ONLY) => (
            PoolConditionReason::ControlPlaneOnly,
            "an update of the control plane alone paused the pool, and resumes it at its end"
                .to_owned(),
        ),
        Some(other) => (
            PoolConditionReason::Unset,
            format!("{other:?} paused the pool"),
        ),
        None => (
            PoolConditionReason::Unset,
            "an administrator paused the pool".to_owned(),
        ),
    };
    let message = format!("{by}; no node is assigned a new configuration");
    Finding::yes(PoolConditionType::Paused, reason, message)
}

/// Who paused a pool for a time, by its annotation. None where an administrator did.
fn paused_by(pool: &MachineConfigPool) -> Option<&str> {
    let annotations = pool.metadata.annotations.as_ref()?;
    Some(annotations.get(annotation::PAUSED_BY)?.as_str())
}

/// Kubelets of the pool that the next minor release of the API server would not support.
pub(super) fn kubelet_skew(
    api_server: Result<KubernetesMinor, String>,
    members: &[&NodeView],
) -> Finding {
    const TYPE: PoolConditionType = PoolConditionType::KubeletSkew;
    if members.is_empty() {
        return Finding::no(TYPE);
    }
    let api_server = match api_server {
        Ok(version) => version,
        Err(why) => {
            let message = format!("the version of the API server is unknown: {why}");
            return Finding::yes(TYPE, PoolConditionReason::KubeletSkewUnchecked, message);
        }
    };
    let skew = KubeletSkew::of(api_server.plus(NEXT), members.iter().copied());
    if skew.is_supported() {
        return Finding::no(TYPE);
    }
    let reason = if skew.unsupported.is_empty() {
        PoolConditionReason::KubeletSkewUnchecked
    } else {
        PoolConditionReason::KubeletSkewUnsupported
    };
    Finding::yes(TYPE, reason, skew.to_string())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::fixture::node;

    fn text(finding: Finding) -> String {
        let condition = finding.at(Timestamp::UNIX_EPOCH);
        format!(
            "{}={} {}: {}",
            condition.r#type, condition.status, condition.reason, condition.message
        )
    }

    #[test]
    fn a_pause_names_who_made_it() {
        let pool = |paused: bool, by: Option<&str>| -> MachineConfigPool {
            serde_json::from_value(json!({
                "metadata": { "name": "worker", "annotations": by.map(|by| json!({ annotation::PAUSED_BY: by })) },
                "spec": { "paused": paused }
            }))
            .unwrap()
        };
        for (paused_pool, by, expected) in [
            (false, None, "Paused=False : "),
            // The mark alone pauses nothing.
            (false, Some("control-plane-only"), "Paused=False : "),
            (
                true,
                None,
                "Paused=True : an administrator paused the pool; no node is assigned a new configuration",
            ),
            (
                true,
                Some("control-plane-only"),
                "Paused=True ControlPlaneOnly: an update of the control plane alone paused the pool, \
                 and resumes it at its end; no node is assigned a new configuration",
            ),
            (
                true,
                Some(""),
                "Paused=True : \"\" paused the pool; no node is assigned a new configuration",
            ),
        ] {
            assert_eq!(text(paused(&pool(paused_pool, by))), expected);
        }
    }

    #[test]
    fn kubelets_are_compared_with_the_next_minor_release() {
        let with = |name: &str, version: &str| {
            let mut node = node(name);
            version.clone_into(&mut node.kubelet_version);
            node
        };
        let (old, new, none) = (with("w1", "v1.31.9"), with("w2", "v1.32.0"), with("w3", ""));
        let api_server = || Ok(KubernetesMinor::parse("v1.34.1").unwrap());
        for (version, members, expected) in [
            (api_server(), vec![], "KubeletSkew=False : "),
            (Err("no".to_owned()), vec![], "KubeletSkew=False : "),
            (api_server(), vec![&new], "KubeletSkew=False : "),
            (
                api_server(),
                vec![&new, &old],
                "KubeletSkew=True KubeletSkewUnsupported: an API server of 1.35 does not support \
                 kubelets of nodes w1 (v1.31.9)",
            ),
            (
                api_server(),
                vec![&none],
                "KubeletSkew=True KubeletSkewUnchecked: unknown whether an API server of 1.35 \
                 supports kubelets of nodes w3 (no version)",
            ),
            (
                Err("it does not respond".to_owned()),
                vec![&new],
                "KubeletSkew=True KubeletSkewUnchecked: the version of the API server is unknown: \
                 it does not respond",
            ),
        ] {
            assert_eq!(text(kubelet_skew(version, &members)), expected);
        }
    }
}
