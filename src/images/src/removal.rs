//! Images are removed from a registry.
//!
//! The library for registries has no such request, and its tokens are for pulls and pushes alone.
//! Source: OCI distribution specification, "Deleting manifests"; Docker documentation, "Registry
//! authentication".

use http::{Method, StatusCode};
use oci_client::Reference;
use oci_client::secrets::RegistryAuth;
use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;

use crate::location::ImageLocation;
use crate::registry::Registries;
use crate::reply::{ImageReply, text};
use crate::store::Stores;

/// Most bytes of a response that are read.
const MAX_BYTES: usize = 64 << 10;

impl Stores {
    /// Removes the image that a location names by its digest. Tags of it go with it.
    pub async fn remove(&self, location: &ImageLocation) -> ImageReply<()> {
        match location {
            ImageLocation::Registry(reference) => self.registries().remove(reference).await,
            ImageLocation::Layout { .. } => {
                let why = format!("{location} is no image of a registry");
                ImageReply::NotSupported(why)
            }
        }
    }
}

/// What a registry demands of a client before it does something.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    /// A token of this address, for a service and a scope.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
}

#[derive(Default, Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<ErrorCode>,
}

#[derive(Deserialize)]
struct ErrorCode {
    #[serde(default)]
    code: String,
}

impl Registries {
    async fn remove(&self, reference: &Reference) -> ImageReply<()> {
        let Some(digest) = reference.digest() else {
            return ImageReply::NotSupported(format!("{reference} names no digest"));
        };
        let client = match self.plain_client() {
            Ok(client) => client,
            Err(error) => return ImageReply::Unreachable(text(&error)),
        };
        let path = format!(
            "{}/v2/{}/manifests/{digest}",
            reference.resolve_registry(),
            reference.repository()
        );
        let mut reply = self
            .remove_at(&client, &format!("https://{path}"), reference)
            .await;
        if self.is_insecure() && matches!(reply, ImageReply::Unreachable(_)) {
            reply = self
                .remove_at(&client, &format!("http://{path}"), reference)
                .await;
        }
        reply
    }

    /// Sends the request, and once more with what the registry demands.
    async fn remove_at(&self, client: &Client, url: &str, reference: &Reference) -> ImageReply<()> {
        let request = || client.request(Method::DELETE, url);
        let response = match request().send().await {
            Ok(response) => response,
            Err(error) => return ImageReply::Unreachable(text(&error)),
        };
        if response.status() != StatusCode::UNAUTHORIZED {
            return verdict(response).await;
        }
        let challenge = response.headers().get(http::header::WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|value| Challenge::parse(value.to_str().ok()?));
        let RegistryAuth::Basic(name, password) = self.auth(reference) else {
            return ImageReply::NotAllowed(format!("there are no credentials for {reference}"));
        };
        let authorized = match challenge {
            None => {
                let why = "the registry demands no known authorization".to_owned();
                return ImageReply::NotAllowed(why);
            }
            Some(Challenge::Basic) => request().basic_auth(name, Some(password)),
            Some(Challenge::Bearer {
                realm,
                service,
                scope,
            }) => {
                let query = [("service", service), ("scope", scope)];
                let query: Vec<(&str, String)> = query
                    .into_iter()
                    .filter_map(|(key, value)| Some((key, value?)))
                    .collect();
                let asked = client
                    .get(realm)
                    .query(&query)
                    .basic_auth(name, Some(password));
                match token(asked).await {
                    Ok(token) => request().bearer_auth(token),
                    Err(reply) => return reply,
                }
            }
        };
        match authorized.send().await {
            Ok(response) => verdict(response).await,
            Err(error) => ImageReply::Unreachable(text(&error)),
        }
    }
}

async fn token(request: RequestBuilder) -> Result<String, ImageReply<()>> {
    let unreachable = |why: String| ImageReply::Unreachable(why);
    let response = request
        .send()
        .await
        .map_err(|error| unreachable(text(&error)))?;
    let status = response.status();
    if !status.is_success() {
        let why = format!("the registry's server for tokens responds {status}");
        return Err(if is_refusal(status) {
            ImageReply::NotAllowed(why)
        } else {
            unreachable(why)
        });
    }
    let bytes = body(response)
        .await
        .map_err(|error| unreachable(text(&error)))?;
    let token: Option<Token> = serde_json::from_slice(&bytes).ok();
    let token = token.map(|it| {
        if it.token.is_empty() {
            it.access_token
        } else {
            it.token
        }
    });
    let none = || unreachable("the registry's server for tokens sends none".to_owned());
    token.filter(|token| !token.is_empty()).ok_or_else(none)
}

async fn body(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            body.truncate(MAX_BYTES);
            break;
        }
    }
    Ok(body)
}

fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// What the response to the request means.
async fn verdict(response: Response) -> ImageReply<()> {
    let status = response.status();
    if status.is_success() {
        return ImageReply::Done(());
    }
    let bytes = match body(response).await {
        Ok(bytes) => bytes,
        Err(error) => return ImageReply::Unreachable(text(&error)),
    };
    let errors: Errors = serde_json::from_slice(&bytes).unwrap_or_default();
    let has = |code: &str| errors.errors.iter().any(|error| error.code == code);
    let why = format!("the registry responds {status}");
    if has("UNSUPPORTED") || status == StatusCode::METHOD_NOT_ALLOWED {
        return ImageReply::NotSupported(why);
    }
    if has("DENIED") || has("UNAUTHORIZED") || is_refusal(status) {
        return ImageReply::NotAllowed(why);
    }
    if status == StatusCode::NOT_FOUND && has("NAME_UNKNOWN") {
        return ImageReply::NoRepository;
    }
    if status == StatusCode::NOT_FOUND {
        return ImageReply::Absent;
    }
    ImageReply::Unreachable(why)
}

impl Challenge {
    /// Reads the value of `WWW-Authenticate`.
    fn parse(value: &str) -> Option<Self> {
        let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameter = |name: &str| {
            // Values are quoted, and may have commas.
            let mut left = rest;
            while let Some((key, after)) = left.split_once("=\"") {
                let (value, after) = after.split_once('"')?;
                if key
                    .trim_start_matches([',', ' '])
                    .eq_ignore_ascii_case(name)
                {
                    return Some(value.to_owned());
                }
                left = after;
            }
            None
        };
        Some(Self::Bearer {
            realm: parameter("realm")?,
            service: parameter("service"),
            scope: parameter("scope"),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
