#![expect(
    clippy::needless_pass_by_value,
    reason = "settings are written where they are passed"
)]

use std::fmt::Write as _;

use ignition::content;
use serde_json::{Value, json};

use super::*;

fn pools() -> Vec<PoolFacts> {
    ["edge", "master", "worker"]
        .map(|name| PoolFacts {
            name: name.to_owned(),
            labels: [].into(),
            is_control_plane: name == "master",
            selects_own_role: true,
        })
        .into()
}

/// What a cluster asks for.
#[derive(Default)]
struct Cluster {
    image: Option<Image>,
    digest: Vec<ImageDigestMirrorSet>,
    tag: Vec<ImageTagMirrorSet>,
    content_source: Vec<ImageContentSourcePolicy>,
    signed: Vec<ClusterImagePolicy>,
    image_policies: Vec<ImagePolicy>,
}

impl Cluster {
    fn sources(mut self, sources: Value) -> Self {
        let image =
            json!({ "metadata": { "name": "cluster" }, "spec": { "registrySources": sources } });
        self.image = Some(serde_json::from_value(image).unwrap());
        self
    }

    fn digest(mut self, name: &str, mirrors: Value) -> Self {
        let set =
            json!({ "metadata": { "name": name }, "spec": { "imageDigestMirrors": mirrors } });
        self.digest.push(serde_json::from_value(set).unwrap());
        self
    }

    fn tag(mut self, name: &str, mirrors: Value) -> Self {
        let set = json!({ "metadata": { "name": name }, "spec": { "imageTagMirrors": mirrors } });
        self.tag.push(serde_json::from_value(set).unwrap());
        self
    }

    fn content_source(mut self, name: &str, mirrors: Value) -> Self {
        let policy =
            json!({ "metadata": { "name": name }, "spec": { "repositoryDigestMirrors": mirrors } });
        self.content_source
            .push(serde_json::from_value(policy).unwrap());
        self
    }

    fn signed(mut self, name: &str, scopes: &[&str], policy: Value) -> Self {
        let object = json!({
            "metadata": { "name": name }, "spec": { "scopes": scopes, "policy": policy }
        });
        self.signed.push(serde_json::from_value(object).unwrap());
        self
    }

    fn signed_in(mut self, namespace: &str, name: &str, scopes: &[&str], policy: Value) -> Self {
        let object = json!({
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "scopes": scopes, "policy": policy }
        });
        self.image_policies
            .push(serde_json::from_value(object).unwrap());
        self
    }

    fn plan(&self) -> Result<Vec<GeneratedConfig>, Error> {
        let settings = self.facts();
        plan(&settings, &pools())
    }

    fn refusal(&self) -> String {
        display::Chain(&self.plan().unwrap_err()).to_string()
    }

    fn facts(&self) -> RegistryFacts<'_> {
        RegistryFacts {
            image: self.image.as_ref(),
            digest: self.digest.iter().collect(),
            tag: self.tag.iter().collect(),
            content_source: self.content_source.iter().collect(),
            cluster_policies: self.signed.iter().collect(),
            image_policies: self.image_policies.iter().collect(),
            payload: vec!["quay.io/release/ocp@sha256:1", "reg.example:5000/os:4.19"],
        }
    }

    /// The files of the workers, for people.
    fn printed(&self) -> String {
        let plan = self.plan().unwrap();
        let names: Vec<&str> = plan.iter().map(|config| config.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "99-master-generated-registries",
                "99-worker-generated-registries"
            ]
        );
        assert_eq!(plan[0].spec, plan[1].spec);
        let (config, _) = ignition::parse(&plan[0].spec["config"]).unwrap();
        let mut text = String::new();
        for file in &config.storage.files {
            let bytes = content::decode(&file.contents).unwrap();
            let content = String::from_utf8(bytes).unwrap();
            write!(text, "-- {}\n{content}", file.path).unwrap();
        }
        text
    }
}

#[test]
fn mirrors_of_all_objects_become_one_file() {
    let cluster = Cluster::default()
        .digest("a", json!([
            { "source": "quay.io/release", "mirrors": ["mirror.example/release", "second.example/release"] },
            { "source": "*.vendor.example", "mirrors": ["mirror.example/vendor"] }
        ]))
        .digest("b", json!([
            { "source": "quay.io/release", "mirrors": ["third.example/release", "mirror.example/release"] },
            { "source": "quay.io/only", "mirrors": ["mirror.example/only"], "mirrorSourcePolicy": "NeverContactSource" }
        ]))
        .tag("c", json!([{ "source": "quay.io/release", "mirrors": ["mirror.example/release"] }]))
        .sources(json!({
            "insecureRegistries": ["mirror.example", "lab.example:5000"],
            "blockedRegistries": ["*.bad.example", "quay.io/only"],
            "containerRuntimeSearchRegistries": ["quay.io", "docker.io"]
        }));
    golden::assert(
        env!("CARGO_MANIFEST_DIR"),
        "tests/golden/registries.txt",
        &cluster.printed(),
    );
}

