//! The runtime of a host, and its calls.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use node_update::pins::RegistryLogin;
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::error::{Error, RuntimeFault};
use crate::kind::RuntimeKind;
use crate::wire::{
    AuthConfig, Empty, FsInfoResponse, ImageSpec, PullRequest, StatusRequest, StatusResponse,
};

/// How long a runtime may take for a call that reads or labels. A kubelet waits two minutes.
const CALL_WITHIN: Duration = Duration::from_mins(2);

/// How long a runtime may take to say which version it is.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// How long a pull may take. At 2 MB a second, 3.6 GB come in this time; a pull that is repeated
/// keeps the layers that it has.
const PULL_WITHIN: Duration = Duration::from_mins(30);

/// How often a runtime is looked for that restarts.
const PACE: Duration = Duration::from_secs(1);

/// Largest response, in bytes: that of a kubelet's client.
const RESPONSE_MAX_BYTES: usize = 16 << 20;

/// An image that a runtime has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageState {
    /// Its id; containerd has a record of this name.
    pub id: String,
    /// Whether the runtime keeps it from the kubelet's garbage collection.
    pub is_pinned: bool,
}

/// A connection to the runtime of a host.
#[derive(Debug, Clone)]
pub struct RuntimeClient {
    kind: RuntimeKind,
    channel: Channel,
}

impl RuntimeClient {
    /// Connects to the runtime whose socket is below `root`, the first that responds. One that
    /// restarts is waited for as long as `patience`.
    ///
    /// # Errors
    /// [`Error::NoRuntime`] where no socket is there, [`Error::NoResponse`].
    pub async fn find(root: &Path, patience: Duration) -> Result<Self, Error> {
        let deadline = Instant::now() + patience;
        loop {
            let error = match Self::find_once(root).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PACE.min(patience)).await;
        }
    }

    async fn find_once(root: &Path) -> Result<Self, Error> {
        let mut causes = Vec::new();
        for kind in RuntimeKind::ALL {
            let socket = root.join(kind.socket().trim_start_matches('/'));
            if !socket.exists() {
                continue;
            }
            match Self::connect(kind, socket).await {
                Ok(found) => return Ok(found),
                Err(cause) => causes.push(format!("{}: {cause}", kind.socket())),
            }
        }
        if causes.is_empty() {
            Err(Error::NoRuntime)
        } else {
            Err(Error::NoResponse { causes })
        }
    }

    async fn connect(kind: RuntimeKind, socket: PathBuf) -> Result<Self, String> {
        // The address is not used: the connector knows the socket.
        let endpoint = Endpoint::from_static("http://localhost");
        let connector = service_fn(move |_| {
            let socket = socket.clone();
            async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        });
        let channel = endpoint.connect_with_connector_lazy(connector);
        let found = Self { kind, channel };
        let version = PathAndQuery::from_static("/runtime.v1.RuntimeService/Version");
        let called = found.send::<_, Empty>(version, Request::new(Empty {}), VERSION_WITHIN);
        match called.await {
            Some(Ok(_)) => Ok(found),
            Some(Err(status)) => Err(RuntimeFault::from(&status).to_string()),
            None => Err(format!("no response within {} s", VERSION_WITHIN.as_secs())),
        }
    }

    /// Which program it is.
    pub const fn kind(&self) -> RuntimeKind {
        self.kind
    }

    /// The image that a container of this pull spec would start from; `None` where it would be
    /// pulled first.
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Late`].
    pub async fn image_status(&self, image: &str) -> Result<Option<ImageState>, Error> {
        let request = StatusRequest {
            image: Some(spec(image)),
        };
        let response: StatusResponse = self
            .call(
                PathAndQuery::from_static("/runtime.v1.ImageService/ImageStatus"),
                Request::new(request),
                CALL_WITHIN,
                || format!("show the status of {image}"),
            )
            .await?;
        Ok(response.image.map(|image| ImageState {
            id: image.id,
            is_pinned: image.pinned,
        }))
    }

    /// Pulls an image. The runtime's own settings say from where.
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Late`] after half an hour.
    pub async fn pull(&self, image: &str, login: Option<&RegistryLogin>) -> Result<(), Error> {
        let auth = login.map(|login| AuthConfig {
            username: login.user.clone(),
            password: login.password.clone(),
            server_address: format!("https://{}", login.server),
            identity_token: login.identity_token.clone(),
        });
        let request = PullRequest {
            image: Some(spec(image)),
            auth,
        };
        let pulled: Result<Empty, Error> = self
            .call(
                PathAndQuery::from_static("/runtime.v1.ImageService/PullImage"),
                Request::new(request),
                PULL_WITHIN,
                || format!("pull {image}"),
            )
            .await;
        pulled.map(|_| ())
    }

    /// Where its images are: mount points, or directories, of the host.
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Late`].
    pub async fn image_file_systems(&self) -> Result<Vec<String>, Error> {
        let response: FsInfoResponse = self
            .call(
                PathAndQuery::from_static("/runtime.v1.ImageService/ImageFsInfo"),
                Request::new(Empty {}),
                CALL_WITHIN,
                || "show where its images are".to_owned(),
            )
            .await?;
        let usages = response.image_filesystems.into_iter();
        let places = usages.filter_map(|usage| Some(usage.fs_id?.mountpoint));
        Ok(places.filter(|place| !place.is_empty()).collect())
    }

    pub(crate) async fn call<A, B>(
        &self,
        path: PathAndQuery,
        request: Request<A>,
        within: Duration,
        operation: impl Fn() -> String,
    ) -> Result<B, Error>
    where
        A: Message + 'static,
        B: Message + Default + 'static,
    {
        let runtime = self.kind;
        match self.send(path, request, within).await {
            Some(Ok(response)) => Ok(response),
            Some(Err(status)) => Err(Error::Call {
                runtime,
                operation: operation(),
                source: RuntimeFault::from(&status),
            }),
            None => Err(Error::Late {
                runtime,
                operation: operation(),
                seconds: within.as_secs(),
            }),
        }
    }

    /// The response, or `None` past the deadline.
    async fn send<A, B>(
        &self,
        path: PathAndQuery,
        mut request: Request<A>,
        within: Duration,
    ) -> Option<Result<B, Status>>
    where
        A: Message + 'static,
        B: Message + Default + 'static,
    {
        // The runtime ends what is not waited for any more.
        request.set_timeout(within);
        let mut client =
            Grpc::new(self.channel.clone()).max_decoding_message_size(RESPONSE_MAX_BYTES);
        let called = async {
            let ready = client.ready().await;
            ready.map_err(|error| Status::new(Code::Unavailable, said(&error)))?;
            let codec: ProstCodec<A, B> = ProstCodec::default();
            Ok(client.unary(request, path, codec).await?.into_inner())
        };
        timeout(within, called).await.ok()
    }
}

pub(crate) fn spec(image: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
    }
}

/// The innermost cause: those above only say that a transport failed.
fn said(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
