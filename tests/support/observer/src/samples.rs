//! Facts that did not happen, for tests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lab::host::Boot;
use lab::registry::Request;

use crate::record::Record;
use crate::rollout::{Roll, Rollout, Workload};

/// A moment, by its second.
pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

/// A blob that was fetched between these seconds.
pub(crate) fn fetch(from: u64, to: u64) -> Request {
    Request {
        started: at(from),
        finished: at(to),
        method: "GET".to_owned(),
        path: "/v2/os/blobs/sha256:0".to_owned(),
        status: 200,
        bytes: 5,
        remote: "10.0.0.10".parse().unwrap(),
        user_agent: "skopeo".to_owned(),
    }
}

/// A boot at a second, of an OS of this content.
pub(crate) fn boot(second: u64, content: Option<&str>) -> Boot {
    Boot {
        id: second.to_string(),
        deployment: "aa.0".to_owned().try_into().unwrap(),
        content: content.map(ToOwned::to_owned),
        options: String::new(),
        started: at(second),
        ready: None,
        ended: None,
    }
}

/// Node `a` fetches a blob between these seconds, in a roll that lasts from 0 to 100.
pub(crate) fn rollout(from: u64, to: u64) -> Rollout {
    let roll = Roll {
        title: "one".to_owned(),
        config: "rendered-worker-1".to_owned(),
        content: "v2".to_owned(),
        reboots: true,
        start: at(0),
        end: at(100),
        doubts: Vec::new(),
    };
    Rollout {
        record: Record {
            audit: Vec::new(),
            boots: BTreeMap::from([("a".to_owned(), Vec::new())]),
            fetches: BTreeMap::from([("a".to_owned(), vec![fetch(from, to)])]),
        },
        rolls: vec![roll],
        workload: Workload {
            label: ("app".to_owned(), "web".to_owned()),
            needed: 5,
            max_out: 1,
        },
        is_over: true,
    }
}
