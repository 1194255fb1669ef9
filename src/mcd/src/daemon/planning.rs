//! Making the plan of an update: reading both configurations and the policies, judging, storing.

use std::path::Path;
use std::time::Duration;

use api::machineconfiguration::annotation;
use api::operator::machine_configuration::{self, MachineConfiguration};
use chassis::backoff::Backoff;
use chassis::report::Chain;
use cluster::access::Access;
use cluster::path;
use cluster::wire;
use host::files::Root;
use host::journal::JournalStore;
use host::record;
use ignition::Warning;
use machineconfig::spec::{self, NodeConfig};
use node_update::phase::{Event, Outline};
use node_update::plan::{Attempt, Bundle, Plan, Target};
use node_update::planner::{self, Facts, Request, Side};
use node_update::settings::UpdateSettings;
use serde_json::Value;

use super::driver::EventSink;
use super::helper::{Helper, Priority};
use crate::deployments::View;
use crate::protocol::{HelperOutcome, ServiceAction, Verb};

/// First and longest wait between two tries to read an object.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// How often the policies are read until the operator has caught up with them, and how long:
/// `docs/reference/daemon.md`, "Disruption policies".
const POLICY_PACE: Duration = Duration::from_secs(5);
const POLICY_TRIES: u32 = 24;

/// Whether the kernel runs in FIPS mode; absent where it cannot.
const FIPS: &str = "/proc/sys/crypto/fips_enabled";

/// A plan that lies on the host, as far as this process needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub attempt: Attempt,
    pub to: Target,
    /// What the state machine needs of it.
    pub outline: Outline,
    /// Where it lies on the host.
    pub directory: String,
    /// What its target changes without effect, for people.
    pub without_effect: Vec<String>,
    /// What follows the change, by the words of node disruption policies.
    pub post_config_actions: Vec<String>,
    /// Units that a live change reloads or restarts, in order.
    pub services: Vec<ServiceAction>,
}

impl Stored {
    /// Of a plan that is on the host.
    ///
    /// # Errors
    /// For an attempt whose name is none.
    pub fn of(plan: &Plan) -> Result<Self, host::journal::Error> {
        Ok(Self {
            directory: JournalStore::plan_directory(&plan.attempt)?,
            attempt: plan.attempt.clone(),
            to: plan.to.clone(),
            outline: Outline {
                route: plan.route,
                drain: plan.drain,
                image: plan.deploy.as_ref().and_then(|deploy| deploy.image.clone()),
            },
            without_effect: plan.without_effect.clone(),
            post_config_actions: plan.post_config_actions.clone(),
            services: plan.steps.iter().filter_map(ServiceAction::of).collect(),
        })
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlan {
    /// The target is refused; each sentence names object and field.
    Rejected(Vec<String>),
    /// Something broke; another try may succeed.
    Failed(String),
}

impl From<NoPlan> for Event {
    fn from(no_plan: NoPlan) -> Self {
        match no_plan {
            NoPlan::Rejected(reasons) => Self::Rejected(reasons),
            NoPlan::Failed(cause) => Self::Failed(cause),
        }
    }
}

/// Makes plans for one node.
#[derive(Debug)]
pub struct Planner<'a> {
    /// Where the host's root is mounted.
    pub root: &'a Path,
    /// Identity that reads the cluster's settings.
    pub account: &'a Access,
    /// Identity and server that configurations are read by.
    pub configs: &'a Access,
    /// Annotation that names the target.
    pub key: &'a str,
    /// Whether everything is written and the node reboots, whatever changes.
    pub is_forced: bool,
}

/// How strictly a MachineConfig is read.
type ReadConfig = fn(&Value) -> Result<(NodeConfig, Vec<Warning>), spec::Error>;

impl Planner<'_> {
    /// Plans the way from `from` to `to` on a host of which `facts` are read meanwhile, and stores
    /// it there.
    ///
    /// The origin is read on the host, which knows it best; only a host whose record is another
    /// reads it from the cluster, so that a rendered configuration that was deleted stops no update
    /// (`docs/reference/daemon.md`, "Failures").
    ///
    /// # Errors
    /// All of [`NoPlan`].
    pub async fn plan(
        &self,
        attempt: &Attempt,
        (from, to): (&Target, &Target),
        facts: impl Future<Output = Result<Facts, NoPlan>>,
        events: &EventSink,
    ) -> Result<Stored, NoPlan> {
        let origin = async {
            if let Some(config) = self.recorded(from)? {
                return Ok(config);
            }
            let key = annotation::CURRENT_CONFIG;
            self.read_config(key, &from.config, NodeConfig::in_force, events)
                .await
        };
        let target = self.read_config(self.key, &to.config, NodeConfig::parse, events);
        let read = async {
            let (origin, target) = tokio::try_join!(origin, target)?;
            let changes_os =
                origin.image(from.image.as_deref()) != target.image(to.image.as_deref());
            let settings = if changes_os {
                None
            } else {
                Some(self.read_settings(events).await?)
            };
            Ok((origin, target, settings))
        };
        let ((origin, target, settings), facts) = tokio::try_join!(read, facts)?;
        let side = |target, config| Side { target, config };
        let judge = |settings: &UpdateSettings| {
            planner::plan(&Request {
                attempt,
                from: side(from, &origin),
                to: side(to, &target),
                facts: &facts,
                policies: &settings.policies,
                exempt: settings.exempt,
                force: self.is_forced,
            })
        };
        let judged = match settings {
            Some(settings) => judge(&settings),
            // Another OS is booted whatever the settings say. Only what they may let pass, or make
            // of a host that has this OS already, is for them to say.
            None => match judge(&UpdateSettings::default()) {
                Ok(outcome) if deploys_os(&outcome.bundle) => Ok(outcome),
                _ => judge(&self.read_settings(events).await?),
            },
        };
        let outcome = judged.map_err(|refusals| {
            // Clients look for the words of OpenShift's MCO.
            let (old, new) = (&from.config, &to.config);
            NoPlan::Rejected(vec![format!(
                "can't reconcile config {old} with {new}: configs {old}, {new} are not reconcilable: {refusals}"
            )])
        })?;
        let plan = &outcome.bundle.plan;
        tracing::info!(
            attempt = attempt.0,
            route = ?plan.route,
            drain = plan.drain,
            reason = plan.because.join("; "),
            steps = plan.steps.len(),
            "planned"
        );
        store(self.root, &outcome.bundle).map_err(|error| failed(&error))
    }

