//! A fixed number of warm engine processes, and connections to them that are leased one call at a time.
//!
//! Each process has a supervisor: it starts it, proves with a real page that it works, watches its memory, age and
//! page count, and replaces it. A lease is a connection to one of them; dropped, it takes the connection along, given
//! back, the connection serves the next call. What waits for a lease waits in order, in a queue with an end.

mod supervise;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cdp::{CdpError, Connection, Notice};
use super::worker::{Worker, WorkerCommand};
use super::{BrowserError, EngineIdentity};
use crate::domain::deadline::Deadline;

/// A connection is replaced after so many pages: V8 keeps a little of each.
const PAGES_PER_CONNECTION: u64 = 100;
/// A connection that closed is seen before the end of its process is: so long to tell the two apart.
const END_IS_SEEN: Duration = Duration::from_millis(200);

/// How large the pool is and when its processes are replaced.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    pub workers: usize,
    pub connections_per_worker: usize,
    /// Calls that may wait for a connection; one more is refused.
    pub queue_limit: usize,
    /// How long a process may take until it listens and has shown a page.
    pub start_limit: Duration,
    /// A process is replaced after so many pages,
    pub max_pages: u64,
    /// or at this age,
    pub max_age: Duration,
    /// or when it holds more than this, once its calls are done;
    pub max_resident_bytes: u64,
    /// at this much it is ended, calls or not.
    pub hard_resident_bytes: u64,
    /// The largest message of the protocol.
    pub max_message_bytes: usize,
}

/// Makes the command line of the worker in a slot. Asked at each start, so that a replaced binary is picked up.
pub type Launcher = Box<dyn Fn(usize) -> Result<WorkerCommand, BrowserError> + Send + Sync>;

/// What the pool is made of at a moment, and what it has been through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolCounts {
    pub workers: usize,
    pub slots: usize,
    pub idle: usize,
    pub busy: usize,
    pub starting: usize,
    pub waiting: usize,
    pub recycled: u64,
    pub crashed: u64,
    /// Pages served by the processes that live.
    pub pages: u64,
    /// Process ids of the workers that live.
    pub pids: Vec<u32>,
}

#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    options: PoolOptions,
    launcher: Launcher,
    tracker: TaskTracker,
    stop: CancellationToken,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    slots: Mutex<Vec<Slot>>,
    /// Counts changes of `slots`, for those who wait for one.
    changes: watch::Sender<u64>,
    identity: watch::Sender<Option<EngineIdentity>>,
    recycled: AtomicU64,
    crashed: AtomicU64,
}

/// One place for a worker.
#[derive(Default)]
struct Slot {
    member: Option<Arc<Member>>,
    /// Why the last start failed, while there is no worker.
    failure: Option<BrowserError>,
}

/// A worker that proved itself, and its connections.
struct Member {
    worker: Worker,
    identity: EngineIdentity,
    active: AtomicUsize,
    pages: AtomicU64,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    connection: Connection,
    events: mpsc::UnboundedReceiver<Notice>,
    pages: u64,
}

impl Pool {
    /// Starts the supervisors. Returns at once; [`Pool::identity`] tells when the first worker has shown a page.
    pub fn start(options: PoolOptions, launcher: Launcher, tracker: TaskTracker, stop: CancellationToken) -> Self {
        let slots = (0..options.workers).map(|_| Slot::default()).collect();
        let permits = Arc::new(Semaphore::new(options.workers * options.connections_per_worker));
        let inner = Arc::new(Inner {
            launcher,
            stop,
            permits,
            waiting: AtomicUsize::new(0),
            slots: Mutex::new(slots),
            changes: watch::Sender::new(0),
            identity: watch::Sender::new(None),
            recycled: AtomicU64::new(0),
            crashed: AtomicU64::new(0),
            tracker: tracker.clone(),
            options,
        });
        for slot in 0..inner.options.workers {
            let _task = tracker.spawn(supervise::supervise(slot, Arc::clone(&inner)));
        }
        Self { inner }
    }

