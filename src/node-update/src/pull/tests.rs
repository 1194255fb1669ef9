use super::*;

const REGISTRIES_TEXT: &str = "\
[[registry]]
location = \"quay.io/os\"
[[registry.mirror]]
location = \"mirror:5000/os\"
pull-from-mirror = \"digest-only\"
";

fn files(pairs: &[(&str, &str)]) -> PullFiles {
    let owned = pairs
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    owned.collect()
}

fn changes<'a>(pairs: &[(&'a str, Option<&'a str>)]) -> FileChanges<'a> {
    let bytes = pairs
        .iter()
        .map(|(path, text)| (*path, text.map(str::as_bytes)));
    bytes.collect()
}

fn of(host: &[(&str, &str)], made: &[(&str, Option<&str>)]) -> PullSettings {
    settings(&files(host), &PullFiles::new(), &changes(made), "/home").unwrap()
}

fn text(settings: &PullSettings, path: &str) -> String {
    String::from_utf8(settings.home[path].clone()).unwrap()
}

#[test]
fn what_is_malformed_is_named_with_its_line() {
    let config = "/var/lib/kubelet/config.json";
    for (path, content, said) in [
        (
            REGISTRIES,
            "[[registry]]\nlocation = \n",
            "line 2: invalid TOML: ",
        ),
        (
            REGISTRIES,
            "\n[[registry]]\nblocked = true\n",
            "line 2: a registry has neither prefix nor location",
        ),
        (
            REGISTRIES,
            "[[registry]]\nprefix = \"quay.io\"\n",
            "line 1: registry \"quay.io\" has no location",
        ),
        (
            REGISTRIES,
            "[[registry]]\nlocation = \"a\"\n[[registry.mirror]]\nlocation = \"https://m\"\n",
            "line 4: the location of a mirror is \"https://m\": it must not begin with a scheme",
        ),
        (
            REGISTRIES,
            "[[registry]]\nlocation = \"a\"\n[[registry.mirror]]\ninsecure = true\n",
            "line 3: a mirror has no location",
        ),
        (
            "/etc/containers/registries.conf.d/x.conf",
            "[[registry]]\nlocation = \"a\"\n[[registry.mirror]]\nlocation = \"m\"\npull-from-mirror = \"digests\"\n",
            "line 5: pull-from-mirror is \"digests\"",
        ),
        (
            REGISTRIES,
            "[[registry]]\nlocation = \"a\"\nmirror-by-digest-only = true\n\
             [[registry.mirror]]\nlocation = \"m\"\npull-from-mirror = \"all\"\n",
            "line 6: a mirror has pull-from-mirror, and its registry mirror-by-digest-only",
        ),
        (
            REGISTRIES,
            "short-name-mode = \"on\"\n",
            "line 1: short-name-mode is \"on\"",
        ),
        (POLICY, "{\n \"default\": [\n}", "line 3: it is not JSON: "),
        (
            POLICY,
            "{\"transports\": {}}",
            "line 1: missing field `default`",
        ),
        (
            POLICY,
            "{\n\"default\": []}",
            "line 2: a list of requirements is empty",
        ),
        (
            POLICY,
            "{\"default\":[\n{}]}",
            "line 2: missing field `type`",
        ),
        (config, "", "line 1: it is not JSON: "),
        (
            config,
            "{\"auths\": {\n\"quay.io\": {\"auth\": \"s3cret!\"}}}",
            "line 2: auth of a registry is not base64",
        ),
        (config, "{\"auths\": []}", "line 1: invalid type"),
    ] {
        let fault = check(path, content.as_bytes()).unwrap_err();
        assert!(fault.starts_with(&format!("{path}, {said}")), "{fault}");
        assert!(!fault.contains("s3cret"), "{fault}");
    }
}

