//! An identity at the API server, whose credentials may rotate under it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use http::header::{HeaderValue, USER_AGENT};
use http::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::kubeconfig::{self, Error, Reader};
use crate::wire::{self, ObjectEvent, RequestBody};

#[cfg(test)]
mod tests;

/// The longest silence of a live connection: a watch has a bookmark every minute. After it the
/// connection counts as dead, as it may be behind a load balancer that dropped it without a word.
pub const SILENCE: Duration = Duration::from_mins(6);

/// An identity at the API server.
///
/// Each request reads the credentials again and makes a new client if they changed, so a rotation
/// needs no restart and no signal. That costs a few small reads a request, and the daemon sends
/// few.
pub struct Access {
    source: Source,
    user_agent: HeaderValue,
    made: Mutex<Option<Made>>,
    /// When the right to write ends; none where there is no lease.
    term: Mutex<Option<Instant>>,
}

/// What a program that gives itself no name is called.
const UNNAMED: HeaderValue =
    HeaderValue::from_static(concat!("slipway/", env!("CARGO_PKG_VERSION")));

enum Source {
    Fixed(Client),
    Files {
        kubeconfig: PathBuf,
        read: Reader,
        /// Token that takes the place of the kubeconfig's own credentials.
        token: Option<PathBuf>,
        /// Server that takes the place of the kubeconfig's own.
        elsewhere: Option<Elsewhere>,
    },
}

/// Another server than that of a kubeconfig, and the bundle that vouches for it, a path in the pod.
struct Elsewhere {
    server: String,
    authority: PathBuf,
}

struct Made {
    from: Vec<Vec<u8>>,
    client: Client,
}

impl Access {
    /// The identity of a kubeconfig: the kubelet's, on a node.
    ///
    /// Shape: certificate, key, authority and token inline or as files, relative paths from the
    /// kubeconfig's directory. No exec or provider plugins.
    pub fn kubeconfig(path: impl Into<PathBuf>, read: Reader) -> Self {
        Self::files(path.into(), read, None)
    }

    /// The identity of a service account, at the server and with the authority that a kubeconfig
    /// names.
    ///
    /// The address of the `kubernetes` service is of no use to a pod on the host's network before
    /// the node's proxy runs. Shape: `token` is a path in the pod, read directly: it does not lie
    /// below the host's root.
    pub fn service_account(
        path: impl Into<PathBuf>,
        read: Reader,
        token: impl Into<PathBuf>,
    ) -> Self {
        Self::files(path.into(), read, Some(token.into()))
    }

    /// Shows the same credentials to another server: the config server knows nodes by their
    /// kubelet's certificate.
    ///
    /// Shape: `server` is `https://host:port`. `authority` is a path in the pod, PEM, and is read
    /// with the rest. Of a client that its caller has made nothing changes.
    #[must_use]
    pub fn at(mut self, server: String, authority: PathBuf) -> Self {
        if let Source::Files { elsewhere, .. } = &mut self.source {
            *elsewhere = Some(Elsewhere { server, authority });
        }
        self
    }

    /// Says in each request who sends it, as `program/version`: two programs may share an identity.
    #[must_use]
    pub fn with_user_agent(mut self, program: &'static str) -> Self {
        self.user_agent = HeaderValue::from_static(program);
        self
    }

    /// Uses a client that its caller has made and keeps.
    pub const fn of_client(client: Client) -> Self {
        Self {
            source: Source::Fixed(client),
            user_agent: UNNAMED,
            made: Mutex::new(None),
            term: Mutex::new(None),
        }
    }

