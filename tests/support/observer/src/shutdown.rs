//! Whether a host went down by logind: who asked logind for a delay is told of a shutdown, and waited for.
//! By force nobody is.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::host::Host;

/// Holds an inhibitor until it was told, and for a moment more.
const LISTENER: &str = r#"
rm --force /var/observer-heard
systemd-run --quiet --collect systemd-inhibit --what=shutdown --mode=delay --who=observer --why=listens sh -c '
    signal=type=signal,interface=org.freedesktop.login1.Manager,member=PrepareForShutdown
    stdbuf --output=L busctl monitor --match="$signal" 2>&1 | {
        read -r _ && touch /run/observer-listens
        grep --quiet PrepareForShutdown && echo told >/var/observer-heard &&
            sleep 1 && echo waited for >>/var/observer-heard
        sync
    }'
"#;

/// How long it may take to listen.
const LISTENS_WITHIN: Duration = lab::PATIENCE;

/// Begins to listen for the next shutdown of a host.
///
/// # Errors
///
/// It cannot.
pub fn listen(host: &impl Host) -> Result<()> {
    let begun = host.output(&["sh", "-c", LISTENER])?;
    ensure!(begun.code == Some(0), "nobody listens: {begun:?}");
    let until = Instant::now() + LISTENS_WITHIN;
    while host.output(&["test", "-e", "/run/observer-listens"])?.code != Some(0) {
        ensure!(Instant::now() < until, "nobody listens");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// What was heard of the shutdown before this boot. `told` and `waited for` is what logind's are.
///
/// # Errors
///
/// The host cannot be asked.
pub fn heard(host: &impl Host) -> Result<Vec<String>> {
    let output = host.output(&["cat", "/var/observer-heard"])?;
    Ok(output.stdout.lines().map(ToOwned::to_owned).collect())
}