#[test]
fn only_allowed_registries_are_accepted() {
    let cluster =
        Cluster::default().sources(json!({ "allowedRegistries": ["quay.io", "*.example"] }));
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let scopes = json!({ "quay.io": accept, "*.example": accept });
    let text = cluster.printed();
    let policy: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
    assert!(text.starts_with("-- /etc/containers/policy.json\n"));
    assert_eq!(
        policy,
        json!({
            "default": [{ "type": "reject" }],
            "transports": { "atomic": scopes, "docker": scopes, "docker-daemon": { "": accept } }
        })
    );
}

#[test]
fn nothing_is_generated_where_nothing_is_asked_for() {
    assert_eq!(Cluster::default().plan(), Ok(vec![]));
    assert_eq!(
        Cluster::default()
            .sources(json!({}))
            .digest("a", json!([]))
            .plan(),
        Ok(vec![])
    );
}

#[test]
fn what_cannot_be_followed_is_refused_with_object_and_field() {
    let never = |source: &str, policy: &str| {
        json!([
            { "source": source, "mirrors": ["m.example"], "mirrorSourcePolicy": policy }
        ])
    };
    let table = [
        (
            Cluster::default()
                .sources(json!({ "allowedRegistries": ["a"], "blockedRegistries": ["b"] })),
            "Image cluster: spec.registrySources: invalid images config: only one of AllowedRegistries or BlockedRegistries may be specified",
        ),
        (
            Cluster::default().sources(json!({ "insecureRegistries": ["a", "http://b"] })),
            "Image cluster: spec.registrySources.insecureRegistries[1]: \"http://b\" has a scheme: write the host alone",
        ),
        (
            Cluster::default().sources(json!({ "containerRuntimeSearchRegistries": ["*.a"] })),
            "Image cluster: spec.registrySources.containerRuntimeSearchRegistries[0]: \"*.a\" is a domain, which is not taken here",
        ),
        (
            Cluster::default().digest("a", json!([{ "source": "", "mirrors": [] }])),
            "ImageDigestMirrorSet a: spec.imageDigestMirrors[0].source: \"\" names no registry",
        ),
        (
            Cluster::default().tag("a", json!([{ "source": "b", "mirrors": ["*.c"] }])),
            "ImageTagMirrorSet a: spec.imageTagMirrors[0].mirrors: \"*.c\" is a domain, which is not taken here",
        ),
        (
            Cluster::default().digest("a", never("b", "Perhaps")),
            "ImageDigestMirrorSet a: spec.imageDigestMirrors[0].mirrorSourcePolicy: there is no policy \"Perhaps\"",
        ),
        (
            Cluster::default()
                .digest("a", never("b", ""))
                .tag("c", never("b", "NeverContactSource")),
            "ImageTagMirrorSet c: spec.imageTagMirrors[0].mirrorSourcePolicy: source b has another policy in ImageDigestMirrorSet a",
        ),
    ];
    for (cluster, why) in table {
        assert_eq!(cluster.refusal(), why);
    }
}

#[test]
fn the_release_cannot_be_blocked_unless_its_digests_are_mirrored_elsewhere() {
    let blocked = |entry: &str| Cluster::default().sources(json!({ "blockedRegistries": [entry] }));
    let mirror = |to: &str| json!([{ "source": "quay.io/release", "mirrors": [to] }]);
    for entry in ["quay.io", "quay.io/release/ocp", "*.io"] {
        let why = "Image cluster: spec.registrySources.blockedRegistries has the registry of image quay.io/release/ocp@sha256:1 of the release, which no ImageDigestMirrorSet mirrors elsewhere";
        let refused = |cluster: Cluster| assert_eq!(cluster.refusal(), why);
        refused(blocked(entry));
        refused(blocked(entry).tag("a", mirror("m.example")));
        refused(blocked(entry).digest("a", mirror("quay.io/release/ocp")));
        assert!(
            blocked(entry)
                .digest("a", mirror("m.example"))
                .plan()
                .is_ok()
        );
    }
    let os = blocked("reg.example:5000").refusal();
    assert!(os.contains("image reg.example:5000/os:4.19"), "{os}");
    assert!(blocked("quay.io/other").plan().is_ok());
}

/// A key in PEM, in base64.
fn pem() -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode("-----BEGIN PUBLIC KEY-----\n")
}

