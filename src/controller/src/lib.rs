//! The controller: renders the configuration of each pool and moves the pool's nodes to it under
//! its budget.
//!
//! Level-triggered: watches fill caches, and each change wakes the pools that it concerns. A pool
//! is reconciled as `observe → decide → assign → report`. The decisions come from `machineconfig`
//! and `pool`; here they are asked for and carried out. The loop around that, with leadership,
//! retries and probes, is `operator`'s; a deposed leader does no harm, because its writes are
//! guarded.
//!
//! It must not know: hosts, drains, how an update is applied. That is the node's daemon.
//!
//! - [`cli`]: the command line, validated
//! - [`process`]: one process, from its start to its end
//! - [`duties`]: which of the duties a process has
//! - [`metrics_clients`]: who may read metrics over HTTPS
//! - [`version`]: which release this is
//! - [`work`]: what is reconciled alone
//! - [`api_server`]: the minor release of the API server
//! - `context`: what every part of the work uses
//! - [`store`]: caches of the cluster's objects, kept up to date
//! - [`configs`]: what is kept of a MachineConfig: never its content
//! - `merge_patch`: merge patches of whole objects
//! - [`stored`]: whether a stored object is what was rendered
//! - [`watches`]: what is watched, and which work a change wakes
//! - [`requests`]: the requests to the API server
//! - [`observed`]: a pool and its nodes at one moment
//! - `policy_inputs`: what a rollout policy decides by, beside the nodes
//! - [`decide`]: what is decided from one snapshot of the cluster
//! - [`reconcile`]: one pool: observed, decided, assigned, reported
//! - [`generating`]: MachineConfigs that other objects ask for
//! - [`rendering`]: the configuration of a pool
//! - `building`: OS images that are built for pools
//! - `operating`: the release's images are taken over, and ClusterOperator `machine-config` is
//!   written
//! - `removal`: rendered configurations that nothing uses are removed
//! - [`assign`]: a claimed round, and its assignments
//! - [`node_objects`]: MachineConfigNodes: what each node is assigned
//! - [`settings`]: the cluster's settings, and the node disruption policies in force
//! - [`certificates`]: the certificates that the ControllerConfig has in its bundles
//! - [`events`]: which events are recorded, and when
//! - [`metrics`]: the metrics of pools and nodes

pub mod api_server;
pub mod assign;
mod building;
pub mod certificates;
pub mod cli;
pub mod configs;
mod context;
pub mod decide;
pub mod duties;
pub mod events;
#[cfg(test)]
mod fixture;
pub mod generating;
mod merge_patch;
pub mod metrics;
pub mod metrics_clients;
pub mod node_objects;
pub mod observed;
mod operating;
mod policy_inputs;
pub mod process;
pub mod reconcile;
mod removal;
pub mod rendering;
pub mod requests;
pub mod settings;
pub mod store;
pub mod stored;
pub mod version;
pub mod watches;
pub mod work;
