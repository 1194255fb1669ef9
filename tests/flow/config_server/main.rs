//! New machines are answered with their configuration: by the real program beside a real API
//! server, to curl and to Ignition itself.
//!
//! - `env`: the cluster, the server, and machines
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests, and their own files"
)]

mod env;

use anyhow::{Result, ensure};
use cluster::access::Access;
use serde_json::{Value, json};
use testbed::Authority;

use crate::env::{AUDIENCE, Machine, NAMESPACE, Server, Site, bearer, version};

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
    let asked = [bearer(token), version("3.4.0")].concat();
    let answer = server.until("the pool", "/config/worker", &asked, |answer| {
        answer.status == 200
    });
    answer.await.map(drop)
}

/// The path of each file of an answer.
fn paths(document: &Value) -> Vec<String> {
    let files = document["storage"]["files"].as_array().unwrap().iter();
    files
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, ignition, curl and the control-plane binary"]
async fn ignition_fetches_over_tls_and_writes_a_new_machine() -> Result<()> {
    let site = site("ignition").await?;
    let server = site.serve("mcs", &[]).await?;
    let token = site.token("machine-worker", Some(AUDIENCE)).await?;
    served(&server, &token).await?;
    let machine = Machine::provision(&site, "machine", &server, &site.authority.pem, &token);
    machine.boot()?;
    let which = ("rendered-worker-old".to_owned(), 0o640);
    assert_eq!(machine.file("/etc/which"), which);
    let authority = machine.file("/etc/kubernetes/kubelet-ca.crt");
    assert_eq!(authority, ("authority of kubelets".to_owned(), 0o644));
    let (unit, _) = machine.file("/etc/systemd/system/site.service");
    ensure!(unit.contains("ExecStart=/bin/true"), "{unit}");
    let (annotations, mode) = machine.file("/etc/machine-config-daemon/node-annotations.json");
    let annotations: Value = serde_json::from_str(&annotations)?;
    let prefix = "machineconfiguration.openshift.io";
    for key in ["currentConfig", "desiredConfig", "firstPivotConfig"] {
        assert_eq!(
            annotations[format!("{prefix}/{key}")],
            "rendered-worker-old"
        );
    }
    assert_eq!(annotations[format!("{prefix}/state")], "Done");
    assert_eq!(mode, 0o644);
    // What the first boot still has to do: Ignition 2.14 asks for 3.3, so it did the arguments.
    let (encapsulated, mode) = machine.file("/etc/ignition-machine-config-encapsulated.json");
    let encapsulated: Value = serde_json::from_str(&encapsulated)?;
    assert_eq!(mode, 0o600);
    assert_eq!(encapsulated["metadata"]["name"], "rendered-worker-old");
    assert_eq!(
        encapsulated["spec"]["osImageURL"],
        "registry.example/os@sha256:0"
    );
    assert_eq!(encapsulated["spec"]["kernelArguments"], json!(["a=1"]));
    let empty = json!({ "ignition": { "version": "3.3.0" } });
    assert_eq!(encapsulated["spec"]["config"], empty);
    let (content, mode) = machine.file("/etc/mcs-machine-config-content.json");
    let content: Value = serde_json::from_str(&content)?;
    assert_eq!(mode, 0o600);
    assert_eq!(
        content["spec"]["config"]["storage"]["files"][0]["path"],
        "/etc/which"
    );

    // The machine's token asks for a kubelet's certificate and does nothing else.
    let (kubeconfig, mode) = machine.file("/etc/kubernetes/kubeconfig");
    assert_eq!(mode, 0o600);
    let kubeconfig: Value = serde_json::from_str(&kubeconfig)?;
    let server = &kubeconfig["clusters"][0]["cluster"]["server"];
    assert_eq!(server, &site.control_plane.server_url());
    let path = machine.root.join("etc/kubernetes/kubeconfig");
    let path = format!("--kubeconfig={}", path.display());
    let may = |verb: &str, what: &str| {
        let asked = ["auth", "can-i", verb, what, &path];
        site.control_plane.kubectl(&asked).is_ok()
    };
    ensure!(may("create", "certificatesigningrequests"));
    for (verb, what) in [
        ("get", "secrets"),
        ("list", "nodes"),
        ("get", "machineconfigs"),
    ] {
        ensure!(!may(verb, what), "the bootstrap token may {verb} {what}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, ignition, curl and the control-plane binary"]
async fn ignition_writes_nothing_when_it_is_refused_or_meets_another_server() -> Result<()> {
    let site = site("refused").await?;
    let server = site.serve("mcs", &[]).await?;
    let token = site.token("machine-worker", Some(AUDIENCE)).await?;
    served(&server, &token).await?;
    let other = Authority::make("another authority")?.pem;
    let own = &site.authority.pem;
    let foreign = site.token("machine-worker", None).await?;
    for (name, trusted, token, said) in [
        (
            "stranger",
            &other,
            &token,
            "certificate signed by unknown authority",
        ),
        ("no-token", own, &foreign, "GET result: Unauthorized"),
    ] {
        let machine = Machine::provision(&site, name, &server, trusted, token);
        let error = machine.boot().unwrap_err().to_string();
        ensure!(error.contains(said), "{name}: {error}");
        ensure!(!machine.root.join("etc/which").exists(), "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn answer_has_the_version_asked_for_and_a_status_that_says_why_not() -> Result<()> {
    let site = site("versions").await?;
    let server = site.serve("mcs", &[]).await?;
    let token = site.token("machine-worker", Some(AUDIENCE)).await?;
    served(&server, &token).await?;
    let ask = |path: &str, more: &[String]| server.get(path, &[&bearer(&token), more].concat());
    for (asked, expected) in [
        ("2.2.0", "2.2.0"),
        ("2.5.0", "2.2.0"),
        ("3.1.0", "3.1.0"),
        ("3.2.0", "3.2.0"),
        ("3.3.0", "3.3.0"),
        ("3.4.0", "3.4.0"),
        ("3.5.0", "3.5.0"),
        ("3.9.0", "3.5.0"),
    ] {
        let answer = ask("/config/worker", &version(asked));
        assert_eq!(answer.status, 200, "{asked}");
        assert_eq!(answer.header("content-type"), "application/json");
        let document = answer.json();
        assert_eq!(document["ignition"]["version"], expected);
        let last = paths(&document).pop().unwrap();
        assert_eq!(last, "/etc/ignition-machine-config-encapsulated.json");
        let has_arguments = document.get("kernelArguments").is_some();
        assert_eq!(
            has_arguments,
            matches!(asked, "3.3.0" | "3.4.0" | "3.5.0" | "3.9.0")
        );
    }
    // Curl's own `Accept: */*` asks for no version.
    let silent = ask("/config/worker", &[]);
    assert_eq!(silent.json()["ignition"]["version"], "2.2.0");
    for asked in ["2.1.0", "3.0.0", "1.0.0", "4.0.0"] {
        let answer = ask("/config/worker", &version(asked));
        assert_eq!((answer.status, answer.body.as_str()), (406, ""), "{asked}");
        assert_eq!(answer.header("content-length"), "0");
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
    site.apply(&any).await?;
    let asked = bearer(&token);
    server
        .until("the right", "/config/edge", &asked, |answer| {
            answer.status == 404
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
    let token = site.token("machine-worker", Some(AUDIENCE)).await?;
    served(&server, &token).await?;
    let asked = [bearer(&token), version("3.4.0")].concat();
    let has = |url: &'static str| {
        move |answer: &env::HttpReply| answer.status == 200 && answer.body.contains(url)
    };
    server
        .until(
            "the proved one",
            "/config/worker",
            &asked,
            has("data:,rendered-worker-old"),
        )
        .await?;
    site.pool("worker", "rendered-worker-new", "rendered-worker-old", 1)
        .await?;
    server
        .until(
            "the new one",
            "/config/worker",
            &asked,
            has("data:,rendered-worker-new"),
        )
        .await?;
    // `data:;base64,` of the text.
    site.kubelet_ca("rotated").await?;
    server
        .until(
            "the authority",
            "/config/worker",
            &asked,
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
            &asked,
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
        .until("no configuration", "/config/worker", &asked, |answer| {
            answer.status == 503
        })
        .await?;
    let metrics = server.metrics();
    ensure!(
        metrics.contains(&"mcs_pool_ready{pool=\"worker\"} 0".to_owned()),
        "{metrics:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn credentials_decide_who_is_answered() -> Result<()> {
    let site = site("credentials").await?;
    let server = site.serve("mcs", &[]).await?;
    let worker = site.token("machine-worker", Some(AUDIENCE)).await?;
    served(&server, &worker).await?;
    let status = |path: &str, arguments: &[String]| server.get(path, arguments).status;
    let none = server.get("/config/worker", &[]);
    assert_eq!(
        (none.status, none.header("www-authenticate")),
        (401, "Bearer")
    );
    assert_eq!(none.body, "");
    // A token of the right account for the API server, as a pod has one.
    let pods = site.token("machine-worker", None).await?;
    assert_eq!(status("/config/worker", &bearer(&pods)), 401);
    assert_eq!(status("/config/worker", &bearer("made.up.token")), 401);
    // Another pool's machine, and an account that no role names.
    assert_eq!(status("/config/master", &bearer(&worker)), 403);
    let other = site.token("node-bootstrapper", Some(AUDIENCE)).await?;
    assert_eq!(status("/config/worker", &bearer(&other)), 403);
    // Whether a pool exists is not for everyone to find out.
    assert_eq!(status("/config/edge", &bearer(&worker)), 403);
    // And the machine's token opens nothing at the API server.
    let path = site.kubeconfig("worker.kubeconfig", &worker);
    let path = format!("--kubeconfig={}", path.display());
    let answer = site.control_plane.kubectl(&["auth", "whoami", &path]);
    ensure!(answer.is_err(), "{answer:?}");

    // Certificates of clients.
    let with = |name: &str, organization: &str, authority: &Authority| {
        let path = site.dir.join(name.replace(':', "-"));
        authority.issue(&path, name, organization).unwrap();
        let file = |end: &str| path.with_extension(end).display().to_string();
        [
            "--cert".to_owned(),
            file("crt"),
            "--key".to_owned(),
            file("key"),
        ]
    };
    let provisioner = with("provisioner", "site", &site.signer);
    let refused = server.until("the signer", "/config/worker", &provisioner, |answer| {
        answer.status == 403
    });
    refused.await?;
    let bind = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "provisioner" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "machine-config-server-ignition-worker",
        },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "provisioner" }],
    });
    site.apply(&bind).await?;
    let allowed = server.until("the right", "/config/worker", &provisioner, |answer| {
        answer.status == 200
    });
    allowed.await?;
    // A node that has joined gets no configuration of new machines.
    let joined = with("system:node:n", "system:nodes", &site.signer);
    assert_eq!(status("/config/worker", &joined), 403);
    let stranger = with("provisioner", "site", &Authority::make("another signer")?);
    let url = format!("https://{}/config/worker", server.secure);
    ensure!(
        server.ask(&url, &stranger).is_err(),
        "a stranger's certificate was taken"
    );

    // The log has the address and the reason of each refusal, and no token.
    let log = server.log();
    ensure!(
        log.contains("there is none") && log.contains("127.0.0.1"),
        "{log}"
    );
    for token in [&worker, &pods, &other] {
        ensure!(!log.contains(token.as_str()), "the log has a token");
    }
    let metrics = server.metrics().join("\n");
    for line in [
        "mcs_refusals_total{reason=\"Unauthenticated\"}",
        "mcs_open{} 0",
        "mcs_pool_ready{pool=\"master\"} 0",
    ] {
        ensure!(metrics.contains(line), "no {line} in {metrics}");
    }
    Ok(())
}

/// A node of a pool, by the label of its role, and what it is to have.
async fn join(site: &Site, name: &str, role: &str, config: &str) -> Result<()> {
    let label = format!("node-role.kubernetes.io/{role}");
    let key = "machineconfiguration.openshift.io/desiredConfig";
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { label: "" }, "annotations": { key: config } },
    });
    site.apply(&node).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn node_gets_its_own_configurations_by_its_kubelets_certificate() -> Result<()> {
    let site = site("nodes").await?;
    for pool in ["worker", "master"] {
        let name = format!("rendered-{pool}-owned");
        site.owned_config(&name, &config(&name), pool).await?;
    }
    join(&site, "w", "worker", "rendered-worker-owned").await?;
    // A stolen node: its kubelet may write the annotation.
    join(&site, "thief", "worker", "rendered-master-owned").await?;
    let server = site.serve("mcs", &["--open"]).await?;
    let kubeconfig = |node: &str| site.certificate_kubeconfig(node, &format!("system:node:{node}"));
    let of = |kubeconfig| {
        let read = Box::new(|path: &std::path::Path| std::fs::read(path));
        let server_url = format!("https://{}", server.secure);
        Access::kubeconfig(kubeconfig, read).at(server_url, server.trusted.clone())
    };
    let path = |config: &str| {
        format!("/apis/machineconfiguration.openshift.io/v1/machineconfigs/{config}")
    };
    // As the daemon asks: the kubelet's kubeconfig, another server.
    let worker = of(kubeconfig("w"));
    let own = lab::wait::until("the node's own", lab::PATIENCE, async || {
        let read = worker.get::<Value>(&path("rendered-worker-owned")).await;
        Ok(read.map_err(|error| format!("{error:?}")))
    })
    .await?;
    let kept: Value = site
        .client
        .request(http_get(&path("rendered-worker-owned"))?)
        .await?;
    assert_eq!(own, kept);
    let thief = of(kubeconfig("thief"));
    let table = [
        (&worker, "rendered-master-owned", 403),
        (&worker, "rendered-worker-new", 403),
        (&worker, "rendered-worker-lost", 404),
        (&thief, "rendered-master-owned", 403),
        (&thief, "rendered-worker-owned", 403),
        // A Node that is not there, and one that is no node. The open mode changes nothing here.
        (&of(kubeconfig("gone")), "rendered-worker-owned", 403),
        (
            &of(site.certificate_kubeconfig("admin", "admin")),
            "rendered-worker-owned",
            403,
        ),
    ];
    for (number, (access, config, expected)) in table.into_iter().enumerate() {
        let refused = access.get::<Value>(&path(config)).await.unwrap_err();
        assert_eq!(refused.code(), Some(expected), "{number}: {refused}");
    }
    let anonymous = server.get(&path("rendered-worker-owned"), &[]);
    assert_eq!(anonymous.status, 401);
    let log = server.log();
    ensure!(
        log.contains("was not rendered for the node's pool"),
        "{log}"
    );
    Ok(())
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn credential_is_answered_for_its_window_and_to_one_machine() -> Result<()> {
    let site = site("windows").await?;
    let server = site.serve("mcs", &["--answer-window-secs=5"]).await?;
    let from = |address: &str, token: &str| {
        let from = ["--interface".to_owned(), address.to_owned()];
        [bearer(token).as_slice(), &version("3.4.0"), &from].concat()
    };
    let token = site.token("machine-worker", Some(AUDIENCE)).await?;
    served(&server, &token).await?;
    let get = |arguments: &[String]| server.get("/config/worker", arguments).status;
    // A machine that tries again; another one with its token.
    assert_eq!(get(&from("127.0.0.1", &token)), 200);
    assert_eq!(get(&from("127.0.0.2", &token)), 403);
    let again = from("127.0.0.1", &token);
    server
        .until("the window", "/config/worker", &again, |answer| {
            answer.status == 403
        })
        .await?;
    let second = site.token("machine-worker", Some(AUDIENCE)).await?;
    assert_eq!(get(&from("127.0.0.2", &second)), 200);

    let shared = site
        .serve("shared", &["--answer-window-secs=5", "--shared-tokens"])
        .await?;
    let third = site.token("machine-worker", Some(AUDIENCE)).await?;
    served(&shared, &third).await?;
    let second = shared.get("/config/worker", &from("127.0.0.2", &third));
    assert_eq!(second.status, 200);

    // An address that floods waits, and others do not.
    let flood: Vec<String> = (0..400)
        .map(|_| format!("https://{}/config/worker", shared.secure))
        .collect();
    let quiet = ["--output".to_owned(), "/dev/null".to_owned()];
    let discarded = flood
        .iter()
        .flat_map(|url| [quiet.as_slice(), std::slice::from_ref(url)].concat());
    let mut arguments: Vec<String> = ["--interface", "127.0.0.3", "--parallel"]
        .map(str::to_owned)
        .to_vec();
    arguments.extend(discarded);
    // All but the last are discarded; one after the flood tells.
    let last = shared.get("/config/worker", &arguments);
    let after = shared.get("/config/worker", &from("127.0.0.3", &third));
    let statuses = [last.status, after.status];
    ensure!(statuses.contains(&503), "{statuses:?}");
    let limited = if after.status == 503 { after } else { last };
    ensure!(limited.header("retry-after").parse::<u64>()? >= 1);
    assert_eq!(
        shared
            .get("/config/worker", &from("127.0.0.4", &third))
            .status,
        200
    );
    let metrics = shared.metrics().join("\n");
    ensure!(
        metrics.contains("mcs_refusals_total{reason=\"RateLimit\"}"),
        "{metrics}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn open_server_answers_everyone_and_warns() -> Result<()> {
    let site = site("open").await?;
    // No window closes: a machine that is installed again has the same address.
    let server = site
        .serve("mcs", &["--open", "--answer-window-secs=1"])
        .await?;
    let answered = server.until("an answer", "/config/worker", &[], |answer| {
        answer.status == 200
    });
    answered.await?;
    ensure!(server.metrics().contains(&"mcs_open{} 1".to_owned()));
    ensure!(server.log().contains("without a credential"));
    // A pool that is not there is a 404 to everyone then.
    assert_eq!(server.get("/config/edge", &[]).status, 404);

    // A new certificate is served without a restart, and a broken one is not.
    std::fs::write(server.certificate.with_extension("crt"), "broken")?;
    lab::wait::until("the broken one to be read", lab::PATIENCE, async || {
        assert_eq!(server.get("/config/worker", &[]).status, 200);
        let log = server.log();
        let is_read = log.contains("the certificate before stays");
        Ok(is_read.then_some(()).ok_or(log))
    })
    .await?;
    let next = Authority::make("the next authority")?;
    next.issue(&server.certificate, "machine-config-server", NAMESPACE)?;
    let trusted = site.dir.join("next.crt");
    std::fs::write(&trusted, &next.pem)?;
    let url = format!("https://{}/config/worker", server.secure);
    let trust = ["--cacert".to_owned(), trusted.display().to_string()];
    lab::wait::until("the new certificate", lab::PATIENCE, async || {
        Ok(match server.ask(&url, &trust) {
            Ok(answer) if answer.status == 200 => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await
}
