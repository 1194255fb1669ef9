//! The version of the cluster.
//!
//! - [`version`], [`alert`]: what is read of ClusterVersion and of alerts
//! - [`summary`], [`recommend`], [`status`], [`timeline`]: views
//! - [`request`]: what is changed

pub(crate) mod alert;
pub(crate) mod recommend;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod timeline;
pub(crate) mod version;
