//! What a registry says of an image, in the few responses that a caller acts on.

use release::ImageDigest;

use crate::error::Error;
use crate::location::ImageLocation;
use crate::store::Stores;

/// What a registry responds to a question or request about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageReply<T> {
    /// It is there, or it was done.
    Done(T),
    /// The repository has no such image.
    Absent,
    /// There is no such repository.
    NoRepository,
    /// The credentials do not suffice, or there are none.
    NotAllowed(String),
    /// The registry does not do that.
    NotSupported(String),
    /// It does not respond, or with an error of its own.
    Unreachable(String),
}

impl Stores {
    /// The digest of what a location names, or why it is not known. A registry that hides from a
    /// stranger what it has does not say that an image is absent.
    pub async fn look_up(&self, location: &ImageLocation) -> ImageReply<ImageDigest> {
        let error = match self.digest(location).await {
            Ok(digest) => return ImageReply::Done(digest),
            Err(error) => error,
        };
        if matches!(error, Error::Missing { .. }) {
            // The request for a manifest has no body that tells the two apart.
            return match self.images(location).await {
                Err(Error::Missing { .. }) => ImageReply::NoRepository,
                Ok(_) | Err(_) => ImageReply::Absent,
            };
        }
        if error.is_missing_or_refused() {
            return ImageReply::NotAllowed(text(&error));
        }
        ImageReply::Unreachable(text(&error))
    }
}

/// An error with its causes, on one line.
pub(crate) fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Credentials;
    use crate::removal::tests::{Canned, registry};

    async fn look_up(responses: &[Canned]) -> ImageReply<ImageDigest> {
        let (host, _) = registry(responses).await;
        let stores = Stores::new(Credentials::default(), true);
        let location = format!("{host}/a/os:1").parse().unwrap();
        stores.look_up(&location).await
    }

    #[tokio::test]
    async fn an_absent_image_differs_from_a_refused_one() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let found =
            Canned::new("/v2/a/os/manifests/1", 200, "").with("docker-content-digest", &digest);
        let version = Canned::new("/v2/", 200, "");
        assert_eq!(
            look_up(&[version.clone(), found]).await,
            ImageReply::Done(digest.parse().unwrap())
        );
        let unknown = r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#;
        let no_manifest = Canned::new("/v2/a/os/manifests/1", 404, unknown);
        let tags = Canned::new("/v2/a/os/tags/list", 200, r#"{"name":"a/os","tags":[]}"#);
        let no_name = r#"{"errors":[{"code":"NAME_UNKNOWN"}]}"#;
        let no_tags = Canned::new("/v2/a/os/tags/list", 404, no_name);
        for (responses, expected) in [
            (
                vec![version.clone(), no_manifest.clone(), tags],
                ImageReply::Absent,
            ),
            (
                vec![version.clone(), no_manifest, no_tags],
                ImageReply::NoRepository,
            ),
        ] {
            assert_eq!(look_up(&responses).await, expected);
        }
        for (status, is_refused) in [(401, true), (403, true), (500, false), (429, false)] {
            let response = Canned::new("/v2/a/os/manifests/1", status, "{}");
            let reply = look_up(&[version.clone(), response]).await;
            let found = matches!(reply, ImageReply::NotAllowed(_));
            assert_eq!(found, is_refused, "{reply:?}");
            assert_eq!(
                matches!(reply, ImageReply::Unreachable(_)),
                !is_refused,
                "{reply:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_registry_that_is_not_there_is_no_absent_image() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap();
        drop(listener);
        let stores = Stores::new(Credentials::default(), true);
        let location = format!("{host}/a/os:1").parse().unwrap();
        let reply = stores.look_up(&location).await;
        assert!(matches!(reply, ImageReply::Unreachable(_)), "{reply:?}");
    }
}
