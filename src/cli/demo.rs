//! `pandarium demo`: a service and a small site, and each call of the main job.

mod call;
mod site;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::interrupt::unless_interrupted;
use super::{CliError, engine, output};
use crate::api::system::Readiness;
use crate::config::Config;
use crate::domain::network::HostPort;
use crate::install::{self, FindError, Found};
use crate::serve::{self, Running};
use crate::store::data_dir::tokens::TokenSource;
use crate::telemetry;
use call::{Answer, Call, Caller};

/// How long the first worker may take to show a page.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// The demonstration went wrong.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("a temporary directory or the small site could not be set up")]
    SetUp(#[from] io::Error),
    #[error("there is no engine that could show a page")]
    NoEngine(#[source] FindError),
    #[error("no worker showed a page within {} s: {reason}", READY_LIMIT.as_secs())]
    NotReady { reason: String },
    #[error("the service could not be called")]
    Call(#[from] reqwest::Error),
    #[error("the answer to `{call}` is not what it should be: {answer}")]
    WrongAnswer { call: String, answer: String },
}

/// Runs in a data directory of its own, which is gone afterwards; the engine is taken from, or installed into, the
/// usual one.
pub async fn run(config: Config) -> Result<(), CliError> {
    engine::ensure(&config).await?;
    let engine = found(&config)?;
    // Only what goes wrong: the calls are the show.
    drop(telemetry::init_logging("error", config.log.format));
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    // Both outlive the signal that ends the show: the service is stopped before its directory goes.
    let (mut directory, mut service) = (None, None);
    let shown = unless_interrupted(async {
        let directory: &TempDir = directory.insert(tempfile::tempdir().map_err(DemoError::SetUp)?);
        let site = site::serve(&tracker, stop.clone()).await.map_err(DemoError::SetUp)?;
        let own = own(&config, engine, directory.path(), site);
        let service: &Running = service.insert(serve::start(own).await?);
        show(service, site).await
    })
    .await;
    let stopped = match service {
        Some(service) => service.stop().await,
        None => Ok(()),
    };
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    shown?;
    stopped?;
    output::line(
        "\nThat was it; nothing is left running. Next:\n  pandarium serve                       the service on 127.0.0.1:7878\n  \
         pandarium token                       how to call it with curl\n  pandarium fetch https://example.com/  one page, \
         in one command\nDuring `pandarium serve`, http://127.0.0.1:7878/docs describes every call.",
    )
}

/// The engine that a service in the usual data directory would start.
fn found(config: &Config) -> Result<Found, DemoError> {
    let (command, bin) = (config.lightpanda.command.as_deref(), config.data_dir.join("bin"));
    install::find(command, &bin, config.lightpanda.search_path.as_deref()).map_err(DemoError::NoEngine)
}

/// The configuration of the demo's own service.
fn own(config: &Config, engine: Found, directory: &Path, site: SocketAddr) -> Config {
    let mut own = config.clone();
    own.lightpanda.command = Some(engine.path.display().to_string());
    own.data_dir = directory.to_owned();
    own.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    (own.token, own.approver_token) = (TokenSource::DataDir, TokenSource::DataDir);
    own.pool.workers = 1;
    // Loopback is private: without this word no page of the small site could be read.
    own.network.allow_private = vec![HostPort { host: url::Host::Ipv4(Ipv4Addr::LOCALHOST), port: site.port() }];
    own
}

async fn show(service: &Running, site: SocketAddr) -> Result<(), CliError> {
    output::line(&format!("A service listens on {}, and a small site on http://{site}.", service.url()))?;
    wait_until_ready(service).await?;
    let caller = Caller::new(service).map_err(DemoError::from)?;
    for call in pages(site) {
        make(&caller, &call).await?;
    }
    let cut = cut_page(site);
    let answer = make(&caller, &cut).await?;
    let artifact = answer.artifact().ok_or_else(|| wrong(&caller, &cut, &answer))?;
    for call in kept(site, &artifact).into_iter().chain(refusals(site)) {
        make(&caller, &call).await?;
    }
    Ok(())
}

/// Shows the call, sends it, shows the answer and checks it.
async fn make(caller: &Caller, call: &Call) -> Result<Answer, CliError> {
    output::line(&format!("\n# {}\n{}", call.says, caller.curl(call)))?;
    let answer = caller.send(call).await.map_err(DemoError::from)?;
    output::page_text(&answer.shown(call.shows))?;
    if call.is_answered_by(&answer) { Ok(answer) } else { Err(wrong(caller, call, &answer).into()) }
}

fn wrong(caller: &Caller, call: &Call, answer: &Answer) -> DemoError {
    DemoError::WrongAnswer { call: caller.curl(call), answer: answer.shown(usize::MAX) }
}

async fn wait_until_ready(service: &Running) -> Result<(), CliError> {
    let mut readiness = service.readiness();
    let ready = readiness.wait_for(|readiness| *readiness == Readiness::Ready);
    if let Ok(Ok(_)) = tokio::time::timeout(READY_LIMIT, ready).await {
        return Ok(());
    }
    let reason = match &*service.readiness().borrow() {
        Readiness::Unavailable { reason } => reason.clone(),
        _ => "it is still starting".to_owned(),
    };
    Err(DemoError::NotReady { reason }.into())
}

/// The main job, call by call. What each answer must hold is checked, so that the demo is also a test.
fn pages(site: SocketAddr) -> Vec<Call> {
    let page = |path: &str| format!("http://{site}{path}");
    vec![
        Call::get("Is it ready? A worker has really shown a page.", "/readyz").holding(200, "ready"),
        Call::get("Read an article: the text alone, as Markdown.", &format!("/v1/fetch?url={}", page("/")))
            .accepting("text/markdown")
            .holding(200, "## Speed"),
        Call::post(
            "Read a list that JavaScript builds from data that arrive late. Nothing says so; it is waited for.",
            serde_json::json!({ "url": page("/products.html"), "content": "full" }),
        )
        .holding(200, "Guadua: 5 m")
        .showing(1_200),
        Call::get("A table stays a table.", &format!("/v1/fetch?url={}", page("/table.html")))
            .accepting("text/markdown")
            .holding(200, "| *Phyllostachys edulis* | 20 |"),
        Call::post("Only the links.", serde_json::json!({ "url": page("/"), "format": "links", "content": "full" }))
            .holding(200, "/products.html")
            .showing(500),
        Call::get("A form, as text.", &format!("/v1/fetch?url={}&content=full", page("/form.html")))
            .accepting("text/markdown")
            .holding(200, "A. Reader"),
    ]
}

fn cut_page(site: SocketAddr) -> Call {
    Call::post("A long page is cut, and says so; the whole text is kept as an artifact.", cut_request(site))
        .holding(200, "\"truncated\":true")
        .showing(900)
}

fn cut_request(site: SocketAddr) -> serde_json::Value {
    serde_json::json!({ "url": format!("http://{site}/"), "max_chars": 450, "max_age_s": 60 })
}

/// What can be done with the text that was kept under this id.
fn kept(site: SocketAddr, artifact: &str) -> Vec<Call> {
    let content = format!("/v1/artifacts/{artifact}/content");
    vec![
        Call::get("One section of what was cut off.", &format!("{content}?heading=Age"))
            .accepting("text/markdown")
            .holding(200, "about ten years"),
        Call::get("A word in it, with what stands around.", &format!("{content}?find=rhizomes"))
            .holding(200, "\"total_matches\":1"),
        Call::post("The same page again: the kept answer is young enough.", cut_request(site))
            .holding(200, "\"cached\":true")
            .showing(300),
        Call::get("What has been kept.", "/v1/artifacts").holding(200, "\"items\":[{").showing(400),
    ]
}

/// Answers that are no page of text.
fn refusals(site: SocketAddr) -> Vec<Call> {
    let page = |path: &str| format!("http://{site}{path}");
    vec![
        Call::get("A page's own 404 is a page.", &format!("/v1/fetch?url={}", page("/nowhere")))
            .holding(200, "\"http_status\":404")
            .showing(300),
        Call::get(
            "A PDF is not text: a typed error, with its content type.",
            &format!("/v1/fetch?url={}", page("/paper.pdf")),
        )
        .holding(415, "application/pdf"),
        Call::get("Addresses inside are out of bounds, whoever asks.", "/v1/fetch?url=http://169.254.169.254/latest/")
            .holding(403, "network_blocked"),
    ]
}
