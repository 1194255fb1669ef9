//! One kind in its cache, kept up to date.
//!
//! - [`kept`]: what caches keep of objects
//! - `reader`: the requests for its objects

pub mod kept;
mod reader;

use std::fmt;
use std::hash::RandomState;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use chassis::backoff::Backoff;
use chassis::report::Chain;
use cluster::cache::{Cache, CachedKind, WatchEvent, is_newer};
use cluster::path;
use cluster::wire::protobuf::{Bytes, DecodeError};
use cluster::wire::{Error, ObjectEvent, escape};
use futures::StreamExt as _;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use self::reader::KindReader;

/// Objects requested at once: a page of Nodes is 1.5 MB of text, and its objects take several times
/// that until they are parsed.
const PAGE: u32 = 100;

/// The requested length of one watch: the shortest that the API server chooses where none is
/// requested. A silent connection ends sooner ([`cluster::access::SILENCE`]).
const WATCH: Duration = Duration::from_mins(30);

/// A watch that lasted so long ended because its time was over.
const TIME: Duration = WATCH.saturating_sub(Duration::from_secs(5));

/// First and longest pause before a kind is requested again that the API server does not serve.
const UNKNOWN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// First and longest pause between attempts. Source: those of client-go.
const PAUSE: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// A kind that is watched, and how its objects are read.
pub trait Watched: CachedKind {
    /// The object as the API server sends it; `PartialObjectMeta<T>` where its metadata is enough.
    type Object: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static;

    /// The form in which objects are requested.
    const FORM: WatchForm<Self::Entry> = WatchForm::Whole;

    /// Keeps what is needed of an object. The rest is dropped at once: of a Node, nine tenths.
    fn parse(object: Self::Object) -> Self::Entry;
}

/// In which form the API server sends the objects of a kind.
#[derive(Debug)]
pub enum WatchForm<T> {
    /// As JSON, whole.
    Whole,
    /// As JSON, their metadata alone: [`Watched::Object`] is a `PartialObjectMeta` then.
    Metadata,
    /// As protobuf. Only the API server's own kinds have this form. It is worth the trouble where
    /// objects are large and have heartbeats.
    Protobuf(ProtobufForm<T>),
}

/// How objects of a kind are read in their protobuf form.
#[derive(Debug)]
pub struct ProtobufForm<T> {
    /// Reads what is needed of an object.
    pub decode: fn(Bytes) -> Result<T, DecodeError>,
    /// Reads of an object what tells whether it has changed.
    pub head: fn(&[u8], &RandomState) -> Result<Head, DecodeError>,
    /// Gives an object another version.
    pub renew: fn(&mut Arc<T>, String),
}

/// What tells whether an object has changed.
#[derive(Debug)]
pub struct Head {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// A hash of all else that is needed of it.
    pub content: u64,
}

/// Which objects of a kind are watched.
pub struct WatchScope<O> {
    path: String,
    labels: Option<String>,
    fields: Option<String>,
    is_optional: bool,
    object: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for WatchScope<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchScope")
            .field("path", &self.path)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("is_optional", &self.is_optional)
            .finish_non_exhaustive()
    }
}

impl<O> WatchScope<O> {
    const fn of(path: String) -> Self {
        Self {
            path,
            labels: None,
            fields: None,
            is_optional: false,
            object: PhantomData,
        }
    }

    /// Path and query of a request for one of these objects. Of a kind with namespaces the scope is
    /// one of them.
    fn object(&self, name: &str, query: &str) -> String {
        format!("{}/{name}?{query}", self.path)
    }

    /// Path and query of a request for these objects.
    fn request(&self, query: &str) -> String {
        let mut request = format!("{}?{query}", self.path);
        for (name, selector) in [
            ("&labelSelector=", &self.labels),
            ("&fieldSelector=", &self.fields),
        ] {
            if let Some(selector) = selector {
                request.push_str(name);
                request.push_str(&escape(selector));
            }
        }
        request
    }
}

/// Which keys a change wakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake<Key> {
    /// All that there are.
    All,
    /// These.
    Keys(Vec<Key>),
}

impl<O: Resource<DynamicType = ()> + 'static> WatchScope<O> {
    /// All objects of the cluster. Of a kind with namespaces two may share a name, and a cache has
    /// room for one: watch those by [`WatchScope::namespace`].
    pub fn cluster() -> Self {
        Self::of(path::all::<O>())
    }

    /// The object of one name. An account that may watch only this one may do so.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.fields = Some(format!("metadata.name={name}"));
        self
    }

    /// A kind that the API server may not serve: there are no objects then, and the controller
    /// starts without them. Unless set, it waits for the kind.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Those with certain labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }
}

impl<O> WatchScope<O>
where
    O: Resource<DynamicType = (), Scope = NamespaceResourceScope> + 'static,
{
    /// The objects of one namespace.
    pub fn namespace(name: &str) -> Self {
        Self::of(path::namespace::<O>(name))
    }
}

