//! Kubelets that the next minor release of the API server would leave too far behind.
//!
//! Source: Kubernetes, "Version Skew Policy": a kubelet may be up to three minor releases older
//! than the API server, and never newer.

use std::fmt;

use crate::list::list;
use crate::node::NodeView;

/// Minor releases that a kubelet may be older than the API server.
const SUPPORTED: u64 = 3;

/// A minor release of Kubernetes, such as 1.34.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesMinor {
    major: u64,
    minor: u64,
}

impl KubernetesMinor {
    /// Reads a version as kubelets and API servers report it: `v1.34.2`, with more after it or
    /// not. Nothing where that is none.
    pub fn parse(version: &str) -> Option<Self> {
        let mut parts = version.strip_prefix('v')?.splitn(3, '.');
        let mut number = || {
            let part = parts.next()?;
            // `parse` accepts a sign.
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse().ok())?
        };
        let (major, minor) = (number()?, number()?);
        let patch = parts.next()?;
        let starts_with_digit = patch
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_digit());
        starts_with_digit.then_some(Self { major, minor })
    }

    /// The one that is so many minor releases on.
    #[must_use]
    pub const fn plus(self, releases: u64) -> Self {
        Self {
            major: self.major,
            minor: self.minor.saturating_add(releases),
        }
    }

    /// Whether an API server of this minor release supports such a kubelet. One of another major
    /// release it does not.
    pub const fn supports(self, kubelet: Self) -> bool {
        self.major == kubelet.major
            && kubelet.minor <= self.minor
            && self.minor - kubelet.minor <= SUPPORTED
    }
}

impl fmt::Display for KubernetesMinor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A node and the version of its kubelet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeKubelet {
    pub node: String,
    /// As the kubelet reports it; empty where it does not.
    pub version: String,
}

impl fmt::Display for NodeKubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version.as_str() {
            "" => "no version",
            version => version,
        };
        write!(f, "{} ({version})", self.node)
    }
}

/// Kubelets that an API server of a minor release would not support, in the order of their nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletSkew {
    pub api_server: KubernetesMinor,
    /// Those that it would not support.
    pub unsupported: Vec<NodeKubelet>,
    /// Those whose version is missing or is no version: no one knows.
    pub unknown: Vec<NodeKubelet>,
}

impl KubeletSkew {
    /// Compares nodes with an API server of this minor release.
    pub fn of<'a>(
        api_server: KubernetesMinor,
        nodes: impl IntoIterator<Item = &'a NodeView>,
    ) -> Self {
        let mut skew = Self {
            api_server,
            unsupported: Vec::new(),
            unknown: Vec::new(),
        };
        for node in nodes {
            let kubelet = || NodeKubelet {
                node: node.name.clone(),
                version: node.kubelet_version.clone(),
            };
            match KubernetesMinor::parse(&node.kubelet_version) {
                None => skew.unknown.push(kubelet()),
                Some(version) if !api_server.supports(version) => skew.unsupported.push(kubelet()),
                Some(_) => {}
            }
        }
        skew.unsupported.sort();
        skew.unknown.sort();
        skew
    }

    pub const fn is_supported(&self) -> bool {
        self.unsupported.is_empty() && self.unknown.is_empty()
    }
}

impl fmt::Display for KubeletSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_server, .. } = self;
        let mut sentences = Vec::new();
        if !self.unsupported.is_empty() {
            sentences.push(format!(
                "an API server of {api_server} does not support kubelets of nodes {}",
                list(&self.unsupported, ", ")
            ));
        }
        if !self.unknown.is_empty() {
            sentences.push(format!(
                "unknown whether an API server of {api_server} supports kubelets of nodes {}",
                list(&self.unknown, ", ")
            ));
        }
        f.write_str(&sentences.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn minor(text: &str) -> KubernetesMinor {
        KubernetesMinor::parse(text).unwrap()
    }

    fn node(name: &str, version: &str) -> NodeView {
        let node = json!({ "metadata": { "name": name } });
        let mut view = NodeView::parse(serde_json::from_value(node).unwrap());
        version.clone_into(&mut view.kubelet_version);
        view
    }

    #[test]
    fn versions_are_those_that_kubelets_report() {
        for (text, expected) in [
            ("v1.34.2", Some("1.34")),
            ("v1.34.2+8a3f1", Some("1.34")),
            ("v1.34.0-rc.1", Some("1.34")),
            ("1.34.2", None),
            ("v1.34", None),
            ("v1.34.", None),
            ("v1.+34.2", None),
            ("v1..2", None),
            ("v1.34+.2", None),
            ("v1.99999999999999999999.2", None),
            ("", None),
            ("v", None),
        ] {
            let found = KubernetesMinor::parse(text).map(|found| found.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn three_minor_releases_are_supported_and_no_later_kubelet() {
        for (kubelet, is_supported) in [
            ("v1.34.9", true),
            ("v1.33.0", true),
            ("v1.31.0", true),
            ("v1.30.9", false),
            ("v1.35.0", false),
            ("v2.34.0", false),
        ] {
            assert_eq!(
                minor("v1.34.0").supports(minor(kubelet)),
                is_supported,
                "{kubelet}"
            );
        }
        assert!(!minor("v1.34.0").plus(1).supports(minor("v1.31.0")));
    }

    #[test]
    fn nodes_and_versions_are_named_and_an_unknown_one_is_not_good() {
        let nodes = [
            node("w2", "v1.29.4"),
            node("w1", "v1.30.1"),
            node("w3", "v1.33.0"),
            node("w5", "unknown"),
            node("w4", ""),
        ];
        let skew = KubeletSkew::of(minor("v1.34.0"), &nodes);
        assert!(!skew.is_supported());
        assert_eq!(
            skew.to_string(),
            "an API server of 1.34 does not support kubelets of nodes w1 (v1.30.1), w2 (v1.29.4); \
             unknown whether an API server of 1.34 supports kubelets of nodes w4 (no version), \
             w5 (unknown)"
        );
        let skew = KubeletSkew::of(minor("v1.33.0"), nodes.get(1..3).unwrap());
        assert!(skew.is_supported());
        assert_eq!(skew.to_string(), "");
    }

    #[test]
    fn of_many_nodes_some_are_named() {
        let nodes: Vec<NodeView> = (0..23)
            .map(|number| node(&format!("w{number:02}"), "v1.20.0"))
            .collect();
        let text = KubeletSkew::of(minor("v1.34.0"), &nodes).to_string();
        assert!(text.ends_with("w09 (v1.20.0) and 13 more"), "{text}");
    }
}
