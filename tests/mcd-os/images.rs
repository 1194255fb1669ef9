//! Images: both forms, held as long as they are needed, fetched once.

use lab::image::Image;
use lab::tree::Overlay;

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
