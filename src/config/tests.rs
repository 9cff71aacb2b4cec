use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};
use tempfile::TempDir;

use super::keys::{ALL, Default as KeyDefault, Kind};
use super::*;
use crate::domain::secret::Secret;

const TOKEN: &str = "agent-token-agent-token-agent-token";
const APPROVER: &str = "approver-token-approver-token-approver";

/// A data directory of its own, and the sources of one configuration.
struct Sources {
    dir: TempDir,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Sources {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let variables = vec![("HOME".to_owned(), "/home/somebody".to_owned())];
        let sources = Self { dir, flags: Vec::new(), variables };
        let data_dir = sources.dir.path().display().to_string();
        sources.env("DATA_DIR", &data_dir)
    }

    fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.push(format!("--{name}={value}"));
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((format!("PANDARIUM_{name}"), value.to_owned()));
        self
    }

    /// The file in the data directory.
    fn file(self, text: &str) -> Self {
        write_file(&self.dir.path().join("config.toml"), text, 0o600);
        self
    }

    fn load(&self) -> Result<Loaded, Faults> {
        let command = ServiceFlags::augment_args(GlobalFlags::augment_args(Command::new("pandarium")));
        let words = std::iter::once("pandarium").chain(self.flags.iter().map(String::as_str));
        let matches = command.try_get_matches_from(words).unwrap();
        let global = GlobalFlags::from_arg_matches(&matches).unwrap();
        let service = ServiceFlags::from_arg_matches(&matches).unwrap();
        super::load(global, service, &self.variables.iter().cloned().collect())
    }

    fn config(&self) -> Config {
        self.load().map(|loaded| loaded.config).unwrap()
    }

    fn faults(&self) -> Vec<Fault> {
        self.load().map(|loaded| loaded.config).unwrap_err().0
    }

    /// The one fault there is, as it is shown.
    fn fault(&self) -> String {
        let faults = self.faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].to_string()
    }
}

fn write_file(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn without_any_source_the_defaults_hold() {
    let config = super::load(
        GlobalFlags::default(),
        ServiceFlags::default(),
        &[("HOME", "/home/somebody")].into_iter().collect(),
    )
    .map(|loaded| loaded.config)
    .unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7878");
    assert_eq!(config.data_dir, Path::new("/home/somebody/.local/share/pandarium"));
    assert_eq!((config.token, config.approver_token), (TokenSource::DataDir, TokenSource::DataDir));
    assert_eq!(config.lightpanda.command, None);
    assert_eq!(config.lightpanda.install, InstallPolicy::Auto);
    assert_eq!(config.lightpanda.source, LightpandaSource::Pypi);
    assert_eq!(config.fetch.timeout, Duration::from_secs(90));
    assert_eq!(config.fetch.max_timeout, Duration::from_secs(600));
    assert_eq!(config.fetch.settle, Duration::from_secs(2));
    assert_eq!(config.fetch.max_chars, 50_000);
    assert_eq!(config.pool.worker_hard_resident_bytes, (4 * 256 + 256) * MEBIBYTE);
    assert!((1..=8).contains(&config.pool.workers));
    assert_eq!((config.limits["settle_ms"], config.limits["max_timeout_s"]), (2_000, 600));
    assert_eq!((config.scripts.enabled, config.scripts.timeout), (false, Duration::from_secs(30)));
    assert!(config.network.allow_private.is_empty() && config.network.trusted_cidrs.is_empty());
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = "queue_limit = 7";
    let cases = [
        (Sources::new(), 128, "default"),
        (Sources::new().file(file), 7, "file"),
        (Sources::new().file(file).env("QUEUE_LIMIT", "8"), 8, "environment PANDARIUM_QUEUE_LIMIT"),
        (Sources::new().file(file).env("QUEUE_LIMIT", "8").flag("queue-limit", "9"), 9, "flag --queue-limit"),
        (Sources::new().env("QUEUE_LIMIT", "8").flag("queue-limit", "9"), 9, "flag --queue-limit"),
        (Sources::new().file(file).flag("queue-limit", "9"), 9, "flag --queue-limit"),
        (Sources::new().file(file).env("QUEUE_LIMIT", ""), 7, "file"),
    ];
    for (sources, expected, source) in cases {
        let loaded = sources.load().map_err(|faults| faults.to_string()).unwrap();
        assert_eq!(loaded.config.pool.queue_limit, expected, "{source}");
        let toml = loaded.to_toml();
        let line = toml.lines().find(|line| line.starts_with("queue_limit")).unwrap();
        assert!(line.starts_with(&format!("queue_limit = {expected}  # {source}")), "{line}");
    }
}

#[test]
fn a_switch_is_true_or_false_in_every_source() {
    assert!(Sources::new().file("scripts = true").config().scripts.enabled);
    assert!(Sources::new().env("SCRIPTS", "true").config().scripts.enabled);
    assert!(!Sources::new().file("scripts = true").flag("scripts", "false").config().scripts.enabled);
    for sources in [Sources::new().file("scripts = 'true'"), Sources::new().env("SCRIPTS", "1")] {
        let fault = sources.fault();
        assert!(fault.starts_with("scripts (") && fault.contains("expected true or false"), "{fault}");
    }
}

#[test]
fn the_data_dir_follows_xdg_then_home() {
    let data_dir = |variables: &[(&str, &str)]| {
        let environment = variables.iter().copied().collect();
        super::load(GlobalFlags::default(), ServiceFlags::default(), &environment).map(|it| it.config.data_dir)
    };
    assert_eq!(data_dir(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]).unwrap(), Path::new("/x/pandarium"));
    assert_eq!(data_dir(&[("XDG_DATA_HOME", "x"), ("HOME", "/h/")]).unwrap(), Path::new("/h/.local/share/pandarium"));
    assert!(data_dir(&[("PANDARIUM_DATA_DIR", "here")]).unwrap().is_absolute());
    let faults = data_dir(&[("XDG_DATA_HOME", "relative")]).unwrap_err();
    assert!(faults.to_string().contains("data_dir (default): expected"), "{faults}");
}

