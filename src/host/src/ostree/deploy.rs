//! Makes deployments, sets the default one, and removes others.

use std::fs;

use chassis::report::Chain;
use node_update::kargs;
use node_update::plan::Deploy;
use ostree_ext::gio::Cancellable;
use ostree_ext::glib::{KeyFile, VariantDict};
use ostree_ext::ostree::{self, SysrootDeployTreeOpts, SysrootWriteDeploymentsOpts};
use tracing::warn;

use super::bootable::{self, Kernel};
use super::listing::arguments_of;
use super::sysroot::id_of;
use super::{Deployments, Error, ErrorContext as _, Result, label, origin, refs, room};
use crate::execute::{self, NewDeployment, Sysroot};
use crate::journal::DeploymentId;
use crate::{accounts, boot_loader};

/// Metadata key that only commits of native container images have.
const NATIVE: &str = "ostree.manifest-digest";

impl Deployments {
    /// Reasons why a deployment of the image, or of the booted commit, cannot be made on this host
    /// now.
    fn find_rejections(&self, deploy: &Deploy) -> Result<Vec<String>> {
        let mut reasons = Vec::new();
        let current = self.current()?;
        // The booted commit has what was layered, and the next deployment keeps its origin.
        let is_lost = deploy.image.is_some();
        let layered = current.origin().filter(|_| is_lost);
        for key in layered.iter().flat_map(origin::layered_keys) {
            reasons.push(format!(
                "the booted deployment's origin has {key}: what rpm-ostree layered there would be lost"
            ));
        }
        if let Some(staged) = self.sysroot().staged_deployment() {
            reasons.push(format!(
                "deployment {} was staged by another program",
                id_of(&staged)
            ));
        }
        let image = deploy.image.as_deref().unwrap_or("the booted commit");
        let checked = self.commit_of(deploy).and_then(|commit| {
            let kernel = bootable::kernel(&self.repo(), &commit, image)?;
            self.check_boot_room(&kernel, self.can_free_boot()?)
        });
        match checked {
            Ok(()) => {}
            Err(error) if error.is_final() => reasons.push(Chain(&error).to_string()),
            Err(error) => return Err(error),
        }
        Ok(reasons)
    }

    fn make_deployment(&mut self, deploy: &Deploy) -> Result<NewDeployment> {
        self.remove_strays()?;
        let commit = self.commit_of(deploy)?;
        let image = deploy.image.as_deref().unwrap_or("the booted commit");
        let kernel = bootable::kernel(&self.repo(), &commit, image)?;
        self.free_boot_for(&kernel)?;
        let current = self.current()?;
        let origin = self.origin_of(deploy, &commit, &current)?;
        // libostree itself writes the argument that names the deployment.
        let mut present = arguments_of(&current);
        present.retain(|argument| !argument.starts_with("ostree="));
        let edited = kargs::change(&present, &deploy.delete_arguments, &deploy.append_arguments);
        let edited: Vec<&str> = edited.iter().map(String::as_str).collect();
        let options = SysrootDeployTreeOpts {
            override_kernel_argv: Some(&edited),
            ..SysrootDeployTreeOpts::default()
        };
        let made = self
            .sysroot()
            .deploy_tree_with_options(
                Some(&current.osname()),
                &commit,
                Some(&origin),
                Some(&current),
                Some(&options),
                Cancellable::NONE,
            )
            .during(|| format!("deploy {image}"))?;
        label::relabel_merged(&self.path_of(&current), &self.path_of(&made))?;
        let root = self.root_of(&made)?.syncing_at_the_end();
        let missing_accounts = accounts::find_missing(&self.root_of(&current)?, &root)?;
        let id = id_of(&made);
        self.made = Some(made);
        Ok(NewDeployment {
            id,
            root,
            missing_accounts,
        })
    }

