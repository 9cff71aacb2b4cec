//! Every key of the configuration: its name, unit, default, what is allowed and what it means, once.
//!
//! The flag, the environment variable, the key of the file, the help text, the checks and `pandarium config` all come
//! from these tables. A name that is a quantity ends in its unit: `_s`, `_ms`, `_bytes`, `_mb` (1,048,576 bytes).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use std::thread;

use super::environment::Environment;
use super::settings::Settings;

/// One key.
#[derive(Debug)]
pub struct Key {
    /// snake_case: the key of the file, and with dashes the flag, and upper-case after `PANDARIUM_` the variable.
    pub name: &'static str,
    pub kind: Kind,
    pub default: Default,
    /// One sentence without a full stop at its end.
    pub meaning: &'static str,
    pub place: Place,
}

/// What values a key takes.
#[derive(Debug)]
pub enum Kind {
    /// What the text must be, in words.
    Text(&'static str),
    /// As [`Kind::Text`], and never shown.
    Secret(&'static str),
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number, both ends included.
    Integer {
        min: u64,
        max: u64,
    },
    /// Comma-separated in a flag or a variable, an array of strings in the file. What each entry must be, in words.
    List(&'static str),
}

/// What holds when nobody sets the key.
#[derive(Debug)]
pub enum Default {
    Fixed(&'static str),
    /// Stays unset; what happens then, in words.
    Unset(&'static str),
    /// Depends on the machine or on keys that stand before this one in [`ALL`]; how, in words.
    Derived(&'static str, fn(&Environment, &Settings) -> Option<String>),
}

/// Which commands take the key as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Every command.
    Global,
    /// The commands that make or show a service: `serve` and `config`.
    Service,
}

/// clap takes names that live for ever.
static LONG_NAMES: LazyLock<BTreeMap<&str, String>> =
    LazyLock::new(|| ALL.into_iter().map(|key| (key.name, key.name.replace('_', "-"))).collect());

impl Key {
    /// `--fetch-timeout-s`
    pub fn flag(&self) -> String {
        format!("--{}", self.long())
    }

    /// `fetch-timeout-s`
    pub fn long(&self) -> &'static str {
        LONG_NAMES.get(self.name).map_or(self.name, String::as_str)
    }

    /// `PANDARIUM_FETCH_TIMEOUT_S`
    pub fn variable(&self) -> String {
        format!("PANDARIUM_{}", self.name.to_ascii_uppercase())
    }

    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret(_))
    }

    /// The help text of the flag.
    pub fn help(&self) -> String {
        format!("{} ({}) [default: {}] [env: {}]", self.meaning, self.kind, self.default, self.variable())
    }
}

impl fmt::Display for Kind {
    /// What is allowed, as the object of "expected".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(what) | Self::Secret(what) => f.write_str(what),
            Self::Boolean => f.write_str("true or false"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Integer { min, max: u64::MAX } => write!(f, "a whole number from {min}"),
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::List(what) => write!(f, "a list, each entry {what}"),
        }
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed("") => f.write_str("empty"),
            Self::Fixed(text) | Self::Unset(text) | Self::Derived(text, _) => f.write_str(text),
        }
    }
}

pub static CONFIG: Key = Key {
    name: "config",
    kind: Kind::Text("a path"),
    default: Default::Unset("DATA_DIR/config.toml, if there is one"),
    meaning: "The configuration file (TOML)",
    place: Place::Global,
};

pub static DATA_DIR: Key = Key {
    name: "data_dir",
    kind: Kind::Text("a path"),
    default: Default::Derived("$XDG_DATA_HOME/pandarium, else ~/.local/share/pandarium", |environment, _| {
        environment.data_home().map(|home| format!("{home}/pandarium"))
    }),
    meaning: "Where the database, the artifacts, the tokens and the managed Lightpanda live; owner-only",
    place: Place::Global,
};

pub static LOG: Key = Key {
    name: "log",
    kind: Kind::Text("a tracing filter, such as info or pandarium=debug,warn"),
    default: Default::Fixed("info"),
    meaning: "What is logged to standard error",
    place: Place::Global,
};

