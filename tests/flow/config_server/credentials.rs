//! Who gets which configuration.

use anyhow::{Result, ensure};
use cluster::access::Access;
use serde_json::{Value, json};
use testbed::Authority;

use crate::env::{AUDIENCE, NAMESPACE, Site, bearer, version};
use crate::{config, served, site};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn credentials_decide_who_is_answered() -> Result<()> {
    let site = site("credentials").await?;
    let server = site.serve("mcs", &[]).await?;
    let worker = site.token("machine-worker", Some(AUDIENCE))?;
    served(&server, &worker).await?;
    let status = |path: &str, arguments: &[String]| server.get(path, arguments).status;
    let none = server.get("/config/worker", &[]);
    assert_eq!(
        (none.status, none.header("www-authenticate")),
        (401, "Bearer")
    );
    assert_eq!(none.body, "");
    // A token of the right account for the API server, as a pod has one.
    let pods = site.token("machine-worker", None)?;
    assert_eq!(status("/config/worker", &bearer(&pods)), 401);
    assert_eq!(status("/config/worker", &bearer("made.up.token")), 401);
    // Another pool's machine, and an account that no role names.
    assert_eq!(status("/config/master", &bearer(&worker)), 403);
    let other = site.token("node-bootstrapper", Some(AUDIENCE))?;
    assert_eq!(status("/config/worker", &bearer(&other)), 403);
    // Whether a pool exists is not for everyone to find out.
    assert_eq!(status("/config/edge", &bearer(&worker)), 403);
    // And the machine's token opens nothing at the API server.
    let path = site.kubeconfig("worker.kubeconfig", &json!({ "token": worker }))?;
    let path = format!("--kubeconfig={}", path.display());
    let user = site.control_plane.kubectl(&["auth", "whoami", &path]);
    ensure!(user.is_err(), "{user:?}");

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
    let refused = server.until("the signer", "/config/worker", &provisioner, |reply| {
        reply.status == 403
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
    site.apply(&bind.to_string()).await?;
    let allowed = server.until("the right", "/config/worker", &provisioner, |reply| {
        reply.status == 200
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
    site.apply(&node.to_string()).await
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
        .objects
        .client()
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
    let token = site.token("machine-worker", Some(AUDIENCE))?;
    served(&server, &token).await?;
    let get = |arguments: &[String]| server.get("/config/worker", arguments).status;
    // A machine that tries again; another one with its token.
    assert_eq!(get(&from("127.0.0.1", &token)), 200);
    assert_eq!(get(&from("127.0.0.2", &token)), 403);
    let again = from("127.0.0.1", &token);
    server
        .until("the window", "/config/worker", &again, |reply| {
            reply.status == 403
        })
        .await?;
    let second = site.token("machine-worker", Some(AUDIENCE))?;
    assert_eq!(get(&from("127.0.0.2", &second)), 200);

    let shared = site
        .serve("shared", &["--answer-window-secs=5", "--shared-tokens"])
        .await?;
    let third = site.token("machine-worker", Some(AUDIENCE))?;
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
    let answered = server.until("a reply", "/config/worker", &[], |reply| {
        reply.status == 200
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
            Ok(reply) if reply.status == 200 => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await
}
