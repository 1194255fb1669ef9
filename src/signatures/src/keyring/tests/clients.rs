use pgp::crypto::ecc_curve::ECCCurve;

use super::*;

#[test]
fn keys_that_openshift_clients_cannot_read_are_named() {
    let unknown = |ring: &Keyring| {
        let keys = ring.unknown_to_clients().into_iter();
        keys.map(|(_, algorithm)| algorithm).collect::<Vec<_>>()
    };
    assert_eq!(unknown(&ring(&secret(false))), ["EdDSA"]);
    let rsa = include_bytes!("../../testdata/key-rsa1024.asc");
    assert_eq!(unknown(&Keyring::parse("rsa", rsa).unwrap()), [""; 0]);
    // A subkey alone makes all of the certificate unreadable.
    let made = |subkey: KeyType| {
        let mut key = SecretKeyParamsBuilder::default();
        let mut builder = SubkeyParamsBuilder::default();
        builder.key_type(subkey).can_sign(true);
        key.key_type(KeyType::ECDSA(ECCCurve::P256))
            .can_certify(true)
            .primary_user_id("test".to_owned())
            .subkeys(vec![builder.build().unwrap()]);
        ring(&key.build().unwrap().generate(OsRng).unwrap())
    };
    assert_eq!(unknown(&made(KeyType::ECDSA(ECCCurve::P384))), [""; 0]);
    let mixed = made(KeyType::Ed25519Legacy);
    let fingerprint = mixed.keys[0].primary_key.fingerprint().to_string();
    assert_eq!(
        mixed.unknown_to_clients(),
        [(fingerprint, "EdDSA".to_owned())]
    );
}
