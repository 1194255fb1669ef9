//! Which connections a server holds, and which of them gives its place to a new one.
//!
//! A client that opens connections and says nothing must not keep others out: least of all a probe,
//! whose failure ends the process.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use super::turn::{Turn, Waiting};

/// The network that an address counts for where clients share a limit: an address of IPv4 itself,
/// and of IPv6 its /64, because one host may use all addresses of it.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let prefix = address.to_bits() & (u128::MAX << 64);
            Ipv6Addr::from_bits(prefix).into()
        }
    }
}

/// The connections of a server; `H` is what ends one.
#[derive(Debug)]
pub(super) struct Places<H> {
    most: usize,
    per_network: usize,
    held: Vec<Place<H>>,
}

/// A connection that is held.
#[derive(Debug)]
struct Place<H> {
    network: IpAddr,
    turn: Turn,
    handle: H,
}

/// What follows for a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission<H> {
    /// It is served.
    Free,
    /// It is served once this one has ended, which has no place any more.
    InPlaceOf(H),
    /// Its network has as many as it may have, each with a request under way.
    Crowded,
    /// Each place has a request under way.
    Full,
}

impl<H> Places<H> {
    pub(super) const fn new(most: usize, per_network: usize) -> Self {
        Self {
            most,
            per_network,
            held: Vec::new(),
        }
    }

    /// Makes room for a connection of a network.
    pub(super) fn admit(&mut self, network: IpAddr) -> Admission<H> {
        let held = self.held.iter();
        let held: Vec<_> = held
            .map(|place| (place.network, place.turn.waiting()))
            .collect();
        match choose(&held, network, self.most, self.per_network) {
            Admission::Free => Admission::Free,
            Admission::InPlaceOf(at) => Admission::InPlaceOf(self.held.swap_remove(at).handle),
            Admission::Crowded => Admission::Crowded,
            Admission::Full => Admission::Full,
        }
    }

    /// Holds a connection that was admitted.
    pub(super) fn hold(&mut self, network: IpAddr, turn: Turn, handle: H) {
        self.held.push(Place {
            network,
            turn,
            handle,
        });
    }

    /// Forgets the connections that have ended.
    pub(super) fn release(&mut self, has_ended: impl Fn(&H) -> bool) {
        self.held.retain(|place| !has_ended(&place.handle));
    }
}

/// Which connection, by its index, gives its place to one of `network`, if any has to.
///
/// Only one that waits does: first those that have never sent a whole request, of them the
/// network's that holds most places, of these the oldest.
fn choose(
    held: &[(IpAddr, Option<Waiting>)],
    network: IpAddr,
    most: usize,
    per_network: usize,
) -> Admission<usize> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (network, _) in held {
        *counts.entry(*network).or_default() += 1;
    }
    let count = |network: &IpAddr| counts.get(network).copied().unwrap_or_default();
    let is_crowded = count(&network) >= per_network;
    if !is_crowded && held.len() < most {
        return Admission::Free;
    }
    let waiting = held
        .iter()
        .enumerate()
        .filter_map(|(index, (of, waiting))| {
            // A network at its limit takes no place from another.
            let may_end = !is_crowded || *of == network;
            let waiting = waiting.filter(|_| may_end)?;
            let (has_asked, since) = match waiting {
                Waiting::Silent(since) => (false, since),
                Waiting::Idle(since) => (true, since),
            };
            Some((has_asked, Reverse(count(of)), since, index))
        });
    match waiting.min() {
        Some((.., index)) => Admission::InPlaceOf(index),
        None if is_crowded => Admission::Crowded,
        None => Admission::Full,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";
    const C: &str = "10.0.0.3";

    #[test]
    fn host_of_ipv6_counts_as_its_network() {
        let table = [
            (A, A),
            ("::ffff:10.0.0.1", A),
            ("fd00:1:2:3:4:5:6:7", "fd00:1:2:3::"),
            ("fd00:1:2:3::9", "fd00:1:2:3::"),
            ("fd00:1:2:4::9", "fd00:1:2:4::"),
        ];
        for (address, expected) in table {
            let found = network(address.parse().unwrap());
            assert_eq!(found.to_string(), expected, "{address}");
        }
    }

    #[test]
    fn connection_that_waits_gives_its_place_and_one_with_a_request_never() {
        use Admission::{Crowded, Free, Full, InPlaceOf};
        let began = Instant::now();
        let at = |secs| began + Duration::from_secs(secs);
        let silent = |secs| Some(Waiting::Silent(at(secs)));
        let idle = |secs| Some(Waiting::Idle(at(secs)));
        // Three places, two of them at most for one network.
        let table = [
            (vec![], A, Free),
            (vec![(A, None), (B, silent(0))], A, Free),
            // The oldest one that never sent a request.
            (
                vec![(A, silent(2)), (B, silent(1)), (C, None)],
                C,
                InPlaceOf(1),
            ),
            // Before one that did, however long that one waits.
            (
                vec![(A, idle(0)), (B, silent(5)), (C, None)],
                C,
                InPlaceOf(1),
            ),
            (vec![(A, None), (B, idle(5)), (C, idle(4))], A, InPlaceOf(2)),
            // The network with most places loses one, though another waits longer.
            (
                vec![(B, silent(0)), (A, silent(1)), (A, silent(2))],
                C,
                InPlaceOf(1),
            ),
            (vec![(A, None), (B, None), (C, None)], A, Full),
            // A network at its limit replaces its own, also where there is room.
            (
                vec![(A, silent(1)), (A, None), (B, silent(0))],
                A,
                InPlaceOf(0),
            ),
            (vec![(A, None), (A, None)], A, Crowded),
            (vec![(A, None), (A, None), (B, silent(0))], A, Crowded),
            (vec![(A, None), (A, None), (B, silent(0))], C, InPlaceOf(2)),
        ];
        for (number, (held, network, expected)) in table.into_iter().enumerate() {
            let held: Vec<_> = held
                .into_iter()
                .map(|(of, waiting)| (of.parse().unwrap(), waiting))
                .collect();
            let chosen = choose(&held, network.parse().unwrap(), 3, 2);
            assert_eq!(chosen, expected, "{number}");
        }
    }
}
