//! The keys of a certificate that may sign data, and whether a signature of them counts.
//!
//! What is undetermined counts against a key: no certificate in force, a revocation that cannot be
//! verified.

use jiff::Timestamp;
use pgp::composed::{Message, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails as _, PublicParams, Tag, VerifyingKey};

/// How far the clock of who signs may be ahead, in seconds.
const AHEAD_SECS: u64 = 300;

/// Fewest bits of a modulus: those of 112 bits of security.
///
/// Source: NIST SP 800-131A, sections 3 and 4.
const BITS_MIN: u16 = 2048;

/// Until when a key may have certified itself by SHA-1: 2019-01-19, in seconds since 1970.
///
/// A collision needs the owner to certify what another wrote, so what a key certified of itself
/// long ago stays; the keys of OpenShift's releases are such. A newer key has no reason for it.
///
/// Source: `GnuPG` 2.2.18, which ignores certificates by SHA-1 of others from that day on.
const SHA1_UNTIL_SECS: u64 = 1_547_856_000;

/// A key that may sign: a primary key or a subkey.
pub(super) struct SigningKey<'a> {
    key: Key<'a>,
    pub(super) fingerprint: String,
    /// Why nothing that it signs counts.
    fault: Option<&'static str>,
    /// When it stops to count, in seconds since 1970, if ever.
    expires_secs: Option<u64>,
}

enum Key<'a> {
    Primary(&'a SignedPublicKey),
    Subkey(&'a SignedPublicSubKey),
}

impl SigningKey<'_> {
    /// The signature of this key on a message that was read; none where it is another's.
    pub(super) fn signature<'m>(&self, message: &'m Message<'_>) -> Option<&'m Signature> {
        let Message::Signed { reader, .. } = message else {
            return None;
        };
        let key: &dyn VerifyingKey = match &self.key {
            Key::Primary(key) => *key,
            Key::Subkey(key) => *key,
        };
        (0..reader.num_signatures())
            .find_map(|number| message.verify_nested_explicit(number, key).ok())
    }

    /// Why a signature of this key does not count.
    pub(super) fn refusal(&self, signature: &Signature, now: Timestamp) -> Option<&'static str> {
        let now_secs = now_secs(now);
        let Some(created_secs) = created_secs(signature) else {
            return Some("it does not say when");
        };
        let is_of_data = matches!(
            signature.typ(),
            Some(SignatureType::Binary | SignatureType::Text)
        );
        let is_weak = matches!(
            signature.hash_alg(),
            None | Some(HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160)
        );
        if self.fault.is_some() {
            self.fault
        } else if created_secs > now_secs + AHEAD_SECS {
            Some("the signature is of the future")
        } else if self.expires_secs.is_some_and(|ends| ends <= created_secs) {
            Some("the key had expired by then")
        } else if is_over(signature, now_secs) {
            Some("the signature's lifetime is over")
        } else if !is_of_data {
            Some("the signature is not one of data")
        } else if is_weak {
            Some("its hash is broken")
        } else {
            None
        }
    }
}

