use proptest::prelude::*;
use serde_json::json;

use super::*;

const ROOT: OwnerIds = OwnerIds { uid: 0, gid: 0 };

fn file(text: &str) -> EtcEntry {
    EtcEntry::File {
        digest: Digest::of(text.as_bytes()),
        mode: Mode(0o644),
        owner: ROOT,
        attributes: Attributes::new(),
    }
}

fn link(target: &str) -> EtcEntry {
    EtcEntry::Link(LinkTarget::new(target.as_bytes().to_vec()))
}

fn directory(mode: u32) -> EtcEntry {
    EtcEntry::Directory {
        mode: Mode(mode),
        owner: ROOT,
    }
}

fn tree(entries: &[(&str, EtcEntry)]) -> EtcTree {
    entries
        .iter()
        .map(|(path, entry)| (format!("/etc/{path}"), entry.clone()))
        .collect()
}

fn side(etc: &[(&str, EtcEntry)], shipped: &[(&str, EtcEntry)]) -> Side {
    Side {
        etc: tree(etc),
        shipped: tree(shipped),
        inodes: BTreeMap::new(),
        recent: tree(etc).into_keys().collect(),
        unreadable: BTreeMap::new(),
    }
}

/// The same, where these cannot be read.
fn unreadable(side: &Side, paths: &[&str]) -> Side {
    let mut side = side.clone();
    for path in paths {
        let path = format!("/etc/{path}");
        side.etc.remove(&path);
        side.unreadable
            .insert(path, "Input/output error".to_owned());
    }
    side
}

/// What is decided of the first way, before which nothing was left behind.
fn planned(left: &Side, booted: &Side, managed: &Managed) -> Carry {
    plan(left, booted, managed, &LeftBehind::default())
}

/// A configuration with the file `/etc/managed` and the unit `web.service`.
fn spec(text: &str) -> Spec {
    let config = json!({
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [
            { "path": "/etc/managed", "contents": { "source": format!("data:,{text}") } },
        ] },
        "systemd": { "units": [{ "name": "web.service", "enabled": true }] },
    });
    Spec::parse(&json!({ "config": config })).unwrap().0
}

fn write(path: &str) -> LateChange {
    let path = format!("/etc/{path}");
    LateChange::Write { path }
}

fn remove(path: &str) -> LateChange {
    let path = format!("/etc/{path}");
    LateChange::Remove { path }
}

