//! Who reads the metrics of components.

/// Common name of the certificate that the cluster's Prometheus shows.
///
/// Source: OpenShift's monitoring operator, which asks for it as `metrics-client-certs`.
pub const METRICS_READER: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";
