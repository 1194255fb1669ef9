//! The architecture of this program, and so of its cluster.

/// Architecture of this program, and so of its cluster's release, in the words of releases.
pub(crate) const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    b"powerpc64" => "ppc64le",
    _ => std::env::consts::ARCH,
};
