//! The only wiring: build, bind, serve, drain.
//!
//! Two tokens stop the service. The first ends what is new: the listener and the background tasks. The second, some
//! seconds later, ends the workers, so that every call still under way gets its typed error in time.

mod scripts;
mod status;
mod tasks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::fetch::FetchLimits;
use crate::api::guard::Guard;
use crate::api::hosts::AllowedHosts;
use crate::api::scripts::ScriptLimits;
use crate::api::server::{ServerLimits, serve_connections};
use crate::api::system::Readiness;
use crate::api::{self, ApiState};
use crate::app::artifacts::{Artifacts, Retention};
use crate::app::fetch::Fetcher;
use crate::app::fetch::load::Loader;
use crate::browser::lightpanda::{Lightpanda, LightpandaFlags};
use crate::browser::pool::{Launcher, Pool, PoolOptions};
use crate::browser::{BrowserError, worker};
use crate::config::{Config, LightpandaConfig};
use crate::domain::network::NetworkPolicy;
use crate::egress::outlet::Outlet;
use crate::install;
use crate::store::data_dir::tokens::{TokenError, Tokens};
use crate::store::data_dir::{DataDir, DataDirError};
use crate::store::{Digest, Store, StoreError};
use crate::telemetry::{self, TelemetryError};
use tasks::Essential;

/// Calls in flight have so long when the service stops.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// So long they may go on as if nothing were; what is left then has its worker ended.
const UNDISTURBED: Duration = Duration::from_secs(8);
/// What is left after the drain is our own; it ends at once, or there is a fault.
const TASKS_LIMIT: Duration = Duration::from_secs(5);
/// How long the leftovers of a killed service may take to die.
const SWEEP_LIMIT: Duration = Duration::from_secs(1);
/// How long a worker may take to show its first page: 0.1 s where the machine is idle.
const WORKER_START_LIMIT: Duration = Duration::from_secs(15);
/// The longest path of a Unix socket, by the system's own structure, less the name of ours.
const MAX_RUN_DIR_BYTES: usize = 80;

