//! Extensions and kernels are packages of the OS: a deployment has them or lacks them.
//!
//! Source: `docs/reference/daemon.md`, "Rejected changes".

use machineconfig::spec::{KernelType, Spec};

use crate::rejection::{Rejection, Section, Subject};

/// The way to what an OS image lacks.
const WAY: &str = "a MachineOSConfig builds them into the pool's image";

/// The OS that a host has after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextSystem {
    /// An image that was built for the configuration, with its packages.
    Built,
    /// Another image, as its vendor made it.
    Another,
    /// What is booted, with the packages that it has.
    Booted,
}

/// Packages that the host would lack, or could not get rid of.
pub(crate) fn rejections(old: &Spec, new: &Spec, next: NextSystem) -> Vec<Rejection> {
    let (before, after) = (&old.kernel_type, &new.kernel_type);
    let is_default = *after == KernelType::Default;
    let kernel = why(
        next,
        (before == after, is_default),
        &format!("kernelType {before}"),
        &format!("kernelType {after}"),
    );
    let names = |spec: &Spec| format!("extensions [{}]", spec.extensions.join(" "));
    let has_same = sorted(old) == sorted(new);
    let has_none = new.extensions.is_empty();
    let extensions = why(next, (has_same, has_none), &names(old), &names(new));
    let of = |section: Section, why: Option<String>| {
        why.map(|why| Rejection::new(Subject::Section(section), why))
    };
    let both = [
        of(Section::KernelType, kernel),
        of(Section::Extensions, extensions),
    ];
    both.into_iter().flatten().collect()
}

/// The same between configurations of a pool, before a host is known. A host may have a built image
/// from before, so that packages which are no longer wanted are for the host to judge.
pub(crate) fn rejections_of_pool(old: &Spec, new: &Spec, has_image: bool) -> Vec<Rejection> {
    let wants_none = new.kernel_type == KernelType::Default && new.extensions.is_empty();
    let next = if has_image {
        NextSystem::Built
    } else if wants_none || old.os_image_url != new.os_image_url {
        NextSystem::Another
    } else {
        NextSystem::Booted
    };
    rejections(old, new, next)
}

/// Why the next system cannot be without what it has, or with what it lacks.
fn why(
    next: NextSystem,
    (is_same, is_nothing): (bool, bool),
    before: &str,
    after: &str,
) -> Option<String> {
    match next {
        NextSystem::Built => None,
        NextSystem::Another => {
            (!is_nothing).then(|| format!("the OS image has no packages of {after}; {WAY}"))
        }
        NextSystem::Booted => (!is_same).then(|| {
            format!("going from {before} to {after} changes packages of the booted OS; {WAY}")
        }),
    }
}

/// The extensions, each once: their order says nothing.
fn sorted(spec: &Spec) -> std::collections::BTreeSet<&String> {
    spec.extensions.iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(kernel: &str, extensions: &[&str]) -> Spec {
        let spec = json!({ "kernelType": kernel, "extensions": extensions });
        Spec::parse(&spec).unwrap().0
    }

    #[test]
    fn packages_come_with_a_built_image_or_stay_with_the_booted_system() {
        use NextSystem::{Another, Booted, Built};
        let none = || spec("", &[]);
        let with = || spec("realtime", &["usbguard", "ipsec"]);
        let reordered = || spec("realtime", &["ipsec", "usbguard", "ipsec"]);
        let lacks = [
            "spec.kernelType: the OS image has no packages of kernelType realtime; a MachineOSConfig builds them into the pool's image",
            "spec.extensions: the OS image has no packages of extensions [usbguard ipsec]; a MachineOSConfig builds them into the pool's image",
        ];
        let gains = [
            "spec.kernelType: going from kernelType default to kernelType realtime changes packages of the booted OS; a MachineOSConfig builds them into the pool's image",
            "spec.extensions: going from extensions [] to extensions [usbguard ipsec] changes packages of the booted OS; a MachineOSConfig builds them into the pool's image",
        ];
        let loses = [
            "spec.kernelType: going from kernelType realtime to kernelType default changes packages of the booted OS; a MachineOSConfig builds them into the pool's image",
            "spec.extensions: going from extensions [usbguard ipsec] to extensions [] changes packages of the booted OS; a MachineOSConfig builds them into the pool's image",
        ];
        let nothing: [&str; 0] = [];
        let table: [(Spec, Spec, NextSystem, &[&str]); 11] = [
            (none(), none(), Built, &nothing),
            (none(), with(), Built, &nothing),
            (with(), none(), Built, &nothing),
            (none(), none(), Another, &nothing),
            (with(), none(), Another, &nothing),
            (none(), with(), Another, &lacks),
            (with(), with(), Another, &lacks),
            (none(), none(), Booted, &nothing),
            (with(), reordered(), Booted, &nothing),
            (none(), with(), Booted, &gains),
            (with(), none(), Booted, &loses),
        ];
        for (old, new, next, expected) in table {
            let found = rejections(&old, &new, next);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{next:?}");
        }
    }

    #[test]
    fn pool_is_refused_what_each_of_its_hosts_would_be() {
        let of_image = |image: &str, extensions: &[&str]| Spec {
            os_image_url: image.to_owned(),
            ..spec("", extensions)
        };
        let guarded = |image: &str| of_image(image, &["usbguard"]);
        let plain = |image: &str| of_image(image, &[]);
        let table = [
            (plain("1"), guarded("1"), true, 0),
            (plain("1"), guarded("1"), false, 1),
            (guarded("1"), guarded("1"), false, 0),
            (guarded("1"), guarded("2"), false, 1),
            // Its hosts may have it from a built image.
            (guarded("1"), plain("1"), false, 0),
            (guarded("1"), plain("2"), false, 0),
        ];
        for (old, new, has_image, expected) in table {
            let found = rejections_of_pool(&old, &new, has_image);
            assert_eq!(found.len(), expected, "{old:?} {new:?} {has_image}");
        }
    }
}
