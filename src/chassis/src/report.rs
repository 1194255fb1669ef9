//! What a program says before it ends: an error with its causes, each printed once; a panic.

pub use display::Chain;

/// Ends the process at the first panic, after its message: a half-dead program is worse than one
/// that is restarted.
///
/// A release is built to abort. This makes the builds that suites run behave alike.
pub fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
