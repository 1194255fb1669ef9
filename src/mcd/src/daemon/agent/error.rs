//! Why a command of the state machine is not carried out.

use cluster::wire;
use host::record;
use node::writer;
use node_update::plan::Target;
use node_update::verify::unexpected_state;

use crate::daemon::adopt::{self, OtherPool};
use crate::daemon::{helper, join_kubeconfig, observe, return_to_service};
use crate::protocol::HelperReport;

/// What keeps the daemon from a command until a person or the cluster changes it.
#[derive(Debug, thiserror::Error)]
pub(in crate::daemon) enum Refusal {
    /// Nothing names the host's configuration.
    #[error(
        "the host has no record of its configuration in {}, and the Node names none",
        record::CONFIG
    )]
    NoRecord,
    /// Files or units of the host were changed by hand.
    #[error("{}", unexpected_state(.from, .drift))]
    Drifted { from: Target, drift: String },
    /// The target is of a pool that the host was not configured by.
    #[error(transparent)]
    OtherPool(#[from] OtherPool),
}

#[derive(Debug, thiserror::Error)]
pub(in crate::daemon) enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The first annotations or the first record.
    #[error(transparent)]
    Adopt(#[from] adopt::Error),
    /// The host cannot be read.
    #[error(transparent)]
    Observe(#[from] observe::Error),
    /// `mcd-os` cannot be run.
    #[error(transparent)]
    Helper(#[from] helper::Error),
    /// `mcd-os` did not do what it was run for.
    #[error("{}", .0.because())]
    NotDone(HelperReport),
    /// The Node cannot be written.
    #[error(transparent)]
    WriteNode(#[from] writer::Error),
    /// A configuration cannot be read from the API server.
    #[error(transparent)]
    ReadConfig(#[from] wire::Error),
    /// The kubeconfig by which the node joins.
    #[error(transparent)]
    JoinKubeconfig(#[from] join_kubeconfig::Error),
    #[error(transparent)]
    ReturnToService(#[from] return_to_service::Error),
}
