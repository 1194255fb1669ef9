//! Who shows a token, what a user may, and tokens of service accounts.

use http::Method;
use k8s_openapi::api::authentication::v1::{
    SelfSubjectReview, TokenRequest, TokenReview, TokenReviewStatus,
};
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SubjectAccessReview};
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};

use crate::access::Access;
use crate::path;
use crate::wire::{self, RequestBody};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const OWN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const OWN_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What the API server says of a token, for one of these audiences; without any, for its own.
///
/// # Errors
/// The API server does not respond.
pub async fn token(
    access: &Access,
    token: &str,
    audiences: &[String],
) -> Result<TokenReviewStatus, wire::Error> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": token, "audiences": audiences },
    });
    let content = RequestBody::Object(&review);
    let reviewed: TokenReview = access.send(Method::POST, TOKEN_REVIEWS, content).await?;
    Ok(reviewed.status.unwrap_or_default())
}

/// The name that the API server knows the user of `access` by; nothing where it has none.
///
/// # Errors
/// The API server does not respond, or does not tell: API servers before 1.28 cannot.
pub async fn own_user(access: &Access) -> Result<Option<String>, wire::Error> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
    });
    let content = RequestBody::Object(&review);
    let reviewed: SelfSubjectReview = access.send(Method::POST, OWN_REVIEWS, content).await?;
    let user = reviewed.status.and_then(|status| status.user_info);
    let name = user.and_then(|user| user.username);
    Ok(name.filter(|name| !name.is_empty()))
}

/// Whether a user may do something.
///
/// Shape: `spec` of a `SubjectAccessReview`.
///
/// # Errors
/// The API server does not respond.
pub async fn access(access: &Access, spec: &Value) -> Result<bool, wire::Error> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
    });
    let content = RequestBody::Object(&review);
    let reviewed: SubjectAccessReview = access.send(Method::POST, ACCESS_REVIEWS, content).await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
}

/// Whether the user of `access` may do something.
///
/// Shape: `spec` of a `SelfSubjectAccessReview`.
///
/// # Errors
/// The API server does not respond.
pub async fn own_access(access: &Access, spec: &Value) -> Result<bool, wire::Error> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec,
    });
    let content = RequestBody::Object(&review);
    let reviewed: SelfSubjectAccessReview = access
        .send(Method::POST, OWN_ACCESS_REVIEWS, content)
        .await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
}

/// A new token of a service account; nothing where the response has none.
///
/// Shape: `account` is namespace and name, `spec` that of a `TokenRequest`.
///
/// # Errors
/// The API server does not respond, or refuses.
pub async fn account_token(
    access: &Access,
    (namespace, name): (&str, &str),
    spec: &Value,
) -> Result<Option<String>, wire::Error> {
    let path = path::namespaced::<ServiceAccount>(namespace, name) + "/token";
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
    });
    let content = RequestBody::Object(&request);
    let made: TokenRequest = access.send(Method::POST, &path, content).await?;
    Ok(made.status.and_then(|status| status.token))
}
