//! The streams of OS images that labels of a release's images name, written into its ConfigMap.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::ReleaseRequest;
use super::problem::Fault;
use crate::manifest::Manifest;
use crate::os_streams::{OS_IMAGE, OsStream, ReleaseStreams, STREAMS_KEY};
use crate::payload::Files;
use crate::pull_spec::PullSpec;
use crate::references::References;

/// Label of an OS image and its extensions: the name of their stream.
const STREAM: &str = "io.openshift.os.streamclass";

/// Labels of an OS, and of extensions, with the values that say so in any case of letters.
const OS: [(&str, &[&str]); 2] = [
    ("containers.bootc", &["1", "true"]),
    ("ostree.bootable", &["1", "true"]),
];
const EXTENSIONS: (&str, &[&str]) = ("io.openshift.os.extensions", &["true"]);

/// Fields of the ConfigMap.
const BASE: &str = "/data/baseOSContainerImage";
const BASE_EXTENSIONS: &str = "/data/baseOSExtensionsContainerImage";

/// Whether labels say that an image is of a stream.
pub(super) fn is_of_a_stream(labels: &BTreeMap<String, String>) -> bool {
    labels.get(STREAM).is_some_and(|name| !name.is_empty())
}

/// Writes the streams into the file with the ConfigMap. The default is the stream whose image the
/// ConfigMap has for controllers that know no streams. Nothing else of the file changes but its
/// form: it is JSON then.
///
/// # Errors
/// What is wrong with labels or ConfigMap.
///
/// Source: OpenShift's MCO, which reads the same labels in the cluster.
pub(super) fn write(
    request: &ReleaseRequest,
    references: &References,
    files: &mut Files,
) -> Result<(), Fault> {
    let mut streams = labelled(request, references)?;
    let is_map =
        |manifest: &Manifest| manifest.id.kind == "ConfigMap" && manifest.id.name == OS_IMAGE;
    let found = files.iter().find_map(|(file, bytes)| {
        let manifests = Manifest::parse(file, bytes).ok()?;
        manifests
            .iter()
            .any(is_map)
            .then(|| (file.clone(), manifests))
    });
    let (file, mut manifests) = found.ok_or(Fault::NoOsMap)?;
    for manifest in manifests.iter_mut().filter(|manifest| is_map(manifest)) {
        let text = |pointer| manifest.text(pointer).unwrap_or_default().to_owned();
        let (base, extensions) = (text(BASE), text(BASE_EXTENSIONS));
        let digest = base.parse::<PullSpec>().ok();
        let is_base = |stream: &&mut OsStream| {
            let image = stream.os_image.parse::<PullSpec>().ok();
            image.is_some_and(|image| Some(image.digest()) == digest.as_ref().map(PullSpec::digest))
        };
        let mut bases = streams.iter_mut().filter(is_base);
        let default = bases.next();
        let default = default.ok_or_else(|| Fault::BaseWithoutStream(base.clone()))?;
        // It may be named by another repository, which has it, too.
        default.os_image.clone_from(&base);
        let default = default.name.clone();
        let written = ReleaseStreams::new(default, streams.clone(), &base, &extensions)?;
        let written = serde_json::to_string_pretty(&written).unwrap_or_default();
        if let Some(data) = manifest
            .object
            .pointer_mut("/data")
            .and_then(Value::as_object_mut)
        {
            data.insert(STREAMS_KEY.to_owned(), json!(written));
        }
    }
    let documents: Vec<String> = manifests
        .iter()
        .map(|manifest| format!("{:#}\n", manifest.object))
        .collect();
    let is_json = Path::new(&file)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let separator = if is_json { "" } else { "---\n" };
    files.insert(file, documents.join(separator).into_bytes());
    Ok(())
}

/// The streams of the release's images, by name. One image under two names is one.
fn labelled(request: &ReleaseRequest, references: &References) -> Result<Vec<OsStream>, Fault> {
    let mut streams: BTreeMap<&str, OsStream> = BTreeMap::new();
    for (name, tag) in &references.tags {
        let Some(image) = request.images.get(name) else {
            continue;
        };
        let Some(stream) = image.labels.get(STREAM).filter(|name| !name.is_empty()) else {
            continue;
        };
        let is = |(key, values): (&str, &[&str])| {
            let label = image.labels.get(key);
            label.is_some_and(|label| values.iter().any(|value| label.eq_ignore_ascii_case(value)))
        };
        let entry = streams.entry(stream).or_insert_with(|| OsStream {
            name: stream.clone(),
            ..OsStream::default()
        });
        // Extensions stand on an OS, and may have its labels.
        let place = if is(EXTENSIONS) {
            &mut entry.os_extensions_image
        } else if OS.into_iter().any(is) {
            &mut entry.os_image
        } else {
            return Err(Fault::NeitherOsNorExtensions(name.clone()));
        };
        let digest = |spec: &str| {
            spec.parse::<PullSpec>()
                .ok()
                .map(|spec| spec.digest().clone())
        };
        if !place.is_empty() && digest(place) != digest(&tag.from) {
            return Err(Fault::TwoOfAStream {
                stream: stream.clone(),
                image: name.clone(),
                other: place.clone(),
            });
        }
        place.clone_from(&tag.from);
    }
    Ok(streams.into_values().collect())
}
