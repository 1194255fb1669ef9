//! Which build this is.

/// Version of the release, compared as an opaque string: `SLIPWAY_VERSION` at the time of building,
/// else the package's version.
pub const VERSION: &str = match option_env!("SLIPWAY_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Name of the build: `SLIPWAY_COMMIT` at the time of building, else the version.
pub const BUILD: &str = match option_env!("SLIPWAY_COMMIT") {
    Some(commit) => commit,
    None => VERSION,
};

/// Architecture of this program, and so of its cluster's release, in the words of releases.
pub(crate) const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    b"powerpc64" => "ppc64le",
    _ => std::env::consts::ARCH,
};
