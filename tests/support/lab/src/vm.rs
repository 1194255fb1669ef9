//! A machine: the same operating system under qemu, with firmware, boot loader and kernel.
//!
//! For what a host in namespaces cannot show: a power cut that loses what was not written, a target
//! that does not boot, kernel arguments that the kernel reads.
//!
//! - `loader`: GRUB, which boots what libostree's entries name and counts boots
//! - `agent`: programs run inside
//! - `labels`: SELinux labels of its disks

mod agent;
mod labels;
mod loader;

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use self::agent::Agent;
use crate::control_plane::process::Process;
use crate::disk;
use crate::host::{DeploymentId, Disks, HostSpec, Images, Output, deployment_id, entries, install};
use crate::network::Tap;
use crate::place::Lab;

/// How long a machine may take to boot. It takes 25 s on an idle machine of two cores, emulated,
/// and minutes where others use them.
pub const MACHINE_BOOTED_WITHIN: Duration = Duration::from_mins(10);

/// How long one program inside may take.
const PROGRAM_ENDS_WITHIN: Duration = Duration::from_mins(10);

/// Arguments of its kernel besides those of every host: where it cannot go on it boots again, so
/// that the boot loader can count.
const ARGUMENTS: [&str; 5] = [
    "panic=1",
    "loglevel=4",
    "rd.shell=0",
    "rd.emergency=reboot",
    "systemd.show_status=1",
];

/// What an installer writes for a machine: where `/boot` is, and its network.
const FSTAB: &str = "LABEL=boot /boot ext4 ro,nodev,nosuid 0 0\n";

/// A machine of a lab. Its power is cut when dropped; its files go with the lab.
#[derive(Debug)]
pub struct Vm {
    name: String,
    dir: PathBuf,
    images: Images,
    port: Tap,
    qemu: Option<Process>,
    _lab: Lab,
}

/// One boot of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmBoot {
    /// `/proc/sys/kernel/random/boot_id`
    pub id: String,
    /// The kernel's command line.
    pub options: String,
    /// What is booted.
    pub deployment: DeploymentId,
}

/// A machine's disks as they were.
#[derive(Clone, Debug)]
pub struct Snapshot {
    images: Images,
}

impl Vm {
    /// Makes a machine, which is off. What [`HostSpec`] binds in is not there.
    ///
    /// # Errors
    ///
    /// One of that name exists in the lab, its commit cannot be deployed, or GRUB is missing.
    pub fn create(lab: &Lab, spec: HostSpec) -> Result<Self> {
        ensure!(
            spec.binds.is_empty(),
            "nothing of this machine is bound into another"
        );
        let dir = lab.dir().join(&spec.name);
        fs::create_dir(&dir).with_context(|| format!("cannot make the machine {}", spec.name))?;
        let port = lab.plug_machine()?;
        let mut spec = spec.file("/etc/fstab", FSTAB, 0o644);
        for (path, text) in network(port.address()) {
            spec = spec.file(path, text, 0o644);
        }
        let spec = ARGUMENTS.into_iter().fold(spec, HostSpec::argument);

        let images = Images::make(&spec, &dir, loader::OFFSET)?;
        loader::install(&images.boot, &dir)?;
        let vm = Self {
            name: spec.name.clone(),
            dir,
            images,
            port,
            qemu: None,
            _lab: lab.clone(),
        };
        vm.with_disks(|disks| {
            install(&spec, disks)?;
            let wants = "etc/systemd/system/multi-user.target.wants";
            let deployment = entries(disks.sysroot())?
                .first()
                .context("nothing was deployed")?
                .deployment(disks.sysroot())?;
            symlink(
                "/lib/systemd/system/systemd-networkd.service",
                deployment.join(wants).join("systemd-networkd.service"),
            )?;
            loader::configure(disks.boot())?;
            labels::label(disks.sysroot(), &deployment)
        })
        .with_context(|| format!("cannot install the machine {}", spec.name))?;
        Ok(vm)
    }

