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
}
