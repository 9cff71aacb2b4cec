//! Lightpanda: its flags, its pages, its error names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chromiumoxide::cdp::browser_protocol::browser::BrowserContextId;
use chromiumoxide::cdp::browser_protocol::emulation::SetUserAgentOverrideParams;
use chromiumoxide::cdp::browser_protocol::fetch::{EnableParams as FetchEnable, RequestPattern, RequestStage};
use chromiumoxide::cdp::browser_protocol::network::{
    CookieParam, EnableParams as NetworkEnable, ResourceType, SetCookiesParams,
};
use chromiumoxide::cdp::browser_protocol::page::{
    AddScriptToEvaluateOnNewDocumentParams, CreateIsolatedWorldParams, EnableParams as PageEnable, NavigateParams,
};
use chromiumoxide::cdp::browser_protocol::target::{
    AttachToTargetParams, CreateBrowserContextParams, CreateTargetParams, DisposeBrowserContextParams,
};
use chromiumoxide::cdp::js_protocol::runtime::{EvaluateParams, ExceptionDetails, ExecutionContextId};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::cdp::{CdpError, Connection, Notice};
use super::gate::Gate;
use super::pool::{Lease, Pool};
use super::worker::WorkerCommand;
use super::{
    Arrival, BrowserError, Cookie, Engine, EngineIdentity, Gatekeeper, NavigationFailure, Page, PageOptions, PageView,
    World, wait,
};
use crate::domain::approval::Cleared;
use crate::domain::deadline::Deadline;

/// Lightpanda ends a script that keeps its thread for so long, and closes the connection. It is above any evaluation
/// of ours, so that it ends only what a page does by itself.
pub(super) const WATCHDOG: Duration = Duration::from_secs(30);
/// The name of our world in each document.
const WORLD_NAME: &str = "pandarium";
/// How long the disposal of a context may take before the connection is dropped instead.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// What every worker of this service is started with.
#[derive(Debug, Clone)]
pub struct LightpandaFlags {
    /// What may be reached: from `egress`.
    pub network: Vec<String>,
    /// The longest transfer: at least the longest deadline of a call.
    pub http_timeout: Duration,
    /// The largest body of a response, decoded.
    pub max_response_bytes: u64,
    /// V8's heap for one page.
    pub page_heap_mb: u64,
    pub connections: usize,
}

impl LightpandaFlags {
    /// The command line of one worker that listens on `socket`.
    pub fn command(&self, binary: PathBuf, socket: PathBuf, home: &Path, owner: &str) -> WorkerCommand {
        let mut arguments: Vec<String> = vec!["serve".into(), "--unix-socket".into(), socket.display().to_string()];
        let mut flag = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        // One more than is leased: the next connection may come before the engine saw the last one go.
        flag("--cdp-max-connections", (self.connections + 2).to_string());
        flag("--cdp-max-message-size", self.message_bytes().to_string());
        flag("--http-timeout", self.http_timeout.as_millis().to_string());
        flag("--http-max-response-size", self.max_response_bytes.to_string());
        flag("--v8-max-heap-mb", self.page_heap_mb.to_string());
        flag("--watchdog-ms", WATCHDOG.as_millis().to_string());
        arguments.push("--disable-metrics".into());
        arguments.extend(self.network.iter().cloned());
        WorkerCommand { binary, arguments, socket, home: home.to_owned(), owner: owner.to_owned() }
    }

    /// The largest message either way: a whole body as base64 and what stands around it.
    pub fn message_bytes(&self) -> usize {
        usize::try_from(self.max_response_bytes / 3 * 4).unwrap_or(usize::MAX / 2) + 8 * 1024 * 1024
    }
}

/// Lightpanda behind a pool of its processes.
pub struct Lightpanda {
    pool: Pool,
    tracker: TaskTracker,
}

impl Lightpanda {
    pub fn new(pool: Pool, tracker: TaskTracker) -> Self {
        Self { pool, tracker }
    }
}