    /// Whether the server that this identity leads to is whom its authority vouches for. Its
    /// response does not matter: a certificate is shown before any request is sent.
    ///
    /// # Errors
    /// All of [`wire::Error`] but [`wire::Error::Refused`] and [`wire::Error::Response`], which are
    /// responses.
    pub async fn meets_its_server(&self) -> Result<(), wire::Error> {
        match self.get::<serde::de::IgnoredAny>("/version").await {
            Ok(_) | Err(wire::Error::Refused { .. } | wire::Error::Response { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    const fn files(kubeconfig: PathBuf, read: Reader, token: Option<PathBuf>) -> Self {
        Self {
            source: Source::Files {
                kubeconfig,
                read,
                token,
                elsewhere: None,
            },
            user_agent: UNNAMED,
            made: Mutex::new(None),
            term: Mutex::new(None),
        }
    }

    /// A client for the credentials as they are now.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn client(&self) -> Result<Client, Error> {
        let (path, material) = match &self.source {
            Source::Fixed(client) => return Ok(client.clone()),
            Source::Files {
                kubeconfig,
                read,
                token,
                elsewhere,
            } => {
                let token = token.as_deref().map(read_directly).transpose()?;
                let mut material = kubeconfig::load(kubeconfig, read, token)?;
                if let Some(Elsewhere { server, authority }) = elsewhere {
                    let bundle = read_directly(authority)?;
                    kubeconfig::redirect(kubeconfig, &mut material, server, bundle)?;
                }
                (kubeconfig, material)
            }
        };
        if let Some(made) = self.made().as_ref()
            && made.from == material.bytes
        {
            return Ok(made.client.clone());
        }
        let client = connect(path, material.kubeconfig, self.user_agent.clone()).await?;
        *self.made() = Some(Made {
            from: material.bytes,
            client: client.clone(),
        });
        Ok(client)
    }

    /// A client for libraries: each of its requests goes by the credentials as they are then.
    pub fn to_client(self: &Arc<Self>) -> Client {
        if let Source::Fixed(client) = &self.source {
            return client.clone();
        }
        let access = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let access = Arc::clone(&access);
            async move {
                let client = access.client().await?;
                Ok::<_, tower::BoxError>(client.send(request).await?)
            }
        });
        Client::new(service, "default")
    }

    /// Drops the connections that are open. The next request opens new ones.
    pub fn rest(&self) {
        *self.made() = None;
    }

    /// Sends writes only until `end` from now on; without it, for ever. A process that was frozen
    /// finds out about a lost lease only after it has gone on for a moment.
    pub(crate) fn write_until(&self, end: Option<Instant>) {
        *self.term() = end;
    }

    /// Sends one request and reads its response as `T`. A write is sent only while this
    /// identity holds the lease that it took.
    ///
    /// # Errors
    /// All of [`wire::Error`].
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: RequestBody<'_>,
    ) -> Result<T, wire::Error> {
        let client = self.client().await?;
        let is_over = || self.term().is_some_and(|end| Instant::now() >= end);
        if method != Method::GET && is_over() {
            let path = path.to_owned();
            return Err(wire::Error::NotLeading { method, path });
        }
        wire::send(&client, method, path, content).await
    }

    /// Reads an object.
    ///
    /// # Errors
    /// All of [`wire::Error`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, wire::Error> {
        self.send(Method::GET, path, RequestBody::Empty).await
    }

    /// Reads an object; nothing where it is not there, or the API has no such kind.
    ///
    /// # Errors
    /// All of [`wire::Error`] but 404.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, wire::Error> {
        wire::found(self.get(path).await)
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// All of [`wire::Error`], also for each event.
    pub async fn watch<T: Clone + DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent<T>, wire::Error>> + use<T>, wire::Error> {
        let client = self.client().await?;
        wire::watch(&client, path, RequestBody::Empty).await
    }

    fn term(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing panics while it is held.
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> MutexGuard<'_, Option<Made>> {
        // Nothing panics while it is held; a poisoned lock still holds a whole value.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Access");
        if let Source::Files {
            kubeconfig, token, ..
        } = &self.source
        {
            shown.field("kubeconfig", kubeconfig).field("token", token);
        }
        shown.finish_non_exhaustive()
    }
}

async fn connect(
    path: &Path,
    kubeconfig: Kubeconfig,
    user_agent: HeaderValue,
) -> Result<Client, Error> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| Error::Kubeconfig {
            path: path.to_owned(),
            why: chassis::report::Chain(&error).to_string(),
        })?;
    // The caller decides about retries: the client must not repeat an eviction that a budget
    // refused.
    config.default_retry = false;
    config.headers.push((USER_AGENT, user_agent));
    config.read_timeout = Some(SILENCE);
    Client::try_from(config).map_err(|source| Error::Client {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

fn read_directly(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}
