//! The credentials of an image's registry, for a runtime that has none of its own.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Names of Docker's registry in files of credentials, and the server that has its images.
const DOCKER: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
const DOCKER_SERVER: &str = "registry-1.docker.io";

/// How to log in to one registry. Its debug output has no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryLogin {
    /// The host that serves the images, with its port: the secrets are for no other.
    pub server: String,
    /// Empty where there is a token.
    pub user: String,
    pub password: String,
    /// Empty where there are user and password.
    pub identity_token: String,
}

impl fmt::Debug for RegistryLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryLogin")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Credentials {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default, rename = "identitytoken")]
    identity_token: String,
}

/// The login for an image, of the entry whose key is the longest part of its name; `None` where no
/// entry fits, or it has no secrets.
///
/// Shape: `credentials` is a file as containers-auth.json(5) describes it, which was checked
/// before: one that cannot be read has no entries.
pub fn login(credentials: &[u8], image: &str) -> Option<RegistryLogin> {
    let credentials: Credentials = serde_json::from_slice(credentials).ok()?;
    let name = image.split('@').next().unwrap_or(image);
    let (host, path) = name.split_once('/')?;
    let host = canonical(host);
    let mut scope = format!("{host}/{path}");
    let entries: BTreeMap<String, Entry> = credentials
        .auths
        .into_iter()
        .map(|(key, entry)| (scope_of(&key), entry))
        .collect();
    let entry = loop {
        if let Some(entry) = entries.get(&scope) {
            break entry;
        }
        // The host with its port is the last part that is tried.
        let above = scope.rfind('/')?;
        scope.truncate(above);
    };
    let server = if host == DOCKER[0] {
        DOCKER_SERVER
    } else {
        host
    };
    let login = RegistryLogin {
        server: server.to_owned(),
        user: String::new(),
        password: String::new(),
        identity_token: entry.identity_token.clone(),
    };
    if !login.identity_token.is_empty() {
        return Some(login);
    }
    let decoded = STANDARD.decode(&entry.auth).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some(RegistryLogin {
        user: user.to_owned(),
        // Docker fills some up with zeros.
        password: password.trim_end_matches('\0').to_owned(),
        ..login
    })
    .filter(|login| !login.user.is_empty())
}

/// What a key of the file is compared as. One with a scheme, as Docker once wrote it, stands for
/// its host.
fn scope_of(key: &str) -> String {
    let without = ["https://", "http://"]
        .iter()
        .find_map(|scheme| key.strip_prefix(scheme));
    let scope = match without {
        Some(rest) => rest.split('/').next().unwrap_or(rest),
        None => key.trim_end_matches('/'),
    };
    match scope.split_once('/') {
        Some((host, path)) => format!("{}/{path}", canonical(host)),
        None => canonical(scope).to_owned(),
    }
}

fn canonical(host: &str) -> &str {
    if DOCKER.contains(&host) {
        DOCKER[0]
    } else {
        host
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn the_longest_part_of_the_name_decides_and_ports_are_respected() {
        let auth = |name: &str| json!({"auth": encoded(&format!("{name}:secret"))});
        let file = json!({"auths": {
            "quay.io": auth("host"), "quay.io/team": auth("team"), "quay.io/team/app": auth("app"),
            "r.io:5000": auth("port"), "https://old.io/v1/": auth("old"),
            "https://index.docker.io/v1/": auth("docker"), "none.io": {"auth": ""}, "bare.io": {},
        }});
        let file = file.to_string().into_bytes();
        let digest = format!("@sha256:{}", "0".repeat(64));
        for (image, expected) in [
            ("quay.io/a", Some(("host", "quay.io"))),
            ("quay.io/team/app", Some(("app", "quay.io"))),
            ("quay.io/team/apple", Some(("team", "quay.io"))),
            ("quay.io/teams/app", Some(("host", "quay.io"))),
            ("r.io:5000/a", Some(("port", "r.io:5000"))),
            ("r.io/a", None),
            ("r.io:5001/a", None),
            ("quay.io:443/a", None),
            ("old.io/a", Some(("old", "old.io"))),
            ("docker.io/library/a", Some(("docker", DOCKER_SERVER))),
            ("sub.quay.io/a", None),
            ("none.io/a", None),
            ("bare.io/a", None),
        ] {
            let found = login(&file, &format!("{image}{digest}"));
            let found = found
                .as_ref()
                .map(|it| (it.user.as_str(), it.server.as_str()));
            assert_eq!(found, expected, "{image}");
        }
    }

    #[test]
    fn secrets_are_decoded_and_shown_nowhere() {
        let file = json!({"auths": {
            "a.io": {"auth": encoded("robot:pass:word\0\0")},
            "b.io": {"auth": encoded("x:y"), "identitytoken": "a-token"},
            "c.io": {"auth": "no base64 !"},
            "d.io": {"auth": encoded("no colon")},
        }});
        let file = file.to_string().into_bytes();
        let of = |image: &str| login(&file, image);
        let first = of("a.io/x").unwrap();
        assert_eq!((&*first.user, &*first.password), ("robot", "pass:word"));
        assert_eq!(
            format!("{first:?}"),
            "RegistryLogin { server: \"a.io\", .. }"
        );
        let token = of("b.io/x").unwrap();
        assert_eq!((&*token.user, &*token.identity_token), ("", "a-token"));
        for image in ["c.io/x", "d.io/x", "none"] {
            assert_eq!(of(image), None, "{image}");
        }
        assert_eq!(login(b"{", "a.io/x"), None);
    }
}
