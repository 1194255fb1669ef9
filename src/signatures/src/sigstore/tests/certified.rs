//! Keys of certificates, and entries of a transparency log.

use api::config::image_policy::{FulcioSubject, FulcioTrust, PkiSubject, PkiTrust};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, SanType,
    date_time_ymd,
};

use super::*;

const EMAIL: &str = "release@example.com";
const OIDC: &str = "https://login.example.com";

/// When the log took the entry: within the certificate's ten minutes.
const INTEGRATED: i64 = 1_700_000_000;

/// An authority of certificates, and a transparency log.
struct World {
    authority: Issuer<'static, KeyPair>,
    root: String,
    log: SigstoreSigner,
}

/// What a leaf says.
struct Leaf {
    email: &'static str,
    /// Issuers of the identity: as bare text, and as DER.
    issuers: (Option<&'static str>, Option<&'static str>),
    /// Years in which it is valid.
    years: (i32, i32),
}

const LEAF: Leaf = Leaf {
    email: EMAIL,
    issuers: (Some(OIDC), Some(OIDC)),
    years: (2023, 2024),
};

impl World {
    fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = parameters.self_signed(&key).unwrap().pem();
        Self {
            authority: Issuer::new(parameters, key),
            root,
            log: signer(),
        }
    }

    /// A leaf and the signature of its key.
    fn signed(&self, leaf: &Leaf, claim: &Claim) -> AttachedSignature {
        let key = pkcs8();
        let signer = SigstoreSigner::of_pkcs8(&key).unwrap();
        let der = rustls_pki_types::PrivatePkcs8KeyDer::from(key);
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256).unwrap();
        let mut parameters = CertificateParams::default();
        parameters.subject_alt_names = vec![SanType::Rfc822Name(leaf.email.try_into().unwrap())];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        parameters.not_before = date_time_ymd(leaf.years.0, 1, 1);
        parameters.not_after = date_time_ymd(leaf.years.1, 1, 1);
        let fulcio = [1, 3, 6, 1, 4, 1, 57264, 1];
        let extension = |last: u64, content| {
            let oid: Vec<u64> = fulcio.into_iter().chain([last]).collect();
            CustomExtension::from_oid_content(&oid, content)
        };
        let text = |text: &str| text.as_bytes().to_vec();
        let der = |text: &str| {
            let length = u8::try_from(text.len()).unwrap();
            [&[0x0c, length], text.as_bytes()].concat()
        };
        let (first, second) = leaf.issuers;
        let first = first.map(|issuer| extension(1, text(issuer)));
        let second = second.map(|issuer| extension(8, der(issuer)));
        parameters.custom_extensions = first.into_iter().chain(second).collect();
        let certificate = parameters.signed_by(&pair, &self.authority).unwrap();
        let mut signature = signer.sign(claim).unwrap();
        signature.certificate = Some(certificate.pem());
        signature.bundle = Some(self.bundle(&signature, |_| ()));
        signature
    }

    /// The promise of the log, with the entry changed.
    fn bundle(&self, signature: &AttachedSignature, change: impl FnOnce(&mut Value)) -> String {
        let signer = signature.certificate.as_ref().unwrap();
        let mut body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": { "hash": {
                    "algorithm": "sha256", "value": ImageDigest::of(&signature.payload).hex()
                } },
                "signature": {
                    "content": signature.signature,
                    "publicKey": { "content": BASE64_STANDARD.encode(signer) }
                }
            }
        });
        change(&mut body);
        let payload = json!({
            "body": BASE64_STANDARD.encode(body.to_string()),
            "integratedTime": INTEGRATED, "logID": "c0ffee", "logIndex": 7
        });
        let set = self.log.sign_bytes(payload.to_string().as_bytes()).unwrap();
        // Written in another order than the canonical one.
        let payload = json!({
            "logIndex": 7, "logID": "c0ffee", "integratedTime": INTEGRATED,
            "body": payload["body"]
        });
        json!({ "SignedEntryTimestamp": BASE64_STANDARD.encode(set), "Payload": payload })
            .to_string()
    }

    fn policy(&self) -> ClusterImagePolicy {
        let mut fulcio = FulcioTrust {
            fulcio_subject: FulcioSubject {
                oidc_issuer: OIDC.to_owned(),
                signed_email: EMAIL.to_owned(),
            },
            ..FulcioTrust::default()
        };
        fulcio.fulcio_ca_data.0 = self.root.clone().into_bytes();
        fulcio.rekor_key_data.0 = self.log.public_key().into_bytes();
        let root = RootOfTrust {
            policy_type: "FulcioCAWithRekor".to_owned(),
            fulcio: Some(fulcio),
            ..RootOfTrust::default()
        };
        policy_of(root, None)
    }
}

