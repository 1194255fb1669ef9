//! Builds that fail, end early, or are made again.

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{annotation, label};
use testbed::{CONTROLLER, NodeSpec, SOON, until};

use crate::env::{BUILT_WITHIN, Build, Env, POOL};

/// Takes longer than a test needs to end it.
const SLOW: &str = "RUN sleep 30";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn builds_fail_end_and_begin_again_by_name() -> Result<()> {
    let nodes = vec![NodeSpec::new("w1").containers()];
    let mut env = Env::start("builds", nodes).await?;
    let before = env.boots();
    env.failure_is_named_and_an_edit_recovers().await?;
    env.pod_that_no_node_takes_is_named().await?;
    env.site_objects_are_mounted().await?;
    env.deleted_pod_interrupts_nothing().await?;
    env.deleted_job_interrupts_and_a_rebuild_recovers().await?;
    env.deleted_build_comes_back().await?;
    let build = env.build_ends_without_its_controller().await?;
    // All this time the pool was paused, and no node moved.
    env.booted_since(&before, 0)?;
    env.nothing_is_assigned(None).await?;
    env.missing_image_is_built_again(&build).await?;
    env.booted_since(&before, 1)
}

impl Env {
    /// `GracefulBuildFailureRecovery`, `ImageBuildDegradedOnFailureAndClearedOnBuildStart`,
    /// `PausedMCPSurfacesMachineOSBuildStatus`.
    async fn failure_is_named_and_an_edit_recovers(&self) -> Result<()> {
        self.opt_in("RUN echo no-such-package >&2; exit 4").await?;
        let failed = self.until_build("Failed").await?;
        ensure!(failed.message.contains("no-such-package"), "{failed:?}");
        let degraded = self
            .until_condition("ImageBuildDegraded", "True", "no-such-package")
            .await?;
        ensure!(degraded.contains("BuildFailed"), "{degraded}");
        self.until_condition("Degraded", "True", "").await?;
        let updating = format!("OS image build failure (mosb: {})", failed.name);
        self.until_condition("Updating", "False", &updating).await?;
        self.nothing_is_assigned(None).await?;

        self.cluster.objects().pause(POOL, true).await?;
        let updating = format!(
            "Pool is paused; OS image build failed (mosb: {})",
            failed.name
        );
        self.until_condition("Updating", "False", &updating).await?;
        self.opt_in(SLOW).await?;
        let running = self.until_build("Building").await?;
        self.until_condition("ImageBuildDegraded", "False", "Building")
            .await?;
        let updating = "Pool is paused; OS image build in progress";
        self.until_condition("Updating", "True", updating).await?;
        ensure!(
            self.build_named(&failed.name)?.is_none(),
            "{} is left",
            failed.name
        );
        let built = self.until_built().await?;
        ensure!(
            built.name == running.name,
            "{built:?} instead of {running:?}"
        );
        let updating = "Pool is paused; OS image build completed successfully";
        self.until_condition("Updating", "False", updating).await?;
        self.until_tidy().await
    }

    /// A build that no node has room for says so while it runs, and a rebuild takes what its policy
    /// says then.
    async fn pod_that_no_node_takes_is_named(&self) -> Result<()> {
        self.builds_reserve("1000").await?;
        self.opt_in("RUN true # crowded").await?;
        let why = "no node takes its pod: Unschedulable";
        self.until_condition("ImageBuildDegraded", "False", why)
            .await?;
        self.until_condition("Updating", "True", why).await?;
        let held = self.until_build("Building").await?;
        ensure!(held.message.contains("Insufficient cpu"), "{held:?}");
        until("one event of it", SOON, async || {
            let of_hold = "--field-selector=reason=OSImageBuildHeld";
            let words = ["get", "events", "--all-namespaces", "--output=name"];
            let events = self.kubectl(&[&words[..], &[of_hold]].concat())?;
            Ok(if events.lines().count() == 1 {
                Ok(())
            } else {
                Err(events)
            })
        })
        .await?;

        self.builds_reserve("100m").await?;
        let rebuild = format!("{}=", annotation::REBUILD);
        self.kubectl(&["annotate", "machineosconfig", POOL, &rebuild])?;
        self.until_built().await?;
        self.until_condition("ImageBuildDegraded", "False", "BuildSuccess")
            .await
            .map(drop)
    }

    /// `YumReposBuilds`, `EntitledBuilds`: the namespace's objects are seen by the build.
    async fn site_objects_are_mounted(&self) -> Result<()> {
        self.in_namespace(&[
            "create",
            "configmap",
            "etc-yum-repos-d",
            "--from-literal=a.repo=x",
        ])?;
        for (name, file) in [
            ("etc-pki-rpm-gpg", "a.gpg"),
            ("etc-pki-entitlement", "a.pem"),
        ] {
            let content = format!("--from-literal={file}=x");
            self.in_namespace(&["create", "secret", "generic", name, &content])?;
        }
        self.opt_in(
            "RUN test -s /etc/yum.repos.d/a.repo && test -s /etc/pki/rpm-gpg/a.gpg && \
             test -s /etc/pki/entitlement/a.pem",
        )
        .await?;
        self.until_built().await.map(drop)
    }