#[test]
fn a_named_file_replaces_the_one_in_the_data_dir() {
    let sources = Sources::new().file("queue_limit = 7");
    let named = sources.dir.path().join("other.toml");
    write_file(
        &named,
        "max_chars = 5\nallow_private = [\"127.0.0.1:8080\", \"[::1]:81\"]\ndata_dir = '/elsewhere'",
        0o644,
    );
    let mut sources = sources.flag("config", named.to_str().unwrap());
    sources.variables.retain(|(name, _)| name != "PANDARIUM_DATA_DIR");
    let config = sources.config();
    assert_eq!((config.fetch.max_chars, config.pool.queue_limit), (5, 128));
    assert_eq!(config.data_dir, Path::new("/elsewhere"));
    let exempt: Vec<String> = config.network.allow_private.iter().map(ToString::to_string).collect();
    assert_eq!(exempt, ["127.0.0.1:8080", "[::1]:81"]);
}

#[test]
fn a_named_file_that_is_not_there_is_a_fault() {
    let fault = Sources::new().env("CONFIG", "/no/such/file.toml").fault();
    assert!(fault.starts_with("config (environment PANDARIUM_CONFIG): /no/such/file.toml cannot be read"), "{fault}");
}

#[test]
fn the_file_in_the_data_dir_cannot_move_it() {
    let fault = Sources::new().file("data_dir = '/elsewhere'").fault();
    assert!(fault.contains("data_dir (file ") && fault.contains("--config"), "{fault}");
}

#[test]
fn all_faults_are_told_at_once_with_key_source_and_what_is_allowed() {
    let sources = Sources::new()
        .file("fetch_timout_s = 3\nmax_chars = 'many'\nqueue_limit = -1\n[pool]\nsize = 3")
        .env("FETCH_WORKERS", "0")
        .env("TRUSTED_CIDRS", "10.0.0.0/8,nonsense,127.0.0.0/30")
        .env("TOKEN", "short")
        .flag("listen", "localhost")
        .flag("install", "sometimes")
        .flag("log", "loud=very=much");
    let faults: Vec<String> = sources.faults().iter().map(ToString::to_string).collect();
    let expected = [
        ["fetch_timout_s (file ", "did you mean fetch_timeout_s?"],
        ["max_chars (file ", "expected an integer"],
        ["queue_limit (file ", "expected a whole number from 0 to 100000"],
        ["pool (file ", "no such key"],
        ["fetch_workers (environment PANDARIUM_FETCH_WORKERS)", "expected a whole number from 1 to 64"],
        ["trusted_cidrs (environment PANDARIUM_TRUSTED_CIDRS)", "\"nonsense\" cannot be used"],
        ["trusted_cidrs (environment PANDARIUM_TRUSTED_CIDRS)", "allow_private"],
        ["token (environment PANDARIUM_TOKEN)", "at least 32 characters"],
        ["listen (flag --listen)", "expected IP:PORT"],
        ["install (flag --install)", "expected one of auto, never"],
        ["log (flag --log)", "expected a tracing filter"],
    ];
    for [start, advice] in expected {
        assert!(faults.iter().any(|fault| fault.starts_with(start) && fault.contains(advice)), "{start}: {faults:#?}");
    }
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
}

