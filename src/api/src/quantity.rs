//! Quantities of Kubernetes, as whole bytes.

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
    let (_, times) = SUFFIXES.iter().find(|(known, _)| *known == suffix)?;
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

#[cfg(test)]
mod tests {
    use super::bytes;

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
