//! The words of the system: Kubernetes types by API group, annotation and label keys, node states
//! and conditions.
//!
//! They follow OpenShift's objects, so that existing objects, clients and dashboards keep working.
//! It must not know: clients, files, clocks, or what any of these objects cause. Types and their
//! reading and printing only.
//!
//! Feature `crds` (default) has the objects and all that stands on the crates kube and schemars.
//! Without it remain the words that need neither: keys, states and phases of a node.
//!
//! - [`machineconfiguration`]: configurations, pools and nodes, and the keys on them
//! - `operator`: settings of the cluster's components
//! - `config`: the cluster's release, and what its operators report
//! - `rollout`: in which steps the nodes of a pool are updated; ours
//! - `upgrade`: an upgrade of the cluster on a date
//! - `stop`: the switch that stops a pool, or all of the cluster
//! - [`monitoring`]: who reads the metrics of components
//! - `condition`: status of a condition, and enums that keep what they do not know
//! - `line`: texts that people wrote, in a line of a message
//! - `int_or_string`: a number or a text, as `maxUnavailable` is written
//! - [`quantity`]: sizes, as whole bytes
//! - `crds`: the CustomResourceDefinitions made from these types; bin `crdgen` writes them
//!   below `deploy`

#![warn(missing_docs)]

#[cfg(feature = "crds")]
pub mod condition;
#[cfg(feature = "crds")]
pub mod config;
#[cfg(feature = "crds")]
pub mod crds;
#[cfg(feature = "crds")]
pub mod int_or_string;
mod line;
pub mod machineconfiguration;
pub mod monitoring;
#[cfg(feature = "crds")]
mod nullable;
#[cfg(feature = "crds")]
pub mod operator;
pub mod quantity;
#[cfg(feature = "crds")]
mod raw;
#[cfg(feature = "crds")]
pub mod rollout;
#[cfg(feature = "crds")]
pub mod stop;
#[cfg(feature = "crds")]
pub mod upgrade;

#[cfg(feature = "crds")]
pub use condition::{Condition, ConditionStatus};
#[cfg(feature = "crds")]
pub use int_or_string::IntOrString;
