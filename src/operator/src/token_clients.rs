//! Who may read metrics over HTTPS by a token: an account that may `get` the path `/metrics`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chassis::report::Chain;
use chassis::secure_metrics::{MetricsVerdict, TokenJudge};
use cluster::access::Access;
use cluster::{review, wire};
use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a token that may read is not reviewed again.
const KEPT: Duration = Duration::from_mins(1);

/// Has the API server review tokens, one at a time: strangers cost it no more than that.
#[derive(Debug)]
pub struct TokenClients {
    access: Arc<Access>,
    /// The last token that was allowed, and when.
    allowed: Mutex<Option<(String, Instant)>>,
}

impl TokenClients {
    /// None is allowed yet. The identity may create `TokenReviews` and `SubjectAccessReviews`.
    pub const fn new(access: Arc<Access>) -> Self {
        Self {
            access,
            allowed: Mutex::const_new(None),
        }
    }

    async fn verdict(&self, token: &str) -> MetricsVerdict {
        let mut allowed = self.allowed.lock().await;
        let is_cached = allowed
            .as_ref()
            .is_some_and(|(allowed, since)| allowed == token && since.elapsed() < KEPT);
        if is_cached {
            return MetricsVerdict::Allowed;
        }
        let verdict = self.review(token).await.unwrap_or_else(|error| {
            tracing::warn!(error = %Chain(&error), "a token cannot be reviewed");
            MetricsVerdict::Unavailable
        });
        if verdict == MetricsVerdict::Allowed {
            *allowed = Some((token.to_owned(), Instant::now()));
        }
        verdict
    }

    async fn review(&self, token: &str) -> Result<MetricsVerdict, wire::Error> {
        let status = review::token(&self.access, token, &[]).await?;
        let user = match status.user {
            Some(user) if status.authenticated == Some(true) => user,
            Some(_) | None => return Ok(MetricsVerdict::Unknown),
        };
        let UserInfo {
            username,
            uid,
            groups,
            extra,
        } = user;
        let spec = json!({
            "user": username, "uid": uid, "groups": groups, "extra": extra,
            "nonResourceAttributes": { "path": "/metrics", "verb": "get" },
        });
        Ok(if review::access(&self.access, &spec).await? {
            MetricsVerdict::Allowed
        } else {
            MetricsVerdict::Forbidden
        })
    }
}

impl TokenJudge for TokenClients {
    fn judge<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = MetricsVerdict> + Send + 'a>> {
        Box::pin(self.verdict(token))
    }
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};

    use super::*;
    use MetricsVerdict::{Allowed, Forbidden, Unavailable, Unknown};

    #[tokio::test]
    async fn a_token_is_judged_by_its_user_and_kept_for_a_minute() {
        let review = |token: &str, reply| {
            let body = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "spec": { "token": token, "audiences": [] },
            });
            Call::post("/apis/authentication.k8s.io/v1/tokenreviews", body, reply)
        };
        let of = |token: &str, status: serde_json::Value| {
            review(token, Reply::ok(json!({ "spec": {}, "status": status })))
        };
        let access = |is_allowed: bool| {
            let body = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {
                    "user": "u", "uid": null, "groups": null, "extra": null,
                    "nonResourceAttributes": { "path": "/metrics", "verb": "get" },
                },
            });
            let reply = json!({ "spec": {}, "status": { "allowed": is_allowed } });
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            Call::post(path, body, Reply::ok(reply))
        };
        let allowed = json!({ "authenticated": true, "user": { "username": "u" } });
        let calls = vec![
            of("a", json!({})),
            of(
                "a",
                json!({ "authenticated": false, "user": { "username": "u" } }),
            ),
            of("a", json!({ "authenticated": true })),
            of("a", allowed.clone()),
            access(false),
            review("a", Reply::failure(500, "InternalError", "no")),
            of("a", allowed.clone()),
            access(true),
            of("b", allowed),
            access(false),
        ];
        let (script, client) = Script::start(calls);
        let clients = TokenClients::new(Arc::new(Access::of_client(client)));
        let verdicts = async {
            let mut verdicts = Vec::new();
            for token in ["a", "a", "a", "a", "a", "a", "a", "b"] {
                verdicts.push(clients.judge(token).await);
            }
            verdicts
        };
        assert_eq!(
            script.drive(verdicts).await,
            [
                Unknown,
                Unknown,
                Unknown,
                Forbidden,
                Unavailable,
                Allowed,
                Allowed,
                Forbidden
            ]
        );
    }
}
