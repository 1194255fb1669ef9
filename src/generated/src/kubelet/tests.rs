use std::collections::BTreeMap;
use std::fmt::Write as _;

use ignition::content;
use serde_json::{Value, json};

use super::*;
use crate::latency::LatencyProfile;

fn pool(name: &str) -> PoolFacts {
    PoolFacts {
        name: name.to_owned(),
        labels: [("pool".to_owned(), name.to_owned())].into(),
        is_control_plane: name == "master",
        selects_own_role: true,
    }
}

fn pools() -> Vec<PoolFacts> {
    ["edge", "master", "worker"].map(pool).into()
}

/// A `kubelet.conf` as a release's template writes it, as far as it matters here.
const BASE: &str = "\
kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
clusterDNS: [172.30.0.10]
systemCgroups: /system.slice
systemReserved: { ephemeral-storage: 1Gi }
maxPods: 250
evictionHard: { memory.available: 100Mi, nodefs.available: 10% }
enforceNodeAllocatable: [pods, system-reserved]
staticPodPath: /etc/kubernetes/manifests
";

fn base() -> KubeletBase {
    let conf = compose::base_of(BASE).unwrap();
    KubeletBase {
        roles: ["master", "worker"]
            .map(|role| (role.to_owned(), Ok(conf.clone())))
            .into(),
        ..KubeletBase::default()
    }
}

/// A KubeletConfig of pools: as old as its name.
fn config(name: &str, pools: &[&str], spec: &Value) -> KubeletConfig {
    let mut object = json!({
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": spec
    });
    object["spec"]["machineConfigPoolSelector"] = json!({ "matchExpressions": [
        { "key": "pool", "operator": "In", "values": pools }
    ] });
    serde_json::from_value(object).unwrap()
}

fn fields(fields: &Value) -> Value {
    json!({ "kubeletConfig": fields })
}

fn planned(configs: &[KubeletConfig]) -> KubeletPlan {
    let configs: Vec<&KubeletConfig> = configs.iter().collect();
    plan(&configs, &pools(), &base())
}

/// Why a KubeletConfig is refused.
fn refusal(config: KubeletConfig) -> String {
    let plan = planned(&[config]);
    assert_eq!(plan.configs, []);
    plan.outcomes[0].result.as_ref().unwrap_err().to_string()
}

/// Path and text of each file of a MachineConfig.
fn files(config: &GeneratedConfig) -> BTreeMap<String, String> {
    let (read, warnings) = ignition::parse(&config.spec["config"]).unwrap();
    assert_eq!(warnings, []);
    let files = read.storage.files.iter();
    files
        .map(|file| {
            assert_eq!((file.mode, file.overwrite), (Some(0o644), Some(true)));
            let text = content::decode(&file.contents).unwrap();
            (file.path.clone(), String::from_utf8(text).unwrap())
        })
        .collect()
}

fn conf(config: &GeneratedConfig) -> Value {
    compose::base_of(&files(config)[compose::KUBELET_CONF]).unwrap()
}

fn named<'a>(plan: &'a KubeletPlan, name: &str) -> &'a GeneratedConfig {
    let mut configs = plan.configs.iter();
    configs.find(|config| config.name == name).unwrap()
}

/// All that a plan says, for people.
fn printed(plan: &KubeletPlan) -> String {
    let mut text = String::new();
    for outcome in &plan.outcomes {
        writeln!(text, "{outcome:?}").unwrap();
    }
    for config in &plan.configs {
        let object = config.to_object("build");
        writeln!(text, "\n== {}", object["metadata"]).unwrap();
        for (path, content) in files(config) {
            write!(text, "-- {path}\n{content}").unwrap();
        }
    }
    text
}

#[test]
fn options_of_each_pool_are_laid_over_its_base() {
    let size = json!({
        "autoSizingReserved": false,
        "logLevel": 4,
        "tlsSecurityProfile": { "type": "Modern" },
        "kubeletConfig": { "maxPods": 300, "evictionHard": { "memory.available": "5%" } }
    });
    let cpus = fields(&json!({
        "reservedSystemCPUs": "0-1",
        "systemReserved": { "memory": "2Gi", "cpu": "1", "pid": "1000" }
    }));
    let plan = planned(&[
        config("a-size", &["master", "worker"], &size),
        config("b-cpus", &["edge"], &cpus),
    ]);
    golden::assert(
        env!("CARGO_MANIFEST_DIR"),
        "tests/golden/kubelet.txt",
        &printed(&plan),
    );
}

