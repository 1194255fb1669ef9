//! A second controller on `operator`, against a real API server: one replica of two leads, watches,
//! reconciles, tries again what fails, is not healthy while it is stuck, and releases its lease.
//!
//! - `toy`: the controller

mod toy;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use anyhow::Result;
use chassis::shutdown::{self, Trigger};
use clap::Parser as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use lab::audit::Verb;
use lab::{free_address, wait};
use serde_json::{Value, json};
use testbed::{ApiServer, objects};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::toy::DIGEST;

/// One replica of the toy.
struct Replica {
    turns: Arc<Semaphore>,
    probes: SocketAddr,
    stop: Trigger,
    running: JoinHandle<Result<()>>,
}

impl Replica {
    fn start(server: &ApiServer, identity: &str) -> Result<Self> {
        let probes = free_address()?;
        let kubeconfig = server.control_plane.admin_kubeconfig();
        let options = toy::Options::try_parse_from([
            "toy",
            &format!("--kubeconfig={}", kubeconfig.display()),
            "--namespace=default",
            &format!("--metrics-url={probes}"),
            &format!("--identity={identity}"),
            "--lease-secs=3",
            "--renew-deadline-secs=2",
            "--lease-retry-secs=1",
        ])?;
        let turns = Arc::new(Semaphore::new(1));
        let (stop, shutdown) = shutdown::pair();
        let running = tokio::spawn(toy::start(options, Arc::clone(&turns), shutdown));
        Ok(Self {
            turns,
            probes,
            stop,
            running,
        })
    }

    /// Status line and body of an answer of its endpoint.
    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.probes)?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: toy\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn is_healthy(&self) -> Result<bool> {
        Ok(self.get("/healthz")?.starts_with("HTTP/1.1 200"))
    }

    /// The keys whose reconcile has not ended in time, as `/healthz` names them.
    fn stuck(&self) -> Result<Vec<String>> {
        let answer = self.get("/healthz")?;
        let keys = answer.split_once("reconcile has not ended within 2 s: ");
        let keys = keys.map_or("", |(_, keys)| keys).trim();
        Ok(keys.split(", ").map(str::to_owned).collect())
    }

    /// A line of its metrics that begins with this, without it.
    fn metric(&self, series: &str) -> Result<f64> {
        let text = self.get("/metrics")?;
        let value = text.lines().find_map(|line| line.strip_prefix(series));
        value.map_or(Ok(0.0), |value| Ok(value.trim().parse()?))
    }

    fn leads(&self) -> Result<bool> {
        Ok(self.metric("toy_leader")? > 0.0)
    }

    async fn end(self) -> Result<()> {
        self.stop.fire();
        self.running.await?
    }
}

/// Looks until it is so.
async fn until(what: &str, mut look: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let found = wait::until_so(what, async || look().await, |found| *found);
    found.await.map(drop)
}

async fn put(maps: &Api<ConfigMap>, name: &str, data: &str) -> Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": data }
    });
    let params = PatchParams::apply("test").force();
    maps.patch(name, &params, &Patch::Apply(map)).await?;
    Ok(())
}

/// Sets the annotation of a ConfigMap as another manager, or removes it.
async fn annotate(maps: &Api<ConfigMap>, name: &str, value: Value) -> Result<()> {
    let change = json!({ "metadata": { "annotations": { DIGEST: value } } });
    objects::merge(maps, name, &change).await
}

/// Waits until a ConfigMap has a digest other than `before`; the digest.
async fn digest(maps: &Api<ConfigMap>, name: &str, before: &str) -> Result<String> {
    let mut digest = String::new();
    until(&format!("a new digest of {name}"), async || {
        let map = maps.get(name).await?;
        digest = map.annotations().get(DIGEST).cloned().unwrap_or_default();
        Ok(!digest.is_empty() && digest != before)
    })
    .await?;
    Ok(digest)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn a_second_controller_is_a_page() -> Result<()> {
    let server = ApiServer::start("operator", "toy").await?;
    let maps: Api<ConfigMap> = server.namespaced("default");
    let leases: Api<Lease> = server.namespaced("default");
    put(&maps, "a", "one").await?;

    // Of two replicas one leads, and reconciles what was there before it.
    let one = Replica::start(&server, "one")?;
    let first = digest(&maps, "a", "").await?;
    let other = Replica::start(&server, "other")?;
    until("both answer", async || Ok(other.get("/readyz").is_ok())).await?;
    assert!(one.leads()? && !other.leads()?);
    assert!(one.get("/readyz")?.starts_with("HTTP/1.1 200"));

    // A change is followed, and what others remove is put back.
    put(&maps, "a", "two").await?;
    let second = digest(&maps, "a", &first).await?;
    annotate(&maps, "a", Value::Null).await?;
    assert_eq!(digest(&maps, "a", "").await?, second);

    // What fails is tried again until it does not fail any more: here, until the annotation is no
    // other's.
    put(&maps, "b", "three").await?;
    let third = digest(&maps, "b", "").await?;
    annotate(&maps, "b", json!("other's")).await?;
    let failed = "toy_reconcile_seconds_count{result=\"failed\"}";
    until("the third failure", async || Ok(one.metric(failed)? >= 3.0)).await?;
    assert!(one.is_healthy()?, "a failure is no reason to restart");
    annotate(&maps, "b", Value::Null).await?;
    assert_eq!(digest(&maps, "b", "").await?, third);

    // A reconcile that does not end is not healthy; the others go on.
    let turn = one.turns.acquire().await?;
    put(&maps, "a", "four").await?;
    // `b` may wait for a turn as well: its reconcile follows from what the last one wrote.
    until("it is stuck", async || {
        Ok(one.stuck()?.contains(&"a".to_owned()))
    })
    .await?;
    assert!(!one.is_healthy()?);
    maps.delete("b", &DeleteParams::default()).await?;
    drop(turn);
    digest(&maps, "a", &second).await?;
    until("it is healthy again", async || one.is_healthy()).await?;

    // The lease is released at the end: the other replica leads before it would have run out.
    let lease = leases.get("toy").await?;
    assert_eq!(holder(&lease), Some("one"));
    one.end().await?;
    put(&maps, "c", "five").await?;
    digest(&maps, "c", "").await?;
    assert!(other.leads()?);
    assert_eq!(holder(&leases.get("toy").await?), Some("other"));
    other.end().await?;

    // Each leader read the ConfigMaps once, and watched them from there.
    let events = server.events()?;
    let lists = events.iter().filter(|event| {
        event.verb == Verb::List && event.user_agent == "toy/1" && event.concerns("", "configmaps")
    });
    assert_eq!(lists.count(), 2);
    Ok(())
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}
