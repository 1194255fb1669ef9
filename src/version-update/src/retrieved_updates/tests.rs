#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use http::StatusCode;
use serde_json::{Value, json};

use super::*;

fn object(spec: Value) -> ClusterVersion {
    serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
}

fn spec() -> Value {
    json!({ "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11", "channel": "stable-4.2",
            "upstream": "https://e/graph?a=b#c" })
}

fn current(version: &str) -> Release {
    Release {
        version: version.to_owned(),
        ..Release::default()
    }
}

fn request() -> UpdatesRequest {
    UpdatesRequest::of(&object(spec()), &current("4.2.0"), None, "amd64").unwrap()
}

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn graph() -> Vec<u8> {
    let nodes = json!([{ "version": "4.2.0", "payload": "q/r@sha256:0" },
                       { "version": "4.2.1", "payload": "q/r@sha256:1" }]);
    json!({ "nodes": nodes, "edges": [[0, 1]] })
        .to_string()
        .into_bytes()
}

#[test]
fn service_of_the_command_line_goes_before_that_of_the_cluster() {
    assert_eq!(request().service, "https://e/graph?a=b#c");
    let request = UpdatesRequest::of(
        &object(spec()),
        &current("4.2.0"),
        Some("http://s/g"),
        "amd64",
    );
    assert_eq!(request.unwrap().service, "http://s/g");
    let mut without = spec();
    without["upstream"] = json!("");
    let request = UpdatesRequest::of(&object(without), &current("4.2.0"), None, "amd64");
    assert_eq!(request.unwrap().service, DEFAULT_SERVICE);
}

#[test]
fn what_is_missing_for_a_question_is_said() {
    for (field, value, version, expected) in [
        ("upstream", "nonsense", "4.2.0", "InvalidURI"),
        ("clusterID", "4f1d", "4.2.0", "InvalidID"),
        ("channel", "x", "", "NoCurrentVersion"),
        ("channel", "", "4.2.0", "NoChannel"),
        ("channel", "x", "four", "InvalidCurrentVersion"),
    ] {
        let mut spec = spec();
        spec[field] = json!(value);
        let request = UpdatesRequest::of(&object(spec), &current(version), None, "amd64");
        assert_eq!(request.unwrap_err().reason, expected);
    }
}

#[test]
fn answer_is_read_or_refused_with_the_reason() {
    let read = |status, body: &[u8]| request().read(status, body);
    assert_eq!(read(StatusCode::OK, &graph()).unwrap().offers.len(), 1);
    for (status, body, reason, message) in [
        (
            StatusCode::NOT_FOUND,
            &b""[..],
            "ResponseFailed",
            "unexpected HTTP status: 404 Not Found",
        ),
        (StatusCode::OK, b"{", "ResponseInvalid", "field "),
        (
            StatusCode::OK,
            b"{}",
            "VersionNotFound",
            "currently reconciling cluster version 4.2.0 not found in the \"stable-4.2\" channel",
        ),
    ] {
        let refused = read(status, body).unwrap_err();
        assert_eq!(refused.reason, reason);
        let text = refused.message.strip_prefix(PREFIX).unwrap();
        assert!(text.starts_with(message), "{text}");
    }
}

#[test]
fn change_to_multi_offers_the_same_version_only() {
    let mut wanted = spec();
    wanted["desiredUpdate"] = json!({ "architecture": "Multi", "version": "4.2.0" });
    let request = UpdatesRequest::of(&object(wanted), &current("4.2.0"), None, "amd64").unwrap();
    assert_eq!(request.architecture, "multi");
    let offers = request.read(StatusCode::OK, &graph()).unwrap().offers;
    assert_eq!(offers.len(), 1);
    assert_eq!(offers[0].version.to_string(), "4.2.0");
}

/// An outage of the service erases nothing for a day, and the message has the age of the updates.
/// Row 15 of `docs/reference/known-weaknesses.md`, "Version operator".
#[test]
fn advice_stays_while_the_service_is_away() {
    let request = request();
    let offers = request.read(StatusCode::OK, &graph());
    let first = RetrievedUpdates::next(None, Ok(&request), || offers, at(0));
    assert_eq!(first.message(at(0)), None);
    let away = || Err(NoUpdates::of_response("RemoteFailed", "refused"));
    let later = RetrievedUpdates::next(Some(&first), Ok(&request), away, at(150));
    assert_eq!(later.found, first.found);
    let (reason, message) = later.message(at(150)).unwrap();
    assert_eq!(reason, "RemoteFailed");
    assert_eq!(
        message,
        "Unable to retrieve available updates: refused; the advice of 1970-01-01T00:00:00Z stays, which is 2 h old"
    );
    // After a day, or for another request, they go.
    let old = RetrievedUpdates::next(Some(&later), Ok(&request), away, at(24 * 60));
    assert_eq!(old.found, None);
    let early = RetrievedUpdates::next(None, Ok(&request), away, at(0));
    assert!(early.keeps_status && !first.keeps_status && !later.keeps_status);
    assert!(RetrievedUpdates::next(Some(&early), Ok(&request), away, at(1)).keeps_status);
    let other = UpdatesRequest {
        channel: "fast".to_owned(),
        ..request.clone()
    };
    assert!(!RetrievedUpdates::next(Some(&early), Ok(&other), away, at(1)).keeps_status);
    let other = RetrievedUpdates::next(Some(&later), Ok(&other), away, at(151));
    assert_eq!(other.found, None);
    let gone = || Err(NoUpdates::of_response("VersionNotFound", "x"));
    assert_eq!(
        RetrievedUpdates::next(Some(&first), Ok(&request), gone, at(1)).found,
        None
    );
}

#[test]
fn service_is_asked_once_an_interval_and_when_the_question_changes() {
    let request = request();
    let updates = RetrievedUpdates::next(
        None,
        Ok(&request),
        || Err(NoUpdates::of_response("RemoteFailed", "x")),
        at(0),
    );
    let interval = SignedDuration::from_mins(3);
    assert!(!updates.is_due(&request, interval, at(2)));
    assert!(updates.is_due(&request, interval, at(3)));
    let other = UpdatesRequest {
        channel: "fast".to_owned(),
        ..request
    };
    assert!(updates.is_due(&other, interval, at(1)));
}
