//! The cluster of one node that most figures are measured in.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use jiff::Timestamp;
use lab::audit::Event;
use lab::audit::nodes::{self, NodeSnapshot};
use lab::host::Host;
use lab::tree::Overlay;
use testbed::objects;
use testbed::{Cluster, DONE_WITHIN, NodeSpec, Programs, SOON, Testbed, until};

use crate::config::{self, Config};
use crate::memory::OnHost;
use crate::relay::Relay;
use crate::traffic::Window;

/// The node.
pub(crate) const NODE: &str = "worker-0";

/// Its pool, and the role of the pool's configurations.
const POOL: &str = "worker";

/// Name of the MachineConfig that changes.
const CONFIG: &str = "50-bench";

/// The daemon's program.
pub(crate) const DAEMON: &str = "mcd";

/// Whose bytes the relay counts.
const COUNTED: [&str; 1] = [DAEMON];

/// After the last write of a change, until what follows it is over: events and logs are sent late.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// A cluster of one node in [`Config`].
#[derive(Debug)]
pub(crate) struct Session {
    // Dropped first: it relays to the cluster.
    relay: Relay,
    cluster: Cluster,
    config: Config,
    /// Pull specs of two operating systems that differ little.
    images: [String; 2],
}

impl Session {
    /// Starts it, and gives the node its large configuration and one pod.
    ///
    /// Errors: a part cannot be had, or the node does not come to be Done.
    pub(crate) async fn start(programs: &Programs, logs: &Path) -> Result<Self> {
        let testbed = Testbed::new(logs).programs(programs);
        let cluster = testbed.node(NodeSpec::new(NODE)).start().await?;
        // The controller runs beside the cluster: its pods and their budget are only in the way of
        // a node that is the only one.
        cluster.control_plane().kubectl(&[
            "delete",
            "--namespace=openshift-machine-config-operator",
            "deployment/machine-config-controller",
            "pdb/machine-config-controller",
        ])?;
        cluster.write_policies(&config::policies()).await?;
        cluster.policies_in_force().await?;
        cluster.apply(include_str!("objects/pod.yaml")).await?;
        let image = |version: &str| {
            let text = format!("{version}\n");
            let os = Overlay::version(version).file("/usr/share/bench", text, 0o644);
            Ok::<_, anyhow::Error>(cluster.image(&os)?.reference)
        };
        let images = [image("b1")?, image("b2")?];
        let relay =
            Relay::start(cluster.control_plane().server(), &COUNTED, Duration::ZERO).await?;
        let mut session = Self {
            relay,
            cluster,
            config: Config::default(),
            images,
        };
        session.relay_the_node()?;
        // By a reboot, after which everything on the node goes through the relay.
        session.change_os().await?;
        Ok(session)
    }

    /// Puts the relay's address into the node's kubeconfig, in place of the server's.
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of a host that lasts as long as the run"
    )]
    fn relay_the_node(&self) -> Result<()> {
        let path = self.host()?.var().join("lib/kubelet/kubeconfig");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let server = self.cluster.control_plane().server_url();
        ensure!(
            text.contains(&server),
            "the node's kubeconfig does not name {server}"
        );
        let relayed = text.replace(&server, &format!("https://{}", self.relay.address()));
        Ok(std::fs::write(path, relayed)?)
    }

    /// Changes the configuration, and waits until the node is Done in it and in service.
    ///
    /// Errors: it is not in time; says what the node says.
    pub(crate) async fn change(&mut self, edit: impl FnOnce(&mut Config)) -> Result<()> {
        edit(&mut self.config);
        let spec = self.config.spec();
        let target = self.cluster.change(CONFIG, POOL, &spec).await?;
        self.cluster.done_in(NODE, &target, DONE_WITHIN).await
    }

    /// Changes the files that need no reboot.
    ///
    /// Errors: those of [`Self::change`].
    pub(crate) async fn change_files(&mut self) -> Result<()> {
        self.change(|config| config.revision += 1).await
    }

    /// Changes the OS and a kernel argument.
    ///
    /// Errors: those of [`Self::change`].
    pub(crate) async fn change_os(&mut self) -> Result<()> {
        let [one, other] = self.images.clone();
        self.change(|config| {
            config.boot += 1;
            let image = if config.image.as_ref() == Some(&one) {
                other
            } else {
                one
            };
            config.image = Some(image);
        })
        .await
    }

    /// Waits until the daemon runs and rests, the pod is ready, and nothing has been said between
    /// daemon and API server for as long as what is sent late may take.
    ///
    /// Errors: not in time; says what the node says.
    pub(crate) async fn settle(&self) -> Result<()> {
        let objects = self.cluster.objects();
        until("the node to rest", SOON, async || {
            let node = objects.node(NODE).await?;
            let rests = objects::is_in_service(&node)
                && objects::annotation(&node, annotation::PHASE) == "Idle"
                && objects
                    .pods(("app", "bench"))
                    .await?
                    .iter()
                    .any(objects::is_ready);
            if !rests {
                return Ok(Err(objects::says(&node)));
            }
            if let Err(error) = self.daemon() {
                return Ok(Err(format!("{error:#}")));
            }
            let before = self.bytes();
            tokio::time::sleep(SETTLED_AFTER).await;
            let is_quiet = self.bytes() == before;
            Ok(if is_quiet {
                Ok(())
            } else {
                Err("the daemon still talks".to_owned())
            })
        })
        .await
    }

    /// Runs something that makes the node busy, and counts what its daemon cost the API server
    /// until all has settled.
    ///
    /// Errors: those of `act`, and of [`Self::settle`].
    pub(crate) async fn cost(
        &mut self,
        act: impl AsyncFnOnce(&mut Self) -> Result<()>,
    ) -> Result<Cost> {
        let before = self.bytes();
        let from = Timestamp::now();
        act(self).await?;
        self.settle().await?;
        let window = Window {
            from,
            until: Timestamp::now(),
        };
        Ok(Cost {
            window,
            bytes: self.bytes() - before,
        })
    }

    /// Bytes between the daemon and the API server so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.relay.bytes(DAEMON)
    }

    /// Process of the daemon.
    ///
    /// Errors: none runs on the node, or more than one.
    pub(crate) fn daemon(&self) -> Result<u32> {
        OnHost::new(self.host()?, DAEMON)?.only()
    }

    /// The node's host.
    ///
    /// Errors: it is gone.
    pub(crate) fn host(&self) -> Result<&Host> {
        self.cluster.host(NODE)
    }

    /// The cluster.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// All requests to the API server so far.
    ///
    /// Errors: the log cannot be read.
    pub(crate) fn events(&self) -> Result<Vec<Event>> {
        self.cluster.events()
    }

    /// States of the node so far.
    ///
    /// Errors: the log cannot be read, or does not know the node.
    pub(crate) fn history(&self) -> Result<Vec<NodeSnapshot>> {
        nodes::histories(&self.events()?)
            .remove(NODE)
            .context("the log does not know the node")
    }
}

/// What the daemon cost the API server in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) window: Window,
    pub(crate) bytes: u64,
}
