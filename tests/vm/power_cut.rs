//! The power is cut at ten points of an update; afterwards the machine is what it was, or the
//! target.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab::host::entries;
use lab::vm::MACHINE_BOOTED_WITHIN;
use machineconfig::spec::NodeConfig;
use node_update::plan::Bundle;
use serde_json::json;
use testbed::config::{Config, File};
use testbed::single_host;

use super::configs::{self, SHADOWED};
use super::machine::{Machine, Snapshot, differences, first_os, second_os};

/// Says whether a deployment was made, up to a path in it; whether an object of an image was stored
/// that is not yet part of the repository; and where the boot loader's entries were before.
const MADE: &str = r#"loader=/boot/$(cat /run/loader)
made() {
    for made in /ostree/deploy/slipway/deploy/*.[0-9]; do
        grep -qxF "$made" /run/known || [ ! -e "$made/$1" ] || return 0
    done
    return 1
}
fetches() {
    set -- /ostree/repo/tmp/staging-*/*/*
    [ -e "$1" ]
}"#;

/// Where the journal is, and deployments.
const JOURNAL: &str = "/var/lib/slipway/journal.json";
const DEPLOYMENTS: &str = "/ostree/deploy/slipway/deploy";

/// A file that only the second end has.
const ONLY_SECOND: &str = "/etc/managed/second";

/// One end of the updates: a configuration, and the OS that it names.
struct End {
    config: NodeConfig,
    image: String,
    version: &'static str,
}

/// What may be found after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    Old,
    New,
    /// What the boot entries on the disk name.
    Named,
}

/// Where an update is cut.
enum Point {
    /// While a verb of it runs; its plan is `PLAN`, its image `IMAGE`.
    During { verb: &'static str, when: String },
    /// While it goes down for its reboot.
    GoingDown,
    /// As soon as the boot loader has started the target's kernel.
    Kernel,
    /// In the target, before it is proved.
    Booted,
}

struct Updates {
    machine: Machine,
    ends: [End; 2],
    /// Index of the end that the machine is in.
    at: usize,
    /// What the machine is at an end, as it was when it first came there.
    snapshots: BTreeMap<usize, Snapshot>,
    attempts: u32,
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_power_cut_at_ten_points_of_an_update_leaves_the_old_state_or_the_target() {
    let mut updates = Updates::new();
    let during = |verb, when: String| Point::During { verb, when };
    let stage = |name: &str| format!("grep -q '\"stage\":[ ]*\"{name}\"' {JOURNAL} 2>/dev/null");
    let points = [
        (
            "the image is being fetched",
            during("fetch IMAGE", "fetches".to_owned()),
            May::Old,
        ),
        (
            "the rehearsal has its deployment",
            during("rehearse PLAN", "made usr/etc".to_owned()),
            May::Old,
        ),
        (
            "the intent is written",
            during("apply PLAN", stage("applying")),
            May::Old,
        ),
        (
            "the deployment is being made",
            during("apply PLAN", "made usr".to_owned()),
            May::Old,
        ),
        (
            "the configuration is being written",
            during("apply PLAN", format!("made {ONLY_SECOND}")),
            May::Old,
        ),
        (
            "the deployment is complete",
            during("apply PLAN", stage("switching")),
            May::Named,
        ),
        (
            "the boot loader names the target",
            during(
                "apply PLAN",
                // Without a program of its own, which would take longer than what is looked for.
                "! [ /boot/loader -ef \"$loader\" ]".to_owned(),
            ),
            // On the running system; libostree brings it to the disk right after.
            May::Named,
        ),
        ("the machine goes down", Point::GoingDown, May::New),
        ("the target's kernel starts", Point::Kernel, May::New),
        ("the target is booted", Point::Booted, May::New),
    ];
    let mut report = Vec::new();
    for (name, point, may) in points {
        let is = updates.cut_at(name, &point, may);
        report.push(format!("{name}: {is:?}"));
    }
    // To the other end and back: what an end is after a cut, it is without one.
    for _ in 0..2 {
        updates.go();
    }
    println!(
        "power cut at {} points:\n  {}",
        report.len(),
        report.join("\n  ")
    );
}

impl Updates {
    /// A machine that was once updated without trouble.
    fn new() -> Self {
        let machine = Machine::new().unwrap();
        let first_image = machine.push(&first_os()).unwrap();
        let second_image = machine.push(&second_os()).unwrap();
        // What a way back brings back to the byte: no keys, whose file stays, and no password.
        let (script, units) = configs::early("first");
        let first = Config::new()
            .os(&first_image)
            .files([
                script,
                File::new("/etc/managed/secret", "of the first"),
                File::new(SHADOWED, "of the first").mode(0o600),
                File::new("/var/lib/managed/data", "of the first").mode(0o600),
            ])
            .units(units);
        let (script, units) = configs::early("second");
        let files = [
            script,
            File::new("/etc/managed/secret", "of the second")
                .mode(0o600)
                .owner("chrony"),
            File::new(ONLY_SECOND, "of the second").mode(0o640),
            File::new("/var/lib/managed/data", "of the second"),
        ];
        let second = Config::new()
            .os(&second_image)
            .argument("slipway.test=1")
            .files(files)
            .units(units)
            .units([configs::own_service()]);
        let ends = [
            End {
                config: first.rendered("rendered-first").unwrap(),
                image: first_image,
                version: "first",
            },
            End {
                config: second.rendered("rendered-second").unwrap(),
                image: second_image,
                version: "second",
            },
        ];
        let mut updates = Self {
            machine,
            ends,
            at: 0,
            snapshots: BTreeMap::new(),
            attempts: 0,
        };
        let none = configs::none().unwrap();
        let to = &updates.ends[0];
        let bundle = configs::plan("a0", &none, &to.config).unwrap();
        updates.machine.switch(&bundle, &to.image).unwrap();
        updates.machine.vm.reboot().unwrap();
        updates.check("the update without trouble");
        updates
    }

    /// Updates to the other end without trouble.
    fn go(&mut self) {
        let bundle = self.next();
        self.at = 1 - self.at;
        let image = &self.ends[self.at].image;
        self.machine.switch(&bundle, image).unwrap();
        self.machine.vm.reboot().unwrap();
        self.check("another update without trouble");
    }

    /// Begins an update, cuts it, and says where the machine is then.
    fn cut_at(&mut self, name: &str, point: &Point, may: May) -> May {
        eprintln!("cut where {name}");
        let bundle = self.next();
        let to = 1 - self.at;
        let image = self.ends[to].image.clone();
        let machine = &mut self.machine;
        let directory = machine.put(&bundle).unwrap();
        machine
            .vm
            .shell(&format!(
                "readlink /boot/loader >/run/loader; ls -d {DEPLOYMENTS}/*.[0-9] >/run/known"
            ))
            .unwrap();
        if let Point::During { verb, when } = point {
            if !verb.contains("IMAGE") {
                machine
                    .vm
                    .shell(&format!("{} fetch {image}", single_host::MCD_OS))
                    .unwrap();
            }
            let verb = verb.replace("IMAGE", &image).replace("PLAN", &directory);
            machine.freeze(MADE, &verb, when).unwrap();
        } else {
            machine.switch(&bundle, &image).unwrap();
            go_down(machine, point);
        }
        machine.vm.cut_power();
        let named = machine.vm.with_sysroot(|sysroot| {
            let first = entries(sysroot)?.swap_remove(0);
            let release = first.deployment(sysroot)?.join("usr/lib/os-release");
            Ok(std::fs::read_to_string(release)?)
        });
        let version = format!("OSTREE_VERSION='{}'", self.ends[to].version);
        let is = if named.unwrap().contains(&version) {
            May::New
        } else {
            May::Old
        };
        assert!(
            may == May::Named || may == is,
            "{name}: it boots the {is:?}"
        );
        self.machine.vm.start().unwrap();
        if is == May::New {
            self.at = to;
        }
        self.check(name);
        is
    }

    /// The plan of an update to the other end.
    fn next(&mut self) -> Bundle {
        self.attempts += 1;
        let attempt = format!("a{}", self.attempts);
        configs::plan(
            &attempt,
            &self.ends[self.at].config,
            &self.ends[1 - self.at].config,
        )
        .unwrap()
    }

    /// The machine comes to rest where it should be, is that by its bytes, and says so.
    fn check(&mut self, name: &str) {
        let end = &self.ends[self.at];
        self.machine.journal_under_way().unwrap();
        let is = self.machine.snapshot().unwrap();
        assert!(is.contains(end.version), "{name}: {is:?}");
        let snapshots = self.snapshots.entry(self.at).or_insert_with(|| is.clone());
        assert_eq!(differences(&is, snapshots), [""; 0], "{name}");
        let view = self.machine.view().unwrap();
        assert_eq!(
            view["booted"]["config"],
            json!(end.config.name),
            "{name}: {view}"
        );
        assert_eq!(view["held"], json!(null), "{name}: {view}");
        assert_eq!(view["next"], json!(null), "{name}: {view}");
        // Every unit of this boot ran the script of this end.
        let started = self.machine.vm.shell(&configs::early_in_this_boot());
        assert_eq!(started.unwrap(), configs::all_early(end.version), "{name}");
        // By the configuration itself: files, modes, owners, units, arguments.
        self.machine
            .vm
            .shell(&format!("{} verify", single_host::MCD_OS))
            .unwrap();
        let counting = self
            .machine
            .vm
            .shell("grep -c boot_counter /boot/grub2/grubenv || true");
        assert_eq!(counting.unwrap(), "0", "{name}");
    }
}

/// Goes on from the switch to a point of the reboot.
fn go_down(machine: &mut Machine, point: &Point) {
    let before = machine.vm.console().unwrap().matches("lab: boots").count();
    let until = Instant::now() + MACHINE_BOOTED_WITHIN;
    // The agent goes down with the machine, so that nothing may come back.
    drop(machine.vm.shell("systemctl reboot"));
    let is_there = |machine: &mut Machine| match point {
        Point::GoingDown | Point::During { .. } => machine.vm.shell("true").is_err(),
        Point::Kernel => machine.vm.console().unwrap().matches("lab: boots").count() > before,
        Point::Booted => {
            let booted = format!("grep -q '\"stage\":[ ]*\"booted\"' {JOURNAL}");
            machine.vm.shell(&booted).is_ok()
        }
    };
    while !is_there(machine) {
        assert!(Instant::now() < until, "the machine does not go down");
        std::thread::sleep(Duration::from_millis(50));
    }
}
