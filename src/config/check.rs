//! Settings to [`Config`]: every value parsed and every relation between keys checked, collecting all faults.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tracing_subscriber::EnvFilter;
use url::{Host, Url};

use super::environment::Environment;
use super::fault::{Fault, Faults};
use super::keys::{self, ALL, Key, Kind};
use super::settings::Settings;
use super::{
    ArtifactConfig, Config, FetchConfig, InstallPolicy, LightpandaConfig, LightpandaSource, LogConfig, LogFormat,
    MEBIBYTE, NetworkConfig, PoolConfig, ScriptConfig,
};
use crate::domain::network::HostPort;
use crate::domain::secret::Secret;
use crate::store::data_dir::tokens::{TokenSource, check_token};

/// The checked configuration, or all faults: those that `gather` found and those found here.
pub fn check(settings: &Settings, found: Vec<Fault>, environment: &Environment) -> Result<Config, Faults> {
    let mut checker = Checker { settings, faults: found };
    match checker.config(environment) {
        Some(config) if checker.faults.is_empty() => Ok(config),
        _ => Err(Faults(checker.faults)),
    }
}

/// Reads one key after the other. After a fault it goes on with a stand-in that [`check`] never lets out.
struct Checker<'a> {
    settings: &'a Settings,
    faults: Vec<Fault>,
}