#[test]
fn certificate_counts_as_valid_when_the_log_took_the_entry() {
    let world = World::new();
    let policy = parsed(&world.policy());
    let good = world.signed(&LEAF, &claim());
    assert_eq!(
        verdict(&policy, std::slice::from_ref(&good)),
        Ok(NAME.to_owned())
    );
    assert_eq!(
        policy.wanted(),
        "by release@example.com of https://login.example.com, with an entry of a transparency log"
    );
    let fault = |signature| verdict(&policy, &[signature]).unwrap_err().remove(0);
    let of = |leaf: Leaf| fault(world.signed(&leaf, &claim()));
    let expired = of(Leaf {
        years: (2021, 2022),
        ..LEAF
    });
    assert!(
        expired.starts_with("its certificate is not valid at 2023-11-14"),
        "{expired}"
    );
    let early = of(Leaf {
        years: (2025, 2026),
        ..LEAF
    });
    assert!(
        early.starts_with("its certificate is not valid at"),
        "{early}"
    );
    let other = of(Leaf {
        email: "a@example.com",
        ..LEAF
    });
    assert_eq!(
        other,
        "its certificate is for a@example.com, and not for release@example.com"
    );
    let issuer = of(Leaf {
        issuers: (Some("https://a"), None),
        ..LEAF
    });
    assert!(
        issuer.starts_with("its certificate has the issuer \"https://a\""),
        "{issuer}"
    );
    let none = of(Leaf {
        issuers: (None, None),
        ..LEAF
    });
    assert!(
        none.starts_with("its certificate has the issuer \"\""),
        "{none}"
    );
    let two = of(Leaf {
        issuers: (Some(OIDC), Some("https://a")),
        ..LEAF
    });
    assert!(two.ends_with("it has two issuers"), "{two}");
    for issuers in [(Some(OIDC), None), (None, Some(OIDC))] {
        let one = world.signed(&Leaf { issuers, ..LEAF }, &claim());
        assert!(verdict(&policy, &[one]).is_ok(), "{issuers:?}");
    }
    // Another authority, and another log.
    let strange = World::new().signed(&LEAF, &claim());
    assert!(fault(strange.clone()).contains("is not signed by the policy's rekorKeyData"));
    let logged = AttachedSignature {
        bundle: Some(world.bundle(&strange, |_| ())),
        ..strange
    };
    let foreign = fault(logged);
    assert!(
        foreign.starts_with("its certificate is not by the policy's authority"),
        "{foreign}"
    );
    // A key, and no certificate.
    let plain = signer().sign(&claim()).unwrap();
    assert_eq!(
        fault(plain),
        "it has no certificate, which the policy asks for"
    );
    // The certificate of another signature.
    let swapped = AttachedSignature {
        certificate: world.signed(&LEAF, &claim()).certificate,
        ..good
    };
    assert_eq!(
        fault(swapped),
        "its log entry is about another key or certificate"
    );
}

