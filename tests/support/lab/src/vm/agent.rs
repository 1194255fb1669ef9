//! Programs run inside a machine, by the agent that qemu's guests have for it.
//!
//! Source: QEMU 7.2, "QEMU Guest Agent Protocol Reference".

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::host::Output;

/// How long the agent may take for one response.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Time between two questions whether a program has ended.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// A conversation with the agent.
#[derive(Debug)]
pub(super) struct Agent {
    stream: BufReader<UnixStream>,
}

impl Agent {
    /// Begins a conversation. Fails while the system inside has no agent yet.
    pub(super) fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).context("qemu is not there")?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        let mut agent = Self {
            stream: BufReader::new(stream),
        };
        agent.synchronize()?;
        Ok(agent)
    }

    /// Runs a program to its end, whatever that is.
    pub(super) fn exec(&mut self, arguments: &[&str], within: Duration) -> Result<Output> {
        let (program, arguments) = arguments.split_first().context("no program is named")?;
        let started = self.ask(
            "guest-exec",
            &json!({ "path": program, "arg": arguments, "capture-output": true }),
        )?;
        let deadline = Instant::now() + within;
        loop {
            let status = self.ask("guest-exec-status", &json!({ "pid": started.get("pid") }))?;
            if status.get("exited") == Some(&Value::Bool(true)) {
                return output(&status);
            }
            if Instant::now() >= deadline {
                bail!("{program} does not end within {within:?}");
            }
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// Throws away what the agent still has to send to earlier callers.
    fn synchronize(&mut self) -> Result<()> {
        let id = u64::from(std::process::id());
        let question = json!({ "execute": "guest-sync-delimited", "arguments": { "id": id } });
        let stream = self.stream.get_mut();
        // A byte that no JSON has makes the agent forget a half question, and begins its response.
        stream.write_all(&[0xff])?;
        writeln!(stream, "{question}")?;
        let deadline = Instant::now() + ANSWERS_WITHIN;
        loop {
            let mut before = Vec::new();
            self.stream
                .read_until(0xff, &mut before)
                .context("the agent does not respond")?;
            if before.last() != Some(&0xff) || Instant::now() >= deadline {
                bail!("the agent does not respond");
            }
            if self.response()?.as_u64() == Some(id) {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, what: &str, arguments: &Value) -> Result<Value> {
        let question = json!({ "execute": what, "arguments": arguments });
        writeln!(self.stream.get_mut(), "{question}")?;
        self.response()
            .with_context(|| format!("the machine's agent was asked for {what}"))
    }

    fn response(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stream
            .read_line(&mut line)
            .context("the agent does not respond")?;
        let mut response: Value = serde_json::from_str(&line).context("the agent is gone")?;
        match response.get_mut("return") {
            Some(value) => Ok(value.take()),
            None => bail!("the agent responds: {response}"),
        }
    }
}

fn output(status: &Value) -> Result<Output> {
    let text = |key: &str| -> Result<String> {
        let encoded = status.get(key).and_then(Value::as_str).unwrap_or_default();
        Ok(String::from_utf8_lossy(&BASE64_STANDARD.decode(encoded)?).into_owned())
    };
    let number = |key: &str| {
        status
            .get(key)
            .and_then(Value::as_i64)
            .and_then(|number| i32::try_from(number).ok())
    };
    Ok(Output {
        code: number("exitcode").or_else(|| number("signal").map(|signal| 128 + signal)),
        stdout: text("out-data")?,
        stderr: text("err-data")?,
    })
}
