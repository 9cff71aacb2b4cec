use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn root() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn the_directory_and_what_is_in_it_are_owner_only() {
    let root = root();
    let path = root.path().join("a").join("pandarium");
    let data_dir = DataDir::open(&path).unwrap();
    data_dir.announce("127.0.0.1:7878".parse().unwrap()).unwrap();
    for directory in [path.clone(), data_dir.artifacts(), data_dir.bin(), data_dir.run()] {
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
    }
    for file in [lock_path(&path), url_path(&path)] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_directory_that_is_open_to_others_is_closed() {
    let root = root();
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(root.path().join("bin")).unwrap();
    fs::set_permissions(root.path().join("bin"), Permissions::from_mode(0o777)).unwrap();
    prepare(root.path()).unwrap();
    assert_eq!((mode(root.path()), mode(&root.path().join("bin"))), (0o700, 0o700));
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let root = root();
    let other = if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(root.path(), Some(12_345), None).unwrap();
        root.path().to_owned()
    } else {
        PathBuf::from("/")
    };
    assert!(matches!(private_dir(&other), Err(DataDirError::OtherOwner { .. })));
}

#[test]
fn a_file_in_the_place_of_the_directory_is_an_error_that_names_it() {
    let root = root();
    let path = root.path().join("file");
    fs::write(&path, "").unwrap();
    let error = DataDir::open(&path).unwrap_err();
    assert!(matches!(error, DataDirError::Io { .. }) && error.to_string().contains("file"), "{error}");
}

#[test]
fn a_second_service_is_refused_and_told_who_holds_the_directory() {
    let root = root();
    let first = DataDir::open(root.path()).unwrap();
    first.announce("127.0.0.1:7879".parse().unwrap()).unwrap();
    let started = Instant::now();
    let error = DataDir::open(root.path()).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(1));
    let said = error.to_string();
    assert!(said.contains(&format!("process {} at http://127.0.0.1:7879", std::process::id())), "{said}");
    drop(first);
    assert!(!url_path(root.path()).exists());
    DataDir::open(root.path()).unwrap();
}

#[test]
fn of_many_that_start_at_once_exactly_one_gets_the_directory() {
    let root = root();
    let outcomes: Vec<Result<DataDir, DataDirError>> = thread::scope(|scope| {
        let starts: Vec<_> = (0..16).map(|_| scope.spawn(|| DataDir::open(root.path()))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(outcomes.iter().flat_map(|outcome| outcome.as_ref().err()).all(|e| matches!(e, DataDirError::Held { .. })));
}

/// A process that holds the lock as a service does: no descriptor of it is inherited.
#[expect(clippy::disallowed_methods, reason = "the test needs an owner that can be killed")]
fn process_that_holds(data_dir: &Path) -> Child {
    let mut command = Command::new("flock");
    command.arg("--no-fork").arg(lock_path(data_dir)).args(["sleep", "60"]);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while holder(data_dir).unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(10), "the lock was never taken");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn an_owner_killed_with_sigkill_never_blocks_the_next() {
    let root = root();
    drop(DataDir::open(root.path()).unwrap());
    for _ in 0..3 {
        let mut owner = process_that_holds(root.path());
        fs::write(url_path(root.path()), "http://127.0.0.1:1\n").unwrap();
        assert!(matches!(DataDir::open(root.path()), Err(DataDirError::Held { .. })));
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(holder(root.path()).unwrap(), None);
        let next = DataDir::open(root.path()).unwrap();
        assert!(!url_path(root.path()).exists(), "the dead owner's URL is still there");
        drop(next);
    }
}

#[test]
fn a_look_at_the_holder_does_not_disturb_a_start() {
    let root = root();
    drop(DataDir::open(root.path()).unwrap());
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    holder(root.path()).unwrap();
                    thread::sleep(Duration::from_micros(50));
                }
            });
        }
        let failed = (0..50).filter_map(|_| DataDir::open(root.path()).err()).count();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(failed, 0);
    });
}

#[test]
fn nobody_holds_a_directory_that_no_service_has_used() {
    let root = root();
    assert_eq!(holder(&root.path().join("never")).unwrap(), None);
    assert!(!root.path().join("never").exists());
}

#[test]
fn the_announced_url_is_one_that_this_machine_can_call() {
    for (address, url) in [
        ("127.0.0.1:80", "http://127.0.0.1:80"),
        ("0.0.0.0:81", "http://127.0.0.1:81"),
        ("[::]:82", "http://[::1]:82"),
        ("192.0.2.1:83", "http://192.0.2.1:83"),
    ] {
        assert_eq!(local_url(address.parse().unwrap()), url);
    }
}
