//! The chassis of every long-running program here: how it logs, counts, serves probes, retries and
//! stops.
//!
//! It must not know: Kubernetes, hosts, machine configurations. Nothing in it is global but the log
//! subscriber.
//!
//! - [`admin`]: the endpoint for metrics and health
//! - [`backoff`]: growing delays with jitter and a ceiling
//! - [`cli`]: groups of options that programs share
//! - [`health`]: whether the process lives and can work; a watchdog for its loops
//! - [`http`]: the server under the admin endpoint and under services
//! - [`logs`]: one line a record, as text or JSON; a filter that can change
//! - [`memory`]: returning the heap of a program at rest
//! - [`metrics`]: counters, gauges and histograms, printed in the Prometheus text format
//! - [`program`]: a program from its command line to its exit code
//! - [`secure_metrics`]: metrics over HTTPS, for a client with a certificate
//! - [`report`]: an error with its causes, each printed once
//! - [`shutdown`]: the request to stop the process

#![warn(missing_docs)]

#[cfg(feature = "admin")]
pub mod admin;
pub mod backoff;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "process")]
pub mod health;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "logs")]
pub mod logs;
#[cfg(feature = "process")]
pub mod memory;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "cli")]
pub mod program;
pub mod report;
#[cfg(feature = "secure-metrics")]
pub mod secure_metrics;
#[cfg(feature = "process")]
pub mod shutdown;
