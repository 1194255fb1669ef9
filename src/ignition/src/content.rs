//! The bytes behind a resource: `data:` URL, compression, hash.

use std::io::Read as _;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256, Sha512};

use super::Resource;

/// The most bytes a resource may have once decompressed: a configuration of 1.5 MiB cannot honestly
/// hold more, a bomb can.
pub const MAX_BYTES: usize = 32 << 20;

/// Why there are no bytes. No variant carries contents.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a `data:` URL: a node has no way to fetch, and nothing to trust.
    #[error("source must be a data: URL, is {0}:")]
    Scheme(String),
    /// Not a well-formed `data:` URL.
    #[error("invalid data: URL: {0}")]
    Url(&'static str),
    /// The base64 in it is broken.
    #[error("invalid base64 in data: URL: {0}")]
    Base64(String),
    /// `compression` is neither absent, empty nor `gzip`.
    #[error("unsupported compression type {0:?}")]
    Compression(String),
    /// The gzip stream is broken.
    #[error("cannot decompress gzip: {0}")]
    Gzip(String),
    /// More than [`MAX_BYTES`].
    #[error("larger than {MAX_BYTES} bytes once decompressed")]
    TooLarge,
    /// The hash is not of the form `sha256-<hex>` or `sha512-<hex>`.
    #[error(
        "verification hash {0:?} is neither sha256-<64 hex digits> nor sha512-<128 hex digits>"
    )]
    Hash(String),
    /// The bytes have another hash.
    #[error("contents do not have the hash {0:?}")]
    Mismatch(String),
}

/// The bytes of a resource.
///
/// Shape: `source` absent or empty is an empty file; else a `data:` URL (RFC 2397), percent-encoded
/// or base64. `verification.hash` is over the decompressed bytes. Source:
/// `docs/reference/daemon.md`, "Files"; Ignition specification, `storage.files[].contents`.
///
/// # Errors
/// [`Error`], by what is wrong with the resource.
pub fn decode(resource: &Resource) -> Result<Vec<u8>, Error> {
    let source = resource.source.as_deref().filter(|url| !url.is_empty());
    let raw = source.map_or_else(|| Ok(Vec::new()), data_url)?;
    let bytes = match resource.compression.as_deref() {
        None | Some("") => raw,
        // A file without a source is empty, whatever compression it names.
        Some("gzip") if source.is_none() => raw,
        Some("gzip") => gunzip(&raw)?,
        Some(other) => return Err(Error::Compression(other.to_owned())),
    };
    if let Some(hash) = &resource.verification.hash {
        check(&bytes, hash)?;
    }
    Ok(bytes)
}

/// A `data:` URL of bytes, as [`decode`] reads it. In base64: percent-encoding makes of a
/// configuration within a configuration three times its size.
pub fn to_data_url(bytes: &[u8]) -> String {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("data:;base64,{data}")
}

fn data_url(url: &str) -> Result<Vec<u8>, Error> {
    let Some(rest) = url.strip_prefix("data:") else {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        return Err(Error::Scheme(scheme.to_owned()));
    };
    let (header, data) = split_at_comma(rest).ok_or(Error::Url("missing comma before data"))?;
    if header.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(Error::Url("invalid character for media type"));
    }
    let (media, parameters) = header.split_once(';').unwrap_or((header, ""));
    if !media.is_empty() && !media.contains('/') {
        return Err(Error::Url("invalid media type"));
    }
    let last = parameters.rsplit(';').next().unwrap_or_default();
    if last == "base64" {
        base64_engine()
            .decode(data)
            .map_err(|error| Error::Base64(error.to_string()))
    } else if last.is_empty() || last.contains('=') {
        percent_decode(data)
    } else {
        Err(Error::Url("parameter is neither base64 nor name=value"))
    }
}

/// Splits at the first comma that stands outside double quotes.
fn split_at_comma(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let comma = text.find(|c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })?;
    let (header, rest) = text.split_at(comma);
    Some((header, rest.strip_prefix(',').unwrap_or(rest)))
}

/// Standard alphabet, padding required; the unused bits of the last digit may be anything, as in
/// Go.
const fn base64_engine() -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    GeneralPurpose::new(&alphabet::STANDARD, config)
}

fn percent_decode(data: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(data.len());
    let mut rest = data.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || {
                let digit = rest.next().and_then(|byte| char::from(byte).to_digit(16));
                digit.and_then(|digit| u8::try_from(digit).ok())
            };
            let (Some(high), Some(low)) = (digit(), digit()) else {
                return Err(Error::Url("% is not followed by two hex digits"));
            };
            bytes.push(high << 4 | low);
        } else if is_url_character(byte) {
            bytes.push(byte);
        } else {
            return Err(Error::Url("invalid data character"));
        }
    }
    Ok(bytes)
}

