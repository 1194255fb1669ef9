//! Which OS runs on the host, and in which version: a metric.

use host::files::Root;

/// Where an OS says what it is; usually a link into `/usr`.
const OS_RELEASE: &str = "/etc/os-release";

/// Name and version of an OS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOs {
    /// `ID`, in capitals.
    pub name: String,
    /// The version of the OS itself.
    pub version: String,
}

impl HostOs {
    /// Reads what runs on the host; a host that does not say is `unsupported`.
    pub fn read(root: &Root) -> Self {
        let read = root.read(OS_RELEASE).ok().flatten();
        let text = read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let os = text.as_deref().and_then(Self::parse);
        os.unwrap_or_else(Self::unsupported)
    }

    /// What does not say what it is.
    pub fn unsupported() -> Self {
        Self {
            name: "unsupported".to_owned(),
            version: String::new(),
        }
    }

    /// Source: os-release(5). The version is `RHEL_VERSION`, else `VERSION` without the cluster's
    /// version before it (`416.` where `OPENSHIFT_VERSION` is `4.16`), else `VERSION_ID`.
    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| value_of(line, key));
        let own = || {
            let cluster = value("OPENSHIFT_VERSION")?.replace('.', "");
            let version = value("VERSION")?;
            let own = version.strip_prefix(&cluster)?.strip_prefix('.')?;
            Some(own.to_owned())
        };
        Some(Self {
            name: value("ID")?.to_uppercase(),
            version: value("RHEL_VERSION")
                .or_else(own)
                .or_else(|| value("VERSION_ID"))
                .unwrap_or_default(),
        })
    }
}

fn value_of(line: &str, key: &str) -> Option<String> {
    let value = line.strip_prefix(key)?.strip_prefix('=')?.trim();
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    Some(
        inner('"')
            .or_else(|| inner('\''))
            .unwrap_or(value)
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_os_and_not_of_its_cluster() {
        let of = |text: &str| HostOs::parse(text).map(|os| format!("{} {}", os.name, os.version));
        let cluster = "ID=\"rhcos\"\nVERSION=\"416.94.2024\"\nOPENSHIFT_VERSION=\"4.16\"\n";
        assert_eq!(of(cluster).as_deref(), Some("RHCOS 94.2024"));
        let rhel = format!("{cluster}RHEL_VERSION=9.4\n");
        assert_eq!(of(&rhel).as_deref(), Some("RHCOS 9.4"));
        let fedora = "ID=fedora\nVERSION='40.2024 (CoreOS)'\nVERSION_ID=40\n";
        assert_eq!(of(fedora).as_deref(), Some("FEDORA 40"));
        assert_eq!(of("NAME=x\n"), None);
    }
}