    /// Waits for a connection: in order, at most until the deadline.
    pub async fn lease(&self, deadline: Deadline) -> Result<Lease, BrowserError> {
        let inner = &self.inner;
        let mut permit = Some(self.permit(deadline).await?);
        let mut changes = inner.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if inner.stop.is_cancelled() {
                return Err(BrowserError::Stopping);
            }
            let Some(place) = inner.least_busy() else {
                if let Some(failure) = inner.failure_of_all() {
                    return Err(failure);
                }
                let changed = tokio::time::timeout_at(deadline.at().into(), changes.changed());
                changed
                    .await
                    .map_err(|_| BrowserError::DeadlineExceeded { step: "waiting for an engine to start" })?
                    .ok();
                continue;
            };
            match Lease::connect(place, &mut permit, deadline).await {
                Ok(lease) => return Ok(lease),
                // The worker died under our hands before it had seen anything of the call: another one will do.
                Err(CdpError::Connect(_) | CdpError::Closed) if !deadline.has_passed() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(_) => return Err(BrowserError::DeadlineExceeded { step: "connecting to the engine" }),
            }
        }
    }

    async fn permit(&self, deadline: Deadline) -> Result<OwnedSemaphorePermit, BrowserError> {
        let permits = Arc::clone(&self.inner.permits);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = self.inner.waiting.fetch_add(1, Ordering::AcqRel);
        let _counted = Waiting(&self.inner.waiting);
        if waiting >= self.inner.options.queue_limit {
            return Err(BrowserError::PoolExhausted { waiting });
        }
        tokio::select! {
            permit = permits.acquire_owned() => permit.map_err(|_| BrowserError::Stopping),
            () = self.inner.stop.cancelled() => Err(BrowserError::Stopping),
            () = tokio::time::sleep_until(deadline.at().into()) => {
                Err(BrowserError::DeadlineExceeded { step: "waiting for a free worker" })
            }
        }
    }

    pub fn counts(&self) -> PoolCounts {
        let inner = &self.inner;
        let slots = inner.slots();
        let members: Vec<&Arc<Member>> = slots.iter().filter_map(|slot| slot.member.as_ref()).collect();
        let active: usize = members.iter().map(|member| member.active.load(Ordering::Acquire)).sum();
        let open = members.len() * inner.options.connections_per_worker;
        PoolCounts {
            workers: inner.options.workers,
            slots: inner.options.workers * inner.options.connections_per_worker,
            idle: open.saturating_sub(active),
            busy: active,
            starting: inner.options.workers - members.len(),
            waiting: inner.waiting.load(Ordering::Acquire),
            recycled: inner.recycled.load(Ordering::Relaxed),
            crashed: inner.crashed.load(Ordering::Relaxed),
            pages: members.iter().map(|member| member.pages.load(Ordering::Relaxed)).sum(),
            pids: members.iter().map(|member| member.worker.pid()).collect(),
        }
    }

    /// What the engine said of itself; none until a worker has really shown a page, and while no worker lives.
    pub fn identity(&self) -> watch::Receiver<Option<EngineIdentity>> {
        self.inner.identity.subscribe()
    }

    /// Why there is no worker, while each try to start one fails.
    pub fn failure(&self) -> Option<BrowserError> {
        self.inner.failure_of_all()
    }
}

