//! systemd, the kubelet, and other programs that update the host.

use std::io::ErrorKind;
use std::path::Path;

use chassis::report::Chain;
use cluster::kubeconfig::{self, Reader};
use host::files::{Found, Root};

use super::{BUS, Judged};

/// There on a host that systemd booted.
///
/// Source: `sd_booted(3)`.
const BOOTED: &str = "/run/systemd/system";

const LOGIND: &str = "systemd-logind.service";

const KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";

/// Judges by the files of systemd and of the bus, and by what systemd reports of logind.
pub(super) fn systemd(
    root: &Root,
    mut active_state: impl FnMut(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<Judged> {
    if !matches!(root.inspect(BOOTED)?, Found::Directory { .. }) {
        return Ok(Judged::missing(format!(
            "{BOOTED} is not there: the host was not booted by systemd"
        )));
    }
    if root.inspect(&format!("/{BUS}"))? != Found::Other {
        return Ok(Judged::missing(format!("the bus has no socket at /{BUS}")));
    }
    Ok(match active_state(LOGIND)?.as_deref() {
        Some("active") => Judged::ok("systemd, its bus and logind run"),
        state => Judged::missing(format!(
            "{LOGIND} is {}: logind reboots the host",
            state.unwrap_or("kept from running by its conditions")
        )),
    })
}

/// Judges by the kubelet's kubeconfig and the files that it names.
pub(super) fn kubelet(read: &Reader) -> Judged {
    match kubeconfig::check(Path::new(KUBECONFIG), read) {
        Ok(()) => Judged::ok(format!("{KUBECONFIG} can be used")),
        Err(kubeconfig::Error::Read { path, source })
            if source.kind() == ErrorKind::NotFound && path == Path::new(KUBECONFIG) =>
        {
            Judged::missing(format!(
                "{KUBECONFIG} is not there: the daemon has its identity from the kubelet"
            ))
        }
        Err(error) => Judged::missing(Chain(&error).to_string()),
    }
}

/// Judges by the reasons for which an update of this host would be refused.
pub(super) fn updaters(reasons: &[String]) -> Judged {
    if reasons.is_empty() {
        return Judged::ok("no other program updates this host by itself");
    }
    Judged::missing(format!(
        "{}; disable it, or every update with a reboot is rejected",
        reasons.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use node_update::host_report::HostVerdict;

    use super::*;

    #[test]
    fn systemd_its_bus_and_logind_have_to_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let judge = |state: Option<&str>| {
            systemd(&root, |unit| {
                assert_eq!(unit, LOGIND);
                Ok(state.map(str::to_owned))
            })
            .unwrap()
        };
        let missing = |state: Option<&str>, expected: &str| {
            let judged = judge(state);
            assert_eq!(judged.verdict, HostVerdict::Missing);
            assert!(judged.message.contains(expected), "{}", judged.message);
        };
        missing(Some("active"), "not booted by systemd");
        fs::create_dir_all(dir.path().join("run/systemd/system")).unwrap();
        missing(Some("active"), "the bus has no socket");
        fs::create_dir_all(dir.path().join("run/dbus")).unwrap();
        let _bus = UnixListener::bind(dir.path().join(BUS)).unwrap();
        missing(Some("failed"), "systemd-logind.service is failed");
        missing(None, "kept from running by its conditions");
        assert_eq!(judge(Some("active")).verdict, HostVerdict::Ok);
        assert!(systemd(&root, |_| anyhow::bail!("no answer")).is_err());
    }

    fn reader(files: &[(&str, &str)]) -> Reader {
        let files: BTreeMap<PathBuf, Vec<u8>> = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()))
            .collect();
        Box::new(move |path| Ok(files.get(path).ok_or(ErrorKind::NotFound)?.clone()))
    }

    #[test]
    fn a_kubeconfig_has_to_be_usable_with_its_files() {
        const TEXT: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://api-int:6443', certificate-authority: /etc/kubernetes/ca.crt}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";
        let authority = ("/etc/kubernetes/ca.crt", "authority");
        let table = [
            (vec![(KUBECONFIG, TEXT), authority], "can be used"),
            (vec![authority], "/var/lib/kubelet/kubeconfig is not there"),
            (
                vec![(KUBECONFIG, TEXT)],
                "cannot read /etc/kubernetes/ca.crt",
            ),
            (
                vec![(KUBECONFIG, ""), authority],
                "current-context is not set",
            ),
            (vec![(KUBECONFIG, "]"), authority], "cannot use kubeconfig"),
        ];
        for (number, (files, expected)) in table.into_iter().enumerate() {
            let judged = kubelet(&reader(&files));
            assert!(judged.message.contains(expected), "{}", judged.message);
            assert_eq!(judged.verdict == HostVerdict::Ok, number == 0);
        }
    }

    #[test]
    fn other_updaters_are_named() {
        assert_eq!(updaters(&[]).verdict, HostVerdict::Ok);
        let reason = "unit zincati.service is enabled: it updates this host by itself";
        let judged = updaters(&[reason.to_owned()]);
        assert_eq!(judged.verdict, HostVerdict::Missing);
        assert!(judged.message.starts_with(reason));
    }
}
