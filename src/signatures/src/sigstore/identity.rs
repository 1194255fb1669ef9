//! Whether an image may bear the name that was signed.

use api::config::image_policy::SignedIdentity;
use oci_spec::distribution::Reference;

/// Why a signed name does not fit the image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityFault {
    /// The name that was signed is none.
    #[error("it was signed as {0:?}, which names no image")]
    Unreadable(String),
    /// It was signed under another name.
    #[error("it was signed as {signed:?}, and {policy} asks for {expected:?}")]
    Other {
        signed: String,
        /// The policy's way to match.
        policy: &'static str,
        expected: String,
    },
    /// It was signed as a repository alone.
    #[error("it was signed as {0:?}, without a tag, which MatchRepoDigestOrExact does not take")]
    NoTag(String),
}

/// How names are matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameMatch {
    /// The repository of an image by digest; else the very name.
    RepositoryDigestOrExact,
    Repository,
    ExactRepository(String),
    /// The image's name below `prefix` is one below `signed`.
    Remap {
        prefix: String,
        signed: String,
    },
}

/// The field of an identity that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum IdentityError {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("matchPolicy: there is no policy {0:?}")]
    NoPolicy(String),
}

impl NameMatch {
    pub(super) fn of(identity: Option<&SignedIdentity>) -> Result<Self, IdentityError> {
        let Some(identity) = identity else {
            return Ok(Self::RepositoryDigestOrExact);
        };
        let filled = |field, text: &str| {
            let is_there = !text.is_empty();
            is_there
                .then(|| text.to_owned())
                .ok_or(IdentityError::Missing(field))
        };
        match identity.match_policy.as_str() {
            "MatchRepoDigestOrExact" => Ok(Self::RepositoryDigestOrExact),
            "MatchRepository" => Ok(Self::Repository),
            "ExactRepository" => {
                let field = "exactRepository.repository";
                let exact = identity
                    .exact
                    .as_ref()
                    .map_or("", |exact| &exact.repository);
                Ok(Self::ExactRepository(filled(field, exact)?))
            }
            "RemapIdentity" => {
                let remap = identity.remap.as_ref();
                let (prefix, signed) = remap.map_or(("", ""), |remap| {
                    (remap.prefix.as_str(), remap.signed_prefix.as_str())
                });
                Ok(Self::Remap {
                    prefix: filled("remapIdentity.prefix", prefix)?,
                    signed: filled("remapIdentity.signedPrefix", signed)?,
                })
            }
            other => Err(IdentityError::NoPolicy(other.to_owned())),
        }
    }

    const fn policy(&self) -> &'static str {
        match self {
            Self::RepositoryDigestOrExact => "MatchRepoDigestOrExact",
            Self::Repository => "MatchRepository",
            Self::ExactRepository(_) => "ExactRepository",
            Self::Remap { .. } => "RemapIdentity",
        }
    }

    /// Whether the image, as it is pulled, may have been signed as `signed`.
    ///
    /// Source: `containers-policy.json(5)`, `signedIdentity`.
    pub(super) fn check(&self, image: &str, signed: &str) -> Result<(), IdentityFault> {
        let unreadable = |text: &str| IdentityFault::Unreadable(text.to_owned());
        let reference = parts(signed).ok_or_else(|| unreadable(signed))?;
        let image = parts(image).ok_or_else(|| unreadable(image))?;
        let expected = match self {
            Self::RepositoryDigestOrExact => return exact(self, &image, &reference),
            Self::Repository => image.repository,
            Self::ExactRepository(repository) => repository.clone(),
            Self::Remap { prefix, signed } => {
                let repository = remapped(&image.repository, prefix, signed);
                let image = Parts {
                    repository,
                    ..image
                };
                return exact(self, &image, &reference);
            }
        };
        if expected == reference.repository {
            return Ok(());
        }
        Err(IdentityFault::Other {
            signed: reference.text,
            policy: self.policy(),
            expected,
        })
    }
}

/// A name of an image.
struct Parts {
    /// With its registry.
    repository: String,
    tag: Option<String>,
    has_digest: bool,
    text: String,
}

fn parts(text: &str) -> Option<Parts> {
    let reference: Reference = text.parse().ok()?;
    // The library gives every name without one the tag `latest`.
    let name = text.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.contains(':').then(|| reference.tag()).flatten();
    Some(Parts {
        repository: format!("{}/{}", reference.registry(), reference.repository()),
        tag: tag.map(str::to_owned),
        has_digest: reference.digest().is_some(),
        text: text.to_owned(),
    })
}