    /// Writes the boot entries: deployment `id`, the booted one, a previous one, then pinned ones
    /// and those of other state roots.
    ///
    /// The previous one stays until the target is verified: a target that is reverted or rolled
    /// back would else take it along. Of several the last one stays; those before it failed. A
    /// switch back to the booted one removes the target.
    fn switch_to(&mut self, id: &DeploymentId) -> Result<()> {
        // libostree identifies the booted deployment by its address. Before a write it reads
        // deployments again if they changed, as by the cleanup after a rehearsal; so they are read
        // first here.
        self.reload()?;
        let first = self.find(id)?;
        let booted = self.current()?;
        // References, not copies (which the type's own `clone` makes), for the same reason.
        let mut order = vec![Clone::clone(&first)];
        if !first.equal(&booted) {
            order.push(Clone::clone(&booted));
        }
        let deployments = self.sysroot().deployments();
        let is_target = |deployment: &ostree::Deployment| {
            first.equal(&booted)
                && deployments
                    .first()
                    .is_some_and(|first| first.equal(deployment))
        };
        let mut previous = self.droppable()?;
        previous.retain(|deployment| {
            !deployment.equal(&first) && !is_target(deployment) && !deployment.is_staged()
        });
        let previous = previous.pop();
        let rest = deployments.iter().filter(|deployment| {
            let is_previous = |previous: &ostree::Deployment| previous.equal(deployment);
            !deployment.equal(&first)
                && !deployment.equal(&booted)
                && (deployment.is_pinned()
                    || deployment.osname() != booted.osname()
                    || previous.as_ref().is_some_and(is_previous))
        });
        order.extend(rest.map(Clone::clone));
        self.write(&order, &format!("have {id} booted next"))?;
        self.made = None;
        Ok(())
    }

    /// Makes a deployment that has a boot entry the default. All others stay, in their order, and
    /// boots are not counted.
    ///
    /// # Errors
    /// [`Error::Ostree`], [`Error::NoDeployment`].
    pub fn boot_next(&mut self, id: &DeploymentId) -> Result<()> {
        self.reload()?;
        let first = self.find(id)?;
        let mut order = self.sysroot().deployments();
        order.retain(|deployment| !deployment.equal(&first));
        order.insert(0, first);
        self.set_tries(None);
        self.write(&order, &format!("have {id} booted next"))
    }

    /// Drops the boot entries of deployments that are older than the one before the booted one.
    /// Pinned ones stay, and all of them while another than the booted one boots next.
    ///
    /// # Errors
    /// [`Error::Ostree`].
    pub fn drop_older_than(&mut self, previous: &DeploymentId) -> Result<()> {
        self.reload()?;
        let booted = self.current()?;
        let deployments = self.sysroot().deployments();
        if deployments
            .first()
            .is_none_or(|first| !first.equal(&booted))
        {
            return Ok(());
        }
        let mut older = self.droppable()?;
        older.retain(|deployment| id_of(deployment) != *previous);
        if older.is_empty() {
            return Ok(());
        }
        let kept: Vec<ostree::Deployment> = deployments
            .into_iter()
            .filter(|deployment| !older.iter().any(|other| other.equal(deployment)))
            .collect();
        self.write(&kept, "drop deployments older than the previous one")
    }

    fn write(&self, order: &[ostree::Deployment], what: &str) -> Result<()> {
        // Dropped deployments are removed later: the node is out of service now.
        let options = SysrootWriteDeploymentsOpts {
            do_postclean: false,
        };
        self.sysroot()
            .write_deployments_with_options(order, &options, Cancellable::NONE)
            .during(|| what.to_owned())?;
        self.reload()
    }

    /// Removes directories that no boot entry names. Objects stay.
    fn remove_strays(&mut self) -> Result<()> {
        self.made = None;
        self.sysroot()
            .prepare_cleanup(Cancellable::NONE)
            .during(|| "remove deployments that no boot entry names".to_owned())?;
        self.remove_temporaries()
    }

