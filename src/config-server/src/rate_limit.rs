//! How many requests a network may send, and how long a credential is served.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitPolicy {
    /// How long after its first response a credential is served again; absent: always.
    pub(crate) window: Option<Duration>,
    /// Whether several machines have one credential. Each address has its own window then.
    pub(crate) is_shared: bool,
    /// Requests of a [`network`] at once, and after that one per [`Self::pause`].
    pub(crate) burst: u32,
    /// Time until a network may ask once more.
    pub(crate) pause: Duration,
}

impl RateLimitPolicy {
    /// Requests of a network: a machine asks some times within a minute while it boots. Behind a
    /// load balancer that hides addresses, a hundred machines are one.
    pub(crate) const BURST: u32 = 200;
    /// Ten requests a second.
    pub(crate) const PAUSE: Duration = Duration::from_millis(100);
}

/// Why a credential is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClosedWindow {
    /// The time after its first response is over.
    Ended,
    /// Another address used it first.
    Taken,
    /// Another address is being served, and may yet fail to be.
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

/// When a credential, or an address of a shared one, is served.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// The only address that is.
    address: IpAddr,
    /// The time of its first response, or of its first request before that.
    since: Instant,
    /// Whether there was a response.
    is_open: bool,
    /// Requests that are being served.
    under_way: usize,
}

/// A credential, and its address if it is shared.
type WindowKey = (String, Option<IpAddr>);

/// Counted requests of networks, and the windows of credentials.
#[derive(Debug)]
pub(crate) struct RateLimits {
    policy: RateLimitPolicy,
    /// For each network the time by which all its requests would have been paused for.
    networks: HashMap<IpAddr, Instant>,
    windows: HashMap<WindowKey, Window>,
}

/// A window that is held for one request. Dropped before the response, it leaves none.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    rate_limits: &'a Mutex<RateLimits>,
    /// None where credentials are always served.
    key: Option<WindowKey>,
    now: Instant,
}

impl Reservation<'_> {
    /// The credential was served: its window opens, unless it is open.
    pub(crate) fn served(mut self) {
        if let Some(key) = self.key.take() {
            lock(self.rate_limits).release(&key, Some(self.now));
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            lock(self.rate_limits).release(&key, None);
        }
    }
}

/// Holds the window of a credential for a request, if it may be served. Of requests with one
/// credential from several addresses one wins, however long its response takes.
///
/// # Errors
/// Why it may not.
pub(crate) fn reserve<'a>(
    rate_limits: &'a Mutex<RateLimits>,
    credential: &str,
    address: IpAddr,
    now: Instant,
) -> Result<Reservation<'a>, ClosedWindow> {
    let key = lock(rate_limits).reserve(credential, address, now)?;
    Ok(Reservation {
        rate_limits,
        key,
        now,
    })
}

