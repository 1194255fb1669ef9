//! Nodes to be.

use lab::control_plane::Older;

/// Pool of the nodes of the control plane.
pub const CONTROL_PLANE_POOL: &str = "master";

/// A node to be.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) boot_bytes: Option<u64>,
    /// Its pods are processes.
    pub(crate) has_containers: bool,
    /// Nothing is configured on its host.
    pub(crate) is_fresh: bool,
    /// Of an older kubelet, where its host has one.
    pub(crate) kubelet: Option<Older>,
}

impl NodeSpec {
    /// A worker of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            roles: vec!["worker".to_owned()],
            files: Vec::new(),
            boot_bytes: None,
            has_containers: false,
            is_fresh: false,
            kubelet: None,
        }
    }

    /// One of the control plane: components run on it as pods, from their images. Its pool is
    /// `master`. The API server is elsewhere.
    pub fn control_plane(name: &str) -> Self {
        let roles = ["control-plane", CONTROL_PLANE_POOL];
        Self {
            roles: roles.map(ToOwned::to_owned).to_vec(),
            ..Self::new(name).containers()
        }
    }

    /// With pods that are processes, from images of the lab's registry.
    #[must_use]
    pub fn containers(mut self) -> Self {
        self.has_containers = true;
        self
    }

    /// With another role: the label by which the pool of that name selects its nodes.
    #[must_use]
    pub fn role(mut self, role: &str) -> Self {
        self.roles.push(role.to_owned());
        self
    }

    /// Whether components run on it.
    pub(crate) fn is_control_plane(&self) -> bool {
        self.pool() == CONTROL_PLANE_POOL
    }

    /// The pool that it is in: that of its last role.
    pub(crate) fn pool(&self) -> &str {
        self.roles.last().map_or("worker", String::as_str)
    }

    /// With a pod of the host's own.
    #[must_use]
    pub fn static_pod(self, yaml: &str) -> Self {
        self.file("/etc/kubernetes/manifests/static.yaml", yaml)
    }

    /// With a file of the host's own.
    #[must_use]
    pub fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.to_owned()));
        self
    }

    /// With a host that no installer configured, and that is off: [`crate::Cluster::introduce`]
    /// goes on once it has booted.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.is_fresh = true;
        self
    }

    /// With a kubelet of an older minor version than the API server.
    #[must_use]
    pub fn kubelet(mut self, older: Older) -> Self {
        self.kubelet = Some(older);
        self
    }

    /// With a `/boot` of this size.
    #[must_use]
    pub fn boot_bytes(mut self, bytes: u64) -> Self {
        self.boot_bytes = Some(bytes);
        self
    }
}
