use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use node_update::plan::AttributeName;
use serde_json::json;

use super::*;
use crate::journal::{DeploymentId, SCHEMA};

/// Two deployments, the second made from the first, and opened.
struct Hosts {
    dir: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        let hosts = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for side in ["left", "booted"] {
            for path in [
                "etc/kept",
                "etc/deep/gone",
                "etc/deep/er/gone",
                "usr/etc/shipped",
            ] {
                hosts.put(side, path, "early");
            }
            hosts.put(side, "etc/shipped", "early");
            hosts.put(
                side,
                "etc/passwd",
                "root:x:0:0::/root:\ncore:x:1000:1000::/home:\n",
            );
            fs::create_dir_all(hosts.path(side, "var/lib")).unwrap();
        }
        hosts
    }

    fn path(&self, side: &str, path: &str) -> std::path::PathBuf {
        self.dir.path().join(side).join(path)
    }

    fn put(&self, side: &str, path: &str, text: &str) {
        let path = self.path(side, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::create(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn root(&self, side: &str) -> Root {
        Root::open(&self.dir.path().join(side), None).unwrap()
    }

    fn carry(&self) -> CarriedOver {
        carry(
            &self.root("left"),
            &self.root("booted"),
            &switch(LeftBehind::default()),
        )
        .unwrap()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path("booted", path)).unwrap()
    }

    fn has(&self, path: &str) -> bool {
        self.path("booted", path).symlink_metadata().is_ok()
    }

    /// What others do in the deployment that is left.
    fn change(&self) {
        self.put("left", "etc/pki/late.crt", "certificate");
        let late = self.path("left", "etc/pki/late.crt");
        fs::set_permissions(&late, fs::Permissions::from_mode(0o2640)).unwrap();
        chown(&late, Some(12), Some(34)).unwrap();
        fs::set_permissions(
            self.path("left", "etc/pki"),
            fs::Permissions::from_mode(0o711),
        )
        .unwrap();
        fs::hard_link(&late, self.path("left", "etc/pki/same.crt")).unwrap();
        symlink("late.crt", self.path("left", "etc/pki/link.crt")).unwrap();
        self.put("left", "etc/shipped", "edited");
        fs::remove_file(self.path("left", "etc/deep/gone")).unwrap();
        fs::remove_dir_all(self.path("left", "etc/deep/er")).unwrap();
        let passwd = "root:x:0:0::/root:\ncore:x:1000:1000::/home:\nlate:x:7:7::/:\n";
        self.put("left", "etc/passwd", passwd);
    }

    fn manage(&self, side: &str, text: &str) {
        let file =
            json!({ "path": "/etc/managed", "contents": { "source": format!("data:,{text}") } });
        let config = json!({
            "metadata": { "name": "rendered" },
            "spec": { "config": {
                "ignition": { "version": "3.4.0" }, "storage": { "files": [file] },
            } },
        });
        self.put(
            side,
            "etc/machine-config-daemon/currentconfig",
            &config.to_string(),
        );
        self.put(side, "etc/managed", text);
    }
}

fn switch(left_behind: LeftBehind) -> Switch {
    let id = |name: &str| DeploymentId {
        checksum: name.to_owned(),
        serial: 0,
    };
    Switch {
        schema: SCHEMA,
        left: id("left"),
        to: id("booted"),
        since: Timestamp::MIN,
        left_behind,
    }
}

fn whole_side(root: &Root) -> Side {
    side(root, Timestamp::MIN).unwrap()
}

fn set_attribute(path: &Path, value: &str) {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "user.late", value.as_bytes(), flags).unwrap();
}

#[test]
fn changes_are_carried_over_whole() {
    let hosts = Hosts::new();
    hosts.change();
    set_attribute(&hosts.path("left", "etc/pki/late.crt"), "kept");
    let carried = hosts.carry();
    let written = [
        "/etc/pki",
        "/etc/pki/late.crt",
        "/etc/pki/link.crt",
        "/etc/pki/same.crt",
    ];
    let written = [&written[..], &["/etc/shipped", "/etc/passwd"]].concat();
    assert_eq!(carried.written, written);
    let removed = ["/etc/deep/gone", "/etc/deep/er/gone", "/etc/deep/er"];
    assert_eq!(carried.removed, removed);
    assert_eq!(carried.conflicts, []);

    let stat = fs::metadata(hosts.path("booted", "etc/pki/late.crt")).unwrap();
    assert_eq!(
        (stat.mode() & 0o7777, stat.uid(), stat.gid()),
        (0o2640, 12, 34)
    );
    let same = fs::metadata(hosts.path("booted", "etc/pki/same.crt")).unwrap();
    assert_eq!(same.ino(), stat.ino());
    let attributes = hosts.root("booted");
    let at = attributes.locate("/etc/pki/late.crt").unwrap();
    assert!(
        attributes
            .attributes(&at)
            .unwrap()
            .contains_key(&AttributeName::new(b"user.late".to_vec()))
    );
    let directory = fs::metadata(hosts.path("booted", "etc/pki")).unwrap();
    assert_eq!(directory.mode() & 0o7777, 0o711);
    let link = fs::read_link(hosts.path("booted", "etc/pki/link.crt")).unwrap();
    assert_eq!(link, Path::new("late.crt"));
    assert_eq!(hosts.read("etc/pki/same.crt"), "certificate");
    assert_eq!(hosts.read("etc/shipped"), "edited");
    assert!(hosts.read("etc/passwd").ends_with("late:x:7:7::/:\n"));
    assert!(!hosts.has("etc/deep/er") && hosts.has("etc/kept"));
    assert_eq!(
        hosts.carry(),
        CarriedOver::default(),
        "nothing is left to do"
    );
}

