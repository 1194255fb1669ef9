//! What a certificate says of itself: the subject of a client's, and what people read of others.
//!
//! The TLS library verifies certificates and does not tell their subjects. Only a certificate that
//! it has verified makes an identity here. A crate for X.509 would bring a second generation of
//! those for its encoding.
//!
//! - [`facts`]: who it is of, who signed it, and how long it holds

pub mod facts;

/// Object identifiers 2.5.4.3 and 2.5.4.10, as DER has them.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// `[0]`, constructed: the version of a certificate.
const VERSION: u8 = 0xa0;
/// `UTF8String`, `PrintableString` and `IA5String`, each of which is UTF-8.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];

/// What of a subject makes an identity.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CertificateSubject {
    /// The last one, as Go reads it.
    pub common_name: Option<String>,
    /// In their order: groups of the identity.
    pub organizations: Vec<String>,
}

/// The subject of a certificate; nothing where it cannot be read.
///
/// Source: RFC 5280, section 4.1; X.690 for DER.
pub fn subject(der: &[u8]) -> Option<CertificateSubject> {
    let mut certificate = Reader(Reader(der).take(SEQUENCE)?);
    let mut fields = Reader(certificate.take(SEQUENCE)?);
    if fields.tag() == Some(VERSION) {
        fields.next()?;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        fields.next()?;
    }
    let mut names = Reader(fields.take(SEQUENCE)?);
    let mut subject = CertificateSubject::default();
    while !names.0.is_empty() {
        let mut attributes = Reader(names.take(SET)?);
        while !attributes.0.is_empty() {
            let mut attribute = Reader(attributes.take(SEQUENCE)?);
            let kind = attribute.take(OBJECT_IDENTIFIER)?;
            let (tag, value) = attribute.next()?;
            if kind != COMMON_NAME && kind != ORGANIZATION {
                continue;
            }
            let text = TEXTS.contains(&tag).then_some(value)?;
            let text = str::from_utf8(text).ok()?.to_owned();
            if kind == COMMON_NAME {
                subject.common_name = Some(text).filter(|text| !text.is_empty());
            } else {
                subject.organizations.push(text);
            }
        }
    }
    Some(subject)
}

/// Values of DER, one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|(found, _)| *found == tag)
            .map(|(_, content)| content)
    }

    /// Tag and content of the next value. Tags of one byte and lengths below 2^32 are all there
    /// are in a certificate.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long @ 0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn subject_names_user_and_groups() {
        let printable = |text: &str| DnValue::PrintableString(text.try_into().unwrap());
        let long = "a".repeat(200);
        let der = certificate(&[
            (DnType::CountryName, printable("XX")),
            (DnType::OrganizationName, printable("system:nodes")),
            (DnType::CommonName, DnValue::Utf8String(long.clone())),
        ]);
        let expected = CertificateSubject {
            common_name: Some(long),
            organizations: vec!["system:nodes".to_owned()],
        };
        assert_eq!(subject(&der), Some(expected));
        assert_eq!(
            subject(&certificate(&[])),
            Some(CertificateSubject::default())
        );
    }

    #[test]
    fn what_is_cut_or_no_text_is_not_read() {
        let bmp = DnValue::BmpString("a".try_into().unwrap());
        assert_eq!(subject(&certificate(&[(DnType::CommonName, bmp)])), None);
        let der = certificate(&[(DnType::CommonName, DnValue::Utf8String("a".to_owned()))]);
        for length in 0..der.len() {
            assert_eq!(subject(&der[..length]), None);
        }
    }
}
