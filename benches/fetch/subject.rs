//! What is measured: the service, the bare engine and Chromium, each with its own processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpStream, UnixStream};

use crate::cdp::Cdp;
use crate::page::{self, Take};
use crate::process::{Failure, Running, command};
use crate::service::{Programs, Service};
use crate::site::Site;
use crate::usage::Tree;

/// The limits that the service gives its workers.
const LIGHTPANDA_FLAGS: [&str; 8] = [
    "--http-timeout",
    "600000",
    "--http-max-response-size",
    "20971520",
    "--v8-max-heap-mb",
    "256",
    "--watchdog-ms",
    "30000",
];
const CHROMIUM_FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Tabs in the background would otherwise be slowed down.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--remote-debugging-port=0",
    "about:blank",
];
const START_LIMIT: Duration = Duration::from_secs(30);
/// The network that the namespace has, as the service's configuration names it.
pub const NETWORK: &str = "198.18.0.0/15";

/// Something that turns a URL into content, on several lanes at once.
#[async_trait(?Send)]
pub trait Subject {
    /// The processes that count.
    fn tree(&self) -> Tree;
    /// The process that is told apart from its tree.
    fn alone(&self) -> Option<u32> {
        None
    }
    async fn read(&self, lane: usize, url: &str) -> Result<String, Failure>;
    /// Ends its processes.
    async fn stop(self: Box<Self>) -> Result<(), Failure>;
}

/// The service, with one worker.
pub struct Served {
    service: Service,
    _data_dir: TempDir,
}

impl Served {
    pub async fn start(programs: &Programs, site: &Site, lanes: usize, by_proxy: bool) -> Result<Self, Failure> {
        let data_dir = tempfile::tempdir()?;
        // A host that is exempt alone is reached through the service's proxy; a trusted network by the engine itself.
        let reach = if by_proxy {
            ("PANDARIUM_ALLOW_PRIVATE", site.address().to_string())
        } else {
            ("PANDARIUM_TRUSTED_CIDRS", NETWORK.to_owned())
        };
        let environment = [
            reach,
            ("PANDARIUM_FETCH_WORKERS", "1".to_owned()),
            ("PANDARIUM_CONNECTIONS_PER_WORKER", lanes.to_string()),
        ];
        let service = Service::start(programs, data_dir.path(), &environment).await?;
        Ok(Self { service, _data_dir: data_dir })
    }
}

#[async_trait(?Send)]
impl Subject for Served {
    fn tree(&self) -> Tree {
        Tree::Of(self.service.pid())
    }

    fn alone(&self) -> Option<u32> {
        Some(self.service.pid())
    }

    async fn read(&self, _lane: usize, url: &str) -> Result<String, Failure> {
        let (status, answer) = self.service.fetch(&json!({ "url": url, "artifact": "never" })).await?;
        let content = answer["content"].as_str().filter(|_| status == 200);
        content.map(str::to_owned).ok_or_else(|| format!("{status}: {answer}").into())
    }

    async fn stop(self: Box<Self>) -> Result<(), Failure> {
        let (_, status) = self.service.get("/v1/status").await?;
        let status: Value = serde_json::from_str(&status)?;
        if status["pool"]["crashed"] != 0 {
            return Err(format!("workers crashed under the measurement: {}", status["pool"]).into());
        }
        self.service.stop().await
    }
}

fn lightpanda(binary: &Path, home: &Path) -> Command {
    let mut lightpanda = command(binary);
    lightpanda.env("LIGHTPANDA_DISABLE_TELEMETRY", "true").env("HOME", home);
    lightpanda
}

/// `lightpanda serve`, one connection a lane, a browser context for each page.
pub struct BareServe {
    running: Running,
    lanes: Vec<Cdp>,
    take: Take,
    _home: TempDir,
}

impl BareServe {
    pub async fn start(binary: &Path, lanes: usize, take: Take) -> Result<Self, Failure> {
        let home = tempfile::tempdir()?;
        let socket = home.path().join("engine.sock");
        let mut serve = lightpanda(binary, home.path());
        serve.args(["serve", "--unix-socket"]).arg(&socket).args(LIGHTPANDA_FLAGS);
        let running = Running::start(serve)?;
        let mut connections = Vec::new();
        for _ in 0..lanes {
            connections.push(Cdp::over(connect(&socket).await?, "ws://localhost/").await?);
        }
        Ok(Self { running, lanes: connections, take, _home: home })
    }
}

