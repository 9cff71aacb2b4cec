//! The service as a child process, spoken to over HTTP alone.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use pandarium::config::Environment;
use pandarium::install::{BINARY_NAME, PINNED_VERSION};
use serde_json::{Value, json};

use crate::process::{Failure, Running, command};

/// Above every deadline of a call.
const CALL_LIMIT: Duration = Duration::from_secs(120);
const READY_LIMIT: Duration = Duration::from_secs(30);
/// The service promises 10 s.
const STOP_LIMIT: Duration = Duration::from_secs(12);

/// The programs to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct Programs {
    /// The service's binary; the one that was built with this program by default
    #[arg(long, default_value = env!("CARGO_BIN_EXE_pandarium"))]
    pub service: PathBuf,
    /// The Lightpanda binary; by default what PANDARIUM_LIGHTPANDA names, else the pinned build, installed when missing
    #[arg(long)]
    pub lightpanda: Option<PathBuf>,
}

impl Programs {
    /// Installs the pinned build with the service's own command when there is none.
    pub fn lightpanda(&self) -> Result<PathBuf, Failure> {
        let environment = Environment::of_process();
        let given = environment.get("PANDARIUM_LIGHTPANDA").map(PathBuf::from);
        if let Some(given) = self.lightpanda.clone().or(given) {
            return Ok(given);
        }
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lightpanda-{PINNED_VERSION}"));
        let binary = home.join("bin").join(BINARY_NAME);
        if !binary.is_file() {
            let inherited = ["PATH", "HOME", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "HTTPS_PROXY", "https_proxy"];
            let inherited = inherited.into_iter().filter_map(|name| Some((name, environment.get(name)?)));
            let mut setup = command(&self.service);
            setup.envs(inherited).arg("setup").env("PANDARIUM_DATA_DIR", &home).stderr(Stdio::inherit());
            if !setup.status()?.success() {
                return Err("`pandarium setup` failed".into());
            }
        }
        Ok(binary)
    }
}

/// A service that runs; dropping it kills it.
pub struct Service {
    running: Running,
    url: String,
    token: String,
    client: reqwest::Client,
}

/// An answer of the service: the HTTP status and the JSON body.
pub type Answer = (u16, Value);

impl Service {
    /// Starts it on a free port and waits until a worker has shown a page.
    pub async fn start(programs: &Programs, data_dir: &Path, environment: &[(&str, String)]) -> Result<Self, Failure> {
        let mut serve = command(&programs.service);
        serve
            .arg("serve")
            .env("PANDARIUM_LISTEN", "127.0.0.1:0")
            .env("PANDARIUM_INSTALL", "never")
            .env("PANDARIUM_LOG", "warn")
            .env("PANDARIUM_LIGHTPANDA", programs.lightpanda()?)
            .env("PANDARIUM_DATA_DIR", data_dir)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped());
        let mut running = Running::start(serve)?;
        let line = running.first_line().await?;
        let url = line.trim().strip_prefix("listening on ").ok_or("the service said something else first")?.to_owned();
        let token = std::fs::read_to_string(data_dir.join("token"))?.trim().to_owned();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(CALL_LIMIT).build()?;
        let service = Self { running, url, token, client };
        service.wait_until_ready().await?;
        Ok(service)
    }

    async fn wait_until_ready(&self) -> Result<(), Failure> {
        let until = tokio::time::Instant::now() + READY_LIMIT;
        while tokio::time::Instant::now() < until {
            let answer = self.client.get(format!("{}/readyz", self.url)).send().await?;
            if answer.status().is_success() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("the service was not ready in time".into())
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// `POST /v1/fetch`.
    pub async fn fetch(&self, body: &Value) -> Result<Answer, reqwest::Error> {
        let request = self.client.post(format!("{}/v1/fetch", self.url)).bearer_auth(&self.token).json(body);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or_else(|_| json!({ "not_json": text }))))
    }

    /// `GET` of any path, as text.
    pub async fn get(&self, path: &str) -> Result<(u16, String), reqwest::Error> {
        let response = self.client.get(format!("{}{path}", self.url)).bearer_auth(&self.token).send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }

    /// Waits for the end of a service that was killed.
    pub async fn ended(self) -> Result<(), Failure> {
        self.running.end_within(STOP_LIMIT).await
    }

    /// Stops it as a person would.
    pub async fn stop(self) -> Result<(), Failure> {
        self.running.signal(Signal::SIGTERM);
        self.ended().await
    }
}
