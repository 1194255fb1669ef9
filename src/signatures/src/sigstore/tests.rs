//! Images that are signed by keys and certificates made here, and what does not count.

mod certified;
mod recorded;

use api::config::ClusterImagePolicy;
use api::config::image_policy::{
    ClusterImagePolicySpec, PublicKey, RootOfTrust, SignaturePolicy, SignedIdentity,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Key, Nonce, XSalsa20Poly1305};
use jiff::Timestamp;
use release::ImageDigest;
use release::claim::{Claim, ClaimForm};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::attached::AttachedSignature;
use super::policy::{SigstorePolicy, demanding};
use super::signer::SigstoreSigner;
use super::verify;

const NAME: &str = "quay.example/release:4.1.0";

fn digest() -> ImageDigest {
    ImageDigest::of(b"manifest")
}

fn image() -> String {
    format!("quay.example/release@{}", digest())
}

fn claim() -> Claim {
    Claim {
        digest: digest(),
        reference: NAME.to_owned(),
        creator: None,
        timestamp_secs: None,
    }
}

fn pkcs8() -> Vec<u8> {
    let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
    pair.unwrap().as_ref().to_vec()
}

fn signer() -> SigstoreSigner {
    SigstoreSigner::of_pkcs8(&pkcs8()).unwrap()
}

/// A key file, with members changed.
fn key_file(key: &[u8], password: &str, change: impl FnOnce(&mut Value)) -> String {
    let (salt, nonce) = ([7; 32], [9; 24]);
    let mut derived = [0; 32];
    let parameters = scrypt::Params::new(10, 8, 1, 32).unwrap();
    scrypt::scrypt(password.as_bytes(), &salt, &parameters, &mut derived).unwrap();
    let cipher = XSalsa20Poly1305::new(&Key::from(derived));
    let sealed = cipher.encrypt(&Nonce::from(nonce), key).unwrap();
    let mut object = json!({
        "kdf": {
            "name": "scrypt",
            "params": { "N": 1024, "r": 8, "p": 1 },
            "salt": BASE64_STANDARD.encode(salt)
        },
        "cipher": { "name": "nacl/secretbox", "nonce": BASE64_STANDARD.encode(nonce) },
        "ciphertext": BASE64_STANDARD.encode(sealed)
    });
    change(&mut object);
    pem::encode(&pem::Pem::new(
        "ENCRYPTED SIGSTORE PRIVATE KEY",
        object.to_string(),
    ))
}

/// A policy of this root of trust.
fn policy_of(root: RootOfTrust, identity: Option<SignedIdentity>) -> ClusterImagePolicy {
    let spec = ClusterImagePolicySpec {
        policy: SignaturePolicy {
            root_of_trust: root,
            signed_identity: identity,
        },
        scopes: vec!["quay.example/release".to_owned()],
    };
    ClusterImagePolicy::new("openshift", spec)
}

fn by_key(key: &str, log: Option<&str>) -> ClusterImagePolicy {
    let mut public = PublicKey::default();
    public.key_data.0 = key.as_bytes().to_vec();
    public.rekor_key_data = log.map(|log| {
        let mut data = public.key_data.clone();
        data.0 = log.as_bytes().to_vec();
        data
    });
    let root = RootOfTrust {
        policy_type: "PublicKey".to_owned(),
        public_key: Some(public),
        ..RootOfTrust::default()
    };
    policy_of(root, None)
}

fn parsed(policy: &ClusterImagePolicy) -> SigstorePolicy {
    SigstorePolicy::parse(policy).unwrap()
}

/// What verification says: the name that was signed, or why not.
fn verdict(policy: &SigstorePolicy, attached: &[AttachedSignature]) -> Result<String, Vec<String>> {
    let verified = verify(policy, (&image(), &digest()), attached, Timestamp::now());
    verified.map(|claim| claim.reference).map_err(|faults| {
        let faults = faults.iter().map(ToString::to_string);
        faults.collect()
    })
}

#[test]
fn key_of_the_policy_has_signed() {
    let (signer, other) = (signer(), signer());
    let policy = parsed(&by_key(&signer.public_key(), None));
    let signature = signer.sign(&claim()).unwrap();
    let by_other = other.sign(&claim()).unwrap();
    assert_eq!(
        verdict(&policy, std::slice::from_ref(&signature)),
        Ok(NAME.to_owned())
    );
    // One that is valid suffices, wherever it stands.
    assert!(verdict(&policy, &[by_other.clone(), signature.clone()]).is_ok());
    assert_eq!(verdict(&policy, &[]), Err(Vec::new()));
    let short = policy.wanted();
    let short = short.strip_prefix("by key ").unwrap();
    let foreign = format!("it is not signed by key {short}");
    assert_eq!(verdict(&policy, &[by_other]), Err(vec![foreign]));
    // What lies beside an image is read back as it was written.
    let again = AttachedSignature::new(signature.payload.clone(), &signature.annotations());
    assert_eq!(again, signature);
}

