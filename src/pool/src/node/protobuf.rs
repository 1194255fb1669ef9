//! A Node in the API server's protobuf form, read narrowly.
//!
//! Source: `generated.proto` of `k8s.io/api/core/v1` and of `k8s.io/apimachinery/pkg/apis/meta/v1`.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use prost::encoding::{
    DecodeContext, WireType, check_wire_type, decode_key, decode_varint, skip_field, string,
};
use prost::{DecodeError, Message};

/// Of a Node only what [`NodeView`](super::NodeView) needs. The rest, images and managed fields
/// above all, is nine tenths of it; it is passed over, because each heartbeat of each kubelet
/// brings it again.
#[derive(Message)]
pub(super) struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<NodeSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<NodeStatus>,
}

#[derive(Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
}

#[derive(Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Message)]
struct NodeSpec {
    #[prost(bool, tag = "4")]
    unschedulable: bool,
    #[prost(message, repeated, tag = "5")]
    taints: Vec<Taint>,
}

#[derive(Message)]
struct Taint {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(string, tag = "3")]
    effect: String,
    #[prost(message, optional, tag = "4")]
    time_added: Option<Time>,
}

#[derive(Message)]
struct NodeStatus {
    #[prost(message, repeated, tag = "4")]
    conditions: Vec<NodeCondition>,
    #[prost(message, optional, tag = "7")]
    node_info: Option<NodeSystemInfo>,
}

#[derive(Message)]
struct NodeSystemInfo {
    #[prost(string, tag = "7")]
    kubelet_version: String,
}

#[derive(Message)]
struct NodeCondition {
    #[prost(string, tag = "1")]
    r#type: String,
    #[prost(string, tag = "2")]
    status: String,
}

/// Of a Node its name, its version, and a number that is another one where anything else differs
/// that [`Node`] reads. Nothing is copied but name and version.
///
/// Errors: the bytes are no such message.
pub(super) fn head(
    node: &[u8],
    hasher: &impl BuildHasher,
) -> Result<(String, String, u64), DecodeError> {
    let (mut name, mut version) = (String::new(), String::new());
    let mut content = hasher.build_hasher();
    each_field(node, |field| {
        match field.tag {
            // metadata
            1 => each_field(field.content()?, |field| {
                match field.tag {
                    1 => name = field.text()?,
                    6 => version = field.text()?,
                    // uid, creationTimestamp, deletionTimestamp, labels, annotations
                    5 | 8 | 9 | 11 | 12 => field.count(&mut content),
                    _ => {}
                }
                Ok(())
            })?,
            // spec
            2 => field.count(&mut content),
            3 => each_field(field.content()?, |field| count_status(field, &mut content))?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((name, version, content.finish()))
}

/// Counts what is read of a field of the status: of conditions type and status, of the node's
/// description the version of its kubelet.
fn count_status(field: &Field<'_>, content: &mut impl Hasher) -> Result<(), DecodeError> {
    let counts = |inner: u32| match field.tag {
        4 => matches!(inner, 1 | 2),
        7 => inner == 7,
        _ => false,
    };
    if !matches!(field.tag, 4 | 7) {
        return Ok(());
    }
    content.write_u32(field.tag);
    each_field(field.content()?, |field| {
        if counts(field.tag) {
            field.count(content);
        }
        Ok(())
    })
}

/// A field of a message. Of fields that name or count nothing here only the length is read.
struct Field<'a> {
    tag: u32,
    form: WireType,
    /// All that follows the key: of text and messages the length, too.
    value: &'a [u8],
}

impl<'a> Field<'a> {
    /// The text or message that it is.
    fn content(&self) -> Result<&'a [u8], DecodeError> {
        check_wire_type(WireType::LengthDelimited, self.form)?;
        let mut value = self.value;
        decode_varint(&mut value)?;
        Ok(value)
    }

    fn text(&self) -> Result<String, DecodeError> {
        let mut text = String::new();
        let (mut value, context) = (self.value, DecodeContext::default());
        string::merge(self.form, &mut text, &mut value, context)?;
        Ok(text)
    }

    fn count(&self, content: &mut impl Hasher) {
        content.write_u32(self.tag);
        content.write(self.value);
    }
}

/// Shows `read` the fields of a message, in their order.
///
/// Errors: those of `read`; the bytes are no message.
fn each_field<'a>(
    mut message: &'a [u8],
    mut read: impl FnMut(&Field<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while !message.is_empty() {
        let (tag, form) = decode_key(&mut message)?;
        let rest = message;
        skip_field(form, tag, &mut message, DecodeContext::default())?;
        let value = rest.split_at(rest.len() - message.len()).0;
        read(&Field { tag, form, value })?;
    }
    Ok(())
}

impl From<Node> for core::Node {
    fn from(node: Node) -> Self {
        let spec = node.spec.map(|spec| core::NodeSpec {
            unschedulable: Some(spec.unschedulable),
            taints: Some(spec.taints.into_iter().map(Taint::read).collect()),
            ..core::NodeSpec::default()
        });
        let status = node.status.map(|status| core::NodeStatus {
            conditions: Some(
                status
                    .conditions
                    .into_iter()
                    .map(NodeCondition::read)
                    .collect(),
            ),
            node_info: status.node_info.map(|info| core::NodeSystemInfo {
                kubelet_version: info.kubelet_version,
                ..core::NodeSystemInfo::default()
            }),
            ..core::NodeStatus::default()
        });
        let metadata = node.metadata.unwrap_or_default();
        Self {
            metadata: meta::ObjectMeta {
                name: Some(metadata.name),
                uid: Some(metadata.uid),
                resource_version: Some(metadata.resource_version),
                creation_timestamp: metadata.creation_timestamp.and_then(Time::read),
                deletion_timestamp: metadata.deletion_timestamp.and_then(Time::read),
                labels: Some(metadata.labels),
                annotations: Some(metadata.annotations),
                ..meta::ObjectMeta::default()
            },
            spec,
            status,
        }
    }
}

impl Time {
    /// None where it is out of the range of years that are written with four digits.
    fn read(self) -> Option<meta::Time> {
        Timestamp::new(self.seconds, self.nanos)
            .ok()
            .map(meta::Time)
    }
}

impl Taint {
    fn read(self) -> core::Taint {
        core::Taint {
            key: self.key,
            value: Some(self.value).filter(|value| !value.is_empty()),
            effect: self.effect,
            time_added: self.time_added.and_then(Time::read),
        }
    }
}

impl NodeCondition {
    fn read(self) -> core::NodeCondition {
        core::NodeCondition {
            type_: self.r#type,
            status: self.status,
            ..core::NodeCondition::default()
        }
    }
}

#[cfg(test)]
mod tests;
