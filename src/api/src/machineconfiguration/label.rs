//! Keys of labels and taints.

/// On a MachineConfig: role of the pools that select it. `worker` is merged first, so that custom
/// pools can override it.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";
/// On a MachineConfigPool: one of those that ship with the system (`master`, `worker`, `arbiter`).
pub const BUILT_IN: &str = "machineconfiguration.openshift.io/mco-built-in";
/// On a MachineConfigPool: a cluster upgrade waits for it.
pub const REQUIRED_FOR_UPGRADE: &str =
    "operator.machineconfiguration.openshift.io/required-for-upgrade";
/// On a MachineOSBuild: the pool that the image is built for.
pub const TARGET_POOL: &str = "machineconfiguration.openshift.io/target-machine-config-pool";
/// On a MachineOSBuild, its Job and what is made for it: the MachineOSConfig that asks for it.
pub const MACHINE_OS_CONFIG: &str = "machineconfiguration.openshift.io/machine-os-config";
/// On the Job of a build and what is made for it: the MachineOSBuild.
pub const MACHINE_OS_BUILD: &str = "machineconfiguration.openshift.io/machine-os-build";
/// On a MachineOSBuild and its Job: the rendered MachineConfig that the image is built for.
pub const RENDERED_CONFIG: &str = "machineconfiguration.openshift.io/rendered-machine-config";
/// On all that a build makes and that goes at its end: `""`.
pub const EPHEMERAL_BUILD_OBJECT: &str = "machineconfiguration.openshift.io/ephemeral-build-object";
/// On a Node: failure domain, by which a rollout is ordered.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// On a Node: operating system; `windows` nodes are never managed.
pub const OS: &str = "kubernetes.io/os";
/// On a Node: member of the control plane, as the `master` pool selects it.
pub const MASTER: &str = "node-role.kubernetes.io/master";
/// On a Node: member of the control plane, as Kubernetes names it.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// On a Node: either makes it a member of the control plane; older clusters have the second alone.
pub const CONTROL_PLANE_ROLES: [&str; 2] = [CONTROL_PLANE, MASTER];
/// On a Node: worker.
pub const WORKER: &str = "node-role.kubernetes.io/worker";

/// Whether labels with these keys make a node a member of the control plane, whatever their values.
pub fn is_control_plane(keys: impl IntoIterator<Item = impl AsRef<str>>) -> bool {
    let mut keys = keys.into_iter();
    keys.any(|key| CONTROL_PLANE_ROLES.contains(&key.as_ref()))
}

/// Taint with effect `PreferNoSchedule` on nodes yet to be updated, so that evicted pods rather go
/// to updated ones.
pub const UPDATE_IN_PROGRESS_TAINT: &str = "UpdateInProgress";

/// Values of [`ROLE`]: the roles of the pools that every cluster has.
pub mod role {
    /// Control-plane nodes.
    pub const MASTER: &str = "master";
    /// Nodes that only vote in etcd.
    pub const ARBITER: &str = "arbiter";
    /// Nodes for workloads.
    pub const WORKER: &str = "worker";
    /// Roles of the control plane: their nodes vote in etcd.
    pub const CONTROL_PLANE: [&str; 2] = [MASTER, ARBITER];

    /// Whether the nodes of the pool of this name belong to the control plane.
    pub fn is_control_plane(pool: &str) -> bool {
        CONTROL_PLANE.contains(&pool)
    }
}