    /// Its name, also that of its node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.port.address()
    }

    /// What it wrote to its serial console, in all boots.
    ///
    /// # Errors
    ///
    /// It was never started.
    pub fn console(&self) -> Result<String> {
        let text = fs::read(self.dir.join("console.log"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Turns it on. A reboot is its own affair.
    ///
    /// # Errors
    ///
    /// It is on, or qemu does not start.
    pub fn start(&mut self) -> Result<()> {
        ensure!(!self.is_on(), "the machine {} is on already", self.name);
        // Of an earlier start.
        drop(fs::remove_file(self.socket()));
        self.qemu = Some(Process::start(
            "qemu",
            Path::new("qemu-system-x86_64"),
            self.arguments(),
            &self.dir,
        )?);
        Ok(())
    }

    /// Whether it is on.
    pub fn is_on(&mut self) -> bool {
        self.qemu.as_mut().is_some_and(|qemu| qemu.check().is_ok())
    }

    /// Waits until it is up: systemd has started everything.
    ///
    /// # Errors
    ///
    /// It is not, in that time; with the end of its console.
    pub fn wait_booted(&mut self, within: Duration) -> Result<VmBoot> {
        self.wait_booted_after(None, within)
    }

    /// Waits until it is up in another boot than the one that is named.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_booted`].
    pub fn wait_booted_after(
        &mut self,
        before: Option<&VmBoot>,
        within: Duration,
    ) -> Result<VmBoot> {
        let deadline = Instant::now() + within;
        loop {
            let looked = self.boot();
            let last = match looked {
                Ok(boot) if before.is_none_or(|before| before.id != boot.id) => return Ok(boot),
                Ok(_) => "it is up in the boot before".to_owned(),
                Err(error) => format!("{error:#}"),
            };
            let qemu = self.qemu.as_mut().context("it was never started")?;
            let ended = qemu.check().err();
            if Instant::now() >= deadline || ended.is_some() {
                let why = ended.map_or_else(
                    || format!("it is not up within {within:?}: {last}"),
                    |error| format!("{error:#}"),
                );
                let console = self.console().unwrap_or_default();
                let end: Vec<_> = console.lines().rev().take(20).collect();
                let end = end.into_iter().rev().collect::<Vec<_>>().join("\n");
                bail!(
                    "machine {}: {why}; its console ends with:\n{end}",
                    self.name
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The boot that is up; an error while none is.
    fn boot(&self) -> Result<VmBoot> {
        let mut agent = Agent::connect(&self.socket())?;
        // Prints the state, and fails where a unit has failed; that is up, too.
        let state = agent.exec(
            &["/usr/bin/systemctl", "is-system-running"],
            PROGRAM_ENDS_WITHIN,
        )?;
        ensure!(
            matches!(state.stdout.trim_end(), "running" | "degraded"),
            "systemd says {:?}",
            state.stdout
        );
        let mut read = |path: &str| -> Result<String> {
            let output = agent.exec(&["/usr/bin/cat", path], PROGRAM_ENDS_WITHIN)?;
            Ok(output.stdout.trim_end().to_owned())
        };
        let id = read("/proc/sys/kernel/random/boot_id")?;
        let options = read("/proc/cmdline")?;
        // Not by the option `ostree=`: its path is gone once another deployment was made.
        let of_root = ["/usr/bin/findmnt", "--noheadings", "--output=FSROOT", "/"];
        let root = agent.exec(&of_root, PROGRAM_ENDS_WITHIN)?;
        let deployment = deployment_id(Path::new(root.stdout.trim_end()))?;
        Ok(VmBoot {
            id,
            options,
            deployment,
        })
    }

    /// Runs a program inside to its end, whatever that is. It is named by its path.
    ///
    /// # Errors
    ///
    /// The machine is not up.
    pub fn exec(&self, arguments: &[&str]) -> Result<Output> {
        Agent::connect(&self.socket())?.exec(arguments, PROGRAM_ENDS_WITHIN)
    }

    /// Runs a shell's commands inside; what they printed, without the last line's end.
    ///
    /// # Errors
    ///
    /// The machine is not up, or the commands exit with another code than 0.
    pub fn shell(&self, commands: &str) -> Result<String> {
        let output = self.exec(&["/bin/bash", "-c", commands])?;
        ensure!(
            output.code == Some(0),
            "{commands:?} on machine {} failed ({:?}): {}",
            self.name,
            output.code,
            output.stderr.trim_end()
        );
        Ok(output.stdout.trim_end_matches('\n').to_owned())
    }

    /// Reboots it in order and waits until it is up again.
    ///
    /// # Errors
    ///
    /// It is not up, or does not come up.
    pub fn reboot(&mut self) -> Result<VmBoot> {
        let before = self.boot()?;
        self.shell("systemctl reboot")?;
        self.wait_booted_after(Some(&before), MACHINE_BOOTED_WITHIN)
    }

    /// Cuts its power: what was not written to its disks is lost.
    pub fn cut_power(&mut self) {
        self.qemu = None;
    }

    /// Turns it off in order.
    ///
    /// # Errors
    ///
    /// It is not up, or does not go down.
    pub fn power_off(&mut self) -> Result<()> {
        self.shell("systemctl poweroff")?;
        let deadline = Instant::now() + MACHINE_BOOTED_WITHIN;
        while self.is_on() {
            ensure!(
                Instant::now() < deadline,
                "machine {} does not go down",
                self.name
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        self.qemu = None;
        Ok(())
    }

    /// Does something with its file systems, mounted for this machine: the sysroot, with `/boot`.
    ///
    /// # Errors
    ///
    /// It is on, or those of `act`.
    pub fn with_sysroot<T>(&mut self, act: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        ensure!(!self.is_on(), "the machine {} is on", self.name);
        self.with_disks(|disks| act(disks.sysroot()))
    }

    /// Keeps its disks as they are now.
    ///
    /// # Errors
    ///
    /// It is on.
    pub fn snapshot(&mut self, name: &str) -> Result<Snapshot> {
        ensure!(!self.is_on(), "the machine {} is on", self.name);
        let dir = self.dir.join(format!("snapshot-{name}"));
        fs::create_dir(&dir)?;
        let mut images = self.images.clone();
        images.root = dir.join("root.img");
        images.boot = dir.join("boot.img");
        copy(&self.images, &images)?;
        Ok(Snapshot { images })
    }

    /// Puts its disks back to what they were. If it is on its power is cut.
    ///
    /// # Errors
    ///
    /// The disk of this machine is full.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.cut_power();
        copy(&snapshot.images, &self.images)
    }

    fn with_disks<T>(&self, act: impl FnOnce(&Disks) -> Result<T>) -> Result<T> {
        let sysroot = self.dir.join("sysroot");
        fs::create_dir_all(&sysroot)?;
        let disks = self.images.mount(&sysroot)?;
        let result = act(&disks);
        // In any case, so that the next start finds whole images.
        disks.unmount()?;
        result
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("agent.sock")
    }

    fn arguments(&self) -> Vec<String> {
        let drive = |image: &Path| format!("file={},format=raw,if=virtio", image.display());
        let console = self.dir.join("console.log");
        let agent = self.socket();
        let network = format!(
            "tap,id=lab,ifname={},script=no,downscript=no",
            self.port.link()
        );
        let arguments = [
            "-name",
            &self.name,
            "-machine",
            "q35",
            // No KVM: it is not everywhere, and not needed.
            "-accel",
            "tcg,thread=multi",
            "-smp",
            "2",
            "-m",
            "1024",
            "-display",
            "none",
            "-monitor",
            "none",
            "-no-user-config",
            "-nodefaults",
            // The one with the boot loader first.
            "-drive",
            &drive(&self.images.boot),
            "-drive",
            &drive(&self.images.root),
            "-chardev",
            &format!("file,id=console,path={},append=on", console.display()),
            "-serial",
            "chardev:console",
            "-chardev",
            &format!(
                "socket,id=agent,path={},server=on,wait=off",
                agent.display()
            ),
            "-device",
            "virtio-serial-pci",
            "-device",
            "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
            "-netdev",
            &network,
            "-device",
            // Without the firmware's own program for booting from the network.
            "virtio-net-pci,netdev=lab,romfile=",
            "-device",
            "virtio-rng-pci",
        ];
        arguments.map(ToOwned::to_owned).to_vec()
    }
}

fn copy(from: &Images, to: &Images) -> Result<()> {
    disk::copy(&from.root, &to.root)?;
    disk::copy(&from.boot, &to.boot)
}

/// Files by which networkd gives the machine its address.
fn network(address: Ipv4Addr) -> [(&'static str, String); 1] {
    let text = format!(
        "[Match]\nKind=!*\nType=ether\n\n[Network]\nAddress={address}/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    );
    [("/etc/systemd/network/lab.network", text)]
}
