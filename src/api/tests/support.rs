//! A real server on a free port with some routes of the tests' own, and a client that sends raw bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::extract::{ApiJson, ApiPath, ApiQuery};
use crate::api::fetch::FetchLimits;
use crate::api::guard::Guard;
use crate::api::hosts::AllowedHosts;
use crate::api::problem::ProblemDocument;
use crate::api::scripts::ScriptLimits;
use crate::api::server::{ServerLimits, serve_connections};
use crate::api::system::{Readiness, StatusReport, StatusSource};
use crate::api::tokens::Tokens;
use crate::api::{ApiState, docs, layered, routes};
use crate::app::artifacts::{Artifacts, Retention};
use crate::app::fetch::Fetcher;
use crate::app::fetch::load::Loader;
use crate::app::scripts::Scripts;
use crate::browser::BrowserError;
use crate::browser::lightpanda::Lightpanda;
use crate::browser::pool::{Pool, PoolOptions};
use crate::domain::ids::ArtifactId;
use crate::domain::network::NetworkPolicy;
use crate::egress::outlet::Outlet;
use crate::store::Store;
use crate::telemetry;

pub const AGENT: &str = "agent-token-of-the-test";
pub const APPROVER: &str = "approver-token-of-the-test";

/// Long enough for a loaded machine; no test waits for it when things are well.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Server {
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
    pub tracker: TaskTracker,
    pub readiness: watch::Sender<Readiness>,
    /// What the handler of `/v1/hang` went through.
    pub hang: mpsc::UnboundedReceiver<Hang>,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with(ServerLimits::default()).await
    }

    pub async fn start_with(limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (router, readiness, hang) = router_for(address.port()).await;
        let (shutdown, tracker) = (CancellationToken::new(), TaskTracker::new());
        tracker.spawn(serve_connections(listener, router, limits, shutdown.clone(), tracker.clone()));
        Self { address, shutdown, tracker, readiness, hang }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends the bytes on a connection of their own and reads all that comes back.
    pub async fn send(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        read_answer(&mut stream).await
    }

    /// A request with a right Host and `headers`, each ending in `\r\n`.
    pub async fn request(&self, method: &str, target: &str, headers: &str, body: &str) -> Answer {
        self.send(self.head(method, target, headers, body.len()) + body).await
    }

    pub async fn get(&self, target: &str) -> Answer {
        self.request("GET", target, &bearer(AGENT), "").await
    }

    /// The head of a request that the guard lets through, apart from its token.
    pub fn head(&self, method: &str, target: &str, headers: &str, length: usize) -> String {
        let length = if length > 0 { format!("Content-Length: {length}\r\n") } else { String::new() };
        let host = self.address;
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}{length}\r\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub fn json_headers() -> String {
    bearer(AGENT) + "Content-Type: application/json\r\n"
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The problem that it is. Fails on anything that is not a whole problem of the frame.
    pub fn problem(&self) -> ProblemDocument {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: ProblemDocument = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        assert_eq!(Some(problem.request_id.as_str()), self.header("x-request-id"));
        problem
    }

    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str) -> ProblemDocument {
        let problem = self.problem();
        assert_eq!((self.status, problem.code.as_str()), (status, code), "{problem:?}");
        problem
    }
}

/// Reads to the end of the connection and takes the first answer apart.
pub async fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an answer in time").unwrap();
    parse_answer(&bytes)
}

pub fn parse_answer(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Answer { status, headers, body: bytes[end + 4..].to_vec() }
}

/// What happened to one call of `/v1/hang`.
#[derive(Debug, PartialEq, Eq)]
pub enum Hang {
    Began,
    Dropped,
}

