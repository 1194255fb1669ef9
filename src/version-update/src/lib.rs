//! What is decided about the version of a cluster: values in, values out.
//!
//! It must not know: requests, files, clocks.
//!
//! - [`builder`]: how a manifest becomes an object, and what is waited for
//! - [`failure`]: why a release is not applied, one cause or several
//! - [`progress`], [`report`]: how much is applied, and what a pass has come to
//! - [`validation`], [`history`], [`status`]: what ClusterVersion asks for, and its status
//! - [`dropped`]: objects that a release before had
//! - [`overrides`]: what an administrator takes from the release, and for how long
//! - [`precondition`], [`upgradeable`]: what speaks against another release
//! - [`release_state`]: the state of a release, as a machine
//! - [`stop`]: the switch that stops the cluster
//! - [`acceptance`]: whether another release is accepted
//! - [`preflight`]: what would fail of another release
//! - [`signature_cache`]: which signatures of releases are kept in the cluster
//! - [`series`]: what metrics show of it
//! - [`retrieved_updates`], [`risk`], [`alert`], [`advised`]: which updates the service
//!   advises, and which risks apply

pub mod acceptance;
pub mod advised;
pub mod alert;
pub mod builder;
pub mod dropped;
pub mod failure;
pub mod history;
pub mod overrides;
pub mod precondition;
pub mod preflight;
pub mod progress;
pub mod release_state;
pub mod report;
pub mod retrieved_updates;
pub mod risk;
pub mod series;
pub mod signature_cache;
pub mod status;
pub mod stop;
pub mod upgradeable;
pub mod validation;
