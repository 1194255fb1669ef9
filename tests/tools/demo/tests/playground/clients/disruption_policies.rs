//! Node disruption policies: for each action a policy, a configuration that it is about, what the
//! daemon's log says of it, and the way back.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::until_blocking;

use super::NAMESPACE;
use super::pool::{Pool, config};
use crate::held::{Held, SHOWN_WITHIN, TRY_EVERY};

const POOL: &str = "infra-file";
const NODE: &str = "worker-2";

/// What a change is about.
#[derive(Clone, Copy)]
enum About {
    File,
    Unit,
    Key,
}

pub(super) fn all(held: &Held) -> Result<()> {
    let pool = Pool::make(held, POOL, NODE)?;
    let service = json!({ "serviceName": "crio.service" });
    let actions = [
        (About::File, json!({ "type": "None" })),
        (About::File, json!({ "type": "Drain" })),
        (About::Unit, json!({ "type": "DaemonReload" })),
        (
            About::Unit,
            json!({ "type": "Restart", "restart": service }),
        ),
        (About::Unit, json!({ "type": "Reload", "reload": service })),
        (About::Key, json!({ "type": "None" })),
        (About::Key, json!({ "type": "Reboot" })),
    ];
    for (about, action) in actions {
        check(held, &pool, about, &action).with_context(|| action.to_string())?;
    }
    held.done(
        "kubectl patch machineconfigurations.operator.openshift.io cluster --type=merge \
               --patch='{\"spec\":{\"nodeDisruptionPolicy\":null}}'",
    )?;
    pool.end()
}

fn check(held: &Held, pool: &Pool<'_>, about: About, action: &Value) -> Result<()> {
    let word = action["type"].as_str().context("a type")?;
    let before = pool.target()?;
    let (policy, ignition) = match about {
        About::File => {
            let path = format!("/etc/test-{word}");
            let file = json!({ "path": path, "mode": 420, "contents": { "source": "data:,test" } });
            (
                json!({ "files": [{ "path": path, "actions": [action] }] }),
                json!({ "storage": { "files": [file] } }),
            )
        }
        About::Unit => {
            let name = format!("{word}-test.service");
            let text = "[Service]\nType=oneshot\nExecStart=/bin/true\n";
            (
                json!({ "units": [{ "name": name, "actions": [action] }] }),
                json!({ "systemd": { "units": [{ "name": name, "contents": text }] } }),
            )
        }
        About::Key => {
            let user = json!({ "name": "core", "sshAuthorizedKeys": ["test"] });
            (
                json!({ "sshkey": { "actions": [action] } }),
                json!({ "passwd": { "users": [user] } }),
            )
        }
    };
    let settings = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
        "metadata": { "name": "cluster" },
        "spec": { "managementState": "Managed", "nodeDisruptionPolicy": policy },
    });
    let apply = format!(
        "kubectl apply --server-side --field-manager=machine-config-operator{POOL} --filename=-"
    );
    held.done_with(&apply, &settings.to_string())?;
    // Clients take the policy for in force once its status has it.
    held.until_json(
        "kubectl get machineconfigurations.operator.openshift.io cluster",
        "the policy to be in force",
        |settings| settings["status"]["observedGeneration"] == settings["metadata"]["generation"],
    )?;
    let boots = boots(held)?;
    let object = config("01-test", POOL, &ignition);
    let target = pool.rolls(|| held.apply(&object))?;
    match word {
        "Drain" => says(
            held,
            &format!("Drain calculated for node disruption: true for config {target}"),
        )?,
        "Reboot" => ensure!(self::boots(held)? != boots, "it was not rebooted"),
        _ => {
            says(
                held,
                &format!("Performing post config change action: {word} for config {target}"),
            )?;
            ensure!(self::boots(held)? == boots, "it was rebooted");
        }
    }
    let after = pool.rolls(|| held.done("kubectl delete machineconfigs 01-test"))?;
    ensure!(after == before, "{after}, not {before}");
    Ok(())
}

fn boots(held: &Held) -> Result<String> {
    let node = held.json(&format!("kubectl get nodes {NODE}"))?;
    let id = node["status"]["nodeInfo"]["bootID"].as_str();
    id.map(ToOwned::to_owned).context("no bootID")
}

/// The daemon's log has this sentence sooner or later.
fn says(held: &Held, sentence: &str) -> Result<()> {
    let pod = format!(
        "kubectl get pods --namespace={NAMESPACE} --selector=k8s-app=machine-config-daemon \
         --field-selector=spec.nodeName={NODE} --output=name"
    );
    let logs = format!("kubectl logs --namespace={NAMESPACE} $({pod}) -c machine-config-daemon");
    until_blocking(sentence, SHOWN_WITHIN, TRY_EVERY, || {
        let ran = held.run(&logs, "")?;
        let says = ran.printed.contains(sentence);
        Ok(says.then_some(()).ok_or(ran.printed))
    })
}
