//! What the service is told: flags over environment (`PANDARIUM_*`) over a TOML file over defaults.
//!
//! ```text
//! Flags, Environment, file -> Settings (text, with the source of each) -> Config (checked, typed) or all Faults
//! ```
//!
//! [`keys`] documents every key, once.

mod check;
mod environment;
mod fault;
mod file;
mod flags;
mod keys;
mod print;
mod settings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use url::{Host, Url};

pub use environment::Environment;
pub use fault::{Fault, Faults};
pub use flags::{GlobalFlags, ServiceFlags};
use settings::Settings;

use crate::domain::network::HostPort;
use crate::store::data_dir::tokens::TokenSource;
use crate::telemetry::LogFormat;

/// What `_mb` in the name of a key means, in bytes.
const MEBIBYTE: u64 = 1 << 20;

/// The checked configuration. Its `Debug` masks secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Absolute.
    pub data_dir: PathBuf,
    pub token: TokenSource,
    pub approver_token: TokenSource,
    /// `name` (any port) or `name:port`, besides the loopback names.
    pub allowed_hosts: Vec<String>,
    pub lightpanda: LightpandaConfig,
    pub pool: PoolConfig,
    pub fetch: FetchConfig,
    pub scripts: ScriptConfig,
    pub network: NetworkConfig,
    pub artifacts: ArtifactConfig,
    /// Every number in force by its key, for the status.
    pub limits: BTreeMap<String, u64>,
    pub log: LogConfig,
}

/// Which Lightpanda runs, and how it gets onto the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LightpandaConfig {
    /// A path or the name of a command; none: the managed install, else `lightpanda` on the search path.
    pub command: Option<String>,
    pub install: InstallPolicy,
    pub source: LightpandaSource,
    pub release_url: Url,
    /// The value of `PATH`.
    pub search_path: Option<OsString>,
}

/// Whether `serve` and `demo` install a missing engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallPolicy {
    Auto,
    Never,
}

/// Where Lightpanda is installed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LightpandaSource {
    Pypi,
    Stable,
    Nightly,
}

/// The fetch workers and their queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    pub workers: usize,
    pub connections_per_worker: usize,
    pub queue_limit: usize,
    /// After decompression.
    pub max_response_bytes: u64,
    /// In mebibytes, as the engine's flag takes it.
    pub page_heap_mb: u64,
    pub worker_max_pages: u64,
    pub worker_max_age: Duration,
    /// An idle worker above it is replaced.
    pub worker_max_resident_bytes: u64,
    /// A worker at it is ended whatever it does.
    pub worker_hard_resident_bytes: u64,
}

/// The limits of one fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchConfig {
    pub timeout: Duration,
    pub max_timeout: Duration,
    pub settle: Duration,
    /// Unicode scalar values.
    pub max_chars: usize,
}

/// Whether and how scripts run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptConfig {
    pub enabled: bool,
    pub max_running: usize,
    pub timeout: Duration,
}

/// Exemptions from the rule that pages reach public addresses only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    pub allow_private: Vec<HostPort>,
    pub trusted_cidrs: Vec<IpNet>,
}

/// How long artifacts are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactConfig {
    pub max_age: Duration,
    pub max_total_bytes: u64,
}

/// What is logged to standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A valid filter of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    pub format: LogFormat,
}

/// A configuration and how it came about.
#[derive(Clone)]
pub struct Loaded {
    pub config: Config,
    settings: Settings,
}

/// Reads every source. Errors: everything that is wrong, at once.
pub fn load(global: GlobalFlags, service: ServiceFlags, environment: &Environment) -> Result<Loaded, Faults> {
    let flags = global.given.into_iter().chain(service.given).collect();
    let (settings, found) = Settings::gather(flags, environment);
    let config = check::check(&settings, found, environment)?;
    Ok(Loaded { config, settings })
}

impl Loaded {
    /// The configuration in force as TOML, secrets masked, with the source of each value as a comment.
    pub fn to_toml(&self) -> String {
        print::to_toml(&self.settings)
    }

    /// What to log: as configured, or by `quiet` where nobody configured it.
    pub fn log_or(&self, quiet: &str) -> LogConfig {
        let mut log = self.config.log.clone();
        if self.settings.source(&keys::LOG) == fault::Source::Default {
            quiet.clone_into(&mut log.filter);
        }
        log
    }
}

impl Config {
    /// Whether an exemption names the service itself, which listens at `own`. Serving checks it again with the real
    /// port when `listen` has port 0.
    pub fn reaches_itself(&self, exempt: &HostPort, own: SocketAddr) -> bool {
        let same_host = match &exempt.host {
            Host::Ipv4(ip) => ip.is_loopback() || ip.is_unspecified() || own.ip().to_canonical() == *ip,
            Host::Ipv6(ip) => {
                let ip = ip.to_canonical();
                ip.is_loopback() || ip.is_unspecified() || own.ip().to_canonical() == ip
            }
            Host::Domain(name) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
        };
        same_host && exempt.port == own.port()
    }
}

#[cfg(test)]
mod tests;
