//! Who may read metrics over HTTPS: a client of an authority that the kubelet trusts, too.
//!
//! The bundle is a file of the host that the daemon itself keeps as the cluster has it
//! ([`super::certificates`]). The API server publishes the same authorities in a ConfigMap; reading
//! that one would be a further right, and a request again and again from each node.
//!
//! Source: `docs/reference/daemon.md`, "Events and metrics".

use std::path::Path;
use std::time::Duration;

use chassis::http::tls::{self, ClientAuthorities};
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use host::files::Root;

/// Time between two looks at the bundle, which a new node gets after the daemon has started.
const LOOK: Duration = Duration::from_secs(10);

/// Why the bundle cannot be taken over.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read the bundle")]
    Read(#[from] host::files::Error),
    #[error("cannot use the bundle")]
    Use(#[from] tls::Error),
}

/// Takes over the authorities of clients from a bundle of the host, until the shutdown.
pub async fn follow(
    root: &Path,
    bundle: &str,
    authorities: &ClientAuthorities,
    mut shutdown: Shutdown,
) {
    let mut logged = String::new();
    loop {
        let problem = match learn(root, bundle, authorities) {
            Ok(true) => String::new(),
            Ok(false) => "it is not there: no client can read metrics".to_owned(),
            Err(error) => format!("the authorities before stay: {}", Chain(&error)),
        };
        if problem != logged && !problem.is_empty() {
            tracing::warn!(path = bundle, "authorities of clients: {problem}");
        }
        logged = problem;
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Whether there is a bundle. Without it, clients have no authorities.
fn learn(root: &Path, bundle: &str, authorities: &ClientAuthorities) -> Result<bool, Error> {
    let bytes = Root::open(root, None)?.read(bundle)?;
    // No lines at all are a bundle that an administrator has emptied.
    let bytes = bytes.filter(|bytes| !bytes.trim_ascii().is_empty());
    authorities.set(bytes.as_deref())?;
    Ok(bytes.is_some())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files of a test")]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    const BUNDLE: &str = "/etc/kubernetes/kubelet-ca.crt";

    #[test]
    fn clients_are_known_as_long_as_the_host_has_a_bundle() {
        let host = tempfile::tempdir().unwrap();
        let file = host.path().join("etc/kubernetes/kubelet-ca.crt");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let authorities = ClientAuthorities::default();
        let learn = || learn(host.path(), BUNDLE, &authorities);
        let write = |text: &str| std::fs::write(&file, text).unwrap();

        assert!(!learn().unwrap() && !authorities.are_known());
        let key = KeyPair::generate().unwrap();
        let pem = CertificateParams::default()
            .self_signed(&key)
            .unwrap()
            .pem();
        write(&pem);
        assert!(learn().unwrap() && authorities.are_known());
        for broken in ["no PEM", &pem[..pem.len() / 2]] {
            write(broken);
            learn().unwrap_err();
            assert!(authorities.are_known(), "the ones before stay");
        }
        write("\n");
        assert!(!learn().unwrap() && !authorities.are_known());
        write(&pem);
        learn().unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(!learn().unwrap() && !authorities.are_known());
    }

    #[tokio::test(start_paused = true)]
    async fn a_bundle_is_taken_over_without_a_restart() {
        let host = tempfile::tempdir().unwrap();
        let authorities = ClientAuthorities::default();
        let (trigger, shutdown) = chassis::shutdown::pair();
        let following = follow(host.path(), "/ca.crt", &authorities, shutdown);
        let writing = async {
            tokio::time::sleep(LOOK / 2).await;
            let key = KeyPair::generate().unwrap();
            let pem = CertificateParams::default()
                .self_signed(&key)
                .unwrap()
                .pem();
            std::fs::write(host.path().join("ca.crt"), pem).unwrap();
            assert!(!authorities.are_known());
            tokio::time::sleep(LOOK).await;
            assert!(authorities.are_known());
            trigger.fire();
        };
        tokio::join!(following, writing);
    }
}
