//! The control loop that controllers share: of several replicas one leads; watches fill its caches;
//! each change wakes keys, and each key is reconciled alone, again after a failure, and now and
//! then without a reason.
//!
//! It must not know: what a key stands for, what is reconciled, hosts.
//!
//! A controller is its kinds ([`Watched`]), one [`Reconcile`], and a command line:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use chassis::shutdown::Shutdown;
//! # use cluster::access::Access;
//! # use cluster::cache::Cache;
//! # use operator::{Operator, Reconcile, WatchScope, Wake, Watched};
//! # async fn start<K: Watched, R: Reconcile<Key = String>>(
//! #     access: Arc<Access>, candidacy: cluster::lease::Candidacy,
//! #     reconciler: R, shutdown: Shutdown,
//! # ) -> Result<(), operator::Error> {
//! let cache = Cache::<K>::default();
//! Operator::new("toy", access)
//!     .lease(candidacy)
//!     .watch(&cache, WatchScope::cluster(), |_, _| Wake::All)
//!     .run(reconciler, shutdown)
//!     .await
//! # }
//! ```
//!
//! The queue is that of `kube::runtime` (`docs/decisions/0012`).
//!
//! - [`cli`]: the options that controllers share
//! - [`client`]: who a controller is at the API server
//! - [`reconcile`]: what a controller does for one key
//! - [`token_clients`]: who may read metrics by a token
//! - [`watch`]: one kind in its cache
//! - `queue`: which key is next, and when
//! - [`runtime()`]: the thread that all of it runs on
//! - `health`: leadership, readiness and stuck keys, for probes and metrics
//! - [`program`]: what a controller's process has before its first request
//! - [`process`]: the loop, from the lease to its release

#![warn(missing_docs)]

pub mod cli;
pub mod client;
mod health;
pub mod process;
pub mod program;
mod queue;
pub mod reconcile;
mod runtime;
pub mod token_clients;
pub mod watch;

pub use process::{Error, Operator, Waker};
pub use program::ControllerProgram;
pub use reconcile::{Key, Next, Reconcile};
pub use runtime::runtime;
pub use watch::{Wake, WatchForm, WatchScope, Watched};
