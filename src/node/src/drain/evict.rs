//! One eviction, and what its response means.

use std::time::Duration;

use chassis::report::Chain;
use http::Method;
use kube::core::Status;
use serde::de::IgnoredAny;
use serde_json::json;

use super::{Pod, PodName};
use cluster::access::Access;
use cluster::path;
use cluster::wire::{self, RequestBody};

/// The API server's response to an eviction, by its meaning.
#[derive(Debug, PartialEq, Eq)]
pub enum EvictionResponse {
    Accepted,
    /// There is no such pod.
    Gone,
    /// A budget, or the API server's own limit, refuses for now.
    Blocked {
        /// Name of the PodDisruptionBudget, if one refuses.
        budget: Option<String>,
        message: String,
        /// When to send it again, at the earliest.
        retry_after: Option<Duration>,
    },
    /// A response without a decision on the pod, or none.
    Trouble(String),
}

/// Evicts one pod, and only the one with this uid: a pod of the same name that was created since is
/// another pod.
///
/// No grace period is sent: the pod's own counts.
pub(super) async fn evict(access: &Access, pod: &PodName, uid: &str) -> EvictionResponse {
    send(access, pod, json!({"preconditions": {"uid": uid}})).await
}

/// Tries the eviction of a pod as a dry run. The pod stays, and its budget is as before: of several
/// pods of one budget each gets the response as if it were the only one.
pub async fn try_eviction(access: &Access, pod: &Pod) -> EvictionResponse {
    let options = json!({"preconditions": {"uid": pod.uid}, "dryRun": ["All"]});
    send(access, &pod.name, options).await
}

async fn send(access: &Access, pod: &PodName, options: serde_json::Value) -> EvictionResponse {
    let PodName { namespace, name } = pod;
    let pod = path::untyped("v1", Some(namespace), "pods") + "/" + name;
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": options,
    });
    let result = access
        .send::<IgnoredAny>(
            Method::POST,
            &format!("{pod}/eviction"),
            RequestBody::Object(&body),
        )
        .await;
    match result {
        Ok(_) => EvictionResponse::Accepted,
        Err(error) => read(&error),
    }
}

fn read(error: &wire::Error) -> EvictionResponse {
    let wire::Error::Refused {
        status,
        retry_after,
        ..
    } = error
    else {
        return EvictionResponse::Trouble(Chain(error).to_string());
    };
    if error.is_not_found() {
        return EvictionResponse::Gone;
    }
    match status.code {
        429 => EvictionResponse::Blocked {
            budget: budget(status),
            message: because(status),
            retry_after: *retry_after,
        },
        _ => EvictionResponse::Trouble(because(status)),
    }
}

/// The cause says more than the message, which is the same for every budget.
fn because(status: &Status) -> String {
    cause(status).unwrap_or(&status.message).to_owned()
}

fn cause(status: &Status) -> Option<&str> {
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .find(|cause| cause.reason == "DisruptionBudget")
        .map(|cause| cause.message.as_str())
}

/// Name of the PodDisruptionBudget. The API gives it in words only:
/// `The disruption budget web needs 5 healthy pods and has 5 currently`. A kubelet may not list
/// budgets, so words it is; where they change, the name is missing and the words are still shown.
fn budget(status: &Status) -> Option<String> {
    let rest = cause(status)?.strip_prefix("The disruption budget ")?;
    rest.split_whitespace().next().map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> wire::Error {
        let status: Status = serde_json::from_str(body).unwrap();
        wire::Error::Refused {
            method: Method::POST,
            path: "/x".to_owned(),
            status: Box::new(status),
            retry_after: None,
        }
    }

    fn blocked(budget: Option<&str>, message: &str) -> EvictionResponse {
        EvictionResponse::Blocked {
            budget: budget.map(ToOwned::to_owned),
            message: message.to_owned(),
            retry_after: None,
        }
    }

    /// Bodies as kube-apiserver 1.36 sends them.
    #[test]
    fn what_the_api_server_says() {
        let table = [
            (
                r#"{"code":429,"reason":"TooManyRequests","message":"Cannot evict pod as it would violate the pod's disruption budget.",
                    "details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 5 healthy pods and has 5 currently"}]}}"#,
                blocked(Some("web"), "The disruption budget web needs 5 healthy pods and has 5 currently"),
            ),
            (
                r#"{"code":429,"reason":"TooManyRequests","message":"Cannot evict pod as it would violate the pod's disruption budget.",
                    "details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web is still being processed by the server."}]}}"#,
                blocked(Some("web"), "The disruption budget web is still being processed by the server."),
            ),
            (
                r#"{"code":429,"reason":"TooManyRequests","message":"too many requests"}"#,
                blocked(None, "too many requests"),
            ),
            (r#"{"code":404,"reason":"NotFound","message":"pods \"web\" not found"}"#, EvictionResponse::Gone),
            (
                r#"{"code":500,"message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}"#,
                EvictionResponse::Trouble(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.".to_owned(),
                ),
            ),
            (
                r#"{"code":403,"reason":"Forbidden","message":"unable to create new content in namespace x because it is being terminated"}"#,
                EvictionResponse::Trouble(
                    "unable to create new content in namespace x because it is being terminated".to_owned(),
                ),
            ),
        ];
        for (body, expected) in table {
            assert_eq!(read(&refused(body)), expected, "{body}");
        }
    }
}
