//! One page load: open, navigate, wait, capture, close.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use url::Url;

use super::gatekeeper::{Encoding, FetchGatekeeper, has_no_content, is_attachment, media_type};
use super::plan::LoadPlan;
use crate::browser::wait::{self, WaitOutcome, WaitUntil};
use crate::browser::{Arrival, BrowserError, Engine, NavigationFailure, Page, Redirect, ResponseHead, World};
use crate::domain::approval::{self, Cleared};
use crate::domain::deadline::Deadline;
use crate::domain::network::Refusal;
use crate::egress::outlet::Outlet;
use crate::egress::proxy::Reason;
use crate::egress::resolver::Diagnosis;
use crate::reader::PageCapture;
use crate::reader::charset;
use crate::reader::text_types::{self, Kind};

/// The normalising pass over the page.
const NORMALISE: &str = include_str!("../../browser/js/normalise.js");
/// The same pass in the page's own world, for pages that left alone all that it uses.
static IN_PAGE: LazyLock<String> = LazyLock::new(|| {
    let in_page = include_str!("../../browser/js/in_page.js");
    let code = in_page.split_once("(options)").map_or(in_page, |(_comment, code)| code);
    let uses = format!("({})", include_str!("../../browser/js/uses.js"));
    format!("(options){}", code.replace("USES", &uses).replace("NORMALISE", NORMALISE))
});
/// The pass visits no more nodes than this.
const MAX_NODES: u64 = 1_000_000;

/// A page could not be loaded. Cheap to clone: callers that share a load share its error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Browser(#[from] BrowserError),
    #[error("{url} answered with {content_type}, which is not a text")]
    UnsupportedContentType { url: String, content_type: String },
    #[error("{url} answered with status {http_status} and no body")]
    Empty { url: String, http_status: u16 },
    #[error("{url} is a download, not a page")]
    Download { url: String, content_type: Option<String> },
    #[error("what the page script returned was not understood: {0}")]
    Capture(String),
}

/// What came of a load.
#[derive(Debug)]
pub struct Loaded {
    pub final_url: Url,
    pub redirects: Vec<Redirect>,
    pub http_status: u16,
    pub content_type: Option<String>,
    pub encoding: Option<Encoding>,
    pub wait: Option<WaitOutcome>,
    pub body: Body,
    pub timings: LoadTimings,
}

#[derive(Debug)]
pub enum Body {
    Page(Box<PageCapture>),
    Text { kind: Kind, text: String },
}

/// Where the time of a load went, in milliseconds.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct LoadTimings {
    /// Until a worker was free and an empty page open.
    pub open_ms: u64,
    /// Until the response had been received whole.
    pub navigate_ms: u64,
    /// Until the page was ready.
    pub wait_ms: u64,
    /// The pass that reads the page.
    pub capture_ms: u64,
}

/// What a load needs of the service.
pub struct Loader {
    pub engine: Arc<dyn Engine>,
    pub outlet: Arc<Outlet>,
}

impl Loader {
    /// Loads a page, and tries once more when its worker died under it: reading a page has no side effect of ours.
    pub async fn load(&self, plan: &LoadPlan, deadline: Deadline) -> Result<Loaded, LoadError> {
        let cleared = approval::decide(self.outlet.policy(), &plan.url)?;
        match self.load_once(plan, &cleared, deadline).await {
            Err(LoadError::Browser(BrowserError::WorkerLost { .. })) if !deadline.has_passed() => {
                metrics::counter!("pandarium_fetch_retries_total").increment(1);
                self.load_once(plan, &cleared, deadline).await
            }
            other => other,
        }
    }

    async fn load_once(&self, plan: &LoadPlan, cleared: &Cleared, deadline: Deadline) -> Result<Loaded, LoadError> {
        let clock = Stopwatch::start();
        let gatekeeper = Arc::new(FetchGatekeeper::new(Arc::clone(&self.outlet)));
        let gate = Arc::clone(&gatekeeper);
        let mut page = self.engine.open(cleared, &plan.page_options(), gate, deadline).await?;
        let open_ms = clock.ms();
        let visited = self.visit(page.as_mut(), plan, cleared, &gatekeeper, deadline).await;
        match visited {
            Ok(mut loaded) => {
                page.close().await;
                loaded.timings.open_ms = open_ms;
                Ok(loaded)
            }
            Err(error) if leaves_the_page_whole(&error) => {
                page.close().await;
                Err(error)
            }
            // Its connection is dropped with it: nothing of this page may reach the next caller.
            Err(LoadError::Browser(error)) => Err(self.diagnose(error, deadline).await),
            Err(error) => Err(error),
        }
    }

