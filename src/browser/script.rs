//! PandaScripts: each runs in an engine process of its own, `lightpanda run -`, and is gone with it.
//!
//! The script goes in on standard input, so no file of it is left behind whatever happens. What it says comes out as
//! records of `js/script.js`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lightpanda::{LightpandaFlags, WATCHDOG};
use super::worker::job::{Job, JobCommand, Pipes};
use super::{BrowserError, cdp};
use crate::domain::deadline::Deadline;

const RUNNER: &str = include_str!("js/script.js");
/// Between two looks at the memory of a script's process: typed arrays grow by some 250 MB a second.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// What a script may print in all, kept or not: past it the script is ended, as it prints some 300 MB a second.
pub const MAX_PRINTED_BYTES: u64 = 64 * 1024 * 1024;
/// What may stand around the text of a record, and the longest `threw` with every character escaped.
const RECORD_SLACK: usize = 16 * 1024;
/// What stands around one line of the console in an answer.
const CONSOLE_LINE_BYTES: usize = 32;

/// A script and how much of what it says is kept.
#[derive(Debug, Clone)]
pub struct Script {
    pub source: String,
    /// Of the console, and again of the result as JSON.
    pub max_output_bytes: usize,
}

/// What came of a script.
#[derive(Debug)]
pub struct Finished {
    pub ending: Ending,
    pub output: Vec<ConsoleLine>,
    pub omitted: Omitted,
    /// The last lines of the engine's standard error, without terminal colours.
    pub stderr: Vec<String>,
    /// None where the process was ended.
    pub exit_code: Option<i32>,
}

#[derive(Debug, PartialEq)]
pub enum Ending {
    /// Null where it returned nothing, or more than is kept.
    Returned(Value),
    Threw(Thrown),
    Stopped(Stop),
}

/// An error that the script did not catch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Thrown {
    pub message: String,
    /// From 1; none for an error of the engine or of syntax.
    pub line: Option<u64>,
    pub column: Option<u64>,
}

/// Why a script did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It waited for what could not come any more, or the engine stopped it, as at the limit of its heap.
    Engine,
    Deadline,
    /// More than [`MAX_PRINTED_BYTES`].
    Printed,
    Memory,
}

/// A line that a script wrote to its console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ConsoleLine {
    /// `log`, `info`, `debug`, `warn` or `error`.
    pub level: String,
    pub text: String,
}

/// What was said and not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Omitted {
    pub console_lines: u64,
    /// The size of a result that was too large, as JSON.
    pub result_bytes: u64,
}

/// Gives the command of a script that may run so long.
pub type ScriptLauncher = Box<dyn Fn(Duration) -> Result<JobCommand, BrowserError> + Send + Sync>;

/// Runs scripts.
pub struct ScriptRunner {
    launcher: ScriptLauncher,
    max_resident_bytes: u64,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl LightpandaFlags {
    /// The command line of a script that may run for `time`.
    pub fn script(&self, binary: PathBuf, home: &Path, owner: &str, time: Duration) -> JobCommand {
        let mut arguments: Vec<String> = vec!["run".into(), "-".into()];
        let mut flag = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
        flag("--http-timeout", &time.min(self.http_timeout).as_millis().max(1).to_string());
        flag("--http-max-response-size", &self.max_response_bytes.to_string());
        flag("--v8-max-heap-mb", &self.page_heap_mb.to_string());
        flag("--watchdog-ms", &WATCHDOG.as_millis().to_string());
        // As in any page of ours.
        flag("--load-resources", "iframe");
        flag("--load-resources", "stylesheet");
        arguments.extend(self.network.iter().cloned());
        JobCommand { binary, arguments, home: home.to_owned(), owner: owner.to_owned() }
    }
}

impl ScriptRunner {
    /// `stop` ends every script with [`BrowserError::Stopping`].
    pub fn new(
        launcher: ScriptLauncher,
        max_resident_bytes: u64,
        tracker: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self { launcher, max_resident_bytes, tracker, stop }
    }

