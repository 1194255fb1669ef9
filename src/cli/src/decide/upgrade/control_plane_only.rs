//! `slipway upgrade --control-plane-only`: the control plane goes over two minor releases while the
//! other pools are paused; then their nodes are updated once.
//!
//! Each step is decided from what is observed, so that any run of the command goes on where the
//! last one ended.
//!
//! - `facts`: what is read of the cluster
//! - `obstacle`: what forbids a step, by object and field
//! - `plan`: the two hops, and the pools that are paused
//! - `step`: what is done next
//! - `view`: the update as `status` and `watch` show it

mod facts;
mod obstacle;
mod plan;
mod step;
mod view;

#[cfg(test)]
mod fixture;

pub(crate) use self::facts::{CpoCluster, PoolPause};
pub(crate) use self::plan::{CpoPlan, CpoWish};
pub(crate) use self::step::{CpoStep, clear, next};
pub(crate) use self::view::ControlPlaneOnlyView;