fn by_key() -> Value {
    json!({ "rootOfTrust": { "policyType": "PublicKey", "publicKey": { "keyData": pem() } } })
}

/// A file of the workers' configuration, as JSON.
fn json_of(cluster: &Cluster, path: &str) -> Value {
    let plan = cluster.plan().unwrap();
    let mut configs = plan.iter();
    let config = configs.find(|config| config.role == "worker").unwrap();
    let spec = serde_json::from_value(config.spec.clone()).unwrap();
    let text = crate::object::file_of(&spec, path).unwrap().unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn content_source_policies_are_mirrors_by_digest() {
    let mirrors = json!([{ "source": "quay.io/a", "mirrors": ["m.example/a"] }]);
    let old = Cluster::default().content_source("a", mirrors.clone());
    let new = Cluster::default().digest("a", mirrors);
    assert_eq!(old.plan(), new.plan());
    let bad = Cluster::default()
        .content_source("a", json!([{ "source": "https://quay.io", "mirrors": [] }]));
    let why = "ImageContentSourcePolicy a: spec.repositoryDigestMirrors[0].source: \"https://quay.io\" has a scheme: write the host alone";
    assert_eq!(bad.refusal(), why);
}

#[test]
fn signatures_are_demanded_of_scopes_and_read_at_their_mirrors() {
    let cluster = Cluster::default()
        .digest(
            "mirrors",
            json!([{ "source": "quay.io", "mirrors": ["m.example/quay"] }]),
        )
        .signed("a", &["quay.io/a"], by_key())
        .signed_in("apps", "b", &["quay.io/a/below", "reg.example/b"], by_key());
    let demand = json!([{
        "type": "sigstoreSigned", "keyData": pem(),
        "signedIdentity": { "type": "matchRepoDigestOrExact" }
    }]);
    let everywhere = json_of(&cluster, "/etc/containers/policy.json");
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    assert_eq!(everywhere["default"], accept);
    assert_eq!(
        everywhere["transports"]["docker"],
        json!({ "quay.io/a": demand })
    );
    // What the cluster demands, the namespace cannot replace.
    let apps = json_of(&cluster, "/etc/crio/policies/apps.json");
    assert_eq!(
        apps["transports"]["docker"],
        json!({ "quay.io/a": demand, "reg.example/b": demand })
    );
    let plan = cluster.plan().unwrap();
    let spec = serde_json::from_value(plan[0].spec.clone()).unwrap();
    let path = "/etc/containers/registries.d/sigstore-registries.yaml";
    let text = crate::object::file_of(&spec, path).unwrap().unwrap();
    let scopes: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  \"")?.strip_suffix("\":"))
        .collect();
    assert_eq!(scopes, ["m.example/quay/a", "quay.io/a", "reg.example/b"]);
}

/// A registry with a port is no image with a tag.
#[test]
fn signatures_may_be_demanded_of_a_registry_with_a_port() {
    let cluster = Cluster::default()
        .digest(
            "mirrors",
            json!([{ "source": "reg.example:5000", "mirrors": ["m.example:5001"] }]),
        )
        .sources(json!({ "allowedRegistries": ["reg.example:5000/a", "m.example:5001"] }))
        .signed("a", &["reg.example:5000"], by_key());
    let policy = json_of(&cluster, "/etc/containers/policy.json");
    let below = &policy["transports"]["docker"]["reg.example:5000/a"];
    assert_eq!(below[0]["type"], "sigstoreSigned");
    let plan = cluster.plan().unwrap();
    let spec = serde_json::from_value(plan[0].spec.clone()).unwrap();
    let path = "/etc/containers/registries.d/sigstore-registries.yaml";
    let text = crate::object::file_of(&spec, path).unwrap().unwrap();
    for scope in ["reg.example:5000", "m.example:5001"] {
        assert!(text.contains(&format!("\"{scope}\":\n")), "{text}");
    }
}

#[test]
fn a_signature_brings_no_image_in_that_is_kept_out() {
    let demand = json!([{
        "type": "sigstoreSigned", "keyData": pem(),
        "signedIdentity": { "type": "matchRepoDigestOrExact" }
    }]);
    let reject = json!([{ "type": "reject" }]);
    let scopes = ["quay.io/team", "other.example/a"];
    let allowed = Cluster::default()
        .sources(json!({ "allowedRegistries": ["quay.io/team/app", "reg.example:5000", "quay.io/release"] }))
        .signed("a", &scopes, by_key());
    let policy = json_of(&allowed, "/etc/containers/policy.json");
    assert_eq!(policy["default"], reject);
    let docker = &policy["transports"]["docker"];
    // What is allowed below the scope must be signed; the rest of the scope stays out.
    assert_eq!(docker["quay.io/team/app"], demand);
    assert_eq!(docker["quay.io/team"], Value::Null);
    assert_eq!(docker["other.example/a"], Value::Null);
    let blocked = Cluster::default()
        .sources(json!({ "blockedRegistries": ["other.example"] }))
        .signed("a", &scopes, by_key());
    let docker = &json_of(&blocked, "/etc/containers/policy.json")["transports"]["docker"];
    assert_eq!(docker["other.example"], reject);
    assert_eq!(docker["other.example/a"], Value::Null);
    assert_eq!(docker["quay.io/team"], demand);
}