pub static LOG_FORMAT: Key = Key {
    name: "log_format",
    kind: Kind::Choice(&["text", "json"]),
    default: Default::Fixed("text"),
    meaning: "How it is logged",
    place: Place::Global,
};

pub static LISTEN: Key = Key {
    name: "listen",
    kind: Kind::Text("IP:PORT, such as 127.0.0.1:7878 or [::1]:0"),
    default: Default::Fixed("127.0.0.1:7878"),
    meaning: "Where the service listens; port 0 takes a free one; any address but loopback needs a configured token",
    place: Place::Service,
};

pub static TOKEN: Key = Key {
    name: "token",
    kind: Kind::Secret("32 or more of the characters of a bearer token (letters, digits, -._~+/)"),
    default: Default::Unset("DATA_DIR/token, made at the first start"),
    meaning: "The agent's token; other users can see a flag, so prefer token_file",
    place: Place::Service,
};

pub static TOKEN_FILE: Key = Key {
    name: "token_file",
    kind: Kind::Text("the path of an owner-only file"),
    default: Default::Unset("see token"),
    meaning: "Holds the agent's token; not together with token",
    place: Place::Service,
};

pub static APPROVER_TOKEN: Key = Key {
    name: "approver_token",
    kind: Kind::Secret("as token, and not the same"),
    default: Default::Unset("DATA_DIR/approver-token, made at the first start"),
    meaning: "The token that answers approvals and administers",
    place: Place::Service,
};

pub static APPROVER_TOKEN_FILE: Key = Key {
    name: "approver_token_file",
    kind: Kind::Text("the path of an owner-only file"),
    default: Default::Unset("see approver_token"),
    meaning: "Holds the approver's token; not together with approver_token",
    place: Place::Service,
};

pub static ALLOWED_HOSTS: Key = Key {
    name: "allowed_hosts",
    kind: Kind::List("NAME (any port) or NAME:PORT"),
    default: Default::Fixed(""),
    meaning: "Names besides 127.0.0.1, [::1] and localhost that the Host header of a call may have",
    place: Place::Service,
};

pub static LIGHTPANDA: Key = Key {
    name: "lightpanda",
    kind: Kind::Text("a path or the name of a command"),
    default: Default::Unset("the managed install, else lightpanda on PATH"),
    meaning: "The Lightpanda binary; one that is missing is an error, never replaced by another",
    place: Place::Service,
};

pub static INSTALL: Key = Key {
    name: "install",
    kind: Kind::Choice(&["auto", "never"]),
    default: Default::Fixed("auto"),
    meaning: "Whether a start installs Lightpanda when none is found",
    place: Place::Service,
};

pub static LIGHTPANDA_SOURCE: Key = Key {
    name: "lightpanda_source",
    kind: Kind::Choice(&["pypi", "stable", "nightly"]),
    default: Default::Fixed("pypi"),
    meaning: "Where Lightpanda is installed from: the pinned wheel through pip, or a release asset",
    place: Place::Service,
};

pub static LIGHTPANDA_RELEASE_URL: Key = Key {
    name: "lightpanda_release_url",
    kind: Kind::Text("an http or https URL"),
    default: Default::Fixed("https://api.github.com"),
    meaning: "Where the metadata of releases is read, for stable and nightly",
    place: Place::Service,
};

pub static FETCH_WORKERS: Key = Key {
    name: "fetch_workers",
    kind: Kind::Integer { min: 1, max: 64 },
    // With 4 connections each, about two active pages a core. One more process costs about 29 MB.
    default: Default::Derived("half the cores, at least 1 and at most 8", |_, _| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Some((cores / 2).clamp(1, 8).to_string())
    }),
    meaning: "Lightpanda processes kept warm for fetches",
    place: Place::Service,
};

pub static CONNECTIONS_PER_WORKER: Key = Key {
    name: "connections_per_worker",
    kind: Kind::Integer { min: 1, max: 64 },
    default: Default::Fixed("4"),
    meaning: "Pages that one Lightpanda process loads at once",
    place: Place::Service,
};

