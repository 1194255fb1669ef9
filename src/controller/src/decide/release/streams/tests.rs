use release::os_streams::ReleaseStreams;

use super::*;
use crate::fixture::{merge, read};

fn image(of: &str) -> String {
    let digit = of.as_bytes()[0] % 16;
    format!("r.example/{of}@sha256:{}", format!("{digit:x}").repeat(64))
}

fn stream(name: &str, of: &str) -> Value {
    json!({ "name": name, "osImage": image(of), "osExtensionsImage": "" })
}

/// Images of a release of one OS.
fn one() -> ReleaseImages {
    ReleaseImages {
        os: image("one"),
        ..ReleaseImages::default()
    }
}

/// Images of a release with these streams, of which the first is the default.
fn several(names: &[&str]) -> ReleaseImages {
    let os = image(&format!("{}-new", names[0]));
    let streams = names.iter();
    let streams: Vec<Value> = streams
        .map(|name| stream(name, &format!("{name}-new")))
        .collect();
    let text = json!({ "defaultStream": names[0], "availableStreams": streams });
    ReleaseImages {
        streams: Some(ReleaseStreams::parse(&text.to_string(), &os, "").unwrap()),
        os,
        ..ReleaseImages::default()
    }
}

/// The object with these names marked, if any are, and these streams.
fn object(marks: Option<&str>, default: [&str; 2], streams: &[Value]) -> OSImageStream {
    let mut object = json!({
        "metadata": { "name": "cluster", "resourceVersion": "3" },
        "spec": { "defaultStream": default[0] },
        "status": { "availableStreams": streams, "defaultStream": default[1] }
    });
    if let Some(marks) = marks {
        object["metadata"]["annotations"] = json!({ "slipway.dev/release-streams": marks });
    }
    read(&object)
}

/// Writes until nothing is left, as an API server would: what was written in between, and the last
/// state.
fn settle(
    object: Option<OSImageStream>,
    images: &ReleaseImages,
) -> (Vec<StreamWrite>, Option<OSImageStream>) {
    let mut object = object;
    let mut writes = Vec::new();
    while let Some(write) = next(object.as_ref(), images) {
        writes.push(write.clone());
        assert!(writes.len() < 6, "{writes:?}");
        object = Some(match write {
            StreamWrite::Create(mut created) => {
                created["metadata"]["resourceVersion"] = json!("3");
                read(&created)
            }
            StreamWrite::Mark(change) | StreamWrite::Status(change) => {
                let mut before = serde_json::to_value(object.unwrap()).unwrap();
                assert_eq!(change["metadata"]["resourceVersion"], "3");
                merge(&mut before, &change);
                read(&before)
            }
        });
    }
    (writes, object)
}

fn state(object: &OSImageStream) -> (Value, String) {
    let marks = object.metadata.annotations.clone().unwrap_or_default();
    let marks = marks.get(annotation::RELEASE_STREAMS).cloned();
    (
        serde_json::to_value(&object.status).unwrap(),
        marks.unwrap_or_default(),
    )
}

fn status(default: &str, streams: &[Value]) -> Value {
    json!({ "availableStreams": streams, "defaultStream": default })
}

#[test]
fn a_release_of_one_os_gives_its_image_to_the_stream_that_is_named_and_others_stay() {
    let before = object(
        None,
        ["own"; 2],
        &[stream("own", "old"), stream("other", "x")],
    );
    let (writes, after) = settle(Some(before), &one());
    assert_eq!(writes.len(), 1);
    let streams = [stream("other", "x"), stream("own", "one")];
    let expected = (status("own", &streams), String::new());
    assert_eq!(state(&after.unwrap()), expected);
    // Nothing is written without a name or an object.
    assert_eq!(next(Some(&object(None, ["", ""], &[])), &one()), None);
    assert_eq!(next(None, &one()), None);
}

#[test]
fn the_object_is_made_with_the_streams_of_the_release_and_its_default() {
    let (writes, after) = settle(None, &several(&["b", "a"]));
    assert!(matches!(
        &writes[..],
        [StreamWrite::Create(_), StreamWrite::Status(_)]
    ));
    let after = after.unwrap();
    assert_eq!(after.spec.default_stream, "b");
    let streams = [stream("a", "a-new"), stream("b", "b-new")];
    assert_eq!(state(&after), (status("b", &streams), "a,b".to_owned()));
    assert_eq!(
        planned(None, &several(&["b", "a"])),
        after.status,
        "what is planned is what is written"
    );
}

#[test]
fn streams_of_a_former_release_go_and_those_of_others_stay() {
    let table = [
        // (what is marked, streams before, streams after)
        (Some("a,b"), ["a", "b", "x"], vec!["a", "c", "x"]),
        // Of an object without marks the former release's was the named one.
        (None, ["a", "b", "x"], vec!["a", "b", "c", "x"]),
        // A name of the release is the release's, though another program wrote it.
        (Some("a"), ["a", "c", "x"], vec!["a", "c", "x"]),
    ];
    for (marks, before, expected) in table {
        let streams = before.map(|name| stream(name, &format!("{name}-old")));
        let (writes, after) = settle(
            Some(object(marks, ["a"; 2], &streams)),
            &several(&["c", "a"]),
        );
        let own = ["a", "c"];
        let expected: Vec<Value> = expected
            .into_iter()
            .map(|name| {
                let age = if own.contains(&name) { "new" } else { "old" };
                stream(name, &format!("{name}-{age}"))
            })
            .collect();
        let expected = (status("a", &expected), "a,c".to_owned());
        assert_eq!(state(&after.unwrap()), expected, "{marks:?} {writes:?}");
    }
}

