//! The life of the worker in one slot: start, prove, watch, replace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chromiumoxide::cdp::browser_protocol::browser::GetVersionParams;
use chromiumoxide::cdp::browser_protocol::page::NavigateParams;
use chromiumoxide::cdp::browser_protocol::target::{
    AttachToTargetParams, CreateBrowserContextParams, CreateTargetParams, DisposeBrowserContextParams,
};
use chromiumoxide::cdp::js_protocol::runtime::EvaluateParams;
use serde_json::{Value, json};

use super::{Idle, Inner, Member, Slot};
use crate::browser::cdp::{CdpError, Connection};
use crate::browser::worker::Worker;
use crate::browser::{BrowserError, EngineIdentity, LaunchError};
use crate::domain::deadline::Deadline;

/// How often a worker's memory, age and page count are looked at. Typed arrays grow about 250 MB a second.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// How often a worker is asked whether it still answers, and how long the answer may take.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);
const HEALTH_LIMIT: Duration = Duration::from_secs(5);
/// A machine under heavy load may be late once.
const HEALTH_MISSES: u32 = 2;
/// A worker that is to be replaced may finish its calls for so long.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
/// A worker that lived for so long, or served a page, was not part of a series of failures.
const PROVEN_AFTER: Duration = Duration::from_secs(10);
/// The pause after the second failure in a row; it doubles with each more.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The page that a worker must show before it counts: it runs a script.
const PROOF_PAGE: &str = "data:text/html,<title>a</title><script>document.title%20%2B%3D%20'b'</script>";

/// Why a worker's watch ended.
enum Verdict {
    Ended,
    Recycle(&'static str),
    Stop,
}

/// Runs until the pool is told to stop.
pub(super) async fn supervise(slot: usize, inner: Arc<Inner>) {
    let mut failures = 0_u32;
    while !inner.stop.is_cancelled() {
        match start(slot, &inner).await {
            Ok(member) => {
                let member = Arc::new(member);
                inner.set_slot(slot, Slot { member: Some(Arc::clone(&member)), failure: None });
                let verdict = watch(&member, &inner).await;
                inner.set_slot(slot, Slot::default());
                let is_proven = member.pages.load(Ordering::Relaxed) > 0 || member.worker.age() > PROVEN_AFTER;
                failures = if is_proven || !matches!(verdict, Verdict::Ended) { 0 } else { failures + 1 };
                retire(&member, verdict, &inner).await;
            }
            Err(error) => {
                failures += 1;
                tracing::error!(worker.slot = slot, failures, error = %crate::telemetry::error_chain(&error), "a worker did not start");
                inner.set_slot(slot, Slot { member: None, failure: Some(error) });
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause_after(failures)) => {}
            () = inner.stop.cancelled() => {}
        }
    }
}

/// None after one failure, so that a crash is repaired at once; then more and more, so that a broken engine does not
/// burn the machine.
fn pause_after(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => FIRST_PAUSE.saturating_mul(1 << (more - 2).min(16)).min(LONGEST_PAUSE),
    }
}

async fn start(slot: usize, inner: &Inner) -> Result<Member, BrowserError> {
    let command = (inner.launcher)(slot)?;
    let limit = inner.options.start_limit;
    let deadline = Deadline::after(limit);
    let starting = Worker::start(&command, limit, &inner.tracker);
    let worker = tokio::select! {
        worker = starting => worker.map_err(BrowserError::Launch)?,
        () = inner.stop.cancelled() => return Err(BrowserError::Stopping),
    };
    let proving = prove(&worker, inner, deadline);
    let proved = tokio::select! {
        proved = proving => proved,
        () = inner.stop.cancelled() => return Err(BrowserError::Stopping),
    };
    let (idle, version, user_agent) = match proved {
        Ok(proved) => proved,
        Err(error) => {
            tracing::warn!(error = %error, "a worker listens but shows no page");
            let (binary, stderr) = (command.binary, worker.last_words());
            return Err(BrowserError::Launch(LaunchError::NotReady { binary, limit_ms: limit.as_millis(), stderr }));
        }
    };
    Ok(Member {
        worker,
        identity: EngineIdentity { name: "lightpanda", version, user_agent, binary: command.binary },
        active: AtomicUsize::new(0),
        pages: AtomicU64::new(0),
        idle: std::sync::Mutex::new(vec![idle]),
    })
}

