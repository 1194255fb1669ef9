//! Linker options of the node's programs.

use std::env::var;

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script of its target by variables"
)]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // What every node holds in memory: identical functions, of which generic code makes many, are
    // kept once. Only the linker that rustc brings for this target has the option.
    let is = |name: &str, value: &str| var(name).is_ok_and(|it| it == value);
    if is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
    {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
