use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use node_update::plan::{Digest, Mode, OwnerIds, Prior};
use proptest::prelude::*;

use super::*;

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fs::write(path, bytes).unwrap();
}

/// An OS as a deployment shows it: `home` leads to `var`, which is elsewhere.
fn deployment() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let (tree, var) = (dir.path().join("tree"), dir.path().join("var"));
    put(&tree, "usr/etc/shipped.conf", b"shipped");
    put(&tree, "etc/shipped.conf", b"shipped");
    fs::create_dir_all(tree.join("var")).unwrap();
    fs::create_dir_all(var.join("home")).unwrap();
    symlink("var/home", tree.join("home")).unwrap();
    let root = Root::open(&tree, Some(&var)).unwrap();
    (dir, root)
}

fn content(bytes: &[u8], mode: u32) -> Content<'_> {
    Content {
        bytes,
        mode: Mode(mode),
        owner: OwnerIds::ROOT,
    }
}

/// Every path below a directory with what it holds.
fn snapshot(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let what = if stat.is_dir() {
                pending.push(path.clone());
                "directory".to_owned()
            } else if stat.is_symlink() {
                format!("link {:?}", fs::read_link(&path).unwrap())
            } else {
                format!("file {:?}", fs::read(&path).unwrap())
            };
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            found.insert(
                name,
                format!("{what} {:o} {}:{}", stat.mode(), stat.uid(), stat.gid()),
            );
        }
    }
    found
}

#[test]
fn a_file_below_home_goes_to_the_state_root() {
    let (dir, root) = deployment();
    let at = root.locate("/home/core/.profile").unwrap();
    assert_eq!(
        (at.as_str(), at.scope()),
        ("/var/home/core/.profile", PathScope::Shared)
    );
    root.replace(&at, content(b"x", 0o600)).unwrap();
    assert_eq!(
        fs::read(dir.path().join("var/home/core/.profile")).unwrap(),
        b"x"
    );
    assert!(!dir.path().join("tree/var/home").exists());
}

#[test]
fn a_link_that_leads_out_is_resolved_below_the_root() {
    let (dir, root) = deployment();
    symlink(
        "../../../../../../../../tmp",
        dir.path().join("tree/etc/out"),
    )
    .unwrap();
    let at = root.locate("/etc/out/slipway-test").unwrap();
    assert_eq!(at.as_str(), "/tmp/slipway-test");
    root.replace(&at, content(b"x", 0o644)).unwrap();
    assert!(dir.path().join("tree/tmp/slipway-test").exists());
    assert!(!Path::new("/tmp/slipway-test").exists());
}

