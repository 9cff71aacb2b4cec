//! When a page counts as ready: after its load, once nothing is pending that could still change it.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{BrowserError, Page, PageView, World};
use crate::domain::deadline::Deadline;

/// Installed in every document before the page's own scripts: knows the page's timers.
pub const INSTALL: &str = include_str!("js/settle.js");
/// Asks what [`INSTALL`] left behind.
const IDLE: &str = include_str!("js/idle.js");
/// Resolves when a selector matches, or tells that it is not CSS.
const SELECTOR: &str = include_str!("js/selector.js");

/// A network that was silent for so long counts as idle: what Playwright and Puppeteer call `networkidle`.
const NETWORK_IDLE: Duration = Duration::from_millis(500);
/// How long the page may take to tell that the cap has been reached.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// How often an expression of the caller is tried again.
const EXPRESSION_INTERVAL: Duration = Duration::from_millis(50);

/// What to wait for after a navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitUntil {
    /// The document is parsed.
    DomContentLoaded,
    /// The load event.
    Load,
    /// Nothing is pending: no request in flight, no timer of the page due within a second.
    Settled,
    /// No request in flight for 500 ms.
    NetworkIdle,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct WaitOutcome {
    /// What was waited for.
    pub wait_until: WaitUntil,
    /// False when the cap came first; the page was then read as it was.
    pub reached: bool,
    /// Requests that were still under way.
    pub requests_pending: usize,
    /// Timers of the page that were still set, those due later than a second from then included.
    pub timers_pending: u64,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// Waits until the page is where the caller wants it, at most `cap` for what comes after its load event.
pub async fn until(
    page: &mut dyn Page,
    wait_until: WaitUntil,
    cap: Duration,
    deadline: Deadline,
) -> Result<WaitOutcome, BrowserError> {
    let started = Instant::now();
    let (reached, timers_pending) = match wait_until {
        WaitUntil::DomContentLoaded => (view_is(page, deadline, |view| view.content_loaded).await?, 0),
        WaitUntil::Load => (view_is(page, deadline, |view| view.loaded).await?, 0),
        WaitUntil::Settled => settled(page, cap, deadline).await?,
        WaitUntil::NetworkIdle => (network_idle(page, cap, deadline).await?, 0),
    };
    let requests_pending = page.view().borrow().requests_in_flight;
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(WaitOutcome { wait_until, reached, requests_pending, timers_pending, elapsed_ms })
}

/// Waits for something that the view tells. The deadline ends the call with an error, since nothing can be read.
async fn view_is(page: &dyn Page, deadline: Deadline, is: impl Fn(&PageView) -> bool) -> Result<bool, BrowserError> {
    let mut view = page.view();
    let change = view.wait_for(|view| is(view) || view.stopped.is_some() || view.closed);
    match tokio::time::timeout_at(deadline.at().into(), change).await {
        Err(_) => Err(BrowserError::DeadlineExceeded { step: "waiting for the page to load" }),
        Ok(Err(_)) => Err(BrowserError::PageLost),
        Ok(Ok(view)) => match &view.stopped {
            Some(stopped) => Err(stopped.clone()),
            None if view.closed => Err(BrowserError::PageLost),
            None => Ok(true),
        },
    }
}

/// The same, but the time being up is an answer, not an error.
async fn view_becomes(page: &dyn Page, limit: Deadline, is: impl Fn(&PageView) -> bool) -> Result<bool, BrowserError> {
    match view_is(page, limit, is).await {
        Err(BrowserError::DeadlineExceeded { .. }) => Ok(false),
        other => other,
    }
}

/// Requests and timers take turns: a timer may send a request, whose answer may set a timer.
async fn settled(page: &mut dyn Page, cap: Duration, deadline: Deadline) -> Result<(bool, u64), BrowserError> {
    view_is(page, deadline, |view| view.loaded).await?;
    let limit = deadline.min_after(cap);
    let mut timers = 0;
    loop {
        if !view_becomes(page, limit, |view| view.loaded && view.requests_in_flight == 0).await? {
            return Ok((false, timers));
        }
        let document = page.view().borrow().documents;
        let left = u64::try_from(limit.remaining().as_millis()).unwrap_or(u64::MAX);
        let answer_by = deadline.min_after(limit.remaining() + ANSWER_LIMIT);
        let idle = match page.call(World::Main, IDLE, &[Value::from(left)], answer_by).await {
            Ok(idle) => idle,
            // The page went on to another document meanwhile: look at that one.
            Err(_) if page.view().borrow().documents != document => continue,
            // It runs in the page's own world, where a page may have broken what it uses, or be busy. Then there is
            // nothing to wait for any longer.
            Err(BrowserError::Script { .. }) => return Ok((false, timers)),
            Err(BrowserError::DeadlineExceeded { .. }) if !deadline.has_passed() => return Ok((false, timers)),
            Err(error) => return Err(error),
        };
        timers = idle["timers"].as_u64().unwrap_or(0);
        let view = page.view();
        let view = view.borrow();
        if let Some(stopped) = &view.stopped {
            return Err(stopped.clone());
        }
        let quiet = view.documents == document && view.loaded && view.requests_in_flight == 0;
        if quiet && idle["idle"] == Value::Bool(true) {
            return Ok((true, timers));
        }
        if limit.has_passed() {
            return Ok((false, timers));
        }
    }
}

async fn network_idle(page: &dyn Page, cap: Duration, deadline: Deadline) -> Result<bool, BrowserError> {
    view_is(page, deadline, |view| view.loaded).await?;
    let limit = deadline.min_after(cap);
    loop {
        if !view_becomes(page, limit, |view| view.requests_in_flight == 0).await? {
            return Ok(false);
        }
        let silence = limit.min_after(NETWORK_IDLE);
        if !view_becomes(page, silence, |view| view.requests_in_flight > 0).await? {
            return Ok(silence.at() < limit.at());
        }
    }
}

/// Waits until a selector matches an element.
pub async fn for_selector(page: &mut dyn Page, selector: &str, deadline: Deadline) -> Result<(), BrowserError> {
    loop {
        let document = page.view().borrow().documents;
        let left = u64::try_from(deadline.remaining().as_millis()).unwrap_or(u64::MAX);
        let found = page.call(World::Isolated, SELECTOR, &[Value::from(selector), Value::from(left)], deadline).await;
        match found {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(Value::Null) => return Err(BrowserError::InvalidSelector),
            Ok(_) | Err(BrowserError::DeadlineExceeded { .. }) => {
                return Err(BrowserError::DeadlineExceeded { step: "waiting for the selector" });
            }
            Err(_) if page.view().borrow().documents != document => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until an expression of the caller is truthy. One that throws is tried again, for what it reads may not be
/// there yet; what it threw last is the error when the time is up.
pub async fn for_expression(page: &mut dyn Page, expression: &str, deadline: Deadline) -> Result<(), BrowserError> {
    let truthy = format!("!!({expression}\n)");
    let mut thrown = None;
    loop {
        match page.evaluate(&truthy, deadline).await {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => thrown = None,
            Err(error @ BrowserError::Script { .. }) if is_syntax_error(&error) => return Err(error),
            Err(error @ BrowserError::Script { .. }) => thrown = Some(error),
            Err(BrowserError::DeadlineExceeded { .. }) => {}
            Err(error) => return Err(error),
        }
        if deadline.remaining() <= EXPRESSION_INTERVAL {
            let late = BrowserError::DeadlineExceeded { step: "waiting for the expression" };
            return Err(thrown.unwrap_or(late));
        }
        tokio::time::sleep(EXPRESSION_INTERVAL).await;
    }
}

fn is_syntax_error(error: &BrowserError) -> bool {
    matches!(error, BrowserError::Script { message, .. } if message.starts_with("SyntaxError"))
}
