//! What a start refuses.

use std::net::{Ipv4Addr, TcpListener};

use crate::support::service::{Service, Setup};
use crate::support::site::Site;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn a_second_instance_on_the_same_data_directory_is_refused() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let (mut command, _other) = Setup::new(&[]).command("serve");
    let output = command.env("PANDARIUM_DATA_DIR", service.data_dir()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["is in use by another pandarium", &service.pid().to_string(), &service.url] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "it does not claim to listen");
    assert_eq!(service.read(&site.url("/static.html")).await["title"], "Tides", "the first goes on");
    service.finish().await;
}

#[test]
fn an_address_beyond_this_machine_needs_a_configured_token() {
    let (code, out, said) = Setup::new(&[]).env("PANDARIUM_LISTEN", "0.0.0.0:0").refused();
    assert_eq!((code, out.as_str()), (Some(2), ""), "{said}");
    assert!(said.contains("is not a loopback address") && said.contains("token"), "{said}");
}

#[tokio::test]
async fn an_address_beyond_this_machine_is_served_with_a_configured_token() {
    let setup = Setup::new(&[]).env("PANDARIUM_LISTEN", "0.0.0.0:0").env("PANDARIUM_TOKEN", TOKEN);
    let mut service = setup.start().await;
    assert!(service.url.starts_with("http://0.0.0.0:"), "{}", service.url);
    service.url = service.url.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(service.status().await["version"], env!("CARGO_PKG_VERSION"));
    service.finish().await;
}

#[test]
fn all_faults_of_a_configuration_are_told_at_once() {
    let (code, _, said) = Setup::new(&[])
        .env("PANDARIUM_LISTEN", "nowhere")
        .env("PANDARIUM_FETCH_WORKERS", "0")
        .env("PANDARIUM_QUEUE_LIMIT", "many")
        .env("PANDARIUM_ALLOW_PRIVATE", "127.0.0.1")
        .env("PANDARIUM_TRUSTED_CIDRS", "127.0.0.0/8")
        .env("PANDARIUM_TOKEN", "short")
        .refused();
    assert_eq!(code, Some(2), "{said}");
    for key in ["listen", "fetch_workers", "queue_limit", "allow_private", "trusted_cidrs", "token"] {
        let line = said.lines().find(|line| line.trim_start().starts_with(&format!("{key} (")));
        let line = line.unwrap_or_else(|| panic!("{key} is not told: {said}"));
        assert!(line.contains(&format!("PANDARIUM_{}", key.to_uppercase())), "the source is told: {line}");
    }
    assert!(!said.contains("short"), "a secret is not repeated: {said}");
}

#[test]
fn an_unknown_key_of_the_file_is_told_with_its_neighbour() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("my.toml");
    std::fs::write(&file, "fetch_worker = 2\nqueue_limit = \"two\"\n").unwrap();
    let (code, _, said) = Setup::new(&[]).env("PANDARIUM_CONFIG", &file).refused();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("did you mean fetch_workers?"), "{said}");
    assert!(said.contains("queue_limit") && said.contains("expected an integer"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, said) = Setup::new(&[]).env("PANDARIUM_LISTEN", &address).refused();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&address) && said.contains("another program listens there"), "{said}");
}

#[test]
fn an_exemption_of_the_services_own_port_is_refused() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap();
    let setup = Setup::new(&[]).env("PANDARIUM_LISTEN", free.to_string());
    let (code, _, said) = setup.env("PANDARIUM_ALLOW_PRIVATE", free.to_string()).refused();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is the service itself"), "{said}");
}

#[test]
fn flags_beat_the_environment_and_the_environment_beats_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("my.toml");
    std::fs::write(&file, "queue_limit = 7\nmax_chars = 70\nsettle_ms = 700\n").unwrap();
    let setup = Setup::new(&[])
        .env("PANDARIUM_CONFIG", &file)
        .env("PANDARIUM_QUEUE_LIMIT", "6")
        .env("PANDARIUM_MAX_CHARS", "60");
    let (mut command, _data_dir) = setup.command("config");
    let output = command.args(["--queue-limit", "5"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    for line in [
        "queue_limit = 5  # flag --queue-limit",
        "max_chars = 60  # environment PANDARIUM_MAX_CHARS",
        "settle_ms = 700  # file ",
    ] {
        assert!(printed.lines().any(|printed| printed.starts_with(line)), "{line}: {printed}");
    }
}