    /// Removes temporary origin files: libostree, killed before it renames one, leaves it.
    fn remove_temporaries(&self) -> Result<()> {
        let current = self.path_of(&self.current()?);
        let directory = current.parent().unwrap_or(&current);
        let io = |source| Error::Io {
            path: directory.display().to_string(),
            source,
        };
        for entry in fs::read_dir(directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            let is_temporary = entry.file_name().as_encoded_bytes().starts_with(b"tmp.");
            if is_temporary && entry.file_type().map_err(io)?.is_file() {
                fs::remove_file(entry.path()).map_err(io)?;
            }
        }
        Ok(())
    }

    /// Removes directories that no boot entry names, and unreferenced objects.
    ///
    /// # Errors
    /// [`Error::Ostree`].
    pub fn prune(&mut self) -> Result<()> {
        self.made = None;
        self.sysroot()
            .cleanup(Cancellable::NONE)
            .during(|| "remove unreferenced deployments and objects".to_owned())
    }

    fn commit_of(&self, deploy: &Deploy) -> Result<String> {
        match &deploy.image {
            None => Ok(self.current()?.csum().into()),
            Some(image) => refs::commit_of(&self.repo(), image)?.ok_or_else(|| Error::NotFetched {
                image: image.clone(),
            }),
        }
    }

    fn origin_of(
        &self,
        deploy: &Deploy,
        commit: &str,
        current: &ostree::Deployment,
    ) -> Result<KeyFile> {
        let Some(image) = &deploy.image else {
            let origin = KeyFile::new();
            if let Some(booted) = current.origin() {
                // Copied as text: the origin of the booted deployment must not change.
                let text = booted.to_data();
                origin
                    .load_from_data(&text, ostree_ext::glib::KeyFileFlags::NONE)
                    .during(|| "read the origin".to_owned())?;
                ostree::Deployment::origin_remove_transient_state(&origin);
            }
            return Ok(origin);
        };
        let (commit_object, _) = self
            .repo()
            .load_commit(commit)
            .during(|| format!("read commit {commit}"))?;
        let metadata = VariantDict::new(Some(&commit_object.child_value(0)));
        let is_native = metadata.contains(NATIVE);
        Ok(if is_native {
            origin::of_native(image)
        } else {
            origin::of_repository(image, commit)
        })
    }

    /// Sets how often the boot loader tries the default deployment. After a failure the update goes
    /// on without: an administrator has to recover a target that fails early, as with a boot loader
    /// that does not count.
    fn set_tries(&self, tries: Option<u32>) {
        if let Err(error) = boot_loader::set_tries(&self.base(), tries) {
            warn!(
                error = %Chain(&error),
                "cannot set how often the boot loader tries the target"
            );
        }
    }

    /// Has the boot loader count no boots any more.
    ///
    /// # Errors
    /// Those of [`boot_loader::set_tries`].
    pub fn stop_counting(&self) -> std::result::Result<(), boot_loader::Error> {
        boot_loader::set_tries(&self.base(), None)
    }

    /// Removes the refs by which Slipway keeps images, the layers of images that no deployment was
    /// made from, and all that is unreferenced then. Deployments stay as they are. The images that
    /// had such a ref.
    ///
    /// # Errors
    /// Those of the repository.
    pub fn release_images(&mut self) -> Result<Vec<String>> {
        let deployed = self.list()?.into_iter().filter_map(|each| each.image);
        let repo = self.repo();
        let kept = refs::kept(&repo)?;
        refs::drop_others(&repo, &deployed.collect())?;
        refs::drop_refs(&repo)?;
        // Also where nothing was dropped now: a run that was killed may have left the objects.
        self.prune()?;
        Ok(kept.into_iter().collect())
    }

    /// Makes room in `/boot` for a kernel, if needed by dropping previous deployments.
    fn free_boot_for(&mut self, kernel: &Kernel) -> Result<()> {
        if self.check_boot_room(kernel, 0).is_ok() {
            return Ok(());
        }
        // If that would not be enough, nothing is dropped.
        self.check_boot_room(kernel, self.can_free_boot()?)?;
        let droppable = self.droppable()?;
        if !droppable.is_empty() {
            let kept: Vec<ostree::Deployment> = self
                .sysroot()
                .deployments()
                .into_iter()
                .filter(|deployment| !droppable.iter().any(|other| other.equal(deployment)))
                .collect();
            self.write(&kept, "drop the previous deployment for room in /boot")?;
            self.remove_strays()?;
        }
        self.check_boot_room(kernel, 0)
    }