#[test]
fn what_image_tools_refuse_of_registries_is_named_with_its_line() {
    const DROPIN: &str = "/etc/containers/registries.conf.d/x.conf";
    for (path, content, said) in [
        (
            DROPIN,
            "\n[registries.search]\nregistries = [\"a.io\"]\n",
            "line 3: a drop-in has lists of version 1",
        ),
        (
            REGISTRIES,
            "unqualified-search-registries = [\"a.io\"]\n[registries.block]\nregistries = [\"b.io\"]\n",
            "line 3: lists of version 1 (registries.search, registries.insecure, registries.block) are mixed",
        ),
        (
            REGISTRIES,
            "[registries.insecure]\nregistries = [\"b.io\"]\n[[registry]]\nlocation = \"a\"\n",
            "line 2: lists of version 1 (registries.search, registries.insecure, registries.block) are mixed",
        ),
        (
            REGISTRIES,
            "[[registry]]\nlocation = \"a/\"\n[[registry]]\nprefix = \"b\"\nlocation = \"a\"\ninsecure = true\n",
            "line 3: registry \"a\" is there before with another insecure",
        ),
        (
            REGISTRIES,
            "[[registry]]\nlocation = \"a\"\nblocked = true\n[[registry]]\nprefix = \"b\"\nlocation = \"a\"\n",
            "line 4: registry \"a\" is there before with another blocked",
        ),
        (
            REGISTRIES,
            "[[registry]]\nprefix = \"*.example.com/x\"\nlocation = \"a\"\n",
            "line 2: the prefix of a registry is \"*.example.com/x\": a wildcard is followed",
        ),
        (
            REGISTRIES,
            "[[registry]]\nprefix = \"*.example.com:5000\"\n",
            "line 2: the prefix of a registry is \"*.example.com:5000\": a wildcard is followed",
        ),
        (
            REGISTRIES,
            "[[registry]]\nprefix = \"*.example.com@x\"\n",
            "line 2: the prefix of a registry is \"*.example.com@x\": a wildcard is followed",
        ),
        (
            REGISTRIES,
            "[[registry]]\nprefix = \"https://a\"\nlocation = \"a\"\n",
            "line 2: the prefix of a registry is \"https://a\": it must not begin with a scheme",
        ),
        (
            REGISTRIES,
            "[[registry]]\nlocation = \"a\"\npull-from-mirror = \"all\"\n",
            "line 3: a registry has pull-from-mirror, which is a setting of its mirrors",
        ),
        (
            REGISTRIES,
            "unqualified-search-registries = [\n\"https://a\"]\n",
            "line 2: an entry of unqualified-search-registries is \"https://a\": it must not",
        ),
    ] {
        let fault = check(path, content.as_bytes()).unwrap_err();
        assert!(fault.starts_with(&format!("{path}, {said}")), "{fault}");
    }
}

#[test]
fn what_container_tools_accept_is_accepted() {
    for (path, content) in [
        (REGISTRIES, REGISTRIES_TEXT),
        (REGISTRIES, ""),
        (
            REGISTRIES,
            "[registries.search]\nregistries = [\"docker.io\"]\n",
        ),
        (
            REGISTRIES,
            "[[registry]]\nprefix = \"*.example.com\"\nblocked = true\n",
        ),
        (
            POLICY,
            r#"{"default":[{"type":"insecureAcceptAnything"}],"transports":{"docker-daemon":{"":[{"type":"reject"}]}}}"#,
        ),
        (
            POLICY,
            r#"{"default":[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k"}]}"#,
        ),
        (
            PULL_SECRET,
            r#"{"auths":{"quay.io":{"auth":"dTpw","email":""},"x":{}}}"#,
        ),
        (PULL_SECRET, "{}"),
        ("/etc/containers/registries.conf.d/README", "no TOML"),
        ("/etc/hosts", "no TOML"),
    ] {
        check(path, content.as_bytes()).unwrap();
    }
}

