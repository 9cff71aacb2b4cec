//! `pandarium status`: what the running service does.

use std::fmt::Display;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::interrupt::unless_interrupted;
use super::{CliError, client, output};
use crate::api::system::{EngineStatus, StatusReport};
use crate::config::Config;

/// The service answers from what it knows.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Args, Clone, Debug)]
pub struct StatusArguments {
    /// Print the whole status as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(config: &Config, arguments: &StatusArguments) -> Result<(), CliError> {
    let answer = unless_interrupted(async {
        let service = client::required(config).await?;
        Ok(service.get::<Value>("/v1/status", LIMIT).await?)
    })
    .await?;
    if arguments.json {
        return output::line(&format!("{answer:#}"));
    }
    let report = StatusReport::deserialize(answer).map_err(|source| CliError::Answer { source })?;
    output::line(&table(&report))
}

/// A row a subject.
fn table(report: &StatusReport) -> String {
    let pool = &report.pool;
    let mut rows = vec![row("service", format!("pandarium {}, up {} s", report.version, report.uptime_s))];
    rows.extend(report.engines.iter().map(|engine| row("engine", described(engine))));
    rows.push(row("workers", format!("{}, {} recycled, {} crashed", pool.workers, pool.recycled, pool.crashed)));
    rows.push(row(
        "slots",
        format!("{}: {} idle, {} busy, {} starting", pool.slots, pool.idle, pool.busy, pool.starting),
    ));
    rows.push(row("waiting", pool.waiting));
    rows.push(row("artifacts", format!("{}, {} bytes", report.store.artifacts, report.store.bytes)));
    rows.extend(report.warnings.iter().map(|warning| row("warning", output::one_line(warning))));
    rows.join("\n")
}

fn row(subject: &str, text: impl Display) -> String {
    format!("{subject:<10} {text}")
}

fn described(engine: &EngineStatus) -> String {
    let version = engine.version.as_deref().unwrap_or("(version unknown)");
    let path = engine.path.as_deref().unwrap_or("not found");
    let origin = engine.origin.as_ref().map_or_else(String::new, |origin| format!(" ({origin})"));
    let update = engine.update_available.as_ref().map_or_else(String::new, |later| format!(", {later} is available"));
    format!("{} {version}, {path}{origin}{update}", engine.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::system::PoolStatus;

    #[test]
    fn the_table_has_a_row_for_each_subject() {
        let engine = EngineStatus {
            name: "lightpanda".to_owned(),
            version: Some("1.0.2".to_owned()),
            path: Some("/data/bin/lightpanda".to_owned()),
            origin: Some("installed".to_owned()),
            ..EngineStatus::default()
        };
        let missing = EngineStatus { name: "other".to_owned(), ..EngineStatus::default() };
        let report = StatusReport {
            version: "9.9.9".to_owned(),
            uptime_s: 7,
            engines: vec![engine, missing],
            pool: PoolStatus { workers: 2, slots: 8, idle: 5, busy: 3, crashed: 1, ..PoolStatus::default() },
            warnings: vec!["runs as\nroot".to_owned()],
            ..StatusReport::default()
        };
        let expected = "\
service    pandarium 9.9.9, up 7 s
engine     lightpanda 1.0.2, /data/bin/lightpanda (installed)
engine     other (version unknown), not found
workers    2, 0 recycled, 1 crashed
slots      8: 5 idle, 3 busy, 0 starting
waiting    0
artifacts  0, 0 bytes
warning    runs as root";
        assert_eq!(table(&report), expected);
    }
}