/// Shows a page with a script, and leaves the connection warm for the first call.
async fn prove(worker: &Worker, inner: &Inner, deadline: Deadline) -> Result<(Idle, String, String), CdpError> {
    let limit = inner.options.max_message_bytes;
    let (connection, events) = Connection::open(worker.socket(), limit, &inner.tracker, deadline).await?;
    let user_agent = connection.call(None, GetVersionParams::default(), deadline).await?.user_agent;
    let context = connection.call(None, CreateBrowserContextParams::default(), deadline).await?.browser_context_id;
    let mut target = CreateTargetParams::new("about:blank");
    target.browser_context_id = Some(context.clone());
    let target = connection.call(None, target, deadline).await?.target_id;
    let mut attach = AttachToTargetParams::new(target);
    attach.flatten = Some(true);
    let session = connection.call(None, attach, deadline).await?.session_id.inner().clone();
    let session = Some(session.as_str());
    let version = connection.call_raw(session, "LP.version", json!({}), deadline).await?;
    connection.call(session, NavigateParams::new(PROOF_PAGE), deadline).await?;
    let title = connection.call(session, EvaluateParams::new("document.title"), deadline).await?;
    if title.result.value != Some(Value::from("ab")) {
        return Err(CdpError::Malformed { method: "Page.navigate".into(), reason: "the page did not run".into() });
    }
    connection.call(None, DisposeBrowserContextParams::new(context), deadline).await?;
    let version = version["version"].as_str().unwrap_or("unknown").to_owned();
    Ok((Idle { connection, events, pages: 0 }, version, user_agent))
}

async fn watch(member: &Member, inner: &Inner) -> Verdict {
    tokio::select! {
        () = member.worker.ended() => Verdict::Ended,
        () = inner.stop.cancelled() => Verdict::Stop,
        reason = look_at_size(member, inner) => Verdict::Recycle(reason),
        () = look_at_health(member, inner) => {
            member.worker.ended().await;
            Verdict::Ended
        }
    }
}

/// Ends a worker that does not answer any more, such as one that was stopped by a signal.
async fn look_at_health(member: &Member, inner: &Inner) {
    let mut misses = 0;
    while misses < HEALTH_MISSES {
        tokio::time::sleep(HEALTH_INTERVAL).await;
        misses = if answers(&member.worker, inner).await { 0 } else { misses + 1 };
    }
    tracing::warn!(worker.pid = member.worker.pid(), "a worker is ended: it does not answer");
    member.worker.end();
}

async fn answers(worker: &Worker, inner: &Inner) -> bool {
    let (limit, deadline) = (inner.options.max_message_bytes, Deadline::after(HEALTH_LIMIT));
    match Connection::open(worker.socket(), limit, &inner.tracker, deadline).await {
        Ok((connection, _events)) => connection.call(None, GetVersionParams::default(), deadline).await.is_ok(),
        Err(_) => false,
    }
}

/// Tells why a worker is to be replaced.
async fn look_at_size(member: &Member, inner: &Inner) -> &'static str {
    let options = &inner.options;
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        let resident = member.worker.resident_bytes().unwrap_or(0);
        if resident > options.hard_resident_bytes {
            tracing::warn!(
                worker.pid = member.worker.pid(),
                worker.resident_bytes = resident,
                "a worker is ended: memory"
            );
            member.worker.end();
        } else if resident > options.max_resident_bytes {
            return "memory";
        } else if member.pages.load(Ordering::Relaxed) >= options.max_pages {
            return "pages";
        } else if member.worker.age() >= options.max_age {
            return "age";
        }
    }
}

/// Ends a worker that takes no new calls any more, and waits until it is reaped.
async fn retire(member: &Arc<Member>, verdict: Verdict, inner: &Arc<Inner>) {
    match verdict {
        Verdict::Ended => {
            inner.crashed.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("pandarium_workers_crashed_total").increment(1);
            tracing::warn!(worker.pid = member.worker.pid(), "a worker ended unasked");
        }
        Verdict::Stop => {
            // Calls in flight are given time by the one who stops the pool.
            member.worker.end();
            member.worker.ended().await;
        }
        Verdict::Recycle(reason) => {
            inner.recycled.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("pandarium_workers_recycled_total", "reason" => reason).increment(1);
            tracing::debug!(worker.pid = member.worker.pid(), reason, "a worker is replaced");
            // Its successor starts at once.
            let _task = inner.tracker.spawn(drain(Arc::clone(member), Arc::clone(inner)));
        }
    }
}

async fn drain(member: Arc<Member>, inner: Arc<Inner>) {
    let until = Instant::now() + DRAIN_LIMIT;
    let mut changes = inner.changes.subscribe();
    while member.active.load(Ordering::Acquire) > 0 && !member.worker.has_ended() {
        let is_over_memory =
            member.worker.resident_bytes().is_some_and(|bytes| bytes > inner.options.hard_resident_bytes);
        if is_over_memory || inner.stop.is_cancelled() || Instant::now() >= until {
            break;
        }
        // A lease that ends is a change; memory is looked at in between.
        let _ = tokio::time::timeout(WATCH_INTERVAL, changes.changed()).await;
    }
    member.worker.end();
    member.worker.ended().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_crash_is_repaired_at_once_and_a_series_is_slowed_down() {
        assert_eq!(pause_after(0), Duration::ZERO);
        assert_eq!(pause_after(1), Duration::ZERO);
        assert_eq!(pause_after(2), Duration::from_millis(100));
        assert_eq!(pause_after(5), Duration::from_millis(800));
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }
}
