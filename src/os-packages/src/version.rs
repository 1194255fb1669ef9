//! Which of two versions is the newer one.

use std::cmp::Ordering;

use crate::package::PackageManager;

/// Compares versions by the rules of their manager.
///
/// Source: for dpkg the Debian Policy Manual, section 5.6.12; for rpm `rpmvercmp`, in a crate of
/// the authors of the `rpm` crate.
pub fn compare(manager: PackageManager, one: &str, other: &str) -> Ordering {
    match manager {
        PackageManager::Dpkg => of_dpkg(one, other),
        PackageManager::Rpm => rpm_version::rpm_evr_compare(one, other),
    }
}

fn of_dpkg(one: &str, other: &str) -> Ordering {
    let [one, other] = [one, other].map(Parts::of);
    numbers(one.epoch, other.epoch)
        .then_with(|| part(one.upstream, other.upstream))
        .then_with(|| part(one.revision, other.revision))
}

/// The parts of a version `[epoch:]upstream[-revision]`.
#[derive(Clone, Copy)]
struct Parts<'a> {
    epoch: &'a str,
    upstream: &'a str,
    revision: &'a str,
}

impl<'a> Parts<'a> {
    fn of(version: &'a str) -> Self {
        let (epoch, rest) = version.split_once(':').unwrap_or(("", version));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        Self {
            epoch,
            upstream,
            revision,
        }
    }
}

/// Compares in turn a piece without digits and a number, until one differs.
fn part(mut one: &str, mut other: &str) -> Ordering {
    while !(one.is_empty() && other.is_empty()) {
        let ((word, rest), (other_word, other_rest)) = (
            piece(one, |byte| !byte.is_ascii_digit()),
            piece(other, |byte| !byte.is_ascii_digit()),
        );
        let ((number, rest), (other_number, other_rest)) = (
            piece(rest, u8::is_ascii_digit),
            piece(other_rest, u8::is_ascii_digit),
        );
        let order = words(word, other_word).then_with(|| numbers(number, other_number));
        if order.is_ne() {
            return order;
        }
        (one, other) = (rest, other_rest);
    }
    Ordering::Equal
}

/// Divides a text behind its first bytes that are wanted. Digits are bytes of their own in UTF-8,
/// so that no character is divided.
fn piece(text: &str, is_wanted: fn(&u8) -> bool) -> (&str, &str) {
    let count = text.bytes().take_while(is_wanted).count();
    text.split_at_checked(count).unwrap_or((text, ""))
}

/// Compares two pieces by the weight of each character; the end has one, too.
fn words(one: &str, other: &str) -> Ordering {
    let [mut one, mut other] = [one, other].map(|text| text.bytes().map(weight));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return Ordering::Equal,
            (one, other) => {
                let order = one.unwrap_or(END).cmp(&other.unwrap_or(END));
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

/// The weight of the end of a piece.
const END: u16 = 1;

/// A tilde is before the end, the end before letters, letters before all else.
fn weight(byte: u8) -> u16 {
    match byte {
        b'~' => 0,
        byte if byte.is_ascii_alphabetic() => END + u16::from(byte),
        byte => END + 0x100 + u16::from(byte),
    }
}

/// Compares numbers of any length.
fn numbers(one: &str, other: &str) -> Ordering {
    let [one, other] = [one, other].map(|text| text.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use PackageManager::{Dpkg, Rpm};

    #[test]
    fn newer_versions_of_dpkg_are_those_of_its_rules() {
        for (older, newer) in [
            // The order that the policy manual has as its example.
            ("~~", "~~a"),
            ("~~a", "~"),
            ("~", ""),
            ("", "a"),
            ("1.0~beta1~svn1245", "1.0~beta1"),
            ("1.0~beta1", "1.0"),
            ("1.0", "1:0.9"),
            ("9", "1:0"),
            ("1.9", "1.10"),
            ("1.0-1", "1.0-2"),
            ("1.0-9", "1.0-10"),
            ("1.0-1", "1.0-1+b1"),
            ("1.0-1~bpo12+1", "1.0-1"),
            ("1.0", "1.0a"),
            ("1.0a", "1.0+1"),
            ("1.0", "1.0-1"),
            ("2.36-9+deb12u9", "2.36-9+deb12u10"),
            ("1.2-3-1", "1.2-4-0"),
            ("99999999999999999998", "99999999999999999999"),
            ("252.30-1~deb12u2", "252.31-1~deb12u1"),
        ] {
            assert_eq!(
                compare(Dpkg, older, newer),
                Ordering::Less,
                "{older} {newer}"
            );
            assert_eq!(
                compare(Dpkg, newer, older),
                Ordering::Greater,
                "{newer} {older}"
            );
        }
        for (one, other) in [
            ("1.0", "0:1.0"),
            ("1.01", "1.1"),
            ("1.0-0", "1.0"),
            ("1.0", "1.00"),
        ] {
            assert_eq!(compare(Dpkg, one, other), Ordering::Equal, "{one} {other}");
        }
    }

    #[test]
    fn newer_versions_of_rpm_are_those_of_its_rules() {
        for (older, newer) in [
            ("1.0~rc1-1", "1.0-1"),
            ("1.0-1", "1.0^git1-1"),
            ("1.0-9.el9", "1.0-10.el9"),
            ("5.14.0-427.9.1.el9_4", "5.14.0-427.13.1.el9_4"),
            ("9.0-1", "1:1.0-1"),
            ("1.0a-1", "1.0.1-1"),
            ("2024.6-1.el9", "2024.10-1.el9"),
        ] {
            assert_eq!(
                compare(Rpm, older, newer),
                Ordering::Less,
                "{older} {newer}"
            );
            assert_eq!(
                compare(Rpm, newer, older),
                Ordering::Greater,
                "{newer} {older}"
            );
        }
        for (one, other) in [("0:1.0-1", "1.0-1"), ("1.01-1", "1.1-1")] {
            assert_eq!(compare(Rpm, one, other), Ordering::Equal, "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn order_is_the_same_from_both_sides(
            one in "[0-9a-z.:~+^é-]{0,12}", other in "[0-9a-z.:~+^é-]{0,12}",
        ) {
            for manager in [Dpkg, Rpm] {
                prop_assert_eq!(
                    compare(manager, &one, &other),
                    compare(manager, &other, &one).reverse()
                );
                prop_assert_eq!(compare(manager, &one, &one), Ordering::Equal);
            }
        }
    }
}
