//! Who may read metrics over HTTPS: the cluster's Prometheus alone, whose certificate an authority
//! of the API server's clients signed. A replica that does not lead is read, too.

use std::sync::Arc;
use std::time::Duration;

use chassis::http::tls::ClientAuthorities;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use cluster::access::Access;
use cluster::path;
use cluster::wire;
use k8s_openapi::api::core::v1::ConfigMap;

/// Namespace and name of the ConfigMap with the authorities.
const AUTHORITIES: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// Key of the authorities of clients.
const CLIENT_CA: &str = "client-ca-file";

/// Time between two looks. A new authority is announced long before it signs.
const LOOK: Duration = Duration::from_mins(5);

/// The same while there are none.
const LOOK_FIRST: Duration = Duration::from_secs(10);

/// Takes the authorities over until the shutdown.
pub(crate) async fn follow(
    access: Arc<Access>,
    authorities: ClientAuthorities,
    mut shutdown: Shutdown,
) {
    loop {
        learn(&authorities, read(&access).await);
        let pause = if authorities.are_known() {
            LOOK
        } else {
            LOOK_FIRST
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The bundle; nothing where the cluster has none.
async fn read(access: &Access) -> Result<Option<String>, wire::Error> {
    let (namespace, name) = AUTHORITIES;
    let path = path::namespaced::<ConfigMap>(namespace, name);
    let map = access.find::<ConfigMap>(&path).await?;
    Ok(map.and_then(|map| map.data?.remove(CLIENT_CA)))
}

/// Takes over what was read. After a failure those before stay.
fn learn(authorities: &ClientAuthorities, bundle: Result<Option<String>, wire::Error>) {
    let (namespace, name) = AUTHORITIES;
    let failed = |error: &(dyn std::error::Error + 'static)| {
        tracing::warn!(
            error = %Chain(error),
            "ConfigMap {namespace}/{name}: the authorities before stay"
        );
    };
    match bundle {
        Ok(bundle) => {
            if let Err(error) = authorities.set(bundle.as_deref().map(str::as_bytes)) {
                failed(&error);
            }
        }
        Err(error) => failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn authorities_are_those_of_the_cluster_and_a_failure_changes_nothing() {
        let key = KeyPair::generate().unwrap();
        let pem = CertificateParams::default()
            .self_signed(&key)
            .unwrap()
            .pem();
        let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        let map = |bundle: &str| Reply::ok(json!({ "data": { CLIENT_CA: bundle } }));
        let responses = [
            (map(&pem), true),
            (map("no PEM"), true),
            (Reply::failure(403, "Forbidden", "no"), true),
            (Reply::failure(404, "NotFound", "no"), false),
        ];
        let authorities = ClientAuthorities::default();
        for (reply, are_known) in responses {
            let (script, client) = Script::start(vec![Call::get(path, reply)]);
            let access = Access::of_client(client);
            let bundle = script.drive(read(&access)).await;
            learn(&authorities, bundle);
            assert_eq!(authorities.are_known(), are_known);
        }
    }
}
