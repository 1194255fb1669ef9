//! Configurations made up for property tests: valid, small, and drawn from few names, so that two
//! of them often meet.

use proptest::collection::{btree_map, btree_set};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use crate::{Config, Dropin, File, KernelArguments, Link, NodeOwner, PasswdUser, Resource, Unit};

/// A configuration that a node can follow: files, units, keys and password of `core`.
pub fn config() -> impl Strategy<Value = Config> {
    let files = btree_map(select(FILES), file(), 0..FILES.len());
    let units = btree_map(select(UNITS), unit(), 0..UNITS.len());
    (files, units, of(core())).prop_map(|(files, units, core)| {
        let mut config = Config::new();
        config.storage.files = (files.into_iter())
            .map(|(path, file)| File {
                path: path.to_owned(),
                ..file
            })
            .collect();
        config.systemd.units = (units.into_iter())
            .map(|(name, unit)| Unit {
                name: name.to_owned(),
                ..unit
            })
            .collect();
        config.passwd.users.extend(core);
        config
    })
}

/// A configuration with members that a node does not follow too. Each path is always of the same
/// kind.
pub fn full_config() -> impl Strategy<Value = Config> {
    let links = btree_set(select(&["/etc/l1", "/etc/l2"][..]), 0..3);
    let arguments = btree_set(select(&["a", "b"][..]), 0..3);
    (config(), links, arguments).prop_map(|(mut config, links, arguments)| {
        config.storage.links = (links.into_iter())
            .map(|path| Link {
                path: path.to_owned(),
                target: Some("/etc/t".to_owned()),
                ..Link::default()
            })
            .collect();
        let should_exist = arguments.into_iter().map(ToOwned::to_owned).collect();
        config.kernel_arguments = KernelArguments {
            should_exist,
            should_not_exist: Vec::new(),
        };
        config
    })
}

const FILES: &[&str] = &[
    "/etc/a",
    "/etc/b/c",
    "/etc/shadowed",
    "/usr/local/bin/d",
    "/var/lib/e",
];
const UNITS: &[&str] = &["a.service", "b.socket", "os.service", "absent.service"];

fn file() -> impl Strategy<Value = File> {
    // A user by name and a group by id: merged, an id beside a name would be refused.
    let user = of(select(&["core", "root"][..])).prop_map(|name| NodeOwner {
        id: None,
        name: name.map(ToOwned::to_owned),
    });
    let group = of(0_u32..3).prop_map(|id| NodeOwner { id, name: None });
    let contents =
        of(select(&["data:,one", "data:,two", "data:;base64,AAEC"][..])).prop_map(|source| {
            Resource {
                source: source.map(ToOwned::to_owned),
                ..Resource::default()
            }
        });
    let mode = of(select(&[0o644_u32, 0o600, 0o755][..]));
    (contents, group, mode, user).prop_map(|(contents, group, mode, user)| File {
        contents,
        group,
        mode,
        user,
        ..File::default()
    })
}

fn unit() -> impl Strategy<Value = Unit> {
    let contents = of(select(
        &[
            "",
            "[Service]\nExecStart=/bin/one\n",
            "[Service]\nExecStart=/bin/two\n[Install]\nWantedBy=multi-user.target\n",
            "[Service]\nExecStart=/bin/two\n[Install]\nWantedBy=basic.target\n",
        ][..],
    ));
    let dropin = of(select(
        &["", "[Service]\nNice=1\n", "[Service]\nNice=2\n"][..],
    ));
    let dropins = btree_map(select(&["10-a.conf", "20-b.conf"][..]), dropin, 0..3);
    let flags = (of(any::<bool>()), of(any::<bool>()));
    (contents, dropins, flags).prop_map(|(contents, dropins, (enabled, mask))| Unit {
        contents: contents.map(ToOwned::to_owned),
        dropins: (dropins.into_iter())
            .map(|(name, contents)| Dropin {
                name: name.to_owned(),
                contents: contents.map(ToOwned::to_owned),
            })
            .collect(),
        enabled,
        mask,
        name: String::new(),
    })
}

fn core() -> impl Strategy<Value = PasswdUser> {
    let keys = btree_set(select(&["ssh-ed25519 one", "ssh-ed25519 two"][..]), 0..3);
    (keys, of(select(&["$6$a", "$6$b"][..]))).prop_map(|(keys, hash)| PasswdUser {
        name: "core".to_owned(),
        ssh_authorized_keys: keys.into_iter().map(ToOwned::to_owned).collect(),
        password_hash: hash.map(ToOwned::to_owned),
        ..PasswdUser::default()
    })
}
