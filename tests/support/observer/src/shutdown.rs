//! Whether a host went down by logind: logind announces a shutdown to programs that asked for a
//! delay, and waits for them. A forced one does neither.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::host::Host;

/// Holds an inhibitor until the shutdown was announced, and for a moment more.
const LISTENER: &str = r#"
rm --force /var/observer-heard
systemd-run --quiet --collect systemd-inhibit --what=shutdown --mode=delay --who=observer --why=listens sh -c '
    signal=type=signal,interface=org.freedesktop.login1.Manager,member=PrepareForShutdown
    stdbuf --output=L busctl monitor --match="$signal" 2>&1 | {
        read -r _ && touch /run/observer-listens
        grep --quiet PrepareForShutdown && echo announced >/var/observer-heard &&
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
    ensure!(
        begun.code == Some(0),
        "the listener did not start: {begun:?}"
    );
    let until = Instant::now() + LISTENS_WITHIN;
    while host.output(&["test", "-e", "/run/observer-listens"])?.code != Some(0) {
        ensure!(Instant::now() < until, "the listener does not run");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// What was heard of the shutdown before this boot. A reboot by logind leaves `announced` and
/// `waited for`.
///
/// # Errors
///
/// The host cannot be read.
pub fn heard(host: &impl Host) -> Result<Vec<String>> {
    let output = host.output(&["cat", "/var/observer-heard"])?;
    Ok(output.stdout.lines().map(ToOwned::to_owned).collect())
}
