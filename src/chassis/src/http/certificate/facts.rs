//! Who a certificate is of, who signed it, and how long it holds, as people and clients read them.

use std::fmt::Write as _;

use super::{OBJECT_IDENTIFIER, Reader, SEQUENCE, SET, TEXTS, VERSION};

/// Tags of times: `UTCTime`, with two digits of the year, and `GeneralizedTime`, with four.
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `BMPString`: UTF-16, big endian.
const BMP_STRING: u8 = 0x1e;

/// `T61String`, which is Latin 1 wherever it occurs.
const T61_STRING: u8 = 0x14;

/// Attributes of a name that have a short one, below 2.5.4, in the order in which they are printed.
const ATTRIBUTES: [(u8, &str); 9] = [
    (5, "SERIALNUMBER"),
    (3, "CN"),
    (17, "POSTALCODE"),
    (9, "STREET"),
    (8, "ST"),
    (7, "L"),
    (11, "OU"),
    (10, "O"),
    (6, "C"),
];

/// What a certificate says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Whose it is: `CN=a,OU=b,O=c`, as Go prints it.
    pub subject: String,
    /// Who signed it, in the same form.
    pub issuer: String,
    /// From when it holds, as RFC 3339 has it, in UTC.
    pub not_before: String,
    /// Until when it holds, in the same form.
    pub not_after: String,
}

/// The facts of a certificate; nothing where it cannot be read.
///
/// Source: RFC 5280, section 4.1; RFC 2253 and Go's `pkix.Name` for names.
pub fn facts(der: &[u8]) -> Option<CertificateFacts> {
    let mut certificate = Reader(Reader(der).take(SEQUENCE)?);
    let mut fields = Reader(certificate.take(SEQUENCE)?);
    if fields.tag() == Some(VERSION) {
        fields.next()?;
    }
    // Serial number and algorithm.
    fields.next()?;
    fields.next()?;
    let issuer = name(fields.take(SEQUENCE)?)?;
    let mut validity = Reader(fields.take(SEQUENCE)?);
    let not_before = time(validity.next()?)?;
    let not_after = time(validity.next()?)?;
    let subject = name(fields.take(SEQUENCE)?)?;
    Some(CertificateFacts {
        subject,
        issuer,
        not_before,
        not_after,
    })
}

/// A name: attributes that have a short one by their order, values of one attribute joined by `+`;
/// others by their number, in front of all that came before them.
fn name(der: &[u8]) -> Option<String> {
    let mut values: [Vec<String>; ATTRIBUTES.len()] = Default::default();
    let mut others = Vec::new();
    let mut names = Reader(der);
    while !names.0.is_empty() {
        let mut attributes = Reader(names.take(SET)?);
        while !attributes.0.is_empty() {
            let mut attribute = Reader(attributes.take(SEQUENCE)?);
            let kind = attribute.take(OBJECT_IDENTIFIER)?;
            let raw = attribute.0;
            let value = attribute.next()?;
            let found = match kind {
                [0x55, 4, number] => ATTRIBUTES.iter().position(|(found, _)| found == number),
                _ => None,
            };
            match (found.and_then(|place| values.get_mut(place)), text(value)) {
                (Some(values), Some(text)) => values.push(escaped(&text)),
                _ => others.push(format!("{}=#{}", number(kind)?, hex(raw))),
            }
        }
    }
    let printed = ATTRIBUTES.iter().zip(&values);
    let printed = printed
        .filter(|(_, values)| !values.is_empty())
        .map(|((_, name), values)| {
            let pairs: Vec<String> = values
                .iter()
                .map(|value| format!("{name}={value}"))
                .collect();
            pairs.join("+")
        });
    let all: Vec<String> = printed.chain(others.into_iter().rev()).collect();
    Some(all.join(","))
}

fn text((tag, value): (u8, &[u8])) -> Option<String> {
    match tag {
        BMP_STRING => {
            let (pairs, rest) = value.as_chunks::<2>();
            let units = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
            let text: Result<String, _> = char::decode_utf16(units).collect();
            text.ok().filter(|_| rest.is_empty())
        }
        T61_STRING => Some(value.iter().copied().map(char::from).collect()),
        _ if TEXTS.contains(&tag) => str::from_utf8(value).ok().map(str::to_owned),
        _ => None,
    }
}