#[test]
fn what_does_not_count_is_named() {
    let signer = signer();
    let policy = parsed(&by_key(&signer.public_key(), None));
    let good = signer.sign(&claim()).unwrap();
    let resigned = |payload: Vec<u8>| AttachedSignature {
        signature: BASE64_STANDARD.encode(signer.sign_bytes(&payload).unwrap()),
        payload,
        ..AttachedSignature::default()
    };
    let of = |change: &dyn Fn(&mut AttachedSignature)| {
        let mut signature = good.clone();
        change(&mut signature);
        let fault = verdict(&policy, &[signature]).unwrap_err();
        fault.into_iter().next().unwrap()
    };
    let fault =
        |signature: AttachedSignature| verdict(&policy, &[signature]).unwrap_err().remove(0);
    // Swapped: of another image, or another's payload under this signature.
    let other = Claim {
        digest: ImageDigest::of(b"other"),
        ..claim()
    };
    let swapped = fault(signer.sign(&other).unwrap());
    assert!(
        swapped.starts_with("signature digest does not match: it is about"),
        "{swapped}"
    );
    let foreign = "it is not signed by key";
    assert!(of(&|one| one.payload = other.print(ClaimForm::Sigstore)).starts_with(foreign));
    // Truncated, in either part.
    assert!(of(&|one| one.payload.truncate(40)).starts_with(foreign));
    assert!(of(&|one| one.signature.truncate(8)).starts_with(foreign));
    assert_eq!(
        of(&|one| one.signature.truncate(9)),
        "its signature is no Base64"
    );
    assert_eq!(of(&|one| one.signature.clear()), "it has no signature");
    // Doubled, and signed so.
    let doubled = fault(resigned(
        [good.payload.clone(), good.payload.clone()].concat(),
    ));
    assert_eq!(doubled, "the signature is not valid JSON: field .");
    let text = String::from_utf8(good.payload.clone()).unwrap();
    let twice = text.replacen("{\"critical\"", "{\"critical\":{},\"critical\"", 1);
    assert!(fault(resigned(twice.into_bytes())).contains("is not valid JSON"));
    // A statement of OpenPGP's form.
    let openpgp = claim().print(ClaimForm::OpenPgp);
    assert!(fault(resigned(openpgp)).contains("not the correct type"));
    // Another name.
    let renamed = Claim {
        reference: "quay.example/other:1".to_owned(),
        ..claim()
    };
    assert_eq!(
        fault(signer.sign(&renamed).unwrap()),
        "it was signed as \"quay.example/other:1\", and MatchRepoDigestOrExact asks for \
         \"quay.example/release\""
    );
}

#[test]
fn key_file_is_read_by_its_password() {
    let key = pkcs8();
    let parse = |file: String, password: &str| {
        SigstoreSigner::parse(file.as_bytes(), password).map_err(|error| error.to_string())
    };
    let signer = parse(key_file(&key, "secret", |_| ()), "secret").unwrap();
    let policy = parsed(&by_key(&signer.public_key(), None));
    assert!(verdict(&policy, &[signer.sign(&claim()).unwrap()]).is_ok());
    assert!(parse(key_file(&key, "", |_| ()), "").is_ok());
    let wrong = "the password is wrong, or the key is damaged";
    assert_eq!(parse(key_file(&key, "a", |_| ()), "b").unwrap_err(), wrong);
    let changed = |pointer: &'static str, value: Value| {
        let change = move |object: &mut Value| *object.pointer_mut(pointer).unwrap() = value;
        parse(key_file(&key, "a", change), "a").unwrap_err()
    };
    for (pointer, value, expected) in [
        (
            "/kdf/name",
            json!("argon2"),
            "kdf.name \"argon2\" is not read",
        ),
        (
            "/cipher/name",
            json!("aes"),
            "cipher.name \"aes\" is not read",
        ),
        (
            "/kdf/params/N",
            json!(1_u64 << 40),
            "member kdf.params cannot be used",
        ),
        (
            "/kdf/params/N",
            json!(1000),
            "member kdf.params cannot be used",
        ),
        (
            "/kdf/params/N",
            json!(0),
            "member kdf.params cannot be used",
        ),
        (
            "/kdf/params/r",
            json!(0),
            "member kdf.params cannot be used",
        ),
        (
            "/kdf/params/p",
            json!(1000),
            "member kdf.params cannot be used",
        ),
        ("/kdf/salt", json!("?"), "member kdf.salt cannot be used"),
        (
            "/cipher/nonce",
            json!("AAAA"),
            "member cipher.nonce cannot be used",
        ),
        ("/ciphertext", json!("AAAA"), wrong),
        ("/ciphertext", json!(7), "what it holds is no encrypted key"),
    ] {
        assert_eq!(changed(pointer, value), expected, "{pointer}");
    }
    assert_eq!(parse("x".to_owned(), "").unwrap_err(), "it is no PEM");
    assert_eq!(
        parse(signer.public_key(), "").unwrap_err(),
        "it is PEM of \"PUBLIC KEY\", and no ENCRYPTED SIGSTORE PRIVATE KEY, as cosign keeps it"
    );
    let no_key = key_file(b"no key", "a", |_| ());
    assert_eq!(
        parse(no_key, "a").unwrap_err(),
        "it is no ECDSA key on curve P-256"
    );
}

