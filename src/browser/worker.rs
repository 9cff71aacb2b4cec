//! Engine processes: the one place that starts, watches and ends them.
//!
//! A worker leads a process group of its own and is reaped by a task of its own, so that no path through the code can
//! leave a zombie. Its environment is empty but for what is set here: an inherited `http_proxy`, for one, would carry
//! its requests past every address check.

pub mod job;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Marks a process as a worker of one data directory, for the sweep after a crash of the service.
const OWNER_VARIABLE: &str = "PANDARIUM_WORKER_OF";

/// What is kept of a worker's standard error: enough for a stack trace, little enough to forget about.
const STDERR_LINES: usize = 40;
const STDERR_LINE_CHARS: usize = 400;
/// What an error quotes of it.
const QUOTED_LINES: usize = 4;

/// A worker could not be started, or died before it was ready.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LaunchError {
    #[error("could not start {}: {reason}", .binary.display())]
    Spawn { binary: PathBuf, reason: String },
    #[error("{} ended before it was ready ({status}){}", .binary.display(), quote(.stderr))]
    Died { binary: PathBuf, status: String, stderr: Vec<String> },
    #[error("{} did not listen within {limit_ms} ms{}", .binary.display(), quote(.stderr))]
    NotReady { binary: PathBuf, limit_ms: u128, stderr: Vec<String> },
}

fn quote(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; its last words: {}", lines.join(" | ")) }
}

/// How to start one worker.
pub struct WorkerCommand {
    pub binary: PathBuf,
    pub arguments: Vec<String>,
    /// The Unix socket that it will listen on.
    pub socket: PathBuf,
    /// Its `HOME`: a private directory of the service.
    pub home: PathBuf,
    /// Names the data directory that it works for.
    pub owner: String,
}

/// A running engine process. Dropping it ends the process.
pub struct Worker {
    pid: u32,
    socket: PathBuf,
    started: Instant,
    stderr: StderrRing,
    ended: watch::Receiver<Option<ExitStatus>>,
    end: CancellationToken,
}

impl Worker {
    /// Starts the process and waits until its socket takes connections.
    pub async fn start(command: &WorkerCommand, limit: Duration, tracker: &TaskTracker) -> Result<Self, LaunchError> {
        // A socket that a killed worker left behind would look like a living one.
        let _ = tokio::fs::remove_file(&command.socket).await;
        let binary = command.binary.clone();
        let mut child = spawn(command).map_err(|error| LaunchError::Spawn { binary, reason: error.to_string() })?;
        let stderr = StderrRing::default();
        if let Some(pipe) = child.stderr.take() {
            let _task = tracker.spawn(stderr.clone().fill(pipe));
        }
        let end = CancellationToken::new();
        let (ended_sender, ended) = watch::channel(None);
        let pid = child.id().unwrap_or_default();
        let _task = tracker.spawn(reap(child, Some(command.socket.clone()), end.clone(), ended_sender));
        let worker = Self { pid, socket: command.socket.clone(), started: Instant::now(), stderr, ended, end };
        worker.wait_until_listening(&command.binary, limit).await?;
        Ok(worker)
    }

    async fn wait_until_listening(&self, binary: &Path, limit: Duration) -> Result<(), LaunchError> {
        let until = self.started + limit;
        loop {
            if let Some(status) = *self.ended.borrow() {
                let (status, stderr) = (status.to_string(), self.stderr.last());
                return Err(LaunchError::Died { binary: binary.to_owned(), status, stderr });
            }
            if tokio::net::UnixStream::connect(&self.socket).await.is_ok() {
                return Ok(());
            }
            if Instant::now() >= until {
                let stderr = self.stderr.last();
                return Err(LaunchError::NotReady { binary: binary.to_owned(), limit_ms: limit.as_millis(), stderr });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The last lines of its standard error.
    pub fn last_words(&self) -> Vec<String> {
        self.stderr.last()
    }

    /// Resident memory in bytes, where the system tells (Linux).
    pub fn resident_bytes(&self) -> Option<u64> {
        resident_bytes(self.pid)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Resolves when the process is gone and reaped.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // The sender lives until the process is reaped, so an error means the same.
        let _ = ended.wait_for(Option::is_some).await;
    }

    /// Ends the process; [`Self::ended`] tells when it is gone.
    pub fn end(&self) {
        self.end.cancel();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page_bytes).ok()?)
}

fn spawn(command: &WorkerCommand) -> std::io::Result<Child> {
    let mut process = prepared(&command.binary, &command.arguments, &command.home, &command.owner);
    process.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}

/// What all engine processes have in common.
#[expect(clippy::disallowed_methods, reason = "this is the place that starts engine processes")]
fn prepared(binary: &Path, arguments: &[String], home: &Path, owner: &str) -> Command {
    let mut process = Command::new(binary);
    process
        .args(arguments)
        .env_clear()
        .env("LIGHTPANDA_DISABLE_TELEMETRY", "true")
        .env("HOME", home)
        .env(OWNER_VARIABLE, owner)
        .current_dir(home)
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    process
}

/// Waits for the process, or kills its group and then waits for it.
async fn reap(
    mut child: Child,
    socket: Option<PathBuf>,
    end: CancellationToken,
    ended: watch::Sender<Option<ExitStatus>>,
) {
    let group = child.id();
    let early = tokio::select! {
        status = child.wait() => Some(status),
        () = end.cancelled() => None,
    };
    let status = match early {
        Some(status) => status,
        None => {
            // Not yet waited for, so the number still belongs to this process. It has no state worth a farewell.
            kill_group(group);
            child.wait().await
        }
    };
    if let Some(socket) = socket {
        // It may never have come to listen.
        let _ = tokio::fs::remove_file(&socket).await;
    }
    match status {
        Ok(status) => {
            let _ = ended.send(Some(status));
        }
        Err(error) => tracing::error!(error = %error, "could not wait for a worker"),
    }
}

fn kill_group(pid: Option<u32>) {
    let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) else { return };
    // It may have ended in this moment: then there is nobody to signal.
    let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
}

/// The last lines of a worker's standard error.
#[derive(Clone, Default)]
struct StderrRing(Arc<Mutex<VecDeque<String>>>);

impl StderrRing {
    async fn fill(self, pipe: impl AsyncRead + Unpin + Send) {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        // A line without an end must not grow for ever: `take` cuts it, and its rest counts as the next line.
        while let Ok(read) = read_line(&mut reader, &mut line).await {
            if read == 0 {
                return;
            }
            let text: String = String::from_utf8_lossy(&line).trim().chars().take(STDERR_LINE_CHARS).collect();
            let mut lines = self.lines();
            if lines.len() == STDERR_LINES {
                lines.pop_front();
            }
            if !text.is_empty() {
                lines.push_back(text);
            }
        }
    }

