//! New machines are answered with their configuration: by the real program beside a real API
//! server, to curl and to Ignition itself.
//!
//! - `env`: the cluster, the server, and machines
//! - `ignition`: Ignition asks
//! - `credentials`: who gets which configuration
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests, and their own files"
)]

mod credentials;
mod env;
mod ignition;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::http::HttpReply;

use crate::env::{AUDIENCE, Server, Site, bearer, version};

/// A configuration that says which one it is, by a file.
fn config(name: &str) -> Value {
    json!({
        "osImageURL": "registry.example/os@sha256:0",
        "kernelArguments": ["a=1"],
        "config": {
            "ignition": { "version": "3.4.0" },
            "kernelArguments": { "shouldExist": ["b=2"] },
            "storage": {
                "directories": [{ "path": "/etc/site.d", "mode": 0o750 }],
                "files": [
                    { "path": "/etc/which", "mode": 0o640, "contents": { "source": format!("data:,{name}") } },
                    { "path": "/etc/kubernetes/kubelet-ca.crt", "contents": { "source": "data:,outdated" } },
                ],
            },
            "systemd": { "units": [{
                "name": "site.service", "enabled": true,
                "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
            }] },
        },
    })
}

/// A site whose pool `worker` rolls from one configuration to another, and none is updated yet.
async fn site(name: &str) -> Result<Site> {
    let site = Site::start(name).await?;
    for name in ["rendered-worker-old", "rendered-worker-new"] {
        site.config(name, &config(name)).await?;
    }
    site.pool("worker", "rendered-worker-new", "rendered-worker-old", 0)
        .await?;
    site.pool("master", "", "", 0).await?;
    site.kubelet_ca("authority of kubelets").await?;
    Ok(site)
}

/// Waits until the server has read what the pool serves.
async fn served(server: &Server, token: &str) -> Result<()> {
    let headers = [bearer(token), version("3.4.0")].concat();
    let reply = server.until("the pool", "/config/worker", &headers, |reply| {
        reply.status == 200
    });
    reply.await.map(drop)
}

