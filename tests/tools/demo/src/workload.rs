//! What runs on the pool while it is updated, and how many of it have to.

/// Deployments, a DaemonSet and a budget.
pub(crate) const OBJECTS: &str = include_str!("objects/workload.yaml");

/// A file of each host, which its kubelet runs.
pub(crate) const STATIC_POD: &str = include_str!("objects/static.yaml");

/// `spec.maxUnavailable` of the pool.
pub(crate) const MAX_OUT: usize = 1;

/// Label of the pods that the budget is for.
pub(crate) const LABEL: (&str, &str) = ("app", "web");

/// Their number.
pub(crate) const REPLICAS: usize = 6;

/// `spec.minAvailable` of their budget.
pub(crate) const NEEDED: usize = 5;
