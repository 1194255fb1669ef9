//! The policy module is one.

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs checkmodule and semodule_package"]
fn the_policy_module_compiles() {
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../selinux"));
    let dir = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "a compiler, run by a test")]
        let output = Command::new(program)
            .current_dir(dir.path())
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program}: {stderr}");
    };
    let source = |name: &str| sources.join(name).display().to_string();
    run(
        "checkmodule",
        &["-M", "-m", "-o", "slipway.mod", &source("slipway.te")],
    );
    let contexts = source("slipway.fc");
    run(
        "semodule_package",
        &["-o", "slipway.pp", "-m", "slipway.mod", "-f", &contexts],
    );
    assert!(dir.path().join("slipway.pp").metadata().unwrap().len() > 1000);
}
