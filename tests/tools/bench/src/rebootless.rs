//! A change without a reboot, from the wish to Done.

use anyhow::{Context as _, Result, ensure};
use lab::host::Host;

use crate::changes::{Change, changes};
use crate::config::{CHANGED_FILES, RELOADS};
use crate::figure::{Figure, Unit};
use crate::session::Session;
use crate::statistics::{median, p95};

/// The same number of files, copied and synced. Prints nanoseconds, a line a time.
const PLAIN: &str = include_str!("rebootless/plain.sh");

/// Makes so many changes, each of three files and one service.
///
/// Errors: the node does not come to be Done, or reboots.
pub(crate) async fn measure(session: &mut Session, samples: usize) -> Result<Vec<Figure>> {
    let plain = plain(session.host()?, samples)?;
    let done_before = changes(&session.history()?).len();
    let boots_before = session.host()?.boots().len();
    let reloads_before = reloads(session.host()?)?;
    for _ in 0..samples {
        session.change_files().await?;
    }
    ensure!(
        session.host()?.boots().len() == boots_before,
        "the change rebooted the host"
    );
    let reloaded = reloads(session.host()?)? - reloads_before;
    ensure!(
        reloaded == samples,
        "{samples} changes reloaded the service {reloaded} times"
    );
    let times: Vec<_> = changes(&session.history()?)
        .iter()
        .skip(done_before)
        .map(Change::ms)
        .collect();
    ensure!(
        times.len() == samples,
        "the log has {} changes, not {samples}",
        times.len()
    );

    let value = median(&times).context("nothing was measured")?;
    let beside = median(&plain).context("nothing was measured")?;
    Ok(vec![
        Figure::new("mcd_rebootless_ms", value)?.of(samples).beside(
            "cp -a and sync of the files",
            beside,
            Unit::Ms,
        ),
        Figure::new(
            "mcd_rebootless_p95_ms",
            p95(&times).context("nothing was measured")?,
        )?
        .of(samples)
        .beside("files changed", f64::from(CHANGED_FILES), Unit::Count),
    ])
}

/// How often the service was reloaded.
fn reloads(host: &Host) -> Result<usize> {
    let count = format!("touch {RELOADS}; wc -l <{RELOADS}");
    Ok(host.run(["sh", "-c", &count])?.trim().parse()?)
}

/// Milliseconds of each copy.
fn plain(host: &Host, samples: usize) -> Result<Vec<f64>> {
    let times = samples.to_string();
    let files = CHANGED_FILES.to_string();
    let printed = host.run(["bash", "-euc", PLAIN, "plain", &times, &files])?;
    let nanoseconds = printed.lines().map(|line| Ok(line.parse::<f64>()? / 1e6));
    let times = nanoseconds
        .collect::<Result<Vec<_>>>()
        .context("plain.sh prints other lines")?;
    ensure!(
        times.len() == samples,
        "plain.sh printed {} lines",
        times.len()
    );
    Ok(times)
}
