//! Images reach a host through the registry, in both forms, and the registry's log says so.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::IpAddr;

use lab::Lab;
use lab::host::{BOOTED_WITHIN, Host, HostSpec};
use lab::image::Image;
use lab::registry::Registry;
use lab::tree::{Overlay, Tree};

fn booted(lab: &Lab, tree: &Tree, registry: &Registry) -> Host {
    let spec = HostSpec::new("node", tree.base())
        .registry(&registry.location())
        .registry(&registry.closed_location());
    let mut host = Host::create(lab, spec).unwrap();
    host.start().unwrap();
    host.wait_booted(BOOTED_WITHIN).unwrap();
    host
}

fn inspect(host: &Host, pullspec: &str) -> serde_json::Value {
    let text = host
        .run(["skopeo", "inspect", &format!("docker://{pullspec}")])
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn both_forms_name_their_commit() {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let registry = Registry::start(&lab).unwrap();
    let v2 = tree.commit(&Overlay::version("v2")).unwrap();
    let native = registry
        .push(&Image::native(&v2).unwrap(), "os:v2")
        .unwrap();
    let repository = registry
        .push(&Image::with_repository(&v2).unwrap(), "old:v2")
        .unwrap();

    let host = booted(&lab, &tree, &registry);
    for pullspec in [&native, &repository] {
        let labels = &inspect(&host, pullspec)["Labels"];
        assert_eq!(labels["com.coreos.ostree-commit"], v2.checksum.as_str());
        assert_eq!(labels["version"], "v2");
    }
    assert_eq!(inspect(&host, &native)["Labels"]["ostree.bootable"], "true");
    let refused = host.exec([
        "skopeo",
        "inspect",
        &format!("docker://{}/os:v2", registry.closed_location()),
    ]);
    assert_ne!(refused.unwrap().code, Some(0));
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn the_repository_in_an_image_has_the_commit() {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let registry = Registry::start(&lab).unwrap();
    let image = Image::with_repository(tree.base()).unwrap();
    let pullspec = registry.push(&image, "old:v1").unwrap();

    let host = booted(&lab, &tree, &registry);
    let script = "set -e; cd /var/tmp; mkdir image out; \
                  skopeo copy --quiet docker://$0 dir:image; \
                  for blob in image/*; do tar -C out -xf $blob 2>/dev/null || true; done; \
                  ostree --repo=out/srv/repo rev-parse lab/os";
    assert_eq!(
        host.run(["bash", "-c", script, &pullspec]).unwrap(),
        tree.base().checksum
    );
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn the_log_tells_which_host_fetched_bytes() {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let mut registry = Registry::start(&lab).unwrap();
    let overlay = Overlay::version("v2").ballast(3_000_000, 7);
    let image = Image::native(&tree.commit(&overlay).unwrap()).unwrap();
    let pullspec = registry.push(&image, "os:v2").unwrap();

    let host = booted(&lab, &tree, &registry);
    let from_host = |registry: &Registry| {
        let requests = registry.requests().unwrap();
        let address = IpAddr::from(host.address());
        requests
            .into_iter()
            .filter(|request| request.remote == address)
            .collect::<Vec<_>>()
    };
    assert_eq!(from_host(&registry), []);
    host.run([
        "skopeo",
        "copy",
        &format!("docker://{pullspec}"),
        "dir:/var/tmp/image",
    ])
    .unwrap();
    let requests = from_host(&registry);
    let fetched: u64 = requests
        .iter()
        .filter(|request| request.is_blob_fetch())
        .map(|request| request.bytes)
        .sum();
    assert!(fetched > 3_000_000, "{fetched}");
    assert!(
        requests
            .iter()
            .any(lab::registry::Request::is_manifest_fetch)
    );
    assert!(
        requests
            .iter()
            .all(|request| request.started <= request.finished)
    );

    // 90 MB at 200 Mbit/s are 4 s, the largest layer more than one.
    host.limit(Some(200_000)).unwrap();
    host.run([
        "skopeo",
        "copy",
        &format!("docker://{pullspec}"),
        "dir:/var/tmp/again",
    ])
    .unwrap();
    let slowest =
        |request: &lab::registry::Request| request.finished.duration_since(request.started);
    let slowest = from_host(&registry).iter().map(slowest).max().unwrap();
    assert!(slowest.as_secs() >= 1, "{slowest:?}");
    host.limit(None).unwrap();

    registry.stop();
    assert_ne!(
        host.exec(["skopeo", "inspect", &format!("docker://{pullspec}")])
            .unwrap()
            .code,
        Some(0)
    );
    registry.resume().unwrap();
    inspect(&host, &pullspec);
    assert!(from_host(&registry).len() > requests.len());
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn commits_share_the_layers_that_are_equal() {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let registry = Registry::start(&lab).unwrap();
    let host = booted(&lab, &tree, &registry);
    let layers = |version: &str| {
        let commit = tree.commit(&Overlay::version(version)).unwrap();
        let pullspec = registry
            .push(&Image::native(&commit).unwrap(), "os:v")
            .unwrap();
        inspect(&host, &pullspec)["Layers"]
            .as_array()
            .unwrap()
            .clone()
    };
    let (v2, v3) = (layers("v2"), layers("v3"));
    let shared = v2.iter().filter(|layer| v3.contains(layer)).count();
    assert!(shared >= 5 && shared < v2.len(), "{shared} of {}", v2.len());
}
