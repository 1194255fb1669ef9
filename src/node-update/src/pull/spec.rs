//! Forms of a pull spec.

use std::borrow::Cow;

/// The pull spec that a registry is asked for. The digest of `repository:tag@digest` decides, and
/// image tools refuse the two together; other forms are as they are written.
pub fn by_digest(image: &str) -> Cow<'_, str> {
    let Some((name, digest)) = image.split_once('@') else {
        return Cow::Borrowed(image);
    };
    // A colon before the last slash is that of a port.
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => {
            Cow::Owned(format!("{repository}@{digest}"))
        }
        Some(_) | None => Cow::Borrowed(image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_beside_a_digest_is_left_out() {
        for (written, pulled) in [
            ("r:5000/os:v2@sha256:1", "r:5000/os@sha256:1"),
            ("quay.io/x/os:v2@sha256:1", "quay.io/x/os@sha256:1"),
            ("r:5000/os@sha256:1", "r:5000/os@sha256:1"),
            ("r:5000/os:v2", "r:5000/os:v2"),
            ("os", "os"),
        ] {
            assert_eq!(by_digest(written), pulled);
        }
    }
}
