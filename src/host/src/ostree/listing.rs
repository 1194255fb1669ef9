//! Lists the deployments with their properties.

use std::path::PathBuf;

use chassis::report::Chain;
use node_update::kargs;
use node_update::plan::Target;
use ostree_ext::container::store;
use ostree_ext::glib::VariantDict;
use ostree_ext::ostree;

use super::sysroot::id_of;
use super::{Deployments, ErrorContext as _, Result, origin};
use crate::files::Root;
use crate::journal::DeploymentId;
use crate::record::{self, Record};

/// A deployment with its properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedDeployment {
    pub id: DeploymentId,
    pub osname: String,
    /// The OS's version in its commit.
    pub version: Option<String>,
    /// The configuration that its record names, `None` without a record; or why the record cannot
    /// be read.
    pub record: std::result::Result<Option<Target>, String>,
    /// The pull spec that it was made from.
    pub image: Option<String>,
    /// Its origin as written, in one line.
    pub origin: Option<String>,
    /// Kernel arguments of its boot entry.
    pub arguments: Vec<String>,
    pub is_booted: bool,
    /// Whether an administrator pinned it.
    pub is_pinned: bool,
    /// Whether another program staged it.
    pub is_staged: bool,
    pub path: PathBuf,
}

impl Deployments {
    /// All deployments, in the order in which they boot.
    ///
    /// # Errors
    /// Those of reading commits.
    pub fn list(&self) -> Result<Vec<ListedDeployment>> {
        let booted = self
            .sysroot()
            .booted_deployment()
            .map(|booted| id_of(&booted));
        let describe = |deployment: &ostree::Deployment| {
            let origin = deployment.origin();
            let path = self.path_of(deployment);
            Ok(ListedDeployment {
                id: id_of(deployment),
                osname: deployment.osname().into(),
                version: self.version_of(&deployment.csum())?,
                record: record_in(&Root::open(&path, None)?),
                image: origin.as_ref().and_then(origin::image),
                origin: origin.as_ref().and_then(origin::describe),
                arguments: arguments_of(deployment),
                is_booted: booted.as_ref() == Some(&id_of(deployment)),
                is_pinned: deployment.is_pinned(),
                is_staged: deployment.is_staged(),
                path,
            })
        };
        self.sysroot().deployments().iter().map(describe).collect()
    }

    /// The version in a commit's metadata, or else in its image.
    pub(super) fn version_of(&self, commit: &str) -> Result<Option<String>> {
        let repo = self.repo();
        let (commit_object, _) = repo
            .load_commit(commit)
            .during(|| format!("read commit {commit}"))?;
        let metadata = VariantDict::new(Some(&commit_object.child_value(0)));
        // A value that is no string counts as no version; a commit may have no image.
        if let Ok(Some(version)) = metadata.lookup::<String>("version") {
            return Ok(Some(version));
        }
        let image = store::query_image_commit(&repo, commit).ok();
        Ok(image.and_then(|image| image.version().map(str::to_owned)))
    }
}

/// The record of one deployment. A broken one hides no other deployment.
fn record_in(root: &Root) -> std::result::Result<Option<Target>, String> {
    match record::read(root) {
        Ok(record) => Ok(record.map(Record::into_target)),
        Err(error) => Err(Chain(&error).to_string()),
    }
}

/// Kernel arguments of a deployment's boot entry.
pub(super) fn arguments_of(deployment: &ostree::Deployment) -> Vec<String> {
    let options = deployment
        .bootconfig()
        .and_then(|entry| entry.get("options"));
    options
        .map(|options| kargs::split_line(&options))
        .unwrap_or_default()
}
