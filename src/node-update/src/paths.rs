//! Where a configuration may write, and files that it shares with someone else.

use std::collections::BTreeMap;

use crate::desired::{Desired, DesiredFile, DesiredUnit};
use crate::rejection::{Member, Rejection};
use crate::well_known::{
    FORCE_FILE, GUARD_DROPIN, GUARD_UNIT, REBOOT_UNIT, RECORD_CONFIG, RECORD_IMAGE, STATE, UNITS,
    VERIFY_UNIT,
};

/// Directories that a configuration may write into: what a deployment keeps of its own, and what
/// all deployments share.
const WRITABLE: [&str; 8] = [
    "/etc",
    "/var",
    "/usr/local",
    "/opt",
    "/srv",
    "/home",
    "/root",
    "/mnt",
];

/// What only an image brings, and the way to such an image.
const PART_OF_IMAGE: &str =
    "is read-only: it is part of the OS image; a MachineOSConfig builds it into the pool's image";

/// Directories that a configuration may not write into, and why.
const CLOSED: [(&str, &str); 17] = [
    (STATE, "belongs to Slipway"),
    (RECORD_CONFIG, "belongs to Slipway"),
    (RECORD_IMAGE, "belongs to Slipway"),
    ("/usr", PART_OF_IMAGE),
    ("/usr/etc", "belongs to OSTree"),
    ("/bin", PART_OF_IMAGE),
    ("/sbin", PART_OF_IMAGE),
    ("/lib", PART_OF_IMAGE),
    ("/lib64", PART_OF_IMAGE),
    ("/boot", "belongs to the boot loader"),
    ("/sysroot", "belongs to OSTree"),
    ("/ostree", "belongs to OSTree"),
    ("/run", "is emptied at each boot"),
    ("/tmp", "is emptied at each boot"),
    ("/dev", "is made by the kernel"),
    ("/proc", "is made by the kernel"),
    ("/sys", "is made by the kernel"),
];

/// Directories that are links to others on every OS whose deployments these are: one file must not
/// have two names. On a host its own links count, which the rehearsal follows.
const LINKS: [(&str, &str); 13] = [
    ("/bin", "/usr/bin"),
    ("/sbin", "/usr/sbin"),
    ("/lib", "/usr/lib"),
    ("/lib64", "/usr/lib64"),
    ("/var/run", "/run"),
    ("/var/lock", "/run/lock"),
    ("/home", "/var/home"),
    ("/opt", "/var/opt"),
    ("/srv", "/var/srv"),
    ("/root", "/var/roothome"),
    ("/mnt", "/var/mnt"),
    ("/media", "/run/media"),
    ("/usr/local", "/var/usrlocal"),
];

/// Units that watch over updates; a configuration that changed them could not be reverted.
const OWN_UNITS: [&str; 3] = [GUARD_UNIT, VERIFY_UNIT, REBOOT_UNIT];

/// Where the OS has its units.
const UNITS_OF_OS: &str = "/usr/lib/systemd/system";

/// CA that signs what the API server shows the kubelets.
pub(crate) const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
/// CA of the cloud's API.
pub(crate) const CLOUD_CA: &str =
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
pub(crate) const USER_CA: &str =
    "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
/// Where container tools look for a registry's CA, one directory a registry.
pub(crate) const REGISTRY_CERTIFICATES: &str = "/etc/docker/certs.d";
/// The pull secret of the registry inside the cluster, with the cluster's own.
pub(crate) const REGISTRY_SECRET: &str = "/etc/mco/internal-registry-pull-secret.json";

/// Written at first boot, then kept up to date as certificates rotate. Source:
/// `docs/reference/daemon.md`, "Files".
pub(crate) fn is_written_once(path: &str) -> bool {
    path == KUBELET_CA
}

/// Stays when no configuration names it any more: the cluster writes it too. Source:
/// `docs/reference/daemon.md`, "Files".
pub(crate) fn is_never_released(path: &str) -> bool {
    [KUBELET_CA, CLOUD_CA, USER_CA].contains(&path) || is_within(path, REGISTRY_CERTIFICATES)
}

/// Changes without a configuration. Source: `docs/reference/daemon.md`, "Verification".
pub(crate) fn is_never_verified(path: &str) -> bool {
    [KUBELET_CA, CLOUD_CA, REGISTRY_SECRET].contains(&path)
}

/// What the OS's links make of a path, and the link that does.
fn real(path: &str) -> (String, Option<(&'static str, &'static str)>) {
    for (link, target) in LINKS {
        if let Some(rest) = path.strip_prefix(link)
            && rest.starts_with('/')
        {
            return (format!("{target}{rest}"), Some((link, target)));
        }
    }
    (path.to_owned(), None)
}

