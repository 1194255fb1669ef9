//! The command line, validated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use chassis::cli::{AdminArgs, LogArgs};
use operator::cli::ClientArgs;

use crate::rate_limit::RateLimitPolicy;
use crate::server::Bootstrap;

/// Options of `mcs start`.
#[derive(Debug, Clone, clap::Args)]
pub struct ConfigServerArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The API server as machines reach it: https, host and port
    #[arg(long, value_name = "URL")]
    apiserver_url: String,
    /// Bundle that vouches for the API server, PEM; machines get it in their kubeconfig
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    )]
    apiserver_ca_file: PathBuf,
    /// Address of configurations, over TLS
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:22623")]
    listen: SocketAddr,
    /// Address of /healthz without TLS, for load balancers; serves no configuration
    #[arg(long, value_name = "ADDRESS")]
    plain_listen: Option<SocketAddr>,
    /// Certificate, and then its intermediates, PEM; read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.crt")]
    cert: PathBuf,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.key")]
    key: PathBuf,
    /// ConfigMap with the authorities of client certificates in its key client-ca-file
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/extension-apiserver-authentication"
    )]
    client_ca_configmap: String,
    /// Audience that a bootstrap token must be made for; may be repeated
    #[arg(long, value_name = "AUDIENCE", default_value = "machine-config-server")]
    token_audience: Vec<String>,
    /// Seconds after its first answer in which a credential is answered again; 0: always
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    answer_window_secs: u64,
    /// Whether several machines share a token: each address then has a window of its own
    #[arg(long)]
    shared_tokens: bool,
    /// Account whose tokens let a kubelet ask for its certificate
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "openshift-machine-config-operator/node-bootstrapper"
    )]
    bootstrap_account: String,
    /// Seconds that a machine's token for the API server is good for; at least 600
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    bootstrap_token_secs: u64,
    /// Serves every peer, at any time, as OpenShift's server does; configurations hold secrets
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    admin: AdminArgs,
    /// The log is set up before the rest is validated.
    #[command(flatten)]
    pub log: LogArgs,
}

/// What `mcs start` runs with.
#[derive(Debug, Clone)]
pub struct ConfigServerOptions {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    pub(crate) plain_listen: Option<SocketAddr>,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) signers: (String, String),
    pub(crate) audiences: Vec<String>,
    pub(crate) rate_limits: RateLimitPolicy,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) is_open: bool,
    pub(crate) metrics: SocketAddr,
}

/// The API server makes no token for less.
const SHORTEST_TOKEN: u64 = 600;

impl ConfigServerArgs {
    /// Validates.
    ///
    /// # Errors
    /// A message that names the option.
    pub fn validate(self) -> anyhow::Result<ConfigServerOptions> {
        ensure!(
            is_server(&self.apiserver_url),
            "--apiserver-url {:?} is no https:// URL of a server",
            self.apiserver_url
        );
        ensure!(
            self.bootstrap_token_secs >= SHORTEST_TOKEN,
            "--bootstrap-token-secs {} is below {SHORTEST_TOKEN}",
            self.bootstrap_token_secs
        );
        ensure!(
            self.token_audience
                .iter()
                .all(|audience| !audience.is_empty()),
            "--token-audience is empty"
        );
        // Without credentials there is none whose time is over: a machine that is installed again
        // has the same address.
        let window = Duration::from_secs(self.answer_window_secs);
        let window = Some(window).filter(|window| !window.is_zero() && !self.open);
        Ok(ConfigServerOptions {
            kubeconfig: self.client.kubeconfig,
            listen: self.listen,
            plain_listen: self.plain_listen,
            certificate: self.cert,
            key: self.key,
            signers: object(&self.client_ca_configmap).with_context(|| {
                let text = &self.client_ca_configmap;
                format!("--client-ca-configmap {text:?} is not NAMESPACE/NAME")
            })?,
            audiences: self.token_audience,
            rate_limits: RateLimitPolicy {
                window,
                is_shared: self.shared_tokens,
                burst: RateLimitPolicy::BURST,
                pause: RateLimitPolicy::PAUSE,
            },
            bootstrap: Bootstrap {
                server: self.apiserver_url,
                authority: self.apiserver_ca_file,
                account: object(&self.bootstrap_account).with_context(|| {
                    let text = &self.bootstrap_account;
                    format!("--bootstrap-account {text:?} is not NAMESPACE/NAME")
                })?,
                token_secs: self.bootstrap_token_secs,
            },
            is_open: self.open,
            metrics: self.admin.metrics_url,
        })
    }
}

fn is_server(url: &str) -> bool {
    let host = url.strip_prefix("https://").unwrap_or_default();
    let uri = host.parse::<http::uri::Authority>();
    uri.is_ok_and(|authority| !authority.host().is_empty() && !host.contains('@'))
}

/// `namespace/name`, both fit for a path.
fn object(text: &str) -> Option<(String, String)> {
    let (namespace, name) = text.split_once('/')?;
    let is_name = |text: &str| {
        let is_part = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        !text.is_empty() && text.bytes().all(is_part)
    };
    (is_name(namespace) && is_name(name)).then(|| (namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        start: ConfigServerArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<ConfigServerOptions> {
        let arguments = [&["mcs"], arguments].concat();
        Program::try_parse_from(arguments)?.start.validate()
    }

    const URL: &str = "--apiserver-url=https://api-int.example:6443";

    #[test]
    fn defaults_keep_the_server_closed() {
        let options = options(&[URL]).unwrap();
        assert_eq!(options.listen.to_string(), "[::]:22623");
        assert_eq!(options.plain_listen, None);
        assert!(!options.is_open);
        assert_eq!(options.audiences, ["machine-config-server"]);
        assert_eq!(options.rate_limits.window, Some(Duration::from_hours(1)));
        assert!(!options.rate_limits.is_shared);
        let account = ("openshift-machine-config-operator", "node-bootstrapper");
        assert_eq!(
            options.bootstrap.account,
            (account.0.to_owned(), account.1.to_owned())
        );
    }

    #[test]
    fn open_server_closes_no_window() {
        for arguments in [
            [URL, "--open", "--answer-window-secs=3600"],
            [URL, "--shared-tokens", "--answer-window-secs=0"],
        ] {
            assert_eq!(options(&arguments).unwrap().rate_limits.window, None);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (vec![], "--apiserver-url"),
            (
                vec!["--apiserver-url=http://a:1"],
                "--apiserver-url \"http://a:1\"",
            ),
            (
                vec!["--apiserver-url=https://"],
                "--apiserver-url \"https://\"",
            ),
            (vec!["--apiserver-url=https://a/b"], "--apiserver-url"),
            (
                vec![URL, "--bootstrap-token-secs=599"],
                "--bootstrap-token-secs 599",
            ),
            (
                vec![URL, "--bootstrap-account=a"],
                "--bootstrap-account \"a\"",
            ),
            (
                vec![URL, "--client-ca-configmap=a/b/c"],
                "--client-ca-configmap",
            ),
            (vec![URL, "--token-audience="], "--token-audience"),
        ];
        for (arguments, expected) in table {
            let error = options(&arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
