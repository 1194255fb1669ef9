//! What images a scope has: a registry, a repository, an image, or `*.` and a domain.
//!
//! Source: `containers-registries.conf(5)`, `prefix`; `containers-policy.json(5)`, scopes.

/// Whether a scope has all images of `name`, which is a repository or another scope.
pub fn contains(scope: &str, name: &str) -> bool {
    if let Some(domain) = scope.strip_prefix('*') {
        let host = name.split('/').next().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        return host.ends_with(domain);
    }
    let rest = name.strip_prefix(scope);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a scope has an image, by its repository or by its whole name.
pub fn has_image(scope: &str, image: &str) -> bool {
    scope == image || contains(scope, repository(image))
}

/// The repository of an image; of a scope that is none, the scope.
pub fn repository(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit_once('/').map(|(_, last)| last);
    // What has no slash is a registry, and what follows its colon a port.
    let tag = last.and_then(|last| last.split_once(':'));
    let tag = tag.map_or(0, |(_, tag)| tag.len().saturating_add(1));
    let end = name.len().saturating_sub(tag);
    name.get(..end).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_what_is_below_it() {
        let table = [
            ("quay.io", "quay.io/a/b", true),
            ("quay.io/a", "quay.io/a", true),
            ("quay.io/a", "quay.io/ab", false),
            ("reg", "reg:5000/a", false),
            ("*.example.com", "a.example.com:5000/b", true),
            ("*.example.com", "*.b.example.com", true),
            ("*.example.com", "example.com/a", false),
        ];
        for (scope, name, expected) in table {
            assert_eq!(contains(scope, name), expected, "{scope} {name}");
        }
        assert_eq!(repository("reg:5000/a@sha256:1"), "reg:5000/a");
        assert_eq!(repository("reg:5000/a:tag"), "reg:5000/a");
        assert_eq!(repository("reg:5000/a"), "reg:5000/a");
        assert_eq!(repository("reg:5000"), "reg:5000");
        assert_eq!(repository("*.example.com"), "*.example.com");
        assert!(has_image("reg:5000", "reg:5000/a:1"));
        assert!(has_image("q.io/a:1", "q.io/a:1"));
        assert!(!has_image("q.io/a:1", "q.io/a:2"));
        assert!(has_image("q.io", "q.io/a@sha256:1"));
    }
}
