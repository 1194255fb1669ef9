//! Signatures that cosign made with Sigstore's own authority and log, as recorded from them.
//!
//! Source: fixtures of `containers/image` (Apache-2.0), `signature/fixtures`.

use api::config::image_policy::{FulcioSubject, FulcioTrust, PkiSubject, PkiTrust};

use super::*;

/// One that is recorded: its image's digest, its name, and what lay beside it.
struct Recorded {
    digest: ImageDigest,
    name: &'static str,
    signature: AttachedSignature,
}

fn recorded(text: &str, digest: &str, name: &'static str) -> Recorded {
    let object: Value = serde_json::from_str(text).unwrap();
    let payload = object["payload"].as_str().unwrap();
    let annotations = serde_json::from_value(object["annotations"].clone()).unwrap();
    Recorded {
        digest: format!("sha256:{digest}").parse().unwrap(),
        name,
        signature: AttachedSignature::new(BASE64_STANDARD.decode(payload).unwrap(), &annotations),
    }
}

impl Recorded {
    /// What a policy says of it in 2025: nothing, or why not.
    fn verdict(&self, policy: &ClusterImagePolicy) -> Option<String> {
        let image = format!("{}@{}", self.name, self.digest);
        let now = "2025-06-01T00:00:00Z".parse().unwrap();
        let signatures = std::slice::from_ref(&self.signature);
        let verified = verify(&parsed(policy), (&image, &self.digest), signatures, now);
        verified.err().map(|faults| faults[0].to_string())
    }
}

/// As cosign signs: a repository alone.
fn by_repository(root: RootOfTrust) -> ClusterImagePolicy {
    let identity = SignedIdentity {
        match_policy: "MatchRepository".to_owned(),
        ..SignedIdentity::default()
    };
    policy_of(root, Some(identity))
}

const OF_TWO: &str = "0489474da8ea22426ece86ace6c1c0026ab2fd3cdfbbd62b7e94650266c37d9a";

fn by_fulcio(email: &str, issuer: &str) -> ClusterImagePolicy {
    let mut fulcio = FulcioTrust {
        fulcio_subject: FulcioSubject {
            oidc_issuer: issuer.to_owned(),
            signed_email: email.to_owned(),
        },
        ..FulcioTrust::default()
    };
    fulcio.fulcio_ca_data.0 = include_bytes!("recorded/fulcio.pem").to_vec();
    fulcio.rekor_key_data.0 = include_bytes!("recorded/rekor.pub").to_vec();
    by_repository(RootOfTrust {
        policy_type: "FulcioCAWithRekor".to_owned(),
        fulcio: Some(fulcio),
        ..RootOfTrust::default()
    })
}

#[test]
fn signature_of_a_person_is_verified_offline() {
    let text = include_str!("recorded/fulcio-rekor.json");
    let name = "192.168.64.2:5000/cosign-signed/fulcio-rekor-1";
    let mut recorded = recorded(text, OF_TWO, name);
    let (email, issuer) = ("mitr@redhat.com", "https://github.com/login/oauth");
    let policy = by_fulcio(email, issuer);
    assert_eq!(recorded.verdict(&policy), None);
    // Without a tag it is no name for the default.
    let mut exact = policy.clone();
    exact.spec.policy.signed_identity = None;
    let why = recorded.verdict(&exact).unwrap();
    assert!(why.contains("without a tag"), "{why}");
    let why = recorded
        .verdict(&by_fulcio("a@example.com", issuer))
        .unwrap();
    assert!(why.contains("and not for a@example.com"), "{why}");
    let why = recorded.verdict(&by_fulcio(email, "https://a")).unwrap();
    assert!(why.contains("and not \"https://a\""), "{why}");
    // The log says when it took the entry: its time cannot be changed.
    let bundle = recorded.signature.bundle.take().unwrap();
    assert!(bundle.contains("1674247893"));
    recorded.signature.bundle = Some(bundle.replace("1674247893", "1674249000"));
    let why = recorded.verdict(&policy).unwrap();
    assert!(
        why.contains("is not signed by the policy's rekorKeyData"),
        "{why}"
    );
}

#[test]
fn signature_of_a_key_with_an_entry_of_the_log_is_verified() {
    let text = include_str!("recorded/key-rekor.json");
    let recorded = recorded(text, OF_TWO, "192.168.64.2:5000/cosign-signed/key-1");
    let mut public = PublicKey::default();
    public.key_data.0 = include_bytes!("recorded/cosign.pub").to_vec();
    let mut log = public.key_data.clone();
    log.0 = include_bytes!("recorded/rekor.pub").to_vec();
    public.rekor_key_data = Some(log);
    let root = RootOfTrust {
        policy_type: "PublicKey".to_owned(),
        public_key: Some(public),
        ..RootOfTrust::default()
    };
    assert_eq!(recorded.verdict(&by_repository(root)), None);
}

#[test]
fn signature_by_a_certificate_of_an_own_authority_is_verified() {
    let text = include_str!("recorded/pki.json");
    let digest = "253c890b744fe3efa923b68e3a1be07bd007eb44ba29da1e7deb1d4c53b3e212";
    let recorded = recorded(text, digest, "localhost:5000/test");
    let policy = |email: &str, hostname: &str| {
        let mut pki = PkiTrust {
            pki_certificate_subject: PkiSubject {
                email: email.to_owned(),
                hostname: hostname.to_owned(),
            },
            ..PkiTrust::default()
        };
        pki.ca_roots_data.0 = include_bytes!("recorded/pki-roots.pem").to_vec();
        let mut between = pki.ca_roots_data.clone();
        between.0 = include_bytes!("recorded/pki-between.pem").to_vec();
        pki.ca_intermediates_data = Some(between);
        by_repository(RootOfTrust {
            policy_type: "PKI".to_owned(),
            pki: Some(pki),
            ..RootOfTrust::default()
        })
    };
    let email = "qiwan@redhat.com";
    for (email, host) in [
        (email, ""),
        ("", "myhost.example.com"),
        (email, "myhost.example.com"),
    ] {
        assert_eq!(
            recorded.verdict(&policy(email, host)),
            None,
            "{email} {host}"
        );
    }
    let why = recorded
        .verdict(&policy(email, "other.example.com"))
        .unwrap();
    assert!(why.contains("and not for other.example.com"), "{why}");
}
