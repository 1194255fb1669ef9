//! The managed upgrade operator: upgrades a cluster on a date, by steps of which the gates fail
//! closed.
//!
//! It upgrades nothing itself: it sets the release of ClusterVersion and waits for the version
//! operator and the nodes. For the time of the upgrade it adds capacity and silences alerts.
//!
//! What is decided is in `upgrade-plan`: values in, values out. Here are the hands around it:
//! - [`cli`], [`process`]: the command line, one process
//! - `architecture`: the architecture of the cluster
//! - `watches`, `requests`: what is watched, and each request to the API server
//! - [`monitoring`], [`fleet_client`]: requests to Prometheus, Alertmanager and other servers, and
//!   to the fleet manager
//! - `pull_secret`: what proves the cluster to the fleet manager
//! - `stuck_pods`: which pods of a node may be removed by force
//! - [`reconcile`]: the UpgradeConfig observed, its phase decided, its steps run
//! - [`metrics`]: the operator's metrics

mod architecture;
pub mod cli;
pub mod fleet_client;
pub mod metrics;
pub mod monitoring;
pub mod process;
pub mod pull_secret;
pub mod reconcile;
mod requests;
mod stuck_pods;
mod watches;
