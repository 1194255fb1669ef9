use api::upgrade::UpgradeType;
use jiff::SignedDuration;

use super::*;
use crate::fixture::config;

fn error(lines: &str) -> String {
    let text = format!("{{nodeDrain: {{timeOut: 45}}, {lines}}}");
    why(&text)
}

fn why(text: &str) -> String {
    display::Chain(&OperatorConfig::parse(text).unwrap_err()).to_string()
}

#[test]
fn absent_keys_have_their_defaults() {
    let config = config("");
    assert_eq!(config.source, ConfigSource::Unmanaged);
    assert_eq!(config.watch_interval, SignedDuration::from_mins(1));
    assert_eq!(config.control_plane_time, SignedDuration::from_mins(90));
    assert_eq!(config.scale_timeout, SignedDuration::from_mins(30));
    assert_eq!(config.extra_machines, 1);
    assert_eq!(config.window, Some(SignedDuration::from_mins(120)));
    assert_eq!(config.delay_trigger, Some(SignedDuration::from_mins(30)));
    assert_eq!(config.expected_drain_time, SignedDuration::from_mins(8));
    assert_eq!(config.dependency_timeout, SignedDuration::from_secs(15));
    assert!(!config.has_all_health_checks && !config.verifies_graph && !config.is_fedramp);
    assert_eq!(config.steps(&UpgradeType::Osd).len(), 17);
    assert_eq!(config.steps(&UpgradeType::Aro).len(), 14);
}

#[test]
fn explicit_zero_means_never() {
    let config = config("upgradeWindow: {timeOut: 0, delayTrigger: 0}");
    assert_eq!((config.window, config.delay_trigger), (None, None));
}

