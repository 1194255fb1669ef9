//! Messages that the fake reads and sends.
//!
//! Source: `api.proto` of `k8s.io/cri-api`; `images.proto` and `descriptor.proto` of containerd.

use std::collections::BTreeMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionResponse {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(string, tag = "2")]
    pub(crate) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(crate) runtime_version: String,
    #[prost(string, tag = "4")]
    pub(crate) runtime_api_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(crate) image: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<Image>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Image {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(uint64, tag = "4")]
    pub(crate) size: u64,
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
pub(crate) struct AuthConfig {
    #[prost(string, tag = "1")]
    pub(crate) username: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
    #[prost(string, tag = "4")]
    pub(crate) server_address: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullResponse {
    #[prost(string, tag = "1")]
    pub(crate) image_ref: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) image_filesystems: Vec<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilesystemUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) fs_id: Option<FilesystemIdentifier>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub(crate) mountpoint: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Record {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) labels: BTreeMap<String, String>,
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
    #[prost(message, optional, tag = "2")]
    pub(crate) update_mask: Option<FieldMask>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldMask {
    #[prost(string, repeated, tag = "1")]
    pub(crate) paths: Vec<String>,
}
