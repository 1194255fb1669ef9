use std::num::NonZeroU64;

use serde_json::{Value, json};

use super::*;

fn spec(text: Value) -> RolloutPolicySpec {
    serde_json::from_value(text).unwrap()
}

#[test]
fn what_cannot_be_followed_is_named_by_its_field() {
    for (text, expected) in [
        (
            json!({ "windows": [{ "name": "", "start": "22:00", "minutes": 5 }] }),
            "spec.windows[0].name: \"\" is empty or stands twice",
        ),
        (
            json!({ "windows": [{ "name": "n", "start": "22:00", "minutes": 5, "timeZone": "Mars" }] }),
            "spec.windows[0].timeZone: \"Mars\" is no time zone such as Europe/Berlin",
        ),
        (
            json!({ "windows": [{ "name": "n", "start": "10 pm", "minutes": 5 }] }),
            "spec.windows[0].start: \"10 pm\" is no time such as 22:30",
        ),
        (
            json!({ "analysis": [{ "name": "n", "query": "up" }] }),
            "spec.analysis: it needs canaries or waves that the others follow",
        ),
        (
            json!({ "canaries": {}, "analysis": [{ "name": "n", "query": " " }] }),
            "spec.analysis[0].query: it is empty",
        ),
        (
            json!({ "quarantine": { "drainLimit": "0s" } }),
            "spec.quarantine.drainLimit: a drain takes some time; it must be more than 0",
        ),
        (
            json!({ "quarantine": { "drainLimit": "1h", "maxNodes": -1 } }),
            "spec.quarantine.maxNodes: -1 is not a number of nodes",
        ),
        (
            json!({ "pinnedImagePulls": 0 }),
            "spec.pinnedImagePulls: at least one node pulls at a time",
        ),
        (
            json!({ "pinnedImagePulls": "0%" }),
            "spec.pinnedImagePulls: at least one node pulls at a time",
        ),
        (
            json!({ "pinnedImagePulls": -2 }),
            "spec.pinnedImagePulls: -2 is not a number of nodes",
        ),
        (
            json!({ "pinnedImagePulls": "some" }),
            "spec.pinnedImagePulls: \"some\" is neither a number nor a percentage from \"0%\" to \"100%\"",
        ),
        (
            json!({ "startAfter": "tomorrow" }),
            "spec.startAfter: \"tomorrow\" is no time such as 2026-01-31T22:00:00Z",
        ),
        (
            json!({ "canaries": { "count": 0 } }),
            "spec.canaries.count: 0 is not a number of canaries",
        ),
        (
            json!({ "canaries": { "count": 1, "nodeSelector": { "matchLabels": { "a": "b" } } } }),
            "spec.canaries.count: it is set together with spec.canaries.nodeSelector",
        ),
        (
            json!({ "canaries": { "nodeSelector": {} } }),
            "spec.canaries.nodeSelector: it selects all nodes; a canary needs others that follow",
        ),
        (
            json!({ "canaries": { "nodeSelector": { "matchExpressions": [{ "key": "a", "operator": "Is" }] } } }),
            "spec.canaries.nodeSelector: there is no operator \"Is\" (on key a)",
        ),
        (
            json!({ "canaries": { "soak": "long" } }),
            "spec.canaries.soak: \"long\" is no duration such as 30m or 1h30m",
        ),
        (
            json!({ "canaries": { "soak": "-5m" } }),
            "spec.canaries.soak: \"-5m\" is no duration such as 30m or 1h30m",
        ),
        (
            json!({ "waves": [{ "size": 1 }, { "size": "0%" }] }),
            "spec.waves[1].size: a wave has at least one node",
        ),
        (
            json!({ "waves": [{ "size": "120%" }] }),
            "spec.waves[0].size: \"120%\" is neither a number nor a percentage from \"0%\" to \"100%\"",
        ),
        (
            json!({ "waves": [{ "size": 1, "soak": "5" }] }),
            "spec.waves[0].soak: \"5\" is no duration such as 30m or 1h30m",
        ),
        (
            json!({ "haltAboveFailures": -1 }),
            "spec.haltAboveFailures: -1 is not a number of nodes",
        ),
        (
            json!({ "order": ["zone", "size"] }),
            "spec.order[1]: \"size\" is none of zone, oldest, newest, fewestBlockedPods and label:<key>",
        ),
    ] {
        let error = RolloutPolicy::parse(&spec(text)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_limit_of_fetches_that_is_none_is_named() {
    for (text, expected) in [
        (
            json!({ "prefetchBytesPerSecond": "20 MB" }),
            "spec.prefetchBytesPerSecond: \"20 MB\" is no quantity of bytes such as 20M or 16Mi",
        ),
        (
            json!({ "prefetchBytesPerSecond": "" }),
            "spec.prefetchBytesPerSecond: \"\" is no quantity of bytes such as 20M or 16Mi",
        ),
        (
            json!({ "prefetchBytesPerSecond": 0 }),
            "spec.prefetchBytesPerSecond: 0 is less than 64Ki, below which registries disconnect",
        ),
        (
            json!({ "prefetchBytesPerSecond": "-20M" }),
            "spec.prefetchBytesPerSecond: \"-20M\" is less than 64Ki, below which registries disconnect",
        ),
        (
            json!({ "prefetchBytesPerSecond": "65535" }),
            "spec.prefetchBytesPerSecond: \"65535\" is less than 64Ki, below which registries disconnect",
        ),
    ] {
        let error = RolloutPolicy::parse(&spec(text)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_limit_of_fetches_is_a_quantity_or_a_number() {
    for (written, bytes) in [
        (json!("64Ki"), 65_536),
        (json!("20M"), 20_000_000),
        (json!("1.5Mi"), 1_572_864),
        (json!(20_000_000), 20_000_000),
        (json!("100000000000G"), u64::MAX),
    ] {
        let policy =
            RolloutPolicy::parse(&spec(json!({ "prefetchBytesPerSecond": written }))).unwrap();
        let limit = policy.prefetch_bytes_per_second();
        assert_eq!(limit.map(NonZeroU64::get), Some(bytes));
    }
    assert_eq!(
        RolloutPolicy::parse(&spec(json!({})))
            .unwrap()
            .prefetch_bytes_per_second(),
        None
    );
}

#[test]
fn pulls_of_pinned_images_are_a_number_or_a_share_of_the_pool() {
    for (text, size, expected) in [
        (json!({}), 3, usize::MAX),
        (json!({ "pinnedImagePulls": 4 }), 3, 4),
        (json!({ "pinnedImagePulls": "10%" }), 29, 2),
        // Rounded down, and at least one.
        (json!({ "pinnedImagePulls": "10%" }), 3, 1),
    ] {
        let policy = RolloutPolicy::parse(&spec(text.clone())).unwrap();
        assert_eq!(policy.pinned_image_pulls(size), expected, "{text} {size}");
    }
}
