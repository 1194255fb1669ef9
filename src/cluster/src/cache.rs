//! Objects of one kind by name, kept up to date by a watch and by the answers to own writes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::collection::News;

/// A kind of objects, and what a [`Table`] needs of each.
pub trait Kind {
    /// What is kept of an object.
    type Entry;

    /// Name, which is its key.
    fn name(entry: &Self::Entry) -> &str;

    /// Version of the object that was read.
    fn version(entry: &Self::Entry) -> &str;

    /// Whether both say the same: a kubelet's heartbeat is no news.
    fn says_the_same(one: &Self::Entry, other: &Self::Entry) -> bool;
}

/// Objects of one kind by name.
pub struct Table<K: Kind> {
    entries: BTreeMap<String, Arc<K::Entry>>,
    is_known: bool,
}

impl<K: Kind<Entry: fmt::Debug>> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("entries", &self.entries)
            .field("is_known", &self.is_known)
            .finish()
    }
}

impl<K: Kind> Clone for Table<K> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            is_known: self.is_known,
        }
    }
}

impl<K: Kind> Default for Table<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            is_known: false,
        }
    }
}

impl<K: Kind> Table<K> {
    /// Whether the objects were listed at least once.
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// The object of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<K::Entry>> {
        self.entries.get(name)
    }

    /// All objects, by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K::Entry>> {
        self.entries.values()
    }

    /// Takes in what a watch told. True when it is news.
    pub fn learn(&mut self, news: News<K::Entry>) -> bool {
        match news {
            News::All(entries) => {
                self.entries = entries
                    .into_iter()
                    .map(|entry| (K::name(&entry).to_owned(), Arc::new(entry)))
                    .collect();
                self.is_known = true;
                true
            }
            News::Present(entry) => self.put(entry),
            News::Gone(entry) => self.entries.remove(K::name(&entry)).is_some(),
        }
    }

    /// Stores the answer to a request, unless the object is unknown: the watch may have reported its
    /// deletion before the answer arrived, and reports it once only. True when the entry changed.
    pub fn refresh(&mut self, entry: K::Entry) -> bool {
        self.entries.contains_key(K::name(&entry)) && self.put(entry)
    }

    /// Puts an object unless a newer one is known: a watch may be behind the answer to a write of ours.
    fn put(&mut self, entry: K::Entry) -> bool {
        let known = self.entries.get(K::name(&entry));
        if known.is_some_and(|known| is_newer(K::version(known), K::version(&entry))) {
            return false;
        }
        let is_news = !known.is_some_and(|known| K::says_the_same(known, &entry));
        self.entries
            .insert(K::name(&entry).to_owned(), Arc::new(entry));
        is_news
    }
}

/// Whether the version `a` is newer than `b`.
///
/// Source: resource versions of one resource are decimal and comparable (KEP-5504). Others, which no Kubernetes sends, never are.
pub fn is_newer(a: &str, b: &str) -> bool {
    matches!((a.parse::<u128>(), b.parse::<u128>()), (Ok(a), Ok(b)) if a > b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone)]
    struct Object {
        name: &'static str,
        version: String,
        content: String,
    }

    struct Objects;

    impl Kind for Objects {
        type Entry = Object;

        fn name(object: &Object) -> &str {
            object.name
        }

        fn version(object: &Object) -> &str {
            &object.version
        }

        fn says_the_same(one: &Object, other: &Object) -> bool {
            one.content == other.content
        }
    }

    fn object(version: &str, content: &str) -> Object {
        Object {
            name: "a",
            version: version.to_owned(),
            content: content.to_owned(),
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(is_newer("10", "9"));
        assert!(!is_newer("9", "10") && !is_newer("10", "10"));
        assert!(!is_newer("x", "10") && !is_newer("10", "x"));
    }

    #[test]
    fn heartbeats_are_kept_and_are_no_news() {
        let mut table = Table::<Objects>::default();
        assert!(table.learn(News::All(vec![object("1", "x")])));
        assert!(!table.learn(News::Present(object("2", "x"))));
        assert_eq!(table.get("a").unwrap().version, "2");
        assert!(table.learn(News::Present(object("3", "y"))));
    }

    #[test]
    fn a_watch_that_is_behind_takes_nothing_back() {
        let mut table = Table::<Objects>::default();
        assert!(table.put(object("10", "new")));
        assert!(!table.learn(News::Present(object("9", "old"))));
        assert_eq!(table.get("a").unwrap().content, "new");
    }

    #[test]
    fn what_is_gone_is_gone() {
        let mut table = Table::<Objects>::default();
        table.put(object("1", "x"));
        assert!(table.learn(News::Gone(object("2", "x"))));
        assert!(table.get("a").is_none());
        table.put(object("3", "x"));
        assert!(table.learn(News::All(vec![])));
        assert_eq!(table.values().count(), 0);
    }

    #[test]
    fn a_late_answer_brings_nothing_back() {
        let mut table = Table::<Objects>::default();
        table.put(object("1", "x"));
        assert!(table.refresh(object("2", "y")));
        assert!(!table.refresh(object("1", "x")), "the answer is older");
        table.learn(News::Gone(object("3", "y")));
        assert!(!table.refresh(object("2", "y")));
        assert!(table.get("a").is_none());
        // It is there again: another object of that name.
        assert!(table.learn(News::Present(object("4", "z"))));
        assert!(!table.refresh(object("2", "y")));
        assert_eq!(table.get("a").unwrap().version, "4");
    }
}
