//! The cluster, as a person uses it: by bash, in its folder.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testbed::until_blocking;

use crate::expected::Expected;
use crate::process::{end, hold, printed};

/// How long a thing may take until it shows what it has to: an update of the whole cluster.
pub(crate) const SHOWN_WITHIN: Duration = Duration::from_mins(10);

/// How long its process may take to be gone once its lock is free.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// Time between two tries.
pub(crate) const TRY_EVERY: Duration = Duration::from_secs(1);

/// A held playground. Dropped, it is ended.
pub(crate) struct Held {
    out: PathBuf,
    is_ended: bool,
}

/// What a command left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) printed: String,
}

impl Held {
    pub(crate) fn start(programs: &Path, out: &Path) -> Result<Self> {
        let (code, printed) = hold(programs, out)?;
        ensure!(code == Some(0), "the playground does not start:\n{printed}");
        let out = out.canonicalize()?;
        Ok(Self {
            out,
            is_ended: false,
        })
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, run: &str, input: &str) -> Result<Ran> {
        let mut child = self.bash(run).spawn().context("cannot run bash")?;
        // Dropped, it is at its end.
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        Ok(Ran {
            code: output.status.code(),
            printed: printed(&output),
        })
    }

    /// Runs a command that has to end well.
    pub(crate) fn done(&self, run: &str) -> Result<()> {
        self.done_with(run, "")
    }

    /// The same, with standard input.
    pub(crate) fn done_with(&self, run: &str, input: &str) -> Result<()> {
        let ran = self.run(run, input)?;
        ensure!(ran.code == Some(0), "{run}: {}", ran.printed);
        Ok(())
    }

    /// Applies an object.
    pub(crate) fn apply(&self, object: &Value) -> Result<()> {
        self.done_with("kubectl apply --filename=-", &object.to_string())
    }

    /// The object, or the list, that `kubectl get` prints.
    pub(crate) fn json(&self, get: &str) -> Result<Value> {
        let ran = self.run(&format!("{get} --output=json"), "")?;
        ensure!(ran.code == Some(0), "{get}: {}", ran.printed);
        serde_json::from_str(&ran.printed).with_context(|| get.to_owned())
    }

    /// The items of such a list.
    pub(crate) fn items(&self, get: &str) -> Result<Vec<Value>> {
        let mut list = self.json(get)?;
        let items = list.pointer_mut("/items").and_then(Value::as_array_mut);
        Ok(std::mem::take(items.context("no items")?))
    }

    /// Waits until an object is as it has to be.
    pub(crate) fn until_json(
        &self,
        get: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        until_blocking(what, SHOWN_WITHIN, TRY_EVERY, || {
            let object = self.json(get)?;
            Ok(if is_so(&object) {
                Ok(())
            } else {
                Err(object.to_string())
            })
        })
    }

    /// Repeats a command until it shows what it has to.
    pub(crate) fn until(&self, expected: &Expected) -> Result<()> {
        until_blocking(expected.run, SHOWN_WITHIN, TRY_EVERY, || {
            let ran = self.run(expected.run, "")?;
            Ok(ran.check(expected).map_err(|error| format!("{error:#}")))
        })
    }

