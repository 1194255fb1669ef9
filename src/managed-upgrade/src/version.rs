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
