//! The files that say how images are pulled: read from the host, and laid out for one pull.

use std::fs;
use std::io;
use std::path::Path;
#[cfg(feature = "ostree")]
use std::time::Duration;

use node_update::plan::{Mode, OwnerIds};
#[cfg(feature = "ostree")]
use node_update::pull::by_digest;
use node_update::pull::{
    CREDENTIALS, DIRECTORIES, FILES, PullFiles, PullSettings, RUNTIME_PULL_SECRET,
};

use crate::files::{Content, Error, Found, Root};
#[cfg(feature = "ostree")]
use crate::process;

/// Directories that a host's Go programs read authorities from, by default.
const AUTHORITIES: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// The files of a host, and those that its OS ships in their place.
///
/// # Errors
/// A path cannot be read.
pub fn read(root: &Root) -> Result<(PullFiles, PullFiles), Error> {
    let mut host = PullFiles::new();
    let mut shipped = PullFiles::new();
    let mut paths: Vec<String> = FILES.iter().map(ToString::to_string).collect();
    for path in CREDENTIALS {
        // OpenShift's MCO makes a link of it, which leads to another of these files.
        let is_link = matches!(root.inspect(path)?, Found::Link(_));
        if path != RUNTIME_PULL_SECRET || !is_link {
            paths.push(path.to_owned());
        }
    }
    for (directory, levels) in DIRECTORIES {
        for prefix in ["", "/usr"] {
            list(root, prefix, directory, levels, &mut paths)?;
        }
    }
    paths.sort();
    paths.dedup();
    for path in paths {
        if let Some(bytes) = root.read(&path)? {
            host.insert(path.clone(), bytes);
        }
        if path.starts_with("/etc/")
            && let Some(bytes) = root.read(&format!("/usr{path}"))?
        {
            shipped.insert(path, bytes);
        }
    }
    Ok((host, shipped))
}

