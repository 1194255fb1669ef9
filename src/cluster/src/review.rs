//! Who shows a token, and what a user may: reviews of the API server.

use http::Method;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewStatus};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use serde_json::{Value, json};

use crate::access::Access;
use crate::wire::{self, RequestBody};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What the API server says of a token, for one of these audiences; without any, for its own.
///
/// # Errors
/// It does not answer.
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

/// Whether a user may do something.
///
/// Shape: `spec` of a `SubjectAccessReview`.
///
/// # Errors
/// The API server does not answer.
pub async fn access(access: &Access, spec: &Value) -> Result<bool, wire::Error> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
    });
    let content = RequestBody::Object(&review);
    let reviewed: SubjectAccessReview = access.send(Method::POST, ACCESS_REVIEWS, content).await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
}