/// Where a file of a configuration is in the OS image; none of one that is no part of it.
pub fn in_image(path: &str) -> Option<String> {
    belongs_to_image(path).then(|| real(path).0)
}

/// Whether a file of a configuration is part of the OS image: below `/usr` but not `/usr/local`, or
/// below a link to it.
///
/// Shape: `path` is absolute and clean. What only OSTree writes (`/usr/etc`) is no file of a
/// configuration, nor is a directory itself.
/// Source: `docs/reference/daemon.md`, "Image mode".
pub fn belongs_to_image(path: &str) -> bool {
    const BESIDE: [&str; 2] = ["/usr/local", "/usr/etc"];
    let (real, _) = real(path);
    real.starts_with("/usr/")
        && !BESIDE.iter().any(|beside| is_within(&real, beside))
        && !CLOSED.iter().any(|(directory, _)| *directory == path)
        && own(&real).is_none()
}

/// The unit of Slipway that a path is a part of.
fn own(path: &str) -> Option<String> {
    let own = OWN_UNITS
        .iter()
        .flat_map(|unit| [UNITS, UNITS_OF_OS].map(|directory| format!("{directory}/{unit}")));
    own.flat_map(|file| [format!("{file}.d"), file])
        .find(|own| is_within(path, own))
}

/// Why nothing may be written at a path, or at what the OS's links make of it.
pub(crate) fn why_not_writable(path: &str) -> Option<String> {
    let by_name = why_not_writable_as_named(path);
    let (real, link) = real(path);
    by_name.or_else(|| {
        let (link, target) = link?;
        let why = why_not_writable_as_named(&real)?;
        Some(format!("{link} leads to {target}: {why}"))
    })
}

fn why_not_writable_as_named(path: &str) -> Option<String> {
    if let Some(own) = own(path) {
        return Some(format!("{own} belongs to Slipway"));
    }
    let longest = |directories: &mut dyn Iterator<Item = &'static str>| {
        directories
            .filter(|directory| is_within(path, directory))
            .max_by_key(|found| found.len())
    };
    let open = longest(&mut WRITABLE.into_iter()).map_or(0, str::len);
    let closed = CLOSED
        .iter()
        .filter(|(directory, _)| is_within(path, directory));
    match closed.max_by_key(|(directory, _)| directory.len()) {
        Some((directory, why)) if directory.len() > open => Some(format!("{directory} {why}")),
        _ if WRITABLE.contains(&path) => Some("it is a directory".to_owned()),
        _ if open == 0 => Some(
            "only /etc, /var, /usr/local, /opt, /srv, /home, /root and /mnt can be written"
                .to_owned(),
        ),
        _ => None,
    }
}

fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path is that of a drop-in that orders a unit after the guard.
fn is_dropin(path: &str) -> bool {
    path.strip_prefix(UNITS)
        .and_then(|rest| rest.rsplit_once(".d/"))
        .is_some_and(|(_, name)| name == GUARD_DROPIN)
}