/// A value in a name: what separates values has a backslash before it.
fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut escaped = String::with_capacity(value.len());
    for (place, letter) in value.chars().enumerate() {
        let is_special = match letter {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            '#' => place == 0,
            ' ' => place == 0 || place == last,
            _ => false,
        };
        if is_special {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// An object identifier as `1.2.3`.
fn number(der: &[u8]) -> Option<String> {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in der {
        number = number.checked_shl(7).filter(|_| number >> 57 == 0)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(number);
            number = 0;
        }
    }
    let (first, rest) = numbers.split_first()?;
    let root = (first / 40).min(2);
    let mut text = format!("{root}.{}", first - root * 40);
    for number in rest {
        write!(text, ".{number}").ok()?;
    }
    Some(text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// A time of a certificate, which ends with `Z` and has seconds.
fn time((tag, value): (u8, &[u8])) -> Option<String> {
    let digits = str::from_utf8(value).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            // Source: RFC 5280, section 4.1.2.5.1.
            let century = if year < "50" { "20" } else { "19" };
            (format!("{century}{year}"), rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.to_owned(), rest)
        }
        _ => return None,
    };
    let (pairs, []) = rest.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let pairs: Vec<&str> = pairs
        .iter()
        .filter_map(|pair| str::from_utf8(pair).ok())
        .collect();
    let [month, day, hour, minute, second] = pairs.as_slice() else {
        return None;
    };
    Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(names: &[(DnType, DnValue)], until: i32) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        params.not_before = date_time_ymd(1999, 12, 31);
        params.not_after = date_time_ymd(until, 2, 4);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn utf8(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    #[test]
    fn facts_are_those_that_go_prints() {
        let names = [
            (DnType::CountryName, utf8("XX")),
            (DnType::CommonName, utf8("kube-apiserver-lb-signer")),
            (DnType::OrganizationalUnitName, utf8("a, b")),
        ];
        let signer = "CN=kube-apiserver-lb-signer,OU=a\\, b,C=XX".to_owned();
        let expected = CertificateFacts {
            subject: signer.clone(),
            issuer: signer,
            not_before: "1999-12-31T00:00:00Z".to_owned(),
            not_after: "2034-02-04T00:00:00Z".to_owned(),
        };
        assert_eq!(facts(&certificate(&names, 2034)), Some(expected));
        let late = facts(&certificate(&names, 2051)).unwrap();
        assert_eq!(late.not_after, "2051-02-04T00:00:00Z");
    }

    #[test]
    fn names_of_each_form_are_printed() {
        let table = [
            (vec![], ""),
            (
                vec![(
                    DnType::CommonName,
                    DnValue::BmpString("é".try_into().unwrap()),
                )],
                "CN=é",
            ),
            (
                vec![(DnType::CommonName, utf8("#a=\"b\" "))],
                "CN=\\#a=\\\"b\\\"\\ ",
            ),
            (
                vec![
                    (
                        DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]),
                        utf8("a"),
                    ),
                    (DnType::OrganizationName, utf8("o")),
                ],
                "O=o,1.2.840.113549.1.9.1=#0c0161",
            ),
        ];
        for (names, expected) in table {
            let facts = facts(&certificate(&names, 2034)).unwrap();
            assert_eq!(facts.subject, expected);
        }
    }

    #[test]
    fn what_is_cut_is_not_read() {
        let der = certificate(&[(DnType::CommonName, utf8("a"))], 2034);
        for length in 0..der.len() {
            assert_eq!(facts(&der[..length]), None);
        }
        for (tag, text) in [
            (UTC_TIME, "3402041603Z"),
            (UTC_TIME, "340204160300+0100"),
            (GENERALIZED_TIME, "20340204160300.5Z"),
            (GENERALIZED_TIME, "203402041603000Z"),
            (SEQUENCE, "340204160300Z"),
        ] {
            assert_eq!(time((tag, text.as_bytes())), None, "{text}");
        }
    }
}
