//! Processes killed under load: workers of a running service, and the service itself while it keeps artifacts.

#[path = "../support/process.rs"]
mod process;
#[path = "../support/report.rs"]
mod report;
#[path = "../support/service.rs"]
mod service;
mod service_kills;
#[path = "../support/site.rs"]
mod site;
mod worker_kills;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};

use process::Failure;
use service::Programs;
use site::Site;

/// Kills workers under eight clients, or with --service-kills the service under four.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    programs: Programs,
    /// How long workers are killed; 0 leaves that part out
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Time between two kills of a worker, in milliseconds
    #[arg(long, default_value_t = 500)]
    every_ms: u64,
    /// How often the service itself is killed after that
    #[arg(long, default_value_t = 0)]
    service_kills: u32,
    /// Where the report goes
    #[arg(long, default_value = "target/bench/storm.json")]
    json: PathBuf,
    #[arg(long = site::SITE_FLAG, hide = true)]
    serve_site: Option<Ipv4Addr>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one part found.
struct Part {
    bars: Vec<(String, bool)>,
    report: Value,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Failure> {
    let arguments = Arguments::parse();
    if let Some(ip) = arguments.serve_site {
        site::serve(ip).await?;
    }
    let site = Site::start(Ipv4Addr::LOCALHOST).await?;
    let (mut bars, mut reports) = (Vec::new(), serde_json::Map::new());
    if arguments.seconds > 0 {
        let (lasts, every) = (Duration::from_secs(arguments.seconds), Duration::from_millis(arguments.every_ms));
        let part = worker_kills::run(&arguments.programs, &site, lasts, every).await?;
        bars.extend(part.bars);
        reports.insert("worker_kills".to_owned(), part.report);
    }
    if arguments.service_kills > 0 {
        let part = service_kills::run(&arguments.programs, &site, arguments.service_kills).await?;
        bars.extend(part.bars);
        reports.insert("service_kills".to_owned(), part.report);
    }
    let held: Vec<Value> = bars.iter().map(|(bar, holds)| json!({ "bar": bar, "holds": holds })).collect();
    reports.insert("bars".to_owned(), held.into());
    report::write(&arguments.json, &Value::Object(reports))?;
    Ok(if report::bars(&bars) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