/// The API with the routes of the tests beside it.
pub async fn router_for(port: u16) -> (Router, watch::Sender<Readiness>, mpsc::UnboundedReceiver<Hang>) {
    let (readiness, readiness_seen) = watch::channel(Readiness::Starting);
    let (hang, hang_seen) = mpsc::unbounded_channel();
    let tokens = Tokens::new(AGENT, APPROVER);
    let (fetcher, fetch_limits, artifacts) = use_cases().await;
    let state = ApiState {
        guard: Arc::new(Guard::new(AllowedHosts::new(port, &["pandarium.test".to_owned()]), tokens)),
        status: Arc::new(FixedStatus),
        readiness: readiness_seen,
        metrics: telemetry::install_metrics().unwrap(),
        fetcher,
        fetch_limits,
        artifacts,
        scripts: Scripts::new(None, 1),
        script_limits: ScriptLimits { timeout: PATIENCE, max_timeout: PATIENCE },
    };
    let guard = Arc::clone(&state.guard);
    let (api, _) = routes().split_for_parts();
    let api = api.merge(docs::routes()).with_state(Arc::new(state)).merge(test_routes(hang));
    (layered(api, guard), readiness, hang_seen)
}

/// The real use cases, over a pool that has no engine to start.
async fn use_cases() -> (Fetcher, FetchLimits, Arc<Artifacts>) {
    // Dropped with the process: the directory must outlive the server.
    let dir = tempfile::tempdir().unwrap().keep();
    let store = Store::open(&dir).await.unwrap();
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let outlet = Outlet::open(NetworkPolicy::default(), tracker.clone(), stop.clone()).await.unwrap();
    let options = PoolOptions {
        workers: 1,
        connections_per_worker: 1,
        queue_limit: 1,
        start_limit: PATIENCE,
        max_pages: 1,
        max_age: PATIENCE,
        max_resident_bytes: 1,
        hard_resident_bytes: 1,
        max_message_bytes: 1,
    };
    let launcher = Box::new(|_| Err(BrowserError::NoEngine { reason: "none in this test".to_owned() }));
    let pool = Pool::start(options, launcher, tracker.clone(), stop);
    let engine = Arc::new(Lightpanda::new(pool, tracker));
    let fetcher = Fetcher::new(Loader { engine, outlet: Arc::new(outlet) }, store.clone());
    let limits = FetchLimits { timeout: PATIENCE, max_timeout: PATIENCE, settle_ms: 0, max_chars: 1 };
    let retention = Retention { max_age: PATIENCE, max_total_bytes: 1 };
    (fetcher, limits, Arc::new(Artifacts::new(store, retention)))
}

struct FixedStatus;

#[async_trait]
impl StatusSource for FixedStatus {
    async fn status(&self) -> StatusReport {
        StatusReport { version: "1.2.3".to_owned(), ..StatusReport::default() }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Echo {
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    limit: u32,
}

fn test_routes(hang: mpsc::UnboundedSender<Hang>) -> Router {
    Router::new()
        .route("/v1/echo", post(async |ApiJson(echo): ApiJson<Echo>| axum::Json(echo)))
        .route("/v1/limit", get(async |ApiQuery(limit): ApiQuery<Limit>| axum::Json(limit)))
        .route("/v1/items/{id}", get(async |ApiPath(id): ApiPath<ArtifactId>| axum::Json(id)))
        .route("/v1/panic", get(panics))
        .route("/v1/hang", get(hangs))
        .with_state(hang)
}

async fn panics() -> &'static str {
    panic!("the page said: {AGENT}")
}

/// Ends only by being dropped, unless the query says after how many milliseconds.
async fn hangs(State(hang): State<mpsc::UnboundedSender<Hang>>, uri: axum::http::Uri) -> &'static str {
    struct OnDrop(mpsc::UnboundedSender<Hang>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(Hang::Dropped);
        }
    }
    hang.send(Hang::Began).unwrap();
    let _on_drop = OnDrop(hang);
    match uri.query() {
        Some(wait) => tokio::time::sleep(Duration::from_millis(wait.parse().unwrap())).await,
        None => std::future::pending().await,
    }
    "done"
}