pub static QUEUE_LIMIT: Key = Key {
    name: "queue_limit",
    kind: Kind::Integer { min: 0, max: 100_000 },
    default: Default::Fixed("128"),
    meaning: "Calls that may wait for a free connection; the next one gets pool_exhausted at once",
    place: Place::Service,
};

pub static MAX_TIMEOUT_S: Key = Key {
    name: "max_timeout_s",
    kind: Kind::Integer { min: 1, max: 86_400 },
    default: Default::Fixed("600"),
    meaning: "The longest deadline that a call may ask for, in seconds",
    place: Place::Service,
};

pub static FETCH_TIMEOUT_S: Key = Key {
    name: "fetch_timeout_s",
    kind: Kind::Integer { min: 1, max: 86_400 },
    default: Default::Derived("90, or max_timeout_s if that is less", |_, settings| {
        let ceiling = settings.text(&MAX_TIMEOUT_S)?.parse().unwrap_or(u64::MAX);
        Some(ceiling.min(90).to_string())
    }),
    meaning: "The deadline of a fetch that names none, in seconds; at most max_timeout_s",
    place: Place::Service,
};

pub static MAX_RESPONSE_BYTES: Key = Key {
    name: "max_response_bytes",
    kind: Kind::Integer { min: 1024, max: 1 << 30 },
    default: Default::Fixed("20971520"),
    meaning: "The largest response body that an engine takes, in bytes after decompression",
    place: Place::Service,
};

pub static PAGE_HEAP_MB: Key = Key {
    name: "page_heap_mb",
    kind: Kind::Integer { min: 16, max: 65_536 },
    default: Default::Fixed("256"),
    meaning: "The JavaScript heap that one page may fill, in MB",
    place: Place::Service,
};

pub static WORKER_MAX_PAGES: Key = Key {
    name: "worker_max_pages",
    kind: Kind::Integer { min: 1, max: u64::MAX },
    default: Default::Fixed("2000"),
    meaning: "Pages after which a Lightpanda process is replaced",
    place: Place::Service,
};

pub static WORKER_MAX_AGE_S: Key = Key {
    name: "worker_max_age_s",
    kind: Kind::Integer { min: 1, max: 31_536_000 },
    default: Default::Fixed("3600"),
    meaning: "Age at which a Lightpanda process is replaced, in seconds",
    place: Place::Service,
};

pub static WORKER_MAX_RESIDENT_MB: Key = Key {
    name: "worker_max_resident_mb",
    kind: Kind::Integer { min: 16, max: 1_048_576 },
    default: Default::Fixed("300"),
    meaning: "Resident memory above which an idle Lightpanda process is replaced, in MB",
    place: Place::Service,
};

pub static WORKER_HARD_RESIDENT_MB: Key = Key {
    name: "worker_hard_resident_mb",
    kind: Kind::Integer { min: 16, max: 1_048_576 },
    // The heaps bound the scripts; native memory (DOM, typed arrays) is not bounded by anything else than this.
    default: Default::Derived(
        "connections_per_worker x page_heap_mb + 256, or worker_max_resident_mb if that is more",
        |_, settings| {
            let number = |key| settings.text(key)?.parse::<u64>().ok();
            let heaps = number(&CONNECTIONS_PER_WORKER)?.saturating_mul(number(&PAGE_HEAP_MB)?);
            Some(heaps.saturating_add(256).max(number(&WORKER_MAX_RESIDENT_MB)?).min(1_048_576).to_string())
        },
    ),
    meaning: "Resident memory at which a Lightpanda process is ended whatever it does, in MB; at least worker_max_resident_mb",
    place: Place::Service,
};

pub static SETTLE_MS: Key = Key {
    name: "settle_ms",
    kind: Kind::Integer { min: 0, max: 600_000 },
    default: Default::Fixed("2000"),
    meaning: "How long after load a page may take to settle, in milliseconds, when a fetch names no settle_ms",
    place: Place::Service,
};

pub static MAX_CHARS: Key = Key {
    name: "max_chars",
    kind: Kind::Integer { min: 1, max: 100_000_000 },
    default: Default::Fixed("50000"),
    meaning: "Characters of content that a fetch answers with when it names no max_chars",
    place: Place::Service,
};

