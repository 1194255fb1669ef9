//! Whether a command printed what its page shows.

/// Stands for any lines, and within a line for any text.
const ANY: &str = "…";

/// Shortest run of hexadecimal digits that is a hash: names have shorter ones.
const HASH_DIGITS: usize = 8;

/// Whether the output that a page shows is that of a run. Both are masked before.
pub(crate) fn is_same(wanted: &[String], seen: &str) -> bool {
    let wanted: Vec<String> = wanted.iter().map(|line| mask(line)).collect();
    let seen: Vec<String> = seen.lines().map(mask).collect();
    lines_match(without_end(&wanted), without_end(&seen))
}

/// A line without what differs from run to run: times and ages, hashes and digests, addresses.
/// Widths of columns follow from these, so that several spaces count as one.
pub(crate) fn mask(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(mask_word).collect();
    words.join(" ")
}

fn mask_word(word: &str) -> String {
    let is_mark = |character: char| !character.is_alphanumeric() && character != '…';
    let core = word.trim_matches(is_mark);
    if core == "now" || is_duration(core) || is_clock(core) || is_timestamp(core) {
        return word.replacen(core, "<time>", 1);
    }
    let separators = ['/', '@', '=', ',', '(', ')', '"', '\''];
    let parts = word.split_inclusive(separators).map(|part| {
        let text = part.trim_end_matches(separators);
        let end = part.get(text.len()..).unwrap_or_default();
        let masked = mask_address(text).unwrap_or_else(|| mask_hashes(text));
        masked + end
    });
    parts.collect()
}

/// `1h30m`, `45s`, `120ms`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let unit = ["ms", "s", "m", "h", "d"]
            .iter()
            .find_map(|unit| after.strip_prefix(unit));
        match unit {
            Some(next) if after.len() < rest.len() => rest = next,
            _ => return false,
        }
    }
    !text.is_empty()
}

/// `13:24:39`.
fn is_clock(text: &str) -> bool {
    has_form(text, "00:00:00")
}

/// `2027-01-16T02:00:00Z`, also with a fraction or an offset.
fn is_timestamp(text: &str) -> bool {
    let form = "0000-00-00T00:00:00";
    text.get(..form.len())
        .is_some_and(|head| has_form(head, form))
}

/// Whether a text has digits where a form has `0`, and its characters elsewhere.
fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(character, wanted)| {
            if wanted == '0' {
                character.is_ascii_digit()
            } else {
                character == wanted
            }
        })
}

/// An IPv4 address, with or without a port.
fn mask_address(text: &str) -> Option<String> {
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    let is_address = host.parse::<std::net::Ipv4Addr>().is_ok();
    let is_port = port.chars().all(|digit| digit.is_ascii_digit());
    (is_address && is_port).then(|| "<address>".to_owned())
}

/// Each run of letters and digits that is a hash.
fn mask_hashes(text: &str) -> String {
    let is_between = |character: char| !character.is_ascii_alphanumeric();
    let parts = text.split_inclusive(is_between).map(|part| {
        let run = part.trim_end_matches(is_between);
        let end = part.get(run.len()..).unwrap_or_default();
        let is_hash = run.len() >= HASH_DIGITS
            && run
                .chars()
                .all(|digit| matches!(digit, '0'..='9' | 'a'..='f'))
            && run.chars().any(|digit| digit.is_ascii_digit());
        (if is_hash { "<hash>" } else { run }).to_owned() + end
    });
    parts.collect()
}

/// Without empty lines at the end.
fn without_end(lines: &[String]) -> &[String] {
    let end = lines.iter().rposition(|line| !line.is_empty());
    end.and_then(|last| lines.get(..=last)).unwrap_or_default()
}

fn lines_match(wanted: &[String], seen: &[String]) -> bool {
    match wanted.split_first() {
        None => seen.is_empty(),
        Some((first, rest)) if first == ANY => (0..=seen.len())
            .any(|skipped| lines_match(rest, seen.get(skipped..).unwrap_or_default())),
        Some((first, rest)) => seen
            .split_first()
            .is_some_and(|(line, others)| is_line(first, line) && lines_match(rest, others)),
    }
}

fn is_line(wanted: &str, seen: &str) -> bool {
    let Some((first, others)) = wanted.split_once(ANY) else {
        return wanted == seen;
    };
    let (between, last) = others.rsplit_once(ANY).unwrap_or(("", others));
    let Some(mut rest) = seen.strip_prefix(first) else {
        return false;
    };
    for part in between.split(ANY) {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(wanted: &str, seen: &str) -> bool {
        let wanted: Vec<String> = wanted.lines().map(str::to_owned).collect();
        is_same(&wanted, seen)
    }

    #[test]
    fn what_varies_is_masked_and_nothing_else() {
        for (line, masked) in [
            ("w1   Done   Idle   1h30m", "w1 Done Idle <time>"),
            ("Idle, for now", "Idle, for <time>"),
            ("(for 2m), +45s: 120ms", "(for <time>), +<time>: <time>"),
            ("13:24:39  worker-0  Idle", "<time> worker-0 Idle"),
            ("at 2027-01-16T02:00:00.5Z.", "at <time>."),
            (
                "rendered-worker-d4bf0f016a20f068f3f58134257ba18c",
                "rendered-worker-<hash>",
            ),
            (
                "10.97.0.1:5000/os@sha256:2c95c75a12a1472bd2617e",
                "<address>/os@sha256:<hash>",
            ),
            ("http://10.97.255.1:20033/graph", "http://<address>/graph"),
            (
                "worker-2 at 1.0.1, 3 of 3 nodes",
                "worker-2 at 1.0.1, 3 of 3 nodes",
            ),
            ("deadbeef 10% m s 50-file", "deadbeef 10% m s 50-file"),
        ] {
            assert_eq!(mask(line), masked);
        }
    }

    #[test]
    fn another_output_is_found() {
        for (wanted, seen) in [
            ("worker-0 Done", "worker-0 Degraded"),
            ("one\ntwo", "one"),
            ("one", "one\ntwo"),
            ("one\n…\nthree", "one\ntwo"),
            ("a … c", "a b d"),
            ("…\nlast", "last\nmore"),
            ("", "more"),
            ("3 of 3 nodes", "2 of 3 nodes"),
        ] {
            assert!(!same(wanted, seen), "{wanted:?} is not {seen:?}");
        }
    }

    #[test]
    fn any_lines_and_any_text_match() {
        for (wanted, seen) in [
            ("one\n…\nthree", "one\ntwo\n2\nthree\n"),
            ("one\n…\nthree", "one\nthree"),
            ("…", ""),
            ("a … c", "a b c"),
            ("pod/web-…-… deleted", "pod/web-5f-x1 deleted"),
            ("w1  Idle  5s", "w1   Idle   1m10s"),
            ("one\n\n", "one\n"),
            ("", ""),
        ] {
            assert!(same(wanted, seen), "{wanted:?} is {seen:?}");
        }
    }
}
