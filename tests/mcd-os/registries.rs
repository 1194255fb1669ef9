//! Pulls by the settings that come with the image.
#![expect(
    clippy::disallowed_methods,
    reason = "keys and signatures are made by skopeo, in files of the test"
)]

use api::config::ClusterImagePolicy;
use generated::registries::RegistryFacts;
use lab::registry::Registry;
use lab::tree::Overlay;
use node_update::plan::Bundle;
use prebuilt::skopeo;
use serde_json::json;
use testbed::config::{Config, File};

use super::configs;
use super::env::{Env, Ran};

const REGISTRIES: &str = "/etc/containers/registries.conf";
const POLICY: &str = "/etc/containers/policy.json";
const PULL_SECRET: &str = "/var/lib/kubelet/config.json";

/// A registry that no host reaches.
const NOWHERE: &str = "nowhere.invalid";

/// A plan to an OS with these files.
fn plan(attempt: &str, os: &str, files: impl IntoIterator<Item = File>) -> Bundle {
    let to = Config::new().os(os).files(files);
    let to = to.rendered(&format!("rendered-{attempt}")).unwrap();
    configs::plan(attempt, &configs::none().unwrap(), &to).unwrap()
}

/// Fetches as the daemon does, by a stored plan.
fn fetch(env: &Env, code: i32, os: &str, plan: &Bundle) -> Ran {
    let directory = env.put(plan).unwrap();
    env.expect(code, &["fetch", os, "--plan", &directory])
        .unwrap()
}

/// That nothing of a target's settings stays on the host, nor in what it reads.
fn holds_none(env: &Env) {
    env.host
        .run(["test", "!", "-e", "/run/slipway/pull"])
        .unwrap();
    for path in [REGISTRIES, PULL_SECRET] {
        let text = env.host.exec(["cat", path]).unwrap().stdout;
        assert!(
            !text.contains(NOWHERE) && !text.contains("auths"),
            "{path}: {text}"
        );
    }
}

/// A mirror of [`NOWHERE`] at this location.
fn mirror(location: &str, more: &str) -> File {
    let text = format!(
        "[[registry]]\nlocation = \"{NOWHERE}\"\n\
         [[registry.mirror]]\nlocation = \"{location}\"\n{more}"
    );
    File::new(REGISTRIES, text)
}

fn at(location: &str, image: &str) -> String {
    let (_, path) = image.split_once('/').unwrap();
    format!("{location}/{path}")
}

fn secret(location: &str, login: &str) -> File {
    use base64::Engine as _;
    let auth = base64::engine::general_purpose::STANDARD.encode(login);
    let text = json!({ "auths": { location: { "auth": auth } } }).to_string();
    File::new(PULL_SECRET, text).mode(0o600)
}

fn location(registry: &Registry) -> String {
    registry.location()
}

#[test]
#[ignore = "needs the lab"]
fn an_os_is_pulled_through_the_mirror_that_comes_with_it() {
    let env = Env::new().unwrap();
    let os = env.push(&Overlay::version("mirrored")).unwrap();
    let os = at(NOWHERE, &os);
    let ran = env.expect(1, &["fetch", &os]).unwrap();
    assert!(
        ran.reasons().contains("its registry cannot be reached"),
        "{ran:?}"
    );
    let mirror = mirror(&location(&env.host_lab.registry), "insecure = true\n");
    let plan = plan("a1", &os, [mirror]);
    let ran = fetch(&env, 0, &os, &plan);
    assert_eq!(ran.report["registry_settings"], "of the target");
    holds_none(&env);
    // What was fetched is what is booted, with the mirror in force.
    let directory = env.put(&plan).unwrap();
    env.expect(0, &["rehearse", &directory]).unwrap();
    env.expect(4, &["apply", &directory]).unwrap();
    let last = env.reboot().unwrap();
    assert_eq!(last["outcome"], "proved", "{last}");
    assert_eq!(env.view().unwrap()["booted"]["os_image"], os.as_str());
    let text = env.host.run(["cat", REGISTRIES]).unwrap();
    assert!(text.contains(NOWHERE), "{text}");
}

