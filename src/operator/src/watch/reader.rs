//! The requests for the objects of a kind, in the form that it names.

use std::collections::HashMap;
use std::hash::RandomState;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster::cache::Cache;
use cluster::wire::protobuf::{self, Bytes, DecodeError, Page, unread};
use cluster::wire::{self, Error, ObjectEvent, RequestBody, escape};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Head, ProtobufForm, WATCH, WatchForm, WatchScope, Watched};
use crate::runtime::note_heartbeat;

/// Reads the objects of a scope.
pub(super) struct KindReader<'a, K: Watched> {
    client: Client,
    scope: &'a WatchScope<K::Object>,
    cache: &'a Cache<K>,
    seen: Mutex<Seen>,
}

/// The events of a watch.
pub(super) type Events<'a, T> = BoxStream<'a, Result<ObjectEvent<T>, Error>>;

#[derive(Deserialize)]
struct List<T> {
    metadata: ListMetadata,
    // The API server writes `null` for no objects at all.
    items: Option<Vec<T>>,
}

#[derive(Deserialize)]
struct ListHead {
    metadata: ListMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

impl<'a, K: Watched> KindReader<'a, K> {
    pub(super) fn new(
        client: Client,
        scope: &'a WatchScope<K::Object>,
        cache: &'a Cache<K>,
    ) -> Self {
        Self {
            client,
            scope,
            cache,
            seen: Mutex::default(),
        }
    }

    /// At most `limit` objects; the first ones where `next` is empty.
    pub(super) async fn page(&self, limit: u32, next: &str) -> Result<Page<K::Entry>, Error> {
        let mut query = format!("limit={limit}");
        if !next.is_empty() {
            query.push_str("&continue=");
            query.push_str(&escape(next));
        }
        let path = self.scope.request(&query);
        if let WatchForm::Protobuf(form) = K::FORM {
            let page = protobuf::page(&self.client, &path).await?;
            if next.is_empty() {
                self.seen().last.clear();
            }
            let items = page.items.into_iter().map(|bytes| {
                let head = (form.head)(&bytes, &self.seen().hasher)?;
                self.seen().note(&head);
                (form.decode)(bytes)
            });
            let items = items.collect::<Result<_, _>>();
            return Ok(Page {
                items: items.map_err(|source| unread(&path, source))?,
                resource_version: page.resource_version,
                r#continue: page.r#continue,
            });
        }
        let body = match K::FORM {
            WatchForm::Metadata => RequestBody::MetadataList,
            WatchForm::Whole | WatchForm::Protobuf(_) => RequestBody::Empty,
        };
        let list: List<K::Object> = wire::send(&self.client, Method::GET, &path, body).await?;
        Ok(Page {
            items: list.items.into_iter().flatten().map(K::parse).collect(),
            resource_version: list.metadata.resource_version,
            r#continue: list.metadata.r#continue,
        })
    }

    /// Watches from a position. The event of an object that has only another version than in the
    /// cache is a bookmark; the cache has it already.
    pub(super) async fn watch(&self, position: &str) -> Result<Events<'_, K::Entry>, Error> {
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={position}",
            WATCH.as_secs()
        );
        let path = self.scope.request(&query);
        if let WatchForm::Protobuf(form) = K::FORM {
            let events = protobuf::watch(&self.client, &path).await?;
            let entries = events.map(move |event| {
                let read = self.read(&form, event?);
                read.map_err(|source| unread(&path, source))
            });
            return Ok(entries.boxed());
        }
        let body = match K::FORM {
            WatchForm::Metadata => RequestBody::Metadata,
            WatchForm::Whole | WatchForm::Protobuf(_) => RequestBody::Empty,
        };
        let events = wire::watch::<K::Object>(&self.client, &path, body).await?;
        let entries = events.map(|event| event.map(|event| event.map(K::parse)));
        Ok(entries.boxed())
    }

    /// Whether the API server is certain to have reached a position. Where it is undetermined,
    /// [`Self::position`] tells.
    ///
    /// Of a kind with many objects, which has the protobuf form, it is cheaper than a list: the API
    /// server reads one object from its memory once that is as new as the position. It need not be
    /// there.
    pub(super) async fn has_reached(&self, position: &str) -> Result<bool, Error> {
        let WatchForm::Protobuf(_) = K::FORM else {
            return Ok(false);
        };
        let name = self
            .cache
            .table()
            .values()
            .next()
            .map(|it| K::name(it).to_owned());
        let Some(name) = name else {
            return Ok(false);
        };
        let path = self
            .scope
            .object(&name, &format!("resourceVersion={position}"));
        let (get, head) = (Method::GET, RequestBody::Metadata);
        match wire::send::<IgnoredAny>(&self.client, get, &path, head).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) if error.is_version_to_come() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where the API server is.
    pub(super) async fn position(&self) -> Result<String, Error> {
        // A list that names no version is no older than the last write.
        let path = self.scope.request("limit=1");
        let (get, heads) = (Method::GET, RequestBody::MetadataList);
        let list: ListHead = wire::send(&self.client, get, &path, heads).await?;
        Ok(list.metadata.resource_version)
    }

    fn read(
        &self,
        form: &ProtobufForm<K::Entry>,
        event: ObjectEvent<Bytes>,
    ) -> Result<ObjectEvent<K::Entry>, DecodeError> {
        Ok(match event {
            ObjectEvent::Applied(bytes) => {
                let mut seen = self.seen();
                let head = (form.head)(&bytes, &seen.hasher)?;
                // Where a write of ours was faster than the watch, the cache has another object.
                let is_heartbeat = seen.note(&head).is_some_and(|before| {
                    self.cache.renew(&head.name, &before, |entry| {
                        (form.renew)(entry, head.version.clone());
                    })
                });
                if is_heartbeat {
                    note_heartbeat();
                    ObjectEvent::Bookmark(head.version)
                } else {
                    ObjectEvent::Applied((form.decode)(bytes)?)
                }
            }
            ObjectEvent::Deleted(bytes) => {
                let entry = (form.decode)(bytes)?;
                self.seen().last.remove(K::name(&entry));
                ObjectEvent::Deleted(entry)
            }
            ObjectEvent::Bookmark(version) => ObjectEvent::Bookmark(version),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing panics while it is held.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What lists and watches have brought: it tells heartbeats from changes.
#[derive(Default)]
struct Seen {
    hasher: RandomState,
    /// By name version and content.
    last: HashMap<String, (String, u64)>,
}

impl Seen {
    /// Keeps what an object is now. The version that came before, if it has the same content.
    fn note(&mut self, head: &Head) -> Option<String> {
        let Some((version, content)) = self.last.get_mut(&head.name) else {
            let now = (head.version.clone(), head.content);
            self.last.insert(head.name.clone(), now);
            return None;
        };
        let before = mem::replace(version, head.version.clone());
        (mem::replace(content, head.content) == head.content).then_some(before)
    }
}
