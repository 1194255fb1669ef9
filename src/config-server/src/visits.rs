//! How often an address may ask, and how long a credential is answered.
//!
//! A machine fetches its configuration once, and again if its first boot fails. A credential that
//! is found on it later, or copied from it, should get nothing: its window has closed by then, and
//! it belongs to the address that used it first.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Addresses and credentials that are remembered. With more, those that matter least are forgotten:
/// a flood must not take the memory.
const MOST: usize = 1 << 16;

/// How long a used credential is remembered: longer than a bootstrap credential should be good.
const REMEMBERED: Duration = Duration::from_hours(48);

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VisitPolicy {
    /// How long after its first answer a credential is answered again; absent: always.
    pub(crate) window: Option<Duration>,
    /// Whether several machines have one credential. Each address has its own window then.
    pub(crate) is_shared: bool,
    /// Requests of an address at once, and after that one per [`Self::pause`].
    pub(crate) burst: u32,
    /// Time until an address may ask once more.
    pub(crate) pause: Duration,
}

impl VisitPolicy {
    /// Requests of an address: a machine asks some times within a minute while it boots. Behind a
    /// load balancer that hides addresses, a hundred machines are one.
    pub(crate) const BURST: u32 = 200;
    /// Ten requests a second.
    pub(crate) const PAUSE: Duration = Duration::from_millis(100);
}

/// Why a credential is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClosedWindow {
    /// The time after its first answer is over.
    Ended,
    /// Another address used it first.
    Taken,
}

impl ClosedWindow {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "the window of the credential has closed",
            Self::Taken => "another machine has used the credential",
        }
    }
}

/// Who came, and when.
#[derive(Debug)]
pub(crate) struct Visits {
    policy: VisitPolicy,
    /// For each address the time by which all its requests would have been paused for.
    addresses: HashMap<IpAddr, Instant>,
    /// For each credential, and each address of a shared one, its first answer.
    windows: HashMap<(String, Option<IpAddr>), (IpAddr, Instant)>,
}

impl Visits {
    pub(crate) fn new(policy: VisitPolicy) -> Self {
        Self {
            policy,
            addresses: HashMap::new(),
            windows: HashMap::new(),
        }
    }

    /// Counts a request of an address. When it may come again, if that is too many.
    pub(crate) fn count(&mut self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let due = self
            .addresses
            .get(&address)
            .copied()
            .unwrap_or(now)
            .max(now);
        let budget = self.policy.pause * self.policy.burst;
        let due = due + self.policy.pause;
        let ahead = due.saturating_duration_since(now);
        let over = ahead.saturating_sub(budget);
        if !over.is_zero() {
            return Err(over);
        }
        make_room(&mut self.addresses, |due| *due > now, |due| *due);
        self.addresses.insert(address, due);
        Ok(())
    }

    /// Whether a credential is still answered.
    pub(crate) fn check(
        &self,
        credential: &str,
        address: IpAddr,
        now: Instant,
    ) -> Result<(), ClosedWindow> {
        let Some(window) = self.policy.window else {
            return Ok(());
        };
        match self.windows.get(&self.key(credential, address)) {
            Some((first, _)) if *first != address => Err(ClosedWindow::Taken),
            Some((_, since)) if now.saturating_duration_since(*since) >= window => {
                Err(ClosedWindow::Ended)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A credential was answered: its window opens, unless it is open.
    pub(crate) fn answered(&mut self, credential: &str, address: IpAddr, now: Instant) {
        if self.policy.window.is_none() {
            return;
        }
        let key = self.key(credential, address);
        if !self.windows.contains_key(&key) {
            let is_recent = |since: &Instant| now.saturating_duration_since(*since) < REMEMBERED;
            make_room(
                &mut self.windows,
                |(_, since)| is_recent(since),
                |(_, since)| *since,
            );
            self.windows.insert(key, (address, now));
        }
    }

    fn key(&self, credential: &str, address: IpAddr) -> (String, Option<IpAddr>) {
        let address = self.policy.is_shared.then_some(address);
        (credential.to_owned(), address)
    }
}

/// Forgets what does not matter any more once the map is full, and the older half if all does.
fn make_room<K: Eq + Hash, V>(
    map: &mut HashMap<K, V>,
    matters: impl Fn(&V) -> bool,
    age: impl Fn(&V) -> Instant,
) {
    if map.len() < MOST {
        return;
    }
    map.retain(|_, value| matters(value));
    if map.len() < MOST {
        return;
    }
    let mut ages: Vec<Instant> = map.values().map(&age).collect();
    ages.sort_unstable();
    if let Some(middle) = ages.get(ages.len() / 2) {
        map.retain(|_, value| age(value) > *middle);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    fn visits(is_shared: bool) -> Visits {
        Visits::new(VisitPolicy {
            window: Some(HOUR),
            is_shared,
            burst: 3,
            pause: Duration::from_secs(1),
        })
    }

    #[test]
    fn address_that_asks_too_often_waits_and_others_do_not() {
        let (mut visits, now) = (visits(false), Instant::now());
        for _ in 0..3 {
            visits.count(address(1), now).unwrap();
        }
        let second = Duration::from_secs(1);
        assert_eq!(visits.count(address(1), now), Err(second));
        // A refused request costs nothing: the wait does not grow.
        assert_eq!(visits.count(address(1), now), Err(second));
        visits.count(address(2), now).unwrap();
        visits.count(address(1), now + second).unwrap();
        assert_eq!(visits.count(address(1), now + second), Err(second));
    }

    #[test]
    fn window_opens_with_the_first_answer_and_closes_after_its_time() {
        let (mut visits, now) = (visits(false), Instant::now());
        assert_eq!(visits.check("a", address(1), now), Ok(()));
        visits.answered("a", address(1), now);
        // A later answer does not move it.
        visits.answered("a", address(1), now + HOUR / 2);
        let just_before = now + HOUR / 4 * 3;
        assert_eq!(visits.check("a", address(1), just_before), Ok(()));
        let ended = Err(ClosedWindow::Ended);
        assert_eq!(visits.check("a", address(1), now + HOUR), ended);
        assert_eq!(visits.check("b", address(1), now + HOUR), Ok(()));
    }

    #[test]
    fn credential_belongs_to_the_address_that_used_it_first() {
        let now = Instant::now();
        let mut own = visits(false);
        own.answered("a", address(1), now);
        let taken = Err(ClosedWindow::Taken);
        assert_eq!(own.check("a", address(2), now), taken);
        let mut shared = visits(true);
        shared.answered("a", address(1), now);
        assert_eq!(shared.check("a", address(2), now), Ok(()));
        let ended = Err(ClosedWindow::Ended);
        assert_eq!(shared.check("a", address(1), now + HOUR), ended);
    }

    #[test]
    fn flood_of_addresses_and_credentials_is_forgotten() {
        let (mut visits, now) = (visits(true), Instant::now());
        let flood = u32::try_from(MOST * 2).unwrap();
        for number in 0..flood {
            visits.count(address(number), now).unwrap();
            let later = now + Duration::from_millis(number.into());
            visits.answered("a", address(number), later);
        }
        assert!(visits.addresses.len() <= MOST && visits.windows.len() <= MOST);
        // The newest are those that are kept.
        let end = now + HOUR * 2;
        assert!(visits.check("a", address(flood - 1), end).is_err());
    }
}