/// Nothing panics while it is held; a poisoned lock still holds whole maps.
pub(crate) fn lock(rate_limits: &Mutex<RateLimits>) -> MutexGuard<'_, RateLimits> {
    rate_limits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RateLimits {
    pub(crate) fn new(policy: RateLimitPolicy) -> Self {
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

    /// Ends a request that held a window; `served` is when it came, if it was.
    fn release(&mut self, key: &WindowKey, served: Option<Instant>) {
        let Some(window) = self.windows.get_mut(key) else {
            return;
        };
        window.under_way = window.under_way.saturating_sub(1);
        if let Some(now) = served.filter(|_| !window.is_open) {
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

    fn rate_limits(is_shared: bool) -> RateLimits {
        RateLimits::new(RateLimitPolicy {
            window: Some(HOUR),
            is_shared,
            burst: 3,
            pause: Duration::from_secs(1),
        })
    }

    /// Whether a request would be served.
    fn check(
        rate_limits: &Mutex<RateLimits>,
        credential: &str,
        address: IpAddr,
        now: Instant,
    ) -> Result<(), ClosedWindow> {
        reserve(rate_limits, credential, address, now).map(drop)
    }

    fn serve(rate_limits: &Mutex<RateLimits>, credential: &str, address: IpAddr, now: Instant) {
        let reserved = reserve(rate_limits, credential, address, now).unwrap();
        reserved.served();
    }

    #[test]
    fn address_that_asks_too_often_waits_and_others_do_not() {
        let (mut rate_limits, now) = (rate_limits(false), Instant::now());
        for _ in 0..3 {
            rate_limits.count(address(1), now).unwrap();
        }
        let second = Duration::from_secs(1);
        assert_eq!(rate_limits.count(address(1), now), Err(second));
        // A refused request costs nothing: the wait does not grow.
        assert_eq!(rate_limits.count(address(1), now), Err(second));
        rate_limits.count(address(2), now).unwrap();
        rate_limits.count(address(1), now + second).unwrap();
        assert_eq!(rate_limits.count(address(1), now + second), Err(second));
    }

    #[test]
    fn network_of_ipv6_is_counted_as_one() {
        let (mut rate_limits, now) = (rate_limits(false), Instant::now());
        for host in 1..=3 {
            let address = format!("fd00::{host}").parse().unwrap();
            rate_limits.count(address, now).unwrap();
        }
        assert!(rate_limits.count("fd00::4".parse().unwrap(), now).is_err());
        rate_limits
            .count("fd00:0:0:1::1".parse().unwrap(), now)
            .unwrap();
    }

    #[test]
    fn window_opens_with_the_first_answer_and_closes_after_its_time() {
        let (rate_limits, now) = (Mutex::new(rate_limits(false)), Instant::now());
        assert_eq!(check(&rate_limits, "a", address(1), now), Ok(()));
        serve(&rate_limits, "a", address(1), now);
        // A later response does not move it.
        serve(&rate_limits, "a", address(1), now + HOUR / 2);
        let just_before = now + HOUR / 4 * 3;
        assert_eq!(check(&rate_limits, "a", address(1), just_before), Ok(()));
        let ended = Err(ClosedWindow::Ended);
        assert_eq!(check(&rate_limits, "a", address(1), now + HOUR), ended);
        assert_eq!(check(&rate_limits, "b", address(1), now + HOUR), Ok(()));
    }

    #[test]
    fn credential_belongs_to_the_address_that_used_it_first() {
        let now = Instant::now();
        let own = Mutex::new(rate_limits(false));
        serve(&own, "a", address(1), now);
        let taken = Err(ClosedWindow::Taken);
        assert_eq!(check(&own, "a", address(2), now), taken);
        let shared = Mutex::new(rate_limits(true));
        serve(&shared, "a", address(1), now);
        assert_eq!(check(&shared, "a", address(2), now), Ok(()));
        let ended = Err(ClosedWindow::Ended);
        assert_eq!(check(&shared, "a", address(1), now + HOUR), ended);
    }

    #[test]
    fn of_two_addresses_that_ask_at_once_one_is_answered() {
        let (rate_limits, now) = (Mutex::new(rate_limits(false)), Instant::now());
        let ask = |number| reserve(&rate_limits, "a", address(number), now);
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
        other.served();
        assert_eq!(ask(1).unwrap_err(), ClosedWindow::Taken);
        // A failure after a response takes nothing away.
        drop(ask(2).unwrap());
        assert_eq!(ask(1).unwrap_err(), ClosedWindow::Taken);
    }

    #[test]
    fn flood_of_addresses_and_credentials_is_forgotten() {
        let (rate_limits, now) = (Mutex::new(rate_limits(true)), Instant::now());
        let flood = u32::try_from(MOST * 2).unwrap();
        for number in 0..flood {
            lock(&rate_limits).count(address(number), now).unwrap();
            let later = now + Duration::from_millis(number.into());
            serve(&rate_limits, "a", address(number), later);
        }
        let (networks, windows) = {
            let rate_limits = lock(&rate_limits);
            (rate_limits.networks.len(), rate_limits.windows.len())
        };
        assert!(networks <= MOST && windows <= MOST);
        // The newest are those that are kept.
        let end = now + HOUR * 2;
        assert!(check(&rate_limits, "a", address(flood - 1), end).is_err());
    }
}
