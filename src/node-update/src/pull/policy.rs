//! What a signature policy says of an image, as far as no signature is needed to know it.
//!
//! skopeo before 1.11 does not apply the policy when a library pulls through it.
//!
//! Source: containers-policy.json(5), "Scopes" of the transport `docker`.

use serde_json::Value;

use super::by_digest;

/// What a policy says of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// It is accepted without a signature.
    Accepted,
    /// It is refused, whatever its signatures are.
    Refused,
    BySignature,
}

/// What `policy` says of the image with this pull spec. One that cannot be read refuses it.
pub fn verdict(policy: &[u8], image: &str) -> PolicyVerdict {
    let Ok(policy) = serde_json::from_slice::<Value>(policy) else {
        return PolicyVerdict::Refused;
    };
    let docker = policy
        .get("transports")
        .and_then(|transports| transports.get("docker"));
    let of_scope = docker.and_then(|docker| {
        scopes(&by_digest(image))
            .iter()
            .find_map(|scope| docker.get(scope))
    });
    let requirements = of_scope.or_else(|| policy.get("default"));
    let Some(requirements) = requirements.and_then(Value::as_array) else {
        return PolicyVerdict::Refused;
    };
    let kinds = || {
        let kinds = requirements
            .iter()
            .map(|requirement| requirement.get("type"));
        kinds.map(|kind| kind.and_then(Value::as_str).unwrap_or_default())
    };
    if requirements.is_empty() || kinds().any(|kind| kind == "reject") {
        PolicyVerdict::Refused
    } else if kinds().all(|kind| kind == "insecureAcceptAnything") {
        PolicyVerdict::Accepted
    } else {
        PolicyVerdict::BySignature
    }
}

/// Scopes that an image is in, the narrowest first; last that of the whole transport.
fn scopes(image: &str) -> Vec<String> {
    let name = image.split('@').next().unwrap_or(image);
    let mut scopes = vec![image.to_owned()];
    let is_tagged = name
        .rsplit('/')
        .next()
        .is_some_and(|last| last.contains(':'));
    let mut rest = match name.rsplit_once(':') {
        Some((repository, _)) if is_tagged && name.contains('/') => repository,
        Some(_) | None => name,
    };
    scopes.push(rest.to_owned());
    while let Some((above, _)) = rest.rsplit_once('/') {
        scopes.push(above.to_owned());
        rest = above;
    }
    let mut domain = rest.split(':').next().unwrap_or(rest);
    while let Some((_, above)) = domain.split_once('.') {
        scopes.push(format!("*.{above}"));
        domain = above;
    }
    scopes.push(String::new());
    scopes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_narrowest_scope_decides() {
        let [accept, reject] =
            ["insecureAcceptAnything", "reject"].map(|kind| json!([{ "type": kind }]));
        let policy = json!({"default": accept, "transports": {"docker": {
            "r:5000": reject, "r:5000/a/os": accept, "r:5000/a/os@sha256:2": reject, "*.example.com": reject,
            "signed": [{"type": "insecureAcceptAnything"}, {"type": "signedBy"}],
        }}});
        let policy = policy.to_string().into_bytes();
        for (image, expected) in [
            ("r:5000/os:1", PolicyVerdict::Refused),
            ("r:5000/b/os@sha256:1", PolicyVerdict::Refused),
            ("r:5000/a/os@sha256:1", PolicyVerdict::Accepted),
            ("r:5000/a/os:1", PolicyVerdict::Accepted),
            ("r:5000/a/os:1@sha256:2", PolicyVerdict::Refused),
            ("q.example.com/os", PolicyVerdict::Refused),
            ("quay.io/os", PolicyVerdict::Accepted),
            ("signed/os", PolicyVerdict::BySignature),
        ] {
            assert_eq!(verdict(&policy, image), expected, "{image}");
        }
        let whole = json!({"default": reject, "transports": {"docker": {"": accept}}});
        let whole = whole.to_string().into_bytes();
        assert_eq!(verdict(&whole, "quay.io/os"), PolicyVerdict::Accepted);
        assert_eq!(verdict(b"{}", "quay.io/os"), PolicyVerdict::Refused);
    }
}
