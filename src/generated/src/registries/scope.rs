//! A registry, a repository, or `*.` and a domain: what images it has.

/// An entry that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} {fault}")]
pub struct InvalidScope {
    entry: String,
    fault: Fault,
}

/// Why an entry is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("names no registry")]
    Empty,
    #[error("has a scheme: write the host alone")]
    Scheme,
    #[error("is a domain, which is not taken here")]
    Domain,
    #[error("is a domain with more than a domain")]
    MoreThanDomain,
    #[error("is no registry or repository")]
    Character,
    #[error("has an empty part")]
    EmptyPart,
    #[error("has a tag: write the repository alone")]
    Tag,
}

/// Checks an entry.
///
/// Shape: `host[:port][/path…]`, an image of it with a tag or digest left out; `*.domain` where
/// domains are taken. Source: `containers-registries.conf(5)`, `prefix`.
///
/// # Errors
/// [`InvalidScope`].
pub(super) fn check(entry: &str, takes_domains: bool) -> Result<(), InvalidScope> {
    let fault = |fault| {
        let entry = entry.to_owned();
        Err(InvalidScope { entry, fault })
    };
    if entry.is_empty() {
        return fault(Fault::Empty);
    }
    if entry.contains("://") {
        return fault(Fault::Scheme);
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:/[]".contains(c);
    let rest = match entry.strip_prefix("*.") {
        Some(_) if !takes_domains => return fault(Fault::Domain),
        Some(domain) if domain.contains(['/', ':']) => {
            return fault(Fault::MoreThanDomain);
        }
        Some(domain) => domain,
        None => entry,
    };
    if !rest.chars().all(is_plain) {
        return fault(Fault::Character);
    }
    if rest.split('/').any(str::is_empty) {
        return fault(Fault::EmptyPart);
    }
    let last = rest.rsplit_once('/').map(|(_, last)| last);
    if last.is_some_and(|last| last.contains(':')) {
        return fault(Fault::Tag);
    }
    Ok(())
}

/// Whether an entry has all images of `name`, which is a repository or another entry.
pub(super) fn contains(entry: &str, name: &str) -> bool {
    if let Some(domain) = entry.strip_prefix('*') {
        let host = name.split('/').next().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        return host.ends_with(domain);
    }
    let rest = name.strip_prefix(entry);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The repository of an image.
pub(super) fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    match image.rsplit_once(':') {
        // Else it is a port.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_hosts_repositories_and_domains() {
        for entry in [
            "quay.io",
            "reg:5000",
            "reg:5000/a/b",
            "*.example.com",
            "10.0.0.1:5000/a",
        ] {
            assert_eq!(check(entry, true), Ok(()), "{entry}");
        }
        let table = [
            ("", "\"\" names no registry"),
            (
                "https://a",
                "\"https://a\" has a scheme: write the host alone",
            ),
            ("*.a/b", "\"*.a/b\" is a domain with more than a domain"),
            ("a/*.b", "\"a/*.b\" is no registry or repository"),
            ("a//b", "\"a//b\" has an empty part"),
            ("a/b:1", "\"a/b:1\" has a tag: write the repository alone"),
            (
                "a/b@sha256:1",
                "\"a/b@sha256:1\" is no registry or repository",
            ),
        ];
        for (entry, why) in table {
            assert_eq!(check(entry, true).unwrap_err().to_string(), why);
        }
        let why = "\"*.a\" is a domain, which is not taken here";
        assert_eq!(check("*.a", false).unwrap_err().to_string(), why);
    }

    #[test]
    fn an_entry_has_what_is_below_it() {
        let table = [
            ("quay.io", "quay.io/a/b", true),
            ("quay.io/a", "quay.io/a", true),
            ("quay.io/a", "quay.io/ab", false),
            ("reg", "reg:5000/a", false),
            ("*.example.com", "a.example.com:5000/b", true),
            ("*.example.com", "*.b.example.com", true),
            ("*.example.com", "example.com/a", false),
        ];
        for (entry, name, expected) in table {
            assert_eq!(contains(entry, name), expected, "{entry} {name}");
        }
        assert_eq!(repository("reg:5000/a@sha256:1"), "reg:5000/a");
        assert_eq!(repository("reg:5000/a:tag"), "reg:5000/a");
        assert_eq!(repository("reg:5000/a"), "reg:5000/a");
    }
}
