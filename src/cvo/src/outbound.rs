//! The client for servers outside of the cluster: by its proxy, with its authorities.

use web::{Authorities, ClientSettings, Error, Proxies, WebClient};

use version_update::builder::ClusterProxy;

/// What the program calls itself.
pub(crate) const USER_AGENT: &str = concat!("ClusterVersionOperator/", env!("CARGO_PKG_VERSION"));

/// Shape: `bundle` is PEM and takes the place of the system's authorities.
///
/// # Errors
/// As of [`WebClient::new`].
pub(crate) fn client(proxy: &ClusterProxy, bundle: Option<&str>) -> Result<WebClient, Error> {
    WebClient::new(&ClientSettings {
        user_agent: USER_AGENT,
        proxies: Proxies::Cluster {
            http: &proxy.http,
            https: &proxy.https,
            none: &proxy.none,
        },
        authorities: bundle.map_or(Authorities::System, |bundle| Authorities::Only {
            name: "the certificates of key ca-bundle.crt",
            bundle: bundle.as_bytes(),
        }),
        host: None,
    })
}
