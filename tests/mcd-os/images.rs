//! Images: both forms, held as long as they are needed, fetched once.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lab::image::Image;
use lab::registry::Request;
use lab::tree::{Overlay, content};
use sha2::{Digest as _, Sha256};

use super::env::{Env, Ran};

fn fetched_bytes(ran: &Ran) -> u64 {
    ran.report["fetched_bytes"].as_u64().unwrap()
}

fn blobs(env: &Env) -> usize {
    env.host_lab
        .registry
        .requests()
        .unwrap()
        .iter()
        .filter(|request| request.is_blob_fetch())
        .count()
}

#[test]
#[ignore = "needs the lab"]
fn an_image_is_fetched_once_and_held() {
    let env = Env::new().unwrap();
    let image = env
        .push(&Overlay::version("second").ballast(4 << 20, 1))
        .unwrap();
    let ran = env.expect(0, &["fetch", &image]).unwrap();
    assert!(fetched_bytes(&ran) > 4 << 20, "{ran:?}");
    assert_eq!(ran.report["version"], "second");
    assert!(image.ends_with(ran.report["digest"].as_str().unwrap()));
    let checksum = ran.report["checksum"].as_str().unwrap().to_owned();
    env.host.run(["ostree", "show", &checksum]).unwrap();
    env.host
        .run([
            "ostree",
            "prune",
            "--repo=/ostree/repo",
            "--refs-only",
            "--no-prune",
        ])
        .unwrap();

    let before = blobs(&env);
    let ran = env.expect(0, &["fetch", &image]).unwrap();
    assert_eq!((fetched_bytes(&ran), blobs(&env)), (0, before));
    assert_eq!(ran.report["checksum"], checksum.as_str());
}

#[test]
#[ignore = "needs the lab"]
fn layers_that_are_here_are_not_fetched_again() {
    let env = Env::new().unwrap();
    let first = env
        .push(&Overlay::version("second").ballast(8 << 20, 1))
        .unwrap();
    let second = env
        .push(&Overlay::version("third").ballast(8 << 20, 1))
        .unwrap();
    let whole = fetched_bytes(&env.expect(0, &["fetch", &first]).unwrap());
    // Only what the two do not share; the first is let go of, its layers in use are not.
    let rest = fetched_bytes(&env.expect(0, &["fetch", &second]).unwrap());
    assert!(whole > 8 << 20 && rest < 8 << 20, "{whole} {rest}");
    let refs = env
        .host
        .run(["ostree", "refs", "--list", "slipway/image"])
        .unwrap();
    assert_eq!(refs.lines().count(), 1, "{refs}");
}

#[test]
#[ignore = "needs the lab"]
fn an_image_with_a_repository_inside_is_fetched_too() {
    let env = Env::new().unwrap();
    let commit = env
        .host_lab
        .tree
        .commit(&Overlay::version("second"))
        .unwrap();
    let image = Image::with_repository(&commit).unwrap();
    let image = env
        .host_lab
        .registry
        .push(&image, "content:second")
        .unwrap();
    let ran = env.expect(0, &["fetch", &image]).unwrap();
    assert_eq!(ran.report["checksum"], commit.checksum.as_str());
    assert_eq!(ran.report["version"], "second");
    assert!(fetched_bytes(&ran) > 1 << 20, "{ran:?}");
    let left = env.host.run(["ls", "/var/lib/slipway/tmp"]).unwrap();
    assert_eq!(left, "", "what was unpacked is gone");
    let ran = env.expect(0, &["fetch", &image]).unwrap();
    assert_eq!(fetched_bytes(&ran), 0);
}

/// Where the limit of a fetch is on the host.
const LIMIT_FILE: &str = "/run/slipway/fetch-limit";

/// Bytes that the kernel keeps between registry and skopeo, at most, on both sides.
const IN_SOCKETS: u64 = 12 << 20;

