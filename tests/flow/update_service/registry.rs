//! A registry that gets releases, fails, and is damaged.

use std::time::Instant;

use ::images::draft::Built;
use ::images::tree::EntryContent;
use ::images::{Credentials, Draft, ImageLocation, Stores, Tree};
use jiff::Timestamp;
use lab::Lab;
use lab::registry::Registry;
use tokio::runtime::Runtime;

use crate::images::{metadata, release};
use crate::relay::{Fault, Relay};
use crate::service::{Service, until, write_data};

const RAW: (&str, &str) = ("raw/metadata.json", "{}");

const CHANNEL: (&str, &str) = (
    "channels/fast-1.yaml",
    "name: fast-1\nversions: [1.0.0, 1.0.1, 1.0.2, 1.0.3]\n",
);

/// A registry with 1.0.0 and 1.0.1, and graph data.
struct RegistryScene {
    registry: Registry,
    directory: tempfile::TempDir,
    stores: Stores,
    runtime: Runtime,
    _lab: Lab,
}

impl RegistryScene {
    fn start() -> Self {
        let lab = Lab::create().unwrap();
        let this = Self {
            registry: Registry::start(&lab).unwrap(),
            directory: tempfile::tempdir().unwrap(),
            stores: Stores::new(Credentials::default(), true),
            runtime: Runtime::new().unwrap(),
            _lab: lab,
        };
        let data = [("version", "1.1.0"), RAW, CHANNEL];
        write_data(this.directory.path(), &data);
        this.push_release("1.0.0", &[]);
        this.push_release("1.0.1", &["1.0.0"]);
        this
    }

    fn push(&self, tag: &str, image: &Built) {
        self.push_to(&format!("releases:{tag}"), image);
    }

    fn push_to(&self, name: &str, image: &Built) {
        let place = format!("{}/{name}", self.registry.location());
        let location: ImageLocation = place.parse().unwrap();
        self.runtime
            .block_on(self.stores.put(image, &location))
            .unwrap();
    }

    fn push_release(&self, version: &str, previous: &[&str]) {
        self.push(
            version,
            &release(version, "amd64", &metadata(version, previous, false)),
        );
    }

    fn settings(&self, place: &str, more: &str) -> String {
        format!(
            "releases: {{repository: {place}/releases, insecure: true, patienceSeconds: 2, attempts: 2{more}}}\n\
             graphData: {{directory: {}}}\nscrape: {{intervalSeconds: 1, timeoutSeconds: 60}}\n",
            self.directory.path().display()
        )
    }

    fn service(&self, name: &str) -> Service {
        let settings = self.settings(&self.registry.location(), "");
        let service = Service::start(name, "", &settings).unwrap();
        service.ready().unwrap();
        service
    }

    /// Reads of blobs and manifests so far.
    fn reads(&self) -> usize {
        let requests = self.registry.requests().unwrap();
        let is_read = |path: &str| path.contains("/blobs/") || path.contains("/manifests/");
        requests
            .iter()
            .filter(|request| request.method == "GET" && is_read(&request.path))
            .count()
    }
}

/// Waits until so many scrapes more have ended.
fn scrapes(service: &Service, more: f64) {
    let name = "cincinnati_gb_graph_upstream_scrapes_total";
    let before = service.metric(name);
    until("scrapes end", || service.metric(name) >= before + more).unwrap();
}

#[test]
#[ignore = "needs root, docker-registry"]
fn an_image_is_read_once_and_a_pushed_release_is_served() {
    let scene = RegistryScene::start();
    let mut service = scene.service("once");
    assert_eq!(service.versions("fast-1"), ["1.0.0", "1.0.1"]);
    scrapes(&service, 1.0);
    let reads = scene.reads();
    scrapes(&service, 2.0);
    assert_eq!(scene.reads(), reads, "a known digest is not read again");
    let pushed = Instant::now();
    scene.push_release("1.0.2", &["1.0.1"]);
    until("the release is served", || {
        service.versions("fast-1").len() == 3
    })
    .unwrap();
    println!(
        "pushed release served after {} ms",
        pushed.elapsed().as_millis()
    );
    // The manifest, the configuration and the layer.
    assert_eq!(scene.reads(), reads + 3);
    service.check().unwrap();
}

#[test]
#[ignore = "needs root, docker-registry"]
fn a_registry_that_is_gone_loses_nothing_that_was_served() {
    let mut scene = RegistryScene::start();
    let service = scene.service("gone");
    scene.registry.stop();
    let failures = "cincinnati_gb_graph_upstream_errors_total";
    until("a scrape fails", || service.metric(failures) >= 1.0).unwrap();
    assert_eq!(service.versions("fast-1"), ["1.0.0", "1.0.1"]);
    until("the graph grows old", || {
        service.metric("update_service_graph_age_seconds") >= 2.0
    })
    .unwrap();
    let response = service.get("/graph?channel=fast-1");
    assert!(
        response
            .header("x-graph-age-seconds")
            .parse::<u64>()
            .unwrap()
            >= 2
    );
    scene.registry.resume().unwrap();
    scene.push_release("1.0.2", &["1.0.1"]);
    until("the registry is read again", || {
        service.versions("fast-1").len() == 3
    })
    .unwrap();
}

