//! Ignition on a new host, before its first boot.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::{Host, STATEROOT, entries, install_file};
use crate::program::{command, output, run};

/// Where Debian has the program that an initramfs runs.
const IGNITION: &str = "/usr/lib/dracut/modules.d/30ignition/ignition";

/// Runs a program with the deployment `$1` as its root, in which `/var` is `$2` and has the homes
/// that the OS asks for, as the initramfs of an ostree host populates it.
const WITH_VAR: &str = r#"mount --bind "$2" "$1/var"
systemd-tmpfiles --root="$1" --create --prefix=/var/home
shift 2
exec "$@""#;

/// Where Ignition says which of its units are enabled. systemd reads it in a first boot.
const PRESETS: &str = "etc/systemd/system-preset/20-ignition.preset";

impl Host {
    /// Runs the stages of Ignition that fetch and write files, as the initramfs of a new host's
    /// first boot does: from the host's address, on its deployment and its `/var`. Then the units
    /// that it names are enabled, as systemd does in a first boot.
    ///
    /// # Errors
    /// The host is on, or Ignition fails; with what it printed. A real host stays in its initramfs
    /// then.
    pub fn ignite(&self, config: &Path) -> Result<()> {
        ensure!(!self.is_on(), "the host {} is on", self.name());
        let sysroot = self.sysroot();
        let entry = entries::entries(sysroot)?.into_iter().next();
        let root = entry.context("no boot entry")?.deployment(sysroot)?;
        let selinux = root.join("etc/selinux");
        let had_selinux = selinux.exists();
        // Ignition was built for hosts with SELinux and labels what it writes; here is no policy.
        install_file(&selinux.join("config"), b"SELINUXTYPE=none\n", 0o644)?;
        install_file(
            &selinux.join("none/contexts/files/file_contexts"),
            b"",
            0o644,
        )?;
        let bin = self.dir().join("bin");
        install_file(&bin.join("setfiles"), b"#!/bin/sh\n", 0o755)?;
        let result = ["fetch", "files"]
            .iter()
            .try_for_each(|stage| self.stage(stage, config, &root, &bin));
        fs::remove_dir_all(selinux.join("none"))?;
        fs::remove_file(selinux.join("config"))?;
        if !had_selinux {
            fs::remove_dir(&selinux)?;
        }
        result?;
        let presets = fs::read_to_string(root.join(PRESETS)).unwrap_or_default();
        for unit in presets
            .lines()
            .filter_map(|line| line.strip_prefix("enable "))
        {
            let of_root = format!("--root={}", root.display());
            run(command("systemctl").args([&of_root, "preset", unit.trim()]))?;
        }
        Ok(())
    }

    fn stage(&self, stage: &str, config: &Path, root: &Path, bin: &Path) -> Result<()> {
        let var = self
            .sysroot()
            .join("ostree/deploy")
            .join(STATEROOT)
            .join("var");
        let namespace = self.machine.port.namespace();
        let mut enter = command("nsenter");
        enter.arg(format!("--net={}", namespace.display()));
        enter.args(["unshare", "--mount", "sh", "-ec", WITH_VAR, "sh"]);
        enter.arg(root).arg(var);
        enter.args([
            "timeout",
            "60",
            IGNITION,
            "--platform=file",
            "--log-to-stdout",
        ]);
        enter.arg(format!("--stage={stage}"));
        enter.arg(format!("--root={}", root.display()));
        let cache = self.dir().join("ignition.json");
        enter.arg(format!("--config-cache={}", cache.display()));
        enter.env_clear();
        enter.env(
            "PATH",
            format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()),
        );
        enter.env("IGNITION_CONFIG_FILE", config);
        let output = output(&mut enter)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "Ignition's {stage}: {said}{errors}"
        );
        Ok(())
    }
}
