//! SELinux labels of written files.

use std::fmt;

/// The extended attribute of an SELinux label.
pub(crate) const LABEL: &str = "security.selinux";

/// Buffer for a label, in bytes: more than a label with all its categories needs.
pub(crate) const LABEL_MAX: usize = 4096;

/// `S_IFMT`, `S_IFREG`, `S_IFDIR` and `S_IFLNK`: a label depends on the type of the entry.
pub(super) const KIND: u32 = 0o170_000;
pub(super) const FILE_TYPE: u32 = 0o100_000;
pub(super) const DIRECTORY_TYPE: u32 = 0o040_000;
pub(super) const LINK_TYPE: u32 = 0o120_000;

/// Why a policy gives no label: its own error.
pub type LabelError = Box<dyn std::error::Error + Send + Sync>;

/// Finds the SELinux label of a path by the policy of the written root.
///
/// On a host without a policy, files keep the kernel's default label.
pub trait Labels: fmt::Debug {
    /// The label of `path` (absolute, as the booted system sees it), for `st_mode`; `None` if
    /// the policy does not name one.
    ///
    /// # Errors
    /// [`LabelError`].
    fn label(&self, path: &str, st_mode: u32) -> std::result::Result<Option<String>, LabelError>;
}