#[test]
fn two_of_one_pool_are_merged_by_field_and_the_last_name_has_all() {
    let pods = config("a-pods", &["worker"], &fields(&json!({ "maxPods": 300 })));
    let eviction = json!({ "evictionHard": { "memory.available": "5%" } });
    let eviction = config("b-eviction", &["worker", "master"], &fields(&eviction));
    let plan = planned(&[eviction, pods]);
    let first = conf(named(&plan, "99-worker-generated-kubelet"));
    assert_eq!(first["maxPods"], 300);
    assert_eq!(first["evictionHard"]["memory.available"], "100Mi");
    let last = conf(named(&plan, "99-worker-generated-kubelet-1"));
    assert_eq!(last["maxPods"], 300);
    assert_eq!(
        last["evictionHard"],
        json!({ "memory.available": "5%", "nodefs.available": "10%" })
    );
    let masters = conf(named(&plan, "99-master-generated-kubelet-1"));
    assert_eq!(masters["maxPods"], 250);
}

#[test]
fn of_two_that_set_one_field_differently_the_last_is_in_force_and_both_say_so() {
    let one = |name: &str, spec: &Value| config(name, &["worker"], spec);
    let table = [
        (
            fields(&json!({ "maxPods": 1 })),
            fields(&json!({ "maxPods": 2 })),
            "spec.kubeletConfig.maxPods",
        ),
        (
            fields(&json!({ "evictionHard": { "a": "1", "b": "2" }, "maxPods": 1 })),
            fields(&json!({ "evictionHard": { "c": "1", "b": "3" }, "maxPods": 2 })),
            "spec.kubeletConfig.maxPods, spec.kubeletConfig.evictionHard.b",
        ),
        (
            json!({ "logLevel": 1 }),
            json!({ "logLevel": 2 }),
            "spec.logLevel",
        ),
        (
            json!({ "autoSizingReserved": true }),
            fields(&json!({ "systemReserved": { "cpu": "1" } })),
            "spec.autoSizingReserved",
        ),
        (
            json!({ "tlsSecurityProfile": { "type": "Old" } }),
            json!({ "tlsSecurityProfile": { "type": "Modern" } }),
            "spec.tlsSecurityProfile",
        ),
    ];
    for (first, second, named) in table {
        let plan = planned(&[one("a", &first), one("b", &second)]);
        let remark = format!(
            "KubeletConfigs a and b of MachineConfigPool worker set {named} differently: b, the last, is in force"
        );
        for outcome in &plan.outcomes {
            assert!(outcome.result.is_ok(), "{outcome:?}");
            assert_eq!(outcome.remarks, [remark.as_str()], "{}", outcome.name);
        }
        // As if the first did not set it.
        let alone = planned(&[one("a", &json!({})), one("b", &second)]);
        let last = |plan: &KubeletPlan| files(&plan.configs[1]);
        if !named.contains("evictionHard") {
            assert_eq!(last(&plan), last(&alone));
        }
        // The same value twice is no difference.
        let plan = planned(&[one("a", &first), one("b", &first)]);
        assert_eq!(plan.outcomes[1].remarks, <[String; 0]>::default());
    }
    // A pool that only one of them selects has nothing to say.
    let (first, second) = (&json!({ "logLevel": 1 }), &json!({ "logLevel": 2 }));
    let plan = planned(&[
        config("a", &["worker"], first),
        config("b", &["edge"], second),
    ]);
    assert!(
        plan.outcomes
            .iter()
            .all(|outcome| outcome.remarks.is_empty())
    );
}

#[test]
fn of_sizing_and_reserving_the_last_is_in_force() {
    let one = |name: &str, spec: &Value| config(name, &["worker"], spec);
    let sized = json!({ "autoSizingReserved": true });
    let reserved = fields(&json!({ "systemReserved": { "cpu": "1" } }));
    let last = |first: &Value, second: &Value| {
        let plan = planned(&[one("a", first), one("b", second)]);
        files(&plan.configs[1])[compose::NODE_SIZING].clone()
    };
    assert!(last(&sized, &reserved).starts_with("NODE_SIZING_ENABLED=false\n"));
    let sizing = last(&reserved, &sized);
    assert!(sizing.starts_with("NODE_SIZING_ENABLED=true\n"), "{sizing}");
    assert!(sizing.contains("SYSTEM_RESERVED_CPU=500m\n"), "{sizing}");
}