#[test]
fn a_misspelt_key_is_answered_with_the_nearest_one_and_nonsense_with_none() {
    for (given, meant) in [
        ("listn", Some("listen")),
        ("allow-private", Some("allow_private")),
        ("worker_max_age", Some("worker_max_age_s")),
        ("artifact_max_total", Some("artifact_max_total_bytes")),
        ("Token", Some("token")),
        ("zzz", None),
    ] {
        let fault = Sources::new().file(&format!("{given} = 1")).fault();
        match meant {
            Some(meant) => assert!(fault.ends_with(&format!("did you mean {meant}?")), "{fault}"),
            None => assert!(fault.ends_with("there is no such key"), "{fault}"),
        }
    }
}

#[test]
fn a_syntax_error_names_the_line_and_not_what_stands_in_it() {
    let fault = Sources::new().file(&format!("max_chars = 5\n\ntoken = \"{TOKEN}\" oops\n")).fault();
    assert!(fault.contains("is not TOML") && fault.ends_with("line 3"), "{fault}");
    assert!(!fault.contains(TOKEN), "{fault}");
}

#[test]
fn a_non_loopback_address_needs_a_configured_token() {
    for address in ["0.0.0.0:7878", "[::]:0", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
        let fault = Sources::new().flag("listen", address).fault();
        assert!(fault.starts_with("listen (flag --listen): is not a loopback address"), "{fault}");
        let empty = Sources::new().flag("listen", address).env("TOKEN", "").fault();
        assert!(empty.contains("token or token_file must be set"), "{empty}");
        assert!(Sources::new().flag("listen", address).env("TOKEN", TOKEN).load().is_ok(), "{address}");
        assert!(Sources::new().flag("listen", address).env("TOKEN_FILE", "/run/token").load().is_ok(), "{address}");
    }
    for address in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        assert!(Sources::new().flag("listen", address).load().is_ok(), "{address}");
    }
}

#[test]
fn a_token_and_a_token_file_exclude_each_other() {
    let fault = Sources::new().env("TOKEN", TOKEN).flag("token-file", "/run/token").fault();
    assert!(fault.starts_with("token_file (flag --token-file)") && fault.contains("PANDARIUM_TOKEN"), "{fault}");
    let fault = Sources::new().env("APPROVER_TOKEN", TOKEN).env("APPROVER_TOKEN_FILE", "/run/token").fault();
    assert!(fault.starts_with("approver_token_file"), "{fault}");
}

#[test]
fn the_two_tokens_must_differ() {
    let fault = Sources::new().env("TOKEN", TOKEN).env("APPROVER_TOKEN", TOKEN).fault();
    assert!(fault.starts_with("approver_token") && !fault.contains(TOKEN), "{fault}");
}

#[test]
fn a_file_with_a_token_must_be_owner_only() {
    let sources = Sources::new();
    let path = sources.dir.path().join("config.toml");
    for mode in [0o640, 0o604, 0o644, 0o666] {
        write_file(&path, &format!("token = '{TOKEN}'"), mode);
        let fault = sources.fault();
        assert!(fault.contains("open to other users") && !fault.contains(TOKEN), "{fault}");
    }
    write_file(&path, &format!("token = '{TOKEN}'"), 0o600);
    assert_eq!(sources.config().token, TokenSource::Value(Secret::new(TOKEN)));
    write_file(&path, "max_chars = 5", 0o644);
    assert_eq!(sources.config().fetch.max_chars, 5);
}

#[test]
fn no_secret_is_shown() {
    let sources = Sources::new().env("TOKEN", TOKEN).flag("approver-token", APPROVER);
    let loaded = sources.load().map_err(|faults| faults.to_string()).unwrap();
    let shown = format!("{}\n{:?}\n{:#?}", loaded.to_toml(), loaded.config, loaded.config);
    assert!(!shown.contains(TOKEN) && !shown.contains(APPROVER), "{shown}");
    assert!(shown.contains("token = \"********\"  # environment PANDARIUM_TOKEN"), "{shown}");
    let bad =
        Sources::new().env("TOKEN", "a secret with spaces that is long enough").env("APPROVER_TOKEN", "too-short");
    let faults = format!("{:?}", bad.faults());
    assert!(!faults.contains("a secret with") && !faults.contains("too-short"), "{faults}");
}

#[test]
fn the_service_itself_is_never_exempt() {
    for own in
        ["127.0.0.1:7878", "localhost:7878", "[::1]:7878", "0x7f.1:7878", "a.localhost:7878", "[::ffff:127.0.0.1]:7878"]
    {
        let fault = Sources::new().env("ALLOW_PRIVATE", &format!("127.0.0.1:80,{own}")).fault();
        assert!(fault.contains("the service itself"), "{own}: {fault}");
    }
    assert!(Sources::new().env("ALLOW_PRIVATE", "127.0.0.1:7879,192.168.0.1:7878").load().is_ok());
    let config = Sources::new().env("ALLOW_PRIVATE", "127.0.0.1:4000").flag("listen", "127.0.0.1:0").config();
    assert!(config.reaches_itself(&config.network.allow_private[0], "127.0.0.1:4000".parse().unwrap()));
}