impl Checker<'_> {
    fn config(&mut self, environment: &Environment) -> Option<Config> {
        let config = Config {
            listen: self.parse(&keys::LISTEN).unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            data_dir: self.data_dir(),
            token: self.token(&keys::TOKEN, &keys::TOKEN_FILE),
            approver_token: self.token(&keys::APPROVER_TOKEN, &keys::APPROVER_TOKEN_FILE),
            allowed_hosts: self.list(&keys::ALLOWED_HOSTS, allowed_host),
            lightpanda: self.lightpanda(environment)?,
            pool: self.pool(),
            fetch: self.fetch(),
            scripts: ScriptConfig {
                enabled: self.parse(&keys::SCRIPTS).unwrap_or_default(),
                max_running: self.integer(&keys::MAX_SCRIPTS),
                timeout: self.seconds(&keys::SCRIPT_TIMEOUT_S),
            },
            network: NetworkConfig {
                allow_private: self.list(&keys::ALLOW_PRIVATE, |text| text.parse().ok()),
                trusted_cidrs: self.list(&keys::TRUSTED_CIDRS, |text| text.parse().ok()),
            },
            artifacts: ArtifactConfig {
                max_age: self.seconds(&keys::ARTIFACT_MAX_AGE_S),
                max_total_bytes: self.integer(&keys::ARTIFACT_MAX_TOTAL_BYTES),
            },
            limits: self.limits(),
            log: self.log(),
        };
        self.relations(&config);
        Some(config)
    }

    fn data_dir(&mut self) -> PathBuf {
        let path = self.settings.text(&keys::DATA_DIR).map(PathBuf::from).filter(|path| path.parent().is_some());
        if path.is_none() {
            self.fault(&keys::DATA_DIR, "expected a directory of its own; it has no default without HOME");
        }
        path.unwrap_or_default()
    }

    fn token(&mut self, inline: &Key, file: &Key) -> TokenSource {
        let (value, path) = (self.settings.text(inline), self.settings.text(file));
        if value.is_some() && path.is_some() {
            let other = self.settings.source(inline).of(inline);
            self.fault(file, format!("{} is set as well ({other}): set only one of the two", inline.name));
        }
        if path == Some("") {
            self.fault(file, format!("expected {}", file.kind));
        }
        if let Some(unusable) = value.and_then(|text| check_token(text).err()) {
            self.fault(inline, format!("{unusable}; expected {}", inline.kind));
        }
        match (value, path) {
            (Some(text), _) => TokenSource::Value(Secret::new(text)),
            (None, Some(path)) => TokenSource::File(path.into()),
            (None, None) => TokenSource::DataDir,
        }
    }

    fn lightpanda(&mut self, environment: &Environment) -> Option<LightpandaConfig> {
        let command = self.settings.text(&keys::LIGHTPANDA).map(str::to_owned);
        if command.as_deref() == Some("") {
            self.fault(&keys::LIGHTPANDA, format!("expected {}", keys::LIGHTPANDA.kind));
        }
        let release_url = self.parse_with(&keys::LIGHTPANDA_RELEASE_URL, http_url);
        let install = self.choice(&keys::INSTALL, &[InstallPolicy::Auto, InstallPolicy::Never]);
        let sources = [LightpandaSource::Pypi, LightpandaSource::Stable, LightpandaSource::Nightly];
        let source = self.choice(&keys::LIGHTPANDA_SOURCE, &sources);
        Some(LightpandaConfig {
            command,
            install: install.unwrap_or(InstallPolicy::Never),
            source: source.unwrap_or(LightpandaSource::Pypi),
            release_url: release_url.or_else(|| http_url("http://localhost"))?,
            search_path: environment.search_path(),
        })
    }

    fn pool(&mut self) -> PoolConfig {
        PoolConfig {
            workers: self.integer(&keys::FETCH_WORKERS),
            connections_per_worker: self.integer(&keys::CONNECTIONS_PER_WORKER),
            queue_limit: self.integer(&keys::QUEUE_LIMIT),
            max_response_bytes: self.integer(&keys::MAX_RESPONSE_BYTES),
            page_heap_mb: self.integer(&keys::PAGE_HEAP_MB),
            worker_max_pages: self.integer(&keys::WORKER_MAX_PAGES),
            worker_max_age: self.seconds(&keys::WORKER_MAX_AGE_S),
            worker_max_resident_bytes: self.mebibytes(&keys::WORKER_MAX_RESIDENT_MB),
            worker_hard_resident_bytes: self.mebibytes(&keys::WORKER_HARD_RESIDENT_MB),
        }
    }

    fn fetch(&mut self) -> FetchConfig {
        FetchConfig {
            timeout: self.seconds(&keys::FETCH_TIMEOUT_S),
            max_timeout: self.seconds(&keys::MAX_TIMEOUT_S),
            settle: Duration::from_millis(self.integer(&keys::SETTLE_MS)),
            max_chars: self.integer(&keys::MAX_CHARS),
        }
    }

    /// Every number in force by its key.
    fn limits(&self) -> BTreeMap<String, u64> {
        let numbers = ALL.into_iter().filter(|key| matches!(key.kind, Kind::Integer { .. }));
        let limit = |key: &Key| Some((key.name.to_owned(), self.settings.text(key)?.parse().ok()?));
        numbers.filter_map(limit).collect()
    }

    fn log(&mut self) -> LogConfig {
        let valid = |text: &str| EnvFilter::try_new(text).is_ok().then(|| text.to_owned());
        LogConfig {
            filter: self.parse_with(&keys::LOG, valid).unwrap_or_default(),
            format: self.choice(&keys::LOG_FORMAT, &[LogFormat::Text, LogFormat::Json]).unwrap_or(LogFormat::Text),
        }
    }

    /// What must hold between keys.
    fn relations(&mut self, config: &Config) {
        if !config.listen.ip().to_canonical().is_loopback() && config.token == TokenSource::DataDir {
            let advice = "is not a loopback address, so token or token_file must be set";
            self.fault(&keys::LISTEN, advice);
        }
        if let (TokenSource::Value(agent), TokenSource::Value(approver)) = (&config.token, &config.approver_token)
            && agent == approver
        {
            self.fault(&keys::APPROVER_TOKEN, "is the same as token: an agent must not be able to approve");
        }
        self.not_above(&keys::FETCH_TIMEOUT_S, &keys::MAX_TIMEOUT_S, config.fetch.timeout > config.fetch.max_timeout);
        self.not_above(
            &keys::SCRIPT_TIMEOUT_S,
            &keys::MAX_TIMEOUT_S,
            config.scripts.timeout > config.fetch.max_timeout,
        );
        let resident = config.pool.worker_max_resident_bytes > config.pool.worker_hard_resident_bytes;
        self.not_above(&keys::WORKER_MAX_RESIDENT_MB, &keys::WORKER_HARD_RESIDENT_MB, resident);
        for exempt in config.network.allow_private.iter().filter(|exempt| config.reaches_itself(exempt, config.listen))
        {
            self.fault(&keys::ALLOW_PRIVATE, format!("{exempt} is the service itself, which no page may reach"));
        }
        for network in config.network.trusted_cidrs.iter().filter(|network| holds_loopback(network)) {
            let advice = "holds loopback addresses: name the one server that pages may reach in allow_private";
            self.fault(&keys::TRUSTED_CIDRS, format!("{network} {advice}"));
        }
    }

    fn not_above(&mut self, key: &Key, limit: &Key, above: bool) {
        if above {
            let limit_text = self.settings.text(limit).unwrap_or_default();
            let limit_source = self.settings.source(limit).of(limit);
            self.fault(key, format!("must not be above {}, which is {limit_text} ({limit_source})", limit.name));
        }
    }

    fn parse<T: FromStr>(&mut self, key: &Key) -> Option<T> {
        self.parse_with(key, |text| text.parse().ok())
    }

    fn parse_with<T>(&mut self, key: &Key, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.settings.text(key).unwrap_or_default();
        let parsed = parse(text);
        if parsed.is_none() {
            self.fault(key, format!("{text:?} cannot be used: expected {}", key.kind));
        }
        parsed
    }

    /// The variant that stands where its word stands in the key's choices.
    fn choice<T: Copy>(&mut self, key: &Key, variants: &[T]) -> Option<T> {
        let Kind::Choice(words) = key.kind else { return None };
        let variant = |text: &str| words.iter().zip(variants).find(|(word, _)| **word == text).map(|(_, it)| *it);
        self.parse_with(key, variant)
    }

    fn integer<T: TryFrom<u64> + Default>(&mut self, key: &Key) -> T {
        let Kind::Integer { min, max } = key.kind else { return T::default() };
        let number = |text: &str| {
            let number = text.parse::<u64>().ok().filter(|number| (min..=max).contains(number))?;
            T::try_from(number).ok()
        };
        self.parse_with(key, number).unwrap_or_default()
    }

    fn seconds(&mut self, key: &Key) -> Duration {
        Duration::from_secs(self.integer(key))
    }

    fn mebibytes(&mut self, key: &Key) -> u64 {
        self.integer::<u64>(key).saturating_mul(MEBIBYTE)
    }

    /// The entries of a list; each bad one is a fault of its own.
    fn list<T>(&mut self, key: &Key, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let Kind::List(entry) = key.kind else { return Vec::new() };
        let text = self.settings.text(key).unwrap_or_default();
        let mut parsed = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match parse(part) {
                Some(value) => parsed.push(value),
                None => self.fault(key, format!("{part:?} cannot be used: expected {entry}")),
            }
        }
        parsed
    }

    fn fault(&mut self, key: &Key, problem: impl Into<String>) {
        self.faults.push(Fault::new(key, &self.settings.source(key), problem));
    }
}

fn http_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// `name`, `name:port`, and IPv6 literals in brackets; kept as written, as the Host header is compared byte for byte.
fn allowed_host(text: &str) -> Option<String> {
    let valid = text.parse::<HostPort>().is_ok() || Host::parse(text).is_ok();
    valid.then(|| text.to_owned())
}

/// Whether one of 127.0.0.0/8, ::1 and ::ffff:127.0.0.0/104 is reachable through the network.
fn holds_loopback(network: &IpNet) -> bool {
    let overlaps = |loopback: IpNet| network.contains(&loopback) || loopback.contains(network);
    let v4 = Ipv4Net::new(Ipv4Addr::new(127, 0, 0, 0), 8).map(IpNet::V4);
    let mapped = Ipv6Net::new(Ipv4Addr::new(127, 0, 0, 0).to_ipv6_mapped(), 104).map(IpNet::V6);
    let v6 = IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST));
    overlaps(v6) || [v4, mapped].into_iter().any(|loopback| loopback.is_ok_and(overlaps))
}