fn limit(env: &Env, text: &str) {
    let script = format!("mkdir -p /run/slipway && printf '%s' '{text}' > {LIMIT_FILE}");
    env.host.run(["sh", "-c", &script]).unwrap();
}

/// How long so many bytes take at a rate.
fn time(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_millis(1000 * bytes / bytes_per_second)
}

/// The registry's fetch of the largest layer.
fn largest(env: &Env) -> Request {
    let requests = env.host_lab.registry.requests().unwrap();
    let fetches = requests.into_iter().filter(Request::is_blob_fetch);
    fetches.max_by_key(|request| request.bytes).unwrap()
}

#[test]
#[ignore = "needs the lab"]
fn a_limited_fetch_takes_its_time_at_the_registry_too_and_brings_the_same() {
    const RATE: u64 = 8 << 20;
    let env = Env::new().unwrap();
    let os = Overlay::version("second").ballast(48 << 20, 1);
    let image = env.host_lab.image(&os).unwrap();
    limit(&env, &RATE.to_string());
    let began = Instant::now();
    let words = ["fetch", &image.reference, "--limit-file", LIMIT_FILE];
    let ran = env.expect(0, &words).unwrap();
    let (bytes, took) = (fetched_bytes(&ran), began.elapsed());
    assert!(bytes > 48 << 20, "{ran:?}");
    assert!(took >= time(bytes, RATE), "{bytes} bytes in {took:?}");
    let checksum = ran.report["checksum"].as_str().unwrap();
    let repo = env.host.sysroot().join("ostree/repo");
    assert_eq!(content(&repo, checksum).unwrap(), image.content);
    // The registry could not send what was not read yet, but for what sockets keep.
    let layer = largest(&env);
    let sent = layer.finished.duration_since(layer.started).unsigned_abs();
    let least = time(layer.bytes.saturating_sub(IN_SOCKETS), RATE);
    println!(
        "{bytes} bytes in {took:?}; largest layer: {} bytes in {sent:?}",
        layer.bytes
    );
    assert!(least > Duration::from_secs(2) && sent >= least, "{layer:?}");
}

#[test]
#[ignore = "needs the lab"]
fn an_image_with_a_repository_inside_is_limited_until_its_limit_is_removed() {
    // An hour for what takes seconds.
    const RATE: u64 = 64 << 10;
    let env = Env::new().unwrap();
    let os = Overlay::version("second").ballast(16 << 20, 1);
    let commit = env.host_lab.tree.commit(&os).unwrap();
    let image = Image::with_repository(&commit).unwrap();
    let image = env
        .host_lab
        .registry
        .push(&image, "content:second")
        .unwrap();
    limit(&env, &RATE.to_string());
    let began = Instant::now();
    let words = ["fetch", image.as_str(), "--limit-file", LIMIT_FILE];
    let (ran, lifted) = thread::scope(|scope| {
        let running = scope.spawn(|| env.expect(0, &words).unwrap());
        thread::sleep(Duration::from_secs(5));
        assert!(!running.is_finished(), "there is no limit");
        env.host.run(["rm", LIMIT_FILE]).unwrap();
        let lifted = began.elapsed();
        (running.join().unwrap(), lifted)
    });
    let (bytes, took) = (fetched_bytes(&ran), began.elapsed());
    println!("{bytes} bytes in {took:?}, the limit removed after {lifted:?}");
    assert_eq!(ran.report["checksum"], commit.checksum.as_str());
    assert!(took < time(bytes, RATE), "{bytes} bytes in {took:?}");
}

