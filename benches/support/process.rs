//! Child processes, and what `/proc` tells of them.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Any failure of a measurement; it ends the program.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What a child may take to say where it listens.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A program with an empty environment and nothing on standard input.
#[expect(clippy::disallowed_methods, reason = "a benchmark plays the person who starts programs")]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A child that leads a process group of its own; dropping it kills the group and waits for the child.
pub struct Running(Child);

impl Running {
    pub fn start(mut command: Command) -> Result<Self, Failure> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn();
        child.map(Self).map_err(|error| format!("could not start {program}: {error}").into())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, sent: Signal) {
        signal(self.pid(), sent);
    }

    /// The first line of its piped standard output, which is then read to its end, so that it never waits for a reader.
    pub async fn first_line(&mut self) -> Result<String, Failure> {
        let pipe = self.0.stdout.take().ok_or("standard output is not piped")?;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        thread::spawn(move || read_lines(pipe, sender));
        let line = tokio::time::timeout(START_LIMIT, receiver).await;
        line.map_err(|_| "a child was not ready in time")?.map_err(|_| "a child ended before it was ready".into())
    }

    /// Waits for its end, and kills it after the limit.
    pub async fn end_within(mut self, limit: Duration) -> Result<(), Failure> {
        let until = tokio::time::Instant::now() + limit;
        while tokio::time::Instant::now() < until {
            if self.0.try_wait()?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("a child did not stop in time".into())
    }
}

fn read_lines(pipe: impl Read, first: tokio::sync::oneshot::Sender<String>) -> Option<()> {
    let mut lines = BufReader::new(pipe).lines();
    let _ = first.send(lines.next()?.ok()?);
    lines.map_while(Result::ok).for_each(drop);
    Some(())
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.0.try_wait() {
            return;
        }
        if let Ok(pid) = i32::try_from(self.0.id()) {
            // It may have ended in this moment.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process that may have ended.
pub fn signal(pid: u32, sent: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = kill(Pid::from_raw(pid), sent);
    }
}
