//! The running system's systemd, over the system bus or its own socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use zbus::proxy::CacheProperties;
use zbus::{Connection, connection};

use super::bus::{Job, LoginProxy, ManagerProxy, PropertiesProxy, Property};
use super::{Enablement, Error, RUNNING};

/// Deadline of a job of a unit. systemd's default for starting and stopping is 90 s; a container
/// engine that stops its containers can take three times that.
const JOB_DEADLINE: Duration = Duration::from_mins(5);

/// Deadline of a call that does not wait for a job.
const CALL_DEADLINE: Duration = Duration::from_mins(1);

/// Deadline of a connection to the bus. A local socket answers at once, or hangs.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// systemd's own socket, for root alone. It is there before the bus is, and without a bus daemon.
///
/// Source: systemd, `src/core/dbus.c` (`bus_init_private`); `systemctl` uses it, too.
const OWN_SOCKET: &str = "/run/systemd/private";

/// The target that a boot leads to.
const DEFAULT_TARGET: &str = "default.target";

/// systemd's error for a unit that it has not loaded.
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// logind's error while the host is already shutting down.
const IN_PROGRESS: &str = "org.freedesktop.login1.OperationInProgress";

/// systemd's error for a second subscription.
const ALREADY_SUBSCRIBED: &str = "org.freedesktop.systemd1.AlreadySubscribed";

/// A connection to systemd and, over the bus, to logind of the host.
#[derive(Debug, Clone)]
pub struct SystemdClient {
    connection: Connection,
    manager: ManagerProxy<'static>,
}

impl SystemdClient {
    /// Connects to the system bus, at `socket` if that is not the default path (a container sees
    /// the host's bus at `/rootfs/run/dbus/system_bus_socket`).
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub async fn connect(socket: Option<&Path>) -> Result<Self, Error> {
        let builder = match socket {
            Some(path) => {
                connection::Builder::address(format!("unix:path={}", path.display()).as_str())
            }
            None => connection::Builder::system(),
        };
        Self::build(builder, "on the system bus").await
    }

