//! What stands in manifests for images and versions, until a release is made.

use std::collections::{BTreeMap, BTreeSet};

use crate::component_versions::ComponentVersions;
use crate::version::Version;

/// Stands for the release's version; with `-<component>` behind it, for that component's.
const VERSION: &[u8] = b"0.0.1-snapshot";

/// Longest tag of an image.
const TAG_MAX: usize = 128;

/// Least digits of a digest behind a placeholder.
const DIGEST_MIN: usize = 2;

/// Why a manifest's versions cannot be put in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A dash without a component is behind the version's placeholder.
    #[error("empty version references are not allowed")]
    Empty,
    /// A component has no version.
    #[error("unknown version reference {}", quoted(.0))]
    Unknown(Vec<String>),
    /// Images carry a component in different versions, so that none of them can be put in.
    #[error("the version for {component:?} is inconsistent across the referenced images: {}", images.join(", "))]
    Inconsistent {
        component: String,
        images: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    names.join(", ")
}

/// A placeholder is another's, or none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("images {first} and {second} have one placeholder, {placeholder:?}")]
pub struct Ambiguous {
    placeholder: String,
    first: String,
    second: String,
}

/// Placeholders of images, and the pull specs that take their place.
#[derive(Clone, Debug, Default)]
pub struct Images<'a> {
    /// By placeholder, longest first, so that one that another begins with does not win over it.
    places: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Images<'a> {
    /// Takes triples of an image's name, placeholder and pull spec.
    ///
    /// # Errors
    /// Two images have one placeholder.
    pub fn new(
        images: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Result<Self, Ambiguous> {
        let mut names = BTreeMap::new();
        let mut places = Vec::new();
        for (name, placeholder, pull_spec) in images {
            if let Some(first) = names.insert(placeholder, name) {
                return Err(Ambiguous {
                    placeholder: placeholder.to_owned(),
                    first: first.to_owned(),
                    second: name.to_owned(),
                });
            }
            if !placeholder.is_empty() {
                places.push((placeholder.as_bytes(), pull_spec.as_bytes()));
            }
        }
        places.sort_by_key(|(placeholder, _)| std::cmp::Reverse(placeholder.len()));
        Ok(Self { places })
    }

    /// Puts pull specs where placeholders are.
    ///
    /// A placeholder counts where no letter, digit or underscore is before it, and a blank, a quote
    /// or the end is behind it; a tag or digest between takes part in it. So `…:pod` leaves
    /// `…:pod-extra` alone.
    pub fn substitute(&self, manifest: &[u8]) -> Vec<u8> {
        replace(manifest, |rest| {
            self.places.iter().find_map(|(placeholder, pull_spec)| {
                let behind = rest.strip_prefix(*placeholder)?;
                let suffixes = [0, tag(behind), digest(behind)];
                let mut lengths = suffixes.iter().rev();
                let length = lengths.find(|length| is_end(behind.get(**length..)))?;
                Some((placeholder.len() + length, pull_spec.to_vec()))
            })
        })
    }
}

/// Versions that take the place of placeholders.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The release's, without architecture; none leaves its placeholder.
    pub release: Option<Version>,
    pub components: ComponentVersions,
    /// Images that carry a component in different versions, by component.
    pub inconsistent: BTreeMap<String, BTreeSet<String>>,
}

impl Versions {
    /// Puts versions where placeholders are: `0.0.1-snapshot` for the release's,
    /// `0.0.1-snapshot-<component>` for a component's.
    ///
    /// # Errors
    /// [`Error`], of all components that have no version, else of the first that has several.
    pub fn substitute(&self, manifest: &[u8]) -> Result<Vec<u8>, Error> {
        let mut unknown = BTreeSet::new();
        let mut inconsistent = None;
        let bytes = replace(manifest, |rest| {
            let behind = rest.strip_prefix(VERSION)?;
            let Some(component) = behind.strip_prefix(b"-") else {
                let is_word = behind.first().is_some_and(|byte| is_word(*byte));
                let release = self.release.as_ref().filter(|_| !is_word)?;
                return Some((VERSION.len(), release.to_string().into_bytes()));
            };
            let is_inner =
                |byte: &&u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || **byte == b'-';
            let length = component.iter().take_while(is_inner).count();
            let name = String::from_utf8_lossy(component.get(..length)?).into_owned();
            let component = self.components.get(&name);
            if let Some(images) = self.inconsistent.get(&name) {
                inconsistent.get_or_insert((name, images));
                return None;
            }
            let Some(component) = component else {
                unknown.insert(name);
                return None;
            };
            Some((
                VERSION.len() + 1 + length,
                component.version.to_string().into_bytes(),
            ))
        });
        if unknown.contains("") {
            Err(Error::Empty)
        } else if !unknown.is_empty() {
            Err(Error::Unknown(unknown.into_iter().collect()))
        } else if let Some((component, images)) = inconsistent {
            Err(Error::Inconsistent {
                component,
                images: images.iter().cloned().collect(),
            })
        } else {
            Ok(bytes)
        }
    }
}

/// Copies bytes, with others in place of those that `find` names by length. It is asked wherever no
/// word goes on.
fn replace(bytes: &[u8], mut find: impl FnMut(&[u8]) -> Option<(usize, Vec<u8>)>) -> Vec<u8> {
    let mut copy = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    // Of what was there, not of what was put there.
    let mut before = None;
    while let Some((first, tail)) = rest.split_first() {
        let found = Some(rest)
            .filter(|_| !before.is_some_and(is_word))
            .and_then(&mut find);
        if let Some((length, put)) = found {
            copy.extend(put);
            before = rest.get(..length).and_then(<[u8]>::last).copied();
            rest = rest.get(length..).unwrap_or_default();
        } else {
            copy.push(*first);
            before = Some(*first);
            rest = tail;
        }
    }
    copy
}

/// Length of a tag with its colon; 0 for none.
fn tag(bytes: &[u8]) -> usize {
    let Some(tag) = bytes.strip_prefix(b":") else {
        return 0;
    };
    let is_inner = |byte: &&u8| is_word(**byte) || b".-".contains(byte);
    let length = tag.iter().take_while(is_inner).count();
    let is_tag = tag.first().is_some_and(|byte| is_word(*byte)) && length <= TAG_MAX;
    if is_tag { length + 1 } else { 0 }
}

/// Length of a digest with its sign; 0 for none.
fn digest(bytes: &[u8]) -> usize {
    let Some(digest) = bytes.strip_prefix(b"@") else {
        return 0;
    };
    let is_inner = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_+.".contains(byte);
    let algorithm = digest.iter().take_while(is_inner).count();
    let Some(hex) = digest
        .get(algorithm..)
        .and_then(|rest| rest.strip_prefix(b":"))
    else {
        return 0;
    };
    let digits = hex
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let is_digest = digest.first().is_some_and(u8::is_ascii_alphabetic) && digits >= DIGEST_MIN;
    if is_digest {
        1 + algorithm + 1 + digits
    } else {
        0
    }
}

/// Whether a placeholder may end here.
fn is_end(rest: Option<&[u8]>) -> bool {
    rest.is_some_and(|rest| match rest.first() {
        None => true,
        Some(byte) => byte.is_ascii_whitespace() || b"\"'".contains(byte),
    })
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests;
