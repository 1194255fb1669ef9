//! Which objects come before which.

use release::manifest::ObjectId;

/// Kinds that others stand on, first to last. Others come after them, workloads last.
const FIRST: &[&str] = &[
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "ServiceAccount",
    "ClusterRole",
    "Role",
    "ClusterRoleBinding",
    "RoleBinding",
    "Secret",
    "ConfigMap",
    "Service",
    "NetworkPolicy",
];

/// Kinds that run programs.
pub const WORKLOADS: &[&str] = &["DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob"];

/// What admission policies refuse holds for all that is applied after them.
const GUARDS: &[&str] = &[
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Where an object stands in the order of application; equal ones keep their order.
pub fn rank(id: &ObjectId) -> usize {
    let place = |of: &[&str]| of.iter().position(|kind| *kind == id.kind);
    let others = FIRST.len();
    place(FIRST)
        .or_else(|| place(GUARDS).map(|at| others + 1 + at))
        .or_else(|| place(WORKLOADS).map(|_| others + 1 + GUARDS.len()))
        .unwrap_or(others)
}

/// Whether it binds an admission policy.
pub fn is_guard(id: &ObjectId) -> bool {
    id.kind == "ValidatingAdmissionPolicyBinding"
}

/// Whether it runs programs.
pub fn is_workload(id: &ObjectId) -> bool {
    WORKLOADS.contains(&id.kind.as_str())
}

/// Whether objects of others are in it, or of its kind.
pub fn is_shared(id: &ObjectId) -> bool {
    id.kind == "Namespace" || is_definition(id)
}

/// Whether it defines a kind.
pub fn is_definition(id: &ObjectId) -> bool {
    id.kind == "CustomResourceDefinition"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_stand_on_comes_first_and_programs_last() {
        let mut kinds = [
            "Deployment",
            "ValidatingAdmissionPolicyBinding",
            "MachineConfigPool",
            "ClusterRoleBinding",
            "ValidatingAdmissionPolicy",
            "NetworkPolicy",
            "Namespace",
            "CustomResourceDefinition",
            "DaemonSet",
        ];
        kinds.sort_by_key(|kind| {
            rank(&ObjectId {
                group: String::new(),
                kind: (*kind).to_owned(),
                namespace: String::new(),
                name: String::new(),
            })
        });
        assert_eq!(
            kinds,
            [
                "CustomResourceDefinition",
                "Namespace",
                "ClusterRoleBinding",
                "NetworkPolicy",
                "MachineConfigPool",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionPolicyBinding",
                "Deployment",
                "DaemonSet",
            ]
        );
    }
}
