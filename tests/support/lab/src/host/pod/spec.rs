//! What a container is to run, and on which mounts.

use std::path::{Path, PathBuf};

/// How mounts made on the host later appear in a container. Kubernetes' `mountPropagation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They do not.
    #[default]
    None,
    /// They do.
    HostToContainer,
    /// They do, and the container's own appear on the host.
    Bidirectional,
}

/// A container of a DaemonSet with the host's processes and network.
#[derive(Clone, Debug)]
pub struct PodSpec {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) programs: Vec<(PathBuf, String)>,
    pub(super) carried: Vec<(PathBuf, String)>,
    pub(super) mounts: Vec<Mount>,
    pub(super) is_root_read_only: bool,
    /// Names of further capabilities, as `SYS_ADMIN`; none for all that the host has.
    pub(super) capabilities: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
pub(super) struct Mount {
    pub(super) from: Source,
    pub(super) at: String,
    pub(super) is_read_only: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A path of the host.
    Host(String, Propagation),
    /// A folder of this machine, whose files are copied.
    Folder(PathBuf),
    /// An empty one, gone with the container.
    Empty,
}

impl PodSpec {
    /// A privileged container that runs `arguments`, the first of which is a program of its root.
    pub fn new<'a>(name: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name: name.to_owned(),
            arguments: arguments.into_iter().map(ToOwned::to_owned).collect(),
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            programs: Vec::new(),
            carried: Vec::new(),
            mounts: Vec::new(),
            is_root_read_only: true,
            capabilities: None,
        }
    }

    /// With a program of this machine in its root, and the libraries that it needs.
    #[must_use]
    pub fn program(mut self, file: &Path, at: &str) -> Self {
        self.programs.push((file.to_owned(), at.to_owned()));
        self
    }

    /// With a program of this machine in its root that cannot run there: without its libraries.
    #[must_use]
    pub fn carried(mut self, file: &Path, at: &str) -> Self {
        self.carried.push((file.to_owned(), at.to_owned()));
        self
    }

    /// With a variable, in place of one of that name.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a path of the host, and what is mounted below it.
    #[must_use]
    pub fn host_path(self, path: &str, at: &str, propagation: Propagation) -> Self {
        self.mount(Source::Host(path.to_owned(), propagation), at, false)
    }

    /// With a path of the host that it may only read.
    #[must_use]
    pub fn host_path_read_only(self, path: &str, at: &str, propagation: Propagation) -> Self {
        self.mount(Source::Host(path.to_owned(), propagation), at, true)
    }

    /// With the files of a folder of this machine, read-only, as a Secret or `ConfigMap` would be.
    #[must_use]
    pub fn folder(self, dir: &Path, at: &str) -> Self {
        self.mount(Source::Folder(dir.to_owned()), at, true)
    }

    /// With an empty folder, gone with the container.
    #[must_use]
    pub fn empty_dir(self, at: &str) -> Self {
        self.mount(Source::Empty, at, false)
    }

    pub(super) fn mount(mut self, from: Source, at: &str, is_read_only: bool) -> Self {
        self.mounts.push(Mount {
            from,
            at: at.to_owned(),
            is_read_only,
        });
        self
    }
}
