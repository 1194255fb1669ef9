//! How often a network may ask, and how long a credential is answered.
//!
//! A machine fetches its configuration once, and again if its first boot fails. A credential that
//! is found on it later, or copied from it, should get nothing: its window has closed by then, and
//! it belongs to the address that used it first.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chassis::http::network;

/// Networks and credentials that are remembered. With more, those that matter least are forgotten:
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
    /// Requests of a [`network`] at once, and after that one per [`Self::pause`].
    pub(crate) burst: u32,
    /// Time until a network may ask once more.
    pub(crate) pause: Duration,
}

impl VisitPolicy {
    /// Requests of a network: a machine asks some times within a minute while it boots. Behind a
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
    /// Another address is being answered, and may yet fail to be.
    Reserved,
}

impl ClosedWindow {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "the window of the credential has closed",
            Self::Taken => "another machine has used the credential",
            Self::Reserved => "another machine is being answered with the credential",
        }
    }
}

/// When a credential, or an address of a shared one, is answered.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// The only address that is.
    address: IpAddr,
    /// The time of its first answer, or of its first request before that.
    since: Instant,
    /// Whether there was an answer.
    is_open: bool,
    /// Requests that are being answered.
    under_way: usize,
}

/// A credential, and its address if it is shared.
type WindowKey = (String, Option<IpAddr>);

/// Who came, and when.
#[derive(Debug)]
pub(crate) struct Visits {
    policy: VisitPolicy,
    /// For each network the time by which all its requests would have been paused for.
    networks: HashMap<IpAddr, Instant>,
    windows: HashMap<WindowKey, Window>,
}

/// A window that is held for one request. Dropped before the answer, it leaves none.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    visits: &'a Mutex<Visits>,
    /// None where credentials are always answered.
    key: Option<WindowKey>,
    now: Instant,
}

impl Reservation<'_> {
    /// The credential was answered: its window opens, unless it is open.
    pub(crate) fn answered(mut self) {
        if let Some(key) = self.key.take() {
            lock(self.visits).release(&key, Some(self.now));
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            lock(self.visits).release(&key, None);
        }
    }
}

/// Holds the window of a credential for a request, if it may be answered. Of requests with one
/// credential from several addresses one wins, however long its answer takes.
///
/// # Errors
/// Why it may not.
pub(crate) fn reserve<'a>(
    visits: &'a Mutex<Visits>,
    credential: &str,
    address: IpAddr,
    now: Instant,
) -> Result<Reservation<'a>, ClosedWindow> {
    let key = lock(visits).reserve(credential, address, now)?;
    Ok(Reservation { visits, key, now })
}