#[test]
#[ignore = "needs the lab"]
fn a_limit_that_is_no_number_is_refused_and_a_failure_under_one_is_named() {
    let env = Env::new().unwrap();
    let image = env.push(&Overlay::version("second")).unwrap();
    for text in ["0", "20M", ""] {
        limit(&env, text);
        let words = ["fetch", &image, "--limit-file", LIMIT_FILE];
        let reasons = env.expect(3, &words).unwrap().reasons();
        let expected =
            format!("{LIMIT_FILE} has {text:?}, which is no number of bytes a second above 0");
        assert_eq!(reasons, expected);
    }
    assert_eq!(blobs(&env), 0);
    limit(&env, "1000000");
    let (repository, _) = image.split_once('@').unwrap();
    let missing = format!("{repository}@sha256:{}", "0".repeat(64));
    let words = ["fetch", &missing, "--limit-file", LIMIT_FILE];
    let reasons = env.expect(3, &words).unwrap().reasons();
    assert!(
        reasons.contains("its registry has no such image"),
        "{reasons}"
    );
}

#[test]
#[ignore = "needs the lab"]
fn fetching_takes_little_memory() {
    let env = Env::new().unwrap();
    let image = env
        .push(&Overlay::version("second").ballast(64 << 20, 7))
        .unwrap();
    // A unit of its own, as the daemon runs it; `VmHWM` is read at the end, by the shell that
    // waits.
    let script = format!(
        "{} --report /run/slipway/report.json fetch {image} & pid=$!; peak=0; \
         while [ -d /proc/$pid ]; do now=$(sed -n 's/^VmHWM:[[:space:]]*\\([0-9]*\\) kB/\\1/p' /proc/$pid/status 2>/dev/null); \
         [ -n \"$now\" ] && peak=$now; sleep 0.02; done; wait $pid; echo $peak",
        testbed::single_host::MCD_OS
    );
    let peak: u64 = env
        .host
        .run(["sh", "-c", &script])
        .unwrap()
        .parse()
        .unwrap();
    println!("peak resident while fetching: {peak} kB");
    assert!(peak > 0 && peak <= 64 << 10, "{peak} kB");
}

/// zstd:chunked puts frames behind the archive: a reader that ends with the archive leaves the
/// registry's client with a closed pipe, where the frames exceed it.
#[test]
#[ignore = "needs the lab"]
#[expect(clippy::disallowed_methods, reason = "a tool of the test's own")]
fn a_large_image_of_zstd_chunked_is_read_to_its_end() {
    let env = Env::new().unwrap();
    let image = env
        .push(&Overlay::version("second").ballast(210 << 20, 3))
        .unwrap();
    let expected = env.expect(0, &["fetch", &image]).unwrap();
    // The next fetch lets go of it.
    let expected = content_of(&env, &expected);
    let dir = tempfile::tempdir().unwrap();
    let layout = format!("oci:{}:second", dir.path().display());
    let target = format!("{}/chunked:second", env.host_lab.registry.location());
    let skopeo = |words: &[&str]| {
        let output = Command::new("skopeo").args(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let source = format!("docker://{image}");
    let packed = "--dest-compress-format=zstd:chunked";
    let policy = "--insecure-policy";
    skopeo(&[
        "copy",
        policy,
        "--src-tls-verify=false",
        packed,
        &source,
        &layout,
    ]);
    let destination = format!("docker://{target}");
    skopeo(&[
        "copy",
        policy,
        "--dest-tls-verify=false",
        "--preserve-digests",
        &layout,
        &destination,
    ]);
    let manifest = skopeo(&["inspect", "--raw", &layout]);
    assert!(manifest.contains("tar+zstd"), "{manifest}");

    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&manifest)));
    let chunked = format!("{}/chunked@{digest}", env.host_lab.registry.location());
    let ran = env.expect(0, &["fetch", &chunked]).unwrap();
    assert!(fetched_bytes(&ran) > 200 << 20, "{ran:?}");
    assert_eq!(ran.report["version"], "second");
    assert_eq!(content_of(&env, &ran), expected);
}

/// What a fetched commit holds, whatever its metadata are.
fn content_of(env: &Env, ran: &Ran) -> String {
    let checksum = ran.report["checksum"].as_str().unwrap();
    let script = format!("ostree ls --repo=/ostree/repo -R -C {checksum} | sha256sum");
    env.host.run(["sh", "-c", &script]).unwrap()
}
