//! Images on their way to nodes and back.

use anyhow::{Result, ensure};
use api::machineconfiguration::annotation;
use serde_json::json;
use testbed::config::{Config, File};
use testbed::{DONE_WITHIN, NodeSpec, SOON, single_host, until};

use crate::env::{Build, Env, POOL, SECRET};

/// A file of the configuration that belongs to the image, and one that the build writes.
const OF_CONFIG: &str = "/usr/lib/site/setting";
const OF_BUILD: &str = "/usr/lib/site/built";

/// Instructions that write this text into [`OF_BUILD`].
fn writes(text: &str) -> String {
    format!("RUN mkdir -p /usr/lib/site && echo {text} >{OF_BUILD}")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn pool_goes_into_image_mode_and_out_of_it_in_one_reboot_each() -> Result<()> {
    let deadline = single_host::deadline(60);
    let node = |name| {
        let node = NodeSpec::new(name).containers();
        node.file(single_host::DEADLINE_FILE, &deadline)
    };
    let nodes = ["w1", "w2"].map(node);
    let env = Env::start("rolled", nodes.into()).await?;
    let first = env.configuration_and_image_arrive_together().await?;
    env.keys_and_password_need_no_build(&first).await?;
    let second = env.image_alone_is_an_update(&first).await?;
    env.image_that_fails_on_a_node_is_left(&second).await?;
    let last = env.mended_image_is_rolled().await?;
    env.unneeded_images_go(&[&first, &second], &last).await?;
    env.no_secret_is_shown()?;
    env.release_image_comes_back().await
}

impl Env {
    /// `OnClusterLayering`, `OnClusterBuildRollsOutImage`, `MachineConfigPoolChangeRestartsBuild`:
    /// a configuration that changes while its image is built ends that build.
    async fn configuration_and_image_arrive_together(&self) -> Result<Build> {
        let before = self.boots();
        self.opt_in(&writes("first")).await?;
        let early = self.until_build("Building").await?;
        let spec = Config::new()
            .files([File::new(OF_CONFIG, "built in\n")])
            .spec();
        let target = self.cluster.change("60-usr", POOL, &spec).await?;
        let build = self.until_built().await?;
        ensure!(
            build.config == target && build.name != early.name,
            "{build:?}"
        );
        ensure!(
            self.build_named(&early.name)?.is_none(),
            "{} is left",
            early.name
        );
        self.until_rolled(Some(&build.image)).await?;
        self.booted_since(&before, 1)?;
        self.files_are(OF_CONFIG, "built in")?;
        self.files_are(OF_BUILD, "first")?;
        self.until_tidy().await?;
        self.until_condition("Updated", "True", &build.image)
            .await?;
        self.until_condition("ImageBuildDegraded", "False", "BuildSuccess")
            .await?;
        Ok(build)
    }

    /// `SSHKeyAndPasswordForOSBuilder`: another configuration, the same image, no Job, no reboot.
    async fn keys_and_password_need_no_build(&self, build: &Build) -> Result<()> {
        let (before, jobs) = (self.boots(), self.jobs_made()?);
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN lab";
        let core = json!({
            "name": "core", "sshAuthorizedKeys": [key], "passwordHash": "$6$lab$ofthelab",
        });
        let spec = Config::new().user(core).spec();
        let target = self.cluster.change("70-core", POOL, &spec).await?;
        let same = self.until_built().await?;
        ensure!(
            same.config == target && same.image == build.image,
            "{same:?}"
        );
        self.until_rolled(Some(&build.image)).await?;
        self.booted_since(&before, 0)?;
        ensure!(
            self.jobs_made()? == jobs,
            "a Job built the same image again"
        );
        for host in self.cluster.hosts() {
            let shadow = host.run(["grep", "^core:", "/etc/shadow"])?;
            ensure!(shadow.contains("$6$lab$ofthelab"), "{}", host.name());
        }
        Ok(())
    }

    /// `MachineOSConfigChangeRestartsBuild`, `CurrentMachineOSBuildAnnotationHandling`,
    /// `StaleAnnotationClearedOnLayerOnlyChange`: of two builds for one configuration the
    /// annotation names the newer.
    async fn image_alone_is_an_update(&self, first: &Build) -> Result<Build> {
        let (before, target) = (self.boots(), self.cluster.objects().target(POOL).await?);
        self.opt_in(&writes("overtaken")).await?;
        let overtaken = self.until_build("Building").await?;
        self.opt_in(&writes("second")).await?;
        let second = self.until_built().await?;
        ensure!(second.config == target, "{second:?}");
        ensure!(second.image != first.image, "the image is the same");
        ensure!(
            self.build_named(&overtaken.name)?.is_none(),
            "{} is left",
            overtaken.name
        );
        self.until_rolled(Some(&second.image)).await?;
        self.booted_since(&before, 1)?;
        self.files_are(OF_BUILD, "second")?;
        let pool = self.cluster.objects().pool(POOL).await?;
        let named = pool.metadata.annotations.unwrap_or_default();
        let named = named.get(annotation::CURRENT_MACHINE_OS_BUILD);
        ensure!(named == Some(&second.name), "the pool names {named:?}");
        Ok(second)
    }

    /// An image whose kubelet does not start: one node tries it and rolls back, the other is
    /// spared, and nothing builds it again.
    async fn image_that_fails_on_a_node_is_left(&self, second: &Build) -> Result<()> {
        let before = self.boots();
        let failing = "RUN printf '[Service]\\nType=oneshot\\nExecStart=/bin/false\\n' \
            >/usr/lib/systemd/system/kubelet.service";
        self.opt_in(failing).await?;
        let build = self.until_built().await?;
        let jobs = self.jobs_made()?;
        let node = self.until_failed().await?;
        let node_object = self.cluster.objects().node(&node).await?;
        let failed_in = testbed::objects::annotation(&node_object, annotation::FAILED_IN);
        ensure!(failed_in.contains(&build.image), "{failed_in:?}");
        let current = testbed::objects::annotation(&node_object, annotation::CURRENT_IMAGE);
        ensure!(current == second.image, "{node} runs {current:?}");
        self.until_condition("NodeDegraded", "True", &node).await?;
        let twice = |(host, boots): (&lab::host::Host, usize)| {
            let times = if host.name() == node { 2 } else { 0 };
            host.boots().len() == boots + times
        };
        let boots = self.cluster.hosts().iter().zip(before.iter().copied());
        ensure!(
            boots.clone().all(twice),
            "boots {before:?}, then {:?}",
            self.boots()
        );
        ensure!(self.jobs_made()? == jobs, "it was built again");
        Ok(())
    }

    /// An edit leads the pool out of it.
    async fn mended_image_is_rolled(&self) -> Result<Build> {
        let before = self.boots();
        self.opt_in(&writes("mended")).await?;
        let build = self.until_built().await?;
        self.until_rolled(Some(&build.image)).await?;
        self.booted_since(&before, 1)?;
        self.files_are(OF_BUILD, "mended")?;
        Ok(build)
    }

    /// ImagePruner…: of the images only the one that nodes run is in the registry.
    async fn unneeded_images_go(&self, old: &[&Build], last: &Build) -> Result<()> {
        until("unneeded images to go", DONE_WITHIN, async || {
            for build in old {
                if self.is_in_registry(&build.image)? {
                    return Ok(Err(build.image.clone()));
                }
            }
            let left = self.builds()?;
            let is_old = |build: &&Build| old.iter().any(|it| it.name == build.name);
            let is_left = left.iter().find(is_old);
            Ok(is_left.map_or(Ok(()), |build| Err(build.name.clone())))
        })
        .await?;
        ensure!(
            self.is_in_registry(&last.image)?,
            "the registry lacks {}",
            last.image
        );
        Ok(())
    }

    /// Neither objects nor logs that people may read have the secret that pushes; layers are for
    /// suite os-builder.
    fn no_secret_is_shown(&self) -> Result<()> {
        let kinds =
            "machineosbuilds,machineosconfigs,machineconfigpools,jobs,pods,configmaps,events";
        let shown = self.in_namespace(&["get", kinds, "--output=yaml"])?;
        ensure!(
            !shown.contains(SECRET),
            "an object shows the secret that pushes"
        );
        for replica in ["mcc-0", "mcc-1"] {
            let log = self.cluster.log_of(replica)?;
            ensure!(
                !log.contains(SECRET),
                "the log of {replica} shows the secret"
            );
        }
        Ok(())
    }

    /// `OnClusterBuildRollsOutImage`, the way back: without a MachineOSConfig the configuration's
    /// OS.
    async fn release_image_comes_back(&self) -> Result<()> {
        let before = self.boots();
        // Both at once: the image takes the file along that only an image can have.
        self.cluster.objects().pause(POOL, true).await?;
        let target = self.cluster.objects().target(POOL).await?;
        self.cluster.remove_config("60-usr").await?;
        self.cluster.next_target(POOL, &target).await?;
        self.opt_out()?;
        self.cluster.objects().pause(POOL, false).await?;
        self.until_rolled(None).await?;
        self.booted_since(&before, 1)?;
        for host in self.cluster.hosts() {
            let there = host.exec(["ls", OF_BUILD])?;
            ensure!(there.code != Some(0), "{} has {OF_BUILD}", host.name());
        }
        until("the builds to go", SOON, async || {
            let left = self.builds()?;
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            })
        })
        .await?;
        let conditions = self.conditions()?.join("\n");
        ensure!(
            !conditions.contains("ImageBuildDegraded=True"),
            "{conditions}"
        );
        Ok(())
    }
}