#[test]
fn zeros_that_programs_write_are_not_set() {
    let base = KubeletBase {
        node: Some(NodeAsks {
            profile: Some(LatencyProfile::MediumUpdateAverageReaction),
        }),
        ..base()
    };
    let zeros = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "syncFrequency": "0s", "fileCheckFrequency": "0s", "httpCheckFrequency": "0s",
        "authentication": { "x509": {}, "webhook": { "cacheTTL": "0s" }, "anonymous": {} },
        "authorization": { "webhook": { "cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s" } },
        "nodeStatusUpdateFrequency": "0s", "nodeStatusReportFrequency": "0s",
        "memorySwap": {}, "evictionHard": {}, "enforceNodeAllocatable": [],
        "logging": { "flushFrequency": 0, "verbosity": 0,
            "options": { "text": { "infoBufferSize": "0" }, "json": { "infoBufferSize": "0" } } },
        "shutdownGracePeriod": "0s", "containerRuntimeEndpoint": "",
        "systemReserved": { "memory": "", "ephemeral-storage": "" },
        "maxPods": 300, "serializeImagePulls": false, "eventRecordQPS": 0
    });
    let of = |set: &Value| {
        let config = config("a", &["worker"], &fields(set));
        plan(&[&config], &pools(), &base).configs.remove(0)
    };
    let wished = json!({ "maxPods": 300, "serializeImagePulls": false, "eventRecordQPS": 0 });
    let made = of(&zeros);
    assert_eq!(files(&made), files(&of(&wished)));
    let conf = conf(&made);
    assert_eq!(conf["nodeStatusUpdateFrequency"], "20s");
    assert_eq!(conf["eventRecordQPS"], 0);
    assert_eq!(conf["serializeImagePulls"], false);
    let sizing = &files(&made)[compose::NODE_SIZING];
    assert!(sizing.contains("SYSTEM_RESERVED_MEMORY=1Gi\n"), "{sizing}");
}

#[test]
fn fields_of_the_cluster_are_refused_by_name_and_value() {
    let table = [
        (
            json!({ "cgroupDriver": "cgroupfs" }),
            "cgroupDriver",
            "cgroupfs",
        ),
        (
            json!({ "clusterDNS": ["10.0.0.1"] }),
            "clusterDNS",
            "[\"10.0.0.1\"]",
        ),
        (json!({ "clusterDomain": "a.b" }), "clusterDomain", "a.b"),
        (
            json!({ "featureGates": { "A": true } }),
            "featureGates",
            "{\"A\":true}",
        ),
        (json!({ "failSwapOn": false }), "failSwapOn", "false"),
        (
            json!({ "memorySwap": { "swapBehavior": "LimitedSwap" } }),
            "swapBehavior",
            "LimitedSwap",
        ),
        (
            json!({ "staticPodPath": "/etc/pods" }),
            "staticPodPath",
            "/etc/pods",
        ),
    ];
    for (set, field, shown) in table {
        let why = refusal(config("a", &["worker"], &fields(&set)));
        let expected = format!(
            "KubeletConfiguration: {field} is not allowed to be set, but contains: {shown}"
        );
        assert_eq!(why, expected);
    }
    let unset =
        json!({ "clusterDomain": "", "clusterDNS": [], "featureGates": null, "maxPods": null });
    let plan = planned(&[config("a", &["worker"], &fields(&unset))]);
    assert_eq!(conf(&plan.configs[0])["maxPods"], 250);
}

#[test]
fn static_pods_are_kept_on_control_planes_and_can_be_turned_off_elsewhere() {
    let none = fields(&json!({ "staticPodPath": "" }));
    let plan = planned(&[config("a", &["worker"], &none)]);
    assert_eq!(conf(&plan.configs[0])["staticPodPath"], "");
    let why = refusal(config("a", &["master", "worker"], &none));
    assert_eq!(
        why,
        "KubeletConfiguration: staticPodPath is not allowed to be set, but contains: "
    );
}

#[test]
fn what_cannot_be_followed_is_refused_with_its_field() {
    let table = [
        (
            json!({ "autoSizingReserved": true, "kubeletConfig": { "systemReserved": { "cpu": "1" } } }),
            "autoSizingReserved and systemdReserved cannot be set together",
        ),
        (
            fields(&json!({ "systemReservedCgroup": "/mine" })),
            "spec.kubeletConfig.systemReservedCgroup /mine is not systemCgroups /system.slice",
        ),
        (
            fields(&json!({ "maxpods": 1 })),
            "spec.kubeletConfig.maxpods is no field of the kubelet's, which has maxPods",
        ),
        (
            fields(&json!({ "authentication": { "x509": { "caFile": "/a" } } })),
            "spec.kubeletConfig.authentication.x509.caFile is no field of the kubelet's",
        ),
        (
            fields(&json!({ "systemReserved": { "memory": "lots" } })),
            "spec.kubeletConfig.systemReserved.memory lots is no quantity",
        ),
        (
            fields(&json!({ "maxPods": "300" })),
            "spec.kubeletConfig.maxPods 300 is no whole number",
        ),
        (
            fields(&json!({ "maxPods": 4_294_967_296_i64 })),
            "spec.kubeletConfig.maxPods 4294967296 is not in -2147483648 to 2147483647",
        ),
        (
            fields(&json!({ "enforceNodeAllocatable": ["pods", ""] })),
            "spec.kubeletConfig.enforceNodeAllocatable[1] is empty",
        ),
        (
            fields(&json!({ "evictionHard": { "memory.available": "5 %" } })),
            "spec.kubeletConfig.evictionHard.memory.available 5 % is no quantity or percentage",
        ),
        (
            fields(&json!({ "kind": "KubeletConfig" })),
            "spec.kubeletConfig.kind is not KubeletConfiguration, but KubeletConfig",
        ),
        (
            json!({ "kubeletConfig": [] }),
            "spec.kubeletConfig is not an object",
        ),
        (
            json!({ "logLevel": 11 }),
            "spec.logLevel 11 is not in 0 to 10",
        ),
        (
            json!({ "tlsSecurityProfile": { "modern": {} } }),
            "spec.tlsSecurityProfile.type is empty",
        ),
        (
            json!({ "tlsSecurityProfile": { "type": "Custom" } }),
            "spec.tlsSecurityProfile.custom is missing",
        ),
    ];
    for (spec, why) in table {
        assert_eq!(refusal(config("a", &["worker"], &spec)), why, "{spec}");
    }
}

