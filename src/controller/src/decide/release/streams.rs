//! OSImageStream: the stream that its `spec` names is the release's own OS.
//!
//! A release has one OS. Streams of other names belong to the programs that wrote them, and stay.

use api::machineconfiguration::OSImageStream;
use api::machineconfiguration::os_image_stream::AvailableStream;
use serde_json::{Value, json};

use super::images::ReleaseImages;

/// The patch of the status, guarded by the version of the object that was read; nothing where it is
/// as it has to be, or no stream is named.
pub fn change(object: &OSImageStream, images: &ReleaseImages) -> Option<Value> {
    let name = &object.spec.default_stream;
    if name.is_empty() {
        return None;
    }
    let before = object.status.clone().unwrap_or_default();
    let own = AvailableStream {
        name: name.clone(),
        os_extensions_image: images.extensions.clone(),
        os_image: images.os.clone(),
    };
    let mut after = before.clone();
    after.default_stream.clone_from(name);
    let mut streams = after.available_streams.iter_mut();
    match streams.find(|stream| stream.name == own.name) {
        Some(stream) => *stream = own,
        None => after.available_streams.push(own),
    }
    (after != before).then(|| {
        json!({
            "metadata": { "resourceVersion": object.metadata.resource_version },
            "status": after
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> ReleaseImages {
        ReleaseImages {
            os: "os-new".to_owned(),
            extensions: "extensions-new".to_owned(),
            ..ReleaseImages::default()
        }
    }

    fn object(default: &str, streams: &Value) -> OSImageStream {
        serde_json::from_value(json!({
            "metadata": { "name": "cluster", "resourceVersion": "3" },
            "spec": { "defaultStream": default },
            "status": { "availableStreams": streams, "defaultStream": default }
        }))
        .unwrap()
    }

    fn stream(name: &str, of: &str) -> Value {
        json!({
            "name": name, "osImage": format!("os-{of}"), "osExtensionsImage": format!("extensions-{of}")
        })
    }

    #[test]
    fn the_named_stream_has_the_images_of_the_release_and_others_stay() {
        let before = object(
            "own",
            &json!([stream("own", "old"), stream("other", "old")]),
        );
        let expected = json!({
            "metadata": { "resourceVersion": "3" },
            "status": {
                "availableStreams": [stream("own", "new"), stream("other", "old")],
                "defaultStream": "own"
            }
        });
        assert_eq!(change(&before, &images()), Some(expected));
        let first = object("own", &json!([]));
        let streams = change(&first, &images()).unwrap();
        assert_eq!(
            streams["status"]["availableStreams"],
            json!([stream("own", "new")])
        );
    }

    #[test]
    fn nothing_is_written_twice_or_without_a_name() {
        let done = object("own", &json!([stream("own", "new")]));
        assert_eq!(change(&done, &images()), None);
        assert_eq!(change(&object("", &json!([])), &images()), None);
    }
}
