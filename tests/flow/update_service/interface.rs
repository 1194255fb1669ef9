//! Requests, headers, errors, pages, signatures, TLS.

use std::process::Command;

use release::ImageDigest;
use tempfile::TempDir;

use crate::http::ask;
use crate::images::layout;
use crate::service::{Service, until, write_data};

const PATH: &str = "/api/upgrades_info/v1/graph?channel=fast-1";

/// A service with three releases, of which a risk is on the way to the last.
pub(crate) fn service(name: &str, serve: &str) -> (Service, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let version = |number: u32| format!("1.0.{number}");
    let releases = [
        (version(0), vec![]),
        (version(1), vec![version(0)]),
        (version(2), vec![version(0), version(1)]),
    ];
    layout(
        &directory.path().join("releases"),
        &releases,
        &["amd64".to_owned()],
    );
    let risk = "to: 1.0.2\nfrom: .*\nurl: https://example.com/risk\nname: ToyRisk\nmessage: Toys <may> break.\nmatchingRules: [{type: Always}]\n";
    let files = [
        ("version", "1.1.0"),
        ("raw/metadata.json", "{}"),
        (
            "channels/fast-1.yaml",
            "name: fast-1\nversions: [1.0.0, 1.0.1, 1.0.2]\n",
        ),
        ("blocked-edges/1.0.2-ToyRisk.yaml", risk),
    ];
    write_data(&directory.path().join("data"), &files);
    let path = directory.path().display();
    let settings = format!(
        "releases: {{repository: registry.example/releases, directory: {path}/releases}}\n\
         graphData: {{directory: {path}/data}}\nsignatures: {path}/signatures\nscrape: {{intervalSeconds: 1}}\n"
    );
    let serve = serve.replace("DIRECTORY", &path.to_string());
    (Service::start(name, &serve, &settings).unwrap(), directory)
}

#[test]
#[ignore = "needs root"]
fn a_graph_has_a_tag_encodings_and_an_age() {
    let (service, _directory) = service("headers", ", pathPrefix: //api/upgrades_info//");
    service.ready().unwrap();
    let plain = service.get(PATH);
    assert_eq!(plain.status, 200);
    assert_eq!(
        plain.header("content-type"),
        "application/vnd.redhat.cincinnati.v1+json"
    );
    assert_eq!(plain.header("access-control-allow-origin"), "*");
    assert_eq!(plain.header("vary"), "accept, accept-encoding");
    assert!(plain.header("last-modified").ends_with(" GMT"));
    assert!(plain.header("x-graph-age-seconds").parse::<u64>().is_ok());
    let get = |headers: &[(&str, &str)]| ask(service.address, "GET", PATH, headers).unwrap();
    let packed = get(&[("accept-encoding", "gzip")]);
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() < plain.body.len());
    assert_ne!(packed.header("etag"), plain.header("etag"));
    let again = get(&[("if-none-match", plain.header("etag"))]);
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), plain.header("etag"));
    assert_eq!(get(&[("if-none-match", "\"other\"")]).status, 200);
    let head = ask(service.address, "HEAD", PATH, &[]).unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), plain.body.len().to_string());
    // The tag follows the content: it stays over scrapes that change nothing.
    let scrapes = "cincinnati_gb_graph_upstream_scrapes_total";
    until("scrapes end", || service.metric(scrapes) >= 3.0).unwrap();
    assert_eq!(service.get(PATH).header("etag"), plain.header("etag"));
}

#[test]
#[ignore = "needs root"]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_wrong_request_is_an_error_object() {
    let (service, _directory) = service(
        "errors",
        ", pathPrefix: /api/upgrades_info, mandatoryParameters: [version, channel]",
    );
    service.ready().unwrap();
    let base = "/api/upgrades_info/graph";
    for (method, path, accept, status, body) in [
        (
            "GET",
            format!("{base}?arch=amd64"),
            "",
            400,
            r#"{"kind":"missing_params","value":"mandatory client parameters missing: channel, version"}"#,
        ),
        (
            "GET",
            format!("{base}?version=1&channel=a_b"),
            "",
            400,
            r#"{"kind":"invalid_params","value":"invalid client parameters: channel 'a_b' does not match regex '^[0-9a-z\\-\\.]+$'"}"#,
        ),
        (
            "GET",
            format!("{base}?version=1&channel=a&arch=X"),
            "",
            400,
            r#"{"kind":"invalid_params","value":"invalid client parameters: arch 'X' does not match regex '^[0-9a-z]+$'"}"#,
        ),
        (
            "GET",
            format!("{base}?version=1&channel=a"),
            "text/plain",
            406,
            r#"{"kind":"invalid_content_type","value":"invalid Content-Type requested"}"#,
        ),
        (
            "GET",
            "/graph?channel=a".to_owned(),
            "",
            404,
            r#"{"kind":"does_not_exist","value":"does not exist: /graph"}"#,
        ),
        (
            "GET",
            "/api/upgrades_info/signatures/md5=a/signature-1".to_owned(),
            "",
            400,
            r#"{"kind":"invalid_params","value":"invalid client parameters: algo not supported: md5"}"#,
        ),
        (
            "GET",
            "/api/upgrades_info/signatures/sha256=zz/signature-1".to_owned(),
            "",
            400,
            "is no digest",
        ),
        (
            "GET",
            format!("{base}?version=1&channel=a&from=x"),
            "text/html",
            400,
            "from: \\\"x\\\" is no semantic version",
        ),
        (
            "POST",
            base.to_owned(),
            "",
            405,
            "only GET, HEAD and OPTIONS",
        ),
    ] {
        let headers = [("accept", accept)];
        let headers = if accept.is_empty() {
            &[][..]
        } else {
            &headers[..]
        };
        let response = ask(service.address, method, &path, headers).unwrap();
        assert_eq!(response.status, status, "{path}");
        assert!(
            response.text().contains(body),
            "{path}: {}",
            response.text()
        );
        assert_eq!(response.header("content-type"), "application/json");
    }
    let empty = service.get(&format!(
        "{base}?version=1&channel=unknown-9.9&arch=riscv64"
    ));
    assert_eq!(empty.status, 200);
    assert_eq!(
        empty.text(),
        r#"{"version":1,"nodes":[],"edges":[],"conditionalEdges":[]}"#
    );
    let preflight = ask(service.address, "OPTIONS", base, &[]).unwrap();
    assert_eq!(
        preflight.header("access-control-allow-methods"),
        "GET, HEAD, OPTIONS"
    );
    let openapi = service.get("/api/upgrades_info/openapi");
    assert!(openapi.text().contains("\"/v1/graph\""));
    let count = "cincinnati_pe_graph_response_errors_total{code=\"400\",kind=\"invalid_params\"}";
    assert!((service.metric(count) - 5.0).abs() < 0.5);
    let long = format!("{base}?channel={}", "a".repeat(20_000));
    assert_eq!(
        ask(service.address, "GET", &long, &[]).map_or(431, |response| response.status),
        431
    );
}

