//! A header of rpm's database: the fields of one package.
//!
//! Shape: two numbers, of entries and of bytes of data; the entries, of 16 bytes: tag, type, offset
//! in the data, count; the data. All numbers have 32 bits, the highest first. Source: rpm's manual,
//! "RPM v4 header format". The `rpm` crate reads headers of package files only, and trusts their
//! offsets.

use crate::package::OsPackage;

/// The fields that are read.
const NAME: u32 = 1000;
const VERSION: u32 = 1001;
const RELEASE: u32 = 1002;
const EPOCH: u32 = 1003;
const ARCHITECTURE: u32 = 1022;

/// Types of them.
const INT32: u32 = 4;
const STRING: u32 = 6;

/// Bytes of the two numbers, and of an entry.
const HEAD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;

/// Name of what is no package: a key that signatures of packages are held against.
const KEY: &str = "gpg-pubkey";

/// Why a header cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("it has {bytes} bytes, and its own numbers make {expected}")]
    Length { bytes: usize, expected: u64 },
    #[error("{0} is not there")]
    Missing(&'static str),
    #[error("{0} is of another type than rpm writes, or lies outside of the data")]
    Field(&'static str),
    #[error("{0} is empty, or is no UTF-8")]
    Text(&'static str),
}

/// Reads the package of a header; none for a key of signatures.
///
/// # Errors
/// [`HeaderError`], with the first one.
pub fn package(header: &[u8]) -> Result<Option<OsPackage>, HeaderError> {
    let header = Header::new(header)?;
    let name = header.text(NAME, "the name")?;
    if name == KEY {
        return Ok(None);
    }
    let version = header.text(VERSION, "the version")?;
    let release = header.text(RELEASE, "the release")?;
    let epoch = header.number(EPOCH, "the epoch")?.unwrap_or_default();
    let epoch = match epoch {
        0 => String::new(),
        epoch => format!("{epoch}:"),
    };
    Ok(Some(OsPackage {
        name: name.to_owned(),
        version: format!("{epoch}{version}-{release}"),
        architecture: header.text(ARCHITECTURE, "the architecture")?.to_owned(),
    }))
}

/// A header whose lengths are those that it names.
#[derive(Clone, Copy)]
struct Header<'a> {
    entries: &'a [u8],
    data: &'a [u8],
}

impl<'a> Header<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let [entries, data] = [0, 4].map(|at| u64::from(number_at(bytes, at).unwrap_or_default()));
        let entries_bytes = entries * ENTRY_BYTES as u64;
        let expected = HEAD_BYTES as u64 + entries_bytes + data;
        let mismatch = || HeaderError::Length {
            bytes: bytes.len(),
            expected,
        };
        if bytes.len() as u64 != expected {
            return Err(mismatch());
        }
        let rest = bytes.get(HEAD_BYTES..).ok_or_else(mismatch)?;
        let entries_bytes = usize::try_from(entries_bytes).map_err(|_| mismatch())?;
        let (entries, data) = rest.split_at_checked(entries_bytes).ok_or_else(mismatch)?;
        Ok(Self { entries, data })
    }

    /// What follows the beginning of a field in the data; none where there is no such field.
    fn find(
        &self,
        tag: u32,
        kind: u32,
        name: &'static str,
    ) -> Result<Option<&'a [u8]>, HeaderError> {
        let mut entries = self.entries.chunks_exact(ENTRY_BYTES);
        let Some(entry) = entries.find(|entry| number_at(entry, 0) == Some(tag)) else {
            return Ok(None);
        };
        let offset = number_at(entry, 8).and_then(|offset| usize::try_from(offset).ok());
        let value = offset.and_then(|offset| self.data.get(offset..));
        match value {
            Some(value) if number_at(entry, 4) == Some(kind) => Ok(Some(value)),
            _ => Err(HeaderError::Field(name)),
        }
    }

    fn text(&self, tag: u32, name: &'static str) -> Result<&'a str, HeaderError> {
        let value = self.find(tag, STRING, name)?;
        let value = value.ok_or(HeaderError::Missing(name))?;
        let end = value.iter().position(|byte| *byte == 0);
        let value = end.and_then(|end| value.get(..end));
        let text = std::str::from_utf8(value.ok_or(HeaderError::Field(name))?);
        let text = text.ok().filter(|text| !text.is_empty());
        text.ok_or(HeaderError::Text(name))
    }

    fn number(&self, tag: u32, name: &'static str) -> Result<Option<u32>, HeaderError> {
        let Some(value) = self.find(tag, INT32, name)? else {
            return Ok(None);
        };
        let number = number_at(value, 0).ok_or(HeaderError::Field(name))?;
        Ok(Some(number))
    }
}

