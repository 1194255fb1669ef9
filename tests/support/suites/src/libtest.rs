//! What a test executable of Rust says at its end.

use anyhow::{Context as _, Result, bail, ensure};

/// Tests that passed, by the line `test result: ok. 3 passed; 0 failed; …`.
///
/// # Errors
///
/// There is no such line or more than one, a test failed, or none ran: a test that was renamed away
/// from under its suite would otherwise stay green.
pub(crate) fn passed(output: &str) -> Result<u32> {
    let mut results = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "));
    let result = results
        .next()
        .context("the output has no line `test result:`")?;
    ensure!(
        results.next().is_none(),
        "the output has two lines `test result:`"
    );
    let Some(counts) = result.strip_prefix("ok. ") else {
        bail!("{result}");
    };
    let word = counts.split(' ').next().unwrap_or_default();
    let passed = word
        .parse()
        .with_context(|| format!("cannot read `{result}`"))?;
    ensure!(passed > 0, "no test ran");
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted() {
        let output = "running 2 tests\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 40 filtered out; finished in 1.00s\n";
        assert_eq!(passed(output).unwrap(), 2);
    }

    #[test]
    fn a_run_without_a_test_fails() {
        let output = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 42 filtered out; finished in 0.00s\n";
        assert_eq!(passed(output).unwrap_err().to_string(), "no test ran");
    }

    #[test]
    fn a_run_that_failed_or_did_not_end_fails() {
        for output in [
            "",
            "running 2 tests\n",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
            "test result: ok. 1 passed; 0 failed;\ntest result: ok. 1 passed; 0 failed;\n",
        ] {
            assert!(passed(output).is_err(), "{output}");
        }
    }
}