#[test]
fn production_settings_of_upstream_are_read_and_unknown_keys_ignored() {
    let text = "
configManager:
  source: local
  localConfigName: managed-upgrade-config
  watchInterval: 60
maintenance:
  controlPlaneTime: 90
  ignoredAlerts:
    controlPlaneCriticals: [ClusterOperatorDown, ClusterOperatorDegraded]
scale:
  timeOut: 30
  extraMachinePools: ['gpu-*']
upgradeWindow:
  timeOut: 120
nodeDrain:
  timeOut: 45
  expectedNodeDrainTime: 8
  disableDrainStrategies: true
  ignoredNamespacePatterns: ['^openshift-.*']
healthCheck:
  ignoredCriticals: [DNSErrors05MinSRE]
  ignoredNamespaces: [openshift-logging]
extDependencyAvailabilityChecks:
  http: { timeout: 10, urls: ['https://api.openshift.com'] }
validation:
featureGate:
  enabled: [PreHealthCheck]
somethingElse: 1
";
    let config = OperatorConfig::parse(text).unwrap();
    assert_eq!(config.source, ConfigSource::Local);
    assert_eq!(config.control_plane_criticals.len(), 2);
    assert!(
        config
            .extra_machine_pools
            .iter()
            .any(|glob| glob.matches("gpu-1"))
    );
    assert!(config.has_all_health_checks && !config.helps_drains);
    assert!(config.ignored_drains[0].is_match("openshift-etcd"));
    let worker_window = config.worker_window(3, SignedDuration::from_mins(60));
    assert_eq!(worker_window, SignedDuration::from_mins(3 * 68));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table, one row a fault")]
fn each_key_that_cannot_be_used_is_named() {
    let table = [
        (
            "configManager: {source: GIT}",
            "invalid configManager spec provider type defined: field configManager.source",
        ),
        (
            "configManager: {source: OCM}",
            "configManager.ocmBaseUrl: \"\" is no http or https address",
        ),
        (
            "configManager: {source: LOCAL}",
            "field configManager.localConfigName",
        ),
        (
            "configManager: {source: OCM, ocmBaseUrl: 'http://a', watchInterval: 0}",
            "field configManager.watchInterval: 0 is not between 1",
        ),
        (
            "maintenance: {controlPlaneTime: 0}",
            "config maintenance controlPlaneTime out is invalid: field maintenance.controlPlaneTime",
        ),
        (
            "upgradeWindow: {timeOut: -1}",
            "config upgrade window time out is invalid: field upgradeWindow.timeOut",
        ),
        (
            "upgradeWindow: {delayTrigger: -1}",
            "config upgrade window delay trigger is invalid",
        ),
        (
            "upgradeWindow: {timeOut: 9223372036854775807}",
            "field upgradeWindow.timeOut",
        ),
        (
            "extDependencyAvailabilityChecks: {http: {timeout: 61}}",
            "config HTTP timeout is invalid (Requires int between 1 - 60 inclusive)",
        ),
        (
            "extDependencyAvailabilityChecks: {http: {timeout: 0, urls: ['http://a']}}",
            "config HTTP timeout is invalid",
        ),
        (
            "extDependencyAvailabilityChecks: {http: {urls: ['http://a', 'ftp://a']}}",
            "extDependencyAvailabilityChecks.http.urls[1]",
        ),
        (
            "featureGate: {enabled: [preHealthCheck]}",
            "featureGate.enabled[0]",
        ),
        (
            "upgradeType: ROSA",
            "field upgradeType: \"ROSA\" is neither",
        ),
        (
            "windows: [{days: [Someday], start: '25:00', minutes: 0, timeZone: Europe/Nowhere}]",
            "field windows[0].name: \"\" is empty or stands twice; config windows is invalid: field \
             windows[0].days[0]: \"Someday\" is none of Mon, Tue, Wed, Thu, Fri, Sat, Sun; config \
             windows is invalid: field windows[0].start: \"25:00\" is no time such as 22:30; \
             config windows is invalid: field windows[0].minutes: 0 is not between 1 and 10080 \
             minutes; config windows is invalid: field windows[0].timeZone: \"Europe/Nowhere\" \
             is no time zone",
        ),
        (
            "cloudEvents: {url: here}",
            "config cloudEvents is invalid: field cloudEvents.url: \"here\" is no http or https",
        ),
        ("windows: weekly", "field windows: "),
        ("hooks: [{}]", "field hooks[0].name: \"\" is no DNS label"),
        (
            "hooks: [{name: a, step: Dance, when: later, job: {}}]",
            "hooks[0].job: the Job's spec has no template; config hooks is invalid: field \
             hooks[0].step: unknown step \"Dance\"; config hooks is invalid: field \
             hooks[0].when: \"later\" is neither before nor after",
        ),
        (
            "steps: {OSD: [CommenceUpgrade, Dance]}",
            "field steps.OSD[1]: unknown step \"Dance\"",
        ),
        (
            "steps: {OSD: [CommenceUpgrade, CommenceUpgrade]}",
            "steps.OSD[1]: step \"CommenceUpgrade\" stands twice",
        ),
        (
            "steps: {ARO: [CommenceUpgrade]}",
            "steps.ARO: step CommenceUpgrade needs ControlPlaneUpgraded",
        ),
        ("steps: {GCP: []}", "field steps.GCP"),
    ];
    for (lines, expected) in table {
        let error = error(lines);
        assert!(error.contains(expected), "{lines}: {error}");
    }
    let drains = [
        (
            "{}",
            "config nodeDrain timeOut is invalid: field nodeDrain.timeOut: it is missing",
        ),
        (
            "{nodeDrain: {timeOut: 0}}",
            "field nodeDrain.timeOut: 0 is not",
        ),
        (
            "{nodeDrain: {timeOut: 1, expectedNodeDrainTime: 0}}",
            "config nodeDrain expectedNodeDrainTime is invalid",
        ),
        (
            "{nodeDrain: {timeOut: 1, ignoredNamespacePatterns: ['(']}}",
            "field nodeDrain.ignoredNamespacePatterns[0]",
        ),
    ];
    for (text, expected) in drains {
        let error = why(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn recurring_windows_are_read_with_their_place() {
    let zone = "{name: a, days: [Sat], start: '22:30', minutes: 90, timeZone: America/New_York}";
    let config = config(&format!(
        "windows: [{zone}, {{name: b, start: '0:05', minutes: 1}}]"
    ));
    let [first, second] = config.windows.as_slice() else {
        panic!("{:?}", config.windows);
    };
    let from = "2026-11-28T12:00:00Z".parse().unwrap();
    let opens = |window: &RecurringWindow| window.opening_after(from).unwrap().opens.to_string();
    assert_eq!(opens(first), "2026-11-29T03:30:00Z");
    assert_eq!(opens(second), "2026-11-29T00:05:00Z");
}

#[test]
fn all_faults_are_said_at_once() {
    let error = error("maintenance: {controlPlaneTime: 0}, upgradeWindow: {timeOut: -1}");
    assert!(
        error.contains("maintenance.controlPlaneTime") && error.contains("upgradeWindow.timeOut"),
        "{error}"
    );
}

#[test]
fn malformed_texts_name_their_place() {
    let table = [
        (
            "a: [",
            "check config map managed-upgrade-operator-config for incorrect yaml formatting: ",
        ),
        ("scale: {timeOut: soon}", "field scale.timeOut: "),
        ("scale: {timeOut: 1.5}", "field scale.timeOut: "),
        ("scale: 7", "field scale: "),
    ];
    for (text, expected) in table {
        let error = why(text);
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn custom_list_takes_the_place_of_the_usual_one() {
    let config =
        config("steps: {OSD: [CommenceUpgrade, ControlPlaneUpgraded, AllWorkersUpgraded]}");
    let names: Vec<&str> = config
        .steps(&UpgradeType::Osd)
        .iter()
        .map(|step| step.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "CommenceUpgrade",
            "ControlPlaneUpgraded",
            "AllWorkersUpgraded"
        ]
    );
    assert_eq!(config.steps(&UpgradeType::Aro).len(), 14);
}

#[test]
fn longest_drains_of_the_most_workers_end_at_a_time() {
    let longest = |minutes| {
        let mut spec = crate::fixture::spec();
        spec.pdb_force_drain_timeout = minutes;
        force_drain(&spec)
    };
    assert_eq!(longest(60), SignedDuration::from_mins(60));
    assert_eq!(longest(-1), SignedDuration::ZERO);
    assert_eq!(longest(i32::MAX), LONGEST);
    for pending in [1, 2, u32::MAX] {
        let length = config("").worker_window(pending, longest(i32::MAX));
        assert_eq!(length, LONGEST, "{pending}");
        assert!(crate::fixture::START.checked_add(length).is_ok());
    }
    let usual = config("").worker_window(3, longest(60));
    assert_eq!(usual, SignedDuration::from_mins(3 * 68));
}

#[test]
fn key_of_a_feature_that_is_not_needed_is_named_and_the_others_are_used() {
    let agent = "http://ocm-agent.openshift-ocm-agent-operator.svc.cluster.local:8081";
    let of_agent = format!(
        "configManager: {{source: OCM, ocmBaseUrl: '{agent}'}}, \
         featureGate: {{enabled: [ServiceLogNotification]}}"
    );
    let table = [
        (
            "configManager: {watchInterval: 0}",
            "field configManager.watchInterval: 0 is not between 1",
        ),
        (
            "featureGate: {enabled: [ServiceLogNotification]}",
            "featureGate.enabled[0]: ServiceLogNotification needs the source OCM",
        ),
        (
            of_agent.as_str(),
            "ServiceLogNotification: the agent takes no service logs",
        ),
    ];
    for (lines, expected) in table {
        let config = config(lines);
        let unused = list(&config.unused);
        assert!(unused.contains(expected), "{lines}: {unused}");
        assert_eq!(config.scale_faults, []);
        assert!(config.fleet.is_none_or(|fleet| !fleet.has_service_logs));
    }
    let table = [
        (
            "scale: {timeOut: -1}",
            "config scale timeOut is invalid: field scale.timeOut",
        ),
        (
            "scale: {extraMachines: 0}",
            "config scale extraMachines is invalid: field scale.extraMachines",
        ),
        (
            "scale: {extraMachinePools: [a, 'b[']}",
            "config scale extraMachinePools contains invalid pattern \"b[\": field \
             scale.extraMachinePools[1]",
        ),
    ];
    for (lines, expected) in table {
        let config = config(lines);
        let faults = list(&config.scale_faults);
        assert!(faults.contains(expected), "{lines}: {faults}");
        assert_eq!(config.unused, []);
    }
}
