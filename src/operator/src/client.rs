//! Who a controller is at the API server, and in its lease.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;

use cluster::access::{Access, SILENCE};
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};

/// Why a controller has no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no kubeconfig, and no service account of a pod.
    #[error("not in a pod with a service account, and there is no --kubeconfig")]
    NoIdentity(#[source] kube::config::InClusterError),
    /// The service account cannot be used.
    #[error("cannot make a client")]
    Client(#[source] Box<kube::Error>),
}

/// The identity of a kubeconfig, or without one the pod's service account.
///
/// Shape: `user_agent` is `program/version`, and names the program in each request.
///
/// # Errors
/// All of [`Error`]. A kubeconfig is read with the first request, and again with each.
pub fn connect(kubeconfig: Option<&Path>, user_agent: &'static str) -> Result<Access, Error> {
    if let Some(path) = kubeconfig {
        let access = Access::kubeconfig(path, Box::new(|path| std::fs::read(path)));
        return Ok(access.with_user_agent(user_agent));
    }
    let mut config = Config::incluster().map_err(Error::NoIdentity)?;
    // Retries are decided where a failure is understood.
    config.default_retry = false;
    config.read_timeout = Some(SILENCE);
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(user_agent)));
    let client = Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))?;
    Ok(Access::of_client(client))
}

/// What a replica calls itself in the lease: host, process, and a number that differs from start to
/// start.
pub fn identity() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let random = RandomState::new().build_hasher().finish();
    format!(
        "{}_{}_{random:016x}",
        host.to_string_lossy(),
        std::process::id()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_have_two_identities() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        let process = format!("_{}_", std::process::id());
        assert!(one.contains(&process), "{one}");
    }
}