    pub(super) fn check_boot_room(&self, kernel: &Kernel, freeable: u64) -> Result<()> {
        // Kernels are shared within a state root.
        let osname = self.current()?.osname();
        for deployment in self.sysroot().deployments() {
            if deployment.osname() == osname
                && self.kernel_of(&deployment)?.checksums == kernel.checksums
            {
                return Ok(());
            }
        }
        let boot = self.base().join("boot");
        let free = room::free(&boot)?;
        let needed = kernel.bytes(room::block(&boot)?) + crate::room::ENTRIES_BYTES;
        room::require("the kernel", "/boot", needed, free + freeable)
    }

    /// Bytes of `/boot` that dropping deployments would free: kernels that no kept deployment has,
    /// each counted once.
    pub(super) fn can_free_boot(&self) -> Result<u64> {
        let droppable = self.droppable()?;
        let osname = self.current()?.osname();
        let mut counted = Vec::new();
        for deployment in self.sysroot().deployments() {
            let stays = !droppable.iter().any(|other| other.equal(&deployment));
            if stays && deployment.osname() == osname {
                counted.push(self.kernel_of(&deployment)?.checksums);
            }
        }
        let block = room::block(&self.base().join("boot"))?;
        let mut bytes = 0;
        for deployment in droppable {
            let kernel = self.kernel_of(&deployment)?;
            if !counted.contains(&kernel.checksums) {
                bytes += kernel.bytes(block);
                counted.push(kernel.checksums);
            }
        }
        Ok(bytes)
    }

    /// Deployments of the booted state root that are neither booted nor pinned.
    fn droppable(&self) -> Result<Vec<ostree::Deployment>> {
        let booted = self.current()?;
        let droppable = self
            .sysroot()
            .deployments()
            .into_iter()
            .filter(|deployment| {
                !deployment.equal(&booted)
                    && !deployment.is_pinned()
                    && deployment.osname() == booted.osname()
            });
        Ok(droppable.collect())
    }

    fn kernel_of(&self, deployment: &ostree::Deployment) -> Result<Kernel> {
        bootable::kernel(
            &self.repo(),
            &deployment.csum(),
            &id_of(deployment).to_string(),
        )
    }
}

impl From<Error> for execute::Error {
    fn from(error: Error) -> Self {
        Self::Sysroot(Box::new(error))
    }
}

impl Sysroot for Deployments {
    fn booted(&mut self) -> std::result::Result<DeploymentId, execute::Error> {
        Ok(id_of(&self.current()?))
    }

    fn default_deployment(&mut self) -> std::result::Result<DeploymentId, execute::Error> {
        self.reload()?;
        let deployments = self.sysroot().deployments();
        let first = deployments
            .iter()
            .find(|deployment| !deployment.is_staged());
        Ok(id_of(first.ok_or(Error::NotBooted)?))
    }

    fn rejections(&mut self, deploy: &Deploy) -> std::result::Result<Vec<String>, execute::Error> {
        Ok(self.find_rejections(deploy)?)
    }

    fn deploy(&mut self, deploy: &Deploy) -> std::result::Result<NewDeployment, execute::Error> {
        Ok(self.make_deployment(deploy)?)
    }

    fn set_default(
        &mut self,
        id: &DeploymentId,
        tries: Option<u32>,
    ) -> std::result::Result<(), execute::Error> {
        // Before the entries: interrupted in between, the host counts boots of its present default.
        self.set_tries(tries);
        Ok(self.switch_to(id)?)
    }

    fn stop_boot_counting(&mut self) -> std::result::Result<(), execute::Error> {
        self.set_tries(None);
        Ok(())
    }

    fn cleanup(&mut self) -> std::result::Result<(), execute::Error> {
        Ok(self.remove_strays()?)
    }
}
