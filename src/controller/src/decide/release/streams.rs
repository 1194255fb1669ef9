//! OSImageStream `cluster`: the streams of the release, and which of them pools have that choose
//! none.
//!
//! A release that names no streams has one OS: the stream that `spec` names is that OS, and nothing
//! is written where it names none. Streams of other programs stay. Those that a former release
//! brought go with it: a pool that names one is not rendered, and its nodes keep what they run.

use std::collections::BTreeSet;

use api::machineconfiguration::os_image_stream::{self, AvailableStream, OsImageStreamStatus};
use api::machineconfiguration::{OSImageStream, annotation};
use release::os_streams::{OsStream, ReleaseStreams};
use serde_json::{Value, json};

use super::images::{Error, ReleaseImages};

/// What is to be written next. Each patch is guarded by the version of the object that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamWrite {
    /// The object, which is not there.
    Create(Value),
    /// Which streams are a release's.
    Mark(Value),
    /// The streams.
    Status(Value),
}

/// What the object is to hold, and what is the release's of it.
#[derive(Debug)]
struct Wanted {
    status: OsImageStreamStatus,
    /// Names that the release brings.
    own: BTreeSet<String>,
    /// Whether the stream of pools that choose none is neither the release's nor another program's.
    /// It stays listed with the images that it had, so that another one can be chosen.
    has_lost_default: bool,
}

/// The next write; nothing where all is as it has to be.
///
/// A name is marked as the release's before the stream is there, and unmarked only after it has
/// gone. So none of a former release is ever taken for another program's, wherever this stops.
pub fn next(object: Option<&OSImageStream>, images: &ReleaseImages) -> Option<StreamWrite> {
    let Some(object) = object else {
        let streams = images.streams.as_ref()?;
        let names = streams.streams().iter();
        let names = joined(&names.map(|stream| stream.name.clone()).collect());
        return Some(StreamWrite::Create(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "OSImageStream",
            "metadata": {
                "name": os_image_stream::NAME,
                "annotations": { (annotation::RELEASE_STREAMS): names }
            },
            "spec": { "defaultStream": streams.default_stream() }
        })));
    };
    let wanted = wanted(object, images)?;
    let version = &object.metadata.resource_version;
    let mark = |names: &BTreeSet<String>| {
        StreamWrite::Mark(json!({ "metadata": {
            "resourceVersion": version,
            "annotations": { (annotation::RELEASE_STREAMS): joined(names) }
        } }))
    };
    let marked = marked(object);
    // An object of a release that never had streams gets no marks.
    let has_marks = images.streams.is_some() || marked.is_some();
    let known = marked.unwrap_or_default();
    if has_marks && !wanted.own.is_subset(&known) {
        return Some(mark(&(&wanted.own | &brought(object))));
    }
    if object.status.as_ref() != Some(&wanted.status) {
        return Some(StreamWrite::Status(json!({
            "metadata": { "resourceVersion": version },
            "status": wanted.status
        })));
    }
    let listed = wanted.status.available_streams.iter();
    let listed: BTreeSet<String> = listed.map(|stream| stream.name.clone()).collect();
    let kept = &known & &listed;
    (has_marks && kept != known).then(|| mark(&kept))
}

/// The status as it is to be with this release, also where there is no object yet; nothing where
/// neither the release nor the object names a stream.
pub fn planned(
    object: Option<&OSImageStream>,
    images: &ReleaseImages,
) -> Option<OsImageStreamStatus> {
    let made;
    let object = if let Some(object) = object {
        object
    } else {
        let default = images.streams.as_ref()?.default_stream().to_owned();
        made = OSImageStream {
            spec: os_image_stream::OsImageStreamSpec {
                default_stream: default,
            },
            ..OSImageStream::default()
        };
        &made
    };
    Some(wanted(object, images)?.status)
}

/// The release's images with those of the stream that pools have which choose none, for all that
/// knows no streams.
///
/// # Errors
/// [`Error::LostDefault`]: the release does not have that stream, so that it is not known which OS
/// these pools are to have.
pub fn followed(
    mut images: ReleaseImages,
    object: Option<&OSImageStream>,
) -> Result<ReleaseImages, Error> {
    let (Some(streams), Some(object)) = (&images.streams, object) else {
        return Ok(images);
    };
    let Some(wanted) = wanted(object, &images) else {
        return Ok(images);
    };
    let default = &wanted.status.default_stream;
    if wanted.has_lost_default {
        let streams = streams.streams().iter().map(|stream| stream.name.as_str());
        return Err(Error::LostDefault {
            lost: default.clone(),
            streams: streams.collect::<Vec<_>>().join(", "),
        });
    }
    let mut available = wanted.status.available_streams.into_iter();
    if let Some(stream) = available.find(|stream| stream.name == *default) {
        images.os = stream.os_image;
        images.extensions = stream.os_extensions_image;
    }
    Ok(images)
}

