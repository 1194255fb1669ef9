//! Who may read metrics over HTTPS: the cluster's Prometheus alone.
//!
//! Source: `docs/reference/cvo.md`, "Operation".

use chassis::http::tls::ClientAuthorities;
use chassis::report::Chain;
use operator::watch::kept::ConfigMapData;

/// Namespace and name of the ConfigMap with the authorities of clients.
pub const AUTHORITIES: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// Key of these authorities.
const CLIENT_CA: &str = "client-ca-file";

/// Takes over authorities of clients from their ConfigMap; without it, clients have none.
pub fn learn(authorities: &ClientAuthorities, map: Option<&ConfigMapData>) {
    let bundle = map.and_then(|map| map.data.get(CLIENT_CA));
    if let Err(error) = authorities.set(bundle.map(String::as_bytes)) {
        let (namespace, name) = AUTHORITIES;
        tracing::warn!(
            error = %Chain(&error),
            "ConfigMap {namespace}/{name}: the authorities before stay"
        );
    }
}

#[cfg(test)]
mod tests {
    use operator::watch::kept::KeptPart as _;
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;

    #[test]
    fn authorities_are_those_of_the_cluster_and_a_broken_bundle_changes_nothing() {
        let map = |bundle: &str| {
            let data = json!({ CLIENT_CA: bundle });
            let object = json!({ "metadata": { "name": AUTHORITIES.1 }, "data": data });
            ConfigMapData::of(serde_json::from_value(object).unwrap())
        };
        let authorities = ClientAuthorities::default();
        let key = KeyPair::generate().unwrap();
        let pem = CertificateParams::default()
            .self_signed(&key)
            .unwrap()
            .pem();
        learn(&authorities, Some(&map(&pem)));
        assert!(authorities.are_known());
        learn(&authorities, Some(&map("no PEM")));
        assert!(authorities.are_known());
        learn(&authorities, None);
        assert!(!authorities.are_known());
    }
}
