//! The command line, validated.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use chassis::cli::{AdminArgs, LogArgs, SecureArgs};
use chassis::secure_metrics::SecureListener;
use cluster::lease::Candidacy;
use operator::cli::{ClientArgs, LeaderArgs};
use web::prometheus::MetricsServer;

use crate::outbound::USER_AGENT;
use crate::reconcile::{AdviceSettings, VersionOperatorSettings};
use crate::retrieval::{RetrievalMethod, RetrievalSettings};
use crate::retrieval_job::RetrievalJob;

/// Name of the lease; upstream's, so that the two never lead at once.
const LEASE: &str = "version";

/// Bounds of the base interval, from which each process draws: clusters that were started together
/// do not ask together.
const INTERVAL: (Duration, Duration) = (Duration::from_mins(2), Duration::from_mins(4));

/// `cvo start`: applies the release.
#[derive(Debug, Clone, clap::Args)]
pub struct VersionOperatorArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Pull spec of the release that this program belongs to, by digest
    #[arg(long, env = "RELEASE_IMAGE")]
    release_image: String,
    /// Directory of that release, with manifests and release-manifests
    #[arg(long, env = "PAYLOAD_OVERRIDE", default_value = "/")]
    payload: PathBuf,
    /// Namespace of the lease
    #[arg(
        long,
        env = "CVO_NAMESPACE",
        default_value = "openshift-cluster-version"
    )]
    namespace: String,
    /// Profile of the cluster: manifests are included by it
    #[arg(
        long,
        env = "CLUSTER_PROFILE",
        default_value = "self-managed-high-availability"
    )]
    cluster_profile: String,
    /// Identity by which manifests exclude this program
    #[arg(long, env = "EXCLUDE_MANIFESTS", default_value = "")]
    exclude_manifests: String,
    /// Capabilities that are always on, with commas
    #[arg(long, value_delimiter = ',')]
    always_enable_capabilities: Vec<String>,
    /// Seconds after which the release is applied again; drawn from 120 to 240 unless set
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    interval_secs: Option<u64>,
    /// Remove objects that the release before had and this one has not
    #[arg(long)]
    prune_dropped: bool,
    /// Update service, in place of the ClusterVersion's
    #[arg(long, value_name = "URL")]
    update_service: Option<String>,
    /// Prometheus or Thanos that evaluates risks [default: the Service thanos-querier]
    #[arg(long, value_name = "URL")]
    promql_url: Option<String>,
    /// Authority of that server, as PEM
    #[arg(long, value_name = "FILE")]
    promql_ca_file: Option<PathBuf>,
    /// Token that is sent to it
    #[arg(long, value_name = "FILE")]
    promql_token_file: Option<PathBuf>,
    /// How the image of another release is retrieved
    #[arg(long, value_enum, default_value_t = RetrievalKind::Job)]
    retrieval: RetrievalKind,
    /// Directory of retrieved releases
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = "/etc/cvo/updatepayloads"
    )]
    payloads: PathBuf,
    /// Seconds that verification and retrieval of a release may take
    #[arg(long, value_name = "SECONDS", default_value_t = 240,
          value_parser = clap::value_parser!(u64).range(1..=604_800))]
    retrieval_secs: u64,
    /// With --retrieval=pull: credentials for registries, as podman and docker keep them
    #[arg(long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
    /// With --retrieval=pull: take registries without TLS or with an unknown certificate
    #[arg(long)]
    insecure_registries: bool,
    /// With --retrieval=job: the node of this program
    #[arg(long, env = "NODE_NAME", default_value = "")]
    node_name: String,
    #[command(flatten)]
    secure: SecureArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    leader: LeaderArgs,
    /// The log is set up before the rest is validated.
    #[command(flatten)]
    pub log: LogArgs,
}

/// How the image of another release is retrieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RetrievalKind {
    /// By the container runtime of this node, for a Job
    Job,
    /// By this program, from the registry
    Pull,
}

/// What `cvo start` runs with.
#[derive(Debug, Clone)]
pub struct VersionOperatorOptions {
    /// Kubeconfig; without it the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of events.
    pub namespace: String,
    /// Where metrics and health are served.
    pub metrics: SocketAddr,
    /// Where metrics are served over HTTPS.
    pub secure: Option<SecureListener>,
    /// The lease to work under, if any.
    pub candidacy: Option<Candidacy>,
    /// The release and the cluster.
    pub settings: VersionOperatorSettings,
}

