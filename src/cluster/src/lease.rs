//! Of several replicas one leads: the one that holds a Lease and renews it in time.
//!
//! A lease is no lock: a leader that was frozen does not know that another took over. Its
//! [`Access`] sends no write after the time in which the lease had to be renewed. A request that
//! was under way when it froze may still arrive; where that matters, a leader guards its writes
//! (see `pool::claim`).

use std::time::Duration;

use chassis::backoff;
use chassis::report::Chain;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::access::Access;
use crate::cache::is_newer;
use crate::path;
use crate::wire::{self, RequestBody};

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long a lease holds after its last renewal. Others wait as long before they take over.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up. Shorter than `duration`, so that it
    /// stops before another begins.
    pub renew_deadline: Duration,
    /// Time between attempts to take or renew the lease.
    pub retry: Duration,
}

/// Source: the terms of OpenShift's operators. They outlive a disturbed API server of a minute, and
/// cost two requests a minute.
impl Default for Terms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(137),
            renew_deadline: Duration::from_secs(107),
            retry: Duration::from_secs(26),
        }
    }
}

/// Which lease, and who wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidacy {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who wants it: unique among replicas and their restarts.
    pub identity: String,
    /// How long things take.
    pub terms: Terms,
}

/// Why there is no leadership.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be renewed in time; another may lead by now.
    #[error("lease {lease} could not be renewed within {} s", deadline.as_secs())]
    NotRenewed {
        /// Namespace and name.
        lease: String,
        /// How long was tried.
        deadline: Duration,
    },
    /// It is older than it was: the API server's store was restored from a backup, and what watches
    /// have delivered since then does not hold.
    #[error("lease {lease} is older than it was: the API server's store was restored")]
    Restored {
        /// Namespace and name.
        lease: String,
    },
    /// Another holds it.
    #[error("lease {lease} was taken by {holder}")]
    Taken {
        /// Namespace and name.
        lease: String,
        /// Who has it.
        holder: String,
    },
}

/// The lease, held.
#[derive(Debug)]
pub struct Leadership<'a> {
    access: &'a Access,
    candidacy: Candidacy,
    clock: fn() -> Timestamp,
    version: String,
    renewed: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Lease {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
    lease_transitions: Option<u32>,
}

impl Lease {
    fn holder(&self) -> Option<&str> {
        self.spec
            .holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty())
    }

    /// How long the holder asked to be left alone.
    fn duration(&self) -> Duration {
        Duration::from_secs(self.spec.lease_duration_seconds.unwrap_or_default())
    }
}

/// Waits until the lease is ours.
///
/// Another's lease is taken once it has not changed for as long as it promised. That is measured
/// here, by a clock that cannot be set: the times that replicas write are for people.
pub async fn acquire(
    access: &Access,
    candidacy: Candidacy,
    clock: fn() -> Timestamp,
) -> Leadership<'_> {
    let mut held = Leadership {
        access,
        candidacy,
        clock,
        version: String::new(),
        renewed: Instant::now(),
    };
    let mut seen: Option<(Lease, Instant)> = None;
    // Of a lease that was held before.
    access.write_until(None);
    loop {
        match held.attempt(&mut seen).await {
            Ok(true) => return held,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(lease = held.name(), error = %Chain(&error), "cannot take the lease");
            }
        }
        tokio::time::sleep(backoff::spread(held.candidacy.terms.retry)).await;
    }
}

