//! The administrator's command line, as an administrator runs it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::Programs;

/// What a command printed.
#[derive(Debug)]
pub struct Printed {
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub error: String,
}

impl Printed {
    /// Asserts that it ended with this code and printed these texts.
    #[track_caller]
    pub fn expect(&self, code: i32, texts: &[&str]) {
        let all = self.all();
        assert_eq!(self.code, Some(code), "{all}");
        for text in texts {
            assert!(all.contains(text), "{text:?} is not in:\n{all}");
        }
    }

    /// Both outputs.
    pub fn all(&self) -> String {
        format!("{}{}", self.out, self.error)
    }

    /// Standard output as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| self.error.clone())
    }
}

/// Runs `slipway` with a kubeconfig.
#[expect(clippy::disallowed_methods, reason = "a program under test")]
pub fn slipway(kubeconfig: &Path, arguments: &[&str]) -> Result<Printed> {
    let output = Command::new(Programs::built()?.path("slipway")?)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .context("cannot run slipway")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Printed {
        code: output.status.code(),
        out: text(&output.stdout),
        error: text(&output.stderr),
    })
}
