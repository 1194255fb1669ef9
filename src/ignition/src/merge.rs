//! Merging Ignition configurations: a child over a parent.
//!
//! A member that both leave unset stays unset; a member of the child replaces the parent's; lists
//! are merged by key, with the parent's items in place and the child's new items after them. The
//! rules are those of `coreos/ignition`'s `config/merge`, with one exception
//! (`docs/reference/controller.md`, "Ignition merge"): content, compression and hash of a file
//! belong together. A child with content inherits neither the parent's compression nor its hash: a
//! plain file over a compressed one would otherwise be decompressed, and fail (OCPBUGS-55327). A
//! compression that the child leaves unset is merged as `""` and is unset in the result, as in
//! OpenShift's MCO: the rendered name is a hash of the result. A child without content, such as one
//! with a mode only, keeps the parent's compression; the MCO loses it.
//!
//! Laws: `merge(a, nothing)` is `a`; `merge(nothing, a)` is `a`; and `merge(merge(a, b), c)` is
//! `merge(a, merge(b, c))`, unless a path changes its kind, a kernel argument changes its list, or
//! a header is removed: one grouping forgets the removed header, the other inherits it.

mod keyed;

use std::collections::HashSet;

use crate::{
    Cex, Clevis, ClevisCustom, Config, Directory, Disk, Dropin, File, Filesystem, Ignition,
    IgnitionConfig, KernelArguments, Link, Luks, NodeOwner, Partition, Passwd, PasswdGroup,
    PasswdUser, Proxy, Raid, Resource, Security, Storage, Systemd, Tang, Timeouts, Tls, Unit,
    Verification,
};
use keyed::{Keyed, drop_keys, headers, list, union};

/// Merges `child` over `parent`.
///
/// Shape: both of the internal version, as [`crate::parse`] returns them. Two valid configurations
/// may merge into one that is not, such as a file below a new link: validate the result. Source:
/// `docs/reference/controller.md`, "Ignition merge".
pub fn merge(parent: Config, child: Config) -> Config {
    parent.merge(child)
}

/// Something that a child's version of itself can be laid over.
trait Merge {
    fn merge(self, child: Self) -> Self;
}

impl<T> Merge for Option<T> {
    fn merge(self, child: Self) -> Self {
        child.or(self)
    }
}

impl Merge for String {
    fn merge(self, child: Self) -> Self {
        if child.is_empty() { self } else { child }
    }
}

impl Merge for i64 {
    fn merge(self, child: Self) -> Self {
        if child == 0 { self } else { child }
    }
}

/// Merges by key.
impl<T: Merge + Keyed> Merge for Vec<T> {
    fn merge(self, child: Self) -> Self {
        list(self, child, T::merge)
    }
}

/// Implements [`Merge`] member by member; after the semicolon, members that are not merged as their
/// type is, and how.
macro_rules! by_member {
    ($($type:ident { $($member:ident),* $(; $($special:ident: $fold:expr),*)? })*) => {
        $(impl Merge for $type {
            fn merge(self, child: Self) -> Self {
                Self {
                    $($member: self.$member.merge(child.$member),)*
                    $($($special: $fold(self.$special, child.$special),)*)?
                }
            }
        })*
    };
}

by_member! {
    Config { ignition, kernel_arguments, passwd, storage, systemd }
    Ignition { config, proxy, security, timeouts, version }
    IgnitionConfig { merge, replace }
    Proxy { http_proxy, https_proxy; no_proxy: union }
    Security { tls }
    Tls { certificate_authorities }
    Timeouts { http_response_headers, http_total }
    Resource { compression, source, verification; http_headers: headers }
    Verification { hash }
    Passwd { groups, users }
    PasswdGroup { gid, name, password_hash, should_exist, system }
    PasswdUser {
        gecos, home_dir, name, no_create_home, no_log_init, no_user_group, password_hash,
        primary_group, shell, should_exist, system, uid;
        groups: union, ssh_authorized_keys: union
    }
    NodeOwner { id, name }
    Directory { group, mode, overwrite, path, user }
    Link { group, hard, overwrite, path, target, user }
    File { group, mode, overwrite, path, user; append: concat, contents: contents }
    Disk { device, partitions, wipe_table }
    Partition {
        guid, label, number, resize, should_exist, size_mib, start_mib, type_guid,
        wipe_partition_entry
    }
    Filesystem {
        device, format, label, path, uuid, wipe_filesystem;
        mount_options: concat, options: concat
    }
    Raid { level, name, spares; devices: union, options: concat }
    Luks {
        cex, clevis, device, discard, key_file, label, name, uuid, wipe_volume;
        open_options: union, options: concat
    }
    Cex { enabled }
    Clevis { custom, tang, threshold, tpm2 }
    ClevisCustom { config, needs_network, pin }
    Tang { advertisement, thumbprint, url }
    Systemd { units }
    Unit { contents, dropins, enabled, mask, name }
    Dropin { contents, name }
}

/// Files, directories and links share one space of paths: the parent's entry gives way to the
/// child's of another kind.
impl Merge for Storage {
    fn merge(mut self, child: Self) -> Self {
        let files: HashSet<String> = child.files.iter().map(Keyed::key).collect();
        let directories: HashSet<String> = child.directories.iter().map(Keyed::key).collect();
        let links: HashSet<String> = child.links.iter().map(Keyed::key).collect();
        drop_keys(&mut self.files, &[&directories, &links]);
        drop_keys(&mut self.directories, &[&files, &links]);
        drop_keys(&mut self.links, &[&files, &directories]);
        Self {
            directories: self.directories.merge(child.directories),
            disks: self.disks.merge(child.disks),
            files: self.files.merge(child.files),
            filesystems: self.filesystems.merge(child.filesystems),
            links: self.links.merge(child.links),
            luks: self.luks.merge(child.luks),
            raid: self.raid.merge(child.raid),
        }
    }
}

/// An argument that should exist gives way to the child's that should not, and the other way round.
impl Merge for KernelArguments {
    fn merge(mut self, child: Self) -> Self {
        self.should_exist
            .retain(|argument| !child.should_not_exist.contains(argument));
        self.should_not_exist
            .retain(|argument| !child.should_exist.contains(argument));
        Self {
            should_exist: union(self.should_exist, child.should_exist),
            should_not_exist: union(self.should_not_exist, child.should_not_exist),
        }
    }
}

/// The contents of a file: compression and hash are of the bytes they came with.
fn contents(mut parent: Resource, child: Resource) -> Resource {
    if child.source.is_some() {
        parent.verification = Verification::default();
        parent.compression = None;
    }
    parent.merge(child)
}

fn concat<T>(mut parent: Vec<T>, child: Vec<T>) -> Vec<T> {
    parent.extend(child);
    parent
}

#[cfg(test)]
mod tests;
