//! Units of the running system for synchronous code, and unit files of a deployment.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use chassis::report::Chain;
use tokio::runtime::Runtime;
use tracing::warn;

use super::{StepError, Units};
use crate::process::{self, Program};
use crate::systemd::{Enablement, Error, Job, Offline, SystemdClient};

/// Deadline of systemd's programs, which only pass a request on.
const DEADLINE: Duration = Duration::from_secs(30);

/// What the name of a service ends with.
const SERVICE: &str = ".service";

/// How long a systemd that cannot be reached is not tried again.
const UNREACHED: Duration = Duration::from_secs(10);

/// Units of the running system. The first operation connects.
#[derive(Debug)]
pub struct RunningUnits<'a> {
    runtime: &'a Runtime,
    way: Way,
    systemd: Option<SystemdClient>,
    /// When systemd was unreachable: not every read of a unit waits for it.
    unreached: Option<Instant>,
}

#[derive(Debug, Clone)]
enum Way {
    /// Over the system bus, at another socket than the usual one.
    Bus(Option<PathBuf>),
    /// Over its own socket.
    Directly,
}

impl<'a> RunningUnits<'a> {
    /// Runs the calls on `runtime`, over the system bus.
    pub fn new(runtime: &'a Runtime) -> Self {
        Self::by(Way::Bus(None), runtime)
    }

    /// Runs the calls on `runtime`, over the system bus at `socket`: that of the host, from a
    /// container.
    pub const fn at(socket: PathBuf, runtime: &'a Runtime) -> Self {
        Self::by(Way::Bus(Some(socket)), runtime)
    }

    /// Runs the calls on `runtime`, over systemd's own socket: there is no bus yet in early boot.
    /// No jobs can be run.
    pub fn in_early_boot(runtime: &'a Runtime) -> Self {
        Self::by(Way::Directly, runtime)
    }

    const fn by(way: Way, runtime: &'a Runtime) -> Self {
        Self {
            runtime,
            way,
            systemd: None,
            unreached: None,
        }
    }

    /// Reboots the host through logind, or without it: a target whose bus does not work must be
    /// left, too.
    ///
    /// # Errors
    /// Those of the last method tried.
    pub fn reboot(&mut self) -> Result<(), process::Error> {
        let error = match self.wait(async |systemd: &SystemdClient| systemd.reboot().await) {
            Ok(()) => return Ok(()),
            // Another request by force would not stop units in order.
            Err(error) if error.is_answer_lost() || error.is_in_progress() => return Ok(()),
            Err(error) => error,
        };
        warn!(error = %Chain(&error), "logind does not reboot");
        // Both reach systemd over its own socket; the second kills processes without stopping
        // units.
        match process::run(Program::Systemctl, &["reboot"], DEADLINE) {
            Ok(_) => return Ok(()),
            Err(error) => warn!(error = %Chain(&error), "systemctl does not reboot"),
        }
        process::run(Program::Systemctl, &["reboot", "--force"], DEADLINE).map(drop)
    }

    /// Whether a unit has a start job that waits for other units.
    ///
    /// # Errors
    /// Those of [`SystemdClient::waits_to_start`].
    pub fn waits_to_start(&mut self, unit: &str) -> Result<bool, Error> {
        self.wait(async |systemd: &SystemdClient| systemd.waits_to_start(unit).await)
    }

    fn wait<T>(
        &mut self,
        act: impl AsyncFnOnce(&SystemdClient) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.unreached.is_some_and(|at| at.elapsed() < UNREACHED) {
            return Err(Error::Unreached);
        }
        let way = self.way.clone();
        self.runtime.block_on(async {
            let connected = match &mut self.systemd {
                Some(connected) => connected,
                none => {
                    let connecting = match way {
                        Way::Bus(socket) => SystemdClient::connect(socket.as_deref()).await,
                        Way::Directly => SystemdClient::connect_directly().await,
                    };
                    self.unreached = connecting.is_err().then(Instant::now);
                    none.insert(connecting?)
                }
            };
            act(connected).await
        })
    }
}

