//! The chassis of every long-running program here: how it logs, counts, answers probes, retries and stops.
//!
//! It must not know: Kubernetes, hosts, machine configurations. Nothing in it is global but the log subscriber.
//!
//! - [`backoff`]: growing delays with jitter and a ceiling
//! - [`logs`]: one line a record, level from a flag
//! - [`memory`]: what a program at rest gives back
//! - [`metrics`]: counters and gauges, printed in the Prometheus text format
//! - [`probes`]: the HTTP endpoint for metrics and health
//! - [`report`]: an error with its causes, each said once
//! - [`shutdown`]: the process was asked to stop

pub mod backoff;
pub mod logs;
pub mod memory;
pub mod metrics;
pub mod probes;
pub mod report;
pub mod shutdown;
