//! Objects of one kind by name, kept up to date by a watch and by the responses to own writes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A kind of objects, and what a [`Table`] needs of each.
pub trait CachedKind: 'static {
    /// What is kept of an object.
    type Entry: Send + Sync;

    /// Name, which is its key: a table holds the objects of the cluster, or of one namespace.
    fn name(entry: &Self::Entry) -> &str;

    /// Version of the object that was read.
    fn version(entry: &Self::Entry) -> &str;

    /// Whether both have the same content: a kubelet's heartbeat changes nothing that is kept.
    fn has_same_content(one: &Self::Entry, other: &Self::Entry) -> bool;
}

/// What a watch delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// These are all objects. Others that were cached do not exist any more.
    Synced(Vec<T>),
    /// This object is new, or has changed.
    Applied(T),
    /// This object was deleted; this is its last state.
    Deleted(T),
}

/// What changed in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableChange<T> {
    /// Any of its objects: all were read.
    All,
    /// One object: before, unless it is new, and after, unless it was deleted.
    One(Option<Arc<T>>, Option<Arc<T>>),
}

/// Objects of one kind by name. Cheap to clone.
pub struct Table<K: CachedKind> {
    entries: Arc<BTreeMap<String, Arc<K::Entry>>>,
    has_synced: bool,
}

impl<K: CachedKind<Entry: fmt::Debug>> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("entries", &self.entries)
            .field("has_synced", &self.has_synced)
            .finish()
    }
}

impl<K: CachedKind> Clone for Table<K> {
    fn clone(&self) -> Self {
        Self {
            entries: Arc::clone(&self.entries),
            has_synced: self.has_synced,
        }
    }
}

impl<K: CachedKind> Default for Table<K> {
    fn default() -> Self {
        Self {
            entries: Arc::default(),
            has_synced: false,
        }
    }
}

impl<K: CachedKind> Table<K> {
    /// Whether all objects were read at least once.
    pub const fn has_synced(&self) -> bool {
        self.has_synced
    }

    /// The object of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<K::Entry>> {
        self.entries.get(name)
    }

    /// All objects, by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K::Entry>> {
        self.entries.values()
    }

    /// Applies a watch event. Tells what changed, if anything.
    fn apply(&mut self, event: WatchEvent<K::Entry>) -> Option<TableChange<K::Entry>> {
        match event {
            WatchEvent::Synced(entries) => {
                let entries = entries.into_iter();
                self.entries = Arc::new(
                    entries
                        .map(|entry| (K::name(&entry).to_owned(), Arc::new(entry)))
                        .collect(),
                );
                self.has_synced = true;
                Some(TableChange::All)
            }
            WatchEvent::Applied(entry) => self.put(entry),
            WatchEvent::Deleted(entry) => {
                let deleted = Arc::make_mut(&mut self.entries).remove(K::name(&entry))?;
                Some(TableChange::One(Some(deleted), None))
            }
        }
    }

    /// Applies the response to a request, unless the object is unknown: it may have been deleted
    /// before the response arrived, and the watch reports a deletion once only.
    fn refresh(&mut self, entry: K::Entry) -> Option<TableChange<K::Entry>> {
        self.entries
            .contains_key(K::name(&entry))
            .then(|| self.put(entry))?
    }

    fn renew(&mut self, name: &str, from: &str, renew: impl FnOnce(&mut Arc<K::Entry>)) -> bool {
        let entry = Arc::make_mut(&mut self.entries).get_mut(name);
        let Some(entry) = entry.filter(|entry| K::version(entry) == from) else {
            return false;
        };
        renew(entry);
        true
    }

    /// Puts an object unless a newer one is cached: a watch may be behind the response to a write
    /// of ours.
    fn put(&mut self, entry: K::Entry) -> Option<TableChange<K::Entry>> {
        let cached = self.entries.get(K::name(&entry)).cloned();
        if let Some(cached) = &cached
            && is_newer(K::version(cached), K::version(&entry))
        {
            return None;
        }
        let is_same = cached
            .as_ref()
            .is_some_and(|cached| K::has_same_content(cached, &entry));
        let name = K::name(&entry).to_owned();
        let entry = Arc::new(entry);
        Arc::make_mut(&mut self.entries).insert(name, Arc::clone(&entry));
        (!is_same).then_some(TableChange::One(cached, Some(entry)))
    }
}