fn number_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE: &[u8] = include_bytes!("../tests/fixtures/toy-base.header");
    const TOOLS: &[u8] = include_bytes!("../tests/fixtures/toy-tools.header");

    /// A header with these fields: tag, type, and the value as it lies in the data.
    fn header(fields: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let (mut entries, mut data) = (Vec::new(), Vec::new());
        for (tag, kind, value) in fields {
            let offset = u32::try_from(data.len()).unwrap();
            entries.extend(
                [*tag, *kind, offset, 1]
                    .iter()
                    .flat_map(|it| it.to_be_bytes()),
            );
            data.extend(*value);
        }
        let head = [fields.len(), data.len()].map(|it| u32::try_from(it).unwrap().to_be_bytes());
        [head.concat(), entries, data].concat()
    }

    fn read(header: &[u8]) -> String {
        match package(header) {
            Ok(Some(it)) => format!("{} {} {}", it.name, it.version, it.architecture),
            Ok(None) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn headers_that_rpm_wrote_are_read() {
        assert_eq!(read(BASE), "toy-base 1:2.0-3.el9 noarch");
        assert_eq!(read(TOOLS), "toy-tools 1.4~rc1-1.el9 noarch");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let name: (u32, u32, &[u8]) = (NAME, STRING, b"a\0");
        let version: (u32, u32, &[u8]) = (VERSION, STRING, b"1\0");
        let release: (u32, u32, &[u8]) = (RELEASE, STRING, b"2\0");
        let architecture: (u32, u32, &[u8]) = (ARCHITECTURE, STRING, b"x\0");
        let all = [name, version, release, architecture];
        let with = |tag: u32, kind: u32, value: &'static [u8]| {
            let others = all.iter().filter(|(other, ..)| *other != tag);
            let fields: Vec<_> = others.copied().chain([(tag, kind, value)]).collect();
            read(&header(&fields))
        };
        assert_eq!(read(&header(&all)), "a 1-2 x");
        assert_eq!(with(EPOCH, INT32, &[0, 0, 0, 7]), "a 7:1-2 x");
        assert_eq!(with(EPOCH, INT32, &[0; 4]), "a 1-2 x");
        assert_eq!(with(NAME, STRING, b"gpg-pubkey\0"), "none");
        let field = "is of another type than rpm writes, or lies outside of the data";
        assert_eq!(with(EPOCH, STRING, b"7\0"), format!("the epoch {field}"));
        assert_eq!(with(EPOCH, INT32, &[0, 7]), format!("the epoch {field}"));
        assert_eq!(
            with(VERSION, INT32, &[0; 4]),
            format!("the version {field}")
        );
        assert_eq!(
            with(VERSION, STRING, b"without an end"),
            format!("the version {field}")
        );
        assert_eq!(
            with(VERSION, STRING, b"\0"),
            "the version is empty, or is no UTF-8"
        );
        assert_eq!(
            with(NAME, STRING, b"\xff\0"),
            "the name is empty, or is no UTF-8"
        );
        assert_eq!(read(&header(&[version])), "the name is not there");
    }

    #[test]
    fn lengths_are_checked() {
        for bytes in [&BASE[..BASE.len() - 1], &BASE[..20], &BASE[..3], &[]] {
            assert!(package(bytes).is_err(), "{}", bytes.len());
        }
        let mut huge = BASE.to_vec();
        huge[..8].fill(0xff);
        let expected = 8 + u64::from(u32::MAX) * 17;
        let error = HeaderError::Length {
            bytes: huge.len(),
            expected,
        };
        assert_eq!(package(&huge), Err(error));
    }

    proptest! {
        #[test]
        fn no_bytes_end_the_program(changes in prop::collection::vec((0_usize..BASE.len(), any::<u8>()), 1..8)) {
            let mut header = BASE.to_vec();
            for (place, byte) in changes {
                header[place] = byte;
            }
            drop(package(&header));
        }
    }
}
