//! `mcd firstboot-complete-machineconfig`: what Ignition leaves of a new machine's configuration to
//! its first boot. The OS image, the kernel arguments, and the record.
//!
//! The config server puts the MachineConfig into two files: whole, and without its Ignition part.
//! The second names the OS image. In image mode that is the built one, which the file of the first
//! annotations names, too; it is part of the record then.
//! The host gets the OS and the arguments of the second in one transaction, in which the second
//! file is renamed, and boots once more. It needs no boot where it has them already. The kubelet
//! waits for this program, so that a host that is not what its pool asks for joins no cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use api::machineconfiguration::{NodeStatus, annotation};
use chassis::report::Chain;
use clap::Args as ClapArgs;
use host::files::{Found, Root};
use host::journal::JournalStore;
use host::record;
use jiff::Timestamp;
use machineconfig::spec::{KernelType, NodeConfig};
use node_update::plan::{
    Action, Attempt, Bundle, Digest, FileState, Mode, Owners, Step, Target, Undo,
};
use node_update::planner::{self, Facts, Request, Side};
use node_update::settings::UpdateSettings;
use node_update::well_known::{ENCAPSULATED, ENCAPSULATED_USED, FIRST_ANNOTATIONS};
use serde_json::Value;
use tracing::{info, warn};

use crate::by_hand::{self, FIRST_BOOT};
use crate::deployments::View;
use crate::local_helper::{Helper, exit_code, reboot};
use crate::pivot;
use crate::protocol::{FetchDetails, HelperOutcome, Verb};

const CONTENT: &str = "/etc/mcs-machine-config-content.json";

/// Whether the kernel runs in FIPS mode; absent where it cannot.
const FIPS: &str = "/proc/sys/crypto/fips_enabled";

/// Pause between two tries; OpenShift's MCO waits as long.
const PAUSE: Duration = Duration::from_mins(1);

/// How long a requested reboot may take to end this program.
const DOWN_WITHIN: Duration = Duration::from_hours(24);

/// Gives a new machine the OS and kernel arguments of its configuration
///
/// Runs before the kubelet's first start, and tries again each minute until the host has them.
/// Exit codes: 0 done, 2 usage, 3 refused (nothing was changed).
#[derive(Debug, ClapArgs)]
pub struct Args {}

#[derive(Debug)]
enum Outcome {
    /// Nothing is left to do.
    Done,
    /// The host goes down, into its new deployment.
    Reboots,
    /// Another try would end the same.
    Refused(String),
}

/// Completes the configuration of a new machine.
///
/// # Errors
/// A helper that is not to be had, or a reboot that does not come.
pub fn run(_: &Args) -> anyhow::Result<ExitCode> {
    let helper = Helper::find()?;
    loop {
        match complete(&helper) {
            Ok(Outcome::Done) => return Ok(ExitCode::SUCCESS),
            Ok(Outcome::Reboots) => {
                // The kubelet starts when this program ends well, and must not start here.
                thread::sleep(DOWN_WITHIN);
                anyhow::bail!("the boot loader names the new OS, but the host does not reboot");
            }
            Ok(Outcome::Refused(reason)) => {
                tracing::error!(reason, "machine does not join");
                return exit_code(HelperOutcome::Rejected.exit_code().into());
            }
            Err(error) => warn!(
                error = %Chain(error.as_ref()),
                "first boot is not complete, tries again in {} s",
                PAUSE.as_secs()
            ),
        }
        thread::sleep(PAUSE);
    }
}

fn complete(helper: &Helper) -> anyhow::Result<Outcome> {
    let root = Root::open(Path::new("/"), None)?;
    let Some(written) = Written::read(&root)? else {
        info!("no configuration waits for a first boot");
        return Ok(Outcome::Done);
    };
    let Parsed {
        target,
        config,
        record,
    } = match written.parse() {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Outcome::Refused(Chain(error.as_ref()).to_string())),
    };
    let view = helper.view()?;
    let store = JournalStore::new(&root);
    if let Some(journal) = &view.journal {
        return resume(helper, &journal.attempt);
    }
    if let Some(held) = store.held()?.filter(|held| held.target == target) {
        return Ok(Outcome::Refused(format!(
            "{target} failed on this host and is not tried again: {}",
            held.cause
        )));
    }
    let fips = root.read(FIPS)?.map(|bytes| bytes.starts_with(b"1"));
    let attempt = by_hand::attempt(FIRST_BOOT, Timestamp::now());
    let bundle = match plan(&view, (&target, &config), fips, &attempt) {
        Ok(bundle) => bundle,
        Err(reasons) => return Ok(Outcome::Refused(reasons)),
    };
    let Some(bundle) = bundle else {
        return finish(&root, &record, &target);
    };
    let deploy = bundle.plan.deploy.clone().unwrap_or_default();
    let bundle = with_files(bundle, record.clone(), written.encapsulated);
    info!(
        config = %target,
        plan = bundle.plan.because.join("; "),
        "first boot changes the host"
    );
    if let Some(image) = deploy.image {
        let verb = Verb::Fetch {
            image: image.clone(),
            // Ignition has written the configuration's files.
            plan: None,
            limit_file: None,
        };
        let report = by_hand::act(helper, &root, &attempt, &verb)?;
        if report.outcome != HelperOutcome::Done {
            return ended(report.outcome.exit_code().into());
        }
        let FetchDetails { checksum, .. } = by_hand::details(report, &verb)?;
        let is_booted = pivot::is_booted(&helper.view()?, &image, Some(&checksum));
        if is_booted && deploy.append_arguments.is_empty() {
            return finish(&root, &record, &target);
        }
    }
    match by_hand::apply(helper, &root, &bundle)? {
        code if HelperOutcome::of_exit_code(code) == Some(HelperOutcome::NeedsReboot) => go_down(),
        code => ended(code),
    }
}

