//! Which points a run samples where it does not try each: others for each commit, the same ones for
//! the same commit.

use anyhow::{Context as _, Result, ensure};

/// Names the number to repeat another run's sample.
const VARIABLE: &str = "SLIPWAY_SAMPLE";

/// Hexadecimal digits of the commit's hash that choose. 65,536 samples are more than there are
/// points between two.
const DIGITS: usize = 4;

/// The number that chooses the points of a run: that in `$SLIPWAY_SAMPLE`, or the first digits of
/// the commit's hash.
///
/// # Errors
///
/// The variable holds no number, or there is no commit.
pub(crate) fn number() -> Result<usize> {
    let number = match std::env::var_os(VARIABLE) {
        Some(text) => text
            .to_string_lossy()
            .parse()
            .with_context(|| format!("{VARIABLE} is {}, which is no number", text.display()))?,
        None => of_hash(&commit()?)?,
    };
    eprintln!("sample {number}: {VARIABLE}={number} tries the same points again");
    Ok(number)
}

/// Hash of the commit that is checked out.
fn commit() -> Result<String> {
    #[expect(clippy::disallowed_methods, reason = "of the checkout, not of a host")]
    let mut git = std::process::Command::new("git");
    let head = ["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"];
    let output = git.args(head).output().context("cannot run git")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "no commit is known, {VARIABLE} names a sample: {}",
        stderr.trim_end()
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn of_hash(hash: &str) -> Result<usize> {
    let digits = hash.get(..DIGITS).unwrap_or(hash);
    usize::from_str_radix(digits, 16).with_context(|| format!("{hash:?} is no hash"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_digits_of_a_hash_are_its_number() {
        let of = |hash| of_hash(hash).unwrap();
        assert_eq!(of("00ff42d1e5b1f5a6c1b2d3e4f5061728394a5b6c\n"), 0xff);
        assert_eq!(of("ffff42d1e5b1f5a6c1b2d3e4f5061728394a5b6c"), 0xffff);
        assert!(of_hash("no hash").is_err());
    }
}
