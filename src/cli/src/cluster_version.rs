//! The ClusterVersion of a cluster, as it is read.

use anyhow::Context as _;
use cluster::access::Access;

use crate::object::ClusterObject;

pub(crate) const VERSIONS: &str = "/apis/config.openshift.io/v1/clusterversions";

/// Name of the only object.
pub(crate) const NAME: &str = "version";

/// Reads ClusterVersion.
///
/// # Errors
/// There is none, or the cluster does not answer.
pub(crate) async fn read(access: &Access) -> anyhow::Result<ClusterObject> {
    let path = format!("{VERSIONS}/{NAME}");
    access
        .get(&path)
        .await
        .context("cannot read ClusterVersion version")
}