#[async_trait]
impl Engine for Lightpanda {
    fn identity(&self) -> Option<EngineIdentity> {
        self.pool.identity().borrow().clone()
    }

    async fn open(
        &self,
        first: &Cleared,
        options: &PageOptions,
        gatekeeper: Arc<dyn Gatekeeper>,
        deadline: Deadline,
    ) -> Result<Box<dyn Page>, BrowserError> {
        let lease = self.pool.lease(deadline).await?;
        let page = LightpandaPage::open(lease, first.url(), options, gatekeeper, &self.tracker, deadline).await?;
        Ok(Box::new(page))
    }
}

/// A browser context with its one page, on a leased connection.
pub struct LightpandaPage {
    lease: Lease,
    context: BrowserContextId,
    session: String,
    frame: String,
    view: watch::Receiver<PageView>,
    gate: Option<(JoinHandle<mpsc::UnboundedReceiver<Notice>>, CancellationToken)>,
    /// Our world in the document of that number.
    world: Option<(u64, ExecutionContextId)>,
}

impl LightpandaPage {
    async fn open(
        mut lease: Lease,
        first: &Url,
        options: &PageOptions,
        gatekeeper: Arc<dyn Gatekeeper>,
        tracker: &TaskTracker,
        deadline: Deadline,
    ) -> Result<Self, BrowserError> {
        let connection = lease.connection().clone();
        let Some(events) = lease.take_events() else { return Err(lease.explain(CdpError::Closed).await) };
        let opened = open_target(&connection, deadline).await;
        let (context, frame, session) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(lease.explain(error).await),
        };
        let (view_sender, view) = watch::channel(PageView::default());
        let gate = Gate {
            connection: connection.clone(),
            session: session.clone(),
            top_frame: frame.clone(),
            gatekeeper,
            headers: options.headers.clone(),
            headers_for: first.origin(),
            classify,
            view: view_sender,
        };
        let stop = CancellationToken::new();
        let gate = tracker.spawn(gate.run(events, stop.clone()));
        let page = Self { lease, context, session, frame, view, gate: Some((gate, stop)), world: None };
        match page.prepare(first, options, deadline).await {
            Ok(()) => Ok(page),
            Err(error) => Err(page.lease.explain(error).await),
        }
    }

    /// All that must stand before the first request leaves, sent in one go.
    async fn prepare(&self, first: &Url, options: &PageOptions, deadline: Deadline) -> Result<(), CdpError> {
        let connection = self.lease.connection();
        let session = Some(self.session.as_str());
        let loading = json!({ "subFrame": true, "externalStylesheets": true });
        let script = AddScriptToEvaluateOnNewDocumentParams::new(wait::INSTALL);
        let cookies = SetCookiesParams::new(options.cookies.iter().map(|cookie| cookie_param(cookie, first)).collect());
        let language = options.locale.as_ref().map(|locale| {
            let mut command = SetUserAgentOverrideParams::new(self.lease.user_agent());
            command.accept_language = Some(locale.clone());
            command
        });
        tokio::try_join!(
            connection.call(session, PageEnable::default(), deadline),
            connection.call(session, NetworkEnable::default(), deadline),
            connection.call(session, fetch_patterns(first, options), deadline),
            connection.call(session, script, deadline),
            connection.call_raw(session, "LP.configureLoading", loading, deadline),
            async {
                if cookies.cookies.is_empty() {
                    return Ok(());
                }
                connection.call(session, cookies, deadline).await.map(drop)
            },
            async {
                match language {
                    Some(command) => connection.call(session, command, deadline).await.map(drop),
                    None => Ok(()),
                }
            },
        )?;
        Ok(())
    }

    async fn explain(&self, error: CdpError, step: &'static str) -> BrowserError {
        match error {
            CdpError::TimedOut { .. } => BrowserError::DeadlineExceeded { step },
            error => self.lease.explain(error).await,
        }
    }

    /// Our world in the present document: made at its first use.
    async fn world(&mut self, deadline: Deadline) -> Result<ExecutionContextId, BrowserError> {
        let document = self.view.borrow().documents;
        if let Some((of, world)) = &self.world
            && *of == document
        {
            return Ok(*world);
        }
        let mut command = CreateIsolatedWorldParams::new(self.frame.clone());
        command.world_name = Some(WORLD_NAME.to_owned());
        let made = self.lease.connection().call(Some(&self.session), command, deadline).await;
        let made = match made {
            Ok(made) => made,
            Err(error) => return Err(self.explain(error, "preparing to read the page").await),
        };
        self.world = Some((document, made.execution_context_id));
        Ok(made.execution_context_id)
    }

    async fn run(&self, command: EvaluateParams, deadline: Deadline) -> Result<Value, BrowserError> {
        let answer = self.lease.connection().call(Some(&self.session), command, deadline).await;
        // What the script set going must be known when its result is.
        self.lease.connection().events_read(deadline).await;
        match answer {
            Ok(answer) => match answer.exception_details {
                Some(details) => Err(script_error(&details)),
                None => Ok(answer.result.value.unwrap_or(Value::Null)),
            },
            Err(error) => Err(self.explain(error, "running a script in the page").await),
        }
    }
}

