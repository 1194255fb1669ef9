//! A container as its runtime reads it: a root directory and `config.json`.
//!
//! Source: Open Container Initiative runtime specification 1.0.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::spec::{Mount, PodSpec, Propagation, Source};
use crate::host::install::write;
use crate::program::{command, output, run};

/// Mounts that every container has.
const OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Capabilities by their numbers. Source: Linux 6.1, `include/uapi/linux/capability.h`.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What a container has that asks for nothing. Source: CRI-O, `default_capabilities`.
const DEFAULT_CAPABILITIES: [&str; 9] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "KILL",
];

/// File in the bundle with the number of the last start that was let go.
pub(super) const GATE: &str = "let-go";

/// Waits until start `$1` of the bundle with the file `$0` is let go.
const WAIT: &str = r#"until [ "$(cat "$0" 2>/dev/null)" = "$1" ]; do sleep 0.01; done"#;

/// Makes the root directory in the bundle `dir`: programs with their libraries, and the places of
/// the mounts.
pub(super) fn make_root(spec: &PodSpec, dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    let root = dir.join("rootfs");
    for (file, at) in &spec.programs {
        copy(file, &root, Path::new(at))?;
        for library in libraries(file)? {
            copy(&library, &root, &library)?;
        }
    }
    for (file, at) in &spec.carried {
        copy(file, &root, Path::new(at))?;
    }
    let passwd = b"root:x:0:0:root:/:/sbin/nologin\n";
    write(&root.join("etc/passwd"), passwd, 0o644)?;
    for at in OWN
        .into_iter()
        .chain(spec.mounts.iter().map(|mount| mount.at.as_str()))
    {
        fs::create_dir_all(inside(&root, at))?;
    }
    for (index, mount) in spec.mounts.iter().enumerate() {
        if let Source::Folder(from) = &mount.from {
            let to = dir.join(format!("folder-{index}"));
            run(command("cp")
                .args(["--recursive", "--dereference"])
                .args([from, &to]))?;
        }
    }
    Ok(())
}

/// Writes `config.json` into the bundle `dir`, for the host whose first process is `leader`. A
/// start with a number waits, before the program begins, until it is let go.
pub(super) fn write_config(
    spec: &PodSpec,
    dir: &Path,
    leader: Pid,
    start: Option<u32>,
) -> Result<()> {
    let status =
        fs::read_to_string(format!("/proc/{leader}/status")).context("the host went down")?;
    let of_host = capabilities(&status)?;
    let granted: Vec<String> = of_host
        .into_iter()
        .filter(|name| match &spec.capabilities {
            None => true,
            Some(more) => {
                DEFAULT_CAPABILITIES.contains(name) || more.iter().any(|added| added == name)
            }
        })
        .map(|name| format!("CAP_{name}"))
        .collect();
    let environment: Vec<_> = spec
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();

    // The host's own /proc, as it is for a container with `hostPID`: what the lab lays over its
    // boot id and command line is there, too.
    let mut mounts = vec![
        json!({ "destination": "/proc", "source": "/proc", "type": "none", "options": ["rbind"] }),
        json!({ "destination": "/sys", "source": "/sys", "type": "none", "options": ["rbind", "ro"] }),
        json!({ "destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "mode=755"] }),
    ];
    let bundle = format!("/run/lab/pods/{}", spec.name);
    mounts.extend(
        spec.mounts
            .iter()
            .enumerate()
            .map(|(index, mount)| entry(mount, index, &bundle)),
    );
    let hook = |start: u32| {
        let (gate, start) = (format!("{bundle}/{GATE}"), start.to_string());
        json!({ "path": "/bin/sh", "args": ["sh", "-c", WAIT, gate, start], "env": ["PATH=/usr/bin:/bin"] })
    };
    let hooks: Vec<_> = start.map(hook).into_iter().collect();
    let config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": spec.arguments,
            "env": environment,
            "cwd": "/",
            "capabilities": {
                "bounding": granted,
                "permitted": granted,
                "effective": granted,
            },
        },
        "root": { "path": "rootfs", "readonly": spec.is_root_read_only },
        "mounts": mounts,
        "hooks": { "createRuntime": hooks },
        "linux": {
            "namespaces": [{ "type": "mount" }, { "type": "ipc" }],
            "rootfsPropagation": "rslave",
        },
    });
    write(
        &dir.join("config.json"),
        config.to_string().as_bytes(),
        0o644,
    )
}

fn entry(mount: &Mount, index: usize, bundle: &str) -> Value {
    let access = if mount.is_read_only { "ro" } else { "rw" };
    let (source, kind, options) = match &mount.from {
        Source::Host(path, propagation) => {
            let propagation = match propagation {
                Propagation::None => "rprivate",
                Propagation::HostToContainer => "rslave",
                Propagation::Bidirectional => "rshared",
            };
            (path.clone(), "none", vec!["rbind", propagation, access])
        }
        Source::Folder(_) => (
            format!("{bundle}/folder-{index}"),
            "none",
            vec!["bind", "ro"],
        ),
        Source::Empty => ("tmpfs".to_owned(), "tmpfs", vec!["nosuid", "nodev"]),
    };
    json!({ "destination": mount.at, "source": source, "type": kind, "options": options })
}

/// Names of the capabilities in a process's bounding set, given its `/proc/<pid>/status`.
fn capabilities(status: &str) -> Result<Vec<&'static str>> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let mask = u64::from_str_radix(line.context("it shows no capabilities")?.trim(), 16)?;
    let has = |number: &usize| mask & (1 << number) != 0;
    Ok(CAPABILITIES
        .into_iter()
        .enumerate()
        .filter(|(number, _)| has(number))
        .map(|(_, name)| name)
        .collect())
}

/// Libraries that a program loads, and the loader. None for one that is statically linked.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = output(command("ldd").arg(program))?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(
        !text.contains("not found"),
        "{} lacks a library: {text}",
        program.display()
    );
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`
    let path = |line: &str| {
        line.split_ascii_whitespace()
            .find(|word| word.starts_with('/'))
            .map(PathBuf::from)
    };
    Ok(text.lines().filter_map(path).collect())
}

fn copy(file: &Path, root: &Path, at: &Path) -> Result<()> {
    let to = inside(root, &at.to_string_lossy());
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(file, &to).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

fn inside(root: &Path, at: &str) -> PathBuf {
    root.join(at.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_by_number() {
        let status = "Name:\tsystemd\nCapBnd:\t0000000000200021\n";
        assert_eq!(
            capabilities(status).unwrap(),
            ["CHOWN", "KILL", "SYS_ADMIN"]
        );
    }
}
