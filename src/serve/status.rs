//! What `/v1/status` tells.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use async_trait::async_trait;

use super::tasks::Updates;
use crate::api::system::{EngineStatus, PoolStatus, StatusReport, StatusSource, StoreStatus};
use crate::app::artifacts::Artifacts;
use crate::browser::pool::Pool;
use crate::config::{Config, LightpandaConfig};
use crate::egress::outlet::Outlet;
use crate::install::{self, Found, Origin};
use crate::store::data_dir::DataDir;
use crate::telemetry::error_chain;

pub struct Status {
    started: Instant,
    lightpanda: LightpandaConfig,
    bin: PathBuf,
    pool: Pool,
    artifacts: Arc<Artifacts>,
    limits: BTreeMap<String, u64>,
    warnings: Vec<String>,
    updates: Updates,
    digest: Mutex<Option<KnownDigest>>,
}

/// The checksum of a binary that has not changed since: reading 76 MB at each call would be felt.
#[derive(Clone)]
struct KnownDigest {
    path: PathBuf,
    modified: Option<SystemTime>,
    bytes: u64,
    sha256: String,
}

impl Status {
    pub fn new(config: &Config, data_dir: &DataDir, pool: Pool, outlet: &Outlet, artifacts: Arc<Artifacts>) -> Self {
        Self {
            started: Instant::now(),
            lightpanda: config.lightpanda.clone(),
            bin: data_dir.bin(),
            pool,
            artifacts,
            limits: config.limits.clone(),
            warnings: warnings(outlet),
            updates: Updates::default(),
            digest: Mutex::new(None),
        }
    }

    /// Where a found update is to be told.
    pub fn updates(&self) -> Updates {
        Arc::clone(&self.updates)
    }

    async fn engine(&self, warnings: &mut Vec<String>) -> EngineStatus {
        let command = self.lightpanda.command.as_deref();
        let found = match install::find(command, &self.bin, self.lightpanda.search_path.as_deref()) {
            Ok(found) => Some(found),
            Err(error) => {
                warnings.push(error.to_string());
                None
            }
        };
        let identity = self.pool.identity().borrow().clone();
        let sha256 = match &found {
            Some(found) => self.sha256(found).await,
            None => None,
        };
        EngineStatus {
            name: "lightpanda".to_owned(),
            version: identity.map(|identity| identity.version),
            path: found.as_ref().map(|found| found.path.display().to_string()),
            sha256,
            origin: found.as_ref().map(|found| origin(found.origin).to_owned()),
            update_available: self.updates.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    async fn sha256(&self, found: &Found) -> Option<String> {
        let metadata = tokio::fs::metadata(&found.path).await.ok()?;
        let (modified, bytes) = (metadata.modified().ok(), metadata.len());
        let known = self.digest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known
            && known.path == found.path
            && known.modified == modified
            && known.bytes == bytes
        {
            return Some(known.sha256);
        }
        let sha256 = install::digest_of(&found.path).await.ok()?.to_string();
        let known = KnownDigest { path: found.path.clone(), modified, bytes, sha256: sha256.clone() };
        *self.digest.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Some(sha256)
    }
}

#[async_trait]
impl StatusSource for Status {
    async fn status(&self) -> StatusReport {
        let mut warnings = self.warnings.clone();
        let engine = self.engine(&mut warnings).await;
        if let Some(failure) = self.pool.failure() {
            warnings.push(error_chain(&failure));
        }
        if let Err(error) = self.artifacts.health().await {
            warnings.push(error_chain(&error));
        }
        let totals = self.artifacts.totals().await.unwrap_or_default();
        StatusReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            engines: vec![engine],
            pool: pool_status(&self.pool),
            store: StoreStatus { artifacts: totals.artifacts, bytes: totals.bytes },
            limits: self.limits.clone(),
            warnings,
        }
    }
}

fn pool_status(pool: &Pool) -> PoolStatus {
    let counts = pool.counts();
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    PoolStatus {
        workers: number(counts.workers),
        slots: number(counts.slots),
        idle: number(counts.idle),
        busy: number(counts.busy),
        starting: number(counts.starting),
        waiting: number(counts.waiting),
        recycled: counts.recycled,
        crashed: counts.crashed,
        pages: counts.pages,
        pids: counts.pids,
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Configured => "configured",
        Origin::Managed => "managed",
        Origin::Path => "path",
    }
}

fn warnings(outlet: &Outlet) -> Vec<String> {
    let mut warnings = Vec::new();
    if nix::unistd::Uid::effective().is_root() {
        warnings.push("The service runs as root; run it as a user of its own.".to_owned());
    }
    if outlet.is_proxied() {
        let why = "WebSockets of pages do not work: Lightpanda 1.0.2 cannot open them through the proxy that an exemption \
                   needs.";
        warnings.push(why.to_owned());
    }
    let policy = outlet.policy();
    for exempt in policy.exempt() {
        warnings.push(format!("Pages may reach {exempt}, which the configuration exempts from the address rule."));
    }
    for trusted in policy.trusted() {
        warnings.push(format!("Pages may reach {trusted}, which the configuration trusts as public."));
    }
    warnings
}
