//! One kind in its cache, kept up to date.

use std::fmt;
use std::pin::pin;

use chassis::report::Chain;
use cluster::cache::{Cache, CachedKind, WatchEvent};
use futures::StreamExt as _;
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// Objects asked for at once: a page of Nodes is 1.5 MB of text, and its objects take several times
/// that until they are parsed.
const PAGE: u32 = 100;

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
/// One list by pages, then watches from where the last one ended; all objects are listed again only
/// when the API server does not keep that position any more.
pub(crate) async fn follow<K: Watched>(
    client: Client,
    scope: WatchScope<K::Object>,
    cache: Cache<K>,
) {
    let kind = K::Object::kind(&());
    loop {
        let api = (scope.api)(client.clone());
        let config = Config {
            label_selector: scope.labels.clone(),
            field_selector: scope.fields.clone(),
            ..Config::default().page_size(PAGE)
        };
        let mut events = pin!(watcher(api, config).default_backoff());
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => listed.push(K::parse(object)),
                Ok(Event::InitDone) => {
                    cache.apply(WatchEvent::Synced(std::mem::take(&mut listed)));
                    // What whole pages took is not needed again.
                    chassis::memory::trim_heap();
                }
                Ok(Event::Apply(object)) => cache.apply(WatchEvent::Applied(K::parse(object))),
                Ok(Event::Delete(object)) => cache.apply(WatchEvent::Deleted(K::parse(object))),
                Err(error) if scope.is_optional && is_unknown_kind(&error) => {
                    let table = cache.table();
                    // Once: it is asked for again and again.
                    if !table.has_synced() || table.values().next().is_some() {
                        tracing::info!(kind = %kind, "the API server does not serve a kind");
                        cache.apply(WatchEvent::Synced(Vec::new()));
                    }
                }
                Err(error) => {
                    tracing::warn!(kind = %kind, error = %Chain(&error), "cannot follow a kind");
                    if is_expired_at_start(&error) {
                        // kube would ask for the same position for ever.
                        break;
                    }
                }
            }
        }
    }
}

/// Whether a watch was refused because its position is too old. As an event, kube handles that.
fn is_expired_at_start(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// Whether the API server does not serve the kind. Of a kind that it serves, a list is never not
/// found.
fn is_unknown_kind(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

#[cfg(test)]
mod tests;
