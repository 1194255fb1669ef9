//! `00-<role>`: what a host has whatever runs on it.

use ignition::{Config, Dropin, Unit};

use super::{Facts, PULL_SECRET_FILE, file, ignition};

/// CA of the cluster.
const ROOT_CA: &str = "/etc/kubernetes/ca.crt";

/// Certificates that the host trusts besides those of its OS.
const TRUST: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";

/// Variables of the proxy.
const PROXY: &str = "/etc/mco/proxy.env";

/// Where the API server is, for pods on the host's network.
const API_SERVER: &str = "/etc/kubernetes/apiserver-url.env";

/// Limits of watches on files, which each pod takes of.
const INOTIFY: (&str, &str) = (
    "/etc/sysctl.d/inotify.conf",
    "fs.inotify.max_user_watches = 65536\nfs.inotify.max_user_instances = 8192\n",
);

/// Services that pull images or talk to the world.
const BEHIND_PROXY: [&str; 2] = ["crio.service", "kubelet.service"];

pub(super) fn config(facts: &Facts) -> Config {
    let mut files = vec![(INOTIFY.0, INOTIFY.1.to_owned())];
    if !facts.root_ca.is_empty() {
        files.push((ROOT_CA, facts.root_ca.clone()));
    }
    if !facts.trust_bundle.is_empty() {
        files.push((TRUST, facts.trust_bundle.clone()));
    }
    if let Some((host, port)) = &facts.api_server {
        let text = format!("KUBERNETES_SERVICE_HOST='{host}'\nKUBERNETES_SERVICE_PORT='{port}'\n");
        files.push((API_SERVER, text));
    }
    let mut units = Vec::new();
    if !facts.proxy.is_empty() {
        let lines = facts.proxy.iter();
        let lines: Vec<String> = lines
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect();
        files.push((PROXY, lines.concat()));
        units.extend(BEHIND_PROXY.map(|name| Unit {
            name: name.to_owned(),
            dropins: vec![Dropin {
                name: "10-mco-default-env.conf".to_owned(),
                contents: Some(format!("[Service]\nEnvironmentFile={PROXY}\n")),
            }],
            ..Unit::default()
        }));
    }
    files.sort_unstable();
    let mut config = ignition(files, units);
    if let Some(secret) = &facts.pull_secret {
        config
            .storage
            .files
            .push(file(PULL_SECRET_FILE, secret, 0o600));
    }
    config
}