#[async_trait]
impl Page for LightpandaPage {
    async fn navigate(&mut self, target: &Cleared, deadline: Deadline) -> Result<(), BrowserError> {
        let before = self.view.borrow().documents;
        let command = NavigateParams::new(target.url().as_str());
        let answer = self.lease.connection().call(Some(&self.session), command, deadline).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(self.explain(error, "waiting for the response").await),
        };
        let view = self.view.borrow().clone();
        if let Some(stopped @ BrowserError::Blocked { .. }) = view.stopped {
            return Err(stopped);
        }
        if let Some(engine_error) = answer.error_text {
            // The gate stopped it on purpose: the arrival says why.
            if matches!(view.arrival, Some(Arrival::Body { .. } | Arrival::Refused(_))) {
                return Ok(());
            }
            let (url, failure) = (target.url().to_string(), classify(&engine_error));
            return Err(BrowserError::Navigation { url, failure, engine_error });
        }
        let mut changes = self.view.clone();
        let shown = changes.wait_for(|view| view.documents > before || view.closed);
        match tokio::time::timeout_at(deadline.at().into(), shown).await {
            Ok(_) => Ok(()),
            Err(_) => Err(BrowserError::DeadlineExceeded { step: "waiting for the document" }),
        }
    }

    async fn call(
        &mut self,
        world: World,
        function: &str,
        arguments: &[Value],
        deadline: Deadline,
    ) -> Result<Value, BrowserError> {
        let arguments = arguments.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
        let mut command = EvaluateParams::new(format!("({function})({arguments})"));
        command.await_promise = Some(true);
        command.return_by_value = Some(true);
        if world == World::Isolated {
            command.context_id = Some(self.world(deadline).await?);
        }
        self.run(command, deadline).await
    }

    async fn evaluate(&mut self, expression: &str, deadline: Deadline) -> Result<Value, BrowserError> {
        let mut command = EvaluateParams::new(expression);
        command.await_promise = Some(true);
        command.return_by_value = Some(true);
        self.run(command, deadline).await
    }

    fn view(&self) -> watch::Receiver<PageView> {
        self.view.clone()
    }

    async fn close(mut self: Box<Self>) {
        let Some((gate, stop)) = self.gate.take() else { return };
        let command = DisposeBrowserContextParams::new(self.context.clone());
        let disposed = self.lease.connection().call(None, command, Deadline::after(CLOSE_LIMIT)).await;
        stop.cancel();
        if let (Ok(_), Ok(events)) = (disposed, gate.await) {
            self.lease.give_back(events);
        }
    }
}

