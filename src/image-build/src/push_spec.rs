//! Where an image is pushed to.

use std::fmt;

use crate::name::cut;

/// Most characters of a tag. Source: OCI distribution specification, "Pulling manifests".
const TAG_CHARS: usize = 128;

/// Most characters of a pull spec in `currentImagePullSpec` and `digestedImagePushSpec`.
const SPEC_CHARS: usize = 447;

/// Characters that `@sha256:` and a digest have.
const DIGEST_CHARS: usize = 72;

/// A repository and a tag: `host[:port][/namespace]/name:tag`.
///
/// Source: `spec.renderedImagePushSpec` of MachineOSConfig and MachineOSBuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushSpec {
    repository: String,
    tag: String,
}

impl PushSpec {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it. Its image must have a name that fits into
    /// `status.currentImagePullSpec`, whose form the API narrows to one namespace.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("{text:?} {why}"));
        if text.contains('@') {
            return refuse("names a digest; an image is pushed under a tag");
        }
        let (rest, name) = text.rsplit_once('/').unwrap_or(("", text));
        let Some((name, tag)) = name.split_once(':') else {
            return refuse("has no tag");
        };
        let is_tag = !tag.is_empty()
            && tag.len() <= TAG_CHARS
            && !tag.starts_with(['.', '-'])
            && tag.bytes().all(is_tag_char);
        if !is_tag {
            return refuse("has no tag that a registry takes");
        }
        let mut parts = rest.split('/');
        let host = parts.next().unwrap_or_default();
        if !is_host(host) {
            return refuse("does not begin with a registry's host that has a dot");
        }
        let namespaces: Vec<&str> = parts.collect();
        if namespaces.len() > 1 {
            return refuse(
                "has more than one namespace, which status.currentImagePullSpec does not take",
            );
        }
        let is_namespace = |part: &&str| part.len() <= 61 && is_component(part, false);
        if !namespaces.iter().all(is_namespace) || !is_component(name, true) {
            return refuse("has a repository that is not of lower-case letters, digits, - and _");
        }
        let repository = format!("{rest}/{name}");
        if repository.len() + DIGEST_CHARS > SPEC_CHARS {
            return refuse("is too long");
        }
        Ok(Self {
            repository,
            tag: tag.to_owned(),
        })
    }

    /// The repository, without a tag.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The repository with the tag of a build.
    #[must_use]
    pub fn for_build(&self, build: &str) -> Self {
        Self {
            repository: self.repository.clone(),
            tag: cut(build, TAG_CHARS),
        }
    }

    /// The image of this digest there.
    pub fn digested(&self, digest: &str) -> String {
        format!("{}@{digest}", self.repository)
    }
}

impl fmt::Display for PushSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

/// Whether a text is a digest: `sha256:` and 64 hexadecimal digits in lower case.
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
    })
}

const fn is_tag_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// A host with at least one dot, and perhaps a port of two to five digits.
fn is_host(text: &str) -> bool {
    let (name, port) = text
        .split_once(':')
        .map_or((text, None), |(name, port)| (name, Some(port)));
    let is_port = port.is_none_or(|port| {
        (2..=5).contains(&port.len()) && port.bytes().all(|c| c.is_ascii_digit())
    });
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    is_port && name.contains('.') && name.split('.').all(is_label)
}

/// A part of a repository's name: lower case, and no sign at either end.
fn is_component(text: &str, may_have_dots: bool) -> bool {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_sign = |c: u8| matches!(c, b'-' | b'_') || (may_have_dots && c == b'.');
    text.bytes().all(|c| is_plain(c) || is_sign(c))
        && text.bytes().next().is_some_and(is_plain)
        && text.bytes().next_back().is_some_and(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_spec_has_host_repository_and_tag() {
        for (text, repository) in [
            ("quay.io/os:latest", "quay.io/os"),
            (
                "registry.example:5000/a/os:1.0",
                "registry.example:5000/a/os",
            ),
            (
                "image-registry.openshift-image-registry.svc:5000/openshift-machine-config-operator/os-image:latest",
                "image-registry.openshift-image-registry.svc:5000/openshift-machine-config-operator/os-image",
            ),
        ] {
            let spec = PushSpec::parse(text).unwrap();
            assert_eq!(
                (spec.repository(), spec.to_string().as_str()),
                (repository, text)
            );
        }
        for (text, why) in [
            ("quay.io/os", "has no tag"),
            ("quay.io/os:", "has no tag that a registry takes"),
            ("quay.io/os:-a", "has no tag that a registry takes"),
            (
                "quay.io/os@sha256:00",
                "names a digest; an image is pushed under a tag",
            ),
            (
                "localhost:5000/os:1",
                "does not begin with a registry's host that has a dot",
            ),
            (
                "os:1",
                "does not begin with a registry's host that has a dot",
            ),
            (
                "quay.io:1/os:1",
                "does not begin with a registry's host that has a dot",
            ),
            (
                "quay.io/a/b/os:1",
                "has more than one namespace, which status.currentImagePullSpec does not take",
            ),
            (
                "quay.io/A/os:1",
                "has a repository that is not of lower-case letters, digits, - and _",
            ),
            (
                "quay.io/os-:1",
                "has a repository that is not of lower-case letters, digits, - and _",
            ),
        ] {
            assert_eq!(PushSpec::parse(text), Err(format!("{text:?} {why}")));
        }
        let long = format!("quay.io/{}:1", "a".repeat(400));
        assert!(PushSpec::parse(&long).unwrap_err().ends_with("is too long"));
    }

    #[test]
    fn the_tag_of_a_build_is_its_name() {
        let spec = PushSpec::parse("quay.io/a/os:latest").unwrap();
        let build = format!("worker-{}", "0".repeat(32));
        assert_eq!(
            spec.for_build(&build).to_string(),
            format!("quay.io/a/os:{build}")
        );
        let long = format!("{}-{}", "p".repeat(250), "0".repeat(32));
        let tagged = spec.for_build(&long).to_string();
        assert!(PushSpec::parse(&tagged).is_ok(), "{tagged}");
        let digest = format!("sha256:{}", "0".repeat(64));
        assert!(is_digest(&digest) && !is_digest("sha256:0"));
        assert!(!is_digest(&digest.to_uppercase()));
        assert_eq!(spec.digested(&digest), format!("quay.io/a/os@{digest}"));
    }
}