/// Counts a waiting call out again, however it ends.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place came free, or a worker came or went.
    fn changed_places(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Puts a worker into its slot, or takes it out.
    fn set_slot(&self, index: usize, slot: Slot) {
        if let Some(place) = self.slots().get_mut(index) {
            *place = slot;
        }
        let identity = self.slots().iter().find_map(|slot| slot.member.as_ref().map(|member| member.identity.clone()));
        self.identity.send_if_modified(|known| {
            let is_new = *known != identity;
            *known = identity;
            is_new
        });
        self.changed_places();
    }

    /// Takes a place at the worker with the fewest calls.
    fn least_busy(self: &Arc<Self>) -> Option<Place> {
        let slots = self.slots();
        let members = slots.iter().filter_map(|slot| slot.member.as_ref());
        let free = members.filter(|member| {
            !member.worker.has_ended() && member.active.load(Ordering::Acquire) < self.options.connections_per_worker
        });
        let member = free.min_by_key(|member| member.active.load(Ordering::Acquire))?;
        member.active.fetch_add(1, Ordering::AcqRel);
        Some(Place { member: Arc::clone(member), inner: Arc::clone(self) })
    }

    /// The newest reason, when no slot has a worker and each has failed to start one.
    fn failure_of_all(&self) -> Option<BrowserError> {
        let slots = self.slots();
        if slots.iter().all(|slot| slot.member.is_none() && slot.failure.is_some()) {
            return slots.first().and_then(|slot| slot.failure.clone());
        }
        None
    }
}

/// One call's place at a worker. Dropping it makes room for the next.
struct Place {
    member: Arc<Member>,
    inner: Arc<Inner>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.member.active.fetch_sub(1, Ordering::AcqRel);
        self.inner.changed_places();
    }
}

/// A connection for one call. Unless it is given back it is cut when the lease is dropped, which ends whatever the
/// engine still does on it.
pub struct Lease {
    place: Place,
    connection: Connection,
    events: Option<mpsc::UnboundedReceiver<Notice>>,
    pages: u64,
    is_kept: bool,
    // Dropped after the place: who gets the permit finds a place free.
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    async fn connect(
        place: Place,
        permit: &mut Option<OwnedSemaphorePermit>,
        deadline: Deadline,
    ) -> Result<Self, CdpError> {
        let idle = match place.member.take_idle() {
            Some(idle) => idle,
            None => {
                let (limit, tracker) = (place.inner.options.max_message_bytes, &place.inner.tracker);
                let opened = Connection::open(place.member.worker.socket(), limit, tracker, deadline).await;
                let (connection, events) = opened?;
                Idle { connection, events, pages: 0 }
            }
        };
        let Idle { connection, events, pages } = idle;
        let permit = permit.take().ok_or(CdpError::Closed)?;
        place.member.pages.fetch_add(1, Ordering::Relaxed);
        Ok(Self { place, connection, events: Some(events), pages: pages + 1, is_kept: false, _permit: permit })
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The connection and its events, for the one who reads them and gives them back. None the second time.
    pub fn take_events(&mut self) -> Option<mpsc::UnboundedReceiver<Notice>> {
        self.events.take()
    }

    pub fn user_agent(&self) -> &str {
        &self.place.member.identity.user_agent
    }

    /// Keeps the connection warm for the next call.
    pub fn give_back(mut self, events: mpsc::UnboundedReceiver<Notice>) {
        if self.pages >= PAGES_PER_CONNECTION || self.connection.is_closed() {
            return;
        }
        self.is_kept = true;
        let idle = Idle { connection: self.connection.clone(), events, pages: self.pages };
        self.place.member.idle().push(idle);
    }

    /// What a failed call means: the protocol alone cannot tell a dead process from a page that was given up.
    pub async fn explain(&self, error: CdpError) -> BrowserError {
        match error {
            CdpError::Closed | CdpError::Connect(_) => {
                let worker = &self.place.member.worker;
                match tokio::time::timeout(END_IS_SEEN, worker.ended()).await {
                    Ok(()) => BrowserError::WorkerLost { last_words: worker.last_words() },
                    Err(_) => BrowserError::PageLost,
                }
            }
            CdpError::TimedOut { .. } => BrowserError::DeadlineExceeded { step: "waiting for the engine" },
            error => BrowserError::Protocol(error),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_kept {
            self.connection.cut();
        }
    }
}

impl Member {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A warm connection that is still open.
    fn take_idle(&self) -> Option<Idle> {
        let mut idle = self.idle();
        std::iter::from_fn(|| idle.pop()).find(|idle| !idle.connection.is_closed())
    }
}