    /// `DeletedPodDoesNotInterruptMachineOSBuild`.
    async fn deleted_pod_interrupts_nothing(&self) -> Result<()> {
        self.opt_in(&format!("{SLOW} # pod")).await?;
        let build = self.until_build("Building").await?;
        let pod = self.until_pod_of(&build, "").await?;
        self.in_namespace(&["delete", &pod, "--grace-period=1"])?;
        self.until_pod_of(&build, &pod).await?;
        let same = self.chosen().await?.context("no build is chosen")?;
        ensure!(
            same.name == build.name && same.phase == "Building",
            "{same:?}"
        );
        let ended = self.until_built().await?;
        ensure!(ended.name == build.name, "{ended:?}");
        Ok(())
    }

    /// `DeletedBuilderInterruptsMachineOSBuild`, `RebuildAnnotationRestartsBuild`.
    async fn deleted_job_interrupts_and_a_rebuild_recovers(&self) -> Result<()> {
        self.opt_in(&format!("{SLOW} # job")).await?;
        let build = self.until_build("Building").await?;
        let selector = format!("--selector={}={}", label::MACHINE_OS_BUILD, build.name);
        self.in_namespace(&["delete", "jobs", &selector])?;
        let ended = self.until_build("Interrupted").await?;
        ensure!(ended.name == build.name, "{ended:?}");
        self.until_condition("ImageBuildDegraded", "True", "interrupted")
            .await?;
        self.rebuild()?;
        self.until_built().await?;
        until("the annotation to go", SOON, async || {
            let path = "jsonpath={.metadata.annotations}";
            let left = self.kubectl(&["get", "machineosconfig", POOL, "--output", path])?;
            Ok(if left.contains(annotation::REBUILD) {
                Err(left)
            } else {
                Ok(())
            })
        })
        .await?;
        // One that succeeded is built again, too.
        let jobs = self.jobs_made()?;
        self.rebuild()?;
        until("another Job", BUILT_WITHIN, async || {
            let made = self.jobs_made()?;
            Ok(if made > jobs {
                Ok(())
            } else {
                Err(format!("{made} Jobs were made"))
            })
        })
        .await?;
        self.until_built().await.map(drop)
    }

    /// `DeletedTransientMachineOSBuildIsRecreated`.
    async fn deleted_build_comes_back(&self) -> Result<()> {
        self.opt_in(&format!("{SLOW} # build")).await?;
        let build = self.until_build("Building").await?;
        self.kubectl(&["delete", "machineosbuild", &build.name])?;
        let again = self.until_built().await?;
        ensure!(again.name == build.name, "{again:?} instead of {build:?}");
        Ok(())
    }

    /// `ControllerEventuallyReconciles`.
    async fn build_ends_without_its_controller(&mut self) -> Result<Build> {
        self.opt_in(&format!("{SLOW} # alone")).await?;
        let build = self.until_build("Building").await?;
        let names = self.cluster.replicas().keys().cloned();
        let names: Vec<_> = names
            .filter(|name| name.starts_with(CONTROLLER.replica))
            .collect();
        for name in names {
            self.cluster.replicas().remove(&name);
        }
        let selector = format!("{}={}", label::MACHINE_OS_BUILD, build.name);
        until("the Job to end", BUILT_WITHIN, async || {
            let path = "jsonpath={.items[*].status.succeeded}";
            let ended =
                self.in_namespace(&["get", "jobs", "--selector", &selector, "--output", path])?;
            Ok(if ended == "1" { Ok(()) } else { Err(ended) })
        })
        .await?;
        self.cluster.run(CONTROLLER, &[]).await?;
        let same = self.until_built().await?;
        ensure!(same.name == build.name, "{same:?}");
        Ok(same)
    }

    /// `MissingImageIsRebuilt`: what the registry lost is built again once a node is to get it.
    async fn missing_image_is_built_again(&self, build: &Build) -> Result<()> {
        let path = self.manifest(&build.image)?;
        let reply = testbed::http::ask(&path, &["--request", "DELETE"])?;
        ensure!(reply.status == 202, "{reply:?}");
        ensure!(!self.is_in_registry(&build.image)?, "it is still there");
        let jobs = self.jobs_made()?;
        self.cluster.objects().pause(POOL, false).await?;
        until(
            "a node with an image that is there",
            BUILT_WITHIN * 2,
            async || {
                let again = self.chosen().await?;
                let again = again.filter(|it| {
                    it.phase == "Succeeded" && self.jobs_made().is_ok_and(|it| it > jobs)
                });
                Ok(match again {
                    Some(again) if self.is_in_registry(&again.image)? => Ok(()),
                    other => Err(format!("{other:?}")),
                })
            },
        )
        .await?;
        let again = self.until_built().await?;
        self.until_rolled(Some(&again.image)).await
    }

    /// Asks for the same image once more.
    fn rebuild(&self) -> Result<()> {
        let annotation = format!("{}=", annotation::REBUILD);
        self.kubectl(&["annotate", "machineosconfig", POOL, &annotation])
            .map(drop)
    }

    /// Waits until a pod of a build runs that is not this one; its name, as kubectl takes it.
    async fn until_pod_of(&self, build: &Build, but: &str) -> Result<String> {
        let selector = format!("--selector={}={}", label::MACHINE_OS_BUILD, build.name);
        let words = [
            "get",
            "pods",
            &selector,
            "--field-selector=status.phase=Running",
            "--output=name",
        ];
        until("a pod of the build", SOON, async || {
            let names = self.in_namespace(&words)?;
            let mut names = names.lines().filter(|name| *name != but);
            Ok(match names.next() {
                Some(name) => Ok(name.to_owned()),
                None => Err("none runs".to_owned()),
            })
        })
        .await
    }
}
