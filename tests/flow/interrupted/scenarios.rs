//! Scenarios one after the other. One that fails does not stop the others; each is judged by the
//! laws that hold in any run.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use observer::laws::Breach;

use crate::env::Env;

/// The scenarios of one cluster, and how they went so far.
pub(crate) struct Scenarios {
    env: Env,
    failures: Vec<String>,
    /// What was found in scenarios so far.
    breaches: Vec<Breach>,
}

impl Scenarios {
    /// On a cluster of their own; `test` names its logs.
    pub(crate) async fn begin(test: &str) -> Result<Self> {
        Ok(Self {
            env: Env::start(test).await?,
            failures: Vec::new(),
            breaches: Vec::new(),
        })
    }

    /// Runs a scenario, brings the node back to its initial configuration, and judges what was
    /// recorded meanwhile.
    ///
    /// # Errors
    ///
    /// The node does not come back: no other scenario can run. Says what failed so far.
    pub(crate) async fn run(
        &mut self,
        name: &str,
        scenario: impl AsyncFnOnce(&Env) -> Result<()>,
    ) -> Result<()> {
        let since = Timestamp::now();
        if let Err(error) = scenario(&self.env).await {
            self.failures.push(format!("{name}: {error:#}"));
        }
        let restored = self.env.restore().await;
        let judged = self.judge(name, since);
        restored.and(judged).with_context(|| {
            let failed = self.failures.join("\n");
            format!("{failed}\nno scenario can follow {name}")
        })
    }

    fn judge(&mut self, name: &str, since: Timestamp) -> Result<()> {
        let mut breaches = self.env.cluster.record()?.judge(since);
        breaches.retain(|breach| !self.breaches.contains(breach));
        let found = breaches.iter();
        self.failures
            .extend(found.map(|breach| format!("{name}: {breach}")));
        self.breaches.extend(breaches);
        Ok(())
    }

    /// Fails with all that failed.
    pub(crate) fn end(self) -> Result<()> {
        let (count, failures) = (self.failures.len(), self.failures.join("\n"));
        ensure!(count == 0, "{count} failures:\n{failures}");
        Ok(())
    }
}