#[test]
fn policies_of_the_longest_scope_are_about_an_image() {
    let key = signer().public_key();
    let policy = |name: &str, scopes: &[&str]| {
        let mut policy = by_key(&key, None);
        policy.metadata.name = Some(name.to_owned());
        policy.spec.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        parsed(&policy)
    };
    let policies = [
        policy("all", &["*.io", "q.io"]),
        policy("one", &["q.io/a", "q.io/b"]),
        policy("other", &["q.io/a"]),
        policy("image", &["q.io/a:1"]),
    ];
    let of = |image: &str| {
        let names = demanding(&policies, image).into_iter();
        names.map(SigstorePolicy::name).collect::<Vec<_>>()
    };
    let digest = digest();
    assert_eq!(of(&format!("q.io/a@{digest}")), ["one", "other"]);
    assert_eq!(of(&format!("q.io/b/c@{digest}")), ["one"]);
    assert_eq!(of("q.io/a:1"), ["image"]);
    assert_eq!(of("q.io/x:1"), ["all"]);
    assert_eq!(of("n.org/x:1"), [""; 0]);
    assert!(demanding(&[], "q.io/a:1").is_empty());
}

#[test]
fn field_of_a_policy_that_cannot_be_used_is_named() {
    let why = |policy: &ClusterImagePolicy| {
        let error = SigstorePolicy::parse(policy).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap();
        format!("{error}: {cause}")
    };
    let at = "ClusterImagePolicy openshift: spec.policy.";
    let empty = policy_of(RootOfTrust::default(), None);
    assert_eq!(
        why(&empty),
        format!("{at}rootOfTrust.policyType: there is no type \"\"")
    );
    for (kind, field) in [
        ("PublicKey", "publicKey"),
        ("FulcioCAWithRekor", "fulcioCAWithRekor"),
        ("PKI", "pki"),
    ] {
        let root = RootOfTrust {
            policy_type: kind.to_owned(),
            ..RootOfTrust::default()
        };
        let expected = format!("{at}rootOfTrust.{field}: it is missing");
        assert_eq!(why(&policy_of(root, None)), expected);
    }
    let key = format!("{at}rootOfTrust.publicKey.keyData: ");
    let good = signer().public_key();
    let p521 =
        "-----BEGIN PUBLIC KEY-----\nMBQwEgYHKoZIzj0CAQYHKoZIzj0CAQ==\n-----END PUBLIC KEY-----\n";
    for (text, expected) in [
        ("", "it is no PEM"),
        (
            &key_file(b"", "", |_| ())[..],
            "it is PEM of \"ENCRYPTED SIGSTORE PRIVATE KEY\", and no public key",
        ),
        (&good.repeat(2), "it holds more than one key"),
        (p521, "it is no public key"),
    ] {
        let found = why(&by_key(text, None));
        assert!(found.starts_with(&format!("{key}{expected}")), "{found}");
    }
    let found = why(&by_key(&good, Some("x")));
    assert!(
        found.starts_with(&format!("{at}rootOfTrust.publicKey.rekorKeyData: ")),
        "{found}"
    );
    let identity = SignedIdentity {
        match_policy: "Any".to_owned(),
        ..SignedIdentity::default()
    };
    let mut policy = by_key(&good, None);
    policy.spec.policy.signed_identity = Some(identity);
    assert_eq!(
        why(&policy),
        format!("{at}signedIdentity: matchPolicy: there is no policy \"Any\"")
    );
}