async fn open_target(
    connection: &Connection,
    deadline: Deadline,
) -> Result<(BrowserContextId, String, String), CdpError> {
    let context = connection.call(None, CreateBrowserContextParams::default(), deadline).await?.browser_context_id;
    let mut target = CreateTargetParams::new("about:blank");
    target.browser_context_id = Some(context.clone());
    let target = connection.call(None, target, deadline).await?.target_id;
    let mut attach = AttachToTargetParams::new(target.clone());
    attach.flatten = Some(true);
    let session = connection.call(None, attach, deadline).await?.session_id;
    // A target's id is the id of its top frame.
    Ok((context, target.inner().clone(), session.inner().clone()))
}

/// Every document request is paused before it leaves and when its response is there; where the caller gave headers,
/// so is every request to the first origin, which gets them.
fn fetch_patterns(first: &Url, options: &PageOptions) -> FetchEnable {
    let document = |stage| RequestPattern {
        url_pattern: Some("*".to_owned()),
        resource_type: Some(ResourceType::Document),
        request_stage: Some(stage),
    };
    let mut patterns = vec![document(RequestStage::Request), document(RequestStage::Response)];
    if !options.headers.is_empty() {
        patterns.push(RequestPattern {
            url_pattern: Some(format!("{}/*", first.origin().ascii_serialization())),
            resource_type: None,
            request_stage: Some(RequestStage::Request),
        });
    }
    FetchEnable { patterns: Some(patterns), handle_auth_requests: None }
}

fn cookie_param(cookie: &Cookie, first: &Url) -> CookieParam {
    let mut param = CookieParam::new(cookie.name.clone(), cookie.value.clone());
    match &cookie.domain {
        Some(domain) => param.domain = Some(domain.clone()),
        None => param.url = Some(first.to_string()),
    }
    param.path = cookie.path.clone().or_else(|| Some("/".to_owned()));
    param
}

fn script_error(details: &ExceptionDetails) -> BrowserError {
    let thrown = details.exception.as_ref();
    let described = thrown.and_then(|exception| {
        exception.description.clone().or_else(|| exception.value.as_ref().map(ToString::to_string))
    });
    BrowserError::Script {
        message: described.unwrap_or_else(|| details.text.clone()),
        line: details.line_number,
        column: details.column_number,
    }
}

/// Lightpanda's names for what libcurl said.
fn classify(engine_error: &str) -> NavigationFailure {
    match engine_error {
        "CouldntResolveHost" | "CouldntResolveProxy" => NavigationFailure::Dns,
        "CouldntConnect" => NavigationFailure::Refused,
        "GotNothing" | "RecvError" | "SendError" | "PartialFile" | "Http2" | "Http2Stream" | "WeirdServerReply" => {
            NavigationFailure::Reset
        }
        "ResponseTooLarge" | "FilesizeExceeded" => NavigationFailure::TooLarge,
        "TooManyRedirects" => NavigationFailure::RedirectLoop,
        "BadContentEncoding" => NavigationFailure::BadEncoding,
        "OperationTimedout" | "net::ERR_TIMED_OUT" => NavigationFailure::TimedOut,
        name if name.starts_with("Ssl") || name.contains("Ssl") || name == "PeerFailedVerification" => {
            NavigationFailure::Tls
        }
        _ => NavigationFailure::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_error_names_become_reasons() {
        for (name, wanted) in [
            ("CouldntResolveHost", NavigationFailure::Dns),
            ("CouldntConnect", NavigationFailure::Refused),
            ("SslConnectError", NavigationFailure::Tls),
            ("PeerFailedVerification", NavigationFailure::Tls),
            ("GotNothing", NavigationFailure::Reset),
            ("PartialFile", NavigationFailure::Reset),
            ("ResponseTooLarge", NavigationFailure::TooLarge),
            ("TooManyRedirects", NavigationFailure::RedirectLoop),
            ("BadContentEncoding", NavigationFailure::BadEncoding),
            ("net::ERR_TIMED_OUT", NavigationFailure::TimedOut),
            ("SomethingElse", NavigationFailure::Other),
        ] {
            assert_eq!(classify(name), wanted, "{name}");
        }
    }
}