#[test]
fn each_root_of_trust_and_identity_has_its_entry_or_is_refused_with_its_field() {
    let of = |policy: Value| {
        let cluster = Cluster::default().signed("a", &["quay.io/a"], policy);
        cluster
            .plan()
            .map(|_| json_of(&cluster, "/etc/containers/policy.json")["transports"]["docker"]["quay.io/a"][0].clone())
    };
    let fulcio = of(json!({
        "rootOfTrust": { "policyType": "FulcioCAWithRekor", "fulcioCAWithRekor": {
            "fulcioCAData": pem(), "rekorKeyData": pem(),
            "fulcioSubject": { "oidcIssuer": "https://id.example", "signedEmail": "a@b.c" }
        } },
        "signedIdentity": { "matchPolicy": "MatchRepository" }
    }));
    assert_eq!(
        fulcio.unwrap(),
        json!({
            "type": "sigstoreSigned",
            "fulcio": { "caData": pem(), "oidcIssuer": "https://id.example", "subjectEmail": "a@b.c" },
            "rekorPublicKeyData": pem(),
            "signedIdentity": { "type": "matchRepository" }
        })
    );
    let pki = of(json!({
        "rootOfTrust": { "policyType": "PKI", "pki": {
            "caRootsData": pem(), "pkiCertificateSubject": { "hostname": "sign.example" }
        } },
        "signedIdentity": { "matchPolicy": "RemapIdentity", "remapIdentity": {
            "prefix": "m.example/a", "signedPrefix": "quay.io/a"
        } }
    }));
    assert_eq!(
        pki.unwrap(),
        json!({
            "type": "sigstoreSigned",
            "pki": { "caRootsData": pem(), "subjectHostname": "sign.example" },
            "signedIdentity": {
                "type": "remapIdentity", "prefix": "m.example/a", "signedPrefix": "quay.io/a"
            }
        })
    );
    let key = |data: &str| json!({ "policyType": "PublicKey", "publicKey": { "keyData": data } });
    let table = [
        (json!({}), "rootOfTrust.policyType: there is no type \"\""),
        (
            json!({ "rootOfTrust": { "policyType": "PKI" } }),
            "rootOfTrust.pki is missing",
        ),
        (
            json!({ "rootOfTrust": key("AAAA") }),
            "rootOfTrust.publicKey.keyData is not PEM",
        ),
        (
            json!({ "rootOfTrust": key(&pem()), "signedIdentity": { "matchPolicy": "ExactRepository" } }),
            "signedIdentity.exactRepository is missing",
        ),
        (
            json!({ "rootOfTrust": key(&pem()), "signedIdentity": { "matchPolicy": "Any" } }),
            "signedIdentity.matchPolicy: there is no policy \"Any\"",
        ),
    ];
    for (policy, why) in table {
        let expected = format!("ClusterImagePolicy a: spec.policy.{why}");
        let error = of(policy).unwrap_err();
        assert_eq!(display::Chain(&error).to_string(), expected);
    }
}

#[test]
fn a_bad_policy_of_a_namespace_rejects_its_images_there_and_holds_up_nothing_else() {
    let cluster = Cluster::default().signed_in(
        "apps",
        "a",
        &["quay.io/a", "https://b"],
        json!({ "rootOfTrust": { "policyType": "Sealed" } }),
    );
    let apps = json_of(&cluster, "/etc/crio/policies/apps.json");
    assert_eq!(
        apps["transports"]["docker"],
        json!({ "quay.io/a": [{ "type": "reject" }] })
    );
    let refused = refused_policies(&cluster.facts());
    let refused = refused
        .iter()
        .map(|error| display::Chain(error).to_string());
    assert_eq!(
        refused.collect::<Vec<_>>(),
        [
            "ImagePolicy apps/a: spec.policy.rootOfTrust.policyType: there is no type \"Sealed\"",
            "ImagePolicy apps/a: spec.scopes[1]: \"https://b\" has a scheme: write the host alone"
        ]
    );
}
