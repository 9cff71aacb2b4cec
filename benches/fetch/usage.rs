//! CPU time and memory of process trees, from `/proc`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::process::Failure;

const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Whose processes count.
#[derive(Clone)]
pub enum Tree {
    /// This process and its living descendants.
    Of(u32),
    /// As [`Tree::Of`], and whoever has this text on its command line.
    Marked(u32, String),
    /// Children that come and go, with this text on their command line. Nobody else may wait for a child meanwhile.
    Passing { parent: u32, mark: String },
}

/// What `/proc/PID/stat` tells, in clock ticks.
struct Stat {
    parent: u32,
    own: u64,
    /// Of children that have ended and were waited for.
    children: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // Fields 4, 14, 15, 16 and 17 of proc(5); the slice begins with field 3.
    let parent = u32::try_from(number(1)?).ok()?;
    Some(Stat { parent, own: number(11)? + number(12)?, children: number(13)? + number(14)? })
}

fn stats() -> HashMap<u32, Stat> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn is_below(stats: &HashMap<u32, Stat>, mut pid: u32, ancestor: u32) -> bool {
    while let Some(stat) = stats.get(&pid) {
        if pid == ancestor {
            return true;
        }
        pid = stat.parent;
    }
    false
}

fn has_argument(pid: u32, mark: &str) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&arguments).contains(mark)
}

impl Tree {
    fn has(&self, stats: &HashMap<u32, Stat>, pid: u32) -> bool {
        match self {
            Self::Of(root) => is_below(stats, pid, *root),
            Self::Marked(root, mark) => is_below(stats, pid, *root) || has_argument(pid, mark),
            Self::Passing { parent, mark } => {
                stats.get(&pid).is_some_and(|stat| stat.parent == *parent) && has_argument(pid, mark)
            }
        }
    }

    /// CPU seconds of the tree until this moment, those of ended children that were waited for included.
    pub fn cpu_seconds(&self) -> Result<f64, Failure> {
        let stats = stats();
        if let Self::Passing { parent, .. } = self {
            return seconds(stats.get(parent).ok_or("no such process")?.children);
        }
        let counted = stats.iter().filter(|(pid, _)| self.has(&stats, **pid));
        seconds(counted.map(|(_, stat)| stat.own + stat.children).sum())
    }

    fn memory(&self) -> Memory {
        let stats = stats();
        let counted = stats.keys().filter(|pid| self.has(&stats, **pid));
        counted.map(|pid| Memory::of(*pid)).fold(Memory::default(), |sum, memory| Memory {
            pss_kb: sum.pss_kb + memory.pss_kb,
            rss_kb: sum.rss_kb + memory.rss_kb,
        })
    }
}

/// CPU seconds of this one process, all its threads included.
pub fn own_cpu_seconds(pid: u32) -> Result<f64, Failure> {
    seconds(stat(pid).ok_or("no such process")?.own)
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a benchmark stay far below 2^52")]
fn seconds(ticks: u64) -> Result<f64, Failure> {
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.ok_or("no clock tick")?;
    Ok(ticks as f64 / per_second as f64)
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    pub pss_kb: u64,
    pub rss_kb: u64,
}

impl Memory {
    fn of(pid: u32) -> Self {
        let rollup = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/smaps_rollup"))).unwrap_or_default();
        let field = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        Self { pss_kb: field("Pss:").unwrap_or_default(), rss_kb: field("Rss:").unwrap_or_default() }
    }
}

/// Peaks of a tree and of one process of it, sampled by a thread until [`Sampler::stop`].
pub struct Sampler {
    done: Arc<AtomicBool>,
    peaks: Arc<Mutex<(Memory, Memory)>>,
    thread: JoinHandle<()>,
}

impl Sampler {
    pub fn start(tree: Tree, alone: Option<u32>) -> Self {
        let (done, peaks) = (Arc::<AtomicBool>::default(), Arc::<Mutex<(Memory, Memory)>>::default());
        let (is_done, seen) = (Arc::clone(&done), Arc::clone(&peaks));
        let thread = thread::spawn(move || {
            while !is_done.load(Ordering::Acquire) {
                let now = (tree.memory(), alone.map(Memory::of).unwrap_or_default());
                let mut peaks = seen.lock().unwrap_or_else(PoisonError::into_inner);
                *peaks = (peaks.0.max(now.0), peaks.1.max(now.1));
                drop(peaks);
                thread::sleep(SAMPLE_EVERY);
            }
        });
        Self { done, peaks, thread }
    }

    /// The peaks of the tree and of the one process.
    pub fn stop(self) -> (Memory, Memory) {
        self.done.store(true, Ordering::Release);
        // A sampler that panicked has left its last peaks.
        let _ = self.thread.join();
        *self.peaks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn max(self, other: Self) -> Self {
        Self { pss_kb: self.pss_kb.max(other.pss_kb), rss_kb: self.rss_kb.max(other.rss_kb) }
    }
}