/// Follows a kind into its cache, for ever. Errors are logged and retried: to a reader an API
/// server out of reach looks like objects that do not change.
///
/// One list by pages, then watches from where the last one ended. All objects are listed again only
/// when the API server does not keep that position any more, or has an older state: its database
/// was restored from a backup.
///
/// kube's watcher is not used: it does not say where it is. After a restore it watches from a
/// position that is yet to come, and passes over all that happens until then.
pub(crate) async fn follow<K: Watched>(
    client: Client,
    scope: WatchScope<K::Object>,
    cache: Cache<K>,
) {
    let follower = Follower {
        reader: KindReader::new(client, &scope, &cache),
        cache: &cache,
    };
    let mut pace = Backoff::new(PAUSE.0, PAUSE.1);
    let mut unknown = UNKNOWN.0;
    loop {
        match follower.read_all().await {
            Ok(position) => {
                unknown = UNKNOWN.0;
                follower.watch_from(position, &mut pace).await;
            }
            Err(error) if scope.is_optional && error.is_not_found() => {
                follower.has_none();
                tokio::time::sleep(unknown).await;
                unknown = (unknown * 2).min(UNKNOWN.1);
                continue;
            }
            Err(error) => warn::<K>(&error),
        }
        tokio::time::sleep(pace.next_delay()).await;
    }
}

/// A kind that is followed.
struct Follower<'a, K: Watched> {
    reader: KindReader<'a, K>,
    cache: &'a Cache<K>,
}

/// How a watch ended.
enum WatchEnd {
    /// When its time was over.
    Time,
    /// Earlier: the API server was out of reach, or is not the same process any more.
    Early,
    /// The API server does not keep its position any more.
    Expired,
}

impl<K: Watched> Follower<'_, K> {
    /// Reads all objects; the position of that list.
    async fn read_all(&self) -> Result<String, Error> {
        let mut next = String::new();
        let mut listed = Vec::new();
        loop {
            let page = self.reader.page(PAGE, &next).await?;
            listed.extend(page.items);
            if page.r#continue.is_empty() {
                self.cache.apply(WatchEvent::Synced(listed));
                // What whole pages took is not needed again.
                chassis::memory::trim_heap();
                return Ok(page.resource_version);
            }
            next = page.r#continue;
        }
    }

    /// Notes that the API server does not serve the kind; once, however often it is requested.
    fn has_none(&self) {
        let table = self.cache.table();
        if !table.has_synced() || table.values().next().is_some() {
            let kind = K::Object::kind(&());
            tracing::info!(kind = %kind, "the API server does not serve a kind");
            self.cache.apply(WatchEvent::Synced(Vec::new()));
        }
    }

    /// Watches until all objects have to be listed again.
    async fn watch_from(&self, mut position: String, pace: &mut Backoff) {
        loop {
            match self.watch(&mut position, pace).await {
                WatchEnd::Time => {}
                WatchEnd::Expired => return,
                WatchEnd::Early => {
                    tokio::time::sleep(pace.next_delay()).await;
                    if !self.can_go_on(&position, pace).await {
                        return;
                    }
                }
            }
        }
    }

    /// One watch. `position` goes on with it.
    async fn watch(&self, position: &mut String, pace: &mut Backoff) -> WatchEnd {
        let began = Instant::now();
        let mut events = match self.reader.watch(position).await {
            Ok(events) => events,
            Err(error) => return ended::<K>(&error),
        };
        loop {
            match events.next().await {
                Some(Ok(ObjectEvent::Applied(entry))) => {
                    K::version(&entry).clone_into(position);
                    self.cache.apply(WatchEvent::Applied(entry));
                }
                Some(Ok(ObjectEvent::Deleted(entry))) => {
                    K::version(&entry).clone_into(position);
                    self.cache.apply(WatchEvent::Deleted(entry));
                }
                Some(Ok(ObjectEvent::Bookmark(version))) => *position = version,
                // One object that cannot be read does not keep the others.
                Some(Err(error @ Error::Response { .. })) => {
                    warn::<K>(&error);
                    continue;
                }
                Some(Err(error)) => return ended::<K>(&error),
                None if began.elapsed() >= TIME => {
                    pace.reset();
                    return WatchEnd::Time;
                }
                None => return WatchEnd::Early,
            }
            pace.reset();
        }
    }

    /// Whether the next watch may begin at a position, once the API server responds: it has reached
    /// that, and serves the kind.
    async fn can_go_on(&self, position: &str, pace: &mut Backoff) -> bool {
        loop {
            match self.is_older_than(position).await {
                Ok(None) => return true,
                Ok(Some(current)) => {
                    let kind = K::Object::kind(&());
                    tracing::warn!(
                        kind = %kind, position, current,
                        "the API server has an older state; reading all objects"
                    );
                    return false;
                }
                Err(error) if error.is_not_found() => return false,
                Err(error) => warn::<K>(&error),
            }
            tokio::time::sleep(pace.next_delay()).await;
        }
    }

    /// Where the API server is, if it has not reached a position.
    async fn is_older_than(&self, position: &str) -> Result<Option<String>, Error> {
        if self.reader.has_reached(position).await? {
            return Ok(None);
        }
        let current = self.reader.position().await?;
        Ok(is_newer(position, &current).then_some(current))
    }
}

/// How a watch ended that failed. A kind that is not served any more is listed, as one that never
/// was.
fn ended<K: Watched>(error: &Error) -> WatchEnd {
    if error.is_not_found() || error.code() == Some(410) {
        return WatchEnd::Expired;
    }
    warn::<K>(error);
    WatchEnd::Early
}

fn warn<K: Watched>(error: &Error) {
    let kind = K::Object::kind(&());
    tracing::warn!(kind = %kind, error = %Chain(error), "cannot follow a kind");
}

#[cfg(test)]
mod tests;