/// An image by digest needs its repository, whatever its tag: runtimes leave that out. Any other
/// needs its very name.
fn exact(by: &NameMatch, image: &Parts, signed: &Parts) -> Result<(), IdentityFault> {
    if signed.tag.is_none() && !signed.has_digest {
        return Err(IdentityFault::NoTag(signed.text.clone()));
    }
    let is_it =
        image.repository == signed.repository && (image.has_digest || image.tag == signed.tag);
    if is_it {
        return Ok(());
    }
    let tag = image.tag.as_ref().filter(|_| !image.has_digest);
    let tag = tag.map(|tag| format!(":{tag}"));
    Err(IdentityFault::Other {
        signed: signed.text.clone(),
        policy: by.policy(),
        expected: format!("{}{}", image.repository, tag.unwrap_or_default()),
    })
}

/// A name with another beginning; unchanged where it does not begin so.
fn remapped(repository: &str, prefix: &str, signed: &str) -> String {
    match repository.strip_prefix(prefix) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{signed}{rest}"),
        _ => repository.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use api::config::image_policy::{ExactRepository, RemapIdentity};

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn remap(prefix: &str, signed: &str) -> NameMatch {
        NameMatch::Remap {
            prefix: prefix.to_owned(),
            signed: signed.to_owned(),
        }
    }

    #[test]
    fn signed_name_fits_the_image() {
        use NameMatch::{Repository, RepositoryDigestOrExact};
        let exact = NameMatch::ExactRepository("q.io/b".to_owned());
        let by_digest = format!("q.io/a@{DIGEST}");
        let by_both = format!("q.io/a:1@{DIGEST}");
        let mirror = format!("m.io/x/a@{DIGEST}");
        for (by, image, signed, fits) in [
            (
                &RepositoryDigestOrExact,
                by_digest.as_str(),
                "q.io/a:1",
                true,
            ),
            (&RepositoryDigestOrExact, &by_digest, "q.io/a:2", true),
            (&RepositoryDigestOrExact, &by_digest, "q.io/b:1", false),
            (&RepositoryDigestOrExact, &by_digest, "q.io/a", false),
            (&RepositoryDigestOrExact, &by_digest, "", false),
            (&RepositoryDigestOrExact, &by_both, "q.io/a:1", true),
            (&RepositoryDigestOrExact, &by_both, "q.io/a:2", true),
            (&RepositoryDigestOrExact, "q.io/a:1", "q.io/a:1", true),
            (&RepositoryDigestOrExact, "q.io/a:1", "q.io/a:2", false),
            (&RepositoryDigestOrExact, &mirror, "q.io/a:1", false),
            (&Repository, &by_digest, "q.io/a", true),
            (&Repository, &by_digest, "q.io/a:7", true),
            (&Repository, &by_digest, "q.io/ab", false),
            (&exact, &by_digest, "q.io/b:1", true),
            (&exact, &by_digest, "q.io/a:1", false),
            (&remap("m.io/x", "q.io"), &mirror, "q.io/a:1", true),
            (&remap("m.io", "q.io"), &mirror, "q.io/x/a:1", true),
            (&remap("m.io/x/a", "q.io/a"), &mirror, "q.io/a:1", true),
            (&remap("m.io/x", "q.io"), &mirror, "q.io/b:1", false),
            (&remap("m.io/y", "q.io"), &mirror, "q.io/a:1", false),
            (&remap("m.i", "q.io"), &mirror, "q.io/a:1", false),
        ] {
            let checked = by.check(image, signed);
            assert_eq!(
                checked.is_ok(),
                fits,
                "{by:?} {image} {signed}: {checked:?}"
            );
        }
    }

    #[test]
    fn what_an_identity_lacks_is_named() {
        let of = |policy: &str, repository: &str, prefix: &str| {
            let identity = SignedIdentity {
                match_policy: policy.to_owned(),
                exact: Some(ExactRepository {
                    repository: repository.to_owned(),
                }),
                remap: Some(RemapIdentity {
                    prefix: prefix.to_owned(),
                    signed_prefix: String::new(),
                }),
            };
            NameMatch::of(Some(&identity)).unwrap_err().to_string()
        };
        assert_eq!(of("", "", ""), "matchPolicy: there is no policy \"\"");
        assert_eq!(
            of("ExactRepository", "", ""),
            "exactRepository.repository is missing"
        );
        assert_eq!(
            of("RemapIdentity", "", ""),
            "remapIdentity.prefix is missing"
        );
        assert_eq!(
            of("RemapIdentity", "", "a"),
            "remapIdentity.signedPrefix is missing"
        );
        assert_eq!(NameMatch::of(None), Ok(NameMatch::RepositoryDigestOrExact));
    }
}
