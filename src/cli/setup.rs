//! `pandarium setup` and `pandarium update`: an install, with its progress on standard error.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use crate::install::{Change, Channel, InstallError, Installed, Installer, Phase, Progress, Release, Source, Wheel};

/// The least time between two lines about one download.
const LINE_PAUSE: Duration = Duration::from_secs(1);

/// Every how many percent of a known total a line is worth it.
const LINE_STEP_PERCENT: u64 = 10;

const MEGABYTE: u64 = 1_000_000;

/// Which build of Lightpanda to install.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Build {
    /// The build that this version of the service was tested with, through pip.
    Pinned,
    /// The newest stable release of the Lightpanda project.
    Stable,
    /// The newest nightly build of the Lightpanda project.
    Nightly,
}

#[derive(Args, Clone, Debug)]
pub struct SetupArguments {
    /// Which build to install.
    #[arg(long, value_enum, default_value_t = Build::Pinned)]
    pub channel: Build,
}

#[derive(Args, Clone, Debug)]
pub struct UpdateArguments {
    /// Which build to install.
    #[arg(long, value_enum, default_value_t = Build::Stable)]
    pub channel: Build,
}

impl Build {
    /// An installer of this build into the managed directory. `releases` is where release metadata is read.
    pub fn installer(self, directory: PathBuf, releases: Url) -> Installer {
        let source = match self {
            Self::Pinned => Source::Pinned(Wheel::default()),
            Self::Stable => Source::Release(Release::new(releases, Channel::Stable)),
            Self::Nightly => Source::Release(Release::new(releases, Channel::Nightly)),
        };
        Installer::new(directory, source)
    }
}

/// Installs with progress on standard error: a bar on a terminal, lines elsewhere. SIGINT and SIGTERM
/// end it as `Cancelled`, with the old binary in place.
pub async fn install(installer: &Installer) -> Result<Installed, InstallError> {
    let progress = progress_on_stderr();
    tokio::select! {
        // In this order, so that signals are watched before the install begins.
        biased;
        () = interrupted() => Err(InstallError::Cancelled),
        outcome = installer.install(progress.as_ref()) => outcome,
    }
}

/// One sentence about a finished install.
pub fn summary(installed: &Installed) -> String {
    let Installed { path, version, source, change, .. } = installed;
    let path = path.display();
    match change {
        Change::Replaced => format!("installed Lightpanda {version} ({source}) as {path}"),
        Change::AlreadyCurrent => format!("Lightpanda {version} ({source}) is already installed as {path}"),
    }
}

/// Ends at the first SIGINT or SIGTERM; never where signals cannot be watched.
async fn interrupted() {
    let watched =
        signal(SignalKind::interrupt()).and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
    match watched {
        Ok((mut interrupt, mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(error) => {
            tracing::warn!(%error, "signals cannot be watched");
            std::future::pending().await
        }
    }
}

fn progress_on_stderr() -> Box<dyn Progress> {
    if io::stderr().is_terminal() { Box::new(Bar::new()) } else { Box::new(Lines::new(io::stderr())) }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting for another install",
        Phase::Resolving => "resolving",
        Phase::Downloading => "downloading",
        Phase::Verifying => "verifying",
        Phase::CheckingVersion => "checking the version",
        Phase::Installing => "installing",
    }
}

/// A bar on a terminal, gone when the install has ended.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        Self(ProgressBar::no_length().with_finish(ProgressFinish::AndClear))
    }

    fn style(phase: Phase) -> ProgressStyle {
        let template = match phase {
            Phase::Downloading => "{spinner} Lightpanda: {msg} {wide_bar} {bytes}/{total_bytes} {eta}",
            _ => "{spinner} Lightpanda: {msg}",
        };
        // A template that does not parse still leaves a bar.
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
    }
}

impl Progress for Bar {
    fn phase(&self, phase: Phase) {
        self.0.set_style(Self::style(phase));
        self.0.set_message(phase_name(phase));
        self.0.enable_steady_tick(Duration::from_millis(100));
    }