    fn last(&self) -> Vec<String> {
        let lines = self.lines();
        lines.iter().skip(lines.len().saturating_sub(QUOTED_LINES)).cloned().collect()
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_line(reader: &mut (impl AsyncBufReadExt + Unpin), line: &mut Vec<u8>) -> std::io::Result<usize> {
    line.clear();
    tokio::io::AsyncReadExt::take(reader, 64 * 1024).read_until(b'\n', line).await
}

/// Ends the workers that a killed service left behind, and says how many there were.
///
/// A leftover carries the mark of this data directory in its environment and was started before now; nobody else can
/// hold the directory's lock meanwhile, so it can have no living owner. Where there is no `/proc`, none are found.
pub async fn sweep(owner: &str, limit: Duration) -> usize {
    let mark = format!("{OWNER_VARIABLE}={owner}");
    let leftovers: Vec<Leftover> = processes().filter_map(|pid| Leftover::find(pid, &mark)).collect();
    for leftover in &leftovers {
        leftover.kill(&mark);
    }
    let until = Instant::now() + limit;
    while leftovers.iter().any(|leftover| leftover.is_alive(&mark)) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    leftovers.len()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process as it was when it was found: its number alone could by now belong to a stranger.
struct Leftover {
    pid: i32,
    start_time: String,
}

impl Leftover {
    fn find(pid: i32, mark: &str) -> Option<Self> {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
        if !marked {
            return None;
        }
        Some(Self { pid, start_time: start_time(pid)? })
    }

    fn is_alive(&self, mark: &str) -> bool {
        Self::find(self.pid, mark).is_some_and(|found| found.start_time == self.start_time)
    }

    fn kill(&self, mark: &str) {
        if self.is_alive(mark) {
            // It may be gone already.
            let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }
}

/// Clock ticks from boot to the start of the process: field 22 of its stat line, after the name in parentheses.
fn start_time(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    fn shell(script: &str, dir: &Path, owner: &str) -> WorkerCommand {
        WorkerCommand {
            binary: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            socket: dir.join("none.sock"),
            home: dir.to_owned(),
            owner: owner.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_worker_that_dies_early_is_an_error_with_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let tracker = TaskTracker::new();
        let command = shell("echo 'no such library' >&2; exit 3", dir.path(), "early");
        let error = Worker::start(&command, Duration::from_secs(5), &tracker).await.err().unwrap().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such library"), "{error}");
        tracker.close();
        tracker.wait().await;
    }

    #[tokio::test]
    async fn a_missing_binary_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = shell("", dir.path(), "missing");
        command.binary = dir.path().join("lightpanda");
        let error = Worker::start(&command, Duration::from_secs(1), &TaskTracker::new()).await.err().unwrap();
        assert!(matches!(&error, LaunchError::Spawn { binary, .. } if *binary == command.binary), "{error}");
    }

    #[tokio::test]
    async fn a_worker_that_never_listens_is_ended_with_its_group() {
        let dir = tempfile::tempdir().unwrap();
        let tracker = TaskTracker::new();
        let command = shell("sleep 300 & sleep 300", dir.path(), "silent-worker-test");
        let error = Worker::start(&command, Duration::from_millis(100), &tracker).await.err().unwrap();
        assert!(matches!(error, LaunchError::NotReady { .. }), "{error}");
        tracker.close();
        tracker.wait().await;
        let mark = format!("{OWNER_VARIABLE}=silent-worker-test");
        let until = Instant::now() + Duration::from_secs(2);
        while processes().any(|pid| Leftover::find(pid, &mark).is_some()) {
            assert!(Instant::now() < until, "a process of the group is left");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "plays the service that was killed")]
    async fn the_sweep_ends_leftovers_and_spares_strangers() {
        let start = |owner: &str| {
            std::process::Command::new("/bin/sleep").arg("300").env(OWNER_VARIABLE, owner).process_group(0).spawn()
        };
        let mut leftover = start("swept-test").unwrap();
        let mut stranger = start("swept-test-of-another").unwrap();
        assert_eq!(sweep("swept-test", Duration::from_millis(300)).await, 1);
        assert!(!leftover.wait().unwrap().success());
        assert!(stranger.try_wait().unwrap().is_none(), "a stranger was ended");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
