//! The runtimes that are supported.

use std::fmt;

/// Which program the runtime is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    CriO,
    Containerd,
}

impl RuntimeKind {
    /// In the order in which they are looked for.
    pub const ALL: [Self; 2] = [Self::CriO, Self::Containerd];

    /// The path of its socket on a host.
    pub const fn socket(self) -> &'static str {
        match self {
            Self::CriO => "/var/run/crio/crio.sock",
            Self::Containerd => "/run/containerd/containerd.sock",
        }
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CriO => "CRI-O",
            Self::Containerd => "containerd",
        })
    }
}