#[test]
fn entry_of_the_log_is_about_this_signature() {
    let world = World::new();
    let policy = parsed(&world.policy());
    let good = world.signed(&LEAF, &claim());
    let fault = |bundle: Option<String>| {
        let signature = AttachedSignature {
            bundle,
            ..good.clone()
        };
        verdict(&policy, &[signature]).unwrap_err().remove(0)
    };
    let changed = |pointer: &'static str, value: Value| {
        fault(Some(world.bundle(&good, |body| {
            *body.pointer_mut(pointer).unwrap() = value;
        })))
    };
    let absent = "it has no entry of a transparency log, which the policy asks for";
    assert_eq!(fault(None), absent);
    let form = "its log entry is not of the form that cosign writes";
    assert_eq!(fault(Some("{".to_owned())), form);
    let bundle = good.bundle.clone().unwrap();
    assert_eq!(fault(Some(bundle.replace("logID", "logId"))), form);
    assert_eq!(
        fault(Some(bundle.replace("1700000000", "1700000001"))),
        "its log entry is not signed by the policy's rekorKeyData"
    );
    for (pointer, value, expected) in [
        (
            "/kind",
            json!("rekord"),
            "its log entry is of kind \"rekord 0.0.1\", and not hashedrekord 0.0.1",
        ),
        (
            "/spec/data/hash/value",
            json!("00"),
            "its log entry is about another payload",
        ),
        (
            "/spec/data/hash/algorithm",
            json!("sha512"),
            "its log entry is about another payload",
        ),
        (
            "/spec/signature/content",
            json!("AAAA"),
            "its log entry is about another signature",
        ),
        (
            "/spec/signature/content",
            json!("?"),
            "its log entry: signature.content is no Base64",
        ),
        (
            "/spec/signature/publicKey/content",
            json!("AAAA"),
            "its log entry is about another key or certificate",
        ),
        ("/spec/data", json!({}), form),
    ] {
        assert_eq!(changed(pointer, value), expected, "{pointer}");
    }
}

#[test]
fn key_may_need_an_entry_of_the_log() {
    let world = World::new();
    let signer = signer();
    let policy = parsed(&by_key(&signer.public_key(), Some(&world.log.public_key())));
    let mut signature = signer.sign(&claim()).unwrap();
    let absent = "it has no entry of a transparency log, which the policy asks for";
    assert_eq!(
        verdict(&policy, &[signature.clone()]),
        Err(vec![absent.to_owned()])
    );
    // The entry has the key where it has a certificate otherwise.
    signature.certificate = Some(signer.public_key());
    signature.bundle = Some(world.bundle(&signature, |_| ()));
    signature.certificate = None;
    assert_eq!(verdict(&policy, &[signature]), Ok(NAME.to_owned()));
}

#[test]
fn certificate_of_an_own_authority_is_valid_now() {
    let world = World::new();
    let mut pki = PkiTrust {
        pki_certificate_subject: PkiSubject {
            email: EMAIL.to_owned(),
            hostname: String::new(),
        },
        ..PkiTrust::default()
    };
    pki.ca_roots_data.0 = world.root.clone().into_bytes();
    let root = RootOfTrust {
        policy_type: "PKI".to_owned(),
        pki: Some(pki),
        ..RootOfTrust::default()
    };
    let policy = parsed(&policy_of(root, None));
    let valid = Leaf {
        years: (2020, 2090),
        ..LEAF
    };
    let mut good = world.signed(&valid, &claim());
    good.bundle = None;
    assert_eq!(verdict(&policy, &[good]), Ok(NAME.to_owned()));
    let expired = verdict(&policy, &[world.signed(&LEAF, &claim())]).unwrap_err();
    assert!(
        expired[0].starts_with("its certificate is not valid at"),
        "{expired:?}"
    );
    let foreign = verdict(&policy, &[World::new().signed(&valid, &claim())]).unwrap_err();
    assert!(
        foreign[0].contains("not by the policy's authority"),
        "{foreign:?}"
    );
}
