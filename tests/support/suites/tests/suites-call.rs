//! How the runner is called.
//!
//! Cargo unites the features of the packages that one call selects, and those of tests only where
//! it selects a test. Every build for development selects the whole workspace and this test, which
//! costs nothing, so that all of them have one set of features and no package is compiled twice.

use std::io;
use std::process::{Command, Output};

fn suites(words: &[&str]) -> io::Result<Output> {
    #[expect(clippy::disallowed_methods, reason = "a test that runs a program")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_suites"));
    command.args(words).output()
}

#[test]
fn a_wrong_call_ends_with_2_and_the_usage() {
    for words in [&[][..], &["nothing"], &["list", "more"]] {
        let output = suites(words).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
        let usage = String::from_utf8(output.stderr).unwrap();
        assert!(usage.starts_with("usage: suites test"), "{usage}");
    }
}

#[test]
fn a_name_that_is_no_suite_ends_with_1_before_anything_is_built() {
    let output = suites(&["test", "nothing"]).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("there is no suite nothing"), "{message}");
}
