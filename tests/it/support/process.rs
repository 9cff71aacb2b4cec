//! Child processes, and what the system tells of them.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pandarium::store::Digest;

/// The marker that each engine process carries in its environment.
const OWNER_VARIABLE: &str = "PANDARIUM_WORKER_OF";

/// The binary under test, with exactly this environment.
pub fn pandarium(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Command {
    let mut command = command(env!("CARGO_BIN_EXE_pandarium"));
    command.envs(environment);
    command
}

/// Any program, with an empty environment and nothing on standard input.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = inheriting(program);
    command.env_clear();
    command
}

/// Any program, with the environment of the tests.
#[expect(clippy::disallowed_methods, reason = "the tests play the person who starts programs")]
pub fn inheriting(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

pub fn signal(pid: u32, signal: Signal) {
    // It may have ended in this moment.
    let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), signal);
}

/// The living engine processes that work for this data directory.
pub fn workers_of(data_dir: &Path) -> Vec<u32> {
    let path = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let mark = format!("{OWNER_VARIABLE}={}", Digest::of(path.as_os_str().as_encoded_bytes()));
    let is_marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    processes().filter(is_marked).collect()
}

/// The children of a process, the dead ones that nobody waited for included.
pub fn children_of(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        after_name.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()) == Some(parent)
    };
    processes().filter(is_child).collect()
}

/// Open file descriptors of a process.
pub fn descriptors_of(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives").count()
}

/// Resident memory of a process in bytes; none once it is gone.
pub fn resident_bytes_of(pid: u32) -> Option<u64> {
    memory_of(pid, "VmRSS:")
}

/// The most that its resident memory has ever been, in bytes.
pub fn peak_bytes_of(pid: u32) -> u64 {
    memory_of(pid, "VmHWM:").expect("the process lives")
}

fn memory_of(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024)
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
