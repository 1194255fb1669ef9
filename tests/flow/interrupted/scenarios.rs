//! Acts one after the other. One that fails keeps no other from its turn; each is judged by the laws that hold in any
//! run.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use observer::laws::{Breach, Law};

use crate::scene::Scene;

/// The acts of one cluster, and how they went so far.
pub(crate) struct Acts {
    scene: Scene,
    failures: Vec<String>,
    /// What acts so far have answered for.
    breaches: Vec<Breach>,
}

impl Acts {
    /// On a cluster of their own; `test` names its logs.
    pub(crate) async fn begin(test: &str) -> Result<Self> {
        Ok(Self {
            scene: Scene::start(test).await?,
            failures: Vec::new(),
            breaches: Vec::new(),
        })
    }

    /// Plays an act, brings the node back to where it was born, and judges what was recorded meanwhile.
    ///
    /// # Errors
    ///
    /// The node does not come back: no other act can be played. Says what failed so far.
    pub(crate) async fn play(
        &mut self,
        name: &str,
        act: impl AsyncFnOnce(&Scene) -> Result<()>,
    ) -> Result<()> {
        self.play_breaking(&[], name, act).await
    }

    /// Plays an act in which today's daemon breaks these laws. It fails as well once one is broken no longer.
    ///
    /// # Errors
    ///
    /// Those of [`Self::play`].
    pub(crate) async fn play_breaking(
        &mut self,
        known: &[&Law],
        name: &str,
        act: impl AsyncFnOnce(&Scene) -> Result<()>,
    ) -> Result<()> {
        let since = Timestamp::now();
        let played = act(&self.scene).await;
        let is_played = played.is_ok();
        if let Err(error) = played {
            self.failures.push(format!("{name}: {error:#}"));
        }
        let restored = self.scene.restore().await;
        let judged = self.judge(name, since, known, is_played);
        restored.and(judged).with_context(|| {
            let failed = self.failures.join("\n");
            format!("{failed}\nno act can follow {name}")
        })
    }

    /// An act that was not played to its end need not have come to where it breaks what is known.
    fn judge(
        &mut self,
        name: &str,
        since: Timestamp,
        known: &[&Law],
        is_played: bool,
    ) -> Result<()> {
        let mut breaches = self.scene.cluster.record()?.judge(since);
        breaches.retain(|breach| !self.breaches.contains(breach));
        let unknown = breaches
            .iter()
            .filter(|breach| !known.contains(&breach.law));
        self.failures
            .extend(unknown.map(|breach| format!("{name}: {breach}")));
        let is_kept = |law: &&&Law| is_played && breaches.iter().all(|breach| breach.law != **law);
        self.failures
            .extend(known.iter().filter(is_kept).map(|law| {
                let sentence = law.sentence;
                format!("{name}: to be expected no more, as it is kept now: {sentence}")
            }));
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
