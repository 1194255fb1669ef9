//! Responses that are built and not sent yet.
//!
//! A response is megabytes of text, and a client may take its time to read it: without a bound,
//! slow clients fill the memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chassis::http::network;

/// Bytes of all responses: less than half of what `deploy/config-server` lets the pod have.
const MOST: usize = 96 << 20;

/// Bytes of the responses of one network, so that it leaves room for others.
const PER_NETWORK: usize = MOST / 2;

/// Bytes of responses that are not sent yet. Its clones are one.
#[derive(Debug, Clone)]
pub(crate) struct ResponsesInFlight {
    most: usize,
    per_network: usize,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    networks: HashMap<IpAddr, usize>,
}

/// There is no room for a response now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Default for ResponsesInFlight {
    fn default() -> Self {
        Self {
            most: MOST,
            per_network: PER_NETWORK,
            held: Arc::default(),
        }
    }
}

impl ResponsesInFlight {
    /// Whether a response of any size may find room: checked before one is built.
    pub(crate) fn has_room(&self, address: IpAddr) -> bool {
        self.fits(&self.held(), network(address), 1)
    }

    /// The bytes, which are counted until the last part of them is sent.
    pub(crate) fn hold(&self, address: IpAddr, text: String) -> Result<Bytes, NoRoom> {
        let network = network(address);
        let mut held = self.held();
        if !self.fits(&held, network, text.len()) {
            return Err(NoRoom);
        }
        held.all += text.len();
        *held.networks.entry(network).or_default() += text.len();
        drop(held);
        let in_flight = self.clone();
        Ok(Bytes::from_owner(PendingResponse {
            text,
            network,
            in_flight,
        }))
    }

    /// One always fits alone, whatever its size.
    fn fits(&self, held: &Held, network: IpAddr, more: usize) -> bool {
        let fits = |held: usize, most: usize| held == 0 || held.saturating_add(more) <= most;
        let of_network = held.networks.get(&network).copied().unwrap_or_default();
        fits(held.all, self.most) && fits(of_network, self.per_network)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it is held.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PendingResponse {
    text: String,
    network: IpAddr,
    in_flight: ResponsesInFlight,
}

impl AsRef<[u8]> for PendingResponse {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        let mut held = self.in_flight.held();
        held.all = held.all.saturating_sub(self.text.len());
        if let Some(of_network) = held.networks.get_mut(&self.network) {
            *of_network = of_network.saturating_sub(self.text.len());
            if *of_network == 0 {
                held.networks.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";
    const C: &str = "10.0.0.3";

    #[test]
    fn answers_that_are_not_sent_leave_no_room_for_more() {
        let in_flight = ResponsesInFlight {
            most: 10,
            per_network: 6,
            ..ResponsesInFlight::default()
        };
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let hold = |of: &str, length: usize| in_flight.hold(address(of), "x".repeat(length));
        let first = hold(A, 4).unwrap();
        assert_eq!(hold(A, 3), Err(NoRoom));
        assert!(in_flight.has_room(address(A)));
        let second = hold(A, 2).unwrap();
        assert!(!in_flight.has_room(address(A)));
        // Another network has room, as far as there is any.
        assert!(in_flight.has_room(address(B)));
        let third = hold(B, 4).unwrap();
        assert!(!in_flight.has_room(address(C)));
        // A part of a response holds all of it.
        let part = first.slice(..1);
        drop(first);
        assert!(!in_flight.has_room(address(C)));
        drop(part);
        assert!(in_flight.has_room(address(C)));
        drop((second, third));
        assert_eq!(in_flight.held().all, 0);
        assert!(in_flight.held().networks.is_empty());
        // One that is larger than all of it is still served.
        let large = hold(A, 20).unwrap();
        assert_eq!(hold(B, 1), Err(NoRoom));
        drop(large);
    }
}
