//! What takes the trust from a key or a signature, besides its expiry.

use pgp::types::{RevocationKey, RevocationKeyClass};

use super::*;

/// Subpackets of a signature about a key, made so long after the keys.
fn hashed(by: &SignedSecretKey, after_secs: u32, more: Vec<SubpacketData>) -> Vec<Subpacket> {
    let made = SubpacketData::SignatureCreationTime(time(MADE_SECS + after_secs));
    let by = SubpacketData::IssuerFingerprint(by.primary_key.fingerprint());
    let all = [made, by].into_iter().chain(more);
    all.map(|data| Subpacket::regular(data).unwrap()).collect()
}

/// A message that a key signed, and its ring's verdict.
fn verdict(ring: &Keyring, message: &[u8]) -> Result<(), String> {
    let opened = ring.open(message, now());
    opened.map(drop).map_err(|error| {
        let text = error.to_string();
        let why = text.split_once(" signed it, and ");
        why.map_or_else(|| text.clone(), |(_, why)| why.to_owned())
    })
}

#[test]
fn signature_of_the_future_does_not_count() {
    let key = secret(false);
    let message = signer(&key).sign(&claim(), now()).unwrap();
    let before = |secs: i64| Timestamp::from_second(now().as_second() - secs).unwrap();
    // Clocks differ a little.
    assert!(ring(&key).open(&message, before(300)).is_ok());
    assert!(
        refusal(&ring(&key), &message, before(301)).ends_with("the signature is of the future")
    );
}

#[test]
fn certificate_of_the_future_does_not_count() {
    let mut key = secret(false);
    let message = signer(&key).sign(&claim(), now()).unwrap();
    key.details.users[0].signatures.clear();
    certify(&mut key, MADE_SECS + 2 * DAY_SECS, None, true);
    let none = "no certificate of the key is in force";
    assert_eq!(verdict(&ring(&key), &message), Err(none.to_owned()));
}

#[test]
fn revoked_user_certifies_nothing_until_it_is_certified_again() {
    for has_subkey in [false, true] {
        let mut key = secret(has_subkey);
        let message = signer(&key).sign(&claim(), now()).unwrap();
        let kind = SignatureType::CertRevocation;
        let mut config = SignatureConfig::from_key(OsRng, &key.primary_key, kind).unwrap();
        config.hashed_subpackets = hashed(&key, 1, Vec::new());
        let user = &mut key.details.users[0];
        let revocation = config.sign_certification(
            &key.primary_key,
            key.primary_key.public_key(),
            &Password::empty(),
            Tag::UserId,
            &user.id,
        );
        user.signatures.push(revocation.unwrap());
        let none = "no certificate of the key is in force";
        assert_eq!(verdict(&ring(&key), &message), Err(none.to_owned()));
        certify(&mut key, MADE_SECS + 2, None, !has_subkey);
        assert_eq!(verdict(&ring(&key), &message), Ok(()));
    }
}

#[test]
fn key_is_revoked_by_the_keys_that_it_has_named() {
    let (mut key, revoker, stranger) = (secret(false), secret(false), secret(false));
    let message = signer(&key).sign(&claim(), now()).unwrap();
    // Names the revoker.
    let primary = &key.primary_key;
    let named = RevocationKey::new(
        RevocationKeyClass::Default,
        revoker.primary_key.algorithm(),
        revoker.primary_key.fingerprint().as_bytes(),
    );
    let mut config = SignatureConfig::from_key(OsRng, primary, SignatureType::Key).unwrap();
    config.hashed_subpackets = hashed(&key, 1, vec![SubpacketData::RevocationKey(named)]);
    let naming = config.sign_key(primary, &Password::empty(), primary.public_key());
    key.details.direct_signatures.push(naming.unwrap());
    let revocation = |by: &SignedSecretKey| {
        let kind = SignatureType::KeyRevocation;
        let mut config = SignatureConfig::from_key(OsRng, &by.primary_key, kind).unwrap();
        config.hashed_subpackets = hashed(by, 2, Vec::new());
        let of = key.primary_key.public_key();
        let signed = config.sign_key(&by.primary_key, &Password::empty(), of);
        signed.unwrap()
    };
    let unverified = "it may be revoked by a key that the keyring lacks";
    let table = [
        (vec![], vec![], Ok(())),
        (vec![&revoker], vec![&revoker], Err("the key is revoked")),
        (vec![&revoker], vec![], Err(unverified)),
        (vec![&stranger], vec![&stranger], Ok(())),
        (vec![&stranger], vec![], Ok(())),
    ];
    for (number, (by, others, expected)) in table.into_iter().enumerate() {
        let mut changed = key.clone();
        let revocations = by.into_iter().map(revocation);
        changed.details.revocation_signatures.extend(revocations);
        let mut ring = ring(&changed);
        ring.keys
            .extend(others.into_iter().map(SignedSecretKey::to_public_key));
        let expected = expected.map_err(str::to_owned);
        assert_eq!(verdict(&ring, &message), expected, "{number}");
    }
}

/// Name, key, message, and why it does not count.
type Case = (
    &'static str,
    &'static [u8],
    &'static [u8],
    Option<&'static str>,
);

/// What `gpg` 2.2.40 made with `--quick-gen-key`, `--faked-system-time`, `--cert-digest-algo SHA1`
/// where the name says so, and `--sign`.
#[test]
fn short_keys_and_new_certificates_by_sha1_do_not_count() {
    let now: Timestamp = "2023-11-15T12:00:00Z".parse().unwrap();
    let table: [Case; 3] = [
        (
            "1024 bits",
            include_bytes!("../../testdata/key-rsa1024.asc"),
            include_bytes!("../../testdata/signature-by-rsa1024"),
            Some("the key is shorter than 2048 bits"),
        ),
        (
            "SHA-1 in 2018",
            include_bytes!("../../testdata/key-sha1-2018.asc"),
            include_bytes!("../../testdata/signature-by-sha1-2018"),
            None,
        ),
        (
            "SHA-1 in 2020",
            include_bytes!("../../testdata/key-sha1-2020.asc"),
            include_bytes!("../../testdata/signature-by-sha1-2020"),
            Some("no certificate of the key is in force"),
        ),
    ];
    for (name, key, message, expected) in table {
        let ring = Keyring::parse("gpg", key).unwrap();
        let error = ring.open(message, now).err().map(|error| error.to_string());
        match expected {
            None => assert_eq!(error, None, "{name}"),
            Some(why) => assert!(error.is_some_and(|error| error.ends_with(why)), "{name}"),
        }
    }
}