/// The service could not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the data directory cannot be used")]
    DataDir(#[from] DataDirError),
    #[error(
        "the data directory's path has {bytes} bytes; a Unix socket in it needs at most {MAX_RUN_DIR_BYTES}: choose a shorter --data-dir"
    )]
    LongPath { bytes: usize },
    #[error("the tokens cannot be used")]
    Tokens(#[from] TokenError),
    #[error("the store cannot be opened")]
    Store(#[from] StoreError),
    #[error("cannot listen on {address}: {}", if .source.kind() == std::io::ErrorKind::AddrInUse { "another program listens there" } else { "choose another --listen" })]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the exemption {exemption} names this service itself")]
    ExemptsItself { exemption: String },
    #[error("the egress proxy cannot start")]
    Proxy(#[source] std::io::Error),
    #[error("metrics cannot be recorded")]
    Telemetry(#[from] TelemetryError),
    #[error("SIGINT and SIGTERM cannot be watched")]
    Signals,
    #[error("the task `{name}` ended, which it never should")]
    TaskEnded { name: &'static str },
    #[error("some tasks did not end within {} s", TASKS_LIMIT.as_secs())]
    Leftovers,
}

/// A service that listens. Dropping it stops it without a drain.
pub struct Running {
    address: SocketAddr,
    url: String,
    data_dir: DataDir,
    store: Store,
    tracker: TaskTracker,
    /// Nothing new.
    shutdown: CancellationToken,
    /// Nothing at all.
    end: CancellationToken,
    server: JoinHandle<()>,
    fault: watch::Receiver<Option<&'static str>>,
    ready: watch::Receiver<Readiness>,
}

/// Starts the service: returns once it listens.
pub async fn start(config: Config) -> Result<Running, ServeError> {
    raise_file_limit();
    let data_dir = DataDir::open(&config.data_dir)?;
    let run_dir_bytes = data_dir.run().as_os_str().len();
    if run_dir_bytes > MAX_RUN_DIR_BYTES {
        return Err(ServeError::LongPath { bytes: run_dir_bytes });
    }
    let tokens = Tokens::load_or_create(data_dir.path(), &config.token, &config.approver_token)?;
    let owner = owner_of(data_dir.path());
    let leftovers = worker::sweep(&owner, SWEEP_LIMIT).await;
    if leftovers > 0 {
        tracing::warn!(leftovers, "ended workers that a killed service had left behind");
    }
    let store = Store::open(data_dir.path()).await?;
    let metrics = telemetry::install_metrics()?;
    let address = config.listen;
    let listen_error = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    if let Some(exempt) = config.network.allow_private.iter().find(|exempt| config.reaches_itself(exempt, address)) {
        return Err(ServeError::ExemptsItself { exemption: exempt.to_string() });
    }

    let tracker = TaskTracker::new();
    let (shutdown, end) = (CancellationToken::new(), CancellationToken::new());
    let outlet = open_outlet(&config, address, &tracker, &end).await?;
    let flags = lightpanda_flags(&config, outlet.lightpanda_flags());
    let scripts = scripts::scripts(&config, &data_dir, owner.clone(), flags.clone(), &tracker, &end);
    let pool = start_pool(&config, &data_dir, owner, flags, &tracker, &end);
    let artifacts = Arc::new(Artifacts::new(store.clone(), retention(&config)));
    let engine = Arc::new(Lightpanda::new(pool.clone(), tracker.clone()));
    let fetcher = Fetcher::new(Loader { engine, outlet: Arc::clone(&outlet) }, store.clone());
    let essential = Essential::new(tracker.clone(), shutdown.clone());
    let _task = tracker.spawn(telemetry::upkeep(metrics.clone(), shutdown.clone()));
    let ready = essential.readiness(&pool);
    essential.retention(Arc::clone(&artifacts));
    let status = status::Status::new(&config, &data_dir, pool, &outlet, Arc::clone(&artifacts));
    essential.update_check(status.updates(), &config, &data_dir);
    let hosts = AllowedHosts::new(address.port(), &config.allowed_hosts);
    let tokens = api::tokens::Tokens::new(tokens.agent.expose(), tokens.approver.expose());
    let router = api::router(ApiState {
        guard: Arc::new(Guard::new(hosts, tokens)),
        status: Arc::new(status),
        readiness: ready.clone(),
        metrics,
        fetcher,
        fetch_limits: fetch_limits(&config),
        artifacts,
        scripts,
        script_limits: ScriptLimits { timeout: config.scripts.timeout, max_timeout: config.fetch.max_timeout },
    });
    let limits = ServerLimits { drain: DRAIN_LIMIT, ..ServerLimits::default() };
    let serving = serve_connections(listener, router, limits, shutdown.clone(), tracker.clone());
    let server = tracker.spawn(serving);
    let url = data_dir.announce(address)?;
    let fault = essential.fault();
    Ok(Running { address, url, data_dir, store, tracker, shutdown, end, server, fault, ready })
}

/// Resolves at the first SIGINT or SIGTERM. They are watched from this call on, so that one which comes as soon as the
/// service listens already stops it as it should.
pub fn stop_signal() -> Result<impl Future<Output = ()>, ServeError> {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return Err(ServeError::Signals) };
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

impl Running {
    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where its data lives.
    pub fn data_dir(&self) -> &Path {
        self.data_dir.path()
    }

    /// Whether a worker has shown a page.
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.ready.clone()
    }

    /// Runs until `stop` resolves or a task dies that never should; then stops.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let mut fault = self.fault.clone();
        let died = tokio::select! {
            () = stop => None,
            died = fault.wait_for(Option::is_some) => died.ok().and_then(|died| *died),
        };
        if let Some(name) = died {
            tracing::error!(task.name = name, "a task ended that never should; the service stops");
        }
        let stopped = self.stop().await;
        died.map_or(stopped, |name| Err(ServeError::TaskEnded { name }))
    }

    /// Stops: no new work, calls in flight end or get a typed error within 10 s, every child is reaped.
    pub async fn stop(mut self) -> Result<(), ServeError> {
        let started = Instant::now();
        tracing::info!("stopping");
        self.shutdown.cancel();
        if tokio::time::timeout(UNDISTURBED, &mut self.server).await.is_err() {
            self.end.cancel();
            // Its own limit ends it; a panic in it is over as well.
            let _ = (&mut self.server).await;
        }
        self.end.cancel();
        self.tracker.close();
        let ended = tokio::time::timeout(TASKS_LIMIT, self.tracker.wait()).await;
        self.store.close().await;
        tracing::info!(elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(0), "stopped");
        ended.map_err(|_| ServeError::Leftovers)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.end.cancel();
    }
}

/// The API and the proxy together may hold more sockets than the 1,024 files that a process gets by default.
fn raise_file_limit() {
    let raised =
        getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

async fn open_outlet(
    config: &Config,
    address: SocketAddr,
    tracker: &TaskTracker,
    end: &CancellationToken,
) -> Result<Arc<Outlet>, ServeError> {
    let network = &config.network;
    let policy = NetworkPolicy::new(network.trusted_cidrs.clone(), network.allow_private.clone());
    let policy = policy.with_own_ports([address]);
    let outlet = Outlet::open(policy, tracker.clone(), end.clone()).await.map_err(ServeError::Proxy)?;
    Ok(Arc::new(outlet))
}

fn lightpanda_flags(config: &Config, network: Vec<String>) -> LightpandaFlags {
    LightpandaFlags {
        network,
        http_timeout: config.fetch.max_timeout,
        max_response_bytes: config.pool.max_response_bytes,
        page_heap_mb: config.pool.page_heap_mb,
        connections: config.pool.connections_per_worker,
    }
}

fn start_pool(
    config: &Config,
    data_dir: &DataDir,
    owner: String,
    flags: LightpandaFlags,
    tracker: &TaskTracker,
    end: &CancellationToken,
) -> Pool {
    let pool = &config.pool;
    let options = PoolOptions {
        workers: pool.workers,
        connections_per_worker: pool.connections_per_worker,
        queue_limit: pool.queue_limit,
        start_limit: WORKER_START_LIMIT,
        max_pages: pool.worker_max_pages,
        max_age: pool.worker_max_age,
        max_resident_bytes: pool.worker_max_resident_bytes,
        hard_resident_bytes: pool.worker_hard_resident_bytes,
        max_message_bytes: flags.message_bytes(),
    };
    let launcher = launcher(config, data_dir, owner, flags);
    Pool::start(options, launcher, tracker.clone(), end.clone())
}

fn launcher(config: &Config, data_dir: &DataDir, owner: String, flags: LightpandaFlags) -> Launcher {
    let (lightpanda, bin, run) = (config.lightpanda.clone(), data_dir.bin(), data_dir.run());
    let started = AtomicU64::new(0);
    Box::new(move |_slot| {
        let binary = engine_binary(&lightpanda, &bin)?;
        // A number of its own: a worker that is still ending may listen on the one before.
        let number = started.fetch_add(1, Ordering::Relaxed);
        let socket: PathBuf = run.join(format!("w{number}.sock"));
        Ok(flags.command(binary, socket, &run, &owner))
    })
}

/// Resolved at each start of a process, so that the next one picks up a replaced build.
fn engine_binary(lightpanda: &LightpandaConfig, bin: &Path) -> Result<PathBuf, BrowserError> {
    let found = install::find(lightpanda.command.as_deref(), bin, lightpanda.search_path.as_deref());
    found.map(|found| found.path).map_err(|error| BrowserError::NoEngine { reason: error.to_string() })
}

/// Names the data directory in the environment of its workers, without telling its path.
fn owner_of(data_dir: &Path) -> String {
    let path = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    Digest::of(path.as_os_str().as_encoded_bytes()).to_string()
}

fn retention(config: &Config) -> Retention {
    Retention { max_age: config.artifacts.max_age, max_total_bytes: config.artifacts.max_total_bytes }
}

fn fetch_limits(config: &Config) -> FetchLimits {
    FetchLimits {
        timeout: config.fetch.timeout,
        max_timeout: config.fetch.max_timeout,
        settle_ms: u64::try_from(config.fetch.settle.as_millis()).unwrap_or(u64::MAX),
        max_chars: config.fetch.max_chars,
    }
}