/// Why the files of a configuration, or units that are not its own, cannot be on any host.
///
/// Shape: `has_image` says that the target has a built image, which brings the files that belong to
/// it.
pub(crate) fn rejections(desired: &Desired, has_image: bool) -> Vec<Rejection> {
    let files = &desired.files;
    let mut rejections = Vec::new();
    let mut paths: BTreeMap<String, &str> = BTreeMap::new();
    for DesiredFile { path, subject, .. } in files {
        let first = *paths.entry(real(path).0).or_insert(path);
        if first != path {
            let why = format!("cannot write {path}: it is {first}, a file of this configuration");
            rejections.push(Rejection::new(*subject, why));
        }
    }
    let requested = files.iter().filter(|file| !file.is_own);
    for DesiredFile { path, subject, .. } in requested {
        let is_built_in = has_image && belongs_to_image(path);
        // The force file is rejected by a rule of its own.
        let why = why_not_writable(path).filter(|_| path != FORCE_FILE && !is_built_in);
        let why = why.or_else(|| is_dropin(path).then(|| format!("{path} belongs to Slipway")));
        if let Some(why) = why {
            rejections.push(Rejection::new(
                *subject,
                format!("cannot write {path}: {why}"),
            ));
        }
        let (real, _) = real(path);
        let mut above = real.as_str();
        while let Some((directory, _)) = above.rsplit_once('/') {
            if let Some(parent) = paths.get(directory) {
                let why = format!("cannot write {path}: {parent} is a file of this configuration");
                rejections.push(Rejection::new(*subject, why));
            }
            above = directory;
        }
    }
    for DesiredUnit { name, subject, .. } in &desired.units {
        if OWN_UNITS.contains(&name.as_str()) {
            let why = format!("{name} belongs to Slipway");
            rejections.push(Rejection::of_member(*subject, Member::Name, why));
        }
    }
    for unit in desired.units.iter().filter(|unit| unit.is_masked()) {
        if paths.contains_key(unit.path.as_str()) {
            let why = format!(
                "cannot mask {}: {} is a file of this configuration",
                unit.name, unit.path
            );
            rejections.push(Rejection::of_member(unit.subject, Member::Mask, why));
        }
    }
    rejections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_deployment_keeps_can_be_written_and_nothing_else() {
        for path in [
            "/etc/x",
            "/etc/machine-config-daemon/no-reboot/containers-gpg.pub",
            "/var/lib/x/y",
            "/usr/local/bin/x",
            "/opt/x",
            "/root/.bashrc",
            "/home/core/x",
            "/var/home/core/x",
            "/var/running/x",
        ] {
            assert_eq!(why_not_writable(path), None, "{path}");
        }
        for (path, why) in [
            (
                "/usr/bin/x",
                "/usr is read-only: it is part of the OS image; a MachineOSConfig builds it into the \
                 pool's image",
            ),
            (
                "/usr/localx",
                "/usr is read-only: it is part of the OS image; a MachineOSConfig builds it into the \
                 pool's image",
            ),
            (
                "/lib/x",
                "/lib is read-only: it is part of the OS image; a MachineOSConfig builds it into the \
                 pool's image",
            ),
            ("/usr/etc/x", "/usr/etc belongs to OSTree"),
            (
                "/usr/lib/systemd/system/slipway-guard.service",
                "/usr/lib/systemd/system/slipway-guard.service belongs to Slipway",
            ),
            ("/boot/x", "/boot belongs to the boot loader"),
            (
                "/etc/systemd/system/slipway-verify.service.d/x.conf",
                "/etc/systemd/system/slipway-verify.service.d belongs to Slipway",
            ),
            ("/sysroot/x", "/sysroot belongs to OSTree"),
            ("/run/x", "/run is emptied at each boot"),
            (
                "/var/run/x.conf",
                "/var/run leads to /run: /run is emptied at each boot",
            ),
            (
                "/var/lock/x.conf",
                "/var/lock leads to /run/lock: /run is emptied at each boot",
            ),
            ("/proc/sys/x", "/proc is made by the kernel"),
            (
                "/var/lib/slipway/journal.json",
                "/var/lib/slipway belongs to Slipway",
            ),
            (
                "/etc/machine-config-daemon/currentconfig",
                "/etc/machine-config-daemon/currentconfig belongs to Slipway",
            ),
            ("/etc", "it is a directory"),
            (
                "/x",
                "only /etc, /var, /usr/local, /opt, /srv, /home, /root and /mnt can be written",
            ),
        ] {
            assert_eq!(why_not_writable(path).as_deref(), Some(why), "{path}");
        }
    }

    #[test]
    fn what_an_image_brings_is_below_usr_or_a_link_to_it() {
        for (path, belongs) in [
            ("/usr/bin/x", true),
            ("/usr/lib/systemd/system/x.service.d/1.conf", true),
            ("/usr/localx", true),
            ("/bin/x", true),
            ("/sbin/x", true),
            ("/lib/modules-load.d/x.conf", true),
            ("/lib64/x.so", true),
            ("/usr/local/bin/x", false),
            ("/usr/etc/x", false),
            (
                "/usr/lib/systemd/system/slipway-guard.service.d/x.conf",
                false,
            ),
            ("/lib/systemd/system/slipway-guard.service.d/x.conf", false),
            ("/etc/x", false),
            ("/var/x", false),
            ("/opt/x", false),
            ("/boot/x", false),
            ("/library/x", false),
            ("/usr", false),
            ("/lib64", false),
            ("/usr/local", false),
        ] {
            assert_eq!(belongs_to_image(path), belongs, "{path}");
            // Nothing that an image brings is written on a host.
            assert!(!belongs || why_not_writable(path).is_some(), "{path}");
        }
    }

    #[test]
    fn what_rotates_is_written_once_kept_and_not_compared() {
        assert!(is_written_once(KUBELET_CA) && is_never_released(KUBELET_CA));
        assert!(is_never_verified(KUBELET_CA));
        assert!(is_never_released("/etc/docker/certs.d/a:5000/ca.crt"));
        assert!(!is_never_released("/etc/docker/certs.dx"));
        assert!(!is_never_verified(USER_CA) && is_never_verified(REGISTRY_SECRET));
    }
}