/// Called with each change of a [`Cache`].
type Listener<T> = Arc<dyn Fn(&TableChange<T>) + Send + Sync>;

/// A [`Table`] that a watch fills and others read. Its clones are one.
pub struct Cache<K: CachedKind>(Arc<Shared<K>>);

struct Shared<K: CachedKind> {
    table: Mutex<Table<K>>,
    listeners: Mutex<Vec<Listener<K::Entry>>>,
}

impl<K: CachedKind> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: CachedKind> Default for Cache<K> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            table: Mutex::default(),
            listeners: Mutex::default(),
        }))
    }
}

impl<K: CachedKind> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.lock();
        f.debug_struct("Cache")
            .field("objects", &table.entries.len())
            .field("has_synced", &table.has_synced)
            .finish_non_exhaustive()
    }
}

impl<K: CachedKind> Cache<K> {
    /// All objects as they are cached now.
    pub fn table(&self) -> Table<K> {
        self.lock().clone()
    }

    /// One object as it is cached now.
    pub fn get(&self, name: &str) -> Option<Arc<K::Entry>> {
        self.lock().get(name).cloned()
    }

    /// Whether all objects were read at least once.
    pub fn has_synced(&self) -> bool {
        self.lock().has_synced
    }

    /// Calls `listener` with each change from now on, after those that were there before.
    pub fn listen(&self, listener: impl Fn(&TableChange<K::Entry>) + Send + Sync + 'static) {
        self.listeners().push(Arc::new(listener));
    }

    /// Applies a watch event.
    pub fn apply(&self, event: WatchEvent<K::Entry>) {
        let change = self.lock().apply(event);
        self.notify(change);
    }

    /// Notes that an object has another version and is the same otherwise, if the cached version is
    /// `from`. True then.
    pub fn renew(&self, name: &str, from: &str, renew: impl FnOnce(&mut Arc<K::Entry>)) -> bool {
        self.lock().renew(name, from, renew)
    }

    /// Applies the response to a request: ignored where the object is not cached, or cached newer.
    pub fn refresh(&self, entry: K::Entry) {
        let change = self.lock().refresh(entry);
        self.notify(change);
    }

