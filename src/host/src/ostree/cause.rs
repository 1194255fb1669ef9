//! Why an image cannot be fetched, in classes.
//!
//! skopeo passes a registry's error, and its own, as a text without a class (`RequestReturned` of
//! `containers_image_proxy`), and libostree has no class for `min-free-space`.

use std::error::Error as StdError;
use std::{fmt, io};

use chassis::report::Chain;
use ostree_ext::{gio, glib};

/// Why an image cannot be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchCause {
    /// The host has no room for it.
    NoRoom,
    /// The signature policy refuses it.
    Policy,
    /// A registry, its name or its proxy cannot be reached, or does not work.
    Unreachable,
    /// A registry's certificate is not trusted.
    Untrusted,
    /// A registry refuses the credentials, or asks for some.
    NotAuthorised,
    /// A registry answers that it has no such image.
    NoSuchImage,
    /// There is an image, and none for this host.
    Unusable,
    /// None of these.
    Other,
}

/// Phrases by class. The first class with a phrase counts: where one of several mirrors cannot be
/// reached, it may have what the others have not.
const PHRASES: [(FetchCause, &[&str]); 7] = [
    (
        FetchCause::NoRoom,
        &["No space left on device", "min-free-space"],
    ),
    (
        FetchCause::Policy,
        &[
            "Source image rejected",
            "is rejected by policy",
            // In a pull of the image library skopeo gives the reason alone.
            "A signature was required",
            "signatures were accepted",
            "signature verification failed",
            "Rekor SET",
            "is not accepted",
            "Signature expired",
            "Signature for ",
            "Signature by ",
            "Invalid GPG signature",
            "Fulcio ",
            "leaf certificate",
            "Required email",
            "Unexpected subject hostname",
        ],
    ),
    (
        FetchCause::Unreachable,
        &[
            "no such host",
            "connection refused",
            "connection reset",
            "no route to host",
            "network is unreachable",
            "server misbehaving",
            "timeout",
            "deadline exceeded",
            "unexpected EOF",
            "too many requests",
            "toomanyrequests",
            "status: 5",
            "from registry 5",
        ],
    ),
    (
        FetchCause::Untrusted,
        &["x509: ", "HTTP response to HTTPS client"],
    ),
    (
        FetchCause::NotAuthorised,
        &[
            "unauthorized",
            "authentication required",
            "denied",
            "bearer token: invalid status code from registry 4",
        ],
    ),
    (
        FetchCause::NoSuchImage,
        &["manifest unknown", "name unknown", "not found"],
    ),
    (
        FetchCause::Unusable,
        &[
            "no image found in ",
            "invalid reference format",
            "unsupported",
            "Unhandled layer type",
        ],
    ),
];

impl FetchCause {
    /// The class of an error.
    pub(super) fn of(error: &(dyn StdError + 'static)) -> Self {
        if is_full(error) {
            return Self::NoRoom;
        }
        let text = Chain(error).to_string();
        let mut classes = PHRASES.iter();
        let found = classes.find(|(_, phrases)| phrases.iter().any(|said| text.contains(said)));
        found.map_or(Self::Other, |(class, _)| *class)
    }

    /// Whether a retry is useless until the image, the plan or the host changes. Certificates of a
    /// registry come to a host without an update.
    pub(super) const fn is_final(self) -> bool {
        match self {
            Self::NoRoom
            | Self::Policy
            | Self::NotAuthorised
            | Self::NoSuchImage
            | Self::Unusable => true,
            Self::Unreachable | Self::Untrusted | Self::Other => false,
        }
    }
}

impl fmt::Display for FetchCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => ": this host has no room for it",
            Self::Policy => ": the signature policy /etc/containers/policy.json refuses it",
            Self::Unreachable => ": its registry cannot be reached",
            Self::Untrusted => ": the certificate of its registry is not trusted",
            Self::NotAuthorised => ": its registry does not authorise this host",
            Self::NoSuchImage => ": its registry has no such image",
            Self::Unusable => ": it is no image for this host",
            Self::Other => "",
        })
    }
}

/// Whether an error or one of its causes says by its class that a file system is full.
fn is_full(error: &(dyn StdError + 'static)) -> bool {
    let system = error.downcast_ref::<io::Error>();
    let glib = error.downcast_ref::<glib::Error>();
    system.is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
        || glib.is_some_and(|error| error.matches(gio::IOErrorEnum::NoSpace))
        || error.source().is_some_and(is_full)
}

#[cfg(test)]
mod tests {
    use super::super::Error;
    use super::super::refs::fetch_error;
    use super::*;

    #[test]
    fn each_cause_is_known_by_its_words() {
        for (text, cause) in [
            (
                "manifest unknown: manifest unknown",
                FetchCause::NoSuchImage,
            ),
            (
                "unauthorized: authentication required",
                FetchCause::NotAuthorised,
            ),
            (
                "Requesting bearer token: invalid status code from registry 404 (Not Found)",
                FetchCause::NotAuthorised,
            ),
            (
                "Requesting bearer token: invalid status code from registry 503",
                FetchCause::Unreachable,
            ),
            ("write: No space left on device", FetchCause::NoRoom),
            (
                "dial tcp: lookup registry: no such host",
                FetchCause::Unreachable,
            ),
            ("connect: connection refused", FetchCause::Unreachable),
            (
                "received unexpected HTTP status: 503 Service Unavailable",
                FetchCause::Unreachable,
            ),
            (
                "Source image rejected: Running image docker://os is rejected by policy.",
                FetchCause::Policy,
            ),
            (
                "A signature was required, but no signature exists",
                FetchCause::Policy,
            ),
            (
                "cryptographic signature verification failed: invalid signature when validating",
                FetchCause::Policy,
            ),
            (
                "Required email \"a\" not found (got [])",
                FetchCause::Policy,
            ),
            (
                "Signature for identity \"q/os:1\" is not accepted",
                FetchCause::Policy,
            ),
            (
                "pinging container registry r: x509: certificate signed by unknown authority",
                FetchCause::Untrusted,
            ),
            (
                "(Mirrors also failed: [m/os: manifest unknown]): r/os: lookup r: no such host",
                FetchCause::Unreachable,
            ),
            (
                "no image found in manifest list for architecture s390x",
                FetchCause::Unusable,
            ),
            (
                "no image found in image index for architecture \"arm64\", variant \"v8\", OS \"linux\"",
                FetchCause::Unusable,
            ),
            (
                "Unhandled layer type: application/vnd.example.model",
                FetchCause::Unusable,
            ),
            ("the world ends", FetchCause::Other),
        ] {
            let error = fetch_error("os", text.to_owned());
            let Error::Fetch { cause: found, .. } = &error else {
                panic!("{error:?}");
            };
            assert_eq!(*found, cause, "{text}");
            assert_eq!(error.is_final(), cause.is_final());
            assert_eq!(error.to_string(), format!("cannot fetch os{cause}"));
        }
    }

    #[test]
    fn a_full_file_system_is_known_by_its_class() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let wrapped = Error::Io {
            path: "/ostree/repo".to_owned(),
            source: full(),
        };
        for error in [
            fetch_error("os", full()),
            fetch_error("os", wrapped),
            fetch_error("os", glib::Error::new(gio::IOErrorEnum::NoSpace, "full")),
        ] {
            assert!(error.is_final(), "{error:?}");
        }
        let timeout = io::Error::from(io::ErrorKind::TimedOut);
        assert!(!fetch_error("os", timeout).is_final());
    }
}
