//! The ClusterVersion of a cluster, as it is read.

use anyhow::Context as _;
use api::config::{ClusterVersion, cluster_version};
use cluster::access::Access;
use cluster::path;

use crate::decide::object::ClusterObject;

/// Reads ClusterVersion.
///
/// # Errors
/// There is none, or the cluster does not respond.
pub(crate) async fn read(access: &Access) -> anyhow::Result<ClusterObject> {
    let path = path::object::<ClusterVersion>(cluster_version::NAME);
    access
        .get(&path)
        .await
        .context("cannot read ClusterVersion version")
}
