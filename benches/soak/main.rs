//! Many small fetches one after another: none is lost, and the service is as small and as quiet after them as before.

#[path = "../support/process.rs"]
mod process;
#[path = "../support/report.rs"]
mod report;
#[path = "../support/service.rs"]
mod service;
#[path = "../support/site.rs"]
mod site;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::{Value, json};

use process::Failure;
use service::{Answer, Programs, Service};
use site::Site;

/// Growth of the service's resident memory after the warm-up that is still no leak: issue and design say 10 MB.
const GROWTH_LIMIT_BYTES: u64 = 10_000_000;
/// Fetches after which the memory counts; a short run counts from its first tenth.
const WARM_UP: u64 = 1_000;
const SAMPLE_EVERY: u64 = 50;
/// How long descriptors and tasks may take to come back.
const IDLE_LIMIT: Duration = Duration::from_secs(15);
/// Wrong answers that the report shows.
const SHOWN_FAULTS: usize = 20;

/// Fetches page after page and watches the service's memory, descriptors and tasks.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    programs: Programs,
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(20..))]
    fetches: u64,
    /// Where the report goes
    #[arg(long, default_value = "target/bench/soak.json")]
    json: PathBuf,
    #[arg(long = site::SITE_FLAG, hide = true)]
    serve_site: Option<Ipv4Addr>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Failure> {
    let arguments = Arguments::parse();
    if let Some(ip) = arguments.serve_site {
        site::serve(ip).await?;
    }
    let site = Site::start(Ipv4Addr::LOCALHOST).await?;
    let data_dir = tempfile::tempdir()?;
    let environment =
        [("PANDARIUM_ALLOW_PRIVATE", site.address().to_string()), ("PANDARIUM_FETCH_WORKERS", "1".to_owned())];
    let service = Service::start(&arguments.programs, data_dir.path(), &environment).await?;
    let soak = Soak::run(&service, &site, arguments.fetches).await?;
    service.stop().await?;
    let bars = soak.bars();
    report::write(&arguments.json, &soak.report(&bars))?;
    Ok(if report::bars(&bars) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the service holds open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
struct Held {
    descriptors: usize,
    tasks: usize,
}

struct Soak {
    fetches: u64,
    elapsed: Duration,
    faults: Vec<String>,
    lost: u64,
    /// Resident bytes after so many fetches.
    samples: Vec<(u64, u64)>,
    before: Held,
    after: Held,
}

impl Soak {
    async fn run(service: &Service, site: &Site, fetches: u64) -> Result<Self, Failure> {
        // One fetch of each kind opens what stays open: the store, the client's own connection.
        for number in 0..10 {
            fetch(service, site, number, "warm").await?;
        }
        let before = Self::held_at_rest(service, None).await?;
        let (mut faults, mut lost, mut samples) = (Vec::new(), 0, Vec::new());
        let started = Instant::now();
        for number in 0..fetches {
            if let Some(fault) = fetch(service, site, number, "soak").await? {
                lost += 1;
                if faults.len() < SHOWN_FAULTS {
                    faults.push(fault);
                }
            }
            if (number + 1) % SAMPLE_EVERY == 0 {
                let resident = resident_bytes(service.pid())?;
                samples.push((number + 1, resident));
                let megabytes = resident / 1_000_000;
                report::progress(&format!("{} of {fetches} fetches, {lost} lost, {megabytes} MB", number + 1));
            }
        }
        report::progress_done();
        let elapsed = started.elapsed();
        let after = Self::held_at_rest(service, Some(before)).await?;
        Ok(Self { fetches, elapsed, faults, lost, samples, before, after })
    }

    /// What is held once it has come down to the goal, or stands still without one.
    async fn held_at_rest(service: &Service, goal: Option<Held>) -> Result<Held, Failure> {
        let until = Instant::now() + IDLE_LIMIT;
        let mut last = held(service).await?;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let held = held(service).await?;
            let is_at_rest = match goal {
                Some(goal) => held.descriptors <= goal.descriptors && held.tasks <= goal.tasks,
                None => held == last,
            };
            if is_at_rest || Instant::now() > until {
                return Ok(held);
            }
            last = held;
        }
    }

    /// Peak after the warm-up above the resident memory at its end, in bytes.
    fn growth(&self) -> u64 {
        let warm_up = WARM_UP.min(self.fetches / 10);
        let counted = || self.samples.iter().filter(|(fetches, _)| *fetches >= warm_up).map(|(_, bytes)| *bytes);
        let begin = counted().next().unwrap_or_default();
        counted().max().unwrap_or_default().saturating_sub(begin)
    }

    fn bars(&self) -> Vec<(String, bool)> {
        let (growth, before, after) = (self.growth(), self.before, self.after);
        vec![
            (format!("{} fetches, {} lost or wrong", self.fetches, self.lost), self.lost == 0),
            (
                format!("the service's resident memory grew by {:.1} MB (limit 10)", mega(growth)),
                growth < GROWTH_LIMIT_BYTES,
            ),
            (
                format!("file descriptors {} before, {} after", before.descriptors, after.descriptors),
                after.descriptors <= before.descriptors,
            ),
            (format!("tasks {} before, {} after", before.tasks, after.tasks), after.tasks <= before.tasks),
        ]
    }

    fn report(&self, bars: &[(String, bool)]) -> Value {
        let samples: Vec<Value> =
            self.samples.iter().map(|(fetches, bytes)| json!({ "fetches": fetches, "rss_bytes": bytes })).collect();
        json!({
            "fetches": self.fetches,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "lost": self.lost,
            "faults": self.faults,
            "rss_growth_bytes": self.growth(),
            "before": self.before,
            "after": self.after,
            "bars": bars.iter().map(|(bar, holds)| json!({ "bar": bar, "holds": holds })).collect::<Vec<_>>(),
            "samples": samples,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// One fetch of the mix; what was wrong with its answer, if anything.
async fn fetch(service: &Service, site: &Site, number: u64, run: &str) -> Result<Option<String>, Failure> {
    let nonce = format!("{run}{number}");
    let (path, expected) = match number % 5 {
        0 => ("/static", Expected::Content(format!("{nonce}-mark"))),
        1 => ("/list", Expected::Content(site::last_item(&nonce))),
        2 => ("/data", Expected::Content(nonce.clone())),
        3 => ("/none", Expected::Status(404, format!("{nonce}-mark"))),
        _ => ("/file", Expected::Problem("unsupported_content_type")),
    };
    let artifact = if number.is_multiple_of(10) { "always" } else { "auto" };
    let body = json!({ "url": site.url(&format!("{path}?n={nonce}")), "artifact": artifact });
    let answer = service.fetch(&body).await;
    let answer = answer.map_err(|error| format!("fetch {number} had no answer: {error}"))?;
    let is_kept = artifact == "auto" || answer.1["artifact"]["id"].is_string();
    Ok((!expected.holds(&answer) || !is_kept).then(|| format!("{path} {nonce}: {} {}", answer.0, answer.1)))
}

enum Expected {
    Content(String),
    /// A page that the server sent with this status.
    Status(u64, String),
    Problem(&'static str),
}

impl Expected {
    fn holds(&self, (status, body): &Answer) -> bool {
        let has = |text: &str| body["content"].as_str().is_some_and(|content| content.contains(text));
        match self {
            Self::Content(text) => *status == 200 && body["http_status"] == 200 && has(text),
            Self::Status(http_status, text) => *status == 200 && body["http_status"] == *http_status && has(text),
            Self::Problem(code) => body["code"] == *code,
        }
    }
}

async fn held(service: &Service) -> Result<Held, Failure> {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", service.pid()))?.count();
    let (_, metrics) = service.get("/metrics").await?;
    let gauge = metrics.lines().find_map(|line| line.strip_prefix("pandarium_tasks "));
    let tasks: f64 = gauge.ok_or("/metrics has no pandarium_tasks")?.trim().parse()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    Ok(Held { descriptors, tasks: tasks as usize })
}

fn resident_bytes(pid: u32) -> Result<u64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}