    /// Connects to systemd over its own socket: before the bus is there, and without it. Only
    /// systemd can be called, and signals are not asked for: no jobs can be waited for.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub async fn connect_directly() -> Result<Self, Error> {
        let address = format!("unix:path={OWN_SOCKET}");
        let builder = connection::Builder::address(address.as_str()).p2p();
        Self::build(builder, "over its own socket").await
    }

    async fn build(builder: connection::Builder<'_>, by: &'static str) -> Result<Self, Error> {
        let connect = async {
            let connection = builder.method_timeout(CALL_DEADLINE).build().await?;
            let manager = ManagerProxy::builder(&connection)
                .cache_properties(CacheProperties::No)
                .build()
                .await?;
            Ok(Self {
                connection,
                manager,
            })
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "nothing answers there").into();
        timeout(CONNECT_DEADLINE, connect)
            .await
            .unwrap_or_else(|elapsed| Err(late(elapsed)))
            .map_err(|error: zbus::Error| Error::Connect {
                by,
                source: Box::new(error),
            })
    }

    /// `systemctl daemon-reload`.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn reload(&self) -> Result<(), Error> {
        self.manager
            .reload()
            .await
            .map_err(call("reload", "systemd"))
    }

    /// Runs a job and waits for its end.
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Job`] for another result than `done` (or `skipped`, for a unit
    /// whose conditions are not met), [`Error::Late`] after five minutes.
    pub async fn run(&self, job: Job, unit: &str) -> Result<(), Error> {
        let operation = job.verb();
        let failed = call(operation, unit);
        let wait = async {
            self.manager.subscribe().await.or_else(already_subscribed)?;
            let mut removed = self.manager.receive_job_removed().await?;
            let path = match job {
                Job::Start => self.manager.start_unit(unit, "replace").await?,
                Job::Stop => self.manager.stop_unit(unit, "replace").await?,
                Job::Restart => self.manager.restart_unit(unit, "replace").await?,
                Job::TryRestart => self.manager.try_restart_unit(unit, "replace").await?,
                Job::Reload => self.manager.reload_or_restart_unit(unit, "replace").await?,
            };
            while let Some(signal) = next(&mut removed).await {
                let arguments = signal.args()?;
                if arguments.job == path {
                    return Ok(Some(arguments.result));
                }
            }
            Ok(None)
        };
        let late = |_| Error::Late {
            operation,
            unit: unit.to_owned(),
            seconds: JOB_DEADLINE.as_secs(),
        };
        let result = timeout(JOB_DEADLINE, wait)
            .await
            .map_err(late)?
            .map_err(failed)?;
        match result.as_deref() {
            Some("done" | "skipped") => Ok(()),
            other => Err(Error::Job {
                operation,
                unit: unit.to_owned(),
                result: other.unwrap_or("bus closed").to_owned(),
            }),
        }
    }

    /// Starts a transient unit, which runs on if the caller dies.
    ///
    /// # Errors
    /// [`Error::Call`], also if a unit of that name is still loaded.
    pub async fn start_transient(
        &self,
        unit: &str,
        properties: &[Property<'_>],
    ) -> Result<(), Error> {
        let started = self
            .manager
            .start_transient_unit(unit, "fail", properties, &[])
            .await;
        started.map(drop).map_err(call("start", unit))
    }

    /// Names of the units that run, start or stop and whose names match one of these shell
    /// patterns.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn running(&self, patterns: &[String]) -> Result<Vec<String>, Error> {
        let named: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let listed = self.manager.list_units_by_patterns(RUNNING, &named).await;
        let listed = listed.map_err(call("list", &patterns.join(" ")))?;
        Ok(listed.into_iter().map(|(name, ..)| name).collect())
    }

    /// Whether a unit has a start job that waits for other units, as its `After=` asks.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn waits_to_start(&self, unit: &str) -> Result<bool, Error> {
        let read = async {
            let listed = self.manager.list_units_by_patterns(&[], &[unit]).await?;
            let job = listed
                .into_iter()
                .find(|(.., job, kind, _)| *job != 0 && kind == "start");
            let Some((.., path)) = job else {
                return Ok(false);
            };
            let proxy = PropertiesProxy::builder(&self.connection)
                .path(path)
                .cache_properties(CacheProperties::No)
                .build()
                .await?;
            let state = proxy.get("org.freedesktop.systemd1.Job", "State").await?;
            Ok(String::try_from(state)? == "waiting")
        };
        read.await.map_err(call("read the job of", unit))
    }

    /// Has a boot that is under way start what its target wants by now: the boot's jobs were
    /// queued from the unit files as they were before a reload. After the boot nothing is done.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn extend_boot(&self) -> Result<(), Error> {
        // By its own name: `default.target` is an alias, by which no unit is listed.
        let target = self.unit_property(DEFAULT_TARGET, "Id").await?;
        let extend = async {
            let listed = self.manager.list_units_by_patterns(&[], &[&target]).await?;
            // Not in a boot that leads elsewhere, such as to `rescue.target`.
            if listed.into_iter().any(|(.., job, _, _)| job != 0) {
                self.manager.start_unit(&target, "replace").await?;
            }
            Ok(())
        };
        extend.await.map_err(call("start", &target))
    }

    /// Clears a unit's failed state, so that its name can be used again.
    ///
    /// # Errors
    /// [`Error::Call`], except for a unit that is not loaded.
    pub async fn reset_failed(&self, unit: &str) -> Result<(), Error> {
        match self.manager.reset_failed_unit(unit).await {
            Err(error) if !is_missing(&error) => Err(call("reset", unit)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Changes the persistent links of a unit.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn set_enablement(&self, change: Enablement, unit: &str) -> Result<(), Error> {
        let units = [unit];
        let changed = match change {
            Enablement::Enable => self
                .manager
                .enable_unit_files(&units, false, true)
                .await
                .map(drop),
            Enablement::Disable => self
                .manager
                .disable_unit_files(&units, false)
                .await
                .map(drop),
            Enablement::Preset => self
                .manager
                .preset_unit_files(&units, false, true)
                .await
                .map(drop),
        };
        changed.map_err(call(change.verb(), unit))
    }

    /// Names of all unit files.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn unit_files(&self) -> Result<Vec<String>, Error> {
        let files = self
            .manager
            .list_unit_files()
            .await
            .map_err(call("list", "unit files"))?;
        let name = |path: String| path.rsplit('/').next().map(str::to_owned).unwrap_or(path);
        Ok(files.into_iter().map(|(path, _)| name(path)).collect())
    }

    /// The state that `systemctl is-enabled` prints: `enabled`, `disabled`, `static`, `masked`, …,
    /// `not-found`.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn file_state(&self, unit: &str) -> Result<String, Error> {
        match self.manager.get_unit_file_state(unit).await {
            Ok(state) => Ok(state),
            Err(error) if is_missing(&error) => Ok("not-found".to_owned()),
            Err(error) => Err(call("read the state of", unit)(error)),
        }
    }

    /// A string property of a unit: `ActiveState`, `Result`, `LoadState`, …
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn unit_property(&self, unit: &str, property: &str) -> Result<String, Error> {
        self.property(unit, "org.freedesktop.systemd1.Unit", property)
            .await
    }

    /// A property of a unit, of one of its interfaces, as a `T`.
    ///
    /// # Errors
    /// [`Error::Call`], also for a property of another type.
    pub async fn property<T>(&self, unit: &str, interface: &str, property: &str) -> Result<T, Error>
    where
        T: TryFrom<zbus::OwnedVariant>,
        T::Error: Into<zbus::Error>,
    {
        let read = async {
            let path = self.manager.load_unit(unit).await?;
            let proxy = PropertiesProxy::builder(&self.connection)
                .path(path)
                .cache_properties(CacheProperties::No)
                .build()
                .await?;
            T::try_from(proxy.get(interface, property).await?).map_err(Into::into)
        };
        read.await.map_err(call("read the state of", unit))
    }

    /// Reboots through logind, which honours inhibitors that delay.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn reboot(&self) -> Result<(), Error> {
        let reboot = async { LoginProxy::new(&self.connection).await?.reboot(false).await };
        reboot.await.map_err(call("reboot", "the host"))
    }
}

/// The next item of a stream, without a crate for it.
async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
}

fn call(operation: &'static str, unit: &str) -> impl FnOnce(zbus::Error) -> Error {
    let unit = unit.to_owned();
    move |source| Error::Call {
        operation,
        unit,
        source: Box::new(source),
    }
}

/// Whether logind reports that the host is already shutting down.
pub(super) fn is_in_progress(error: &zbus::Error) -> bool {
    is_named(error, IN_PROGRESS)
}

/// Whether a unit has no file or is not loaded.
fn is_missing(error: &zbus::Error) -> bool {
    if let zbus::Error::FDO(error) = error {
        // The bus's standard errors have variants of their own.
        return matches!(**error, zbus::fdo::Error::FileNotFound(_));
    }
    is_named(error, NO_SUCH_UNIT)
}

fn already_subscribed(error: zbus::Error) -> zbus::Result<()> {
    if is_named(&error, ALREADY_SUBSCRIBED) {
        Ok(())
    } else {
        Err(error)
    }
}

fn is_named(error: &zbus::Error, name: &str) -> bool {
    matches!(error, zbus::Error::MethodError(found, _, _) if found.as_str() == name)
}
