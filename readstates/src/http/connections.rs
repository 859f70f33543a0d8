//! Limits on clients' connections, in total and per source.
//!
//! Comes in: the address of a client that has just connected. Goes out: an [`Open`], which frees its
//! place when dropped, or a refusal. When no place is free, the connection that has waited longest for
//! a request is closed: one of the same source when the source is at its limit, one of any source when
//! all places are taken. So clients that connect and ask for nothing keep no other client out.
//!
//! Connections are ordered by when they were last known to become idle. Requests do not touch the order:
//! an entry is put where it belongs when it comes to be the first.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::connection::Phase;
use crate::{
    limit::{Limit, Permit},
    metrics::Text,
};

/// A connection that is idle for less than this is not closed for another: its first or next request may be on
/// its way.
const LEAST_IDLE: Duration = Duration::from_secs(1);
/// Entries that are looked at for one that is idle: those that were busy meanwhile go to the end.
const MOST_LOOKS: usize = 64;

/// The connections of clients.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) limit: Arc<Limit>,
    most_per_source: usize,
    /// Closed to make room for others.
    closed: AtomicU64,
    /// Refused because their source is at its limit.
    refused: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// By number.
    open: HashMap<u64, Entry>,
    /// (idle since, number), as it was last known.
    idle: BTreeSet<(Instant, u64)>,
    /// The same by source.
    sources: HashMap<IpAddr, BTreeSet<(Instant, u64)>>,
}

#[derive(Debug)]
struct Entry {
    source: IpAddr,
    idle: Instant,
    phase: Arc<Phase>,
    close: Arc<Notify>,
    permit: Permit<Arc<Limit>>,
}

/// A place among the connections.
#[derive(Debug)]
pub(super) struct Open {
    connections: Arc<Connections>,
    number: u64,
    close: Arc<Notify>,
}

impl Open {
    /// Waits until the place is given to another connection.
    pub(super) async fn given_up(&self) {
        self.close.notified().await;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connections.table.lock().remove(self.number);
    }
}

impl Connections {
    pub(super) fn new(most: usize, most_per_source: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: Arc::new(Limit::new(most)),
            most_per_source,
            closed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            table: Mutex::default(),
        })
    }

    /// A place for a connection from this address, if one is free or an idle connection gives its own up.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr, phase: &Arc<Phase>) -> Option<Open> {
        let (source, now) = (source_of(address), Instant::now());
        let mut table = self.table.lock();
        let of_source = table.sources.get(&source).map_or(0, BTreeSet::len);
        let given_up = if of_source >= self.most_per_source {
            let given_up = table.give_up(Some(source), now);
            if given_up.is_none() {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            given_up
        } else if self.limit.used() >= self.limit.most() {
            table.give_up(None, now)
        } else {
            None
        };
        let permit = match given_up {
            Some(permit) => {
                self.closed.fetch_add(1, Ordering::Relaxed);
                permit
            }
            None => Permit::take(Arc::clone(&self.limit), 1)?,
        };
        let close = Arc::new(Notify::new());
        let number = table.insert(Entry {
            source,
            idle: now,
            phase: Arc::clone(phase),
            close: Arc::clone(&close),
            permit,
        });
        drop(table);
        Some(Open {
            connections: Arc::clone(self),
            number,
            close,
        })
    }

    /// What became of connections, as metrics.
    pub(super) fn write(&self, text: &mut Text) {
        let counters = [
            (
                "readstates_connections_closed_for_others_total",
                "Idle connections that were closed because another client needed the place.",
                &self.closed,
            ),
            (
                "readstates_source_refusals_total",
                "Connections refused because their source had as many as one source may.",
                &self.refused,
            ),
        ];
        for (name, help, counter) in counters {
            text.family(name, help, "counter");
            text.sample(name, &[], counter.load(Ordering::Relaxed) as f64);
        }
    }
}

impl Table {
    fn insert(&mut self, entry: Entry) -> u64 {
        let number = self.next;
        self.next += 1;
        self.put(number, entry);
        number
    }

    fn put(&mut self, number: u64, entry: Entry) {
        self.idle.insert((entry.idle, number));
        let of_source = self.sources.entry(entry.source).or_default();
        of_source.insert((entry.idle, number));
        self.open.insert(number, entry);
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.open.remove(&number)?;
        self.idle.remove(&(entry.idle, number));
        if let Some(of_source) = self.sources.get_mut(&entry.source) {
            of_source.remove(&(entry.idle, number));
            if of_source.is_empty() {
                self.sources.remove(&entry.source);
            }
        }
        Some(entry)
    }

    /// Takes its place from the connection, of this source or of any, that is idle for longest.
    fn give_up(&mut self, source: Option<IpAddr>, now: Instant) -> Option<Permit<Arc<Limit>>> {
        for _ in 0..MOST_LOOKS {
            let order = match source {
                Some(source) => self.sources.get(&source)?,
                None => &self.idle,
            };
            let &(known, number) = order.first()?;
            if now.saturating_duration_since(known) < LEAST_IDLE {
                return None;
            }
            // A connection that is busy now becomes idle no earlier than now.
            let since = self.open.get(&number)?.phase.idle_since();
            let since = since.map_or(now, |since| since.max(known));
            let mut entry = self.remove(number)?;
            if since == known {
                entry.close.notify_one();
                return Some(entry.permit);
            }
            entry.idle = since;
            self.put(number, entry);
        }
        None
    }
}

/// Who is behind an address: who has one address of IPv6 has the 2^64 of its network.
fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn there(last: u16) -> IpAddr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, last, 0, 0, 0, 1).into()
    }

    async fn is_open(open: &Open) -> bool {
        !futures::poll!(std::pin::pin!(open.given_up())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_places_are_taken_the_one_idle_for_longest_is_given_up() {
        let connections = Connections::new(3, 3);
        let mut open = Vec::new();
        for _ in 0..3 {
            let phase = Phase::new();
            open.push((connections.admit(HERE, &phase).unwrap(), phase));
            advance(LEAST_IDLE).await;
        }
        // The first is busy, the second was: the third is idle for longest.
        open[0].1.busy();
        open[1].1.busy();
        open[1].1.idle();
        let other = connections.admit(there(1), &Phase::new()).unwrap();
        assert!(is_open(&open[0].0).await && is_open(&open[1].0).await);
        assert!(!is_open(&open[2].0).await);
        assert!(
            connections.admit(there(2), &Phase::new()).is_none(),
            "nobody is idle for long"
        );
        assert_eq!(connections.limit.used(), 3);
        drop((open, other));
        assert_eq!(connections.limit.used(), 0);
        assert!(connections.table.lock().sources.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_has_its_share_and_gives_up_only_its_own() {
        let connections = Connections::new(4, 2);
        let (phase, other) = (Phase::new(), Phase::new());
        let elsewhere = connections.admit(HERE, &other).unwrap();
        let busy = connections.admit(there(7), &phase).unwrap();
        phase.busy();
        let idle = connections.admit(there(7), &Phase::new()).unwrap();
        assert!(
            connections.admit(there(7), &Phase::new()).is_none(),
            "its last is too new"
        );
        advance(LEAST_IDLE).await;
        let next = connections.admit(there(7), &Phase::new()).unwrap();
        assert!(!is_open(&idle).await, "its own was idle");
        assert!(is_open(&elsewhere).await && is_open(&busy).await && is_open(&next).await);
        assert_eq!(connections.limit.used(), 3);
        assert_eq!(connections.refused.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let of = |text: &str| source_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