type Entries<'a> = &'a [(&'a str, EtcEntry)];

/// A name; `etc` and `shipped` of the deployment that was left, then of the booted one; the
/// changes.
type Row<'a> = (&'a str, [Entries<'a>; 4], &'a [LateChange]);

fn check(table: &[Row<'_>]) {
    for (name, [etc, shipped, booted, booted_shipped], expected) in table {
        let (left, booted) = (side(etc, shipped), side(booted, booted_shipped));
        let carry = planned(&left, &booted, &Managed::default());
        assert_eq!(carry.changes, *expected, "{name}");
        assert!(carry.conflicts.is_empty(), "{name}: {carry:?}");
    }
}

#[test]
fn each_difference_of_files_has_its_outcome() {
    let old = || file("old");
    let new = || file("new");
    check(&[
        ("equal", [&[("a", old())], &[], &[("a", old())], &[]], &[]),
        ("new file", [&[("a", old())], &[], &[], &[]], &[write("a")]),
        (
            "an edit of a file that the OS ships wins over the new OS's",
            [
                &[("a", old())],
                &[("a", file("default"))],
                &[("a", new())],
                &[("a", new())],
            ],
            &[write("a")],
        ),
        (
            "the OS's own differ",
            [
                &[("a", old())],
                &[("a", old())],
                &[("a", new())],
                &[("a", new())],
            ],
            &[],
        ),
        (
            "dropped by the new OS",
            [&[("a", old())], &[("a", old())], &[], &[]],
            &[],
        ),
        (
            "new in the OS",
            [&[], &[], &[("a", new())], &[("a", new())]],
            &[],
        ),
        (
            "removed by others",
            [&[], &[], &[("a", old())], &[]],
            &[remove("a")],
        ),
        (
            "a file of both OSes, removed by others",
            [&[], &[("a", old())], &[("a", new())], &[("a", new())]],
            &[remove("a")],
        ),
    ]);
}

#[test]
fn each_difference_of_directories_has_its_outcome() {
    let old = || file("old");
    let new = || file("new");
    let dir = || directory(0o755);
    check(&[
        (
            "a directory with what is in it",
            [
                &[("d", directory(0o700)), ("d/a", old()), ("d/l", link("a"))],
                &[],
                &[],
                &[],
            ],
            &[write("d"), write("d/a"), write("d/l")],
        ),
        (
            "an empty directory, and another mode",
            [
                &[("d", directory(0o700)), ("e", dir())],
                &[],
                &[("d", dir())],
                &[],
            ],
            &[write("d"), write("e")],
        ),
        (
            "a directory goes with all that is in it",
            [
                &[],
                &[],
                &[("d", dir()), ("d/a", old()), ("d/e", dir())],
                &[],
            ],
            &[remove("d/e"), remove("d/a"), remove("d")],
        ),
        (
            "a directory with a file of the OS stays",
            [
                &[],
                &[],
                &[("d", dir()), ("d/a", old()), ("d/new", new())],
                &[("d/new", new())],
            ],
            &[remove("d/a")],
        ),
        (
            "Slipway's own and what the OS makes anew",
            [
                &[
                    ("machine-config-daemon/currentconfig", old()),
                    ("ld.so.cache", old()),
                    ("shadow", old()),
                    ("ignition-machine-config-encapsulated.json", old()),
                ],
                &[],
                &[
                    ("systemd/system/slipway-guard.service", new()),
                    ("ignition-machine-config-encapsulated.json.bak", new()),
                ],
                &[],
            ],
            &[],
        ),
    ]);
}

#[test]
fn managed_paths_are_the_booted_configurations() {
    let (old, new) = (spec("old"), spec("new"));
    let managed = Managed::of(Some(&old), Some(&new));
    let wants = "systemd/system/multi-user.target.wants/web.service";
    let alias = "systemd/system/www.service";
    let booted = side(
        &[
            ("managed", file("new")),
            ("systemd/system/web.service", link("/dev/null")),
        ],
        &[],
    );
    // What the old configuration put there is no work of others.
    let untouched = side(
        &[
            ("managed", file("old")),
            (wants, link("/usr/lib/systemd/system/web.service")),
            (alias, link("/etc/systemd/system/web.service")),
        ],
        &[],
    );
    assert_eq!(planned(&untouched, &booted, &managed), Carry::default());
    let edited = side(&[("managed", file("edited"))], &[]);
    let carry = planned(&edited, &booted, &managed);
    assert_eq!(carry.changes, []);
    let conflict = ("/etc/managed".to_owned(), LateConflict::Managed);
    assert_eq!(carry.conflicts, BTreeMap::from([conflict]));
    let taken_over = Side {
        recent: BTreeSet::new(),
        ..edited
    };
    let carry_of_old = planned(&taken_over, &booted, &managed);
    assert_eq!(
        (carry_of_old.changes, carry_of_old.conflicts),
        (vec![], BTreeMap::new())
    );
    let replaced = side(&[("managed", link("elsewhere"))], &[]);
    assert_eq!(planned(&replaced, &booted, &managed), carry);
    // A link of the same name elsewhere is another's.
    let elsewhere = side(&[("web.service", file("x"))], &[]);
    let carry = planned(&elsewhere, &booted, &managed);
    assert_eq!(carry.changes, [write("web.service")]);
}

#[test]
fn what_cannot_be_carried_over_is_a_conflict() {
    let table = [
        (
            "d",
            side(&[("d", file("x"))], &[]),
            side(&[("d", directory(0o755))], &[]),
            LateConflict::Replaced,
        ),
        (
            "d/a",
            side(
                &[("d", directory(0o755)), ("d/a", file("x"))],
                &[("d", directory(0o755))],
            ),
            side(&[("d", link("elsewhere"))], &[("d", link("elsewhere"))]),
            LateConflict::Replaced,
        ),
        (
            "pipe",
            side(&[("pipe", EtcEntry::Other)], &[]),
            Side::default(),
            LateConflict::NotAFile,
        ),
        (
            "selinux/x/policy",
            side(&[("selinux/x/policy", file("x"))], &[]),
            Side::default(),
            LateConflict::Policy,
        ),
    ];
    for (path, left, booted, conflict) in table {
        let carry = planned(&left, &booted, &Managed::default());
        assert_eq!(carry.changes, [], "{path}");
        let expected = BTreeMap::from([(format!("/etc/{path}"), conflict)]);
        assert_eq!(carry.conflicts, expected);
        // On the way back it is still there.
        let back = plan(&booted, &left, &Managed::default(), &carry.left_behind);
        assert_eq!(back.changes, [], "{path}");
    }
}

#[test]
fn what_never_came_is_not_removed_on_the_way_back() {
    let booted = side(
        &[
            ("d", directory(0o755)),
            ("d/a", file("x")),
            ("e", file("x")),
        ],
        &[],
    );
    let back = |never_came: &LeftBehind| {
        let carry = plan(&Side::default(), &booted, &Managed::default(), never_came);
        let paths = carry.changes.iter().map(LateChange::path);
        paths.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut directory = LeftBehind::default();
    directory.add("/etc/d");
    let mut file = LeftBehind::default();
    file.add("/etc/d/a");
    assert_eq!(
        back(&LeftBehind::default()),
        ["/etc/e", "/etc/d/a", "/etc/d"]
    );
    assert_eq!(back(&directory), ["/etc/e"]);
    assert_eq!(back(&file), ["/etc/e"]);
    assert_eq!(back(&LeftBehind::everything()), [""; 0]);
}

#[test]
fn hard_links_stay_links_of_one_file() {
    let mut left = side(&[("a", file("x")), ("b", file("x")), ("c", file("x"))], &[]);
    left.inodes = ["a", "b", "c"]
        .map(|path| (format!("/etc/{path}"), 7))
        .into();
    let to = |path: &str, to: &str| LateChange::HardLink {
        path: format!("/etc/{path}"),
        to: format!("/etc/{to}"),
    };
    let carry = planned(&left, &Side::default(), &Managed::default());
    assert_eq!(carry.changes, [write("a"), to("b", "a"), to("c", "a")]);
    let booted = side(&[("b", file("x"))], &[]);
    let carry = planned(&left, &booted, &Managed::default());
    assert_eq!(carry.changes, [to("a", "b"), to("c", "b")]);
}

/// Applies a change to a tree as the host does.
fn apply(booted: &mut Side, left: &Side, change: &LateChange) {
    match change {
        LateChange::Write { path } | LateChange::HardLink { path, .. } => {
            let entry = left.etc[path].clone();
            let parent = parent_of(path).unwrap();
            let has_parent =
                parent == "/etc" || booted.etc.get(parent).is_some_and(EtcEntry::is_directory);
            assert!(has_parent, "{path} has no directory");
            booted.etc.insert(path.clone(), entry);
        }
        LateChange::Remove { path } => {
            assert!(!has_entries(booted, path), "{path} is not empty");
            booted.etc.remove(path);
        }
    }
}

/// Entries at few paths, each below a directory where it needs one.
fn any_tree() -> impl Strategy<Value = EtcTree> {
    let entry = prop_oneof![
        3 => Just(None),
        2 => "[xyz]".prop_map(|text| Some(file(&text))),
        1 => Just(Some(link("x"))),
        2 => Just(Some(directory(0o755))),
        1 => Just(Some(directory(0o700))),
    ];
    proptest::collection::vec(entry, 9).prop_map(|entries| {
        let paths = [
            "a",
            "a/a",
            "a/a/a",
            "a/b",
            "b",
            "b/a",
            "c",
            "managed",
            "managed/a",
        ];
        let mut tree = EtcTree::new();
        for (path, entry) in paths.iter().zip(entries) {
            let path = format!("/etc/{path}");
            let parent = parent_of(&path).unwrap();
            let has_parent =
                parent == "/etc" || tree.get(parent).is_some_and(EtcEntry::is_directory);
            if let Some(entry) = entry.filter(|_| has_parent) {
                tree.insert(path, entry);
            }
        }
        tree
    })
}

fn any_side() -> impl Strategy<Value = Side> {
    (any_tree(), any_tree()).prop_map(|(etc, shipped)| Side {
        recent: etc.keys().cloned().collect(),
        etc,
        shipped,
        inodes: BTreeMap::new(),
        unreadable: BTreeMap::new(),
    })
}

proptest! {
    /// Stopped after any change and begun again, the host reaches the same state, and then nothing
    /// is left to do.
    #[test]
    fn a_stopped_carry_reaches_the_same_end(left in any_side(), booted in any_side(), stop in 0..9_usize) {
        let managed = Managed::of(None, Some(&spec("new")));
        let mut whole = booted.clone();
        for change in planned(&left, &booted, &managed).changes {
            apply(&mut whole, &left, &change);
        }
        let mut stopped = booted.clone();
        for change in planned(&left, &booted, &managed).changes.iter().take(stop) {
            apply(&mut stopped, &left, change);
        }
        for change in planned(&left, &stopped.clone(), &managed).changes {
            apply(&mut stopped, &left, &change);
        }
        prop_assert_eq!(&stopped.etc, &whole.etc);
        prop_assert_eq!(planned(&left, &whole, &managed).changes, vec![]);
    }

    /// Managed paths and what only the booted OS has are not touched; what others wrote is carried
    /// over or named.
    #[test]
    fn nothing_is_lost_and_nothing_managed_is_touched(left in any_side(), booted in any_side()) {
        let managed = Managed::of(None, Some(&spec("new")));
        let carry = planned(&left, &booted, &managed);
        let mut after = booted;
        for change in &carry.changes {
            prop_assert_ne!(change.path(), "/etc/managed");
            apply(&mut after, &left, change);
        }
        for (path, entry) in &left.etc {
            let is_of_others = left.shipped.get(path) != Some(entry);
            let is_there = after.etc.get(path) == Some(entry);
            let is_named = carry.conflicts.contains_key(path);
            let holds_only_others = entry.is_directory() && has_entries(&left, path);
            prop_assert!(!is_of_others || is_there || is_named || holds_only_others, "{}", path);
        }
    }
}

#[test]
fn what_cannot_be_read_is_a_conflict_and_keeps_nothing_else_from_being_carried_over() {
    let etc = |text: &str| {
        [
            ("a", file(text)),
            ("d", directory(0o755)),
            ("d/b", file("b")),
            ("late", file(text)),
        ]
    };
    let (left, booted) = (side(&etc("new"), &[]), side(&etc("old"), &[]));
    let write = LateChange::Write {
        path: "/etc/late".to_owned(),
    };
    let paths = ["a", "d"];
    for (was, is) in [
        (unreadable(&left, &paths), booted.clone()),
        (left.clone(), unreadable(&booted, &paths)),
        (unreadable(&left, &paths), unreadable(&booted, &paths)),
    ] {
        // What is below a directory is not known: it neither came nor went.
        let mut was = was;
        was.etc.remove("/etc/d/b");
        let carry = planned(&was, &is, &Managed::default());
        assert_eq!(carry.changes, std::slice::from_ref(&write));
        let conflicts: Vec<_> = carry.conflicts.into_iter().collect();
        let expected = paths.map(|path| (format!("/etc/{path}"), LateConflict::Unreadable));
        assert_eq!(conflicts, expected);
        assert!(carry.left_behind.has("/etc/d/b"));
    }
}
