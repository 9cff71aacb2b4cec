//! Tasks that must live as long as the service: one that ends takes the service down, loudly.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::system::Readiness;
use crate::app::artifacts::Artifacts;
use crate::browser::pool::{Pool, PoolCounts};
use crate::config::{Config, LightpandaSource};
use crate::install::{self, Channel, Release, UPDATE_CHECK_LIMIT};
use crate::store::data_dir::DataDir;
use crate::telemetry::error_chain;

/// How exact the retention is.
const RETENTION_INTERVAL: Duration = Duration::from_secs(10);
/// How often the reason for a pool without workers is looked at.
const READINESS_INTERVAL: Duration = Duration::from_millis(250);

/// The state of the pool for `/metrics`. The tasks tell whether something of an ended call lives on.
fn gauge(counts: &PoolCounts, tasks: usize) {
    let gauges = [
        ("pandarium_pool_busy", counts.busy),
        ("pandarium_pool_idle", counts.idle),
        ("pandarium_pool_starting", counts.starting),
        ("pandarium_pool_waiting", counts.waiting),
        ("pandarium_tasks", tasks),
    ];
    for (name, value) in gauges {
        metrics::gauge!(name).set(u32::try_from(value).unwrap_or(u32::MAX));
    }
}

/// A newer build, once the check has found one.
pub type Updates = Arc<Mutex<Option<String>>>;

pub struct Essential {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    fault: watch::Sender<Option<&'static str>>,
}

impl Essential {
    pub fn new(tracker: TaskTracker, shutdown: CancellationToken) -> Self {
        Self { tracker, shutdown, fault: watch::Sender::new(None) }
    }

    /// Tells the name of the first task that ended.
    pub fn fault(&self) -> watch::Receiver<Option<&'static str>> {
        self.fault.subscribe()
    }

    /// Runs a task until the shutdown. Should it end before, by itself or by a panic, that is a fault.
    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let (shutdown, fault) = (self.shutdown.clone(), self.fault.clone());
        let _task = self.tracker.spawn(async move {
            let ended = shutdown.run_until_cancelled(AssertUnwindSafe(task).catch_unwind()).await;
            if ended.is_some() {
                let _ = fault.send(Some(name));
            }
        });
    }

    /// Ready is what has really shown a page.
    pub fn readiness(&self, pool: &Pool) -> watch::Receiver<Readiness> {
        let (sender, receiver) = watch::channel(Readiness::Starting);
        let (pool, shutdown, told) = (pool.clone(), self.shutdown.clone(), sender.clone());
        let tracker = self.tracker.clone();
        self.spawn("readiness", async move {
            let mut identity = pool.identity();
            loop {
                gauge(&pool.counts(), tracker.len());
                let is_ready = identity.borrow_and_update().is_some();
                let readiness = match pool.failure() {
                    _ if is_ready => Readiness::Ready,
                    Some(failure) => Readiness::Unavailable { reason: error_chain(&failure) },
                    None => Readiness::Starting,
                };
                sender.send_if_modified(|known| {
                    let is_new = *known != readiness;
                    *known = readiness;
                    is_new
                });
                // The sender lives as long as the pool, which this task holds.
                let _ = tokio::time::timeout(READINESS_INTERVAL, identity.changed()).await;
            }
        });
        let _task = self.tracker.spawn(async move {
            shutdown.cancelled().await;
            told.send_replace(Readiness::ShuttingDown);
        });
        receiver
    }

    pub fn retention(&self, artifacts: Arc<Artifacts>) {
        self.spawn("retention", async move {
            let mut tick = tokio::time::interval(RETENTION_INTERVAL);
            loop {
                tick.tick().await;
                // A full or read-only disk: the next round may find it mended.
                if let Err(error) = artifacts.apply_retention().await {
                    tracing::warn!(error = %error_chain(&error), "retention could not be applied");
                }
            }
        });
    }

    /// Looks once for a newer release where releases are what this service runs. The pinned build has none.
    pub fn update_check(&self, updates: Updates, config: &Config, data_dir: &DataDir) {
        let channel = match config.lightpanda.source {
            LightpandaSource::Pypi => return,
            LightpandaSource::Stable => Channel::Stable,
            LightpandaSource::Nightly => Channel::Nightly,
        };
        let release = Release::new(config.lightpanda.release_url.clone(), channel);
        let (lightpanda, bin) = (config.lightpanda.clone(), data_dir.bin());
        let shutdown = self.shutdown.clone();
        let _task = self.tracker.spawn(shutdown.run_until_cancelled_owned(async move {
            let found = install::find(lightpanda.command.as_deref(), &bin, lightpanda.search_path.as_deref());
            let Ok(found) = found else { return };
            if let Some(update) = install::check_update(&found.path, &release, UPDATE_CHECK_LIMIT).await {
                *updates.lock().unwrap_or_else(PoisonError::into_inner) = Some(update.release);
            }
        }));
    }
}
