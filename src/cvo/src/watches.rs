//! What is watched: the ClusterVersion, the ClusterOperators, and what administrators are asked.

use std::collections::BTreeMap;

use api::config::{ClusterOperator, ClusterOperatorStatus, ClusterVersion};
use cluster::cache::CachedKind;
use k8s_openapi::api::core::v1::ConfigMap;
use operator::Watched;

use crate::preflight;

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

/// ClusterOperators.
#[derive(Debug)]
pub enum ClusterOperators {}

/// What is kept of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorView {
    name: String,
    version: String,
    /// Its conditions and versions.
    pub status: ClusterOperatorStatus,
}

impl OperatorView {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl CachedKind for ClusterOperators {
    type Entry = OperatorView;

    fn name(entry: &OperatorView) -> &str {
        &entry.name
    }

    fn version(entry: &OperatorView) -> &str {
        &entry.version
    }

    fn has_same_content(one: &OperatorView, other: &OperatorView) -> bool {
        one.status == other.status
    }
}

impl Watched for ClusterOperators {
    type Object = ClusterOperator;

    fn parse(object: ClusterOperator) -> OperatorView {
        let mut status = object.status.unwrap_or_default();
        // Only conditions and versions are read.
        status.extension = None;
        status.related_objects.clear();
        OperatorView {
            name: object.metadata.name.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
            status,
        }
    }
}

/// `ConfigMap`s by which administrators are asked, and answer.
#[derive(Debug)]
pub enum AdminMaps {}

/// What is kept of such a ConfigMap.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminMap {
    name: String,
    version: String,
    /// Its data.
    pub data: BTreeMap<String, String>,
}

impl CachedKind for AdminMaps {
    type Entry = AdminMap;

    fn name(entry: &AdminMap) -> &str {
        &entry.name
    }

    fn version(entry: &AdminMap) -> &str {
        &entry.version
    }

    fn has_same_content(one: &AdminMap, other: &AdminMap) -> bool {
        one.data == other.data
    }
}

impl Watched for AdminMaps {
    type Object = ConfigMap;

    fn parse(object: ConfigMap) -> AdminMap {
        AdminMap {
            name: object.metadata.name.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
            data: object.data.unwrap_or_default(),
        }
    }
}