    /// The origin as the host's record has it; `None` if the record names another configuration.
    fn recorded(&self, from: &Target) -> Result<Option<NodeConfig>, NoPlan> {
        let read = || {
            let record = record::read(&Root::open(self.root, None)?)?;
            let of_origin = record.filter(|record| record.target().config == from.config);
            of_origin.map(|record| record.machine_config()).transpose()
        };
        read().map_err(|error: record::Error| failed(&error))
    }

    /// The MachineConfig that the annotation `key` names.
    async fn read_config(
        &self,
        key: &str,
        name: &str,
        parse: ReadConfig,
        events: &EventSink,
    ) -> Result<NodeConfig, NoPlan> {
        let path = config_path(name).ok_or_else(|| {
            NoPlan::Rejected(vec![format!(
                "annotation {key}: {name:?} is no name of a MachineConfig"
            )])
        })?;
        let value = match read(self.configs, &path, events).await {
            Ok(value) => value,
            Err(error) if error.is_not_found() => {
                return Err(NoPlan::Failed(format!(
                    "annotation {key}: machineconfig.machineconfiguration.openshift.io {name:?} not found"
                )));
            }
            Err(error) => return Err(failed(&error)),
        };
        match parse(&value) {
            Ok((config, warnings)) => {
                for warning in warnings {
                    tracing::warn!(config = name, reason = %warning, "the configuration says what is not understood");
                }
                Ok(config)
            }
            Err(error) => Err(NoPlan::Rejected(vec![format!(
                "MachineConfig {name}: {}",
                Chain(&error)
            )])),
        }
    }

    /// The cluster's settings, once the operator has worked out what they mean; the defaults where
    /// there are none.
    async fn read_settings(&self, events: &EventSink) -> Result<UpdateSettings, NoPlan> {
        let path = path::object::<MachineConfiguration>(machine_configuration::NAME);
        let mut tries = POLICY_TRIES;
        loop {
            let object = match read(self.account, &path, events).await {
                Ok(object) => object,
                // Also where the kind is unknown to the cluster.
                Err(error) if error.is_not_found() => return Ok(UpdateSettings::default()),
                Err(error) => return Err(failed(&error)),
            };
            let Some(why) = is_behind(&object) else {
                return UpdateSettings::read(&object).map_err(|error| {
                    let name = machine_configuration::NAME;
                    NoPlan::Failed(format!("MachineConfiguration {name}: {error}"))
                });
            };
            tries -= 1;
            if tries == 0 {
                return Err(NoPlan::Failed(why));
            }
            events.send(Event::StillTrying(why));
            tokio::time::sleep(POLICY_PACE).await;
        }
    }
}

