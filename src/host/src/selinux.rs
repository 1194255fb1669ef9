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

/// Whether SELinux enforces a policy that lacks Slipway's module: then systemd may start neither
/// the helper nor the guard.
///
/// # Errors
/// The kernel does not say it.
pub fn lacks_module(root: &Path) -> io::Result<bool> {
    let at = root.join(SELINUX_FS);
    let enforces = match fs::read_to_string(at.join("enforce")) {
        Ok(text) => text.trim() == "1",
        // A kernel without SELinux, or without a policy.
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    let context = at.join("context");
    let is_valid = |label: &str| {
        let mut file = OpenOptions::new().write(true).open(&context)?;
        match file.write_all(format!("{label}\0").as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(error),
        }
    };
    Ok(enforces && lacks_own(is_valid)?)
}

/// Whether the policy knows other labels and not ours. A policy without levels takes them without
/// `:s0`.
fn lacks_own(is_valid: impl Fn(&str) -> io::Result<bool>) -> io::Result<bool> {
    for level in [":s0", ""] {
        if is_valid(&format!("{KNOWN}{level}"))? {
            return Ok(!is_valid(&format!("{OWN}{level}"))?);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(labels: &[&str]) -> bool {
        lacks_own(|label| Ok(labels.contains(&label))).unwrap()
    }

    #[test]
    fn a_policy_lacks_the_module_if_it_knows_other_labels_only() {
        let (known, own) = (format!("{KNOWN}:s0"), format!("{OWN}:s0"));
        assert!(lacks(&[&known]));
        assert!(!lacks(&[&known, &own]));
        // Without levels.
        assert!(lacks(&[KNOWN]));
        assert!(!lacks(&[KNOWN, OWN]));
        // Of a policy that has not even the other one, nothing is known.
        assert!(!lacks(&[]));
    }

    #[test]
    fn what_the_kernel_does_not_say_is_an_error() {
        let refused = || io::Error::from(ErrorKind::PermissionDenied);
        assert!(lacks_own(|_| Err(refused())).is_err());
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
        put("0");
        assert!(!lacks_module(root.path()).unwrap());
        put("1");
        assert!(lacks_module(root.path()).is_err(), "it cannot be asked");
    }
}
