//! A kubeconfig with all it points to read in.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig, NamedAuthInfo, NamedCluster};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a file as the identity's owner sees it: the daemon reads the kubelet's files below the
/// host's root.
pub type Reader = Box<dyn Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync>;

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Path as the kubeconfig names it.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The kubeconfig is not one, or asks for what a daemon has not: a plugin to run, a prompt.
    #[error("cannot use kubeconfig {path}: {why}")]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No client can be made of it: an unreadable certificate or key.
    #[error("cannot make a client from {path}")]
    Client {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// The client's word.
        source: Box<kube::Error>,
    },
}

const NOT_YAML: &str = "it is not a kubeconfig in YAML";
const NO_CLUSTER: &str = "the context names no cluster";

/// A kubeconfig that points to no file any more, and the bytes it was made of: equal bytes make an
/// equal client.
pub(crate) struct Material {
    pub(crate) kubeconfig: Kubeconfig,
    pub(crate) bytes: Vec<Vec<u8>>,
}

/// Reads the kubeconfig at `path` and its files. A `token` takes the place of its own credentials.
pub(crate) fn load(path: &Path, read: &Reader, token: Option<Vec<u8>>) -> Result<Material, Error> {
    let mut files = Files {
        base: path.parent().unwrap_or_else(|| Path::new("/")),
        read,
        bytes: Vec::new(),
    };
    // What it names is relative to its folder, and so is it: `path` itself may be relative to
    // another.
    let text = files.read(path.file_name().map_or(path, Path::new))?;
    let mut kubeconfig = read_yaml(path, as_text(path, &text)?)?;
    let (cluster, user) = selected(path, &mut kubeconfig)?;
    inline_authority(&mut files, cluster)?;
    match token {
        Some(token) => {
            *user = AuthInfo {
                token: Some(trimmed(&token).into()),
                ..AuthInfo::default()
            };
            files.bytes.push(token);
        }
        None => inline_credentials(path, &mut files, user)?,
    }
    Ok(Material {
        bytes: files.bytes,
        kubeconfig,
    })
}

/// Whether the kubeconfig at `path`, with the files that it names, is one that a client can be made
/// of.
///
/// # Errors
/// [`Error::Read`], [`Error::Kubeconfig`].
pub fn check(path: &Path, read: &Reader) -> Result<(), Error> {
    load(path, read, None).map(drop)
}

/// The name of the user in the current context of the kubeconfig at `path`.
///
/// # Errors
/// [`Error::Read`], [`Error::Kubeconfig`].
pub fn user_name(path: &Path, read: &Reader) -> Result<String, Error> {
    let text = read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let kubeconfig = read_yaml(path, as_text(path, &text)?)?;
    let (_, user) = context(path, &kubeconfig)?;
    if user.is_empty() {
        return Err(refuse(path, "the context names no user"));
    }
    Ok(user)
}

/// Puts another server, and the bundle that vouches for it, into the selected context.
pub(crate) fn redirect(
    path: &Path,
    material: &mut Material,
    server: &str,
    bundle: Vec<u8>,
) -> Result<(), Error> {
    let (cluster, _) = selected(path, &mut material.kubeconfig)?;
    *cluster = Cluster {
        server: Some(server.to_owned()),
        certificate_authority_data: Some(STANDARD.encode(&bundle)),
        ..Cluster::default()
    };
    material.bytes.push(bundle);
    Ok(())
}

struct Files<'a> {
    base: &'a Path,
    read: &'a Reader,
    bytes: Vec<Vec<u8>>,
}

impl Files<'_> {
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, Error> {
        let path: PathBuf = self.base.join(path);
        let bytes = (self.read)(&path).map_err(|source| Error::Read { path, source })?;
        self.bytes.push(bytes.clone());
        Ok(bytes)
    }

    /// Base64, as the `…-data` fields have it.
    fn read_data(&mut self, path: &str) -> Result<String, Error> {
        Ok(STANDARD.encode(self.read(Path::new(path))?))
    }
}

fn as_text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| refuse(path, "it is not UTF-8"))
}

/// The one document of a text. The parser's message is dropped, because it may quote the text,
/// which holds keys.
fn read_yaml<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Error> {
    // Text that kubectl takes for text, as a token of digits, is not rewritten as a number.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|_| refuse(path, NOT_YAML))
}