#[test]
#[ignore = "needs the lab"]
fn a_token_service_is_asked_with_the_pull_secret_that_comes_with_the_image() {
    let login = "puller:s3cret";
    let mut env = Env::new().unwrap();
    let location = env.host_lab.registry.open_with_tokens(login).unwrap();
    let os = at(&location, &env.push(&Overlay::version("tokens")).unwrap());
    let insecure = || {
        let text = format!("[[registry]]\nlocation = \"{location}\"\ninsecure = true\n");
        File::new("/etc/containers/registries.conf.d/tokens.conf", text)
    };
    for (attempt, files) in [
        ("a1", vec![insecure()]),
        ("a2", vec![insecure(), secret(&location, "puller:wrong")]),
    ] {
        let ran = fetch(&env, 3, &os, &plan(attempt, &os, files));
        let reasons = ran.reasons();
        assert!(
            reasons.contains("its registry does not authorise this host") && reasons.contains(&os),
            "{reasons}"
        );
        assert!(!reasons.contains("wrong="), "{reasons}");
    }
    assert_eq!(env.host_lab.registry.tokens_served(), 0);
    let files = [insecure(), secret(&location, login)];
    fetch(&env, 0, &os, &plan("a3", &os, files));
    assert!(env.host_lab.registry.tokens_served() > 0);
    holds_none(&env);
}

#[test]
#[ignore = "needs the lab"]
fn a_private_ca_that_comes_with_the_image_is_trusted_for_its_registry() {
    let mut env = Env::new().unwrap();
    let (location, certificate) = env.host_lab.registry.open_tls().unwrap();
    let os = env.push(&Overlay::version("private-ca")).unwrap();
    let os = at(&location, &os);
    let ran = env.expect(1, &["fetch", &os]).unwrap();
    let untrusted = "the certificate of its registry is not trusted";
    assert!(ran.reasons().contains(untrusted), "{ran:?}");
    // Of another registry, it says nothing of this one.
    let of = |registry: &str| {
        let path = format!("/etc/docker/certs.d/{registry}/ca.crt");
        File::new(&path, certificate.as_str())
    };
    let ran = fetch(&env, 1, &os, &plan("a1", &os, [of("other:5000")]));
    assert!(ran.reasons().contains(untrusted), "{ran:?}");
    fetch(&env, 0, &os, &plan("a2", &os, [of(&location)]));
    // As an authority of the host it is trusted for all.
    let second = at(
        &location,
        &env.push(&Overlay::version("by-anchor")).unwrap(),
    );
    let anchor = "/etc/pki/ca-trust/source/anchors/lab.crt";
    let anchor = File::new(anchor, certificate.as_str());
    fetch(&env, 0, &second, &plan("a3", &second, [anchor]));
    holds_none(&env);
}

#[test]
#[ignore = "needs the lab"]
fn a_policy_that_comes_with_the_image_may_refuse_it() {
    let env = Env::new().unwrap();
    let os = env.push(&Overlay::version("refused")).unwrap();
    let registry = location(&env.host_lab.registry);
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let policy = json!({
        "default": accept,
        "transports": { "docker": { (registry): [{ "type": "reject" }] } },
    });
    let refusing = plan("a1", &os, [File::new(POLICY, policy.to_string())]);
    let reasons = fetch(&env, 3, &os, &refusing).reasons();
    assert!(
        reasons.contains("the signature policy /etc/containers/policy.json refuses it")
            && reasons.contains(&os),
        "{reasons}"
    );
    // One that asks for a key of the same configuration: the image is not signed by it.
    let key = "/etc/pki/containers/lab.gpg";
    let signed = json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": key });
    let policy = json!({ "default": [signed] }).to_string();
    let files = [File::new(POLICY, policy), File::new(key, "no key")];
    let reasons = fetch(&env, 3, &os, &plan("a2", &os, files)).reasons();
    assert!(reasons.contains("the signature policy"), "{reasons}");
    let accepting = json!({ "default": accept }).to_string();
    fetch(
        &env,
        0,
        &os,
        &plan("a3", &os, [File::new(POLICY, accepting)]),
    );
    holds_none(&env);
}