#[test]
fn a_target_that_changes_no_setting_is_pulled_by_the_running_hosts() {
    let host = [
        (REGISTRIES, REGISTRIES_TEXT),
        (PULL_SECRET, r#"{"auths":{}}"#),
    ];
    let same = of(
        &host,
        &[
            (REGISTRIES, Some(REGISTRIES_TEXT)),
            ("/etc/hosts", Some("x")),
        ],
    );
    assert_eq!((same.home.len(), same.changed.len()), (0, 0));
    assert_eq!(same.credentials.unwrap(), br#"{"auths":{}}"#);
    assert_eq!(same.proxy, None);
}

#[test]
fn a_mirror_of_the_target_comes_with_all_that_stays_of_the_host() {
    let host = [
        (
            "/etc/containers/registries.conf.d/kept.conf",
            "[[registry]]\nlocation = \"k\"\n",
        ),
        (
            "/etc/containers/registries.conf.d/gone.conf",
            "[[registry]]\nlocation = \"g\"\n",
        ),
        ("/etc/docker/certs.d/kept:5000/ca.crt", "kept"),
        ("/etc/docker/certs.d/gone/ca.crt", "gone"),
        (POLICY, r#"{"default":[{"type":"reject"}]}"#),
    ];
    let settings = of(
        &host,
        &[
            (REGISTRIES, Some(REGISTRIES_TEXT)),
            ("/etc/containers/registries.conf.d/gone.conf", None),
            ("/etc/docker/certs.d/gone/ca.crt", None),
            ("/etc/containers/certs.d/new/ca.crt", Some("new")),
        ],
    );
    assert_eq!(
        settings.home.keys().collect::<Vec<_>>(),
        [
            ".config/containers/certs.d/kept:5000/ca.crt",
            ".config/containers/certs.d/new/ca.crt",
            ".config/containers/policy.json",
            ".config/containers/registries.conf",
            ".config/containers/registries.conf.d/kept.conf",
        ]
    );
    // The host still has certificates of this registry, which must not be used.
    assert!(
        settings
            .directories
            .contains(".config/containers/certs.d/gone")
    );
    assert_eq!(
        text(&settings, &PullSettings::registries()),
        REGISTRIES_TEXT
    );
    assert_eq!(settings.changed.len(), 4);
}

#[test]
fn a_released_file_is_the_one_that_the_os_ships() {
    let path = "/etc/containers/registries.conf.d/x.conf";
    let made = changes(&[(path, None)]);
    let host = files(&[(path, "# host\n")]);
    let shipped = files(&[(path, "# shipped\n")]);
    let settings = settings(&host, &shipped, &made, "/home").unwrap();
    assert_eq!(
        text(&settings, ".config/containers/registries.conf.d/x.conf"),
        "# shipped\n"
    );
}

#[test]
fn a_key_that_comes_with_its_policy_is_read_from_the_home_directory() {
    let policy = r#"{"default":[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/etc/pki/new"},
        {"type":"signedBy","keyType":"GPGKeys","keyPath":"/etc/pki/old"}]}"#;
    let settings = of(
        &[],
        &[(POLICY, Some(policy)), ("/etc/pki/new", Some("KEY"))],
    );
    assert_eq!(text(&settings, "keys/0"), "KEY");
    let policy = text(&settings, &PullSettings::policy_path());
    assert!(
        policy.contains("\"/home/keys/0\"") && policy.contains("\"/etc/pki/old\""),
        "{policy}"
    );
}

#[test]
fn credentials_of_all_files_are_merged_and_the_first_counts() {
    let host = [
        (PULL_SECRET, r#"{"auths":{"old":{"auth":"YQ=="}}}"#),
        (
            REGISTRY_SECRET,
            r#"{"auths":{"inner:5000":{"auth":"aW4="},"quay.io":{"auth":"b2xk"}}}"#,
        ),
    ];
    let new = r#"{"auths":{"quay.io":{"auth":"bmV3"}}}"#;
    let settings = of(&host, &[(PULL_SECRET, Some(new))]);
    let merged: Value = serde_json::from_slice(&settings.credentials.unwrap()).unwrap();
    assert_eq!(
        merged,
        serde_json::json!({"auths": {"inner:5000": {"auth": "aW4="}, "quay.io": {"auth": "bmV3"}}})
    );
    // Credentials alone need no home directory.
    assert!(settings.home.is_empty());
    assert_eq!(settings.changed, [PULL_SECRET]);
    assert_eq!(of(&[], &[]).credentials, None);
}

#[test]
fn proxy_settings_of_the_target_take_the_place_of_the_hosts() {
    let text = "# the cluster's\nHTTPS_PROXY=\"http://u:a\\\"b@proxy:3128\"\nNO_PROXY=.svc,10.0.0.0/8\nLANG=C\n";
    let settings = of(&[], &[(PROXY_ENVIRONMENT, Some(text))]);
    let expected = [
        ("HTTPS_PROXY", "http://u:a\"b@proxy:3128"),
        ("NO_PROXY", ".svc,10.0.0.0/8"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(settings.proxy.unwrap(), expected);
    let gone = of(&[(PROXY_ENVIRONMENT, text)], &[(PROXY_ENVIRONMENT, None)]);
    assert_eq!(gone.proxy, Some(Vec::new()));
}

#[test]
fn a_file_of_the_host_that_cannot_be_used_is_named() {
    let faults = settings(
        &files(&[(PULL_SECRET, "not JSON")]),
        &PullFiles::new(),
        &FileChanges::new(),
        "/home",
    );
    let faults = faults.unwrap_err();
    assert!(
        faults[0].starts_with(&format!("{PULL_SECRET}, line 1: it is not JSON")),
        "{faults:?}"
    );
}

#[test]
fn one_broken_file_of_credentials_leaves_the_others_in_force() {
    let usable = r#"{"auths":{"quay.io":{"auth":"dTpw"}}}"#;
    let host = files(&[(RUNTIME_PULL_SECRET, "not JSON"), (PULL_SECRET, usable)]);
    let settings = settings(&host, &PullFiles::new(), &FileChanges::new(), "/home").unwrap();
    assert_eq!(settings.credentials.unwrap(), usable.as_bytes());
    let [fault] = settings.left_out.as_slice() else {
        panic!("{:?}", settings.left_out);
    };
    assert!(
        fault.starts_with(&format!("{RUNTIME_PULL_SECRET}, line 1: it is not JSON")),
        "{fault}"
    );
}