    async fn visit(
        &self,
        page: &mut dyn Page,
        plan: &LoadPlan,
        cleared: &Cleared,
        gatekeeper: &FetchGatekeeper,
        deadline: Deadline,
    ) -> Result<Loaded, LoadError> {
        let clock = Stopwatch::start();
        page.navigate(cleared, deadline).await?;
        let navigate_ms = clock.ms();
        loop {
            let mut wait = None;
            let document = page.view().borrow().documents;
            if is_document(page) {
                wait = Some(wait_for_page(page, plan, deadline).await?);
            }
            let wait_ms = clock.ms() - navigate_ms;
            let captured = if is_document(page) {
                Some(capture(page, plan, gatekeeper.declares_shadow(), deadline).await?)
            } else {
                None
            };
            let view = page.view().borrow().clone();
            if let Some(stopped) = view.stopped {
                return Err(stopped.into());
            }
            // A page that moved on while it was read is read again where it went.
            let moved = view.documents != document || captured.is_none() == is_document(page);
            if moved && wait.is_some() && !deadline.has_passed() {
                continue;
            }
            let timings =
                LoadTimings { open_ms: 0, navigate_ms, wait_ms, capture_ms: clock.ms() - wait_ms - navigate_ms };
            let arrival = view.arrival.ok_or(BrowserError::PageLost)?;
            let head = arrival.head().clone();
            let (body, encoding) = match (arrival, captured) {
                (Arrival::Refused(head), _) => return Err(self.why_refused(head, deadline).await),
                (Arrival::Body { head, bytes }, _) => text_body(head, &bytes)?,
                (Arrival::Document(_), Some(capture)) => (Body::Page(capture), gatekeeper.encoding()),
                (Arrival::Document(_), None) => return Err(BrowserError::PageLost.into()),
            };
            let final_url = match &body {
                Body::Page(capture) => approval::decide(self.outlet.policy(), &capture.url)?.url().clone(),
                Body::Text { .. } => head.url.clone(),
            };
            return Ok(Loaded {
                final_url,
                redirects: view.redirects,
                http_status: head.status,
                content_type: head.header("content-type").map(str::to_owned),
                encoding,
                wait,
                body,
                timings,
            });
        }
    }

    /// Why a response was refused by its head.
    async fn why_refused(&self, head: ResponseHead, deadline: Deadline) -> LoadError {
        let url = head.url.to_string();
        if let Some(reason) = self.outlet.reason_in(&head.url, &head.headers) {
            return self.why_the_proxy_refused(url, reason, deadline).await;
        }
        if has_no_content(head.status) {
            return LoadError::Empty { url, http_status: head.status };
        }
        let content_type = head.header("content-type").map(str::to_owned);
        if is_attachment(&head) {
            return LoadError::Download { url, content_type };
        }
        LoadError::UnsupportedContentType { url, content_type: content_type.unwrap_or_default() }
    }

    async fn why_the_proxy_refused(&self, url: String, reason: Reason, deadline: Deadline) -> LoadError {
        let failure = match reason {
            Reason::Dns => NavigationFailure::Dns,
            Reason::Refused => NavigationFailure::Refused,
            Reason::Reset | Reason::Busy => NavigationFailure::Reset,
            Reason::Timeout => NavigationFailure::TimedOut,
            Reason::Private | Reason::OwnPort | Reason::Invalid => NavigationFailure::Other,
        };
        let error = BrowserError::Navigation { url, failure, engine_error: format!("proxy: {reason}") };
        self.diagnose(error, deadline).await
    }

