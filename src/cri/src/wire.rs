//! Messages of the two services, with the fields that are read or sent. What a message here does
//! not name is passed over unread.
//!
//! Source: `api.proto` of `k8s.io/cri-api`, package `runtime.v1`; `images.proto` of containerd,
//! package `containerd.services.images.v1`; `google/protobuf/field_mask.proto`.

use std::collections::BTreeMap;

use prost::Message;

/// A message without fields, or of which none is read.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(crate) image: String,
}

/// `ImageStatusRequest`: field 1.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
}

/// `ImageStatusResponse`: the image is missing where the runtime has none of this name.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<Image>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Image {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(bool, tag = "8")]
    pub(crate) pinned: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(message, optional, tag = "2")]
    pub(crate) auth: Option<AuthConfig>,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct AuthConfig {
    #[prost(string, tag = "1")]
    pub(crate) username: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
    /// `https://<host[:port]>`: containerd sends the credentials to no other server.
    #[prost(string, tag = "4")]
    pub(crate) server_address: String,
    #[prost(string, tag = "5")]
    pub(crate) identity_token: String,
}

impl std::fmt::Debug for AuthConfig {
    /// Without its secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthConfig")
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) image_filesystems: Vec<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilesystemUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) fs_id: Option<FilesystemIdentifier>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub(crate) mountpoint: String,
}

/// An image of containerd's own service.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Record {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) labels: BTreeMap<String, String>,
    /// The descriptor. containerd reads it in an update of labels alone, too, and ends without one.
    #[prost(message, optional, tag = "3")]
    pub(crate) target: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<Record>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) filters: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) images: Vec<Record>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdateRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<Record>,
    /// What is updated; all else of the record stays.
    #[prost(message, optional, tag = "2")]
    pub(crate) update_mask: Option<FieldMask>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldMask {
    #[prost(string, repeated, tag = "1")]
    pub(crate) paths: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_in_no_debug_output() {
        let auth = AuthConfig {
            username: "robot".to_owned(),
            password: "hunter2".to_owned(),
            server_address: "https://quay.io".to_owned(),
            identity_token: "token".to_owned(),
        };
        let request = PullRequest {
            image: None,
            auth: Some(auth),
        };
        let text = format!("{request:?}");
        assert!(text.contains("quay.io"), "{text}");
        for secret in ["robot", "hunter2", "token\""] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
