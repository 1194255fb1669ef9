//! Lists whose items have a key.

use std::collections::{HashMap, HashSet};

use crate::{
    Directory, Disk, Dropin, File, Filesystem, HttpHeader, Link, Luks, Partition, PasswdGroup,
    PasswdUser, Raid, Resource, Tang, Unit,
};

/// An item that a list holds once.
pub(super) trait Keyed {
    fn key(&self) -> String;
}

macro_rules! keyed_by {
    ($($type:ident: $member:ident),*) => {
        $(impl Keyed for $type {
            fn key(&self) -> String {
                self.$member.clone()
            }
        })*
    };
}

keyed_by! {
    Directory: path, Disk: device, Dropin: name, File: path, Filesystem: device, HttpHeader: name,
    Link: path, Luks: name, PasswdGroup: name, PasswdUser: name, Raid: name, Tang: url, Unit: name
}

impl Keyed for Resource {
    fn key(&self) -> String {
        self.source.clone().unwrap_or_default()
    }
}

impl Keyed for Partition {
    fn key(&self) -> String {
        match (self.number, &self.label) {
            (0, None) => String::new(),
            (0, Some(label)) => format!("label:{label}"),
            (number, _) => format!("number:{number}"),
        }
    }
}

impl Keyed for String {
    fn key(&self) -> String {
        self.clone()
    }
}

/// The parent's items in place, each merged with the child's of its key; then the child's others.
pub(super) fn list<T: Keyed>(parent: Vec<T>, child: Vec<T>, merge: fn(T, T) -> T) -> Vec<T> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(parent.len());
    let mut merged: Vec<Option<T>> = Vec::with_capacity(parent.len() + child.len());
    for item in parent {
        places.insert(item.key(), merged.len());
        merged.push(Some(item));
    }
    for item in child {
        let place = places
            .get(&item.key())
            .and_then(|place| merged.get_mut(*place));
        match place {
            Some(place) => *place = place.take().map(|parent| merge(parent, item)),
            None => merged.push(Some(item)),
        }
    }
    merged.into_iter().flatten().collect()
}

/// Texts by value: the parent's, then the child's others.
pub(super) fn union(parent: Vec<String>, child: Vec<String>) -> Vec<String> {
    list(parent, child, |_, child| child)
}

/// Headers by name; the child's without a value removes the parent's.
pub(super) fn headers(parent: Vec<HttpHeader>, child: Vec<HttpHeader>) -> Vec<HttpHeader> {
    let names: HashSet<String> = parent.iter().map(Keyed::key).collect();
    let removed = |header: &HttpHeader| header.value.is_none() && names.contains(&header.name);
    let gone: HashSet<String> = child
        .iter()
        .filter(|header| removed(header))
        .map(Keyed::key)
        .collect();
    let mut merged = list(parent, child, |_, child| child);
    drop_keys(&mut merged, &[&gone]);
    merged
}

/// Drops the items whose key is in one of the sets.
pub(super) fn drop_keys<T: Keyed>(items: &mut Vec<T>, sets: &[&HashSet<String>]) {
    items.retain(|item| !sets.iter().any(|set| set.contains(&item.key())));
}