    /// The engine cannot tell a private address that it blocks from a dead host: judge the host ourselves.
    async fn diagnose(&self, error: BrowserError, deadline: Deadline) -> LoadError {
        let BrowserError::Navigation { url, failure, .. } = &error else { return error.into() };
        if !matches!(failure, NavigationFailure::Refused | NavigationFailure::Other) {
            return error.into();
        }
        let Ok(parsed) = Url::parse(url) else { return error.into() };
        match self.outlet.diagnose(&parsed, deadline).await {
            Diagnosis::Private(refusal) => BrowserError::Blocked { url: url.clone(), refusal }.into(),
            Diagnosis::Unresolvable => {
                let BrowserError::Navigation { url, engine_error, .. } = error else { return error.into() };
                BrowserError::Navigation { url, failure: NavigationFailure::Dns, engine_error }.into()
            }
            Diagnosis::Reachable => error.into(),
        }
    }
}

/// Reads the page: in its own world where that is as good as ours, which has to be made first.
async fn capture(
    page: &mut dyn Page,
    plan: &LoadPlan,
    declares_shadow: bool,
    deadline: Deadline,
) -> Result<Box<PageCapture>, LoadError> {
    let options = |may_have_shadow: bool| json!({ "selector": plan.selector, "maxNodes": MAX_NODES, "mayHaveShadow": may_have_shadow });
    let in_page = match page.call(World::Main, &IN_PAGE, &[options(declares_shadow)], deadline).await {
        // A page that broke what the question needs.
        Err(BrowserError::Script { .. }) => Value::Null,
        answer => answer?,
    };
    let capture = match in_page {
        Value::Null => page.call(World::Isolated, NORMALISE, &[options(true)], deadline).await?,
        capture => capture,
    };
    let capture = serde_json::from_value(capture).map_err(|error| LoadError::Capture(error.to_string()))?;
    Ok(Box::new(capture))
}

fn is_document(page: &dyn Page) -> bool {
    matches!(page.view().borrow().arrival, Some(Arrival::Document(_)))
}

/// Waits for what the caller asked for, in the order in which a person would: first the page, then the sign on it.
async fn wait_for_page(page: &mut dyn Page, plan: &LoadPlan, deadline: Deadline) -> Result<WaitOutcome, LoadError> {
    let cap = Duration::from_millis(plan.settle_ms);
    let is_asked = plan.wait_for_selector.is_some() || plan.wait_for_script.is_some();
    // What is asked for may come long before the page is quiet, or only after it.
    let first = if is_asked { WaitUntil::DomContentLoaded } else { plan.wait_until };
    let mut outcome = wait::until(page, first, cap, deadline).await?;
    if let Some(selector) = &plan.wait_for_selector {
        wait::for_selector(page, selector, deadline).await?;
    }
    if let Some(expression) = &plan.wait_for_script {
        wait::for_expression(page, expression, deadline).await?;
    }
    if is_asked {
        outcome = wait::until(page, plan.wait_until, cap, deadline).await?;
    }
    Ok(outcome)
}

/// A response that is a text by itself.
fn text_body(head: ResponseHead, bytes: &[u8]) -> Result<(Body, Option<Encoding>), LoadError> {
    let url = head.url.to_string();
    if bytes.is_empty() {
        return Err(LoadError::Empty { url, http_status: head.status });
    }
    let media_type = media_type(&head, Some(bytes)).unwrap_or_default();
    let kind = text_types::classify(&media_type);
    if kind == Kind::Unsupported {
        let content_type = head.header("content-type").map_or(media_type, str::to_owned);
        return Err(LoadError::UnsupportedContentType { url, content_type });
    }
    let decoded = charset::decide(head.header("content-type"), bytes);
    let encoding = Some(Encoding::new(decoded.encoding, decoded.source));
    Ok((Body::Text { kind, text: decoded.text }, encoding))
}

/// The navigation was stopped by ourselves, with the page as empty as it was: its connection can serve on.
fn leaves_the_page_whole(error: &LoadError) -> bool {
    matches!(error, LoadError::UnsupportedContentType { .. } | LoadError::Empty { .. } | LoadError::Download { .. })
}

/// Milliseconds since a start.
struct Stopwatch(Instant);

impl Stopwatch {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
