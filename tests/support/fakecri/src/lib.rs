//! A container runtime for tests: a server of its socket, with the images, failures and pins that a
//! test gives it.
//!
//! It is not made of what it tests: messages and framing are its own.
//!
//! - [`FakeRuntime`]: the server, and what a test sees of it
//! - `messages`: of the runtime interface and of containerd's image service
//! - `grpc`: frames and trailers

#![expect(
    clippy::expect_used,
    reason = "a server of tests: what fails here fails the test"
)]

mod grpc;
mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use prost::Message;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use grpc::Reply;
use messages as wire;

/// gRPC's code of what is not there.
const NOT_FOUND: u32 = 5;
/// gRPC's code of most of what a runtime reports.
const UNKNOWN: u32 = 2;
/// gRPC's code of a service that a runtime does not have.
const UNIMPLEMENTED: u32 = 12;

/// The label by which containerd pins an image.
const PINNED: &str = "io.cri-containerd.pinned";

/// A pull that was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPull {
    pub image: String,
    /// User, password and server; `None` without credentials.
    pub login: Option<(String, String, String)>,
}

/// How a pull of an image ends.
#[derive(Debug, Clone)]
pub enum FakePull {
    /// It fails so many times with this message, and then has it.
    Fails(usize, &'static str),
    /// It takes this long.
    Takes(Duration),
}

#[derive(Debug, Default)]
struct State {
    is_containerd: bool,
    root: PathBuf,
    mount_point: String,
    /// Names of the images.
    images: BTreeSet<String>,
    /// Labels of the records of names and ids.
    records: BTreeMap<String, BTreeMap<String, String>>,
    /// What CRI-O read as pinned.
    listed: BTreeSet<String>,
    plans: BTreeMap<String, FakePull>,
    pulls: Vec<SeenPull>,
    under_way: usize,
    most_at_once: usize,
    has_no_pins: bool,
}

/// A runtime at its socket below a root. It ends with this value.
#[derive(Debug)]
pub struct FakeRuntime {
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeRuntime {
    /// Starts CRI-O below `root`.
    pub fn crio(root: &Path) -> Self {
        Self::start(root, "var/run/crio/crio.sock", false)
    }

    /// Starts containerd below `root`.
    pub fn containerd(root: &Path) -> Self {
        Self::start(root, "run/containerd/containerd.sock", true)
    }

    fn start(root: &Path, socket: &str, is_containerd: bool) -> Self {
        let path = root.join(socket);
        let parent = path.parent().expect("a socket has a directory");
        fs::create_dir_all(parent).expect("the directory of the socket");
        let listener = UnixListener::bind(&path).expect("the socket is free");
        let state = State {
            is_containerd,
            root: root.to_owned(),
            mount_point: "/".to_owned(),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let server = tokio::spawn(grpc::serve(listener, move |path, message| {
            respond(Arc::clone(&shared), path, message)
        }));
        Self { state, server }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test failed with it")
    }

    /// Has an image, with these labels on the record of its id.
    pub fn has(&self, image: &str, labels: &[(&str, &str)]) {
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let mut state = self.state();
        state.bring(image);
        state.records.insert(id(image), labels.collect());
    }

    /// Says how a pull of an image ends.
    pub fn plan(&self, image: &str, pull: FakePull) {
        self.state().plans.insert(image.to_owned(), pull);
    }

    /// Names no file system of images.
    pub fn lose_file_system(&self) {
        self.state().mount_point.clear();
    }

    /// Pins nothing, as versions of old.
    pub fn lose_pins(&self) {
        self.state().has_no_pins = true;
    }

    /// Reads the file of pinned images, as CRI-O does at a reload.
    pub fn reload(&self) {
        let mut state = self.state();
        let file = state.root.join("etc/crio/crio.conf.d/50-pinned-images");
        let text = fs::read_to_string(file).unwrap_or_default();
        state.listed = text
            .split('"')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
    }

    /// Pulls that were requested, in their order.
    pub fn pulls(&self) -> Vec<SeenPull> {
        self.state().pulls.clone()
    }

    /// How many pulls ran beside each other at most.
    pub fn most_at_once(&self) -> usize {
        self.state().most_at_once
    }

    /// The labels of an image's id; `None` where it is not there.
    pub fn labels(&self, image: &str) -> Option<BTreeMap<String, String>> {
        self.state().records.get(&id(image)).cloned()
    }

    /// Names of the images that it shows as pinned.
    pub fn pinned(&self) -> Vec<String> {
        let state = self.state();
        let pinned = state.images.iter().filter(|image| state.is_pinned(image));
        pinned.cloned().collect()
    }
}

/// The id of an image.
pub fn id(image: &str) -> String {
    format!("sha256:id of {image}")
}

impl State {
    /// Has an image, as a pull leaves it: labels of its pull spec's record are replaced.
    fn bring(&mut self, image: &str) {
        self.images.insert(image.to_owned());
        self.records.insert(image.to_owned(), BTreeMap::new());
        self.records.entry(id(image)).or_default();
    }

    fn is_pinned(&self, image: &str) -> bool {
        if self.has_no_pins {
            return false;
        }
        if self.is_containerd {
            let names = [image.to_owned(), id(image)];
            let mut records = names.iter().filter_map(|name| self.records.get(name));
            records.any(|labels| labels.get(PINNED).is_some_and(|it| it == "pinned"))
        } else {
            self.listed.contains(image)
        }
    }

    fn update(&mut self, request: wire::UpdateRequest) -> Reply {
        let sent = request.image.unwrap_or_default();
        if sent.target.is_none() {
            return Reply::fault(UNKNOWN, "containerd itself ends without a target");
        }
        let Some(labels) = self.records.get_mut(&sent.name) else {
            return Reply::fault(NOT_FOUND, "image: not found");
        };
        for path in request.update_mask.unwrap_or_default().paths {
            let Some(key) = path.strip_prefix("labels.") else {
                return Reply::fault(UNKNOWN, "cannot update this field");
            };
            // containerd writes no label without a value.
            match sent.labels.get(key).filter(|value| !value.is_empty()) {
                Some(value) => labels.insert(key.to_owned(), value.clone()),
                None => labels.remove(key),
            };
        }
        Reply::of(&wire::Empty {})
    }

    fn list(&self, request: &wire::ListRequest) -> Reply {
        // The one form of filter that is used: labels."key"=="value".
        let wanted = request.filters.first();
        let wanted: Vec<&str> = wanted.into_iter().flat_map(|it| it.split('"')).collect();
        let is_wanted = |labels: &BTreeMap<String, String>| match wanted.as_slice() {
            ["labels.", key, "==", value, ""] => labels.get(*key).is_some_and(|it| it == value),
            _ => false,
        };
        let images = self.records.iter().filter(|(_, labels)| is_wanted(labels));
        let images = images.map(|(name, labels)| wire::Record {
            name: name.clone(),
            labels: labels.clone(),
            ..wire::Record::default()
        });
        Reply::of(&wire::ListResponse {
            images: images.collect(),
        })
    }
}

async fn respond(state: Arc<Mutex<State>>, path: String, message: Vec<u8>) -> Reply {
    let message = message.as_slice();
    if path == "/runtime.v1.ImageService/PullImage" {
        let request = wire::PullRequest::decode(message).expect("a message of this kind");
        return pull(state, request).await;
    }
    let mut state = state.lock().expect("no test failed with it");
    if path.starts_with("/containerd.") && !state.is_containerd {
        return Reply::fault(UNIMPLEMENTED, "unknown service");
    }
    match path.as_str() {
        "/runtime.v1.RuntimeService/Version" => Reply::of(&wire::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "fake".to_owned(),
            runtime_version: "1".to_owned(),
            runtime_api_version: "v1".to_owned(),
        }),
        "/runtime.v1.ImageService/ImageStatus" => {
            let request = wire::StatusRequest::decode(message).expect("a message of this kind");
            let name = request.image.unwrap_or_default().image;
            let image = state.images.contains(&name).then(|| wire::Image {
                id: id(&name),
                size: 1,
                pinned: state.is_pinned(&name),
            });
            Reply::of(&wire::StatusResponse { image })
        }
        "/runtime.v1.ImageService/ImageFsInfo" => {
            let mountpoint = state.mount_point.clone();
            let usage = wire::FilesystemUsage {
                timestamp: 1,
                fs_id: Some(wire::FilesystemIdentifier { mountpoint }),
            };
            Reply::of(&wire::FsInfoResponse {
                image_filesystems: vec![usage],
            })
        }
        "/containerd.services.images.v1.Images/List" => {
            state.list(&wire::ListRequest::decode(message).expect("a message of this kind"))
        }
        "/containerd.services.images.v1.Images/Get" => {
            let request = wire::GetRequest::decode(message).expect("a message of this kind");
            match state.records.get(&request.name) {
                Some(labels) => Reply::of(&wire::GetResponse {
                    image: Some(wire::Record {
                        name: request.name,
                        labels: labels.clone(),
                        ..wire::Record::default()
                    }),
                }),
                None => Reply::fault(NOT_FOUND, "image: not found"),
            }
        }
        "/containerd.services.images.v1.Images/Update" => {
            state.update(wire::UpdateRequest::decode(message).expect("a message of this kind"))
        }
        _ => Reply::fault(UNIMPLEMENTED, "unknown method"),
    }
}

/// Counts a pull for as long as it is waited for.
struct UnderWay(Arc<Mutex<State>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().expect("no test failed with it").under_way -= 1;
    }
}

async fn pull(state: Arc<Mutex<State>>, request: wire::PullRequest) -> Reply {
    let image = request.image.unwrap_or_default().image;
    let login = request.auth;
    let plan = {
        let mut state = state.lock().expect("no test failed with it");
        state.under_way += 1;
        state.most_at_once = state.most_at_once.max(state.under_way);
        let login = login.map(|auth| (auth.username, auth.password, auth.server_address));
        state.pulls.push(SeenPull {
            image: image.clone(),
            login,
        });
        state.plans.get(&image).cloned()
    };
    let _under_way = UnderWay(Arc::clone(&state));
    match plan {
        Some(FakePull::Fails(times, message)) if times > 0 => {
            let again = FakePull::Fails(times - 1, message);
            let mut state = state.lock().expect("no test failed with it");
            state.plans.insert(image, again);
            return Reply::fault(UNKNOWN, message);
        }
        Some(FakePull::Takes(duration)) => tokio::time::sleep(duration).await,
        Some(FakePull::Fails(..)) | None => {}
    }
    let mut state = state.lock().expect("no test failed with it");
    state.bring(&image);
    Reply::of(&wire::PullResponse { image_ref: image })
}