    /// Runs a script until it ends, or is ended. Dropped before that, it ends the process.
    ///
    /// # Errors
    /// Only what is no fault of the script: no engine, its process died, the service stops.
    pub async fn run(&self, script: &Script, deadline: Deadline) -> Result<Finished, BrowserError> {
        let command = (self.launcher)(deadline.remaining())?;
        let (job, pipes) = Job::start(&command, &self.tracker).map_err(BrowserError::Launch)?;
        let mut printed = Printed::new(script.max_output_bytes);
        let whole = async {
            let stop = converse(pipes, &script.source, &mut printed).await.err();
            if stop.is_none() {
                job.ended().await;
            }
            stop
        };
        let stop = tokio::select! {
            stop = whole => stop,
            () = tokio::time::sleep_until(deadline.at().into()) => Some(Stop::Deadline),
            () = self.until_too_large(&job) => Some(Stop::Memory),
            () = self.stop.cancelled() => return Err(BrowserError::Stopping),
        };
        job.end();
        let status = job.ended().await;
        let stderr: Vec<String> = job.last_words().await.iter().map(|line| without_colours(line)).collect();
        let exit_code = status.and_then(|status| status.code());
        let ending = match (stop, printed.ending) {
            (Some(stop), _) => Ending::Stopped(stop),
            (None, Some(ending)) => ending,
            (None, None) if exit_code.is_some() => Ending::Stopped(Stop::Engine),
            (None, None) => return Err(BrowserError::WorkerLost { last_words: stderr }),
        };
        Ok(Finished { ending, output: printed.output, omitted: printed.omitted, stderr, exit_code })
    }

    async fn until_too_large(&self, job: &Job) {
        while job.resident_bytes().unwrap_or(0) <= self.max_resident_bytes {
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }
}

/// Hands the script over and reads what comes back, to the end of the pipe.
async fn converse(pipes: Pipes, source: &str, printed: &mut Printed) -> Result<(), Stop> {
    let Pipes { mut input, output } = pipes;
    // No script can guess it, so none can write a record of ours by chance.
    let mark = format!("{:032x}", rand::random::<u128>());
    let program = format!("await ({RUNNER})({}, {});", Value::from(mark.as_str()), Value::from(source));
    let write = async move {
        // A process that died says so by its end.
        let _ = input.write_all(program.as_bytes()).await;
    };
    let ((), read) = tokio::join!(write, printed.read(BufReader::new(output), &mark));
    read
}

/// What a script has said so far.
struct Printed {
    limit: usize,
    /// Bytes that it may still print.
    left: u64,
    output: Vec<ConsoleLine>,
    output_bytes: usize,
    omitted: Omitted,
    ending: Option<Ending>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    Console(ConsoleLine),
    Returned(Value),
    Threw(Thrown),
}

impl Printed {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            left: MAX_PRINTED_BYTES,
            output: Vec::new(),
            output_bytes: 0,
            omitted: Omitted::default(),
            ending: None,
        }
    }

    async fn read(&mut self, mut reader: impl AsyncBufRead + Unpin, mark: &str) -> Result<(), Stop> {
        let mut line = Vec::new();
        loop {
            // A broken pipe is its end.
            let Ok(Some(bytes)) = next_line(&mut reader, &mut line, self.limit + RECORD_SLACK, self.left).await else {
                return Ok(());
            };
            self.left = self.left.checked_sub(bytes + 1).filter(|left| *left > 0).ok_or(Stop::Printed)?;
            let text = String::from_utf8_lossy(&line);
            self.note(&text, text.strip_prefix(mark), bytes);
        }
    }

    /// Takes in a line of `bytes` bytes, of which `text` is the beginning, and `record` what follows the mark.
    fn note(&mut self, text: &str, record: Option<&str>, bytes: u64) {
        const RETURNED: &str = r#"{"returned":"#;
        let Some(record) = record else {
            // A part of the console that is not ours.
            return self.say(ConsoleLine { level: "log".to_owned(), text: text.to_owned() });
        };
        if record.starts_with(RETURNED) {
            let around = text.len() - record.len() + RETURNED.len() + "}".len();
            let result_bytes = bytes.saturating_sub(around as u64);
            if result_bytes > self.limit as u64 {
                self.omitted.result_bytes = result_bytes;
                self.ending = Some(Ending::Returned(Value::Null));
                return;
            }
        }
        match cdp::decode(record) {
            Some(Record::Console(line)) => self.say(line),
            Some(Record::Returned(value)) => self.ending = Some(Ending::Returned(value)),
            Some(Record::Threw(thrown)) => self.ending = Some(Ending::Threw(thrown)),
            // Only a line of the console can be longer than what is read of it.
            None => self.omitted.console_lines += 1,
        }
    }