#[test]
#[ignore = "needs root, docker-registry"]
fn what_is_no_release_is_listed_and_the_rest_is_served() {
    let scene = RegistryScene::start();
    let other = |files: &[(&str, &str)]| {
        let mut tree = Tree::new();
        for (path, text) in files {
            tree.put(path, 0o444, EntryContent::Bytes(text.as_bytes().to_vec()))
                .unwrap();
        }
        let platform = ::images::image::Platform::of_this_machine();
        let mut draft = Draft::new(platform, Timestamp::UNIX_EPOCH);
        draft.push(tree.layer(Timestamp::UNIX_EPOCH).unwrap(), "test");
        draft
    };
    scene.push("component", &other(&[("usr/bin/a", "a")]).build().unwrap());
    scene.push("sha256-0.sig", &other(&[("b", "b")]).build().unwrap());
    for (tag, text) in [
        ("kind", r#"{"kind":"other","version":"1.0.0"}"#),
        (
            "version",
            r#"{"kind":"cincinnati-metadata-v0","version":"one"}"#,
        ),
        (
            "previous",
            r#"{"kind":"cincinnati-metadata-v0","version":"1.0.9","previous":["x"]}"#,
        ),
    ] {
        scene.push(
            &format!("bad-{tag}"),
            &release("1.0.9", "amd64", text.as_bytes()),
        );
    }
    let again = r#"{"kind":"cincinnati-metadata-v0","version":"1.0.1","metadata":{"url":"https://example.com"}}"#;
    scene.push("twice", &release("1.0.1", "amd64", again.as_bytes()));
    scene.push(
        "cycle",
        &release("1.0.2", "amd64", &metadata("1.0.2", &["1.0.3"], false)),
    );
    scene.push(
        "cycle-2",
        &release("1.0.3", "amd64", &metadata("1.0.3", &["1.0.2"], false)),
    );
    write_data(
        scene.directory.path(),
        &[
            ("channels/bad.yaml", "name: [\n"),
            ("channels/other.yml", "name: other\n"),
            ("blocked-edges/1.0.1.yaml", "to: 1.0.1\nfrom: (\n"),
            (
                "blocked-edges/1.0.2-A.yaml",
                "to: 1.0.2\nfrom: .*\nurl: http://a\nname: A\nmessage: m\nmatchingRules: [{type: Never}]\n",
            ),
        ],
    );
    let service = scene.service("listed");
    assert_eq!(
        service.versions("fast-1"),
        ["1.0.0", "1.0.1", "1.0.2", "1.0.3"]
    );
    let problems = service.problems();
    for expected in [
        ":bad-kind | release-manifests/release-metadata | unrecognized Cincinnati metadata kind \"other\"",
        ":bad-version | release-manifests/release-metadata | field version: \"one\" is no semantic version",
        ":bad-previous | release-manifests/release-metadata | field previous[0]: \"x\"",
        ":component | config.Labels | 1 images have no label io.openshift.release",
        "release 1.0.1 (amd64) | version | ",
        "release 1.0.3+amd64 | next | the edge to 1.0.2+amd64 closes a cycle",
        "channels/bad.yaml |  | ",
        "channels/other.yml |  | files of channels/ end in .yaml",
        "blocked-edges/1.0.1.yaml | from | it is no regular expression",
        "blocked-edges/1.0.2-A.yaml | matchingRules[0] | type \"Never\" is neither Always nor PromQL",
    ] {
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{expected}: {problems:#?}"
        );
    }
    assert_eq!(problems.len(), 10, "{problems:#?}");
    // Graph data that is no longer any leaves the graph before in service.
    std::fs::write(scene.directory.path().join("version"), "2.0.0").unwrap();
    until("a scrape fails", || {
        service.metric("cincinnati_gb_graph_upstream_errors_total") >= 1.0
    })
    .unwrap();
    assert_eq!(service.versions("fast-1").len(), 4);
}

#[test]
#[ignore = "needs root, docker-registry"]
fn a_registry_that_misbehaves_delays_and_is_listed() {
    let scene = RegistryScene::start();
    let relay = Relay::start(scene.registry.location().parse().unwrap());
    let settings = scene.settings(&relay.address().to_string(), ", concurrency: 2");
    let service = Service::start("relay", "", &settings).unwrap();
    service.ready().unwrap();
    for (number, fault) in [
        Fault::Status(500),
        Fault::Status(429),
        Fault::Half,
        Fault::Silent,
    ]
    .into_iter()
    .enumerate()
    {
        let version = format!("1.0.{}", number + 2);
        relay.set(Some((format!("/manifests/{version}"), fault)));
        scene.push_release(&version, &["1.0.1"]);
        until("the image is listed", || {
            let problems = service.problems();
            problems
                .iter()
                .any(|problem| problem.contains(&format!("releases:{version} |")))
        })
        .unwrap();
        assert!(
            service
                .versions("fast-1")
                .iter()
                .all(|other| *other != version)
        );
        relay.set(None);
        until("nothing is listed", || {
            service
                .problems()
                .iter()
                .all(|problem| !problem.contains("releases:"))
        })
        .unwrap();
    }
    assert_eq!(service.versions("fast-1").len(), 4);
    // A known image that cannot be read now counts as what it was.
    relay.set(Some(("/manifests/".to_owned(), Fault::Status(500))));
    until("images are listed", || service.problems().len() >= 6).unwrap();
    assert!(
        service
            .problems()
            .iter()
            .any(|problem| problem.contains("what it was before counts"))
    );
    assert_eq!(service.versions("fast-1").len(), 4);
    // The list of tags fails whole, and the graph stays.
    relay.set(Some(("/tags/list".to_owned(), Fault::Half)));
    until("a scrape fails", || {
        service.metric("cincinnati_gb_graph_upstream_errors_total") >= 1.0
    })
    .unwrap();
    assert_eq!(service.versions("fast-1").len(), 4);
}

#[test]
#[ignore = "needs root, docker-registry"]
fn graph_data_of_an_image_and_a_mirror_are_read() {
    let scene = RegistryScene::start();
    let mut tree = Tree::new();
    for (path, text) in [
        ("data/version", "1.1.0"),
        ("data/raw/metadata.json", RAW.1),
        ("data/channels/a.yaml", CHANNEL.1),
    ] {
        tree.put(path, 0o444, EntryContent::Bytes(text.as_bytes().to_vec()))
            .unwrap();
    }
    let platform = ::images::image::Platform::of_this_machine();
    let mut draft = Draft::new(platform, Timestamp::UNIX_EPOCH);
    draft.push(tree.layer(Timestamp::UNIX_EPOCH).unwrap(), "test");
    scene.push_to("graph-data:latest", &draft.build().unwrap());
    let place = scene.registry.location();
    let settings = format!(
        "releases: {{repository: quay.example/releases, mirrors: ['{place}/nothing', '{place}/releases'], insecure: true, attempts: 1}}\n\
         graphData: {{image: '{place}/graph-data:latest', path: /data}}\nscrape: {{intervalSeconds: 1}}\n"
    );
    let service = Service::start("mirror", "", &settings).unwrap();
    service.ready().unwrap();
    assert_eq!(service.versions("fast-1"), ["1.0.0", "1.0.1"]);
    let graph = service.get("/graph?channel=fast-1").text();
    assert!(
        graph.contains("\"payload\":\"quay.example/releases@sha256:"),
        "{graph}"
    );
    let problems = service.problems();
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("the next place is asked")),
        "{problems:?}"
    );
}

