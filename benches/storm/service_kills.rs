//! The service is killed while four clients keep artifacts, and started again on the same data directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use pandarium::store::Digest;
use serde_json::{Value, json};

use crate::process::{self, Failure};
use crate::service::{Programs, Service};
use crate::site::Site;
use crate::{Part, report};

const CLIENTS: u32 = 4;
/// When the kill comes, after the clients have begun.
const KILL_AFTER_MS: std::ops::RangeInclusive<u64> = 50..=400;
/// When no process of the killed service may be left, after the restart.
const SWEPT_LIMIT: Duration = Duration::from_secs(2);
/// The marker that each engine process carries in its environment.
const OWNER_VARIABLE: &str = "PANDARIUM_WORKER_OF";
/// Characters of a page of an artifact; more than any artifact here has.
const ALL_CHARS: usize = 1_000_000;

/// SHA-256 by id of every artifact that a client was told of.
type Acknowledged = Arc<Mutex<BTreeMap<String, String>>>;

#[derive(Default)]
struct Found {
    kills: u32,
    acknowledged: usize,
    listed: usize,
    /// Artifacts that were acknowledged and are gone or different, or listed and unreadable.
    broken: Vec<String>,
    /// Kills after which a process of the killed service was left.
    left: Vec<String>,
    restart: Duration,
}

pub async fn run(programs: &Programs, site: &Site, kills: u32) -> Result<Part, Failure> {
    let data_dir = tempfile::tempdir()?;
    let acknowledged = Acknowledged::default();
    let mut found = Found::default();
    let mut service = start(programs, site, data_dir.path()).await?;
    for kill in 0..kills {
        let earlier = marked(data_dir.path())?;
        if earlier.is_empty() {
            return Err("no worker carries the mark of the data directory".into());
        }
        keep_until_killed(service, site, kill, &acknowledged).await?;
        let restarted = Instant::now();
        service = start(programs, site, data_dir.path()).await?;
        found.restart = found.restart.max(restarted.elapsed());
        check(&service, &acknowledged, &mut found).await?;
        tokio::time::sleep_until((restarted + SWEPT_LIMIT).into()).await;
        let left: Vec<u32> = marked(data_dir.path())?.into_iter().filter(|pid| earlier.contains(pid)).collect();
        if !left.is_empty() {
            found.left.push(format!("kill {kill}: {left:?}"));
        }
        found.kills += 1;
        report::progress(&format!("{} of {kills} kills, {} artifacts kept", found.kills, found.acknowledged));
    }
    report::progress_done();
    service.stop().await?;
    Ok(Part { bars: found.bars(), report: found.describe() })
}

async fn start(programs: &Programs, site: &Site, data_dir: &Path) -> Result<Service, Failure> {
    let environment =
        [("PANDARIUM_ALLOW_PRIVATE", site.address().to_string()), ("PANDARIUM_FETCH_WORKERS", "1".to_owned())];
    Service::start(programs, data_dir, &environment).await
}

/// Four clients keep artifacts until the service is killed at a moment of chance.
async fn keep_until_killed(service: Service, site: &Site, kill: u32, kept: &Acknowledged) -> Result<(), Failure> {
    let pid = service.pid();
    let clients = join_all((0..CLIENTS).map(|client| keep(&service, site, format!("k{kill}c{client}"), kept)));
    let killer = async {
        let after = Duration::from_millis(rand::random_range(KILL_AFTER_MS));
        tokio::time::sleep(after).await;
        process::signal(pid, Signal::SIGKILL);
    };
    tokio::join!(clients, killer);
    service.ended().await
}

/// Fetches with an artifact each until the service no longer answers.
async fn keep(service: &Service, site: &Site, client: String, kept: &Acknowledged) {
    for number in 0_u64.. {
        let url = site.url(&format!("/static?n={client}x{number}"));
        let Ok((status, answer)) = service.fetch(&json!({ "url": url, "artifact": "always" })).await else { return };
        let artifact = &answer["artifact"];
        if let (200, Some(id), Some(sha256)) = (status, artifact["id"].as_str(), artifact["sha256"].as_str()) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(id.to_owned(), sha256.to_owned());
        }
    }
}

/// Every acknowledged artifact is whole, and every listed one can be read.
async fn check(service: &Service, acknowledged: &Acknowledged, found: &mut Found) -> Result<(), Failure> {
    let acknowledged = acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let listed = list(service).await?;
    for (id, sha256) in &acknowledged {
        if listed.get(id) != Some(sha256) {
            found.broken.push(format!("{id}: acknowledged as {sha256}, listed as {:?}", listed.get(id)));
        }
    }
    for (id, sha256) in &listed {
        let (status, text) = service.get(&format!("/v1/artifacts/{id}/content?limit={ALL_CHARS}")).await?;
        let content: Value = serde_json::from_str(&text)?;
        let digest = content["content"].as_str().map(|content| Digest::of(content.as_bytes()).to_string());
        if status != 200 || digest.as_ref() != Some(sha256) {
            found.broken.push(format!("{id}: {status}, content has SHA-256 {digest:?}, listed is {sha256}"));
        }
    }
    (found.acknowledged, found.listed) = (acknowledged.len(), listed.len());
    Ok(())
}

/// SHA-256 by id of every artifact that the service lists.
async fn list(service: &Service) -> Result<BTreeMap<String, String>, Failure> {
    let mut listed = BTreeMap::new();
    let mut path = "/v1/artifacts?limit=500".to_owned();
    loop {
        let (status, text) = service.get(&path).await?;
        let page: Value = serde_json::from_str(&text)?;
        let items = page["items"].as_array().ok_or_else(|| format!("the list is {status}: {text}"))?;
        for item in items {
            let text_of = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
            listed.insert(text_of("id"), text_of("sha256"));
        }
        let Some(cursor) = page["next_cursor"].as_str() else { return Ok(listed) };
        path = format!("/v1/artifacts?limit=500&cursor={cursor}");
    }
}

/// The living processes that carry the mark of this data directory.
fn marked(data_dir: &Path) -> Result<Vec<u32>, Failure> {
    let path = data_dir.canonicalize()?;
    let mark = format!("{OWNER_VARIABLE}={}", Digest::of(path.as_os_str().as_encoded_bytes()));
    let entries = std::fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    Ok(pids.filter(is_marked).collect())
}

impl Found {
    fn bars(&self) -> Vec<(String, bool)> {
        let (kills, acknowledged, listed) = (self.kills, self.acknowledged, self.listed);
        vec![
            (
                format!("{kills} kills of the service; {acknowledged} artifacts acknowledged, {listed} listed"),
                acknowledged > 0,
            ),
            (format!("{} artifacts lost or not whole", self.broken.len()), self.broken.is_empty()),
            (format!("{} kills left a process behind", self.left.len()), self.left.is_empty()),
        ]
    }

    fn describe(&self) -> Value {
        json!({
            "kills": self.kills,
            "acknowledged": self.acknowledged,
            "listed": self.listed,
            "broken": self.broken,
            "left": self.left,
            "slowest_restart_ms": self.restart.as_millis(),
        })
    }
}
