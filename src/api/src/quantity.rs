//! Quantities of Kubernetes: sizes as whole bytes, amounts of any resource.

/// Suffixes, and what they multiply by: a number, or one over it.
const SUFFIXES: [(&str, i128); 13] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
    ("", 1),
];

/// Reads a quantity; a part of a byte counts as one. Nothing where it is none, or has parts of
/// thousands (`m`) or an exponent, which no size in bytes has.
///
/// Source: Kubernetes documentation, "Resource quantity".
pub fn bytes(text: &str) -> Option<i128> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end)?;
    let (_, times) = SUFFIXES.iter().find(|(other, _)| *other == suffix)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let scale = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let scaled = digits.checked_mul(*times)?;
    let up = i128::from(scaled % scale != 0);
    Some(sign * (scaled / scale + up))
}

/// Whether a text is an amount of some resource, and not below zero. Parts of one (`500m`) and
/// exponents are amounts, too.
///
/// Source: Kubernetes documentation, "Resource quantity".
pub fn is_amount(text: &str) -> bool {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let Some((number, suffix)) = text.split_at_checked(end) else {
        return false;
    };
    let is_number = number.bytes().any(|c| c.is_ascii_digit())
        && number.bytes().filter(|c| *c == b'.').count() <= 1;
    let is_part = ["n", "u", "m"].contains(&suffix);
    let is_exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
    });
    let is_suffix = SUFFIXES.iter().any(|(other, _)| *other == suffix);
    is_number && (is_suffix || is_part || is_exponent)
}

#[cfg(test)]
mod tests {
    use super::{bytes, is_amount};

    #[test]
    fn amounts_have_parts_and_exponents_and_no_sign_below_zero() {
        for text in ["0", "500m", "1.5Gi", "+2", ".5", "1e3", "1E-3", "1E", "7n"] {
            assert!(is_amount(text), "{text}");
        }
        for text in [
            "", "lots", "-1", "1.2.3", ".", "1Gb", "1 Gi", "1e", "1e+", "5%", "m",
        ] {
            assert!(!is_amount(text), "{text}");
        }
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let table = [
            ("0", Some(0)),
            ("8192", Some(8192)),
            ("8Ki", Some(8192)),
            ("8k", Some(8000)),
            ("1.5Gi", Some(1_610_612_736)),
            ("+.5k", Some(500)),
            ("-1", Some(-1)),
            ("0.1", Some(1)),
            ("1Gb", None),
            ("1e3", None),
            ("", None),
            (".", None),
            ("1.2.3", None),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