#[test]
fn a_link_that_turns_up_after_the_path_was_resolved_is_not_followed() {
    let (dir, root) = deployment();
    let at = root.locate("/etc/late/file").unwrap();
    fs::create_dir_all(dir.path().join("elsewhere")).unwrap();
    symlink(
        dir.path().join("elsewhere"),
        dir.path().join("tree/etc/late"),
    )
    .unwrap();
    root.replace(&at, content(b"x", 0o644)).unwrap_err();
    assert!(
        fs::read_dir(dir.path().join("elsewhere"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn a_link_at_the_path_is_replaced_and_not_written_through() {
    let (dir, root) = deployment();
    symlink("shipped.conf", dir.path().join("tree/etc/link")).unwrap();
    let at = root.locate("/etc/link").unwrap();
    root.replace(&at, content(b"new", 0o640)).unwrap();
    assert_eq!(
        fs::read(dir.path().join("tree/etc/shipped.conf")).unwrap(),
        b"shipped"
    );
    assert_eq!(
        root.look(&at).unwrap(),
        Found::File {
            bytes: b"new".to_vec(),
            mode: Mode(0o640),
            owner: OwnerIds::ROOT,
        }
    );
}

#[test]
fn a_file_that_another_program_removes_meanwhile_is_found_or_not() {
    let (dir, root) = deployment();
    let at = root.locate("/etc/journal").unwrap();
    let path = dir.path().join("tree/etc/journal");
    let whole = dir.path().join("tree/etc/shipped.conf");
    let other = std::thread::spawn(move || {
        for _ in 0..10_000 {
            fs::hard_link(&whole, &path).unwrap();
            fs::remove_file(&path).unwrap();
        }
    });
    while !other.is_finished() {
        let found = root.look(&at).unwrap();
        let is_whole = matches!(&found, Found::File { bytes, .. } if bytes == b"shipped");
        assert!(is_whole || found == Found::Nothing, "{found:?}");
    }
    other.join().unwrap();
}

#[test]
fn a_second_replace_touches_nothing() {
    let (dir, root) = deployment();
    let at = root.locate("/etc/new/dir/file").unwrap();
    root.replace(&at, content(b"x", 0o4755)).unwrap();
    let path = dir.path().join("tree/etc/new/dir/file");
    let before = fs::metadata(&path).unwrap();
    assert_eq!(before.permissions().mode() & 0o7777, 0o4755);
    root.replace(&at, content(b"x", 0o4755)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino());
}

#[test]
fn what_a_killed_run_left_beside_a_file_is_gone_after_the_next() {
    let (dir, root) = deployment();
    put(dir.path(), "tree/etc/.shipped.conf.slipway-new", b"half");
    let at = root.locate("/etc/shipped.conf").unwrap();
    root.replace(&at, content(b"other", 0o644)).unwrap();
    assert!(
        !dir.path()
            .join("tree/etc/.shipped.conf.slipway-new")
            .exists()
    );
    put(dir.path(), "tree/etc/.shipped.conf.slipway-new", b"half");
    root.remove(&at).unwrap();
    assert!(
        !dir.path()
            .join("tree/etc/.shipped.conf.slipway-new")
            .exists()
    );
}

#[test]
fn a_name_of_the_longest_kind_can_be_replaced() {
    let (_dir, root) = deployment();
    let at = root.locate(&format!("/etc/{}", "n".repeat(255))).unwrap();
    root.replace(&at, content(b"x", 0o644)).unwrap();
    assert_eq!(
        root.list(&root.locate("/etc/x").unwrap().parent().unwrap())
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_released_file_is_the_shipped_one_again() {
    let (dir, root) = deployment();
    let shipped = dir.path().join("tree/usr/etc/shipped.conf");
    fs::set_permissions(&shipped, fs::Permissions::from_mode(0o751)).unwrap();
    let at = root.locate("/etc/shipped.conf").unwrap();
    root.replace(&at, content(b"ours", 0o600)).unwrap();
    root.release(&at).unwrap();
    assert_eq!(
        root.look(&at).unwrap(),
        Found::File {
            bytes: b"shipped".to_vec(),
            mode: Mode(0o751),
            owner: OwnerIds::ROOT,
        }
    );
}

#[test]
fn a_released_file_that_the_os_does_not_ship_leaves_nothing() {
    let (dir, root) = deployment();
    let before = snapshot(dir.path());
    let at = root.locate("/etc/ours.d/deep/file").unwrap();
    root.replace(&at, content(b"x", 0o644)).unwrap();
    root.release(&at).unwrap();
    root.release(&at).unwrap();
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn releasing_leaves_directories_that_others_use() {
    let (dir, root) = deployment();
    let at = root.locate("/etc/ours.d/file").unwrap();
    root.replace(&at, content(b"x", 0o644)).unwrap();
    put(dir.path(), "tree/etc/ours.d/theirs", b"y");
    root.release(&at).unwrap();
    assert!(dir.path().join("tree/etc/ours.d/theirs").exists());
}

#[test]
fn labels_are_asked_with_the_path_of_the_booted_system() {
    #[derive(Debug)]
    struct Ask(std::sync::Mutex<Vec<(String, u32)>>);
    impl Labels for std::sync::Arc<Ask> {
        fn label(&self, path: &str, mode: u32) -> std::result::Result<Option<String>, LabelError> {
            let mut asked = self.0.lock().map_err(|error| error.to_string())?;
            asked.push((path.to_owned(), mode));
            Ok(None)
        }
    }
    let (_dir, root) = deployment();
    let ask = std::sync::Arc::new(Ask(std::sync::Mutex::default()));
    let root = root.with_labels(Some(Box::new(ask.clone())));
    root.replace(&root.locate("/home/x/f").unwrap(), content(b"", 0o644))
        .unwrap();
    root.symlink(&root.locate("/etc/l").unwrap(), &"t".into())
        .unwrap();
    let asked = std::mem::take(&mut *ask.0.lock().unwrap());
    assert_eq!(
        asked,
        [
            ("/var/home/x".to_owned(), 0o040_755),
            ("/var/home/x/f".to_owned(), 0o100_644),
            ("/etc/l".to_owned(), 0o120_777),
        ]
    );
}

#[test]
fn a_file_is_labelled_like_another() {
    const LABEL: &str = "security.selinux";
    let (dir, root) = deployment();
    put(dir.path(), "tree/usr/bin/true", b"");
    let (like, ours) = ("/usr/bin/true", "/etc/ours");
    let get = || {
        let mut value = [0; 64];
        let path = dir.path().join("tree/etc/ours");
        let length = rustix::fs::getxattr(path, LABEL, &mut value)?;
        Ok::<_, rustix::io::Errno>(value[..length].to_vec())
    };
    let root = root.labelled_like(like).unwrap();
    root.replace(&root.locate(ours).unwrap(), content(b"1", 0o755))
        .unwrap();
    assert!(get().is_err(), "without a label there, none is made up");

    let label = b"system_u:object_r:bin_t:s0\0";
    let path = dir.path().join("tree/usr/bin/true");
    let flags = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(path, LABEL, label, flags);
    if set == Err(rustix::io::Errno::PERM) && !rustix::process::geteuid().is_root() {
        say_skipped("a label of SELinux, which only root may set");
        return;
    }
    set.unwrap();
    let root = root.labelled_like(like).unwrap();
    root.replace(&root.locate(ours).unwrap(), content(b"2", 0o755))
        .unwrap();
    assert_eq!(get().unwrap(), label);
    root.labelled_like("/usr/bin/none").unwrap();
}

fn say_skipped(what: &str) {
    // Not by a macro, whose words the harness keeps to itself where a test passes.
    let notice = format!("skipped: {what}\n");
    std::io::stderr().write_all(notice.as_bytes()).unwrap();
    if let Some(list) = std::env::var_os("SLIPWAY_SKIPPED").filter(|list| !list.is_empty()) {
        let mut options = fs::File::options();
        let mut list = options.append(true).create(true).open(list).unwrap();
        list.write_all(notice.as_bytes()).unwrap();
    }
}

/// The prior state of a path, with the contents of files.
fn observe(root: &Root, path: &str) -> (BTreeMap<String, Prior>, BTreeMap<Digest, Vec<u8>>) {
    let (mut priors, mut blobs) = (BTreeMap::new(), BTreeMap::new());
    let mut keep = |digest: &Digest, bytes: &[u8]| -> Result<()> {
        blobs.insert(digest.clone(), bytes.to_vec());
        Ok(())
    };
    root.observe(&root.locate(path).unwrap(), &mut priors, &mut keep)
        .unwrap();
    (priors, blobs)
}

fn restore(
    root: &Root,
    (priors, blobs): &(BTreeMap<String, Prior>, BTreeMap<Digest, Vec<u8>>),
) -> Result<()> {
    root.restore(priors, &mut |digest| Ok(blobs[digest].clone()))
}

#[test]
fn a_directory_that_became_a_link_is_not_followed_to_restore() {
    const KEYS: &str = "/home/core/.ssh/authorized_keys.d/ignition";
    for is_there in [true, false] {
        let (dir, root) = deployment();
        let keys = dir.path().join("var/home/core/.ssh/authorized_keys.d");
        fs::create_dir_all(&keys).unwrap();
        if is_there {
            put(&keys, "ignition", b"the user's");
        }
        let prior = observe(&root, KEYS);
        fs::remove_dir_all(&keys).unwrap();
        let elsewhere = dir.path().join("tree/etc/sudoers.d");
        put(&elsewhere, "ignition", b"root's");
        symlink("/etc/sudoers.d", &keys).unwrap();
        restore(&root, &prior).unwrap();
        assert_eq!(fs::read(elsewhere.join("ignition")).unwrap(), b"root's");
        assert_eq!(fs::read_link(keys).unwrap(), Path::new("/etc/sudoers.d"));
    }
}

#[test]
fn a_link_below_var_that_another_user_owns_is_not_followed() {
    let (dir, root) = deployment();
    let link = dir.path().join("var/lib/service/data");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("/etc/sudoers.d", &link).unwrap();
    let path = "/var/lib/service/data/file";
    assert_eq!(
        root.locate(path).unwrap().as_str(),
        "/etc/sudoers.d/file",
        "one of root's is"
    );
    if !rustix::process::geteuid().is_root() {
        say_skipped("a link of another user, which only root may make");
        return;
    }
    std::os::unix::fs::lchown(&link, Some(1000), Some(1000)).unwrap();
    let error = root.locate(path).unwrap_err().to_string();
    assert!(error.contains("root does not own"), "{error}");
}

#[test]
fn extended_attributes_are_restored() {
    const NAME: &str = "user.note";
    let (dir, root) = deployment();
    let file = dir.path().join("tree/etc/shipped.conf");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&file, NAME, b"\x00\xff", flags).unwrap();
    let prior = observe(&root, "/etc/shipped.conf");
    let at = root.locate("/etc/shipped.conf").unwrap();
    for bytes in [&b"ours"[..], b"shipped"] {
        // The same content in another file has lost them, too.
        root.remove(&at).unwrap();
        root.replace(&at, content(bytes, 0o644)).unwrap();
        restore(&root, &prior).unwrap();
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&file, NAME, &mut value).unwrap();
        assert_eq!(&value[..length], b"\x00\xff");
    }
}

#[test]
fn a_link_of_any_bytes_is_restored() {
    use std::os::unix::ffi::OsStrExt as _;
    let (dir, root) = deployment();
    let link = dir.path().join("tree/etc/link");
    let target = std::ffi::OsStr::from_bytes(b"caf\xe9");
    symlink(target, &link).unwrap();
    let (priors, blobs) = observe(&root, "/etc/link");
    // As a journal keeps it.
    let stored = serde_json::to_string(&priors).unwrap();
    let priors = serde_json::from_str(&stored).unwrap();
    let at = root.locate("/etc/link").unwrap();
    root.replace(&at, content(b"ours", 0o644)).unwrap();
    restore(&root, &(priors, blobs)).unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), target);
    let error = root.locate("/etc/link/file").unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
}

/// What can be done to a path.
#[derive(Debug, Clone)]
enum Deed {
    Write(u8),
    Link(u8),
    Remove,
    Release,
}

fn deeds() -> impl Strategy<Value = Vec<(usize, Deed)>> {
    let deed = prop_oneof![
        any::<u8>().prop_map(Deed::Write),
        any::<u8>().prop_map(Deed::Link),
        Just(Deed::Remove),
        Just(Deed::Release),
    ];
    proptest::collection::vec((0..PATHS.len(), deed), 0..12)
}

const PATHS: &[&str] = &[
    "/etc/shipped.conf",
    "/etc/a",
    "/etc/d/b",
    "/etc/d/e/c",
    "/home/core/x",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The law of undo: whatever was done to observed paths, restoring brings all back.
    #[test]
    fn restoring_brings_back_what_was_observed(before in deeds(), after in deeds()) {
        let (dir, root) = deployment();
        let act = |deeds: &[(usize, Deed)]| {
            for (path, deed) in deeds {
                let at = root.locate(PATHS[*path]).unwrap();
                match deed {
                    Deed::Write(byte) => root.replace(&at, content(&[*byte], 0o644)).unwrap(),
                    Deed::Link(byte) => root.symlink(&at, &byte.to_string().as_str().into()).unwrap(),
                    Deed::Remove => root.remove(&at).unwrap(),
                    Deed::Release => root.release(&at).unwrap(),
                }
            }
        };
        act(&before);
        let state = snapshot(dir.path());
        let mut priors = BTreeMap::new();
        let mut kept: BTreeMap<Digest, Vec<u8>> = BTreeMap::new();
        for path in PATHS {
            let at = root.locate(path).unwrap();
            root.observe::<Error>(&at, &mut priors, &mut |digest, bytes| {
                kept.insert(digest.clone(), bytes.to_vec());
                Ok(())
            }).unwrap();
        }
        act(&after);
        for _ in 0..2 {
            root.restore::<Error>(&priors, &mut |digest| Ok(kept[digest].clone())).unwrap();
            prop_assert_eq!(&snapshot(dir.path()), &state);
        }
    }
}
