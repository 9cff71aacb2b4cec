//! `pandarium demo`, and signals that come before a command has begun its work.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::service::STOP_LIMIT;
use crate::support::{engine, process, until};

/// The whole demo takes some seconds; the rest is for a busy machine.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Starts a command whose data directory and temporary files are below `place`.
fn start(place: &Path, arguments: &[&str], environment: &[(&str, OsString)]) -> Child {
    let own = [("PANDARIUM_DATA_DIR", place.join("data").into()), ("TMPDIR", place.join("tmp").into())];
    std::fs::create_dir_all(place.join("tmp")).expect("a directory");
    let environment = own.iter().chain(environment).map(|(name, value)| (name.into(), value.clone()));
    let mut command = process::pandarium(environment);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the command starts")
}

/// The exit code, once the command has ended by itself.
async fn ended(mut child: Child) -> Option<i32> {
    let mut status = None;
    until("the command ends", END_LIMIT, || {
        status = child.try_wait().expect("a child of ours");
        status.is_some()
    })
    .await;
    status.expect("it has ended").code()
}

#[tokio::test]
async fn the_demo_shows_every_call_and_leaves_no_directory() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), &["demo"], &[("PANDARIUM_LIGHTPANDA", engine::binary().into())]);
    assert_eq!(ended(demo).await, Some(0));
    assert_eq!(std::fs::read_dir(place.path().join("tmp")).expect("it is there").count(), 0);
}

#[tokio::test]
async fn a_signal_while_the_demo_starts_leaves_no_engine_and_no_directory() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let place = tempfile::tempdir().expect("a directory");
        let demo = start(place.path(), &["demo"], &[("PANDARIUM_LIGHTPANDA", engine::binary().into())]);
        let made = || std::fs::read_dir(place.path().join("tmp")).expect("it is there").flatten().next();
        until("the demo has begun", STOP_LIMIT, || made().is_some()).await;
        let data_dir = made().expect("it has begun").path();
        // Some moments on, the first worker has just been started.
        tokio::time::sleep(Duration::from_millis(50)).await;
        process::signal(demo.id(), signal);
        assert_eq!(ended(demo).await, Some(code));
        assert!(process::workers_of(&data_dir).is_empty(), "an engine outlived the demo");
        assert!(made().is_none(), "{} was left behind", data_dir.display());
    }
}

#[tokio::test]
async fn a_signal_during_the_install_ends_the_command() {
    for arguments in [["demo"].as_slice(), &["serve", "--listen=127.0.0.1:0"], &["fetch", "http://a.example/"]] {
        let place = tempfile::tempdir().expect("a directory");
        // It takes the call and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", silent.local_addr().expect("an address"));
        let environment =
            [("PANDARIUM_LIGHTPANDA_SOURCE", "stable".into()), ("PANDARIUM_LIGHTPANDA_RELEASE_URL", url.into())];
        let command = start(place.path(), arguments, &environment);
        // The call came: the install is under way.
        let (_call, _) = tokio::task::spawn_blocking(move || silent.accept().expect("a call")).await.expect("it ends");
        process::signal(command.id(), Signal::SIGINT);
        assert_eq!(ended(command).await, Some(130), "{arguments:?}");
    }
}
