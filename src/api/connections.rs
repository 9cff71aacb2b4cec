//! The table of open connections: how many there are, and which of them may be closed to let another in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Open connections, at most `limit` of them.
///
/// A connection is *waiting* until a whole, permitted request has arrived on it, and again after the answer. At the
/// limit the one that has waited longest is closed for a fresh one: a client that opens connections and sends nothing,
/// or sends slowly, takes places from its own kind only.
pub struct Connections {
    limit: usize,
    table: Mutex<Table>,
    changed: Notify,
}

#[derive(Default)]
struct Table {
    next_id: u64,
    open: HashMap<u64, Entry>,
}

struct Entry {
    /// `None` while a request is being worked on.
    waiting_since: Option<Instant>,
    close: CancellationToken,
}

impl Connections {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, table: Mutex::default(), changed: Notify::new() })
    }

    /// A place for one more connection. Waits only while every open one is being worked on.
    pub async fn admit(self: &Arc<Self>) -> Place {
        loop {
            if let Some(place) = self.try_admit() {
                return place;
            }
            self.changed.notified().await;
        }
    }

    fn try_admit(self: &Arc<Self>) -> Option<Place> {
        let mut table = self.table();
        if table.open.len() >= self.limit && !table.close_longest_waiting() {
            return None;
        }
        let id = table.next_id;
        table.next_id += 1;
        let close = CancellationToken::new();
        table.open.insert(id, Entry { waiting_since: Some(Instant::now()), close: close.clone() });
        metrics::gauge!("pandarium_http_connections").set(table.open.len() as f64);
        Some(Place { connections: Arc::clone(self), id, close })
    }

    /// Closes the connection that has waited longest; false if none waits.
    pub fn close_longest_waiting(&self) -> bool {
        self.table().close_longest_waiting()
    }

    pub fn close_waiting(&self) {
        self.table().open.values().filter(|entry| entry.waiting_since.is_some()).for_each(|entry| entry.close.cancel());
    }

    pub fn close_all(&self) {
        self.table().open.values().for_each(|entry| entry.close.cancel());
    }

    /// Returns once no connection is open.
    pub async fn all_closed(&self) {
        while !self.table().open.is_empty() {
            self.changed.notified().await;
        }
    }

    fn set_waiting(&self, id: u64, waiting_since: Option<Instant>) {
        if let Some(entry) = self.table().open.get_mut(&id) {
            entry.waiting_since = waiting_since;
        }
        self.changed.notify_one();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn close_longest_waiting(&mut self) -> bool {
        let waiting = self.open.iter().filter_map(|(id, entry)| entry.waiting_since.map(|since| (since, *id)));
        let Some(entry) = waiting.min().and_then(|(_, id)| self.open.remove(&id)) else {
            return false;
        };
        entry.close.cancel();
        metrics::counter!("pandarium_http_connections_evicted_total").increment(1);
        true
    }
}

/// One connection's entry in the table; dropping it takes the entry out.
pub struct Place {
    connections: Arc<Connections>,
    id: u64,
    close: CancellationToken,
}

impl Place {
    /// Returns when the connection has to be closed.
    pub async fn told_to_close(&self) {
        self.close.cancelled().await;
    }

    /// What its requests carry.
    pub fn handle(&self) -> ConnectionHandle {
        ConnectionHandle { connections: Arc::clone(&self.connections), id: self.id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.open.remove(&self.id);
        metrics::gauge!("pandarium_http_connections").set(table.open.len() as f64);
        drop(table);
        self.connections.changed.notify_one();
    }
}

/// A request extension: the connection that the request came on.
#[derive(Clone)]
pub struct ConnectionHandle {
    connections: Arc<Connections>,
    id: u64,
}

impl ConnectionHandle {
    /// The connection is worked on, and cannot be closed for another, until the guard is dropped.
    pub fn busy(&self) -> Busy {
        self.connections.set_waiting(self.id, None);
        Busy(self.clone())
    }
}

pub struct Busy(ConnectionHandle);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.connections.set_waiting(self.0.id, Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn at_the_limit_the_longest_waiting_connection_goes() {
        let connections = Connections::new(2);
        let first = connections.admit().await;
        let second = connections.admit().await;
        let busy = first.handle().busy();
        let third = connections.admit().await;
        assert!(!first.close.is_cancelled(), "a connection that is worked on stays");
        assert!(second.close.is_cancelled());
        drop(busy);
        let fourth = connections.admit().await;
        assert!(third.close.is_cancelled(), "the first has waited only since its answer");
        assert!(!first.close.is_cancelled() && !fourth.close.is_cancelled());
    }

    #[tokio::test]
    async fn when_all_are_busy_the_next_waits_for_an_answer_to_end() {
        let connections = Connections::new(1);
        let only = connections.admit().await;
        let busy = only.handle().busy();
        let refused = tokio::time::timeout(Duration::from_millis(20), connections.admit()).await;
        assert!(refused.is_err());
        drop(busy);
        let admitted = tokio::time::timeout(Duration::from_secs(1), connections.admit()).await;
        assert!(admitted.is_ok() && only.close.is_cancelled());
    }

    #[tokio::test]
    async fn a_closed_connection_leaves_the_table() {
        let connections = Connections::new(1);
        drop(connections.admit().await);
        tokio::time::timeout(Duration::from_secs(1), connections.all_closed()).await.unwrap();
        assert!(!connections.close_longest_waiting());
    }
}
