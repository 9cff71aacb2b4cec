//! The service against the bare engine and against Chromium, on the same script-heavy pages, round after round.
//!
//! Everything runs in a network namespace of its own. Each measurement has processes of its own, warmed with a few
//! pages that do not count. The order moves on by one each round, so that none always follows the same one.

#[path = "../support/cdp.rs"]
mod cdp;
mod namespace;
mod page;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/report.rs"]
mod report;
#[path = "../support/service.rs"]
mod service;
#[path = "../support/site.rs"]
mod site;
mod subject;
mod table;
mod usage;
mod variant;

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use futures_util::future::join_all;

use process::Failure;
use service::Programs;
use site::Site;
use subject::Subject;
use usage::{Memory, Sampler};
use variant::Variant;

/// Pages of a lane that warm its processes.
const WARM_UP_PAGES: usize = 3;
/// What a message quotes of a wrong content.
const SHOWN_CHARS: usize = 300;
const QUICK_PAGES: usize = 30;
const QUICK_ROUNDS: usize = 2;

/// Measures wall time, CPU time and memory per page of the service, of the bare engine and of Chromium.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    programs: Programs,
    #[arg(long, default_value = "/usr/bin/chromium")]
    chromium: PathBuf,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(8..))]
    pages: u64,
    /// Two rounds of 30 pages
    #[arg(long)]
    quick: bool,
    /// Only the variants whose name has this text
    #[arg(long)]
    only: Option<String>,
    /// Where the report goes
    #[arg(long, default_value = "target/bench/fetch.json")]
    json: PathBuf,
    #[arg(long = namespace::INSIDE_FLAG, hide = true)]
    inside: bool,
    #[arg(long = site::SITE_FLAG, hide = true)]
    serve_site: Option<Ipv4Addr>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one variant took in one round.
#[derive(Debug, Clone, Copy)]
struct Measured {
    variant: Variant,
    round: usize,
    pages: usize,
    /// Pages without an answer, or without their own late content.
    lost: usize,
    wall_ms: f64,
    cpu_ms: f64,
    /// CPU time of this program meanwhile: the client, and the sampling.
    driver_cpu_ms: f64,
    memory: Memory,
    /// CPU and memory of the service's own process; zero for the others.
    alone_cpu_ms: f64,
    alone: Memory,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Failure> {
    let arguments = Arguments::parse();
    if let Some(ip) = arguments.serve_site {
        site::serve(ip).await?;
    }
    if !arguments.inside {
        let lightpanda = arguments.programs.lightpanda()?;
        let given = arguments.programs.lightpanda.is_some();
        let further = if given { vec![] } else { vec![format!("--lightpanda={}", lightpanda.display())] };
        return namespace::run_inside(&further);
    }
    let site = Site::start(namespace::SITE_IP).await?;
    let measured = rounds(&arguments, &site).await?;
    let summary = table::Summary::of(&measured);
    summary.say();
    report::write(&arguments.json, &summary.report(&measured))?;
    let lost: usize = measured.iter().map(|measured| measured.lost).sum();
    report::say(&format!("{lost} pages lost or wrong"));
    Ok(if lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn rounds(arguments: &Arguments, site: &Site) -> Result<Vec<Measured>, Failure> {
    let (rounds, pages) = if arguments.quick {
        (QUICK_ROUNDS, QUICK_PAGES)
    } else {
        (usize::try_from(arguments.rounds)?, usize::try_from(arguments.pages)?)
    };
    let is_wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut variants: Vec<Variant> = Variant::ALL.into_iter().filter(|variant| is_wanted(variant.name())).collect();
    if variants.is_empty() {
        return Err("no variant has this name".into());
    }
    let mut measured = Vec::new();
    for round in 0..rounds {
        for variant in &variants {
            report::progress(&format!("round {} of {rounds}: {}", round + 1, variant.name()));
            let subject = variant.start(&arguments.programs, &arguments.chromium, site).await?;
            measured.push(measure(*variant, subject, site, round, pages).await?);
        }
        variants.rotate_left(1);
    }
    report::progress_done();
    Ok(measured)
}

async fn measure(
    variant: Variant,
    subject: Box<dyn Subject>,
    site: &Site,
    round: usize,
    pages: usize,
) -> Result<Measured, Failure> {
    let lanes = variant.lanes();
    read_pages(&*subject, site, lanes, lanes * WARM_UP_PAGES, "warm").await;
    let (tree, alone) = (subject.tree(), subject.alone());
    let cpu = || -> Result<[f64; 3], Failure> {
        let alone = alone.map(usage::own_cpu_seconds).transpose()?.unwrap_or_default();
        Ok([tree.cpu_seconds()?, usage::own_cpu_seconds(std::process::id())?, alone])
    };
    let before = cpu()?;
    let started = Instant::now();
    let lost = read_pages(&*subject, site, lanes, pages, &format!("r{round}")).await;
    let elapsed = started.elapsed();
    let after = cpu()?;
    // Asking for memory slows a process down: that takes pages of its own, which are not timed.
    let sampler = Sampler::start(tree.clone(), alone);
    let lost = lost + read_pages(&*subject, site, lanes, pages / 2, &format!("m{round}")).await;
    let (memory, alone_memory) = sampler.stop();
    subject.stop().await?;
    let per_page = |seconds: f64| seconds * 1000.0 / f64::from(u32::try_from(pages).unwrap_or(u32::MAX));
    Ok(Measured {
        variant,
        round,
        pages,
        lost,
        wall_ms: per_page(elapsed.as_secs_f64()),
        cpu_ms: per_page(after[0] - before[0]),
        driver_cpu_ms: per_page(after[1] - before[1]),
        memory,
        alone_cpu_ms: per_page(after[2] - before[2]),
        alone: alone_memory,
    })
}

/// Reads so many pages, each lane one after another; how many of them were lost or wrong.
async fn read_pages(subject: &dyn Subject, site: &Site, lanes: usize, pages: usize, run: &str) -> usize {
    let (next, lost) = (Cell::new(0), Cell::new(0));
    let lane = async |lane: usize| {
        while next.get() < pages {
            let nonce = format!("{run}p{}", next.replace(next.get() + 1));
            let content = subject.read(lane, &site.url(&format!("/app?n={nonce}"))).await;
            let fault = match content {
                // Markdown may escape a character of the text.
                Ok(content) if content.replace('\\', "").contains(&site::last_item(&nonce)) => continue,
                Ok(content) => {
                    format!("not the content of the page: {}", content.chars().take(SHOWN_CHARS).collect::<String>())
                }
                Err(error) => error.to_string(),
            };
            lost.set(lost.get() + 1);
            report::progress(&format!("{nonce}: {fault}"));
        }
    };
    join_all((0..lanes).map(lane)).await;
    lost.get()
}