#[test]
fn all_streams_of_an_object_that_openshift_wrote_are_a_release_s() {
    let streams = ["rhel-9", "rhel-10"].map(|name| stream(name, "old"));
    let mut before = object(None, ["rhel-9"; 2], &streams);
    let key = annotation::RELEASE_IMAGE_VERSION.to_owned();
    before.metadata.annotations = Some([(key, "hash".to_owned())].into());
    let (_, after) = settle(Some(before), &several(&["rhel-9"]));
    let expected = status("rhel-9", &[stream("rhel-9", "rhel-9-new")]);
    assert_eq!(state(&after.unwrap()), (expected, "rhel-9".to_owned()));
}

/// A process that is stopped after any write leaves nothing that a later release takes for another
/// program's.
#[test]
fn a_release_that_is_left_half_way_leaves_no_stream() {
    let streams = ["a", "b"].map(|name| stream(name, "old"));
    let mut object = object(Some("a,b"), ["a"; 2], &streams);
    loop {
        let (_, after) = settle(Some(object.clone()), &several(&["a", "d"]));
        let streams = ["a", "d"].map(|name| stream(name, &format!("{name}-new")));
        assert_eq!(
            state(&after.unwrap()),
            (status("a", &streams), "a,d".to_owned())
        );
        let Some(StreamWrite::Mark(change) | StreamWrite::Status(change)) =
            next(Some(&object), &several(&["a", "c"]))
        else {
            break;
        };
        let mut value = serde_json::to_value(&object).unwrap();
        merge(&mut value, &change);
        object = read(&value);
    }
}

#[test]
fn the_default_is_the_cluster_s_choice_while_there_is_such_a_stream() {
    let table = [
        // (spec, status before, status after)
        ("a", "b", "a"),
        ("b", "", "b"),
        // Another program's stream can be the default.
        ("x", "b", "x"),
        ("gone", "b", "b"),
        ("", "b", "b"),
        ("", "", "a"),
    ];
    for (spec, before, expected) in table {
        let streams = ["a", "b", "x"].map(|name| stream(name, &format!("{name}-new")));
        let before = object(Some("a,b"), [spec, before], &streams);
        let images = several(&["a", "b"]);
        let (_, after) = settle(Some(before), &images);
        let after = after.unwrap();
        let status = after.status.clone().unwrap();
        assert_eq!(status.default_stream, expected, "{spec}");
        let followed = followed(images, Some(&after)).unwrap();
        assert_eq!(followed.os, image(&format!("{expected}-new")), "{spec}");
        let why = unknown_default(&after);
        let text = "OSImageStream cluster: spec.defaultStream gone is no stream of status.availableStreams (a, b, x); pools that choose none stay on b";
        let text = (spec == "gone").then(|| text.to_owned());
        assert_eq!(why, text);
    }
}

#[test]
fn a_default_that_the_release_lacks_stays_listed_until_another_is_chosen() {
    let streams = ["a", "b"].map(|name| stream(name, &format!("{name}-old")));
    let before = object(Some("a,b"), ["a"; 2], &streams);
    let images = several(&["c", "b"]);
    let (_, lost) = settle(Some(before), &images);
    let lost = lost.unwrap();
    let streams = [
        stream("a", "a-old"),
        stream("b", "b-new"),
        stream("c", "c-new"),
    ];
    assert_eq!(state(&lost), (status("a", &streams), "a,b,c".to_owned()));
    let why = followed(images.clone(), Some(&lost)).unwrap_err();
    assert_eq!(
        why.to_string(),
        "OSImageStream cluster: stream a, which pools have that choose none, is none of the release's (b, c): name one of these in spec.defaultStream"
    );
    let mut chosen = lost;
    "b".clone_into(&mut chosen.spec.default_stream);
    let (_, after) = settle(Some(chosen), &images);
    let after = after.unwrap();
    let streams = [stream("b", "b-new"), stream("c", "c-new")];
    assert_eq!(state(&after), (status("b", &streams), "b,c".to_owned()));
    assert_eq!(followed(images, Some(&after)).unwrap().os, image("b-new"));
}

#[test]
fn a_release_without_streams_removes_those_of_the_former_one() {
    let streams = ["a", "b"].map(|name| stream(name, "old"));
    let before = object(Some("a,b"), ["a"; 2], &streams);
    let (_, after) = settle(Some(before), &one());
    let expected = status("a", &[stream("a", "one")]);
    assert_eq!(state(&after.unwrap()), (expected, "a".to_owned()));
}