    fn notify(&self, change: Option<TableChange<K::Entry>>) {
        let Some(change) = change else {
            return;
        };
        // A listener may read the cache, and may take its time.
        let listeners = self.listeners().clone();
        for listener in listeners {
            listener(&change);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener<K::Entry>>> {
        // Nothing panics while it is held.
        let listeners = self.0.listeners.lock();
        listeners.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Table<K>> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the version `a` is newer than `b`.
///
/// Source: resource versions of one resource are decimal and comparable (KEP-5504). Others, which
/// no Kubernetes sends, never are.
pub fn is_newer(a: &str, b: &str) -> bool {
    matches!((a.parse::<u128>(), b.parse::<u128>()), (Ok(a), Ok(b)) if a > b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Object {
        name: &'static str,
        version: String,
        content: String,
    }

    struct Objects;

    impl CachedKind for Objects {
        type Entry = Object;

        fn name(object: &Object) -> &str {
            object.name
        }

        fn version(object: &Object) -> &str {
            &object.version
        }

        fn has_same_content(one: &Object, other: &Object) -> bool {
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

    fn change(before: Option<Object>, after: Option<Object>) -> TableChange<Object> {
        TableChange::One(before.map(Arc::new), after.map(Arc::new))
    }

    type Changes = Arc<Mutex<Vec<TableChange<Object>>>>;

    /// A cache, and the changes that it reports.
    fn cache() -> (Cache<Objects>, Changes) {
        let cache = Cache::<Objects>::default();
        let changes = Changes::default();
        let listener = Arc::clone(&changes);
        cache.listen(move |change| listener.lock().unwrap().push(change.clone()));
        (cache, changes)
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(is_newer("10", "9"));
        assert!(!is_newer("9", "10") && !is_newer("10", "10"));
        assert!(!is_newer("x", "10") && !is_newer("10", "x"));
    }

    #[test]
    fn each_listener_is_called() {
        let (cache, changes) = cache();
        let others = Changes::default();
        let listener = Arc::clone(&others);
        cache.listen(move |change| listener.lock().unwrap().push(change.clone()));
        cache.apply(WatchEvent::Synced(vec![]));
        assert_eq!(*changes.lock().unwrap(), [TableChange::All]);
        assert_eq!(*others.lock().unwrap(), [TableChange::All]);
    }

    #[test]
    fn heartbeat_is_kept_and_is_no_change() {
        let (cache, changes) = cache();
        assert!(!cache.has_synced());
        cache.apply(WatchEvent::Synced(vec![object("1", "x")]));
        assert!(cache.has_synced());
        cache.apply(WatchEvent::Applied(object("2", "x")));
        assert_eq!(cache.get("a").unwrap().version, "2");
        cache.apply(WatchEvent::Applied(object("3", "y")));
        let expected = [
            TableChange::All,
            change(Some(object("2", "x")), Some(object("3", "y"))),
        ];
        assert_eq!(*changes.lock().unwrap(), expected);
    }

    #[test]
    fn late_watch_event_restores_nothing() {
        let (cache, changes) = cache();
        cache.apply(WatchEvent::Applied(object("10", "new")));
        cache.apply(WatchEvent::Applied(object("9", "old")));
        assert_eq!(cache.get("a").unwrap().content, "new");
        let expected = [change(None, Some(object("10", "new")))];
        assert_eq!(*changes.lock().unwrap(), expected);
    }

    #[test]
    fn deleted_object_is_removed() {
        let (cache, changes) = cache();
        cache.apply(WatchEvent::Applied(object("1", "x")));
        cache.apply(WatchEvent::Deleted(object("2", "x")));
        cache.apply(WatchEvent::Deleted(object("2", "x")));
        assert!(cache.get("a").is_none());
        assert_eq!(
            changes.lock().unwrap()[1..],
            [change(Some(object("1", "x")), None)]
        );
        cache.apply(WatchEvent::Applied(object("3", "x")));
        cache.apply(WatchEvent::Synced(vec![]));
        assert_eq!(cache.table().values().count(), 0);
    }

    #[test]
    fn late_answer_restores_nothing() {
        let (cache, changes) = cache();
        let count = || changes.lock().unwrap().len();
        cache.apply(WatchEvent::Applied(object("1", "x")));
        cache.refresh(object("2", "y"));
        assert_eq!(count(), 2);
        cache.refresh(object("1", "x"));
        assert_eq!(count(), 2, "the response is older");
        cache.apply(WatchEvent::Deleted(object("3", "y")));
        cache.refresh(object("2", "y"));
        assert!(cache.get("a").is_none());
        // It exists again: another object of that name.
        cache.apply(WatchEvent::Applied(object("4", "z")));
        cache.refresh(object("2", "y"));
        assert_eq!(cache.get("a").unwrap().version, "4");
        assert_eq!(count(), 4);
    }

    #[test]
    fn renewed_object_has_another_version_and_is_no_change() {
        let (cache, changes) = cache();
        let renew = |from, to: &str| {
            cache.renew("a", from, |entry| {
                to.clone_into(&mut Arc::make_mut(entry).version);
            })
        };
        assert!(!renew("1", "2"), "there is no such object");
        cache.apply(WatchEvent::Applied(object("1", "x")));
        let before = cache.table();
        assert!(renew("1", "2"));
        assert!(!renew("1", "3"), "another version is cached");
        assert_eq!(*cache.get("a").unwrap(), object("2", "x"));
        assert_eq!(before.get("a").unwrap().version, "1");
        let expected = [change(None, Some(object("1", "x")))];
        assert_eq!(*changes.lock().unwrap(), expected);
    }

    #[test]
    fn snapshot_stays_as_it_was() {
        let (cache, _) = cache();
        cache.apply(WatchEvent::Synced(vec![object("1", "x")]));
        let before = cache.table();
        cache.apply(WatchEvent::Applied(object("2", "y")));
        assert_eq!(before.get("a").unwrap().content, "x");
    }
}