#[test]
#[ignore = "needs root"]
fn people_get_a_page_a_picture_and_dot() {
    let (service, _directory) = service("pages", "");
    service.ready().unwrap();
    let get = |accept: &str| {
        let path = "/graph?channel=fast-1&from=1.0.0";
        ask(service.address, "GET", path, &[("accept", accept)]).unwrap()
    };
    let page = get("text/html,application/xhtml+xml,*/*;q=0.8");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for part in [
        "<h2>Shortest path (conditional)</h2>",
        "<li>1.0.2 unless these apply: ToyRisk: <code>slipway upgrade --to 1.0.2 --allow-not-recommended</code>; what changes: ",
        " 1.0.2 --packages</code></li>",
        "Toys &lt;may&gt; break. <a href=\"https://example.com/risk\">",
        "<svg ",
    ] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    assert!(!page.text().contains("<script"));
    let svg = get("image/svg+xml");
    assert!(svg.text().starts_with("<svg ") && svg.text().contains("1.0.0 to 1.0.1, recommended"));
    let dot = get("text/vnd.graphviz");
    assert!(
        dot.text()
            .contains("\"1.0.0\" -> \"1.0.2\" [style=dashed label=\"ToyRisk\" penwidth=3];")
    );
}

#[test]
#[ignore = "needs root"]
fn signatures_are_served_by_digest_and_number() {
    let (service, directory) = service("signatures", "");
    let digest = ImageDigest::of(b"release");
    let store = directory.path().join("signatures");
    signatures::store::add(&store, &digest, b"first").unwrap();
    signatures::store::add(&store, &digest, b"second").unwrap();
    let get = |name: &str| {
        let response = service.get(&format!("/signatures/sha256={}/{name}", digest.hex()));
        (response.status, response.body)
    };
    assert_eq!(get("signature-1"), (200, b"first".to_vec()));
    assert_eq!(get("signature-2"), (200, b"second".to_vec()));
    for name in [
        "signature-3",
        "signature-0",
        "signature-x",
        "..",
        "signature-1/..",
    ] {
        assert_eq!(get(name).0, 404, "{name}");
    }
}

#[test]
#[ignore = "needs root"]
fn before_the_first_graph_clients_are_asked_to_wait() {
    let settings = "releases: {repository: registry.example/releases, directory: /nonexistent}\ngraphData: {directory: /nonexistent}\n";
    let service = Service::start("none", "", settings).unwrap();
    until("the scrape has failed", || {
        service
            .get("/graph?channel=a")
            .text()
            .contains("cannot read /nonexistent")
    })
    .unwrap();
    let response = service.get("/graph?channel=a");
    assert_eq!(
        (response.status, response.header("retry-after")),
        (503, "30")
    );
    let ready = ask(service.status, "GET", "/readyz", &[]).unwrap();
    assert_eq!(ready.status, 503);
    assert!(
        ready
            .text()
            .starts_with("no graph has been built yet: graph data"),
        "{}",
        ready.text()
    );
    assert_eq!(
        ask(service.status, "GET", "/livez", &[]).unwrap().status,
        200
    );
}

#[test]
#[ignore = "needs root, curl, openssl"]
fn tls_follows_its_files() {
    let keys = tempfile::tempdir().unwrap();
    let path = keys.path().display().to_string();
    let make = |name: &str| {
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "1",
            ])
            .args([
                "-subj",
                &format!("/CN={name}"),
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ])
            .args([
                "-keyout",
                &format!("{path}/next.key"),
                "-out",
                &format!("{path}/next.crt"),
            ])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        for end in ["key", "crt"] {
            std::fs::rename(format!("{path}/next.{end}"), format!("{path}/tls.{end}")).unwrap();
        }
    };
    make("one");
    let serve = format!(", tls: {{certificate: {path}/tls.crt, key: {path}/tls.key}}");
    let (service, _directory) = service("tls", &serve);
    service.ready().unwrap();
    let get = || {
        let url = format!("https://{}/graph?channel=fast-1", service.address);
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--cacert",
                &format!("{path}/tls.crt"),
                &url,
            ])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(get().contains("\"1.0.2\""));
    make("two");
    until("the new certificate is served", || {
        get().contains("\"1.0.2\"")
    })
    .unwrap();
}
