//! Extensions and another kernel: packages that are built into the pool's image.

use anyhow::{Context as _, Result, ensure};
use lab::image::{EXTENSION, Image, KERNEL_TYPE, extensions, offers};
use serde_json::{Value, json};
use testbed::{DONE_WITHIN, NodeSpec};

use crate::env::{Env, POOL};

/// The MachineConfig that requests packages.
const CONFIG: &str = "60-packages";

/// How a host says that a package is installed.
const QUERY: [&str; 4] = [
    "dpkg-query",
    "--show",
    "--showformat=${Version}",
    "usbguard",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn extensions_and_a_kernel_come_with_the_image() -> Result<()> {
    let nodes = vec![NodeSpec::new("w1").containers()];
    let env = Env::start("packages", nodes).await?;
    let [os, repository] = env.push_packages()?;
    let images = json!({ "osImageURL": os, "baseOSExtensionsContainerImage": repository });
    let request = |members: Value| {
        let mut spec = images.clone();
        for (key, value) in members.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    };
    let wanted = json!({ "extensions": [EXTENSION.0], "kernelType": KERNEL_TYPE.0 });

    env.pool_without_image_mode_is_refused(&request(wanted.clone()))
        .await?;
    env.names_that_no_label_offers_fail(&request(json!({ "extensions": ["vim"] })), &os)
        .await?;
    env.packages_arrive_in_one_reboot(&request(wanted.clone()))
        .await?;
    env.equal_packages_need_no_build(&request(wanted)).await?;
    env.packages_leave_in_one_reboot().await
}

impl Env {
    /// Pushes an OS image that offers packages, and the image with their repository.
    fn push_packages(&self) -> Result<[String; 2]> {
        let lab = self.cluster.host_lab()?;
        let tree = &lab.tree;
        let os = Image::native_with_labels(tree.base(), &offers(tree))?;
        let os = lab.registry.push(&os, "os:offers")?;
        let repository = extensions(tree)?;
        let repository = lab.registry.push_layout(&repository, "extensions:1")?;
        Ok([os, repository])
    }

    /// Nothing is rendered for nodes, and the way is named.
    async fn pool_without_image_mode_is_refused(&self, spec: &Value) -> Result<()> {
        let (before, target) = (self.boots(), self.cluster.objects().target(POOL).await?);
        self.cluster.configure(CONFIG, POOL, spec).await?;
        let words = "a MachineOSConfig builds them into the pool's image";
        let why = self
            .until_condition("RenderDegraded", "True", words)
            .await?;
        for field in [CONFIG, "spec.kernelType", "spec.extensions"] {
            ensure!(why.contains(field), "{field}: {why}");
        }
        ensure!(self.cluster.objects().target(POOL).await? == target);
        self.booted_since(&before, 0)
    }

    /// The build fails by name, and nothing is assigned.
    async fn names_that_no_label_offers_fail(&self, spec: &Value, os: &str) -> Result<()> {
        let before = self.boots();
        self.cluster.configure(CONFIG, POOL, spec).await?;
        self.opt_in("").await?;
        let build = self.until_build("Failed").await?;
        let words = format!(
            "MachineConfig spec.extensions: invalid extensions found: [vim]: {os} offers [{}]",
            EXTENSION.0
        );
        ensure!(build.message.contains(&words), "{}", build.message);
        self.until_condition("ImageBuildDegraded", "True", "vim")
            .await?;
        self.nothing_is_assigned(None).await?;
        self.booted_since(&before, 0)
    }

    async fn packages_arrive_in_one_reboot(&self, spec: &Value) -> Result<()> {
        let before = self.boots();
        self.cluster.change(CONFIG, POOL, spec).await?;
        let build = self.until_built().await?;
        self.until_rolled(Some(&build.image)).await?;
        self.booted_since(&before, 1)?;
        let (_, rules) = EXTENSION;
        self.files_are(rules, "allow")?;
        let (_, suffix) = KERNEL_TYPE;
        for host in self.cluster.hosts() {
            ensure!(host.run(QUERY)? == "1.0");
            let kernels = host.run(["ls", "/usr/lib/modules"])?;
            ensure!(
                kernels.lines().count() == 1 && kernels.ends_with(suffix),
                "{kernels:?}"
            );
            let entries = host.run(["sh", "-c", "cat /boot/loader/entries/*.conf"])?;
            ensure!(entries.contains(&kernels), "{entries}");
        }
        Ok(())
    }

    /// Another argument of the kernel: the same image, deployed again.
    async fn equal_packages_need_no_build(&self, spec: &Value) -> Result<()> {
        let (before, jobs) = (self.boots(), self.jobs_made()?);
        let first = self.chosen().await?.context("no build is chosen")?;
        let mut spec = spec.clone();
        spec["kernelArguments"] = json!(["lab.packages=stay"]);
        self.cluster.change(CONFIG, POOL, &spec).await?;
        let build = self.until_built().await?;
        ensure!(build.image == first.image, "{build:?}");
        self.until_rolled(Some(&build.image)).await?;
        self.booted_since(&before, 1)?;
        ensure!(
            self.jobs_made()? == jobs,
            "a Job built the same image again"
        );
        let (_, rules) = EXTENSION;
        self.files_are(rules, "allow")
    }

    /// Out of image mode, and the packages are no longer requested: the OS of the configuration.
    async fn packages_leave_in_one_reboot(&self) -> Result<()> {
        let before = self.boots();
        self.cluster.objects().pause(POOL, true).await?;
        let target = self.cluster.objects().target(POOL).await?;
        self.cluster.remove_config(CONFIG).await?;
        self.cluster.next_target(POOL, &target).await?;
        self.opt_out()?;
        self.cluster.objects().pause(POOL, false).await?;
        self.until_rolled(None).await?;
        self.booted_since(&before, 1)?;
        for host in self.cluster.hosts() {
            let there = host.exec(QUERY)?;
            ensure!(there.code != Some(0), "{} has usbguard", host.name());
            let kernels = host.run(["ls", "/usr/lib/modules"])?;
            ensure!(!kernels.contains(KERNEL_TYPE.1), "{kernels:?}");
        }
        self.cluster
            .all_done(
                POOL,
                &self.cluster.objects().target(POOL).await?,
                DONE_WITHIN,
            )
            .await
    }
}