/// That `spec.defaultStream` names no stream, if so, and what pools have instead.
pub fn unknown_default(object: &OSImageStream) -> Option<String> {
    let asked = &object.spec.default_stream;
    let status = object.status.as_ref()?;
    let is_unknown = !asked.is_empty() && object.stream(asked).is_none();
    is_unknown.then(|| {
        format!(
            "OSImageStream {}: spec.defaultStream {asked} is no stream of status.availableStreams ({}); pools that choose none stay on {}",
            os_image_stream::NAME,
            object.stream_names(),
            status.default_stream
        )
    })
}

fn wanted(object: &OSImageStream, images: &ReleaseImages) -> Option<Wanted> {
    let asked = &object.spec.default_stream;
    let release = match &images.streams {
        Some(streams) => streams.streams().iter().map(available).collect(),
        None if asked.is_empty() => return None,
        None => vec![AvailableStream {
            name: asked.clone(),
            os_extensions_image: images.extensions.clone(),
            os_image: images.os.clone(),
        }],
    };
    let own: BTreeSet<String> = release.iter().map(|stream| stream.name.clone()).collect();
    let before = object.status.clone().unwrap_or_default();
    let former = &brought(object) | &own;
    let (gone, others): (Vec<_>, Vec<_>) = before
        .available_streams
        .into_iter()
        .partition(|stream| former.contains(&stream.name));
    let mut available: Vec<AvailableStream> = release.into_iter().chain(others).collect();
    let has = |available: &[AvailableStream], name: &str| {
        available.iter().any(|stream| stream.name == name)
    };
    let builtin = images.streams.as_ref().map(ReleaseStreams::default_stream);
    let default = if has(&available, asked) {
        asked.clone()
    } else if before.default_stream.is_empty() {
        // Of a release without streams, the one that is asked for is listed.
        let named = Some(asked.as_str()).filter(|asked| !asked.is_empty());
        named.or(builtin).unwrap_or_default().to_owned()
    } else {
        before.default_stream
    };
    let has_lost_default = !has(&available, &default);
    if has_lost_default {
        available.extend(gone.into_iter().filter(|stream| stream.name == default));
    }
    available.sort_by(|one, other| one.name.cmp(&other.name));
    Some(Wanted {
        status: OsImageStreamStatus {
            available_streams: available,
            default_stream: default,
        },
        own,
        has_lost_default,
    })
}

fn available(stream: &OsStream) -> AvailableStream {
    AvailableStream {
        name: stream.name.clone(),
        os_extensions_image: stream.os_extensions_image.clone(),
        os_image: stream.os_image.clone(),
    }
}

/// Names of the streams that a release brought, this one or a former one.
///
/// Before a release had streams, that was the one that `spec` names. Of an object that OpenShift's
/// MCO wrote, it is all: that operator writes the list as a whole.
fn brought(object: &OSImageStream) -> BTreeSet<String> {
    if let Some(marked) = marked(object) {
        return marked;
    }
    let annotations = object.metadata.annotations.as_ref();
    let is_upstreams =
        annotations.is_some_and(|it| it.contains_key(annotation::RELEASE_IMAGE_VERSION));
    if is_upstreams {
        let status = object.status.iter();
        let streams = status.flat_map(|status| &status.available_streams);
        return streams.map(|stream| stream.name.clone()).collect();
    }
    BTreeSet::from([object.spec.default_stream.clone()])
}

fn marked(object: &OSImageStream) -> Option<BTreeSet<String>> {
    let annotations = object.metadata.annotations.as_ref()?;
    let names = annotations.get(annotation::RELEASE_STREAMS)?.split(',');
    let names = names.map(str::trim).filter(|name| !name.is_empty());
    Some(names.map(ToOwned::to_owned).collect())
}

fn joined(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(",")
}

#[cfg(test)]
mod tests;
