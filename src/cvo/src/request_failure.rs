//! What a request that failed means for the release.

use cluster::apply::Error as ApplyError;
use cluster::{discovery, wire};
use version_update::failure::{Effect, Failure, FailureSubject};

pub(crate) fn of_request(task: &str, error: &ApplyError) -> Failure {
    let (reason, cause, summary) = classify(error);
    let mut message = format!("Could not update {task}");
    if !cause.is_empty() {
        message = format!("{message}: {cause}");
    }
    // What the API server says is what an administrator needs; upstream leaves it out.
    if let Some(detail) = detail(error) {
        message = format!("{message} ({detail})");
    }
    Failure {
        reason: reason.to_owned(),
        message,
        summary: if summary.is_empty() {
            cause.replace("server", "control plane")
        } else {
            summary.to_owned()
        },
        effect: Effect::Fail,
        subject: FailureSubject::Other,
        detail: None,
    }
}

/// Whether the API server says that an object cannot become what a release has.
pub(crate) fn is_immutable(error: &ApplyError) -> bool {
    let ApplyError::Request { source, .. } = error else {
        return false;
    };
    let wire::Error::Refused { status, .. } = source else {
        return false;
    };
    status.code == 422 && status.message.contains("field is immutable")
}

/// Reason, cause, and summary where it is not the cause.
///
/// Source: `docs/reference/cvo.md`, "Waiting and failing".
fn classify(error: &ApplyError) -> (&'static str, &'static str, &'static str) {
    const DOWN: (&str, &str, &str) = (
        "UpdatePayloadClusterDown",
        "the server is down or not responding",
        "",
    );
    const MISSING: (&str, &str, &str) = (
        "UpdatePayloadResourceTypeMissing",
        "the server does not recognize this resource, check extension API servers",
        "a required extension is not available to update",
    );
    let request = match error {
        ApplyError::Conflicts { .. } => return conflict(),
        ApplyError::Incomplete { .. } => {
            return ("UpdatePayloadFailed", "", "the update could not be applied");
        }
        ApplyError::Discover { source, .. } => match source {
            discovery::Error::NotServed { .. } => return MISSING,
            discovery::Error::Read { source, .. } => source,
        },
        ApplyError::Request { source, .. } => source,
    };
    let wire::Error::Refused { status, .. } = request else {
        return DOWN;
    };
    let reason = status.reason.as_str();
    if request.is_not_found() || (request.is_conflict() && reason == "AlreadyExists") {
        return (
            "UpdatePayloadResourceNotFound",
            "resource may have been deleted",
            "some resources could not be updated",
        );
    }
    if request.is_conflict() {
        return conflict();
    }
    match (status.code, reason) {
        (_, "ServerTimeout" | "TooManyRequests") | (429, _) => (
            "UpdatePayloadClusterOverloaded",
            "the server is overloaded and is not accepting updates",
            "",
        ),
        (_, "InternalError") => (
            "UpdatePayloadClusterError",
            "the server is reporting an internal error",
            "",
        ),
        (500.., _) => DOWN,
        (422 | 400, _) => (
            "UpdatePayloadResourceInvalid",
            "the object is invalid, possibly due to local cluster configuration",
            "some cluster configuration is invalid",
        ),
        (401, _) => (
            "UpdatePayloadClusterUnauthorized",
            "could not authenticate to the server",
            "could not authenticate to the server",
        ),
        (403, _) => (
            "UpdatePayloadResourceForbidden",
            "the server has forbidden updates to this resource",
            "the server is rejecting updates",
        ),
        _ => ("UpdatePayloadFailed", "", "the update could not be applied"),
    }
}

const fn conflict() -> (&'static str, &'static str, &'static str) {
    (
        "UpdatePayloadResourceConflict",
        "someone else is updating this resource",
        "some resources could not be updated",
    )
}

fn detail(error: &ApplyError) -> Option<String> {
    let ApplyError::Request { source, .. } = error else {
        return None;
    };
    let wire::Error::Refused { status, .. } = source else {
        return None;
    };
    Some(status.message.clone()).filter(|message| !message.is_empty())
}

#[cfg(test)]
mod tests {
    use cluster::apply::FieldConflict;
    use http::Method;
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, reason: &str) -> ApplyError {
        ApplyError::Request {
            object: "x".to_owned(),
            source: wire::Error::Refused {
                method: Method::PATCH,
                path: "/x".to_owned(),
                status: Box::new(Status {
                    code,
                    reason: reason.to_owned(),
                    ..Status::failure("no", reason)
                }),
                retry_after: None,
            },
        }
    }

    #[test]
    fn request_errors_are_read_by_what_they_mean() {
        for (error, reason, summary) in [
            (
                refused(404, "NotFound"),
                "UpdatePayloadResourceNotFound",
                "some resources could not be updated",
            ),
            (
                refused(409, "AlreadyExists"),
                "UpdatePayloadResourceNotFound",
                "some resources could not be updated",
            ),
            (
                refused(409, "Conflict"),
                "UpdatePayloadResourceConflict",
                "some resources could not be updated",
            ),
            (
                refused(422, "Invalid"),
                "UpdatePayloadResourceInvalid",
                "some cluster configuration is invalid",
            ),
            (
                refused(403, "Forbidden"),
                "UpdatePayloadResourceForbidden",
                "the server is rejecting updates",
            ),
            (
                refused(401, "Unauthorized"),
                "UpdatePayloadClusterUnauthorized",
                "could not authenticate to the server",
            ),
            (
                refused(429, "TooManyRequests"),
                "UpdatePayloadClusterOverloaded",
                "the control plane is overloaded and is not accepting updates",
            ),
            (
                refused(500, "InternalError"),
                "UpdatePayloadClusterError",
                "the control plane is reporting an internal error",
            ),
            (
                refused(503, "ServiceUnavailable"),
                "UpdatePayloadClusterDown",
                "the control plane is down or not responding",
            ),
            (
                refused(418, "Teapot"),
                "UpdatePayloadFailed",
                "the update could not be applied",
            ),
            (
                ApplyError::Conflicts {
                    object: "x".to_owned(),
                    conflicts: vec![FieldConflict {
                        field: ".a".to_owned(),
                        owner: "b".to_owned(),
                    }],
                },
                "UpdatePayloadResourceConflict",
                "some resources could not be updated",
            ),
            (
                ApplyError::Discover {
                    object: "x".to_owned(),
                    source: discovery::Error::NotServed {
                        api_version: "a/v1".to_owned(),
                        kind: "B".to_owned(),
                    },
                },
                "UpdatePayloadResourceTypeMissing",
                "a required extension is not available to update",
            ),
        ] {
            let failure = of_request("configmap \"n/a\" (1 of 2)", &error);
            assert_eq!(
                (failure.reason.as_str(), failure.summary.as_str()),
                (reason, summary)
            );
            assert!(
                failure
                    .message
                    .starts_with("Could not update configmap \"n/a\" (1 of 2)")
            );
        }
        let message = of_request("a", &refused(422, "Invalid")).message;
        assert_eq!(
            message,
            "Could not update a: the object is invalid, possibly due to local cluster configuration (no)"
        );
        let failure = of_request("a", &refused(422, "Invalid")).of_file("0000_50_a.yaml");
        assert_eq!(failure.message, format!("{message}; file 0000_50_a.yaml"));
    }
}