    fn bytes(&self, done: u64, total: Option<u64>) {
        if let Some(total) = total {
            self.0.set_length(total);
        }
        self.0.set_position(done);
    }
}

/// Plain lines, for logs: one a phase, and in a download one every ten percent (or, without a known
/// total, one a second), but never two within a second.
struct Lines<W> {
    state: Mutex<LinesState<W>>,
}

struct LinesState<W> {
    to: W,
    last: Instant,
    next_step: u64,
}

impl<W: Write + Send> Lines<W> {
    fn new(to: W) -> Self {
        Self { state: Mutex::new(LinesState { to, last: Instant::now(), next_step: 1 }) }
    }
}

impl<W: Write> LinesState<W> {
    /// A standard error that nobody reads must not fail the install.
    fn line(&mut self, now: Instant, text: &str) {
        let _ = writeln!(self.to, "Lightpanda: {text}");
        self.last = now;
    }

    fn bytes(&mut self, now: Instant, done: u64, total: Option<u64>) {
        if now.saturating_duration_since(self.last) < LINE_PAUSE {
            return;
        }
        let Some(total) = total.filter(|total| *total > 0) else {
            return self.line(now, &format!("downloading, {} MB", done / MEGABYTE));
        };
        let percent = done.saturating_mul(100) / total;
        if percent / LINE_STEP_PERCENT >= self.next_step {
            self.next_step = percent / LINE_STEP_PERCENT + 1;
            self.line(now, &format!("downloading, {percent} % of {} MB", total / MEGABYTE));
        }
    }
}

impl<W: Write + Send> Progress for Lines<W> {
    fn phase(&self, phase: Phase) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).line(Instant::now(), phase_name(phase));
    }

    fn bytes(&self, done: u64, total: Option<u64>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).bytes(Instant::now(), done, total);
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, raise};

    use super::*;

    /// The lines that appear for downloads seen at these moments (milliseconds, bytes).
    fn lines(total: Option<u64>, seen: &[(u64, u64)]) -> Vec<String> {
        let start = Instant::now();
        let mut state = LinesState { to: Vec::new(), last: start, next_step: 1 };
        for (moment, bytes) in seen {
            state.bytes(start + Duration::from_millis(*moment), *bytes, total);
        }
        String::from_utf8(state.to).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_known_total_gives_a_line_every_ten_percent_but_not_two_a_second() {
        let seen = [(0, 0), (500, 30), (1_000, 35), (1_500, 45), (2_000, 39), (3_000, 41), (9_000, 49), (10_000, 100)];
        let seen = seen.map(|(moment, percent)| (moment, percent * MEGABYTE));
        let expected = ["35 %", "41 %", "100 %"].map(|step| format!("Lightpanda: downloading, {step} of 100 MB"));
        assert_eq!(lines(Some(100 * MEGABYTE), &seen), expected);
    }

    #[test]
    fn an_unknown_total_gives_a_line_a_second() {
        let seen = [(900, 1), (1_000, 2), (1_900, 3), (2_000, 4)].map(|(moment, count)| (moment, count * MEGABYTE));
        let expected = ["2 MB", "4 MB"].map(|size| format!("Lightpanda: downloading, {size}"));
        for total in [None, Some(0)] {
            assert_eq!(lines(total, &seen), expected);
        }
    }

    #[tokio::test]
    async fn a_signal_interrupts_an_install() {
        for sent in [Signal::SIGINT, Signal::SIGTERM] {
            let interrupted = interrupted();
            tokio::pin!(interrupted);
            // The first look at it installs the handlers; without them the signal would end this process.
            assert!(futures_util::poll!(&mut interrupted).is_pending());
            raise(sent).unwrap();
            assert!(tokio::time::timeout(Duration::from_secs(10), interrupted).await.is_ok(), "{sent}");
        }
    }
}