/// The text of a kubeconfig with another authority for the server of its current context; all else
/// of it is kept.
///
/// Shape: `path` names it in errors; `bundle` is PEM and is written inline. Nothing where the
/// authority is that already, or where the server's is not asked for.
///
/// # Errors
/// [`Error::Kubeconfig`].
pub fn with_authority(path: &Path, text: &[u8], bundle: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    const DATA: &str = "certificate-authority-data";
    const FILE: &str = "certificate-authority";
    const INSECURE: &str = "insecure-skip-tls-verify";
    let text = as_text(path, text)?;
    let (name, _) = context(path, &read_yaml(path, text)?)?;
    // Written from what was read without types, so that nothing is lost that this program does not
    // know.
    let mut whole: Value = read_yaml(path, text)?;
    let cluster = whole
        .get_mut("clusters")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .find(|named| named.get("name").and_then(Value::as_str) == Some(&name))
        .and_then(|named| named.get_mut("cluster"))
        .and_then(Value::as_object_mut)
        .ok_or_else(|| refuse(path, NO_CLUSTER))?;
    // Clients refuse to start with both.
    if cluster.get(INSECURE).and_then(Value::as_bool) == Some(true) {
        return Ok(None);
    }
    // Of both, the data count.
    let is_file_gone = cluster.remove(FILE).is_some();
    let before = cluster.insert(DATA.into(), STANDARD.encode(bundle).into());
    let before = before.as_ref().and_then(Value::as_str);
    let before = before.and_then(|data| STANDARD.decode(data).ok());
    let is_same = before.is_some_and(|pem| pem.trim_ascii() == bundle.trim_ascii());
    if is_same && !is_file_gone {
        return Ok(None);
    }
    let text = serde_saphyr::to_string(&whole).map_err(|_| refuse(path, NOT_YAML))?;
    Ok(Some(text.into_bytes()))
}

/// Names of cluster and user in the current context.
fn context(path: &Path, kubeconfig: &Kubeconfig) -> Result<(String, String), Error> {
    let name = kubeconfig
        .current_context
        .as_deref()
        .ok_or_else(|| refuse(path, "current-context is not set"))?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|context| context.name == name)
        .and_then(|context| context.context.as_ref())
        .ok_or_else(|| refuse(path, "current-context names no context"))?;
    let user = context.user.clone().unwrap_or_default();
    Ok((context.cluster.clone(), user))
}

/// Cluster and user of the current context.
fn selected<'a>(
    path: &Path,
    kubeconfig: &'a mut Kubeconfig,
) -> Result<(&'a mut Cluster, &'a mut AuthInfo), Error> {
    let (cluster_name, user_name) = context(path, kubeconfig)?;
    let cluster = kubeconfig
        .clusters
        .iter_mut()
        .find(|named| named.name == cluster_name)
        .and_then(|NamedCluster { cluster, .. }| cluster.as_mut())
        .ok_or_else(|| refuse(path, NO_CLUSTER))?;
    let user = kubeconfig
        .auth_infos
        .iter_mut()
        .find(|named| named.name == user_name)
        .and_then(|NamedAuthInfo { auth_info, .. }| auth_info.as_mut())
        .ok_or_else(|| refuse(path, "the context names no user"))?;
    Ok((cluster, user))
}

fn inline_authority(files: &mut Files<'_>, cluster: &mut Cluster) -> Result<(), Error> {
    if let Some(file) = cluster.certificate_authority.take()
        && cluster.certificate_authority_data.is_none()
    {
        cluster.certificate_authority_data = Some(files.read_data(&file)?);
    }
    Ok(())
}

fn inline_credentials(
    path: &Path,
    files: &mut Files<'_>,
    user: &mut AuthInfo,
) -> Result<(), Error> {
    if user.exec.is_some() || user.auth_provider.is_some() {
        return Err(refuse(path, "it asks to run a credential plugin"));
    }
    if let Some(file) = user.client_certificate.take()
        && user.client_certificate_data.is_none()
    {
        user.client_certificate_data = Some(files.read_data(&file)?);
    }
    if let Some(file) = user.client_key.take()
        && user.client_key_data.is_none()
    {
        user.client_key_data = Some(files.read_data(&file)?.into());
    }
    if let Some(file) = user.token_file.take()
        && user.token.is_none()
    {
        let token = files.read(Path::new(&file))?;
        user.token = Some(trimmed(&token).into());
    }
    Ok(())
}

fn trimmed(token: &[u8]) -> String {
    String::from_utf8_lossy(token).trim().to_owned()
}

