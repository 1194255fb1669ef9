//! Which texts YAML would take for something else, and which characters it cannot show.
//!
//! Source: `go-yaml` 2.4.0, `resolve.go` and `emitterc.go`.

/// Texts that stand for a truth value, nothing, or a number.
const WORDS: &[&str] = &[
    "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N", "no", "No",
    "NO", "false", "False", "FALSE", "off", "Off", "OFF", "", "~", "null", "Null", "NULL", ".nan",
    ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
];

/// Whether a text, unquoted, is read back as a text.
pub(super) fn is_text(text: &str) -> bool {
    if WORDS.contains(&text) {
        return false;
    }
    match text.bytes().next() {
        Some(b'.') => !(separates_digits(text) && is_float(&text.replace('_', ""))),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            !is_timestamp(text) && !is_number(&text.replace('_', "")) && !is_base_60(text)
        }
        _ => true,
    }
}

fn is_number(text: &str) -> bool {
    is_integer(text) || is_float(text) || is_signed_binary(text)
}

/// What Go's `ParseInt` or `ParseUint` takes with base 0 and 64 bits.
fn is_integer(text: &str) -> bool {
    let (limit, digits) = match text.as_bytes() {
        [b'-', ..] => (1 << 63, text.get(1..)),
        [b'+', ..] => ((1 << 63) - 1, text.get(1..)),
        _ => (u64::MAX, Some(text)),
    };
    let Some(digits) = digits.filter(|digits| !digits.is_empty()) else {
        return false;
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2).zip(lower.get(2..)) {
        Some(("0b", digits)) if !digits.is_empty() => (2, digits),
        Some(("0o", digits)) if !digits.is_empty() => (8, digits),
        Some(("0x", digits)) if !digits.is_empty() => (16, digits),
        _ if lower == "0" => return true,
        _ => match lower.strip_prefix('0') {
            Some(digits) => (8, digits),
            None => (10, lower.as_str()),
        },
    };
    // `from_str_radix` takes a sign, which has had its turn.
    !digits.starts_with(['+', '-'])
        && u64::from_str_radix(digits, base).is_ok_and(|number| number <= limit)
}

/// `0b` followed by a number with a sign of its own, as `go-yaml` takes it.
fn is_signed_binary(text: &str) -> bool {
    text.strip_prefix("0b")
        .is_some_and(|digits| i64::from_str_radix(digits, 2).is_ok())
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, within the range of 64 bits.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_form = if whole.is_empty() {
        is_digits(fraction)
    } else {
        is_digits(whole) && (fraction.is_empty() || is_digits(fraction))
    };
    let exponent = exponent.map(|exponent| exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
    has_form && exponent.is_none_or(is_digits) && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether each underscore stands between two digits, as in a number of Go.
fn separates_digits(text: &str) -> bool {
    let ends_in_digit = |part: &str| part.ends_with(|c: char| c.is_ascii_digit());
    let starts_with_digit = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let next = text.split('_').skip(1);
    text.split('_')
        .zip(next)
        .all(|(one, next)| ends_in_digit(one) && starts_with_digit(next))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`: not read so any more, but quoted for readers
/// that do.
fn is_base_60(text: &str) -> bool {
    let digits = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    let mut parts: Vec<&str> = parts.collect();
    if let Some(last) = parts.last_mut()
        && let Some((number, fraction)) = last.split_once('.')
    {
        if !digits(fraction) {
            return false;
        }
        *last = number;
    }
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && !parts.is_empty()
        && parts
            .iter()
            .all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}

/// A date, or a date and a time, as Go's `time.Parse` takes it with the four layouts of `go-yaml`.
fn is_timestamp(text: &str) -> bool {
    date(text).is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix(['T', 't'])
                .and_then(time)
                .is_some_and(is_zone)
            || (rest.starts_with(' ') && time(rest.trim_start_matches(' ')) == Some(""))
    })
}

/// Takes `2006-1-2` and returns what follows.
fn date(text: &str) -> Option<&str> {
    let (year, rest) = text
        .split_once('-')
        .filter(|(year, _)| year.len() == 4 && is_digits(year))?;
    let (month, rest) = one_or_two(rest)?;
    let (day, rest) = one_or_two(rest.strip_prefix('-')?)?;
    let year: u32 = year.parse().ok()?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(rest)
}

/// Takes `15:4:5` with or without a fraction and returns what follows.
fn time(text: &str) -> Option<&str> {
    let (hour, rest) = one_or_two(text)?;
    let (minute, rest) = one_or_two(rest.strip_prefix(':')?)?;
    let (second, rest) = one_or_two(rest.strip_prefix(':')?)?;
    let fraction = rest
        .strip_prefix(['.', ','])
        .map(|rest| (rest, rest.trim_start_matches(|c: char| c.is_ascii_digit())));
    let rest = match fraction {
        Some((digits, after)) if after.len() < digits.len() => after,
        _ => rest,
    };
    (hour < 24 && minute < 60 && second < 60).then_some(rest)
}

/// `Z`, or an offset such as `+01:00`.
fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        [b'Z'] => true,
        [b'+' | b'-', h, t, b':', m, s] => {
            let number = |tens: u8, ones: u8| {
                (tens.is_ascii_digit() && ones.is_ascii_digit())
                    .then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
            };
            number(*h, *t).is_some_and(|hours| hours <= 24)
                && number(*m, *s).is_some_and(|minutes| minutes <= 60)
        }
        _ => false,
    }
}

fn one_or_two(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// Whether a character may stand for itself. Those beyond the basic plane may not, nor may a tab.
pub(super) const fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Whether a character ends a line.
pub(super) const fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
