//! The words of the system: Kubernetes types by API group, annotation and label keys, node states
//! and conditions.
//!
//! They follow OpenShift's objects, so that existing objects, clients and dashboards keep working.
//! It must not know: clients, files, clocks, or what any of these objects cause. Types and their
//! reading and printing only.
//!
//! - [`machineconfiguration`]: configurations, pools and nodes, and the keys on them
//! - [`operator`]: settings of the cluster's components
//! - [`condition`]: status of a condition, and enums that keep what they do not know
//! - [`int_or_string`]: a number or a text, as `maxUnavailable` is written
//! - [`crds`]: the CustomResourceDefinitions made from these types; bin `crdgen` writes them to
//!   `deploy/crds`

pub mod condition;
pub mod crds;
pub mod int_or_string;
pub mod machineconfiguration;
mod nullable;
pub mod operator;
mod raw;

pub use condition::{Condition, ConditionStatus};
pub use int_or_string::IntOrString;
