//! Paths of kinds that are fixed at compile time; those of all others are in [`crate::discovery`].
//!
//! Shape: without query. Names are written as they are: valid names of objects need no escape.

use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};

use crate::wire::escape;

/// Path of a group and version. The core has no group.
pub(crate) fn root(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", escape(group), escape(version)),
        None => format!("/api/{}", escape(api_version)),
    }
}

/// Path of all objects of a kind that has no type here, without namespaces or in one.
///
/// Shape: `api_version` is `group/version`, or `v1` for the core; `plural` as it stands in paths.
pub fn untyped(api_version: &str, namespace: Option<&str>, plural: &str) -> String {
    let root = root(api_version);
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}

/// Path of all objects of a kind, in all namespaces.
pub fn all<K: Resource<DynamicType = ()>>() -> String {
    K::url_path(&(), None)
}

/// Path of all objects of a kind in one namespace.
pub fn namespace<K>(namespace: &str) -> String
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    K::url_path(&(), Some(namespace))
}

/// Path of one object of a kind without namespaces.
pub fn object<K>(name: &str) -> String
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
{
    format!("{}/{name}", all::<K>())
}

/// Path of one object in its namespace.
pub fn namespaced<K>(namespace: &str, name: &str) -> String
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    format!("{}/{name}", self::namespace::<K>(namespace))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::{Node, Pod};

    #[test]
    fn paths_name_group_version_and_plural() {
        assert_eq!(super::all::<Pod>(), "/api/v1/pods");
        assert_eq!(super::object::<Node>("n"), "/api/v1/nodes/n");
        assert_eq!(super::namespace::<Pod>("a"), "/api/v1/namespaces/a/pods");
        assert_eq!(
            super::namespaced::<Lease>("a", "l"),
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/l"
        );
        assert_eq!(
            super::untyped("v1", Some("a"), "pods"),
            "/api/v1/namespaces/a/pods"
        );
        assert_eq!(super::untyped("a.b/v2", None, "cs"), "/apis/a.b/v2/cs");
    }
}
