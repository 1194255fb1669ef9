//! Nodes to be.

/// A node to be.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) boot_bytes: Option<u64>,
}

impl NodeSpec {
    /// A worker of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            roles: vec!["worker".to_owned()],
            files: Vec::new(),
            boot_bytes: None,
        }
    }

    /// With another role: the label by which the pool of that name selects its nodes.
    #[must_use]
    pub fn role(mut self, role: &str) -> Self {
        self.roles.push(role.to_owned());
        self
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

    /// With a `/boot` of this size.
    #[must_use]
    pub fn boot_bytes(mut self, bytes: u64) -> Self {
        self.boot_bytes = Some(bytes);
        self
    }
}