/// The keys of a certificate that may sign data, as of `now`; `ring` has the keys that may have
/// revoked it.
pub(super) fn signing_keys<'a>(
    key: &'a SignedPublicKey,
    ring: &[SignedPublicKey],
    now: Timestamp,
) -> Vec<SigningKey<'a>> {
    let primary = &key.primary_key;
    let own = certifications(key, now_secs(now));
    let newest = newest(own.iter().copied());
    let revocation = revocation(key, ring);
    let unknown = newest
        .is_none()
        .then_some("no certificate of the key is in force");
    let fault = revocation.or(unknown);
    let expires_secs = newest.and_then(|it| expiry_secs(primary.created_at(), it));
    // Without flags a primary key may do all.
    let may_sign = newest.is_none_or(|it| it.key_flags().sign() || !has_flags(it));
    let of_primary = may_sign.then(|| SigningKey {
        key: Key::Primary(key),
        fingerprint: primary.fingerprint().to_string(),
        fault: fault.or_else(|| shortness(primary.public_params())),
        expires_secs,
    });
    let subkeys = key.public_subkeys.iter().filter_map(|subkey| {
        let is_of = |it: &&Signature, kind| {
            it.typ() == Some(kind) && it.verify_subkey_binding(primary, &subkey.key).is_ok()
        };
        let bindings = subkey
            .signatures
            .iter()
            .filter(|it| is_of(it, SignatureType::SubkeyBinding) && is_in_force(it, now_secs(now)));
        let binding = self::newest(bindings)?;
        // A key that others made must not become a subkey of this one: it says itself whose it is.
        let back = binding.embedded_signature()?;
        let is_bound = binding.key_flags().sign()
            && is_in_force(back, now_secs(now))
            && back
                .verify_primary_key_binding(&subkey.key, primary)
                .is_ok();
        let mut signatures = subkey.signatures.iter();
        let is_revoked = signatures.any(|it| is_of(&it, SignatureType::SubkeyRevocation));
        let own_expiry = expiry_secs(subkey.key.created_at(), binding);
        is_bound.then(|| SigningKey {
            fingerprint: subkey.key.fingerprint().to_string(),
            fault: fault
                .or_else(|| is_revoked.then_some(REVOKED))
                .or_else(|| shortness(subkey.key.public_params())),
            expires_secs: [own_expiry, expires_secs].into_iter().flatten().min(),
            key: Key::Subkey(subkey),
        })
    });
    of_primary.into_iter().chain(subkeys).collect()
}

const REVOKED: &str = "the key is revoked";

/// Whether a primary key is revoked: by itself, or by a key that it has named for that.
///
/// Source: RFC 4880, section 5.2.3.15.
fn revocation(key: &SignedPublicKey, ring: &[SignedPublicKey]) -> Option<&'static str> {
    let primary = &key.primary_key;
    let revocations = &key.details.revocation_signatures;
    if revocations.iter().any(|it| it.verify_key(primary).is_ok()) {
        return Some(REVOKED);
    }
    let named = revokers(key);
    let mut others = revocations.iter().filter_map(|revocation| {
        let by = ring.iter().find(|other| {
            let fingerprint = other.primary_key.fingerprint();
            named.iter().any(|named| named == fingerprint.as_bytes())
                && revocation
                    .verify_key_third_party(primary, &other.primary_key)
                    .is_ok()
        });
        if by.is_some() {
            return Some(REVOKED);
        }
        let mut absent = named.iter().filter(|named| {
            let is_it = |other: &&SignedPublicKey| {
                other.primary_key.fingerprint().as_bytes() == named.as_slice()
            };
            !ring.iter().any(|other| is_it(&other))
        });
        absent
            .any(|named| may_be_by(revocation, named))
            .then_some("it may be revoked by a key that the keyring lacks")
    });
    others.next()
}

/// Fingerprints of the keys that a key has named as its revokers. What it named once it cannot take
/// away.
fn revokers(key: &SignedPublicKey) -> Vec<Vec<u8>> {
    let subpackets = self_signatures(key).filter_map(Signature::config);
    let subpackets = subpackets.flat_map(pgp::packet::SignatureConfig::hashed_subpackets);
    let named = subpackets.filter_map(|subpacket| {
        if let SubpacketData::RevocationKey(named) = &subpacket.data {
            return Some(named.fingerprint.to_vec());
        }
        None
    });
    named.collect()
}

/// Whether a signature does not name another issuer than the key of this fingerprint.
fn may_be_by(signature: &Signature, fingerprint: &[u8]) -> bool {
    let (prints, ids) = (signature.issuer_fingerprint(), signature.issuer_key_id());
    let is_unnamed = prints.is_empty() && ids.is_empty();
    is_unnamed
        || prints.iter().any(|print| print.as_bytes() == fingerprint)
        // The id of a key of version 4 ends its fingerprint.
        || ids.iter().any(|id| fingerprint.ends_with(id.as_ref()))
}