impl Leadership<'_> {
    /// Renews the lease for as long as that succeeds.
    ///
    /// # Errors
    /// Returns only with one of [`Error`]: the caller does not lead any more.
    pub async fn keep(&mut self) -> Error {
        let terms = self.candidacy.terms;
        loop {
            let deadline = self.renewed + terms.renew_deadline;
            tokio::time::sleep(backoff::spread(terms.retry)).await;
            loop {
                match timeout_at(deadline, self.renew()).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => {
                        tracing::warn!(lease = self.name(), error = %Chain(&error), "cannot renew the lease");
                        if error.is_conflict()
                            && let Some(error) = self.lost(deadline).await
                        {
                            return error;
                        }
                    }
                    Err(_) => return self.not_renewed(),
                }
                let pause = backoff::spread(terms.retry.min(Duration::from_secs(2)));
                if Instant::now() + pause >= deadline {
                    return self.not_renewed();
                }
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Gives the lease back, so that another need not wait. That it fails costs that wait only.
    pub async fn release(self) {
        let spec =
            json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self.now() });
        match self.patch(&self.version, spec).await {
            Ok(_) => tracing::info!(lease = self.name(), "gave the lease back"),
            Err(error) => {
                tracing::warn!(lease = self.name(), error = %Chain(&error), "cannot give the lease back");
            }
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.candidacy.namespace, self.candidacy.name)
    }

    fn not_renewed(&self) -> Error {
        Error::NotRenewed {
            lease: self.name(),
            deadline: self.candidacy.terms.renew_deadline,
        }
    }

    async fn attempt(&mut self, seen: &mut Option<(Lease, Instant)>) -> Result<bool, wire::Error> {
        let Some(lease) = self.access.find::<Lease>(&self.path()).await? else {
            return self.create().await;
        };
        let since = match seen {
            Some((observed, since)) if *observed == lease => *since,
            _ => {
                let now = Instant::now();
                tracing::debug!(lease = self.name(), holder = lease.holder(), "lease seen");
                *seen = Some((lease.clone(), now));
                now
            }
        };
        let is_free = lease
            .holder()
            .is_none_or(|holder| holder == self.candidacy.identity)
            || since.elapsed() >= lease.duration();
        if !is_free {
            return Ok(false);
        }
        let transitions = lease
            .spec
            .lease_transitions
            .unwrap_or_default()
            .saturating_add(1);
        let now = self.now();
        let mut spec = self.term(&now);
        if let Some(fields) = spec.as_object_mut() {
            fields.insert("acquireTime".to_owned(), json!(now));
            fields.insert("leaseTransitions".to_owned(), json!(transitions));
        }
        let began = Instant::now();
        let written = self.patch(&lease.metadata.resource_version, spec).await;
        Ok(self.took(wire::unless_conflict(written)?, began))
    }

    async fn create(&mut self) -> Result<bool, wire::Error> {
        let Candidacy {
            namespace, name, ..
        } = &self.candidacy;
        let now = self.now();
        let mut spec = self.term(&now);
        if let Some(fields) = spec.as_object_mut() {
            fields.insert("acquireTime".to_owned(), json!(now));
            fields.insert("leaseTransitions".to_owned(), json!(0));
        }
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": name, "namespace": namespace },
            "spec": spec
        });
        let path = path::namespace::<coordination::Lease>(namespace);
        let began = Instant::now();
        let body = RequestBody::Object(&lease);
        let created = self.access.send(Method::POST, &path, body).await;
        Ok(self.took(wire::unless_conflict(created)?, began))
    }

    /// Whether the lease was taken; none is written where another replica was quicker.
    fn took(&mut self, written: Option<Lease>, began: Instant) -> bool {
        let is_taken = written.is_some();
        if let Some(lease) = written {
            self.holds(lease, began);
        }
        is_taken
    }

    async fn renew(&mut self) -> Result<(), wire::Error> {
        let began = Instant::now();
        let spec = self.term(&self.now());
        let lease = self.patch(&self.version, spec).await?;
        self.holds(lease, began);
        Ok(())
    }

    /// Notes that the lease is held as of `began`.
    fn holds(&mut self, lease: Lease, began: Instant) {
        self.version = lease.metadata.resource_version;
        self.renewed = began;
        let end = began + self.candidacy.terms.renew_deadline;
        self.access.write_until(Some(end));
    }

    /// After a conflict: why we do not lead any more. Where the lease is still ours, for example
    /// because an administrator labelled it, the next renewal goes on from there.
    async fn lost(&mut self, deadline: Instant) -> Option<Error> {
        let read = timeout_at(deadline, self.access.get::<Lease>(&self.path())).await;
        match read {
            Ok(Ok(lease)) if is_newer(&self.version, &lease.metadata.resource_version) => {
                Some(Error::Restored { lease: self.name() })
            }
            Ok(Ok(lease)) if lease.holder() == Some(self.candidacy.identity.as_str()) => {
                self.version = lease.metadata.resource_version;
                None
            }
            Ok(Ok(lease)) => Some(Error::Taken {
                lease: self.name(),
                holder: lease.holder().unwrap_or("an unnamed holder").to_owned(),
            }),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name(), error = %Chain(&error), "cannot read the lease");
                None
            }
            Err(_) => None,
        }
    }

    async fn patch(&self, version: &str, spec: Value) -> Result<Lease, wire::Error> {
        let patch = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
        self.access
            .send(Method::PATCH, &self.path(), RequestBody::MergePatch(&patch))
            .await
    }

    fn term(&self, now: &MicroTime) -> Value {
        json!({
            "holderIdentity": self.candidacy.identity,
            "leaseDurationSeconds": self.candidacy.terms.duration.as_secs().max(1),
            "renewTime": now
        })
    }

    /// The time, to the microsecond as the API keeps it.
    fn now(&self) -> MicroTime {
        MicroTime((self.clock)())
    }

    fn path(&self) -> String {
        path::namespaced::<coordination::Lease>(&self.candidacy.namespace, &self.candidacy.name)
    }
}

#[cfg(test)]
mod tests;
