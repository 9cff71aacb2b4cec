//! Short-lived child processes (pip, `lightpanda version`): each in a process group of its own,
//! with bounded output, and killed and reaped when the future that runs it is dropped.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// How much of the end of each stream is kept. The reason of a failure stands at the end.
const KEPT_BYTES: usize = 16 * 1024;

/// How long a killed group may take to vanish. What is left then is reaped by the runtime, and a
/// grandchild by the system, which in a container without an init process can mean never.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A fork elsewhere in this process holds a descriptor of a just written binary until its own exec,
/// and until then the kernel refuses to run that binary ("text file busy").
const BUSY_RETRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Settings of the service that hold secrets. No child of this module needs them.
const WITHHELD: [&str; 3] = ["PANDARIUM_TOKEN", "PANDARIUM_APPROVER_TOKEN", "PANDARIUM_UPSTREAM_PROXY"];

/// What a child left behind. Both texts are the ends of their streams, at most [`KEPT_BYTES`] bytes,
/// with control characters replaced.
pub(super) struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A command that inherits the environment (proxy and index settings of pip) without our secrets.
#[expect(clippy::disallowed_methods, reason = "install/ starts pip and version checks")]
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    for name in WITHHELD {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end. It has no time limit: drop the future to end it.
pub(super) async fn run(mut command: Command) -> io::Result<Output> {
    let mut group = Group(spawn(&mut command).await?);
    // The group is not reaped before both streams have ended, so its number cannot belong to another yet.
    let (stdout, stderr) = tokio::try_join!(end_of(group.0.stdout.take()), end_of(group.0.stderr.take()))?;
    let status = group.0.wait().await?;
    Ok(Output { status, stdout, stderr })
}

async fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut retries = BUSY_RETRIES;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && retries > 0 => retries -= 1,
            outcome => return outcome,
        }
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

/// Reads a stream to its end and keeps the last [`KEPT_BYTES`].
async fn end_of(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        while stream.read_buf(&mut kept).await? > 0 {
            if kept.len() > 2 * KEPT_BYTES {
                kept.drain(..kept.len() - KEPT_BYTES);
            }
        }
    }
    kept.drain(..kept.len().saturating_sub(KEPT_BYTES));
    let text = String::from_utf8_lossy(&kept);
    Ok(text.trim().chars().map(|char| if char.is_control() && char != '\n' { ' ' } else { char }).collect())
}

/// A child and all that it started.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) else { return };
        let group = Pid::from_raw(id);
        // It can only fail because the group has just ended by itself.
        let _ = killpg(group, Signal::SIGKILL);
        // Killed processes end within milliseconds. Waiting for all of them here means that nothing
        // writes into the temporary directory any more when the caller removes it. pip can be a
        // grandchild: version managers put a shell script in its place.
        let killed = Instant::now();
        let is_there = |child: &mut Child| matches!(child.try_wait(), Ok(None)) || killpg(group, None).is_ok();
        while is_there(&mut self.0) && killed.elapsed() < END_LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = command("sh");
        shell.args(["-c", script]);
        shell
    }

    #[tokio::test]
    async fn the_end_of_a_long_output_is_kept() {
        let script =
            "i=0; while [ $i -lt 5000 ]; do echo line-number-$i; i=$((i+1)); done; printf 'a\\033b' >&2; exit 3";
        let output = run(shell(script)).await.unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stdout.ends_with("line-number-4999"));
        assert!(output.stdout.len() <= KEPT_BYTES);
        assert_eq!(output.stderr, "a b");
    }

    #[tokio::test]
    async fn a_dropped_child_takes_its_whole_group_with_it_and_is_reaped() {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("cd {}; sleep 60 & echo $! > inner; echo $$ > outer; wait", directory.path().display());
        let limit = Duration::from_millis(500);
        assert!(tokio::time::timeout(limit, run(shell(&script))).await.is_err(), "the script waits for ever");
        for file in ["inner", "outer"] {
            let id = std::fs::read_to_string(directory.path().join(file)).unwrap().trim().parse().unwrap();
            assert!(vanishes(Pid::from_raw(id)), "{file} is still there");
        }
    }

    /// The inner child is reaped by the system, which may take a moment and may leave a zombie in a container.
    fn vanishes(id: Pid) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let zombie = std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| stat.contains(") Z "));
            zombie || nix::sys::signal::kill(id, None).is_err()
        })
    }

    #[tokio::test]
    async fn the_secrets_of_the_service_are_withheld() {
        let withheld = command("sh");
        let removed = withheld.as_std().get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        assert_eq!(
            removed.collect::<Vec<_>>(),
            ["PANDARIUM_APPROVER_TOKEN", "PANDARIUM_TOKEN", "PANDARIUM_UPSTREAM_PROXY"]
        );
    }
}