#[test]
#[ignore = "needs root, docker-registry"]
fn a_registry_with_tokens_and_one_with_an_authority_of_its_own_are_read() {
    let mut scene = RegistryScene::start();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let place = scene.registry.open_with_tokens("reader:secret").unwrap();
    // `reader:secret` in base64.
    let auths = format!("{{\"auths\": {{\"{place}\": {{\"auth\": \"cmVhZGVyOnNlY3JldA==\"}}}}}}");
    let more = format!(", credentials: {}", file("auth.json", &auths));
    let service = Service::start("tokens", "", &scene.settings(&place, &more)).unwrap();
    service.ready().unwrap();
    assert_eq!(service.versions("fast-1"), ["1.0.0", "1.0.1"]);
    assert!(scene.registry.tokens_served() > 0);
    drop(service);

    let (place, certificate) = scene.registry.open_tls().unwrap();
    let authority = format!(
        ", insecure: false, certificateAuthority: {}",
        file("ca.crt", &certificate)
    );
    let settings = |more: &str| {
        let settings = scene.settings(&place, more);
        settings.replacen("insecure: true, ", "", 1)
    };
    let service = Service::start("authority", "", &settings(&authority)).unwrap();
    service.ready().unwrap();
    assert_eq!(service.versions("fast-1"), ["1.0.0", "1.0.1"]);
    drop(service);

    let service = Service::start("stranger", "", &settings(", insecure: false")).unwrap();
    until("a scrape fails", || {
        service.metric("cincinnati_gb_graph_upstream_errors_total") >= 1.0
    })
    .unwrap();
    assert_ne!(service.get("/graph?channel=fast-1").status, 200);
}
