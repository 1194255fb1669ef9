//! What the ConfigMap of signatures from stores keeps: the last ones, so that it never outgrows
//! what the API server takes.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use release::ImageDigest;
use serde_json::{Map, Value, json};

/// Signatures that are kept. Each is a kilobyte or two, and an object of the API has at most one
/// MiB.
const MOST: usize = 100;

/// Annotation with the digests in the order in which they came, as hexadecimal text with spaces
/// between. The keys of the map have no order.
const ORDER: &str = "slipway.dev/signature-order";

/// The change of the map that adds signatures of a digest and drops the oldest ones, or `map` is
/// none: the map does not exist.
///
/// Shape: a merge patch. Keys are `sha256-<digest>-<number>`. A digest that the order does not name
/// is older than all that it names. The signatures of the new digest always stay.
pub fn change(
    map: Option<&Value>,
    label: &str,
    digest: &ImageDigest,
    signatures: &[Vec<u8>],
) -> Value {
    let text = |pointer: &str| map?.pointer(pointer)?.as_str();
    let annotations = map.and_then(|map| map.pointer("/metadata/annotations"));
    let order = annotations.and_then(|annotations| annotations.get(ORDER)?.as_str());
    let mut order: Vec<&str> = order.unwrap_or_default().split_whitespace().collect();
    let new = digest.hex();
    order.retain(|digest_hex| *digest_hex != new);
    order.push(new);

    let mut data: Map<String, Value> = signatures
        .iter()
        .enumerate()
        .map(|(index, bytes)| {
            let key = format!("sha256-{new}-{index}");
            (key, Value::from(BASE64_STANDARD.encode(bytes)))
        })
        .collect();
    let entries = map.and_then(|map| map.pointer("/binaryData")?.as_object());
    let entries = entries.into_iter().flatten().map(|(key, _)| key.as_str());
    let mut others: Vec<(usize, &str)> = entries
        .filter(|key| !data.contains_key(*key))
        .map(|key| {
            let age = order
                .iter()
                .rev()
                .position(|digest_hex| *digest_hex == hex(key));
            (age.unwrap_or(usize::MAX), key)
        })
        .collect();
    others.sort_unstable();
    // What is left of the new digest's own comes first.
    let room = MOST.saturating_sub(data.len());
    let dropped = others.split_off(room.min(others.len()));
    let dropped: Vec<String> = dropped.into_iter().map(|(_, key)| key.to_owned()).collect();
    data.extend(dropped.into_iter().map(|key| (key, Value::Null)));
    order.retain(|digest_hex| {
        *digest_hex == new || others.iter().any(|(_, key)| hex(key) == *digest_hex)
    });

    let mut change = json!({
        "metadata": {
            "labels": { label: "" },
            "annotations": { ORDER: order.join(" ") },
        },
        "binaryData": data,
    });
    if let (Some(version), Some(metadata)) = (
        text("/metadata/resourceVersion"),
        change
            .pointer_mut("/metadata")
            .and_then(Value::as_object_mut),
    ) {
        // The order is of the map that was read.
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    change
}

/// The digest of a key.
fn hex(key: &str) -> &str {
    let digest = key.strip_prefix("sha256-").unwrap_or_default();
    digest.split('-').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "label";

    fn digest(number: usize) -> ImageDigest {
        ImageDigest::of(&number.to_be_bytes())
    }

    fn key(number: usize, index: usize) -> String {
        format!("sha256-{}-{index}", digest(number).hex())
    }

    /// Keys that a change removes.
    fn dropped(change: &Value) -> Vec<&str> {
        let data = change["binaryData"].as_object().unwrap();
        let dropped = data.iter().filter(|(_, value)| value.is_null());
        dropped.map(|(key, _)| key.as_str()).collect()
    }

    /// The map after a change.
    fn changed(map: Option<Value>, change: &Value) -> Value {
        let mut map = map.unwrap_or_else(|| json!({ "metadata": {}, "binaryData": {} }));
        map["metadata"]["annotations"] = change["metadata"]["annotations"].clone();
        map["metadata"]["resourceVersion"] = "2".into();
        let data = map["binaryData"].as_object_mut().unwrap();
        for (key, value) in change["binaryData"].as_object().unwrap() {
            if value.is_null() {
                data.remove(key);
            } else {
                data.insert(key.clone(), value.clone());
            }
        }
        map
    }

    #[test]
    fn map_keeps_the_last_signatures() {
        let two = [b"one".to_vec(), b"two".to_vec()];
        let mut map = None;
        // One from before there was an order, whose digest sorts anywhere.
        let first = change(None, LABEL, &digest(0), &two);
        assert_eq!(first["metadata"]["labels"], json!({ LABEL: "" }));
        assert_eq!(first["metadata"].get("resourceVersion"), None);
        map = Some(changed(map, &first));
        map.as_mut().unwrap()["metadata"]["annotations"] = json!({});
        for number in 1..50 {
            let change = change(map.as_ref(), LABEL, &digest(number), &two);
            assert_eq!(change["metadata"]["resourceVersion"], "2");
            assert!(dropped(&change).is_empty(), "{number}");
            map = Some(changed(map, &change));
        }
        // The oldest go, and one that comes again is new.
        let again = change(map.as_ref(), LABEL, &digest(1), &two);
        assert!(dropped(&again).is_empty());
        map = Some(changed(map, &again));
        for (number, oldest) in [(50, 0), (51, 2), (52, 3)] {
            let change = change(map.as_ref(), LABEL, &digest(number), &two);
            assert_eq!(
                dropped(&change),
                [key(oldest, 0), key(oldest, 1)],
                "{number}"
            );
            map = Some(changed(map, &change));
        }
        let map = map.unwrap();
        assert_eq!(map["binaryData"].as_object().unwrap().len(), MOST);
        let order = map["metadata"]["annotations"][ORDER].as_str().unwrap();
        assert_eq!(order.split(' ').count(), MOST / 2);
        assert!(order.ends_with(digest(52).hex()));
    }
}
