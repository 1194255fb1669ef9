use std::hash::RandomState;

use prost::bytes::Bytes;

use super::*;
use crate::node::NodeView;

/// A Node as kube-apiserver 1.36 sends it in both forms.
const PROTOBUF: &[u8] = include_bytes!("../../../tests/fixtures/node.protobuf");
const JSON: &str = include_str!("../../../tests/fixtures/node.json");

/// The message within: after `k8s\0`, the kind, a tag and its length; two empty fields follow.
fn raw() -> Bytes {
    let name = b"\x0a\x07fixture";
    let at = PROTOBUF.windows(name.len()).position(|it| it == name);
    // The metadata has a tag and a length of two bytes.
    Bytes::from_static(&PROTOBUF[at.unwrap() - 3..PROTOBUF.len() - 4])
}

fn head(node: &Node, hasher: &RandomState) -> (String, String, u64) {
    NodeView::head(&node.encode_to_vec(), hasher).unwrap()
}

#[test]
fn both_forms_of_a_node_have_the_same_view() {
    let whole: core::Node = serde_json::from_str(JSON).unwrap();
    assert_eq!(whole.metadata.name.as_deref(), Some("fixture"));
    assert_eq!(NodeView::decode(raw()).unwrap(), NodeView::parse(whole));
}

#[test]
fn a_bare_node_can_be_read() {
    let view = NodeView::decode(Bytes::new()).unwrap();
    assert_eq!(view, NodeView::parse(core::Node::default()));
}

#[test]
fn the_version_of_the_kubelet_is_read_in_both_forms() {
    // status: nodeInfo: kubeletVersion
    let bytes = Bytes::from_static(b"\x1a\x0b\x3a\x09\x3a\x07v1.34.2");
    let mut whole: core::Node = serde_json::from_str(JSON).unwrap();
    let info = whole.status.as_mut().unwrap().node_info.as_mut().unwrap();
    info.kubelet_version = "v1.34.2".to_owned();
    for view in [NodeView::decode(bytes).unwrap(), NodeView::parse(whole)] {
        assert_eq!(view.kubelet_version, "v1.34.2");
    }
}

#[test]
fn what_is_no_node_is_an_error() {
    for bytes in [
        &b"\xff"[..],
        b"\x0a\x02\x0a",
        b"\x0a\x03\x0a\x01\xff",
        // The metadata is a number.
        b"\x08\x01",
    ] {
        NodeView::decode(Bytes::from_static(bytes)).unwrap_err();
        NodeView::head(bytes, &RandomState::new()).unwrap_err();
    }
}

#[test]
fn a_heartbeat_has_the_same_content() {
    let hasher = RandomState::new();
    let (name, version, content) = NodeView::head(&raw(), &hasher).unwrap();
    let view = NodeView::decode(raw()).unwrap();
    assert_eq!((&name, &version), (&view.name, &view.resource_version));
    // Without all that is not read, as times of heartbeats.
    let node = Node::decode(raw()).unwrap();
    let before = head(&node, &hasher);
    let mut after = node;
    after.metadata.as_mut().unwrap().resource_version = "9".to_owned();
    let after = head(&after, &hasher);
    assert_eq!(after, (name, "9".to_owned(), before.2));
    // Of the specification, which kubelets do not write, all fields count.
    assert_ne!(before.2, content);
}

#[test]
fn each_change_of_what_is_read_has_another_content() {
    type Change = fn(&mut ObjectMeta, &mut NodeSpec, &mut NodeStatus);
    let changes: [Change; 12] = [
        |metadata, _, _| metadata.uid.push('x'),
        |metadata, _, _| metadata.creation_timestamp = None,
        |metadata, _, _| metadata.deletion_timestamp = Some(Time::default()),
        |metadata, _, _| drop(metadata.labels.insert("a".to_owned(), String::new())),
        |metadata, _, _| drop(metadata.labels.pop_first()),
        |metadata, _, _| drop(metadata.annotations.insert("a".to_owned(), String::new())),
        |_, spec, _| spec.unschedulable = false,
        |_, spec, _| spec.taints.swap(0, 1),
        |_, _, status| status.conditions[0].status = "False".to_owned(),
        |_, _, status| drop(status.conditions.pop()),
        |_, _, status| status.node_info.as_mut().unwrap().kubelet_version.push('x'),
        |_, _, status| status.node_info = None,
    ];
    let hasher = RandomState::new();
    let read = || Node::decode(raw()).unwrap();
    let before = head(&read(), &hasher).2;
    for (number, change) in changes.iter().enumerate() {
        let mut node = read();
        change(
            node.metadata.as_mut().unwrap(),
            node.spec.as_mut().unwrap(),
            node.status.as_mut().unwrap(),
        );
        assert_ne!(head(&node, &hasher).2, before, "change {number}");
    }
}