#[test]
fn the_group_of_what_is_not_enforced_is_cleared() {
    let text = format!("{BASE}systemReservedCgroup: /system.slice\n");
    let base = KubeletBase {
        roles: [("worker".to_owned(), Ok(compose::base_of(&text).unwrap()))].into(),
        ..KubeletBase::default()
    };
    let of = |set: Value| {
        let config = config("a", &["worker"], &fields(&set));
        conf(&plan(&[&config], &pools(), &base).configs[0])["systemReservedCgroup"].clone()
    };
    assert_eq!(
        of(json!({ "enforceNodeAllocatable": ["pods"] })),
        Value::Null
    );
    assert_eq!(
        of(json!({ "enforceNodeAllocatable": ["none"] })),
        Value::Null
    );
    let both = json!({ "enforceNodeAllocatable": ["pods", "system-reserved"] });
    assert_eq!(of(both), "/system.slice");
    assert_eq!(of(json!({ "maxPods": 1 })), "/system.slice");
}

#[test]
fn gates_and_tls_of_the_cluster_lie_under_a_users_own() {
    let base = KubeletBase {
        gates: Some([("A".to_owned(), true), ("B".to_owned(), false)].into()),
        tls: Some(TlsSecurityProfile {
            r#type: "Old".to_owned(),
            ..TlsSecurityProfile::default()
        }),
        ..base()
    };
    let of = |spec: &Value| {
        let config = config("a", &["worker"], spec);
        conf(&plan(&[&config], &pools(), &base).configs[0])
    };
    let plain = of(&json!({}));
    assert_eq!(plain["featureGates"], json!({ "A": true, "B": false }));
    assert_eq!(plain["tlsMinVersion"], "VersionTLS10");
    let own = of(&json!({ "tlsSecurityProfile": { "type": "Modern" } }));
    assert_eq!(own["tlsMinVersion"], "VersionTLS13");
    let field = of(&fields(&json!({ "tlsMinVersion": "VersionTLS12" })));
    assert_eq!(field["tlsMinVersion"], "VersionTLS12");
}

#[test]
fn a_deleted_one_leaves_and_a_missing_base_refuses() {
    let pods = config("a", &["worker"], &fields(&json!({ "maxPods": 1 })));
    let deleted = json!({ "metadata": {
        "name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": { "machineconfiguration.openshift.io/mc-name-suffix": "" }
    }, "spec": { "kubeletConfig": { "maxPods": 2 }, "machineConfigPoolSelector": {
        "matchLabels": { "pool": "worker" }
    } } });
    let deleted: KubeletConfig = serde_json::from_value(deleted).unwrap();
    let plan = planned(&[pods.clone(), deleted]);
    // Its name is still there while its MachineConfig is.
    assert_eq!(plan.configs[0].name, "99-worker-generated-kubelet-1");
    assert_eq!(plan.outcomes.len(), 1);
    let none = super::plan(&[&pods], &pools(), &KubeletBase::default());
    let why = none.outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(why.to_string(), "there is no base for role worker");
}

#[test]
fn a_base_that_cannot_be_read_is_named() {
    let table = [
        (
            "[x]",
            "/etc/kubernetes/kubelet.conf is no KubeletConfiguration",
        ),
        ("a: [", "/etc/kubernetes/kubelet.conf is not YAML: "),
    ];
    for (text, why) in table {
        let error = compose::base_of(text).unwrap_err();
        let error = display::Chain(&error).to_string();
        assert!(error.starts_with(why), "{error}");
    }
}