#[test]
fn a_trusted_range_holds_no_loopback_address() {
    for range in ["127.0.0.0/8", "127.0.0.1/32", "0.0.0.0/0", "126.0.0.0/7", "::1/128", "::/0", "::ffff:127.1.2.3/128"]
    {
        let fault = Sources::new().env("TRUSTED_CIDRS", range).fault();
        assert!(fault.contains("allow_private"), "{range}: {fault}");
    }
    let config = Sources::new().env("TRUSTED_CIDRS", "198.18.0.0/15, fd00::/8,128.0.0.0/1").config();
    assert_eq!(config.network.trusted_cidrs.len(), 3);
}

#[test]
fn limits_that_contradict_each_other_are_faults() {
    let fault = Sources::new().flag("fetch-timeout-s", "20").env("MAX_TIMEOUT_S", "10").fault();
    assert!(fault.starts_with("fetch_timeout_s (flag ") && fault.contains("max_timeout_s, which is 10"), "{fault}");
    let fault = Sources::new().env("WORKER_MAX_RESIDENT_MB", "900").env("WORKER_HARD_RESIDENT_MB", "800").fault();
    assert!(fault.starts_with("worker_max_resident_mb (environment "), "{fault}");
}

#[test]
fn a_lower_ceiling_lowers_the_default_deadline() {
    let config = Sources::new().env("MAX_TIMEOUT_S", "1").config();
    assert_eq!(config.fetch.timeout, Duration::from_secs(1));
}

#[test]
fn lists_take_commas_repetition_and_arrays() {
    let expected = ["a.example", "b.example:80", "[2001:db8::1]:81"];
    let by_commas = Sources::new().env("ALLOWED_HOSTS", "a.example, b.example:80,,[2001:db8::1]:81");
    let mut by_repetition = Sources::new();
    for host in expected {
        by_repetition = by_repetition.flag("allowed-hosts", host);
    }
    let by_array = Sources::new().file("allowed_hosts = ['a.example', 'b.example:80', '[2001:db8::1]:81']");
    for sources in [by_commas, by_repetition, by_array] {
        assert_eq!(sources.config().allowed_hosts, expected);
    }
    assert!(Sources::new().env("ALLOWED_HOSTS", "http://a.example").fault().contains("NAME:PORT"));
}

#[test]
fn the_printed_configuration_is_a_file_that_means_the_same() {
    let sources = Sources::new()
        .env("ALLOW_PRIVATE", "127.0.0.1:8080,[::1]:81")
        .env("LIGHTPANDA", "C:\\odd \"name\" # not a comment")
        .flag("log", "pandarium=debug,info")
        .flag("max-chars", "12");
    let first = sources.load().map_err(|faults| faults.to_string()).unwrap();
    let copy = sources.dir.path().join("copy.toml");
    write_file(&copy, &first.to_toml(), 0o600);
    let mut second = Sources::new().flag("config", copy.to_str().unwrap());
    second.variables.clear();
    assert_eq!(second.config(), first.config);
}

#[test]
fn every_key_is_documented_once_and_checked() {
    let names: std::collections::BTreeSet<_> = ALL.into_iter().map(|key| key.name).collect();
    assert_eq!(names.len(), ALL.len());
    for key in ALL {
        assert!(!key.meaning.is_empty() && !key.meaning.ends_with('.'), "{}", key.name);
        if let (Kind::Integer { min, max }, KeyDefault::Fixed(default)) = (&key.kind, &key.default) {
            assert!((*min..=*max).contains(&default.parse().unwrap()), "{}", key.name);
        }
        let bad = Sources::new().env(&key.name.to_ascii_uppercase(), "\u{1}=bad=/=");
        let free = matches!(key.name, "data_dir" | "token_file" | "approver_token_file" | "lightpanda");
        assert_eq!(bad.load().is_ok(), free, "{}", key.name);
    }
}

#[test]
fn a_variable_that_is_not_text_is_a_fault() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let environment = [("HOME".into(), "/h".into()), ("PANDARIUM_LOG".into(), OsString::from_vec(vec![0xff]))];
    let environment = environment.into_iter().collect::<Vec<(OsString, OsString)>>().into_iter().collect();
    let faults = super::load(GlobalFlags::default(), ServiceFlags::default(), &environment)
        .map(|loaded| loaded.config)
        .unwrap_err();
    assert!(faults.to_string().contains("log (environment PANDARIUM_LOG): is not UTF-8"), "{faults}");
}
