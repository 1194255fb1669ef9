//! Options for the cluster that a command asks.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use cluster::access::Access;
use cluster::kubeconfig;

use crate::output::ViewForm;

/// How the cluster is reached, and in which form its answers are printed.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Form
    #[arg(long, short = 'o', value_name = "FORM", global = true)]
    pub output: Option<ViewForm>,
}

impl ClusterArgs {
    /// Whether a cluster is named, or is where tools keep it.
    pub(crate) fn is_there(&self) -> bool {
        self.kubeconfig.is_some() || found().is_some()
    }

    /// Access with the kubeconfig that is named, or that is where tools keep it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn access(&self) -> anyhow::Result<Access> {
        let path = self.path()?;
        let access = Access::kubeconfig(path, Box::new(|path| std::fs::read(path)));
        Ok(access.with_user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION"))))
    }

    /// The user that this kubeconfig names.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn user(&self) -> anyhow::Result<String> {
        let read: kubeconfig::Reader = Box::new(|path| std::fs::read(path));
        Ok(kubeconfig::user_name(&self.path()?, &read)?)
    }

    fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.kubeconfig {
            Some(path) => Ok(path.clone()),
            None => {
                found().context("there is no --kubeconfig, no $KUBECONFIG and no ~/.kube/config")
            }
        }
    }
}

/// The kubeconfig where tools keep it.
fn found() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty());
    let named = named
        .as_ref()
        .and_then(|named| std::env::split_paths(named).next());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    named.or_else(home).filter(|path| path.exists())
}
