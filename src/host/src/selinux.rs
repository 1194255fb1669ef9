//! Whether the kernel's policy has what Slipway adds to it.
//!
//! Source: the kernel's selinuxfs; libselinux, `security_check_context`.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// Below a root: the kernel's view of its policy.
const SELINUX_FS: &str = "sys/fs/selinux";

/// A label that every policy has, and one of the module `selinux/slipway.te`.
const KNOWN: &str = "system_u:object_r:var_lib_t";
const OWN: &str = "system_u:object_r:slipway_var_lib_t";

/// Whether the kernel enforces a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// The kernel has no SELinux, or no policy.
    Off,
    /// What a policy denies is logged.
    Permissive,
    Enforcing,
}

/// Whether the kernel enforces a policy.
///
/// # Errors
/// The kernel does not say it.
pub fn enforcement(root: &Path) -> io::Result<Enforcement> {
    match fs::read_to_string(root.join(SELINUX_FS).join("enforce")) {
        Ok(text) if text.trim() == "1" => Ok(Enforcement::Enforcing),
        Ok(_) => Ok(Enforcement::Permissive),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Enforcement::Off),
        Err(error) => Err(error),
    }
}

/// Whether SELinux enforces a policy that lacks Slipway's module: then systemd may start neither
/// the helper nor the guard.
///
/// # Errors
/// The kernel does not say it.
pub fn lacks_module(root: &Path) -> io::Result<bool> {
    Ok(enforcement(root)? == Enforcement::Enforcing && has_module(root)? == Some(false))
}

/// Whether the kernel's policy has Slipway's module; `None` if it has not even a label that every
/// policy has.
///
/// # Errors
/// The kernel does not say it, as without a policy.
pub fn has_module(root: &Path) -> io::Result<Option<bool>> {
    let context = root.join(SELINUX_FS).join("context");
    let is_valid = |label: &str| {
        let mut file = OpenOptions::new().write(true).open(&context)?;
        match file.write_all(format!("{label}\0").as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(error),
        }
    };
    has_own(is_valid)
}

/// Whether the policy has our label beside another one. A policy without levels takes them without
/// `:s0`.
fn has_own(is_valid: impl Fn(&str) -> io::Result<bool>) -> io::Result<Option<bool>> {
    for level in [":s0", ""] {
        if is_valid(&format!("{KNOWN}{level}"))? {
            return is_valid(&format!("{OWN}{level}")).map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(labels: &[&str]) -> Option<bool> {
        has_own(|label| Ok(labels.contains(&label))).unwrap()
    }

    #[test]
    fn a_policy_lacks_the_module_if_it_knows_other_labels_only() {
        let (known, own) = (format!("{KNOWN}:s0"), format!("{OWN}:s0"));
        assert_eq!(has(&[&known]), Some(false));
        assert_eq!(has(&[&known, &own]), Some(true));
        // Without levels.
        assert_eq!(has(&[KNOWN]), Some(false));
        assert_eq!(has(&[KNOWN, OWN]), Some(true));
        // Of a policy that has not even the other one, nothing is known.
        assert_eq!(has(&[]), None);
    }

    #[test]
    fn what_the_kernel_does_not_say_is_an_error() {
        let refused = || io::Error::from(ErrorKind::PermissionDenied);
        assert!(has_own(|_| Err(refused())).is_err());
    }

    #[test]
    fn a_host_that_does_not_enforce_lacks_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert!(!lacks_module(root.path()).unwrap());
        let at = root.path().join(SELINUX_FS);
        fs::create_dir_all(&at).unwrap();
        let put = |text: &str| {
            let mut file = fs::File::create(at.join("enforce")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        assert_eq!(enforcement(root.path()).unwrap(), Enforcement::Off);
        put("0");
        assert!(!lacks_module(root.path()).unwrap());
        assert_eq!(enforcement(root.path()).unwrap(), Enforcement::Permissive);
        put("1");
        assert_eq!(enforcement(root.path()).unwrap(), Enforcement::Enforcing);
        assert!(lacks_module(root.path()).is_err(), "it cannot be asked");
    }
}