async fn connect(socket: &Path) -> Result<UnixStream, Failure> {
    let until = tokio::time::Instant::now() + START_LIMIT;
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) if tokio::time::Instant::now() > until => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

#[async_trait(?Send)]
impl Subject for BareServe {
    fn tree(&self) -> Tree {
        Tree::Of(self.running.pid())
    }

    async fn read(&self, lane: usize, url: &str) -> Result<String, Failure> {
        let cdp = self.lanes.get(lane).ok_or("no such lane")?;
        let made = cdp.call(None, "Target.createBrowserContext", json!({})).await?;
        let context = page::text(&made["browserContextId"])?;
        let (_target, session) = page::open(cdp, Some(&context), self.take).await?;
        let content = page::read(cdp, &session, url, self.take).await?;
        cdp.call(None, "Target.disposeBrowserContext", json!({ "browserContextId": context })).await?;
        Ok(content)
    }

    async fn stop(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// `lightpanda fetch`, a process for each page.
pub struct BareFetch {
    binary: PathBuf,
    /// Begins every URL of a page.
    mark: String,
    home: TempDir,
}

impl BareFetch {
    pub fn new(binary: &Path, site: &Site) -> Result<Self, Failure> {
        Ok(Self { binary: binary.to_owned(), mark: site.url("/"), home: tempfile::tempdir()? })
    }
}

#[async_trait(?Send)]
impl Subject for BareFetch {
    fn tree(&self) -> Tree {
        Tree::Passing { parent: std::process::id(), mark: self.mark.clone() }
    }

    async fn read(&self, _lane: usize, url: &str) -> Result<String, Failure> {
        let mut fetch = lightpanda(&self.binary, self.home.path());
        fetch.args(["fetch", "--dump", "markdown", "--wait-until", "done"]).args(LIGHTPANDA_FLAGS).arg(url);
        let output = tokio::process::Command::from(fetch).stdout(Stdio::piped()).output().await?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn stop(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Headless Chromium.
pub struct Chromium {
    running: Running,
    cdp: Cdp,
    /// The session of each lane's tab where tabs are re-used; empty where each page has its own.
    tabs: Vec<String>,
    profile: TempDir,
}

impl Chromium {
    pub async fn start(binary: &Path, reused_tabs: usize) -> Result<Self, Failure> {
        let profile = tempfile::tempdir()?;
        let mut chromium = command(binary);
        chromium
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", profile.path())
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(CHROMIUM_FLAGS);
        let running = Running::start(chromium)?;
        let (port, path) = devtools(&profile.path().join("DevToolsActivePort")).await?;
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let cdp = Cdp::over(stream, &format!("ws://127.0.0.1:{port}{path}")).await?;
        let mut tabs = Vec::new();
        for _ in 0..reused_tabs {
            tabs.push(page::open(&cdp, None, Take::Html).await?.1);
        }
        Ok(Self { running, cdp, tabs, profile })
    }
}

/// The port and the path of the browser's own target, once it has written them.
async fn devtools(file: &Path) -> Result<(u16, String), Failure> {
    let until = tokio::time::Instant::now() + START_LIMIT;
    while tokio::time::Instant::now() < until {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some((port, path)) = text.split_once('\n').filter(|(_, path)| !path.is_empty()) {
            return Ok((port.parse()?, path.trim().to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("Chromium did not tell where it listens".into())
}

#[async_trait(?Send)]
impl Subject for Chromium {
    fn tree(&self) -> Tree {
        Tree::Marked(self.running.pid(), format!("--user-data-dir={}", self.profile.path().display()))
    }

    async fn read(&self, lane: usize, url: &str) -> Result<String, Failure> {
        if let Some(session) = self.tabs.get(lane) {
            return page::read(&self.cdp, session, url, Take::Html).await;
        }
        let (target, session) = page::open(&self.cdp, None, Take::Html).await?;
        let content = page::read(&self.cdp, &session, url, Take::Html).await?;
        self.cdp.call(None, "Target.closeTarget", json!({ "targetId": target })).await?;
        Ok(content)
    }

    async fn stop(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