/// The path of each file of a document.
fn paths(document: &Value) -> Vec<String> {
    let files = document["storage"]["files"].as_array().unwrap().iter();
    files
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn answer_has_the_version_asked_for_and_a_status_that_says_why_not() -> Result<()> {
    let site = site("versions").await?;
    let server = site.serve("mcs", &[]).await?;
    let token = site.token("machine-worker", Some(AUDIENCE))?;
    served(&server, &token).await?;
    let ask = |path: &str, more: &[String]| server.get(path, &[&bearer(&token), more].concat());
    for (number, expected) in [
        ("2.2.0", "2.2.0"),
        ("2.5.0", "2.2.0"),
        ("3.1.0", "3.1.0"),
        ("3.2.0", "3.2.0"),
        ("3.3.0", "3.3.0"),
        ("3.4.0", "3.4.0"),
        ("3.5.0", "3.5.0"),
        ("3.9.0", "3.5.0"),
    ] {
        let reply = ask("/config/worker", &version(number));
        assert_eq!(reply.status, 200, "{number}");
        assert_eq!(reply.header("content-type"), "application/json");
        let document = reply.json()?;
        assert_eq!(document["ignition"]["version"], expected);
        let last = paths(&document).pop().unwrap();
        assert_eq!(last, "/etc/ignition-machine-config-encapsulated.json");
        let has_arguments = document.get("kernelArguments").is_some();
        assert_eq!(
            has_arguments,
            matches!(number, "3.3.0" | "3.4.0" | "3.5.0" | "3.9.0")
        );
    }
    // Curl's own `Accept: */*` asks for no version.
    let silent = ask("/config/worker", &[]);
    assert_eq!(silent.json()?["ignition"]["version"], "2.2.0");
    for number in ["2.1.0", "3.0.0", "1.0.0", "4.0.0"] {
        let reply = ask("/config/worker", &version(number));
        assert_eq!((reply.status, reply.body.as_str()), (406, ""), "{number}");
        assert_eq!(reply.header("content-length"), "0");
    }
    let head = ask("/config/worker", &["--head".to_owned()]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let length = silent.header("content-length");
    assert_eq!(head.header("content-length"), length);
    for path in ["/config/worker", "/elsewhere"] {
        let post = ask(path, &["--request".into(), "POST".into()]);
        assert_eq!((post.status, post.header("allow")), (405, "GET, HEAD"));
    }
    assert_eq!(ask("/elsewhere", &[]).status, 404);
    assert_eq!(ask("/healthz", &[]).status, 200);
    let plain = |path: &str| server.ask(&format!("http://{}{path}", server.plain), &[]);
    assert_eq!(plain("/healthz")?.status, 200);
    // Neither configurations nor tokens go over the wire in the clear.
    assert_eq!(plain("/config/worker")?.status, 403);

    // Pools that are not there, or not rendered, for one who may have every pool's.
    let any = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "machine-config-server-ignition-worker" },
        "rules": [{
            "apiGroups": ["machineconfiguration.openshift.io"], "verbs": ["get"],
            "resources": ["machineconfigpools/ignition"],
        }],
    });
    site.apply(&any.to_string()).await?;
    let headers = bearer(&token);
    server
        .until("the right", "/config/edge", &headers, |reply| {
            reply.status == 404
        })
        .await?;
    let early = ask("/config/master", &version("3.4.0"));
    assert_eq!((early.status, early.header("retry-after")), (503, "5"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn answer_follows_the_pool_and_its_certificates() -> Result<()> {
    let site = site("follows").await?;
    let server = site.serve("mcs", &[]).await?;
    let token = site.token("machine-worker", Some(AUDIENCE))?;
    served(&server, &token).await?;
    let headers = [bearer(&token), version("3.4.0")].concat();
    let has = |url: &'static str| {
        move |reply: &HttpReply| reply.status == 200 && reply.body.contains(url)
    };
    server
        .until(
            "the proved one",
            "/config/worker",
            &headers,
            has("data:,rendered-worker-old"),
        )
        .await?;
    site.pool("worker", "rendered-worker-new", "rendered-worker-old", 1)
        .await?;
    server
        .until(
            "the new one",
            "/config/worker",
            &headers,
            has("data:,rendered-worker-new"),
        )
        .await?;
    // `data:;base64,` of the text.
    site.kubelet_ca("rotated").await?;
    server
        .until(
            "the authority",
            "/config/worker",
            &headers,
            has("cm90YXRlZA=="),
        )
        .await?;
    // What an older specification cannot say is refused; machines that know a newer one go on.
    let mut removed = config("rendered-worker-removed");
    removed["config"]["kernelArguments"] = json!({ "shouldNotExist": ["c"] });
    site.config("rendered-worker-removed", &removed).await?;
    site.pool(
        "worker",
        "rendered-worker-removed",
        "rendered-worker-new",
        1,
    )
    .await?;
    server
        .until(
            "the last one",
            "/config/worker",
            &headers,
            has("rendered-worker-removed"),
        )
        .await?;
    let older = [bearer(&token), version("3.2.0")].concat();
    assert_eq!(server.get("/config/worker", &older).status, 500);
    let log = server.log();
    ensure!(
        log.contains("kernelArguments: cannot be said in specification 3.2.0"),
        "{log}"
    );
    // A configuration that is not there is not served, and the pool says so.
    site.pool("worker", "rendered-worker-lost", "rendered-worker-new", 1)
        .await?;
    server
        .until("no configuration", "/config/worker", &headers, |reply| {
            reply.status == 503
        })
        .await?;
    let metrics = server.metrics();
    ensure!(
        metrics.contains(&"mcs_pool_ready{pool=\"worker\"} 0".to_owned()),
        "{metrics:?}"
    );
    Ok(())
}
