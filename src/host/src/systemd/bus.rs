//! The D-Bus interfaces of systemd and logind that Slipway calls.

use zbus::{OwnedObjectPath, OwnedVariant, Variant};

/// A property of a transient unit: its name in a unit file, and its value.
pub type Property<'a> = (&'a str, Variant<'a>);

/// An operation on a running unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    Start,
    Stop,
    /// Restarts it, or starts it.
    Restart,
    /// Restarts it if it runs.
    TryRestart,
    /// Reloads it, or restarts it if it cannot reload.
    Reload,
}

impl Job {
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart | Self::TryRestart => "restart",
            Self::Reload => "reload",
        }
    }
}

/// An auxiliary unit of a transient one; the list is always empty, but the signature has it.
pub(super) type Auxiliary<'a> = (&'a str, Vec<Property<'a>>);

/// A loaded unit: name; description; load, active and sub state; followed unit; object; job's
/// number, type and object.
pub(super) type Listed = (
    String,
    String,
    String,
    String,
    String,
    String,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

/// A change made to unit files: type, path, target.
pub(super) type FileChange = (String, String, String);

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
pub(super) trait Manager {
    async fn subscribe(&self) -> zbus::Result<()>;
    async fn reload(&self) -> zbus::Result<()>;
    async fn load_unit(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
    async fn start_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    async fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    async fn restart_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    async fn try_restart_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    async fn reload_or_restart_unit(&self, name: &str, mode: &str)
    -> zbus::Result<OwnedObjectPath>;
    async fn reset_failed_unit(&self, name: &str) -> zbus::Result<()>;
    async fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[Property<'_>],
        aux: &[Auxiliary<'_>],
    ) -> zbus::Result<OwnedObjectPath>;
    async fn list_units_by_patterns(
        &self,
        states: &[&str],
        patterns: &[&str],
    ) -> zbus::Result<Vec<Listed>>;
    async fn list_unit_files(&self) -> zbus::Result<Vec<(String, String)>>;
    async fn get_unit_file_state(&self, file: &str) -> zbus::Result<String>;
    async fn enable_unit_files(
        &self,
        files: &[&str],
        runtime: bool,
        force: bool,
    ) -> zbus::Result<(bool, Vec<FileChange>)>;
    async fn disable_unit_files(
        &self,
        files: &[&str],
        runtime: bool,
    ) -> zbus::Result<Vec<FileChange>>;
    async fn preset_unit_files(
        &self,
        files: &[&str],
        runtime: bool,
        force: bool,
    ) -> zbus::Result<(bool, Vec<FileChange>)>;
    #[zbus(signal)]
    async fn job_removed(
        &self,
        id: u32,
        job: OwnedObjectPath,
        unit: String,
        result: String,
    ) -> zbus::Result<()>;
}

#[zbus::proxy(
    interface = "org.freedesktop.DBus.Properties",
    default_service = "org.freedesktop.systemd1"
)]
pub(super) trait Properties {
    async fn get(&self, interface: &str, property: &str) -> zbus::Result<OwnedVariant>;
}

#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
pub(super) trait Login {
    async fn reboot(&self, interactive: bool) -> zbus::Result<()>;
}