fn deploys_os(bundle: &Bundle) -> bool {
    let deploy = bundle.plan.deploy.as_ref();
    deploy.is_some_and(|deploy| deploy.image.is_some())
}

/// Stores the plan, and drops those that no journal is open for. While another program acts on the
/// host one of them may be its own: they are dropped with the next plan then.
fn store(root: &Path, bundle: &Bundle) -> Result<Stored, host::journal::Error> {
    let root = Root::open(root, None)?;
    let store = JournalStore::new(&root);
    match store.lock(Duration::ZERO) {
        Ok(_lock) => {
            let under_way = store.journal()?.map(|journal| journal.plan.attempt);
            for attempt in store.plans()? {
                if Some(&attempt) != under_way.as_ref() {
                    store.discard_plan(&attempt)?;
                }
            }
            store.put_plan(bundle)?;
        }
        Err(host::journal::Error::Locked { .. }) => store.put_plan(bundle)?,
        Err(error) => return Err(error),
    }
    Stored::of(&bundle.plan)
}

/// Reads an object, for as long as the server is out of reach.
async fn read(access: &Access, path: &str, events: &EventSink) -> Result<Value, wire::Error> {
    let mut retry = Backoff::new(RETRY.0, RETRY.1);
    loop {
        match access.get(path).await {
            Err(error) if error.is_transient() => {
                let text = Chain(&error).to_string();
                tracing::warn!(error = text, "cannot read what the update needs yet");
                events.send(Event::StillTrying(text));
                let delay = error.retry_after().unwrap_or_else(|| retry.next_delay());
                tokio::time::sleep(delay).await;
            }
            result => return result,
        }
    }
}

/// What the host runs, as its boot loader and its deployments say.
///
/// # Errors
/// [`NoPlan::Failed`].
pub async fn facts(
    helper: &Helper,
    root: &Path,
    attempt: &Attempt,
    single_replica: bool,
) -> Result<Facts, NoPlan> {
    let verb = Verb::Deployments { json: true };
    let run = helper.run(&verb, attempt, Priority::Normal);
    let report = run.await.map_err(|error| failed(&error))?;
    if report.outcome != HelperOutcome::Done {
        let because = report.because();
        return Err(NoPlan::Failed(format!(
            "the host does not tell its booted deployment: {because}"
        )));
    }
    let View { booted, .. } = report.details().map_err(|error| failed(&error))?;
    let read = || Root::open(root, None)?.read(FIPS);
    let fips = read().map_err(|error| failed(&error))?;
    Ok(Facts {
        booted_image: booted.os_image,
        kernel_arguments: Some(booted.kernel_arguments),
        fips: fips.map(|bytes| bytes.starts_with(b"1")),
        single_replica,
        is_node: true,
    })
}

/// Whether the operator has not seen the newest MachineConfiguration yet, in words. Of one that it
/// has never observed only a policy is waited for: without one, the defaults are in force.
fn is_behind(object: &Value) -> Option<String> {
    let generation = object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64);
    let observed = object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64);
    let policy = object.pointer("/spec/nodeDisruptionPolicy");
    if observed.is_none() && policy.is_none_or(Value::is_null) {
        return None;
    }
    let observed = observed.unwrap_or_default();
    (generation != Some(observed)).then(|| {
        format!(
            "NodeDisruptionPolicyStatus was not ready: NodeDisruptionPolicyStatus is not up to date: \
             generation {}, observed {observed}",
            generation.unwrap_or_default()
        )
    })
}

/// Path of a MachineConfig; nothing for a name that is no DNS subdomain and must not become part of
/// one.
pub fn config_path(name: &str) -> Option<String> {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_name =
        !name.is_empty() && name.len() <= 253 && name.bytes().all(plain) && !name.starts_with('.');
    is_name.then(|| path::object::<api::machineconfiguration::MachineConfig>(name))
}

fn failed(error: &(dyn std::error::Error + 'static)) -> NoPlan {
    NoPlan::Failed(Chain(error).to_string())
}

#[cfg(test)]
mod tests;
