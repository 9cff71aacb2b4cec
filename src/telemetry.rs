//! Tracing, the metrics recorder, and how a chain of errors is written.

use std::error::Error;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{EnvFilter, ParseError, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the log filter is not valid")]
    Filter(#[source] ParseError),
    #[error("logging is set up already")]
    Logging(#[source] TryInitError),
    #[error("the metrics recorder cannot be installed")]
    Metrics(#[source] BuildError),
}

/// Upper bounds in seconds: from a health check (ms) to the longest deadline a call may ask for (600 s).
const DURATION_BUCKETS_S: [f64; 14] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 90.0, 600.0];

/// Histogram samples are folded this often; unfolded ones are kept one by one and would grow with the load.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Sends the log, and what there is to say of a panic, to standard error. `filter` is a `tracing` directive list, such as `info` or `pandarium=debug`.
pub fn init_logging(filter: &str, format: LogFormat) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(filter).map_err(TelemetryError::Filter)?;
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let set = tracing_subscriber::registry().with(lines).with(filter).with(filter_fn(quotes_no_page)).try_init();
    set.map_err(TelemetryError::Logging)?;
    log_panics();
    Ok(())
}

/// Other crates quote what passes through them, up to their warnings: paragraphs of a page, messages of the protocol.
/// No filter lets those lines through.
fn quotes_no_page(line: &Metadata<'_>) -> bool {
    *line.level() == Level::ERROR || line.target().split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

/// From here on a panic is a log line with its place. What the panic says is left out: it may quote a page, as that of
/// a slice cut inside a character does.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, "panicked");
    }));
}

/// The process's recorder, installed at the first call. The handle renders what `/metrics` answers; keep [`upkeep`]
/// running beside it.
pub fn install_metrics() -> Result<PrometheusHandle, TelemetryError> {
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = installed.as_ref() {
        return Ok(handle.clone());
    }
    let builder = PrometheusBuilder::new().set_buckets(&DURATION_BUCKETS_S).map_err(TelemetryError::Metrics)?;
    let handle = builder.install_recorder().map_err(TelemetryError::Metrics)?;
    Ok(installed.insert(handle).clone())
}

/// Folds histogram samples until `shutdown`.
pub async fn upkeep(metrics: PrometheusHandle, shutdown: CancellationToken) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        metrics.run_upkeep();
    }
}

/// An error and the errors behind it in one line: `cannot read the page: the worker is gone: broken pipe`.
///
/// Some errors of other crates repeat their source in their own text; the repetition is left out.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    for source in std::iter::successors(error.source(), |&source| source.source()) {
        let text = source.to_string();
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Layer {
        #[error("cannot read the page")]
        Outer(#[source] Box<Layer>),
        #[error("the worker is gone: {0}")]
        Repeats(#[source] std::io::Error),
    }

    #[test]
    fn a_chain_names_each_error_once() {
        let error = Layer::Outer(Box::new(Layer::Repeats(std::io::Error::other("broken pipe"))));
        assert_eq!(error_chain(&error), "cannot read the page: the worker is gone: broken pipe");
        assert_eq!(error_chain(&std::io::Error::other("alone")), "alone");
    }

    #[test]
    fn a_filter_that_is_not_one_is_an_error() {
        assert!(matches!(init_logging("pandarium=loud=very", LogFormat::Text), Err(TelemetryError::Filter(_))));
    }
}
