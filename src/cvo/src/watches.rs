//! What is kept of the ClusterVersion and of ClusterOperators.

use api::config::{ClusterOperator, ClusterOperatorStatus, ClusterVersion};
use cluster::cache::CachedKind;
use operator::Watched;
use operator::watch::kept::KeptPart;

use version_update::{preflight, stop};

/// Objects of the kind ClusterVersion; one counts.
#[derive(Debug)]
pub enum ClusterVersions {}

impl CachedKind for ClusterVersions {
    type Entry = ClusterVersion;

    fn name(entry: &ClusterVersion) -> &str {
        entry.metadata.name.as_deref().unwrap_or_default()
    }

    fn version(entry: &ClusterVersion) -> &str {
        entry
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    fn has_same_content(one: &ClusterVersion, other: &ClusterVersion) -> bool {
        (&one.spec, &one.status, &one.metadata.uid)
            == (&other.spec, &other.status, &other.metadata.uid)
            && stop::switch(one) == stop::switch(other)
            && preflight::request(one) == preflight::request(other)
            && preflight::is_open(one) == preflight::is_open(other)
    }
}

impl Watched for ClusterVersions {
    type Object = ClusterVersion;

    fn parse(mut object: ClusterVersion) -> ClusterVersion {
        object.metadata.managed_fields = None;
        object
    }
}

/// Conditions and versions of a ClusterOperator.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorView {
    /// Its status, without the rest.
    pub status: ClusterOperatorStatus,
}

impl KeptPart for OperatorView {
    type Object = ClusterOperator;

    fn of(object: ClusterOperator) -> Self {
        let mut status = object.status.unwrap_or_default();
        status.extension = None;
        status.related_objects.clear();
        Self { status }
    }
}
