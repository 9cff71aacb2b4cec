//! Eight clients fetch while a worker is killed again and again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use crate::process::{self, Failure};
use crate::service::{Programs, Service};
use crate::site::{self, Site};
use crate::{Part, report};

const CLIENTS: u32 = 8;
/// A replacement is promised within a second.
const REPLACED_LIMIT: Duration = Duration::from_secs(1);
/// How often the pool is asked for the replacement.
const POLL: Duration = Duration::from_millis(10);
/// Wrong answers that the report shows.
const SHOWN_FAULTS: usize = 20;

/// What the clients saw.
#[derive(Default)]
struct Seen {
    succeeded: u64,
    /// Typed problems, by code.
    problems: BTreeMap<String, u64>,
    /// Answers that are neither a page nor a typed problem, and calls without an answer.
    untyped: Vec<String>,
    /// Pages that hold another page's text, or none.
    wrong: Vec<String>,
}

/// What the killer saw.
#[derive(Default)]
struct Killed {
    kills: u64,
    /// From the kill of a worker until the pool was as large as before, without it.
    replaced: Vec<Duration>,
    /// Kills after which it was not in time.
    late: u64,
}

pub async fn run(programs: &Programs, site: &Site, lasts: Duration, every: Duration) -> Result<Part, Failure> {
    let data_dir = tempfile::tempdir()?;
    let environment = [
        ("PANDARIUM_ALLOW_PRIVATE", site.address().to_string()),
        ("PANDARIUM_FETCH_WORKERS", "2".to_owned()),
        ("PANDARIUM_CONNECTIONS_PER_WORKER", "4".to_owned()),
    ];
    let service = Service::start(programs, data_dir.path(), &environment).await?;
    let until = Instant::now() + lasts;
    let clients = join_all((0..CLIENTS).map(|client| fetch_until(&service, site, client, until)));
    let (seen, killed) = tokio::join!(clients, kill_until(&service, every, until));
    let killed = killed?;
    report::progress_done();
    let status = status(&service).await?;
    service.stop().await?;
    let mut all = Seen::default();
    seen.into_iter().for_each(|seen| all.add(seen));
    Ok(Part { bars: bars(&all, &killed), report: describe(&all, &killed, &status) })
}

async fn fetch_until(service: &Service, site: &Site, client: u32, until: Instant) -> Seen {
    let mut seen = Seen::default();
    let mut number = 0_u64;
    while Instant::now() < until {
        let nonce = format!("c{client}x{number}");
        number += 1;
        let body = json!({ "url": site.url(&format!("/list?n={nonce}")), "artifact": "never", "timeout_ms": 30_000 });
        match service.fetch(&body).await {
            Ok((status, answer)) => seen.note(&nonce, status, &answer),
            Err(error) => seen.untyped.push(error.to_string()),
        }
    }
    seen
}

impl Seen {
    fn note(&mut self, nonce: &str, status: u16, answer: &Value) {
        let content = answer["content"].as_str();
        match (content, answer["code"].as_str()) {
            (Some(content), _) if status == 200 => {
                if content.contains(&format!("{nonce}-mark")) && content.contains(&site::last_item(nonce)) {
                    self.succeeded += 1;
                } else {
                    self.wrong.push(format!("{nonce}: {answer}"));
                }
            }
            (None, Some(code)) if status >= 400 => *self.problems.entry(code.to_owned()).or_default() += 1,
            _ => self.untyped.push(format!("{nonce}: {status} {answer}")),
        }
    }

    fn add(&mut self, other: Self) {
        self.succeeded += other.succeeded;
        for (code, count) in other.problems {
            *self.problems.entry(code).or_default() += count;
        }
        self.untyped.extend(other.untyped);
        self.wrong.extend(other.wrong);
    }
}

async fn kill_until(service: &Service, every: Duration, until: Instant) -> Result<Killed, Failure> {
    let mut killed = Killed::default();
    let size = workers(service).await?.len();
    let mut next = Instant::now();
    while Instant::now() < until {
        tokio::time::sleep_until(next.into()).await;
        next = (next + every).max(Instant::now());
        let workers = workers(service).await?;
        let Some(victim) = workers.choose(&mut rand::rng()).copied() else { continue };
        process::signal(victim, Signal::SIGKILL);
        killed.kills += 1;
        match replaced(service, victim, size).await? {
            Some(after) => killed.replaced.push(after),
            None => killed.late += 1,
        }
        report::progress(&format!("{} kills, {} replaced late", killed.kills, killed.late));
    }
    Ok(killed)
}

/// How long the pool was without its full number of workers; none when that is longer than is promised.
async fn replaced(service: &Service, victim: u32, size: usize) -> Result<Option<Duration>, Failure> {
    let killed = Instant::now();
    loop {
        let workers = workers(service).await?;
        if workers.len() >= size && !workers.contains(&victim) {
            return Ok(Some(killed.elapsed()));
        }
        if killed.elapsed() > REPLACED_LIMIT {
            return Ok(None);
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn status(service: &Service) -> Result<Value, Failure> {
    let (_, text) = service.get("/v1/status").await?;
    Ok(serde_json::from_str(&text)?)
}

async fn workers(service: &Service) -> Result<Vec<u32>, Failure> {
    let status = status(service).await?;
    let pids = status["pool"]["pids"].as_array().ok_or("the status has no pids")?;
    Ok(pids.iter().filter_map(|pid| u32::try_from(pid.as_u64()?).ok()).collect())
}

fn bars(seen: &Seen, killed: &Killed) -> Vec<(String, bool)> {
    let problems: u64 = seen.problems.values().sum();
    let slowest = killed.replaced.iter().max().copied().unwrap_or_default().as_millis();
    vec![
        (format!("{} fetches succeeded, {} typed problems {:?}", seen.succeeded, problems, seen.problems), true),
        (format!("{} answers without a type", seen.untyped.len()), seen.untyped.is_empty()),
        (format!("{} pages with a wrong text", seen.wrong.len()), seen.wrong.is_empty()),
        (
            format!(
                "{} kills; slowest replacement {slowest} ms, {} later than {} ms",
                killed.kills,
                killed.late,
                REPLACED_LIMIT.as_millis()
            ),
            killed.late == 0 && killed.kills > 0,
        ),
    ]
}

fn describe(seen: &Seen, killed: &Killed, status: &Value) -> Value {
    let shown = |faults: &[String]| faults.iter().take(SHOWN_FAULTS).cloned().collect::<Vec<_>>();
    let mut replaced: Vec<u128> = killed.replaced.iter().map(Duration::as_millis).collect();
    replaced.sort_unstable();
    json!({
        "succeeded": seen.succeeded,
        "problems": seen.problems,
        "untyped": seen.untyped.len(),
        "untyped_shown": shown(&seen.untyped),
        "wrong": seen.wrong.len(),
        "wrong_shown": shown(&seen.wrong),
        "kills": killed.kills,
        "replaced_late": killed.late,
        "replaced_ms_median": replaced.get(replaced.len() / 2),
        "replaced_ms_max": replaced.last(),
        "pool_at_the_end": status["pool"],
    })
}