/// The policy and the registries' settings of a cluster whose ClusterImagePolicy asks for the
/// signature of a key beside each image.
fn signed_by(registry: &str, key: &str) -> [File; 2] {
    use base64::Engine as _;
    let key = base64::engine::general_purpose::STANDARD.encode(key);
    let policy: ClusterImagePolicy = serde_json::from_value(json!({
        "metadata": { "name": "openshift" },
        "spec": {
            "scopes": [registry],
            "policy": { "rootOfTrust": {
                "policyType": "PublicKey", "publicKey": { "keyData": key }
            } }
        }
    }))
    .unwrap();
    let files = generated::registries::node_files(&RegistryFacts {
        cluster_policies: vec![&policy],
        ..RegistryFacts::default()
    });
    let files = files.unwrap();
    let of = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        File::new(path, file.unwrap().text.clone())
    };
    let attachments = "/etc/containers/registries.d/sigstore-registries.yaml";
    [of(POLICY), of(attachments)]
}

/// By the skopeo of today: that of the tree checks no signature in a pull, and is refused.
#[test]
#[ignore = "needs the lab"]
fn an_os_is_pulled_if_a_signature_beside_it_is_by_the_policys_key() {
    let folder = skopeo::folder().unwrap();
    let env = Env::with(|spec, _| spec.bind(&folder, "skopeo")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("password"), "a password\n").unwrap();
    let all = "default-docker: {use-sigstore-attachments: true}\n";
    std::fs::create_dir(path("registries.d")).unwrap();
    std::fs::write(path("registries.d/all.yaml"), all).unwrap();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(folder.join(skopeo::PROGRAM));
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    let password = path("password");
    for key in ["right", "wrong"] {
        let prefix = path(key);
        let generate = ["generate-sigstore-key", "--output-prefix", &prefix];
        run(&[&generate[..], &["--passphrase-file", &password]].concat());
    }
    let sign = |key: &str, os: &str| {
        let (image, _) = os.split_once('@').unwrap();
        let (from, to) = (format!("docker://{os}"), format!("docker://{image}:signed"));
        run(&[
            "--insecure-policy",
            "--registries.d",
            &path("registries.d"),
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            "--sign-by-sigstore-private-key",
            &path(&format!("{key}.private")),
            "--sign-passphrase-file",
            &password,
            &from,
            &to,
        ]);
    };
    let registry = location(&env.host_lab.registry);
    let key = std::fs::read_to_string(path("right.pub")).unwrap();
    let files = || signed_by(&registry, &key);
    let os = env.push(&Overlay::version("signed")).unwrap();
    sign("right", &os);
    let reasons = fetch(&env, 3, &os, &plan("a1", &os, files())).reasons();
    assert!(
        reasons.contains("of this host checks none in a pull"),
        "{reasons}"
    );
    let newer = "mount --bind /run/lab/skopeo/skopeo /usr/bin/skopeo";
    env.host.run(["sh", "-c", newer]).unwrap();
    fetch(&env, 0, &os, &plan("a2", &os, files()));
    for (attempt, key) in [("a3", None), ("a4", Some("wrong"))] {
        let os = env.push(&Overlay::version(attempt)).unwrap();
        if let Some(key) = key {
            sign(key, &os);
        }
        let reasons = fetch(&env, 3, &os, &plan(attempt, &os, files())).reasons();
        assert!(
            reasons.contains("the signature policy") && reasons.contains(&os),
            "{reasons}"
        );
    }
    holds_none(&env);
}

#[test]
#[ignore = "needs the lab"]
fn settings_of_the_host_that_cannot_be_used_are_named_with_their_line() {
    let env = Env::new().unwrap();
    let os = env.push(&Overlay::version("never")).unwrap();
    let requests = || env.host_lab.registry.requests().unwrap().len();
    let before = requests();
    let broken = "printf '{\\n\"auths\": ' >/var/lib/kubelet/config.json";
    env.host.run(["sh", "-c", broken]).unwrap();
    let reasons = env.expect(3, &["fetch", &os]).unwrap().reasons();
    assert!(
        reasons.contains(&format!("{PULL_SECRET}, line 2: it is not JSON")),
        "{reasons}"
    );
    assert_eq!(requests(), before);
}
