use std::time::Duration;

use apimock::protobuf::{event, field, list, object, versioned};
use apimock::{Call, Reply, Script};
use futures::StreamExt as _;

use super::*;

/// A list of one Node, as kube-apiserver 1.36 sends it.
const LIST: &[u8] = include_bytes!("../../../tests/fixtures/list.protobuf");

/// The first event of a watch of that Node.
const WATCH: &[u8] = include_bytes!("../../../tests/fixtures/watch.protobuf");

/// The response to a request for a Node that is not there.
const STATUS: &[u8] = include_bytes!("../../../tests/fixtures/status.protobuf");

const PATH: &str = "/api/v1/nodes";

/// Its version, in both.
const VERSION: &str = "4283";

fn once(bytes: &[u8]) -> Reply {
    Reply::Parts(200, vec![bytes.to_vec()], Duration::ZERO)
}

async fn read_one(reply: Reply) -> Result<Page<Bytes>, Error> {
    let (script, client) = Script::start(vec![Call::get(PATH, reply)]);
    script.drive(page(&client, PATH)).await
}

async fn read_all(reply: Reply) -> Result<Vec<ObjectEvent<Bytes>>, Error> {
    let (script, client) = Script::start(vec![Call::get(PATH, reply)]);
    let reading = async { watch(&client, PATH).await?.try_collect().await };
    script.drive(reading).await
}

fn version(object: &Bytes) -> String {
    let object = Versioned::decode(object.clone()).unwrap();
    object.metadata.unwrap().resource_version
}

fn statuses(error: &Error) -> (u16, String) {
    (error.code().unwrap(), error.to_string())
}

#[tokio::test]
async fn a_real_list_is_read() {
    let page = read_one(once(LIST)).await.unwrap();
    assert_eq!(
        page.items.iter().map(version).collect::<Vec<_>>(),
        [VERSION]
    );
    assert!(page.resource_version.parse::<u64>().is_ok());
    assert_eq!(page.r#continue, "");
}

#[tokio::test]
async fn a_page_says_where_the_next_one_is() {
    let page = read_one(once(&list("7", "next", &[b"a", b"b"]))).await;
    let page = page.unwrap();
    assert_eq!(page.items, ["a", "b"].map(Bytes::from));
    assert_eq!(
        (page.resource_version.as_str(), page.r#continue.as_str()),
        ("7", "next")
    );
}

#[tokio::test]
async fn a_real_event_is_read_wherever_its_bytes_are_cut() {
    for cut in 0..=WATCH.len() {
        let (one, other) = WATCH.split_at(cut);
        let parts = vec![one.to_vec(), other.to_vec()];
        let events = read_all(Reply::Parts(200, parts, Duration::ZERO)).await;
        let [ObjectEvent::Applied(node)] = &events.unwrap()[..] else {
            panic!("cut after {cut} bytes, it is no event");
        };
        assert_eq!(version(node), VERSION);
    }
}

#[tokio::test]
async fn each_kind_of_event_is_read() {
    let events = [
        event("ADDED", b"a"),
        event("MODIFIED", b"b"),
        event("DELETED", b"c"),
        event("BOOKMARK", &versioned("9")),
    ];
    let expected = [
        ObjectEvent::Applied(Bytes::from("a")),
        ObjectEvent::Applied(Bytes::from("b")),
        ObjectEvent::Deleted(Bytes::from("c")),
        ObjectEvent::Bookmark("9".to_owned()),
    ];
    assert_eq!(read_all(once(&events.concat())).await.unwrap(), expected);
}

#[tokio::test]
async fn a_refusal_has_its_code_and_message() {
    let refused = Reply::Parts(404, vec![STATUS.to_vec()], Duration::ZERO);
    let expected = (
        404,
        format!("GET {PATH}: 404 NotFound: nodes \"none\" not found"),
    );
    let error = read_one(refused.clone()).await.unwrap_err();
    assert_eq!(statuses(&error), expected);
    let error = read_all(refused).await.unwrap_err();
    assert_eq!(statuses(&error), expected);
    // The same as an event: what is in it is the message without what is around it.
    let status = unwrap(&Bytes::from_static(STATUS)).unwrap();
    let error = read_all(once(&event("ERROR", &status))).await.unwrap_err();
    assert_eq!(statuses(&error), expected);
    // A proxy says it in its own words.
    let text = Reply::Parts(503, vec![b"no server\n".to_vec()], Duration::ZERO);
    let error = read_one(text).await.unwrap_err();
    assert_eq!(
        statuses(&error),
        (
            503,
            format!("GET {PATH}: 503 Service Unavailable: no server")
        )
    );
}

#[tokio::test]
async fn bytes_of_another_form_are_an_error() {
    let broken = [&[0xff; 4][..], b"{}", &object(&field(1, b"x")[..2])];
    for bytes in broken {
        let error = read_one(once(bytes)).await.unwrap_err();
        assert!(matches!(error, Error::Response { .. }), "{error}");
    }
    let mut event = event("ADDED", b"a");
    // The magic number.
    let magic = event.windows(3).position(|bytes| bytes == b"k8s").unwrap();
    event[magic] = b'x';
    // The events after it are read.
    let (script, client) = Script::start(vec![Call::get(
        PATH,
        once(&[event, WATCH.to_vec()].concat()),
    )]);
    let reading = async {
        watch(&client, PATH)
            .await
            .unwrap()
            .collect::<Vec<_>>()
            .await
    };
    let read = script.drive(reading).await;
    assert!(matches!(read[0], Err(Error::Response { .. })));
    assert!(matches!(read[1], Ok(ObjectEvent::Applied(_))));
    // A frame of 4 GiB is none.
    let error = read_all(once(&[0xff; 8])).await.unwrap_err();
    assert!(matches!(error, Error::Response { .. }), "{error}");
}