fn refuse(path: &Path, why: &str) -> Error {
    Error::Kubeconfig {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;

    use super::*;

    const KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";
    const TEXT: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://api-int:6443', certificate-authority: /etc/kubernetes/ca.crt}}]
users: [{name: u, user: {client-certificate: pki/kubelet-client-current.pem, client-key: pki/kubelet-client-current.pem}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";

    fn reader(files: &[(&str, &str)]) -> Reader {
        let files: BTreeMap<PathBuf, String> = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect();
        Box::new(move |path| {
            let text = files.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(text.clone().into_bytes())
        })
    }

    fn files(pem: &str) -> Reader {
        reader(&[
            (KUBECONFIG, TEXT),
            ("/etc/kubernetes/ca.crt", "authority"),
            ("/var/lib/kubelet/pki/kubelet-client-current.pem", pem),
        ])
    }

    #[test]
    fn files_are_read_in_relative_to_the_kubeconfig() {
        let material = load(Path::new(KUBECONFIG), &files("pem"), None).unwrap();
        let user = material.kubeconfig.auth_infos[0]
            .auth_info
            .as_ref()
            .unwrap();
        assert_eq!(user.client_certificate_data.as_deref(), Some("cGVt"));
        assert!(user.client_certificate.is_none() && user.client_key.is_none());
        let cluster = material.kubeconfig.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(
            cluster.certificate_authority_data.as_deref(),
            Some("YXV0aG9yaXR5")
        );
    }

    #[test]
    fn a_rotated_certificate_is_other_material() {
        let load = |pem| {
            load(Path::new(KUBECONFIG), &files(pem), None)
                .unwrap()
                .bytes
        };
        assert_eq!(load("old"), load("old"));
        assert_ne!(load("old"), load("new"));
    }

    #[test]
    fn a_service_account_keeps_server_and_authority_only() {
        let read = reader(&[(KUBECONFIG, TEXT), ("/etc/kubernetes/ca.crt", "authority")]);
        let material = load(Path::new(KUBECONFIG), &read, Some(b"token\n".to_vec())).unwrap();
        let user = material.kubeconfig.auth_infos[0]
            .auth_info
            .as_ref()
            .unwrap();
        assert!(user.token.is_some() && user.client_certificate.is_none());
        let cluster = material.kubeconfig.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://api-int:6443"));
    }

    #[test]
    fn what_cannot_be_used_names_the_file() {
        let table = [
            (
                "no kubeconfig",
                "cannot use kubeconfig /k: it is not a kubeconfig in YAML",
            ),
            (
                "kind: Config",
                "cannot use kubeconfig /k: current-context is not set",
            ),
            (
                "current-context: x",
                "cannot use kubeconfig /k: current-context names no context",
            ),
        ];
        for (text, expected) in table {
            let error = load(Path::new("/k"), &reader(&[("/k", text)]), None)
                .err()
                .unwrap();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn plugins_are_refused() {
        let text = TEXT.replace(
            "client-certificate: pki/kubelet-client-current.pem, client-key: pki/kubelet-client-current.pem",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}",
        );
        let read = reader(&[(KUBECONFIG, &text), ("/etc/kubernetes/ca.crt", "authority")]);
        let error = load(Path::new(KUBECONFIG), &read, None).err().unwrap();
        assert!(error.to_string().ends_with("credential plugin"), "{error}");
    }

    #[test]
    fn an_authority_is_replaced_and_all_else_is_kept() {
        let change = |text: &str| with_authority(Path::new("/k"), text.as_bytes(), b"new");
        let text =
            TEXT.replace("server:", "tls-server-name: api, server:") + "clusters-of-others: [1]\n";
        let text = text.replace(
            "name: u,",
            "name: u, token: 0123, password: yes, other: 1_0,",
        );
        let changed = String::from_utf8(change(&text).unwrap().unwrap()).unwrap();
        let mut expected: Value = read_yaml(Path::new("/k"), &text).unwrap();
        let cluster = expected["clusters"][0]["cluster"].as_object_mut().unwrap();
        cluster.remove("certificate-authority");
        cluster.insert("certificate-authority-data".into(), "bmV3".into());
        assert_eq!(
            read_yaml::<Value>(Path::new("/k"), &changed).unwrap(),
            expected
        );
        assert_eq!(
            change(&changed).unwrap(),
            None,
            "it has that authority already"
        );
        assert!(
            changed.contains(r#"token: "0123""#)
                && changed.contains(r#"password: "yes""#)
                && changed.contains(r#"other: "1_0""#),
            "text stays text: {changed}"
        );
        let padded = changed.replace("bmV3", &STANDARD.encode("\nnew\n"));
        assert_eq!(change(&padded).unwrap(), None, "but for white space");
        let trusting = text.replace("server:", "insecure-skip-tls-verify: true, server:");
        assert_eq!(change(&trusting).unwrap(), None, "it asks for none");
        let read = files("pem");
        let with = move |path: &Path| match path.to_str() {
            Some(KUBECONFIG) => Ok(changed.clone().into_bytes()),
            _ => read(path),
        };
        load(Path::new(KUBECONFIG), &(Box::new(with) as Reader), None).unwrap();
        for (text, why) in [
            ("current-context: x", "no context"),
            ("no kubeconfig", "in YAML"),
        ] {
            let error = change(text).unwrap_err().to_string();
            assert!(
                error.starts_with("cannot use kubeconfig /k: ") && error.ends_with(why),
                "{error}"
            );
        }
    }

    #[test]
    fn a_kubeconfig_is_found_by_a_relative_path() {
        for (path, authority) in [("run/kubeconfig", "run/ca.crt"), ("kubeconfig", "ca.crt")] {
            let text = TEXT.replace("/etc/kubernetes/", "");
            let read = reader(&[(path, &text), (authority, "authority")]);
            load(Path::new(path), &read, Some(b"token".to_vec())).unwrap();
        }
    }
}