fn list(
    root: &Root,
    prefix: &str,
    directory: &str,
    levels: usize,
    paths: &mut Vec<String>,
) -> Result<(), Error> {
    for name in root.list(&root.follow(&format!("{prefix}{directory}"))?)? {
        let path = format!("{directory}/{name}");
        if levels > 1 {
            list(root, prefix, &path, levels - 1, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// How long skopeo may take to show what an image's name stands for.
#[cfg(feature = "ostree")]
const INSPECT_WITHIN: Duration = Duration::from_mins(1);

/// The architecture of this program, by the name that images have for it.
///
/// Source: image-spec, "Image Index Property Descriptions": the names of Go.
pub const fn architecture() -> &'static str {
    match std::env::consts::ARCH.as_bytes() {
        b"x86_64" => "amd64",
        b"aarch64" => "arm64",
        b"powerpc64" => "ppc64le",
        _ => std::env::consts::ARCH,
    }
}

/// How skopeo is run so that it follows settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Puller {
    /// File of credentials.
    pub authfile: Option<String>,
    /// Options before the command: those that say which files to read instead of the host's.
    pub options: Vec<String>,
    /// Beside the usual environment: proxy settings, a home directory.
    pub environment: Vec<(String, String)>,
}

#[cfg(feature = "ostree")]
impl Puller {
    /// The manifest or index that a registry has for an image, as it is there.
    ///
    /// # Errors
    /// Those of skopeo, with the end of its standard error.
    pub fn manifest(&self, image: &str) -> Result<Vec<u8>, process::Error> {
        let mut arguments = self.options.clone();
        arguments.extend(["inspect", "--raw"].map(str::to_owned));
        match &self.authfile {
            Some(file) => arguments.extend(["--authfile".to_owned(), file.clone()]),
            None => arguments.push("--no-creds".to_owned()),
        }
        arguments.push(format!("docker://{}", by_digest(image)));
        process::inspect(&arguments, &self.environment, INSPECT_WITHIN)
    }
}

/// Lays out settings in the directory `home`, which only root can enter, in place of what is there.
///
/// Nothing that the running host reads is written.
///
/// # Errors
/// The directory cannot be written.
pub fn lay_out(root: &Root, home: &str, settings: &PullSettings) -> Result<Puller, Error> {
    remove(root, home)?;
    let top = root.locate(home)?;
    root.make_directory(&top, Mode(0o700), OwnerIds::ROOT)?;
    let write = |name: &str, bytes: &[u8]| -> Result<String, Error> {
        let path = format!("{home}/{name}");
        let content = Content {
            bytes,
            mode: Mode(0o600),
            owner: OwnerIds::ROOT,
        };
        root.replace(&root.locate(&path)?, content)?;
        Ok(path)
    };
    let mut puller = Puller::default();
    if let Some(credentials) = &settings.credentials {
        puller.authfile = Some(write("auth.json", credentials)?);
    }
    if settings.home.is_empty() {
        return Ok(puller);
    }
    for (name, bytes) in &settings.home {
        write(name, bytes)?;
    }
    for name in &settings.directories {
        let at = root.locate(&format!("{home}/{name}"))?;
        for above in root.missing_parents(&at)? {
            root.make_directory(&above, Mode(0o700), OwnerIds::ROOT)?;
        }
        root.make_directory(&at, Mode(0o700), OwnerIds::ROOT)?;
    }
    let path = |name: &str| format!("{home}/{name}");
    if settings.home.contains_key(&PullSettings::policy_path()) {
        puller.options = vec!["--policy".to_owned(), path(&PullSettings::policy_path())];
    }
    let lookaside = [
        "--registries.d".to_owned(),
        path(&PullSettings::lookaside()),
    ];
    puller.options.extend(lookaside);
    // A registries.conf here takes the place of the host's and of its drop-ins, and certificates
    // of a registry here that of the host's.
    let mut set = |name: &str, value: String| puller.environment.push((name.to_owned(), value));
    set("HOME", home.to_owned());
    set("XDG_CONFIG_HOME", path(".config"));
    let anchors = format!("{}/", PullSettings::anchors());
    if settings.home.keys().any(|name| name.starts_with(&anchors)) {
        let own = path(PullSettings::anchors());
        let all: Vec<&str> = AUTHORITIES.into_iter().chain([own.as_str()]).collect();
        set("SSL_CERT_DIR", all.join(":"));
    }
    Ok(puller)
}

/// Removes what [`lay_out`] wrote.
///
/// # Errors
/// The directory cannot be removed.
pub fn remove(root: &Root, home: &str) -> Result<(), Error> {
    let relative = root.locate(home)?;
    let path = root.path().join(relative.as_str().trim_start_matches('/'));
    match fs::remove_dir_all(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Remove {
            path: shown(&path),
            source,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use node_update::pull::{self, FileChanges};

    use super::*;

    const HOME: &str = "/run/slipway/pull";

    fn put(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::io::Write::write_all(&mut fs::File::create(path).unwrap(), text.as_bytes()).unwrap();
    }

    #[test]
    fn files_of_the_host_and_of_its_os_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        put(dir.path(), "etc/containers/registries.conf.d/a.conf", "a");
        put(
            dir.path(),
            "usr/etc/containers/registries.conf.d/b.conf",
            "b",
        );
        put(dir.path(), "etc/docker/certs.d/r:5000/ca.crt", "ca");
        put(dir.path(), "var/lib/kubelet/config.json", "{}");
        fs::create_dir_all(dir.path().join("run/ostree")).unwrap();
        symlink(
            "../../var/lib/kubelet/config.json",
            dir.path().join("run/ostree/auth.json"),
        )
        .unwrap();
        let (host, shipped) = read(&root).unwrap();
        assert_eq!(
            host.keys().collect::<Vec<_>>(),
            [
                "/etc/containers/registries.conf.d/a.conf",
                "/etc/docker/certs.d/r:5000/ca.crt",
                "/var/lib/kubelet/config.json",
            ]
        );
        assert_eq!(
            shipped.keys().collect::<Vec<_>>(),
            ["/etc/containers/registries.conf.d/b.conf"]
        );
    }

    #[test]
    fn settings_are_laid_out_for_root_alone_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let host = PullFiles::from([("/run/ostree/auth.json".to_owned(), b"{}".to_vec())]);
        let policy = br#"{"default":[{"type":"reject"}]}"#;
        let changes = FileChanges::from([
            ("/etc/containers/policy.json", Some(&policy[..])),
            ("/etc/pki/ca-trust/source/anchors/own.crt", Some(&b"CA"[..])),
        ]);
        let settings = pull::settings(&host, &PullFiles::new(), &changes, HOME).unwrap();
        put(dir.path(), "run/slipway/pull/old", "left by a killed run");
        let puller = lay_out(&root, HOME, &settings).unwrap();
        let home = dir.path().join("run/slipway/pull");
        assert_eq!(fs::metadata(&home).unwrap().mode() & 0o777, 0o700);
        assert_eq!(
            fs::metadata(home.join("auth.json")).unwrap().mode() & 0o777,
            0o600
        );
        assert!(!home.join("old").exists());
        assert_eq!(puller.authfile.unwrap(), format!("{HOME}/auth.json"));
        assert_eq!(
            puller.options.join(" "),
            format!(
                "--policy {HOME}/.config/containers/policy.json \
                 --registries.d {HOME}/.config/containers/registries.d"
            )
        );
        let environment = |name: &str| {
            let mut all = puller.environment.iter();
            all.find(|(known, _)| known == name).unwrap().1.clone()
        };
        assert_eq!(environment("HOME"), HOME);
        assert_eq!(
            environment("SSL_CERT_DIR"),
            format!("/etc/ssl/certs:/etc/pki/tls/certs:{HOME}/anchors")
        );
        remove(&root, HOME).unwrap();
        remove(&root, HOME).unwrap();
        assert!(!home.exists());
    }

    #[test]
    fn a_target_without_settings_of_its_own_needs_credentials_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let settings = PullSettings::default();
        fs::create_dir_all(dir.path().join("run/slipway")).unwrap();
        assert_eq!(lay_out(&root, HOME, &settings).unwrap(), Puller::default());
    }
}