impl Units for RunningUnits<'_> {
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError> {
        Ok(self.wait(async |systemd: &SystemdClient| systemd.set_enablement(change, unit).await)?)
    }

    fn file_state(&mut self, unit: &str) -> Result<String, StepError> {
        Ok(self.wait(async |systemd: &SystemdClient| systemd.file_state(unit).await)?)
    }

    fn reload_manager(&mut self) -> Result<(), StepError> {
        Ok(self.wait(async |systemd: &SystemdClient| systemd.reload().await)?)
    }

    fn extend_boot(&mut self) -> Result<(), StepError> {
        Ok(self.wait(async |systemd: &SystemdClient| systemd.extend_boot().await)?)
    }

    fn run(&mut self, job: Job, unit: &str) -> Result<(), StepError> {
        Ok(self.wait(async |systemd: &SystemdClient| {
            if matches!(job, Job::Start | Job::Restart) {
                // Otherwise systemd refuses a unit that was started too often recently.
                systemd.reset_failed(unit).await?;
            }
            systemd.run(job, unit).await
        })?)
    }

    fn start_later(&mut self, unit: &str, name: &str, after: Duration) -> Result<(), StepError> {
        let after = format!("--on-active={}", after.as_secs());
        let name = format!("--unit={name}");
        let arguments = [
            &name,
            "--collect",
            &after,
            "/usr/bin/systemctl",
            "start",
            unit,
        ];
        process::run(Program::SystemdRun, &arguments, DEADLINE)?;
        Ok(())
    }

    fn active_state(&mut self, unit: &str) -> Result<Option<String>, StepError> {
        const UNIT: &str = "org.freedesktop.systemd1.Unit";
        let state = self.wait(async |systemd: &SystemdClient| {
            let state: String = systemd.property(unit, UNIT, "ActiveState").await?;
            if state != "inactive" {
                return Ok(Some(state));
            }
            let tried: u64 = systemd.property(unit, UNIT, "ConditionTimestamp").await?;
            let met: bool = systemd.property(unit, UNIT, "ConditionResult").await?;
            Ok((met || tried == 0).then_some(state))
        });
        Ok(state?)
    }

    fn start_state(&mut self, unit: &str) -> Result<Option<String>, StepError> {
        let state = self.active_state(unit)?;
        let word = match state.as_deref() {
            Some("activating") => {
                self.wait(async |systemd: &SystemdClient| activating(systemd, unit).await)?
            }
            Some("inactive") if self.waits_to_start(unit)? => "waiting for other units",
            Some(_) | None => return Ok(state),
        };
        Ok(Some(word.to_owned()))
    }
}

/// How far the start of a unit that is activating came.
async fn activating(systemd: &SystemdClient, unit: &str) -> Result<&'static str, Error> {
    let sub = systemd.unit_property(unit, "SubState").await?;
    if sub.starts_with("auto-restart") {
        return Ok("failed, and to be started again");
    }
    if !unit.ends_with(SERVICE) {
        return Ok("activating");
    }
    let kind: String = systemd
        .property(unit, "org.freedesktop.systemd1.Service", "Type")
        .await?;
    Ok(if kind == "oneshot" {
        "active"
    } else {
        "activating"
    })
}

impl Units for Offline {
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError> {
        Ok(Self::set_enablement(self, change, unit)?)
    }

    fn file_state(&mut self, unit: &str) -> Result<String, StepError> {
        let state = self.unit_files()?.remove(unit);
        Ok(state.unwrap_or_else(|| "not-found".to_owned()))
    }

    fn reload_manager(&mut self) -> Result<(), StepError> {
        Err(StepError::NotRunning)
    }

    fn run(&mut self, _job: Job, _unit: &str) -> Result<(), StepError> {
        Err(StepError::NotRunning)
    }

    fn active_state(&mut self, _unit: &str) -> Result<Option<String>, StepError> {
        Err(StepError::NotRunning)
    }
}
