//! Which version of Ignition's specification a request asks for.
//!
//! Source: `docs/reference/config-server.md`, "Versions".

use std::cmp::Reverse;

use ignition::SpecVersion;

/// The media type that Ignition asks for, below `application`.
const SUBTYPE: &str = "vnd.coreos.ignition+json";

/// The requested version cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Ignition {0} is asked for: 2.2 and 3.1 to 3.5 can be served")]
pub(crate) struct NotAcceptable(String);

/// Reads the `Accept` header; several are joined by commas.
///
/// Of the entries that name Ignition's media type and a version `x.y.z`, that with the highest `q`
/// decides, and of equals the first. Without one it is 2.2: machines that say nothing are as old.
///
/// # Errors
/// The version that decides cannot be served.
pub(crate) fn negotiate(header: &str) -> Result<SpecVersion, NotAcceptable> {
    let mut entries: Vec<Entry<'_>> = header.split(',').filter_map(Entry::parse).collect();
    entries.sort_by_key(|entry| Reverse(entry.weight));
    let Some(first) = entries.into_iter().next() else {
        return Ok(SpecVersion::V2_2);
    };
    let refused = || NotAcceptable(first.text.to_owned());
    match first.version {
        [2, minor, _] if minor >= 2 => Ok(SpecVersion::V2_2),
        // A machine that knows a newer one reads the newest there is.
        [3, minor, _] => SpecVersion::three(minor.min(5)).ok_or_else(refused),
        _ => Err(refused()),
    }
}

/// An entry of the header that asks for Ignition.
struct Entry<'a> {
    version: [u64; 3],
    text: &'a str,
    /// `q` in thousandths, as precise as the header may be.
    weight: u16,
}

impl<'a> Entry<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (main, subtype) = parts.next()?.split_once('/')?;
        if main.is_empty() || !subtype.eq_ignore_ascii_case(SUBTYPE) {
            return None;
        }
        let (mut version, mut weight) = (None, 1000);
        for parameter in parts.filter(|part| !part.is_empty()) {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "version" => version = Some(value),
                "q" => weight = thousandths(value)?,
                _ => {}
            }
        }
        let text = version?;
        // A weight of 0 means: not this one.
        (weight > 0).then_some(Self {
            version: numbers(text)?,
            text,
            weight,
        })
    }
}

fn thousandths(text: &str) -> Option<u16> {
    let weight: f64 = text.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000"
    )]
    (0.0..=1.0)
        .contains(&weight)
        .then_some((weight * 1000.0).round() as u16)
}

/// The three numbers of a version; what follows a `-` or `+` is ignored.
fn numbers(text: &str) -> Option<[u64; 3]> {
    let release = text.split(['-', '+']).next()?;
    let mut parts = release.split('.');
    let mut next = || parts.next()?.parse().ok();
    let numbers = [next()?, next()?, next()?];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use SpecVersion::{V2_2, V3_1, V3_3, V3_4, V3_5};

    use super::*;

    #[test]
    fn header_names_the_version() {
        let accepted = |version: &str| format!("application/{SUBTYPE};version={version}");
        let table: [(String, Result<SpecVersion, &str>); 24] = [
            (String::new(), Ok(V2_2)),
            ("*/*".to_owned(), Ok(V2_2)),
            ("application/json".to_owned(), Ok(V2_2)),
            (format!("application/{SUBTYPE}"), Ok(V2_2)),
            (accepted("2.2.0"), Ok(V2_2)),
            (accepted("2.4.0"), Ok(V2_2)),
            (accepted("2.1.0"), Err("2.1.0")),
            (accepted("3.0.0"), Err("3.0.0")),
            (accepted("3.1.0"), Ok(V3_1)),
            (accepted("3.4.7"), Ok(V3_4)),
            (accepted("3.5.0"), Ok(V3_5)),
            (accepted("3.9.0"), Ok(V3_5)),
            (accepted("3.6.0-experimental"), Ok(V3_5)),
            (accepted("1.0.0"), Err("1.0.0")),
            (accepted("4.0.0"), Err("4.0.0")),
            // No versions: as if they were not there.
            (accepted("3"), Ok(V2_2)),
            (accepted("3.x.0"), Ok(V2_2)),
            (accepted("3.1.0.0"), Ok(V2_2)),
            (accepted("\"3.3.0\""), Ok(V3_3)),
            // What Ignition 2.14 sends.
            (format!("{}, */*;q=0.1", accepted("3.3.0")), Ok(V3_3)),
            (format!("*/*, {}", accepted("3.1.0")), Ok(V3_1)),
            (
                format!("{};q=0.5, {}", accepted("3.1.0"), accepted("3.4.0")),
                Ok(V3_4),
            ),
            (
                format!("{}, {}", accepted("3.4.0"), accepted("3.1.0")),
                Ok(V3_4),
            ),
            (
                format!(
                    "nothing, {};q=0, {};q=x",
                    accepted("3.1.0"),
                    accepted("3.3.0")
                ),
                Ok(V2_2),
            ),
        ];
        for (header, expected) in table {
            let expected = expected.map_err(|version| NotAcceptable(version.to_owned()));
            assert_eq!(negotiate(&header), expected, "{header}");
        }
    }
}