    /// Reads what a command prints that does not end, until it has shown what it has to.
    pub(crate) fn follow(&self, expected: &Expected) -> Result<()> {
        let mut child = self.bash(&format!("exec {}", expected.run)).spawn()?;
        let out = child.stdout.take().context("no output")?;
        let (lines, received) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let deadline = Instant::now() + SHOWN_WITHIN;
        let mut shown = String::new();
        let is_shown = loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = received.recv_timeout(rest) else {
                break false;
            };
            shown.push_str(&line);
            shown.push('\n');
            if expected.shows.iter().all(|text| shown.contains(text)) {
                break true;
            }
        };
        child.kill()?;
        child.wait()?;
        ensure!(is_shown, "{:?} is not in:\n{shown}", expected.shows);
        Ok(())
    }

    /// Reads a page as a browser asks for it.
    pub(crate) fn page(&self, address: &str) -> Result<String> {
        let address = address.split('#').next().unwrap_or(address);
        let curl = "curl --silent --show-error --fail --noproxy '*' --max-time 30 \
                    --header 'accept: text/html'";
        let ran = self.run(&format!("{curl} \"{address}\""), "")?;
        ensure!(ran.code == Some(0), "{}", ran.printed);
        Ok(ran.printed)
    }

    /// The configuration that each pool's nodes are to reach.
    pub(crate) fn targets(&self) -> Result<BTreeMap<String, String>> {
        let pools = self.pools()?;
        let of = |pool: &Value| {
            let text = |pointer: &str| pool.pointer(pointer)?.as_str().map(str::to_owned);
            Some((text("/metadata/name")?, text("/spec/configuration/name")?))
        };
        Ok(pools.iter().filter_map(of).collect())
    }

    /// Waits until a pool has another target than before, and all nodes are there.
    pub(crate) fn rolled(&self, pool: &str, before: &BTreeMap<String, String>) -> Result<()> {
        until_blocking("another target", SHOWN_WITHIN, TRY_EVERY, || {
            let now = self.targets()?;
            let is_other = now.get(pool) != before.get(pool);
            Ok(is_other.then_some(()).ok_or_else(|| format!("{now:?}")))
        })?;
        self.settled()
    }

    /// Waits until all nodes of all pools are there.
    pub(crate) fn settled(&self) -> Result<()> {
        until_blocking("all pools", SHOWN_WITHIN, TRY_EVERY, || {
            let pools = self.pools()?;
            let late = pools.iter().find(|pool| !is_settled(pool));
            Ok(late.map_or(Ok(()), |pool| Err(pool.to_string())))
        })
    }

    fn pools(&self) -> Result<Vec<Value>> {
        self.items("kubectl get machineconfigpools")
    }

    /// Ends it, and holds it against what it must leave.
    pub(crate) fn end(mut self) -> Result<()> {
        let lock = std::fs::read_to_string(self.out.with_extension("lock"))?;
        let process = lock.split(' ').next().unwrap_or_default().to_owned();
        let hosts = self.run("printf %s \"$HOSTS\"", "")?.printed;
        ensure!(Path::new(&hosts).is_dir(), "{hosts:?} is no folder");
        let printed = end(&self.out)?;
        self.is_ended = true;
        let expected = format!("ending the playground of process {process}, since ");
        ensure!(printed.contains(&expected), "{printed}");
        // The lock goes just before the process.
        let running = Path::new("/proc").join(&process);
        until_blocking("the process to end", ENDED_WITHIN, TRY_EVERY, || {
            Ok(if is_running(&running) {
                Err(format!("{} is left", running.display()))
            } else {
                Ok(())
            })
        })?;
        for left in [
            PathBuf::from(&hosts),
            self.out.join("cluster.env"),
            self.out.join("programs"),
        ] {
            ensure!(!left.exists(), "{} is left", left.display());
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        ensure!(!mounts.contains(&hosts), "mounts of {hosts} are left");
        let printed = end(&self.out)?;
        ensure!(printed.contains("no playground runs"), "{printed}");
        Ok(())
    }

    fn bash(&self, run: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.arg("-c")
            .arg(format!("set -o pipefail; . ./cluster.env; {run}"))
            .current_dir(&self.out)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        bash
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_ended {
            // The test has failed before, with its own reason.
            drop(end(&self.out));
        }
    }
}

impl Ran {
    /// Holds it against what is expected.
    pub(crate) fn check(&self, expected: &Expected) -> Result<()> {
        let Self { code, printed } = self;
        let is_allowed = code.is_some_and(|code| expected.codes.contains(&code));
        ensure!(
            is_allowed,
            "it ends with {code:?}, not one of {:?}:\n{printed}",
            expected.codes
        );
        for text in expected.shows {
            ensure!(printed.contains(text), "{text:?} is not in:\n{printed}");
        }
        Ok(())
    }
}

/// Whether all nodes of a pool are in its target.
fn is_settled(pool: &Value) -> bool {
    let number = |field: &str| pool.pointer(&format!("/status/{field}"));
    let all = number("machineCount");
    pool.pointer("/spec/configuration/name") == pool.pointer("/status/configuration/name")
        && all == number("updatedMachineCount")
        && all == number("readyMachineCount")
        && all.is_some()
}

/// Whether a process is there, and more than an entry that its parent has not read.
fn is_running(process: &Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !state.trim_start().starts_with('Z'))
}