/// What a primary key says of itself, valid, and in force or not: certificates of its users, their
/// revocations, and certificates of the key alone.
fn self_signatures(key: &SignedPublicKey) -> impl Iterator<Item = &Signature> {
    let primary = &key.primary_key;
    let of_users = key.details.users.iter().flat_map(move |user| {
        let signatures = user.signatures.iter();
        signatures.filter(move |it| {
            let valid = it.verify_certification(primary, Tag::UserId, &user.id);
            valid.is_ok()
        })
    });
    of_users.chain(direct(key))
}

fn direct(key: &SignedPublicKey) -> impl Iterator<Item = &Signature> {
    let primary = &key.primary_key;
    let direct = key.details.direct_signatures.iter();
    direct.filter(move |it| it.typ() == Some(SignatureType::Key) && it.verify_key(primary).is_ok())
}

/// The certificates of a primary key by itself that are in force. Those of a user that it has
/// revoked since are not.
fn certifications(key: &SignedPublicKey, now_secs: u64) -> Vec<&Signature> {
    let primary = &key.primary_key;
    let of_users = key.details.users.iter().flat_map(|user| {
        let is_valid = |it: &&Signature| {
            let valid = it.verify_certification(primary, Tag::UserId, &user.id);
            valid.is_ok()
        };
        let is_revocation = |it: &&Signature| it.typ() == Some(SignatureType::CertRevocation);
        let (revocations, certificates): (Vec<_>, Vec<_>) = user
            .signatures
            .iter()
            .filter(is_valid)
            .partition(is_revocation);
        let revoked = newest(revocations.into_iter()).map(created_secs);
        let is_later = move |it: &&Signature| revoked.is_none_or(|at| created_secs(it) > at);
        certificates.into_iter().filter(is_later)
    });
    let all = of_users.chain(direct(key));
    all.filter(|it| is_in_force(it, now_secs)).collect()
}

/// Whether what a key signed about itself counts: made by now, not over, and by a good hash.
fn is_in_force(signature: &Signature, now_secs: u64) -> bool {
    let Some(created_secs) = created_secs(signature) else {
        return false;
    };
    let has_good_hash = match signature.hash_alg() {
        None | Some(HashAlgorithm::Md5 | HashAlgorithm::Ripemd160) => false,
        Some(HashAlgorithm::Sha1) => created_secs < SHA1_UNTIL_SECS,
        Some(_) => true,
    };
    has_good_hash && created_secs <= now_secs + AHEAD_SECS && !is_over(signature, now_secs)
}

/// Whether a signature's own lifetime is over.
fn is_over(signature: &Signature, now_secs: u64) -> bool {
    let life = signature.signature_expiration_time();
    let life = life.map_or(0, |life| u64::from(life.as_secs()));
    let created = created_secs(signature).unwrap_or_default();
    life > 0 && created + life <= now_secs
}

/// Why a key is too short, where its kind has a modulus.
fn shortness(params: &PublicParams) -> Option<&'static str> {
    if !matches!(params, PublicParams::RSA(_) | PublicParams::DSA(_)) {
        return None;
    }
    // The modulus comes first in both, after the number of its bits.
    let written = params.to_bytes().unwrap_or_default();
    let bits = written
        .first_chunk()
        .map_or(0, |bits| u16::from_be_bytes(*bits));
    (bits < BITS_MIN).then_some("the key is shorter than 2048 bits")
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|it| created_secs(it))
}

fn created_secs(signature: &Signature) -> Option<u64> {
    signature.created().map(|time| u64::from(time.as_secs()))
}

fn now_secs(now: Timestamp) -> u64 {
    u64::try_from(now.as_second()).unwrap_or_default()
}

fn has_flags(signature: &Signature) -> bool {
    let flags = signature.key_flags();
    flags.certify() || flags.sign() || flags.encrypt_comms() || flags.authentication()
}

fn expiry_secs(created: pgp::types::Timestamp, signature: &Signature) -> Option<u64> {
    let life = u64::from(signature.key_expiration_time()?.as_secs());
    (life > 0).then(|| u64::from(created.as_secs()) + life)
}
