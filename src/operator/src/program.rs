//! What the process of a controller has before its first request, and what ends with it.

use std::path::Path;
use std::sync::Arc;

use chassis::http;
use chassis::http::tls::{self, ClientAuthorities};
use chassis::logs::Log;
use chassis::metrics::Registry;
use chassis::secure_metrics::{SecureListener, SecureMetrics, SecureServer};
use chassis::shutdown::{self, Shutdown};
use cluster::access::Access;
use cluster::events::{Recorder, Speaker};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::client;
use crate::process::{self, Operator};
use crate::reconcile::Reconcile;
use crate::token_clients::TokenClients;

/// Why a controller's process ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system takes no handler of signals.
    #[error("cannot handle signals")]
    Signals(#[source] std::io::Error),
    /// There is no client.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The address of metrics over HTTPS cannot be used.
    #[error(transparent)]
    Listen(#[from] http::Error),
    /// The task that sends events panicked.
    #[error("the task that sends events failed")]
    Events(#[source] JoinError),
    /// The loop ended.
    #[error(transparent)]
    Loop(#[from] process::Error),
}

/// The process of a controller.
#[derive(Debug)]
pub struct ControllerProgram {
    /// The client.
    pub access: Arc<Access>,
    /// SIGTERM and SIGINT.
    pub shutdown: Shutdown,
    /// Tasks without a result. After a lost lease there is no shutdown that would end them.
    tasks: JoinSet<()>,
    sending: Option<JoinHandle<()>>,
}

impl ControllerProgram {
    /// Installs the crypto provider, handles signals, follows the log's filter and makes a client,
    /// as [`client::connect`] does. Must be called in the program's runtime.
    ///
    /// # Errors
    /// [`Error::Signals`], [`Error::Client`].
    pub fn begin(
        log: Log,
        kubeconfig: Option<&Path>,
        user_agent: &'static str,
    ) -> Result<Self, Error> {
        tls::install_provider();
        let shutdown = shutdown::on_signals().map_err(Error::Signals)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(log.follow(shutdown.clone()));
        Ok(Self {
            tasks,
            ..Self::of(client::connect(kubeconfig, user_agent)?, shutdown)
        })
    }

    /// A controller beside others in a process that has its log and its signals already.
    pub fn of(access: Access, shutdown: Shutdown) -> Self {
        Self {
            access: Arc::new(access),
            shutdown,
            tasks: JoinSet::new(),
            sending: None,
        }
    }

    /// The recorder of this component's events, which are kept in `namespace`.
    pub fn record(&mut self, component: &str, namespace: String) -> Recorder {
        let speaker = Speaker {
            component: component.to_owned(),
            host: String::new(),
            namespace,
        };
        let (recorder, sending) = Recorder::new(Arc::clone(&self.access), speaker);
        self.sending = Some(tokio::spawn(sending));
        recorder
    }

    /// Serves metrics over HTTPS to `reader`, with a certificate of `authorities` or with a token.
    /// A replica that does not lead is read, too.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub async fn serve_secure(
        &mut self,
        listener: SecureListener,
        registry: Registry,
        authorities: ClientAuthorities,
        reader: &'static str,
    ) -> Result<(), Error> {
        let server = SecureServer::bind(listener).await?;
        let page = SecureMetrics {
            registry,
            authorities,
            reader,
            tokens: Some(Arc::new(TokenClients::new(Arc::clone(&self.access)))),
        };
        self.spawn(server.serve(page, self.shutdown.clone()));
        Ok(())
    }

    /// Runs a task until the controller ends.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Runs the controller until the shutdown or until the lease is lost, and sends the events that
    /// are left.
    ///
    /// # Errors
    /// [`Error::Loop`], [`Error::Events`]: a new process starts over better than this one.
    pub async fn run<R: Reconcile>(
        self,
        operator: Operator<R::Key>,
        reconciler: R,
    ) -> Result<(), Error> {
        let result = operator.run(reconciler, self.shutdown).await;
        drop(self.tasks);
        // The last recorder is gone with the reconciler: its events are sent, then the task ends.
        if let Some(sending) = self.sending {
            sending.await.map_err(Error::Events)?;
        }
        Ok(result?)
    }
}