/// Goes on with the attempt of a program that was ended before the host went down.
fn resume(helper: &Helper, attempt: &str) -> anyhow::Result<Outcome> {
    anyhow::ensure!(
        attempt.starts_with(FIRST_BOOT),
        "attempt {attempt} is under way on this host"
    );
    let plan = JournalStore::plan_directory(&Attempt(attempt.to_owned()))?;
    let exit = helper.act(&Verb::Apply { plan, stay: false })?;
    match exit.code.and_then(HelperOutcome::of_exit_code) {
        Some(HelperOutcome::NeedsReboot) => go_down(),
        Some(_) | None => ended(exit.code.context("mcd-os apply was killed")?),
    }
}

fn go_down() -> anyhow::Result<Outcome> {
    reboot("the boot loader names the new OS, but the host does not reboot")?;
    Ok(Outcome::Reboots)
}

/// What an end of the helper means that was to lead to a reboot.
fn ended(code: i32) -> anyhow::Result<Outcome> {
    match HelperOutcome::of_exit_code(code) {
        Some(HelperOutcome::Rejected) => {
            Ok(Outcome::Refused("the host refuses the update".to_owned()))
        }
        Some(_) | None => anyhow::bail!("mcd-os ends with code {code}"),
    }
}

/// Records that the host is in its configuration already, and removes the file that requested it.
fn finish(root: &Root, record: &[u8], target: &Target) -> anyhow::Result<Outcome> {
    // The file last: it is what makes another boot try again.
    record::write(root, record, target.image.as_deref())?;
    root.remove(&root.locate(ENCAPSULATED)?)?;
    info!(config = %target, "no reboot, as the host has what it asks for");
    Ok(Outcome::Done)
}

/// The files of the config server.
#[derive(Debug)]
struct Written {
    encapsulated: Vec<u8>,
    content: Vec<u8>,
    /// The first annotations of the Node, where the file is there.
    annotations: Option<Vec<u8>>,
}

/// What they ask for.
#[derive(Debug)]
struct Parsed {
    target: Target,
    /// What is left for the first boot, with all files and units.
    config: NodeConfig,
    /// The record of the whole.
    record: Vec<u8>,
}