/// Nothing panics while it is held; a poisoned lock still holds whole maps.
pub(crate) fn lock(visits: &Mutex<Visits>) -> MutexGuard<'_, Visits> {
    visits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Visits {
    pub(crate) fn new(policy: VisitPolicy) -> Self {
        Self {
            policy,
            networks: HashMap::new(),
            windows: HashMap::new(),
        }
    }

    /// Counts a request of an address for its network. When it may come again, if that is too many.
    pub(crate) fn count(&mut self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let network = network(address);
        let due = self.networks.get(&network).copied().unwrap_or(now).max(now);
        let budget = self.policy.pause * self.policy.burst;
        let due = due + self.policy.pause;
        let ahead = due.saturating_duration_since(now);
        let over = ahead.saturating_sub(budget);
        if !over.is_zero() {
            return Err(over);
        }
        make_room(&mut self.networks, |due| *due > now, |due| *due);
        self.networks.insert(network, due);
        Ok(())
    }

    /// Holds the window of a credential, whose key is returned, for one more request.
    fn reserve(
        &mut self,
        credential: &str,
        address: IpAddr,
        now: Instant,
    ) -> Result<Option<WindowKey>, ClosedWindow> {
        let Some(length) = self.policy.window else {
            return Ok(None);
        };
        let key = self.key(credential, address);
        if let Some(window) = self.windows.get_mut(&key) {
            if window.address != address {
                return Err(if window.is_open {
                    ClosedWindow::Taken
                } else {
                    ClosedWindow::Reserved
                });
            }
            let age = now.saturating_duration_since(window.since);
            if window.is_open && age >= length {
                return Err(ClosedWindow::Ended);
            }
            window.under_way += 1;
            return Ok(Some(key));
        }
        let is_recent = |since: Instant| now.saturating_duration_since(since) < REMEMBERED;
        make_room(
            &mut self.windows,
            |window| window.under_way > 0 || is_recent(window.since),
            |window| window.since,
        );
        let window = Window {
            address,
            since: now,
            is_open: false,
            under_way: 1,
        };
        self.windows.insert(key.clone(), window);
        Ok(Some(key))
    }

    /// Ends a request that held a window; `answered` is when it came, if it was.
    fn release(&mut self, key: &WindowKey, answered: Option<Instant>) {
        let Some(window) = self.windows.get_mut(key) else {
            return;
        };
        window.under_way = window.under_way.saturating_sub(1);
        if let Some(now) = answered.filter(|_| !window.is_open) {
            (window.since, window.is_open) = (now, true);
        }
        if !window.is_open && window.under_way == 0 {
            self.windows.remove(key);
        }
    }

    fn key(&self, credential: &str, address: IpAddr) -> WindowKey {
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

    /// Whether a request would be answered.
    fn check(
        visits: &Mutex<Visits>,
        credential: &str,
        address: IpAddr,
        now: Instant,
    ) -> Result<(), ClosedWindow> {
        reserve(visits, credential, address, now).map(drop)
    }

    fn answer(visits: &Mutex<Visits>, credential: &str, address: IpAddr, now: Instant) {
        let reserved = reserve(visits, credential, address, now).unwrap();
        reserved.answered();
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
    fn network_of_ipv6_is_counted_as_one() {
        let (mut visits, now) = (visits(false), Instant::now());
        for host in 1..=3 {
            let address = format!("fd00::{host}").parse().unwrap();
            visits.count(address, now).unwrap();
        }
        assert!(visits.count("fd00::4".parse().unwrap(), now).is_err());
        visits.count("fd00:0:0:1::1".parse().unwrap(), now).unwrap();
    }

    #[test]
    fn window_opens_with_the_first_answer_and_closes_after_its_time() {
        let (visits, now) = (Mutex::new(visits(false)), Instant::now());
        assert_eq!(check(&visits, "a", address(1), now), Ok(()));
        answer(&visits, "a", address(1), now);
        // A later answer does not move it.
        answer(&visits, "a", address(1), now + HOUR / 2);
        let just_before = now + HOUR / 4 * 3;
        assert_eq!(check(&visits, "a", address(1), just_before), Ok(()));
        let ended = Err(ClosedWindow::Ended);
        assert_eq!(check(&visits, "a", address(1), now + HOUR), ended);
        assert_eq!(check(&visits, "b", address(1), now + HOUR), Ok(()));
    }

    #[test]
    fn credential_belongs_to_the_address_that_used_it_first() {
        let now = Instant::now();
        let own = Mutex::new(visits(false));
        answer(&own, "a", address(1), now);
        let taken = Err(ClosedWindow::Taken);
        assert_eq!(check(&own, "a", address(2), now), taken);
        let shared = Mutex::new(visits(true));
        answer(&shared, "a", address(1), now);
        assert_eq!(check(&shared, "a", address(2), now), Ok(()));
        let ended = Err(ClosedWindow::Ended);
        assert_eq!(check(&shared, "a", address(1), now + HOUR), ended);
    }

    #[test]
    fn of_two_addresses_that_ask_at_once_one_is_answered() {
        let (visits, now) = (Mutex::new(visits(false)), Instant::now());
        let ask = |number| reserve(&visits, "a", address(number), now);
        let first = ask(1).unwrap();
        // The same machine may ask twice; another one comes again.
        let again = ask(1).unwrap();
        assert_eq!(ask(2).unwrap_err(), ClosedWindow::Reserved);
        // A failure leaves the window to the other request, and then to all.
        drop(first);
        assert_eq!(ask(2).unwrap_err(), ClosedWindow::Reserved);
        drop(again);
        let other = ask(2).unwrap();
        assert_eq!(ask(1).unwrap_err(), ClosedWindow::Reserved);
        other.answered();
        assert_eq!(ask(1).unwrap_err(), ClosedWindow::Taken);
        // A failure after an answer takes nothing away.
        drop(ask(2).unwrap());
        assert_eq!(ask(1).unwrap_err(), ClosedWindow::Taken);
    }

    #[test]
    fn flood_of_addresses_and_credentials_is_forgotten() {
        let (visits, now) = (Mutex::new(visits(true)), Instant::now());
        let flood = u32::try_from(MOST * 2).unwrap();
        for number in 0..flood {
            lock(&visits).count(address(number), now).unwrap();
            let later = now + Duration::from_millis(number.into());
            answer(&visits, "a", address(number), later);
        }
        let (networks, windows) = {
            let visits = lock(&visits);
            (visits.networks.len(), visits.windows.len())
        };
        assert!(networks <= MOST && windows <= MOST);
        // The newest are those that are kept.
        let end = now + HOUR * 2;
        assert!(check(&visits, "a", address(flood - 1), end).is_err());
    }
}
