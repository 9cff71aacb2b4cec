//! Engine processes that do one piece of work and end by themselves.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{LaunchError, StderrRing, prepared, reap, resident_bytes};

/// How to start one job.
pub struct JobCommand {
    pub binary: PathBuf,
    pub arguments: Vec<String>,
    /// As of a worker.
    pub home: PathBuf,
    pub owner: String,
}

/// A running job. Dropping it ends the process.
pub struct Job {
    pid: u32,
    stderr: StderrRing,
    stderr_reader: Option<JoinHandle<()>>,
    ended: watch::Receiver<Option<ExitStatus>>,
    end: CancellationToken,
}

/// What the job reads and what it writes.
pub struct Pipes {
    pub input: ChildStdin,
    pub output: ChildStdout,
}

impl Job {
    /// Starts the process.
    pub fn start(command: &JobCommand, tracker: &TaskTracker) -> Result<(Self, Pipes), LaunchError> {
        let failed = |reason: String| LaunchError::Spawn { binary: command.binary.clone(), reason };
        let mut process = prepared(&command.binary, &command.arguments, &command.home, &command.owner);
        let child = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| failed(error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let stderr = StderrRing::default();
        let stderr_reader = child.stderr.take().map(|pipe| tracker.spawn(stderr.clone().fill(pipe)));
        let end = CancellationToken::new();
        let (ended_sender, ended) = watch::channel(None);
        let pid = child.id().unwrap_or_default();
        let _task = tracker.spawn(reap(child, None, end.clone(), ended_sender));
        let job = Self { pid, stderr, stderr_reader, ended, end };
        match pipes {
            (Some(input), Some(output)) => Ok((job, Pipes { input, output })),
            // Dropped, and so ended.
            _ => Err(failed("it has no pipes".to_owned())),
        }
    }

    /// Resident memory in bytes, where the system tells (Linux).
    pub fn resident_bytes(&self) -> Option<u64> {
        resident_bytes(self.pid)
    }

    /// Ends the process if it has not ended by itself.
    pub fn end(&self) {
        self.end.cancel();
    }

    /// Resolves when the process is gone and reaped; none if waiting for it failed.
    pub async fn ended(&self) -> Option<ExitStatus> {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// The last lines of its standard error, once it has ended.
    pub async fn last_words(mut self) -> Vec<String> {
        if let Some(reader) = self.stderr_reader.take() {
            // It ends with the pipe, and the pipe with the process.
            let _ = reader.await;
        }
        self.stderr.last()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn shell(script: &str, home: &Path) -> JobCommand {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        JobCommand { binary: PathBuf::from("/bin/sh"), arguments, home: home.to_owned(), owner: "job-test".to_owned() }
    }

    #[tokio::test]
    async fn a_job_reads_its_input_and_tells_how_it_ended() {
        let home = tempfile::tempdir().unwrap();
        let tracker = TaskTracker::new();
        let (job, mut pipes) = Job::start(&shell("cat; echo 'last words' >&2; exit 3", home.path()), &tracker).unwrap();
        pipes.input.write_all(b"work").await.unwrap();
        drop(pipes.input);
        let mut output = String::new();
        pipes.output.read_to_string(&mut output).await.unwrap();
        let status = job.ended().await.and_then(|status| status.code());
        assert_eq!((output.as_str(), status), ("work", Some(3)));
        assert_eq!(job.last_words().await, ["last words"]);
    }

    #[tokio::test]
    async fn a_dropped_job_is_ended_with_its_group() {
        let home = tempfile::tempdir().unwrap();
        let tracker = TaskTracker::new();
        let (job, mut pipes) = Job::start(&shell("sleep 300 & sleep 300", home.path()), &tracker).unwrap();
        drop(job);
        // Both hold the pipe open, so its end is the end of both.
        let mut output = Vec::new();
        let read = pipes.output.read_to_end(&mut output);
        tokio::time::timeout(Duration::from_secs(5), read).await.expect("both ended").unwrap();
        tracker.close();
        tracker.wait().await;
    }
}