impl Written {
    /// Reads them; `None` where no first boot is left to complete.
    fn read(root: &Root) -> anyhow::Result<Option<Self>> {
        let read = |path: &'static str| -> anyhow::Result<Option<Vec<u8>>> {
            match root.inspect(path)? {
                Found::Nothing => Ok(None),
                Found::File { bytes, .. } => Ok(Some(bytes)),
                Found::Link(_) | Found::Directory { .. } | Found::Other => {
                    anyhow::bail!("{path} is not a regular file")
                }
            }
        };
        let Some(encapsulated) = read(ENCAPSULATED)? else {
            return Ok(None);
        };
        let content = read(CONTENT)?;
        let content = content
            .with_context(|| format!("{ENCAPSULATED} is there, and {CONTENT} is missing"))?;
        Ok(Some(Self {
            encapsulated,
            content,
            annotations: read(FIRST_ANNOTATIONS)?,
        }))
    }

    /// The target, what is left for the first boot, and the record.
    ///
    /// The server may have moved kernel arguments from Ignition's part into what is left: they are
    /// given to the host, and are not part of the record. Nor is the built image, whose place is
    /// beside the configuration.
    fn parse(&self) -> anyhow::Result<Parsed> {
        let parse = |path: &'static str, bytes: &[u8]| -> anyhow::Result<Value> {
            serde_json::from_slice(bytes).with_context(|| format!("cannot understand {path}"))
        };
        let encapsulated = parse(ENCAPSULATED, &self.encapsulated)?;
        let content = parse(CONTENT, &self.content)?;
        let (whole, warnings) =
            NodeConfig::parse(&content).with_context(|| format!("cannot use {CONTENT}"))?;
        for warning in warnings {
            warn!(config = whole.name, %warning, "part of the configuration is unknown");
        }
        let name = encapsulated.pointer("/metadata/name");
        anyhow::ensure!(
            name.and_then(Value::as_str) == Some(whole.name.as_str()),
            "metadata.name of {ENCAPSULATED} is not {}, as in {CONTENT}",
            whole.name
        );
        let mut left = encapsulated;
        let ignition = content.pointer("/spec/config").cloned();
        let spec = left.get_mut("spec").and_then(Value::as_object_mut);
        let spec = spec.with_context(|| format!("spec of {ENCAPSULATED} is missing"))?;
        spec.insert("config".to_owned(), ignition.unwrap_or_default());
        let (left, _) =
            NodeConfig::parse(&left).with_context(|| format!("cannot use {ENCAPSULATED}"))?;
        let image = self.layered_image(&whole.name)?;
        if let Some(image) = &image {
            let named = &left.spec.os_image_url;
            anyhow::ensure!(
                named == image,
                "spec.osImageURL of {ENCAPSULATED} is {named:?}, and {} of {FIRST_ANNOTATIONS} is \
                 {image:?}",
                annotation::CURRENT_IMAGE
            );
        }
        let target = Target {
            config: whole.name.clone(),
            image,
        };
        Ok(Parsed {
            target,
            config: left,
            record: whole.record(),
        })
    }

    /// The built image that the machine is to be in with the configuration `config`; `None` outside
    /// of image mode.
    fn layered_image(&self, config: &str) -> anyhow::Result<Option<String>> {
        let Some(bytes) = &self.annotations else {
            return Ok(None);
        };
        let read: BTreeMap<String, String> = serde_json::from_slice(bytes)
            .with_context(|| format!("{FIRST_ANNOTATIONS} is not a map of strings"))?;
        let status = NodeStatus::read(&read);
        let (Some(image), Some(of)) = (status.current_image, status.current_config) else {
            return Ok(None);
        };
        anyhow::ensure!(
            of == config,
            "{} of {FIRST_ANNOTATIONS} is {of:?} and not {config}, as in {CONTENT}",
            annotation::CURRENT_CONFIG
        );
        Ok(Some(image))
    }
}

/// The plan that leads from what is booted to what the configuration asks for, Ignition's part
/// being in place; `None` where nothing differs.
///
/// # Errors
/// What cannot be done on this host, by fields.
fn plan(
    view: &View,
    (desired, to): (&Target, &NodeConfig),
    fips: Option<bool>,
    attempt: &Attempt,
) -> Result<Option<Bundle>, String> {
    let facts = Facts {
        booted_image: view.booted.os_image.clone(),
        kernel_arguments: Some(view.booted.kernel_arguments.clone()),
        fips,
        single_replica: false,
        is_node: true,
    };
    let mut from = to.clone();
    let wanted = to.spec.split_kernel_arguments();
    // In the order of the command line, so that another order is a change.
    let present = view.booted.kernel_arguments.iter();
    from.spec.kernel_arguments = present
        .filter(|word| wanted.contains(word))
        .cloned()
        .collect();
    from.spec.fips = fips.unwrap_or_default();
    from.spec.kernel_type = KernelType::Default;
    from.spec.extensions = Vec::new();
    if !to.spec.os_image_url.is_empty() {
        from.spec.os_image_url = facts.booted_image.clone().unwrap_or_default();
    }
    // No cluster has configured this host yet.
    let unmanaged = Target::of_config("");
    let settings = UpdateSettings::default();
    let outcome = planner::plan(&Request {
        attempt,
        from: Side {
            target: &unmanaged,
            config: &from,
        },
        to: Side {
            target: desired,
            config: to,
        },
        facts: &facts,
        policies: &settings.policies,
        exempt: settings.exempt,
        force: false,
    })
    .map_err(|rejections| rejections.to_string())?;
    let mut bundle = outcome.bundle;
    if bundle.plan.deploy.is_none() {
        return Ok(None);
    }
    // Nothing is drained on a host that is no node, and Ignition's files are written again.
    bundle.plan.drain = false;
    bundle.plan.origin = Vec::new();
    Ok(Some(bundle))
}

/// With the record of the whole configuration, and the file that requested it renamed in the new
/// deployment. The origin keeps it: if the target fails, its boot names the reason.
fn with_files(mut bundle: Bundle, record: Vec<u8>, encapsulated: Vec<u8>) -> Bundle {
    bundle.plan.record = Digest::of(&record);
    bundle.blobs.insert(bundle.plan.record.clone(), record);
    let digest = Digest::of(&encapsulated);
    bundle.blobs.insert(digest.clone(), encapsulated);
    let actions = [
        Action::WriteFile {
            path: ENCAPSULATED_USED.to_owned(),
            file: FileState {
                digest,
                mode: Mode(0o600),
                owner: Owners::ROOT,
            },
        },
        Action::ReleaseFile {
            path: ENCAPSULATED.to_owned(),
        },
    ];
    let steps = actions.map(|action| Step {
        action,
        undo: Undo::Nothing,
    });
    bundle.plan.steps.extend(steps);
    bundle
}

#[cfg(test)]
mod tests;