/// Characters of RFC 2396 that stand for themselves, reserved and unreserved.
const fn is_url_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' // unreserved marks
                | b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$' | b',' // reserved
        )
}

fn gunzip(raw: &[u8]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    MultiGzDecoder::new(raw)
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::Gzip(error.to_string()))?;
    if bytes.len() > MAX_BYTES {
        return Err(Error::TooLarge);
    }
    Ok(bytes)
}

/// Checks the form of a hash, without bytes to check it against.
pub(super) fn check_hash_form(hash: &str) -> Result<(), Error> {
    let well_formed = |digest: &str, digits: usize| {
        digest.len() == digits && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match hash.split_once('-') {
        Some(("sha256", digest)) if well_formed(digest, 64) => Ok(()),
        Some(("sha512", digest)) if well_formed(digest, 128) => Ok(()),
        _ => Err(Error::Hash(hash.to_owned())),
    }
}

fn check(bytes: &[u8], hash: &str) -> Result<(), Error> {
    check_hash_form(hash)?;
    let digest = match hash.split_once('-') {
        Some(("sha512", _)) => hex::encode(Sha512::digest(bytes)),
        _ => hex::encode(Sha256::digest(bytes)),
    };
    let wanted = hash.split_once('-').map_or("", |(_, wanted)| wanted);
    if digest.eq_ignore_ascii_case(wanted) {
        Ok(())
    } else {
        Err(Error::Mismatch(hash.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::Value;

    use super::*;

    fn resource(source: &str, compression: Option<&str>) -> Resource {
        Resource {
            source: Some(source.to_owned()),
            compression: compression.map(ToOwned::to_owned),
            ..Resource::default()
        }
    }

    #[test]
    fn an_empty_source_is_an_empty_file() {
        for compression in [None, Some("gzip")] {
            assert_eq!(decode(&resource("", compression)).unwrap(), b"");
        }
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The expected values are those of `vincent-petithory/dataurl`, which OpenShift's MCO uses.
    #[test]
    fn data_urls_are_read_as_the_mco_reads_them() {
        for line in include_str!("../tests/fixtures/dataurl.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let url = case["url"].as_str().unwrap();
            let ours = data_url(url);
            match case["answer"].as_str() {
                Some(theirs) => {
                    let bytes = base64::engine::general_purpose::STANDARD
                        .decode(theirs)
                        .unwrap();
                    assert_eq!(ours.unwrap(), bytes, "{url}");
                }
                None => assert!(ours.is_err(), "{url} is {ours:?}"),
            }
        }
    }

    #[test]
    fn gzip_is_undone_over_all_its_members() {
        let two = [gzipped(b"hello "), gzipped(b"world")].concat();
        assert_eq!(
            decode(&resource(&to_data_url(&two), Some("gzip"))).unwrap(),
            b"hello world"
        );
    }

    #[test]
    fn a_file_without_a_source_is_empty_whatever_its_compression() {
        let nothing = Resource {
            compression: Some("gzip".to_owned()),
            ..Resource::default()
        };
        assert_eq!(decode(&nothing).unwrap(), b"");
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = gzipped(&vec![0; MAX_BYTES + 1]);
        assert!(matches!(
            decode(&resource(&to_data_url(&bomb), Some("gzip"))),
            Err(Error::TooLarge)
        ));
        let full = gzipped(&vec![0; MAX_BYTES]);
        assert_eq!(
            decode(&resource(&to_data_url(&full), Some("gzip")))
                .unwrap()
                .len(),
            MAX_BYTES
        );
    }

    #[test]
    fn broken_gzip_is_refused() {
        for broken in [
            b"plain text".to_vec(),
            gzipped(b"hello")[..12].to_vec(),
            Vec::new(),
        ] {
            let refused = decode(&resource(&to_data_url(&broken), Some("gzip")));
            assert!(matches!(refused, Err(Error::Gzip(_))), "{refused:?}");
        }
    }

    #[test]
    fn hashes_are_of_the_decompressed_bytes() {
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let mut hello = resource(&to_data_url(&gzipped(b"hello")), Some("gzip"));
        hello.verification.hash = Some(format!("sha256-{hash}"));
        assert_eq!(decode(&hello).unwrap(), b"hello");
        hello.verification.hash = Some(format!("sha256-{}", "0".repeat(64)));
        assert!(matches!(decode(&hello), Err(Error::Mismatch(_))));
        hello.verification.hash = Some(hash.to_owned());
        assert!(matches!(decode(&hello), Err(Error::Hash(_))));
    }

    #[test]
    fn other_schemes_are_named_without_the_rest_of_the_url() {
        let error = decode(&resource("https://user:secret@host/x", None)).unwrap_err();
        assert_eq!(error.to_string(), "source must be a data: URL, is https:");
    }
}
