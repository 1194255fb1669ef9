use pgp::composed::{
    Deserializable as _, DetachedSignature, EncryptionCaps, KeyType, MessageBuilder,
    SecretKeyParamsBuilder, SignedSecretKey, SubkeyParamsBuilder, SubpacketConfig,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{KeyFlags, SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{Duration, KeyDetails as _, Password, SigningKey, Tag};
use rand::rngs::OsRng;
use release::ImageDigest;
use release::claim::{Claim, ClaimForm};

use super::*;
use crate::signer::{self, Signer};
use crate::verify::verify;

mod clients;
mod trust;

/// When the keys of these tests were made, in seconds since 1970: later than any clock, by which
/// the library dates the certificates that it makes.
const MADE_SECS: u32 = 4_000_000_000;
const DAY_SECS: u32 = 86_400;

fn time(secs: u32) -> pgp::types::Timestamp {
    pgp::types::Timestamp::from_secs(secs)
}

fn now() -> Timestamp {
    Timestamp::from_second(i64::from(MADE_SECS + DAY_SECS)).unwrap()
}

fn later(days: u32) -> Timestamp {
    Timestamp::from_second(i64::from(MADE_SECS + days * DAY_SECS)).unwrap()
}

/// A key that signs itself, or by a subkey.
fn secret(has_subkey: bool) -> SignedSecretKey {
    let mut subkey = SubkeyParamsBuilder::default();
    subkey
        .key_type(KeyType::Ed25519Legacy)
        .can_sign(true)
        .can_encrypt(EncryptionCaps::None)
        .created_at(time(MADE_SECS));
    let mut key = SecretKeyParamsBuilder::default();
    key.key_type(KeyType::Ed25519Legacy)
        .can_certify(true)
        .can_sign(!has_subkey)
        .created_at(time(MADE_SECS))
        .primary_user_id("test".to_owned());
    if has_subkey {
        key.subkeys(vec![subkey.build().unwrap()]);
    }
    key.build().unwrap().generate(OsRng).unwrap()
}

fn ring(key: &SignedSecretKey) -> Keyring {
    Keyring {
        name: "test".to_owned(),
        keys: vec![key.to_public_key()],
    }
}

fn claim() -> Claim {
    Claim {
        digest: ImageDigest::of(b""),
        reference: "quay.io/example/release:1.2.3".to_owned(),
        creator: None,
        timestamp_secs: None,
    }
}

fn signer(key: &SignedSecretKey) -> Signer {
    let bytes = key
        .to_armored_bytes(pgp::composed::ArmorOptions::default())
        .unwrap();
    Signer::parse(&bytes, "").unwrap()
}

/// A message with these subpackets, signed by a key.
fn message(key: &dyn SigningKey, hash: HashAlgorithm, hashed: Vec<SubpacketData>) -> Vec<u8> {
    let subpackets = SubpacketConfig::UserDefined {
        hashed: hashed
            .into_iter()
            .map(|data| Subpacket::regular(data).unwrap())
            .collect(),
        unhashed: Vec::new(),
    };
    let mut message = MessageBuilder::from_bytes("", claim().print(ClaimForm::OpenPgp));
    message.sign_with_subpackets(key, Password::empty(), hash, subpackets);
    message.to_vec(OsRng).unwrap()
}

fn refusal(ring: &Keyring, message: &[u8], now: Timestamp) -> String {
    ring.open(message, now).unwrap_err().to_string()
}

#[test]
fn signature_of_a_file_stands_apart_and_is_of_its_bytes() {
    for has_subkey in [false, true] {
        let key = secret(has_subkey);
        let armoured = signer(&key).sign_file(b"sums\n", now()).unwrap();
        let (signature, _) = DetachedSignature::from_armor_single(armoured.as_slice()).unwrap();
        let public = key.to_public_key();
        let verify = |bytes: &[u8]| match public.public_subkeys.first() {
            Some(subkey) => signature.verify(subkey, bytes),
            None => signature.verify(&public, bytes),
        };
        verify(b"sums\n").unwrap();
        verify(b"sums").unwrap_err();
    }
}

#[test]
fn what_a_key_signed_is_read_back() {
    for has_subkey in [false, true] {
        let key = secret(has_subkey);
        let message = signer(&key).sign(&claim(), now()).unwrap();
        let signed = ring(&key).open(&message, now()).unwrap();
        assert_eq!(Claim::parse(&signed.content).unwrap(), claim());
        let by = match key.secret_subkeys.first() {
            Some(subkey) => subkey.fingerprint(),
            None => key.primary_key.fingerprint(),
        };
        assert_eq!(signed.fingerprint, by.to_string());
    }
}

/// `gpg --sign` 2.2.40 made it, with an RSA subkey: the statement is compressed. The key is its
/// `gpg --export --armor`.
#[test]
fn signature_of_gpg_is_read() {
    let ring = Keyring::parse("gpg", include_bytes!("../testdata/key-of-gpg.asc")).unwrap();
    let message = include_bytes!("../testdata/signature-by-gpg");
    let now: Timestamp = "2024-01-03T00:00:00Z".parse().unwrap();
    let signed = ring.open(message, now).unwrap();
    assert_eq!(
        signed.fingerprint,
        "84bb04ccd9120c40d5341df30e06e002a0e561a5"
    );
    let claim = Claim::parse(&signed.content).unwrap();
    assert_eq!(claim.creator.as_deref(), Some("gpg"));
    let verified = verify(
        &ImageDigest::of(b""),
        None,
        &[ring],
        &[message.to_vec()],
        now,
    );
    assert_eq!(verified.unwrap().by[0].0, "gpg");
}

#[test]
fn other_messages_are_refused() {
    let key = secret(false);
    let ring = ring(&key);
    let good = signer(&key).sign(&claim(), now()).unwrap();
    let foreign = signer(&secret(false)).sign(&claim(), now()).unwrap();
    assert_eq!(
        refusal(&ring, &foreign, now()),
        "no key of keyring test signed it"
    );
    let plain = MessageBuilder::from_bytes("", claim().print(ClaimForm::OpenPgp))
        .to_vec(OsRng)
        .unwrap();
    assert_eq!(
        refusal(&ring, &plain, now()),
        "no key of keyring test signed it"
    );
    for text in [
        &b""[..],
        b"no message",
        &good[..good.len() - 1],
        &good[..40],
    ] {
        assert!(ring.open(text, now()).is_err());
    }
    // Each byte counts, except those of lengths and key ids that nothing depends on.
    let mut changed = good;
    let place = changed
        .windows(5)
        .position(|bytes| bytes == b"1.2.3")
        .unwrap();
    changed[place] = b'9';
    assert_eq!(
        refusal(&ring, &changed, now()),
        "no key of keyring test signed it"
    );
    let large = {
        let mut message = MessageBuilder::from_bytes("", vec![b'x'; 70_000]);
        message.sign(&key.primary_key, Password::empty(), HashAlgorithm::Sha256);
        message.to_vec(OsRng).unwrap()
    };
    assert_eq!(
        refusal(&ring, &large, now()),
        "its content is larger than 65536 bytes"
    );
}

#[test]
fn signature_counts_only_in_its_lifetime() {
    let key = secret(false);
    let day = SubpacketData::SignatureExpirationTime(Duration::from_secs(DAY_SECS));
    let created = SubpacketData::SignatureCreationTime(time(MADE_SECS));
    let message = message(&key.primary_key, HashAlgorithm::Sha256, vec![created, day]);
    let just_before = Timestamp::from_second(now().as_second() - 1).unwrap();
    assert!(ring(&key).open(&message, just_before).is_ok());
    assert!(refusal(&ring(&key), &message, now()).ends_with("the signature's lifetime is over"));
}

#[test]
fn signature_needs_a_time_and_a_good_hash() {
    let key = secret(false);
    let created = || vec![SubpacketData::SignatureCreationTime(time(MADE_SECS))];
    let timeless = message(&key.primary_key, HashAlgorithm::Sha256, Vec::new());
    assert!(refusal(&ring(&key), &timeless, now()).ends_with("it does not say when"));
    let good = message(&key.primary_key, HashAlgorithm::Sha512, created());
    assert!(ring(&key).open(&good, now()).is_ok());
    let weak = {
        let mut message = MessageBuilder::from_bytes("", claim().print(ClaimForm::OpenPgp));
        let subpackets = SubpacketConfig::UserDefined {
            hashed: created()
                .into_iter()
                .map(|data| Subpacket::regular(data).unwrap())
                .collect(),
            unhashed: Vec::new(),
        };
        message.sign_with_subpackets(
            &key.primary_key,
            Password::empty(),
            HashAlgorithm::Sha1,
            subpackets,
        );
        message.to_vec(OsRng)
    };
    // The library does not sign by it; what does is refused.
    if let Ok(weak) = weak {
        assert!(refusal(&ring(&key), &weak, now()).ends_with("its hash is broken"));
    }
}

/// Puts another certificate of its own on a key.
fn certify(key: &mut SignedSecretKey, made_secs: u32, life_secs: Option<u32>, may_sign: bool) {
    let mut flags = KeyFlags::default();
    flags.set_certify(true);
    flags.set_sign(may_sign);
    let mut config =
        SignatureConfig::from_key(OsRng, &key.primary_key, SignatureType::CertPositive).unwrap();
    let life = life_secs.map(|secs| SubpacketData::KeyExpirationTime(Duration::from_secs(secs)));
    config.hashed_subpackets = [
        Some(SubpacketData::SignatureCreationTime(time(made_secs))),
        Some(SubpacketData::IssuerFingerprint(
            key.primary_key.fingerprint(),
        )),
        Some(SubpacketData::KeyFlags(flags)),
        life,
    ]
    .into_iter()
    .flatten()
    .map(|data| Subpacket::regular(data).unwrap())
    .collect();
    let user = &mut key.details.users[0];
    let certificate = config.sign_certification(
        &key.primary_key,
        key.primary_key.public_key(),
        &Password::empty(),
        Tag::UserId,
        &user.id,
    );
    user.signatures.push(certificate.unwrap());
}

#[test]
fn key_counts_until_it_expires() {
    for has_subkey in [false, true] {
        let mut key = secret(has_subkey);
        certify(&mut key, MADE_SECS + 1, Some(10 * DAY_SECS), !has_subkey);
        // The certificates that came with it are older or of the same time: the newest counts.
        key.details.users[0]
            .signatures
            .retain(|it| it.created() == Some(time(MADE_SECS + 1)));
        let before = signer(&key).sign(&claim(), later(9)).unwrap();
        // What it signed in time counts on.
        assert!(ring(&key).open(&before, later(99)).is_ok());
        let after = signer(&key).sign(&claim(), later(11)).unwrap();
        assert!(refusal(&ring(&key), &after, later(11)).ends_with("the key had expired by then"));
    }
}

#[test]
fn newest_certificate_says_whether_a_key_may_sign() {
    let mut key = secret(false);
    key.details.users[0].signatures.clear();
    certify(&mut key, MADE_SECS, None, true);
    let message = signer(&key).sign(&claim(), now()).unwrap();
    assert!(ring(&key).open(&message, now()).is_ok());
    certify(&mut key, MADE_SECS + 1, None, false);
    assert_eq!(
        refusal(&ring(&key), &message, now()),
        "no key of keyring test signed it"
    );
}

#[test]
fn revoked_key_does_not_count() {
    for has_subkey in [false, true] {
        let mut key = secret(has_subkey);
        let message = signer(&key).sign(&claim(), now()).unwrap();
        let mut config =
            SignatureConfig::from_key(OsRng, &key.primary_key, SignatureType::KeyRevocation)
                .unwrap();
        let created = SubpacketData::SignatureCreationTime(time(MADE_SECS + 1));
        config.hashed_subpackets = vec![Subpacket::regular(created).unwrap()];
        let revocation = config.sign_key(
            &key.primary_key,
            &Password::empty(),
            key.primary_key.public_key(),
        );
        key.details.revocation_signatures.push(revocation.unwrap());
        assert!(refusal(&ring(&key), &message, now()).ends_with("the key is revoked"));
    }
}

#[test]
fn revoked_subkey_does_not_count() {
    let mut key = secret(true);
    let message = signer(&key).sign(&claim(), now()).unwrap();
    let mut config =
        SignatureConfig::from_key(OsRng, &key.primary_key, SignatureType::SubkeyRevocation)
            .unwrap();
    let created = SubpacketData::SignatureCreationTime(time(MADE_SECS + 1));
    config.hashed_subpackets = vec![Subpacket::regular(created).unwrap()];
    let revocation = config.sign_subkey_binding(
        &key.primary_key,
        key.primary_key.public_key(),
        &Password::empty(),
        key.secret_subkeys[0].key.public_key(),
    );
    key.secret_subkeys[0].signatures.push(revocation.unwrap());
    assert!(refusal(&ring(&key), &message, now()).ends_with("the key is revoked"));
}

#[test]
fn subkey_of_another_key_does_not_count() {
    let (mut key, other) = (secret(true), secret(true));
    let message = signer(&other).sign(&claim(), now()).unwrap();
    key.secret_subkeys.clone_from(&other.secret_subkeys);
    assert_eq!(
        refusal(&ring(&key), &message, now()),
        "no key of keyring test signed it"
    );
}

#[test]
fn keyrings_hold_keys() {
    let (one, other) = (secret(false), secret(true));
    let armoured = |key: &SignedSecretKey| signer(key).public_key().unwrap();
    let ring = Keyring::parse("one", armoured(&one).as_bytes()).unwrap();
    let message = signer(&one).sign(&claim(), now()).unwrap();
    assert!(ring.open(&message, now()).is_ok());
    // Binary, and several keys.
    let mut binary = Vec::new();
    for key in [&one, &other] {
        pgp::ser::Serialize::to_writer(&key.to_public_key(), &mut binary).unwrap();
    }
    let ring = Keyring::parse("both", &binary).unwrap();
    assert!(ring.open(&message, now()).is_ok());
    assert!(
        ring.open(&signer(&other).sign(&claim(), now()).unwrap(), now())
            .is_ok()
    );
    for bytes in [&b""[..], b"x", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"] {
        let error = Keyring::parse("bad", bytes).unwrap_err().to_string();
        assert!(error.starts_with("keyring bad "), "{error}");
    }
}

#[test]
fn only_one_secret_key_signs() {
    let key = secret(false);
    let public = signer(&key).public_key().unwrap();
    assert!(matches!(
        Signer::parse(public.as_bytes(), ""),
        Err(signer::Error::Public)
    ));
    assert!(matches!(Signer::parse(b"", ""), Err(signer::Error::Key(_))));
    let mut two = Vec::new();
    for key in [&key, &secret(false)] {
        pgp::ser::Serialize::to_writer(key, &mut two).unwrap();
    }
    assert!(matches!(
        Signer::parse(&two, ""),
        Err(signer::Error::Several)
    ));
}

#[test]
fn passphrase_unlocks_the_key() {
    let mut key = SecretKeyParamsBuilder::default();
    key.key_type(KeyType::Ed25519Legacy)
        .can_certify(true)
        .can_sign(true)
        .created_at(time(MADE_SECS))
        .primary_user_id("test".to_owned())
        .passphrase(Some("secret".to_owned()));
    let key = key.build().unwrap().generate(OsRng).unwrap();
    let bytes = key
        .to_armored_bytes(pgp::composed::ArmorOptions::default())
        .unwrap();
    let sign = |passphrase| {
        Signer::parse(&bytes, passphrase)
            .unwrap()
            .sign(&claim(), now())
    };
    let error = sign("wrong").unwrap_err().to_string();
    assert_eq!(error, "the key does not sign; is the passphrase right?");
    assert!(ring(&key).open(&sign("secret").unwrap(), now()).is_ok());
}

#[test]
fn each_keyring_needs_a_signature() {
    let (one, other) = (secret(false), secret(false));
    let ring_of = |name: &str, key: &SignedSecretKey| Keyring {
        name: name.to_owned(),
        ..ring(key)
    };
    let rings = [ring_of("one", &one), ring_of("other", &other)];
    let by = |key: &SignedSecretKey| signer(key).sign(&claim(), now()).unwrap();
    let digest = ImageDigest::of(b"");
    let both = [by(&one), by(&other)];
    assert_eq!(
        verify(&digest, None, &rings, &both, now())
            .unwrap()
            .by
            .len(),
        2
    );

    let error = verify(&digest, None, &rings, &both[..1], now()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("unable to verify {digest} against keyrings: other")
    );
    assert_eq!(
        error.reasons,
        ["signature 1, keyring other: no key of keyring other signed it"]
    );
    let error = verify(&digest, None, &rings, &[], now()).unwrap_err();
    assert_eq!(error.keyrings, ["one", "other"]);
    assert_eq!(error.reasons, ["there is no signature"]);
    assert!(verify(&digest, None, &[], &both, now()).is_err());
}

#[test]
fn claim_must_be_about_the_image() {
    let key = secret(false);
    let signature = [signer(&key).sign(&claim(), now()).unwrap()];
    let check = |digest: &ImageDigest, reference| {
        let verified = verify(digest, reference, &[ring(&key)], &signature, now());
        verified.map_err(|error| error.reasons.join("\n"))
    };
    let digest = ImageDigest::of(b"");
    assert!(check(&digest, None).is_ok());
    assert!(check(&digest, Some("quay.io/example/release:1.2.3")).is_ok());
    let error = check(&ImageDigest::of(b"x"), None).unwrap_err();
    assert!(error.contains(": it is about sha256:e3b0"), "{error}");
    let error = check(&digest, Some("quay.io/example/release:1.2.4")).unwrap_err();
    assert!(error.contains("it was signed as"), "{error}");
    let refused = |content: Vec<u8>| {
        let mut message = MessageBuilder::from_bytes("", content);
        message.sign(&key.primary_key, Password::empty(), HashAlgorithm::Sha256);
        let message = message.to_vec(OsRng).unwrap();
        let error = verify(&digest, None, &[ring(&key)], &[message], now()).unwrap_err();
        error.reasons.join("\n")
    };
    let error = refused(b"no claim".to_vec());
    assert!(error.contains("field ."), "{error}");
    // The reason is whole: what is wrong with the field is in it.
    let text = String::from_utf8(claim().print(ClaimForm::OpenPgp)).unwrap();
    let error = refused(text.replacen('{', "{\"odd\":1,", 1).into_bytes());
    assert!(error.contains("field odd: unknown field `odd`"), "{error}");
}
