use std::fs;
use std::time::{Duration, Instant};

use super::support::*;
use crate::install::{BINARY_NAME, Channel, Release, Update, check_update};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn only_a_different_build_is_an_update() {
    let directory = managed_directory();
    let binary = directory.path().join(BINARY_NAME);
    let server = Server::with_asset(Asset::Bytes(NEW_BINARY.into())).await;
    let expected = Update {
        release: "9.9.9".to_owned(),
        newest: sha256(NEW_BINARY.as_bytes()).parse().unwrap(),
        installed: sha256(OLD_BINARY).parse().unwrap(),
    };
    assert_eq!(check_update(&binary, &server.release(), LIMIT).await, Some(expected));
    fs::write(&binary, NEW_BINARY).unwrap();
    assert_eq!(check_update(&binary, &server.release(), LIMIT).await, None);
    assert_eq!(server.downloads(), 0);
}

#[tokio::test]
async fn a_check_that_fails_is_silent() {
    let directory = managed_directory();
    let binary = directory.path().join(BINARY_NAME);
    let server = Server::with_asset(Asset::Missing).await;
    let nightly = Release::new("http://127.0.0.1:1/".parse().unwrap(), Channel::Nightly);
    assert_eq!(check_update(&directory.path().join("none"), &server.release(), LIMIT).await, None);
    assert_eq!(check_update(&binary, &nightly, LIMIT).await, None);
}

#[tokio::test]
async fn a_check_ends_at_its_limit() {
    let directory = managed_directory();
    // The kernel accepts connections for it, and nobody ever answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
    let started = Instant::now();
    let (binary, release) = (directory.path().join(BINARY_NAME), Release::new(base, Channel::Stable));
    assert_eq!(check_update(&binary, &release, Duration::from_millis(200)).await, None);
    assert!(started.elapsed() < Duration::from_secs(10));
}