    /// Keeps the beginning of the console: after a line that did not fit, no other is kept.
    fn say(&mut self, line: ConsoleLine) {
        self.output_bytes = self.output_bytes.saturating_add(line.text.len() + CONSOLE_LINE_BYTES);
        if self.output_bytes <= self.limit && self.omitted.console_lines == 0 {
            self.output.push(line);
        } else {
            self.omitted.console_lines += 1;
        }
    }
}

/// Reads the next line into `line`, without its end and cut to `keep` bytes: how long it was, or none at the end of the
/// pipe. Stops at `limit` bytes.
async fn next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    keep: usize,
    limit: u64,
) -> io::Result<Option<u64>> {
    line.clear();
    let mut bytes = 0;
    while bytes < limit {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok((bytes > 0).then_some(bytes));
        }
        let end = memchr::memchr(b'\n', buffer);
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        line.extend_from_slice(&piece[..piece.len().min(keep - line.len())]);
        bytes += piece.len() as u64;
        let taken = piece.len() + usize::from(end.is_some());
        reader.consume(taken);
        if end.is_some() {
            break;
        }
    }
    Ok(Some(bytes))
}

/// Takes out the escape sequences that colour a terminal (ECMA-48, CSI).
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| ('@'..='~').contains(&c));
        plain.push_str(end.map_or("", |end| &piece[end + 1..]));
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads these lines, `@` standing for the mark.
    async fn read(limit: usize, text: &str) -> (Printed, Result<(), Stop>) {
        let mut printed = Printed::new(limit);
        let text = text.replace('@', "mark");
        let read = printed.read(BufReader::with_capacity(7, text.as_bytes()), "mark").await;
        (printed, read)
    }

    fn texts(printed: &Printed) -> Vec<&str> {
        printed.output.iter().map(|line| line.text.as_str()).collect()
    }

    fn said(text: &str) -> String {
        format!("@{}\n", json!({ "console": { "level": "warn", "text": text } }))
    }

    #[tokio::test]
    async fn records_are_told_from_what_only_looks_like_one() {
        let lines = said("a\nb") + "{\"returned\":1}\nmar\n\n@{\"returned\":[\"c\\ud800\"]}\nlast";
        let (printed, read) = read(1000, &lines).await;
        assert_eq!(read, Ok(()));
        assert_eq!(texts(&printed), ["a\nb", "{\"returned\":1}", "mar", "", "last"]);
        assert_eq!(printed.output[0].level, "warn");
        assert_eq!(printed.ending, Some(Ending::Returned(json!(["c\u{fffd}"]))));
        assert_eq!(printed.omitted, Omitted::default());
    }

    #[tokio::test]
    async fn the_beginning_of_the_console_is_kept_and_the_rest_is_counted() {
        let huge = "x".repeat(20_000);
        let (printed, _) = read(100, &(said("first") + &said(&huge) + &said("small") + "@{\"returned\":true}\n")).await;
        assert_eq!((texts(&printed), printed.omitted.console_lines), (vec!["first"], 2));
        assert_eq!(printed.ending, Some(Ending::Returned(json!(true))), "the result has room of its own");
    }

    #[tokio::test]
    async fn a_result_up_to_the_limit_is_kept_and_a_larger_one_is_measured() {
        for (bytes, kept) in [(100, true), (101, false), (200_000, false)] {
            let result = "x".repeat(bytes - 2);
            let (printed, _) = read(100, &format!("@{{\"returned\":\"{result}\"}}\n")).await;
            let (value, omitted) = if kept { (json!(result), 0) } else { (Value::Null, bytes as u64) };
            assert_eq!(printed.ending, Some(Ending::Returned(value)), "{bytes}");
            assert_eq!(printed.omitted.result_bytes, omitted);
        }
    }

    #[tokio::test]
    async fn a_script_that_prints_without_end_is_stopped_whatever_its_lines() {
        for piece in ["\n", "x"] {
            let endless = tokio::io::repeat(piece.as_bytes()[0]);
            let mut printed = Printed { left: 1_000_000, ..Printed::new(1000) };
            assert_eq!(printed.read(BufReader::with_capacity(65_536, endless), "mark").await, Err(Stop::Printed));
            assert!(printed.output.len() <= 1000 / CONSOLE_LINE_BYTES);
        }
    }

    #[test]
    fn colours_are_taken_out_and_text_stays() {
        assert_eq!(without_colours("\u{1b}[1m\u{1b}[31mError: [a] m\u{1b}[0m"), "Error: [a] m");
        assert_eq!(without_colours("plain [0m"), "plain [0m");
        assert_eq!(without_colours("cut\u{1b}[3"), "cut");
    }
}
