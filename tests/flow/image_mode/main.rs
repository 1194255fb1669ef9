//! A pool in image mode: its OS image is built by a Job in the cluster's runtime, rolled in one
//! reboot for each node, and left in one.
//!
//! Nodes have kubelets that run pods by containerd. Tests follow upstream's end-to-end tests of
//! image mode, whose names stand at each part.
#![expect(clippy::indexing_slicing, reason = "JSON that lacks a member is null")]

mod builds;
mod env;
mod joined;
mod packages;
mod rolled;