#[test]
fn a_carry_that_was_stopped_is_begun_again() {
    let whole = Hosts::new();
    whole.change();
    let of = whole.carry();
    let count = of.written.len() + of.removed.len();
    for stop in 0..count {
        let hosts = Hosts::new();
        hosts.change();
        let (left, booted) = (hosts.root("left"), hosts.root("booted"));
        let managed = Managed::default();
        let sides = (whole_side(&left), whole_side(&booted));
        let changes = plan(&sides.0, &sides.1, &managed, &LeftBehind::default()).changes;
        for change in changes.iter().take(stop) {
            apply(&left, &booted, change).unwrap();
        }
        // What a run that dies in the middle of a change leaves.
        if let Some(LateChange::Write { path } | LateChange::HardLink { path, .. }) =
            changes.get(stop)
        {
            let (directory, name) = path.rsplit_once('/').unwrap();
            let half = format!("{}/.{name}.slipway-new", directory.trim_start_matches('/'));
            if hosts.path("left", path.trim_start_matches('/')).is_dir() {
                fs::create_dir(hosts.path("booted", &half)).unwrap();
            } else {
                hosts.put("booted", &half, "half");
            }
        }
        hosts.carry();
        let is = |hosts: &Hosts| whole_side(&hosts.root("booted"));
        assert_eq!(is(&hosts).etc, is(&whole).etc, "stopped after {stop}");
        assert_eq!(hosts.read("etc/passwd"), whole.read("etc/passwd"));
    }
}

#[test]
fn a_managed_path_is_the_booted_configurations_and_the_edit_is_kept() {
    let hosts = Hosts::new();
    hosts.manage("left", "old");
    hosts.manage("booted", "new");
    assert_eq!(hosts.carry(), CarriedOver::default());
    hosts.put("left", "etc/managed", "edited");
    let carried = hosts.carry();
    assert_eq!(carried.written, [""; 0]);
    let why = "the configuration manages it";
    let conflict = ("/etc/managed".to_owned(), why.to_owned());
    assert_eq!(carried.conflicts, [conflict]);
    assert_eq!(hosts.read("etc/managed"), "new");
    assert_eq!(hosts.read("var/lib/slipway/late/etc/managed"), "edited");
    let mode = fs::metadata(hosts.path("booted", "var/lib/slipway/late"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn a_change_that_fails_keeps_no_other_from_being_carried_over() {
    let hosts = Hosts::new();
    hosts.put("left", "etc/a/late", "a");
    hosts.put("left", "etc/b", "b");
    // A directory in the place of a file.
    fs::create_dir_all(hosts.path("booted", "etc/b")).unwrap();
    let carried = hosts.carry();
    assert_eq!(carried.written, ["/etc/a", "/etc/a/late"]);
    let paths: Vec<&str> = carried
        .conflicts
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(paths, ["/etc/b"]);
    assert_eq!(hosts.read("var/lib/slipway/late/etc/b"), "b");
}

#[test]
fn what_was_not_carried_over_is_not_removed_on_the_way_back() {
    let hosts = Hosts::new();
    // The way there failed: late files of the booted deployment never came to the other.
    hosts.put("booted", "etc/late", "late");
    hosts.put(
        "booted",
        "etc/passwd",
        "root:x:0:0::/root:\ncore:x:1000:1000::/home:\nlate:x:7:7::/:\n",
    );
    hosts.put("left", "etc/since", "since");
    let switch_back = switch(LeftBehind::everything());
    let carried = carry(&hosts.root("left"), &hosts.root("booted"), &switch_back).unwrap();
    assert_eq!(carried.written, ["/etc/since"]);
    assert_eq!(carried.removed, [""; 0]);
    assert_eq!(hosts.read("etc/late"), "late");
    assert!(hosts.read("etc/passwd").contains("late:x:7:7"));
    assert_eq!(hosts.carry().removed, ["/etc/late"], "the test is in vain");
}

#[test]
fn nothing_is_changed_where_a_record_is_broken() {
    let hosts = Hosts::new();
    hosts.change();
    hosts.put("left", "etc/machine-config-daemon/currentconfig", "{");
    let error = carry(
        &hosts.root("left"),
        &hosts.root("booted"),
        &switch(LeftBehind::default()),
    )
    .unwrap_err();
    assert!(matches!(error, Error::Record(_)), "{error}");
    assert!(!hosts.has("etc/pki"));
}

#[test]
fn names_that_are_not_utf_8_keep_no_change_from_being_carried_over() {
    let hosts = Hosts::new();
    hosts.change();
    let late = hosts.path("left", "etc/pki/late.crt");
    let name: &[u8] = b"user.\xff";
    rustix::fs::setxattr(&late, name, b"1", rustix::fs::XattrFlags::empty()).unwrap();
    let odd = OsStr::from_bytes(b"etc/odd-\xff");
    fs::File::create(hosts.path("left", "").join(odd)).unwrap();
    let carried = hosts.carry();
    assert!(carried.written.contains(&"/etc/pki/late.crt".to_owned()));
    let booted = hosts.root("booted");
    let at = booted.locate("/etc/pki/late.crt").unwrap();
    let attributes = booted.attributes(&at).unwrap();
    assert!(attributes.contains_key(&AttributeName::new(name.to_vec())));
    // The other one is named.
    let why = "it is a device, socket or pipe, or its name is not UTF-8";
    let conflict = ("/etc/odd-\u{fffd}".to_owned(), why.to_owned());
    assert_eq!(carried.conflicts, [conflict]);
}