impl VersionOperatorArgs {
    /// Validates. `identity` names this replica where the command line does not; `random` is
    /// uniform over all of `u64`.
    ///
    /// # Errors
    /// A message that names the option.
    pub fn validate(
        self,
        identity: impl FnOnce() -> String,
        random: u64,
    ) -> anyhow::Result<VersionOperatorOptions> {
        ensure!(
            !self.release_image.is_empty(),
            "--release-image must not be empty"
        );
        let retrieval = RetrievalSettings {
            directory: self.payloads,
            limit: Duration::from_secs(self.retrieval_secs),
            method: match self.retrieval {
                RetrievalKind::Job => RetrievalMethod::Job(RetrievalJob {
                    namespace: self.namespace.clone(),
                    node: self.node_name,
                    deadline_secs: self.retrieval_secs.div_ceil(2),
                }),
                RetrievalKind::Pull => RetrievalMethod::Pull {
                    credentials: self.registry_config,
                    is_insecure: self.insecure_registries,
                },
            },
        };
        let candidacy = self.leader.candidacy(&self.namespace, LEASE, identity)?;
        let (least, most) = INTERVAL;
        let spread = most.as_secs() - least.as_secs();
        let drawn = least + Duration::from_secs(random % spread);
        Ok(VersionOperatorOptions {
            kubeconfig: self.client.kubeconfig,
            namespace: self.namespace.clone(),
            metrics: self.admin.metrics_url,
            secure: self.secure.into_listener(),
            candidacy,
            settings: VersionOperatorSettings {
                root: self.payload,
                image: self.release_image,
                profile: self.cluster_profile,
                exclude: self.exclude_manifests,
                always: self
                    .always_enable_capabilities
                    .into_iter()
                    .filter(|name| !name.is_empty())
                    .collect::<BTreeSet<_>>(),
                interval: self.interval_secs.map_or(drawn, Duration::from_secs),
                inventory: self.prune_dropped.then_some(self.namespace),
                retrieval,
                advice: AdviceSettings {
                    service: self.update_service,
                    metrics: MetricsServer {
                        user_agent: USER_AGENT,
                        url: self
                            .promql_url
                            .map(|url| url.trim_end_matches('/').to_owned()),
                        authority: self.promql_ca_file,
                        token: self.promql_token_file,
                    },
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        start: VersionOperatorArgs,
    }

    fn options(arguments: &[&str], random: u64) -> anyhow::Result<VersionOperatorOptions> {
        let arguments = [&["cvo", "--release-image=q/r@sha256:0"], arguments].concat();
        Program::try_parse_from(arguments)?
            .start
            .validate(|| "me".to_owned(), random)
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        let options = options(&["--always-enable-capabilities=Ingress,Build"], 7).unwrap();
        let candidacy = options.candidacy.unwrap();
        assert_eq!(
            (candidacy.namespace.as_str(), candidacy.name.as_str()),
            ("openshift-cluster-version", "version")
        );
        let settings = options.settings;
        assert_eq!(settings.profile, "self-managed-high-availability");
        assert_eq!(settings.root, PathBuf::from("/"));
        assert_eq!(settings.always.len(), 2);
        assert_eq!(settings.interval, Duration::from_secs(127));
    }

    #[test]
    fn metrics_over_https_need_their_certificate() {
        assert_eq!(options(&[], 0).unwrap().secure, None);
        let listen = ["--listen=0.0.0.0:9099", "--serving-cert-file=/c"];
        let error = options(&listen, 0).unwrap_err().to_string();
        assert!(error.contains("--serving-key-file"), "{error}");
        let whole = [&listen[..], &["--serving-key-file=/k"]].concat();
        let secure = options(&whole, 0).unwrap().secure.unwrap();
        assert_eq!(secure.address.to_string(), "0.0.0.0:9099");
        assert_eq!((secure.certificate, secure.key), ("/c".into(), "/k".into()));
    }

    #[test]
    fn interval_is_drawn_from_two_to_four_minutes() {
        for random in [0, 119, 120, u64::MAX] {
            let interval = options(&[], random).unwrap().settings.interval;
            assert!((INTERVAL.0..INTERVAL.1).contains(&interval), "{interval:?}");
        }
        let set = options(&["--interval-secs=3"], 0).unwrap();
        assert_eq!(set.settings.interval, Duration::from_secs(3));
        for wrong in ["0", "604801"] {
            let interval = format!("--interval-secs={wrong}");
            let retrieval = format!("--retrieval-secs={wrong}");
            assert!(options(&[interval.as_str()], 0).is_err());
            assert!(options(&[retrieval.as_str()], 0).is_err());
        }
    }
}
