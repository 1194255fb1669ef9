//! One kind in its cache, kept up to date.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use chassis::backoff::Backoff;
use chassis::report::Chain;
use cluster::cache::{Cache, CachedKind, WatchEvent, is_newer};
use futures::StreamExt as _;
use kube::api::{ListParams, WatchEvent as Word, WatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// Objects asked for at once: a page of Nodes is 1.5 MB of text, and its objects take several times
/// that until they are parsed.
const PAGE: u32 = 100;

/// How long one watch is asked to last: as long as the API server lets one last at least, where it
/// is not asked. A silent connection ends sooner ([`cluster::access::SILENCE`]).
const WATCH_SECS: u32 = 30 * 60;

/// A watch that lasted so long ended because its time was over.
const TIME: Duration = Duration::from_secs(WATCH_SECS as u64 - 5);

/// First and longest pause before a kind is asked for again that the API server does not serve.
const UNKNOWN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// First and longest pause between attempts. Source: those of client-go.
const PAUSE: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// A kind that is watched, and how its objects are read.
pub trait Watched: CachedKind {
    /// The object as the API server sends it; `PartialObjectMeta<T>` where its metadata is enough.
    type Object: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static;

    /// Keeps what is needed of an object. The rest is dropped at once: of a Node, nine tenths.
    fn parse(object: Self::Object) -> Self::Entry;
}

/// Which objects of a kind are watched.
pub struct WatchScope<O> {
    api: Box<dyn Fn(Client) -> Api<O> + Send + Sync>,
    labels: Option<String>,
    fields: Option<String>,
    is_optional: bool,
}

impl<O> fmt::Debug for WatchScope<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchScope")
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("is_optional", &self.is_optional)
            .finish_non_exhaustive()
    }
}

impl<O> WatchScope<O> {
    /// What is asked of a list: so many objects at once.
    fn list(&self, limit: u32) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default().limit(limit)
        }
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
        Self {
            api: Box::new(Api::all),
            labels: None,
            fields: None,
            is_optional: false,
        }
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
        let name = name.to_owned();
        Self {
            api: Box::new(move |client| Api::namespaced(client, &name)),
            labels: None,
            fields: None,
            is_optional: false,
        }
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
        api: (scope.api)(client),
        scope: &scope,
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
            Err(error) if scope.is_optional && has_code(&error, 404) => {
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
    api: Api<K::Object>,
    scope: &'a WatchScope<K::Object>,
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
    async fn read_all(&self) -> kube::Result<String> {
        let mut params = self.scope.list(PAGE);
        let mut listed = Vec::new();
        loop {
            let page = self.api.list(&params).await?;
            listed.extend(page.items.into_iter().map(K::parse));
            let next = page.metadata.continue_.filter(|next| !next.is_empty());
            let Some(next) = next else {
                self.cache.apply(WatchEvent::Synced(listed));
                // What whole pages took is not needed again.
                chassis::memory::trim_heap();
                return Ok(page.metadata.resource_version.unwrap_or_default());
            };
            params = params.continue_token(&next);
        }
    }

    /// Notes that the API server does not serve the kind; once, however often it is asked for.
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
                    let Some(current) = self.position(pace).await else {
                        return;
                    };
                    if is_newer(&position, &current) {
                        let kind = K::Object::kind(&());
                        tracing::warn!(
                            kind = %kind, position, current,
                            "the API server has an older state; reading all objects"
                        );
                        return;
                    }
                }
            }
        }
    }

    /// One watch. `position` goes on with it.
    async fn watch(&self, position: &mut String, pace: &mut Backoff) -> WatchEnd {
        let began = Instant::now();
        let params = WatchParams {
            label_selector: self.scope.labels.clone(),
            field_selector: self.scope.fields.clone(),
            timeout: Some(WATCH_SECS),
            ..WatchParams::default()
        };
        let events = match self.api.watch(&params, position).await {
            Ok(events) => events,
            Err(error) => {
                warn::<K>(&error);
                return if has_code(&error, 410) {
                    WatchEnd::Expired
                } else {
                    WatchEnd::Early
                };
            }
        };
        let mut events = pin!(events);
        loop {
            match events.next().await {
                Some(Ok(Word::Added(object) | Word::Modified(object))) => {
                    advance(position, &object);
                    self.cache.apply(WatchEvent::Applied(K::parse(object)));
                }
                Some(Ok(Word::Deleted(object))) => {
                    advance(position, &object);
                    self.cache.apply(WatchEvent::Deleted(K::parse(object)));
                }
                Some(Ok(Word::Bookmark(bookmark))) => {
                    *position = bookmark.metadata.resource_version;
                }
                Some(Ok(Word::Error(status))) if status.code == 410 => return WatchEnd::Expired,
                Some(Ok(Word::Error(status))) => {
                    warn::<K>(&kube::Error::Api(status));
                    return WatchEnd::Early;
                }
                // One object that cannot be read does not keep the others.
                Some(Err(error)) => {
                    warn::<K>(&error);
                    continue;
                }
                None if began.elapsed() >= TIME => {
                    pace.reset();
                    return WatchEnd::Time;
                }
                None => return WatchEnd::Early,
            }
            pace.reset();
        }
    }

    /// Where the API server is, once it answers; none where it does not serve the kind any more.
    async fn position(&self, pace: &mut Backoff) -> Option<String> {
        loop {
            // A list that names no version is no older than the last write.
            match self.api.list_metadata(&self.scope.list(1)).await {
                Ok(list) => return Some(list.metadata.resource_version.unwrap_or_default()),
                Err(error) if has_code(&error, 404) => return None,
                Err(error) => warn::<K>(&error),
            }
            tokio::time::sleep(pace.next_delay()).await;
        }
    }
}

/// Notes the version of an object as the position. All have one.
fn advance(position: &mut String, object: &impl ResourceExt) {
    if let Some(version) = object.resource_version() {
        *position = version;
    }
}

fn warn<K: Watched>(error: &kube::Error) {
    let kind = K::Object::kind(&());
    tracing::warn!(kind = %kind, error = %Chain(error), "cannot follow a kind");
}

/// Whether the API server answered with this code. Of a kind that it serves, a list is never not
/// found.
fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

#[cfg(test)]
mod tests;
