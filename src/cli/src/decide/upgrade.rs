//! The version of the cluster.
//!
//! - [`version`], [`alert`]: what is read of ClusterVersion and of alerts
//! - [`summary`], [`recommend`], [`status`], [`timeline`]: views
//! - [`control_plane_only`]: an update of the control plane alone, over two minor releases
//! - [`request`]: what is changed

pub(crate) mod alert;
pub(crate) mod control_plane_only;
pub(crate) mod recommend;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod timeline;
pub(crate) mod version;
