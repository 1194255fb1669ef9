//! The error of a response that is no success, in whatever form it came.

use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};
use kube::core::Status;

use super::error::{Error, LONGEST_RETRY, of_status};
use super::protobuf;

/// The error of a response that is no success.
pub(super) fn refused(
    method: &Method,
    path: &str,
    code: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
) -> Error {
    // Priority and fairness, proxies and load balancers respond in plain text.
    let status = serde_json::from_slice(body).ok();
    let status = status.or_else(|| protobuf::status(body));
    let mut status: Status = status.unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(body).chars().take(512).collect();
        Status::failure(text.trim(), code.canonical_reason().unwrap_or_default())
    });
    status.code = code.as_u16();
    let header = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok())
        .map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY));
    of_status(method, path, status, header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_response(code: u16, retry_after: Option<&str>, body: &str) -> Error {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        let code = StatusCode::from_u16(code).unwrap();
        let body = Bytes::copy_from_slice(body.as_bytes());
        refused(&Method::POST, "/x", code, &headers, &body)
    }

    #[test]
    fn classes_by_code() {
        let table = [
            (400, false),
            (401, true),
            (403, false),
            (404, false),
            (409, true),
            (410, false),
            (422, false),
            (429, true),
            (500, true),
            (503, true),
        ];
        for (code, transient) in table {
            assert_eq!(
                of_response(code, None, "{}").is_transient(),
                transient,
                "{code}"
            );
        }
    }

    #[test]
    fn plain_text_of_a_proxy_is_kept() {
        let error = of_response(
            429,
            Some("1"),
            "Too many requests, please try again later.\n",
        );
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
        assert_eq!(
            error.to_string(),
            "POST /x: 429 Too Many Requests: Too many requests, please try again later."
        );
    }

    #[test]
    fn wait_that_a_server_asks_for_ends() {
        let longest = u64::MAX.to_string();
        let error = of_response(429, Some(&longest), "later");
        assert_eq!(error.retry_after(), Some(LONGEST_RETRY));
        let body = r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":4294967295}}"#;
        assert_eq!(
            of_response(429, None, body).retry_after(),
            Some(LONGEST_RETRY)
        );
    }

    #[test]
    fn causes_are_said_once() {
        let body = r#"{"kind":"Status","reason":"TooManyRequests","code":429,"message":"Cannot evict pod as it would violate the pod's disruption budget.",
            "details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 5 healthy pods and has 5 currently"}]}}"#;
        let error = of_response(429, None, body);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(10)));
        assert!(error.to_string().ends_with(
            "disruption budget. (The disruption budget web needs 5 healthy pods and has 5 currently)"
        ));
    }
}