pub static SCRIPTS: Key = Key {
    name: "scripts",
    kind: Kind::Boolean,
    default: Default::Fixed("false"),
    meaning: "Whether POST /v1/scripts/run runs PandaScripts: trusted programs, each in a Lightpanda process of its own",
    place: Place::Service,
};

pub static MAX_SCRIPTS: Key = Key {
    name: "max_scripts",
    kind: Kind::Integer { min: 1, max: 1024 },
    default: Default::Derived("the number of cores", |_, _| {
        Some(thread::available_parallelism().map_or(1, usize::from).min(1024).to_string())
    }),
    meaning: "Scripts that run at once; the next one gets pool_exhausted at once",
    place: Place::Service,
};

pub static SCRIPT_TIMEOUT_S: Key = Key {
    name: "script_timeout_s",
    kind: Kind::Integer { min: 1, max: 86_400 },
    default: Default::Derived("30, or max_timeout_s if that is less", |_, settings| {
        let ceiling = settings.text(&MAX_TIMEOUT_S)?.parse().unwrap_or(u64::MAX);
        Some(ceiling.min(30).to_string())
    }),
    meaning: "The deadline of a script that names none, in seconds; at most max_timeout_s",
    place: Place::Service,
};

pub static ALLOW_PRIVATE: Key = Key {
    name: "allow_private",
    kind: Kind::List("HOST:PORT, such as 127.0.0.1:8080"),
    default: Default::Fixed(""),
    meaning: "Private and loopback servers that pages may reach; never the service's own port",
    place: Place::Service,
};

pub static TRUSTED_CIDRS: Key = Key {
    name: "trusted_cidrs",
    kind: Kind::List("a network, such as 10.20.0.0/16, that holds no loopback address"),
    default: Default::Fixed(""),
    meaning: "Address ranges that count as public, such as an intranet",
    place: Place::Service,
};

pub static ARTIFACT_MAX_AGE_S: Key = Key {
    name: "artifact_max_age_s",
    kind: Kind::Integer { min: 1, max: 3_153_600_000 },
    default: Default::Fixed("604800"),
    meaning: "Age at which an artifact is deleted, in seconds",
    place: Place::Service,
};

pub static ARTIFACT_MAX_TOTAL_BYTES: Key = Key {
    name: "artifact_max_total_bytes",
    kind: Kind::Integer { min: 1, max: i64::MAX as u64 },
    default: Default::Fixed("1073741824"),
    meaning: "Size of all artifacts above which the oldest are deleted, in bytes",
    place: Place::Service,
};

/// Every key, in the order of `--help` and `pandarium config`.
pub static ALL: [&Key; 34] = [
    &CONFIG,
    &DATA_DIR,
    &LOG,
    &LOG_FORMAT,
    &LISTEN,
    &TOKEN,
    &TOKEN_FILE,
    &APPROVER_TOKEN,
    &APPROVER_TOKEN_FILE,
    &ALLOWED_HOSTS,
    &LIGHTPANDA,
    &INSTALL,
    &LIGHTPANDA_SOURCE,
    &LIGHTPANDA_RELEASE_URL,
    &FETCH_WORKERS,
    &CONNECTIONS_PER_WORKER,
    &QUEUE_LIMIT,
    &MAX_TIMEOUT_S,
    &FETCH_TIMEOUT_S,
    &MAX_RESPONSE_BYTES,
    &PAGE_HEAP_MB,
    &WORKER_MAX_PAGES,
    &WORKER_MAX_AGE_S,
    &WORKER_MAX_RESIDENT_MB,
    &WORKER_HARD_RESIDENT_MB,
    &SETTLE_MS,
    &MAX_CHARS,
    &SCRIPTS,
    &MAX_SCRIPTS,
    &SCRIPT_TIMEOUT_S,
    &ALLOW_PRIVATE,
    &TRUSTED_CIDRS,
    &ARTIFACT_MAX_AGE_S,
    &ARTIFACT_MAX_TOTAL_BYTES,
];
