//! Follows one page over its connection: answers every paused document request, and keeps its [`PageView`] up to date.
//!
//! The gate is a task of its own that reads the connection's events in order. It is asked about nothing and waits for
//! nobody, so a request is answered also while a call on the page is under way; a page whose gate is gone gets no
//! answer, and so no document.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chromiumoxide::cdp::browser_protocol::fetch::{
    ContinueRequestParams, FailRequestParams, FulfillRequestParams, GetResponseBodyParams, HeaderEntry,
};
use chromiumoxide::cdp::browser_protocol::network::ErrorReason;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use url::{Origin, Url};

use super::cdp::{CdpError, Connection, Event, Notice};
use super::{
    Arrival, BodyVerdict, BrowserError, Gatekeeper, HeadVerdict, NavigationFailure, PageView, Redirect, ResponseHead,
};
use crate::domain::deadline::Deadline;

/// How long the engine may take to hand over a body that it has already received.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// Requests that a page can keep open for ever, or that nothing on it waits for.
const NEVER_AWAITED: [&str; 5] = ["EventSource", "WebSocket", "Ping", "Prefetch", "CSPViolationReport"];

/// What the gate knows about the page that it follows.
pub struct Gate {
    pub connection: Connection,
    pub session: String,
    /// The frame whose documents are the page's.
    pub top_frame: String,
    pub gatekeeper: Arc<dyn Gatekeeper>,
    /// Headers of the caller, and the one origin that gets them.
    pub headers: Vec<(String, String)>,
    pub headers_for: Origin,
    /// Reads the engine's own error names.
    pub classify: fn(&str) -> NavigationFailure,
    pub view: watch::Sender<PageView>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paused {
    request_id: String,
    request: PausedRequest,
    #[serde(default)]
    frame_id: String,
    #[serde(default)]
    resource_type: String,
    response_status_code: Option<u16>,
    response_error_reason: Option<String>,
    response_headers: Option<Vec<HeaderEntry>>,
}

#[derive(Deserialize)]
struct PausedRequest {
    url: String,
    #[serde(default)]
    headers: serde_json::Map<String, Value>,
}

impl Gate {
    /// Follows the page until `stop`, or until the connection ends. Gives the events back for the next page.
    pub async fn run(
        self,
        mut events: mpsc::UnboundedReceiver<Notice>,
        stop: CancellationToken,
    ) -> mpsc::UnboundedReceiver<Notice> {
        let mut follower =
            Follower { in_flight: HashSet::new(), document_request: None, redirected: false, gate: self };
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                event = events.recv() => event,
            };
            let event = match event {
                Some(Notice::Event(event)) => event,
                Some(Notice::Read(read)) => {
                    // The one who asked may have left.
                    let _ = read.send(());
                    continue;
                }
                None => {
                    follower.gate.view.send_modify(|view| view.closed = true);
                    break;
                }
            };
            if event.session.as_deref() == Some(follower.gate.session.as_str()) {
                follower.take(event).await;
            }
        }
        events
    }
}

struct Follower {
    gate: Gate,
    in_flight: HashSet<String>,
    /// The network id of the top frame's document request under way.
    document_request: Option<String>,
    /// The last document response was a redirect: the next request goes on with the same move.
    redirected: bool,
}

impl Follower {
    async fn take(&mut self, event: Event) {
        match event.method.as_str() {
            "Fetch.requestPaused" => self.paused(event.params).await,
            "Network.requestWillBeSent" => self.request_sent(&event.params),
            "Network.loadingFinished" => self.request_ended(&event.params, None),
            "Network.loadingFailed" => {
                let error = event.params["errorText"].as_str().unwrap_or("unknown").to_owned();
                self.request_ended(&event.params, Some(error));
            }
            "Page.frameNavigated" => self.committed(&event.params),
            "Page.domContentEventFired" => self.gate.view.send_modify(|view| view.content_loaded = true),
            "Page.loadEventFired" => self.gate.view.send_modify(|view| {
                view.content_loaded = true;
                view.loaded = true;
            }),
            _ => {}
        }
    }

    async fn paused(&mut self, params: Value) {
        let request_id = params["requestId"].as_str().unwrap_or_default().to_owned();
        let answered = match serde_json::from_value::<Paused>(params) {
            Err(error) => Err(CdpError::Malformed { method: "Fetch.requestPaused".into(), reason: error.to_string() }),
            Ok(paused) if paused.response_error_reason.is_some() => self.pass(&paused.request_id),
            Ok(paused) if paused.response_status_code.is_some() => self.response(paused).await,
            Ok(paused) => self.request(&paused),
        };
        if let Err(error) = answered {
            tracing::warn!(error = %error, "a paused request could not be dealt with; it is denied");
            // If this fails too the connection is gone, and the request with it.
            let _ = self.deny(&request_id);
        }
    }

    /// Decides on a request before it leaves.
    fn request(&mut self, paused: &Paused) -> Result<(), CdpError> {
        if paused.resource_type != "Document" {
            return self.pass_with_headers(paused);
        }
        match self.gate.gatekeeper.request(&paused.request.url) {
            Ok(_cleared) => {
                if self.is_top(paused) && !std::mem::take(&mut self.redirected) {
                    self.note_page_move();
                }
                self.pass_with_headers(paused)
            }
            Err(refusal) => {
                if self.is_top(paused) {
                    let stopped = BrowserError::Blocked { url: paused.request.url.clone(), refusal };
                    self.gate.view.send_modify(|view| view.stopped = Some(stopped));
                }
                self.deny(&paused.request_id)
            }
        }
    }

    /// A new move of the top frame that no redirect led to: after the first document, the page made it.
    fn note_page_move(&self) {
        self.gate.view.send_modify(|view| {
            if view.documents > 0
                && let Some(Arrival::Document(head)) = &view.arrival
            {
                let redirect = Redirect { from: head.url.clone(), status: None };
                view.redirects.push(redirect);
            }
        });
    }

    /// Decides on a response before the page gets it.
    async fn response(&mut self, paused: Paused) -> Result<(), CdpError> {
        let is_top = self.is_top(&paused);
        let Some(head) = head_of(&paused, is_top) else { return self.pass(&paused.request_id) };
        if is_redirect(&head) {
            if is_top {
                self.redirected = true;
                let redirect = Redirect { from: head.url, status: Some(head.status) };
                self.gate.view.send_modify(|view| view.redirects.push(redirect));
            }
            return self.pass(&paused.request_id);
        }
        if self.gate.gatekeeper.head(&head) == HeadVerdict::Refuse {
            // A frame that shows nothing needs no word; the page itself does.
            if is_top {
                self.arrived(Arrival::Refused(head));
            }
            return self.deny(&paused.request_id);
        }
        let bytes = self.body(&paused.request_id).await?;
        match self.gate.gatekeeper.body(&head, &bytes) {
            BodyVerdict::Show => {
                if is_top {
                    self.arrived(Arrival::Document(head));
                }
                self.pass(&paused.request_id)
            }
            BodyVerdict::ShowAs(html) => {
                let answer = fulfilled(&paused, &head, &html);
                if is_top {
                    self.arrived(Arrival::Document(head));
                }
                self.gate.connection.tell(Some(&self.gate.session), &answer)
            }
            BodyVerdict::Keep => {
                if is_top {
                    self.arrived(Arrival::Body { head, bytes: Arc::new(bytes) });
                }
                self.deny(&paused.request_id)
            }
        }
    }

    fn arrived(&self, arrival: Arrival) {
        self.gate.view.send_modify(|view| view.arrival = Some(arrival));
    }

    async fn body(&self, request_id: &str) -> Result<Vec<u8>, CdpError> {
        let command = GetResponseBodyParams::new(request_id.to_owned());
        let body = self.gate.connection.call(Some(&self.gate.session), command, Deadline::after(BODY_LIMIT)).await?;
        if !body.base64_encoded {
            return Ok(body.body.into_bytes());
        }
        BASE64_STANDARD
            .decode(body.body)
            .map_err(|error| CdpError::Malformed { method: "Fetch.getResponseBody".into(), reason: error.to_string() })
    }

    fn is_top(&self, paused: &Paused) -> bool {
        paused.frame_id == self.gate.top_frame
    }

    fn pass(&self, request_id: &str) -> Result<(), CdpError> {
        self.gate.connection.tell(Some(&self.gate.session), &ContinueRequestParams::new(request_id.to_owned()))
    }

    fn pass_with_headers(&self, paused: &Paused) -> Result<(), CdpError> {
        let same_origin = Url::parse(&paused.request.url).is_ok_and(|url| url.origin() == self.gate.headers_for);
        if self.gate.headers.is_empty() || !same_origin {
            return self.pass(&paused.request_id);
        }
        let is_replaced = |name: &str| self.gate.headers.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(name));
        // Lightpanda tells the Cookie header without its last character; left out, it sends its own.
        let is_kept = |name: &str| !is_replaced(name) && !name.eq_ignore_ascii_case("cookie");
        let own = paused.request.headers.iter().filter(|(name, _)| is_kept(name));
        let own = own.filter_map(|(name, value)| Some(HeaderEntry::new(name.clone(), value.as_str()?)));
        let ours = self.gate.headers.iter().map(|(name, value)| HeaderEntry::new(name.clone(), value.clone()));
        let mut command = ContinueRequestParams::new(paused.request_id.clone());
        command.headers = Some(own.chain(ours).collect());
        self.gate.connection.tell(Some(&self.gate.session), &command)
    }

    /// Any other reason than `Aborted` replaces the page by an error document.
    fn deny(&self, request_id: &str) -> Result<(), CdpError> {
        let command = FailRequestParams::new(request_id.to_owned(), ErrorReason::Aborted);
        self.gate.connection.tell(Some(&self.gate.session), &command)
    }

    fn request_sent(&mut self, params: &Value) {
        let Some(id) = params["requestId"].as_str() else { return };
        let kind = params["type"].as_str().unwrap_or_default();
        if kind == "Document" && params["frameId"].as_str() == Some(self.gate.top_frame.as_str()) {
            self.document_request = Some(id.to_owned());
        }
        if !NEVER_AWAITED.contains(&kind) && self.in_flight.insert(id.to_owned()) {
            self.publish_in_flight();
        }
    }

    fn request_ended(&mut self, params: &Value, error: Option<String>) {
        let Some(id) = params["requestId"].as_str() else { return };
        if self.in_flight.remove(id) {
            self.publish_in_flight();
        }
        if self.document_request.as_deref() != Some(id) {
            return;
        }
        self.document_request = None;
        self.redirected = false;
        // An abort is our own doing, or the page's, which went somewhere else instead.
        if let Some(engine_error) = error.filter(|error| !error.contains("ERR_ABORTED")) {
            let failure = (self.gate.classify)(&engine_error);
            self.gate.view.send_modify(|view| {
                // Of the first navigation, its own answer tells more.
                if view.documents == 0 {
                    return;
                }
                let url = view.arrival.as_ref().map(|arrival| arrival.head().url.to_string()).unwrap_or_default();
                view.stopped = Some(BrowserError::Navigation { url, failure, engine_error });
            });
        }
    }

    fn publish_in_flight(&self) {
        let count = self.in_flight.len();
        self.gate.view.send_modify(|view| view.requests_in_flight = count);
    }

    fn committed(&mut self, params: &Value) {
        if params["frame"]["id"].as_str() != Some(self.gate.top_frame.as_str()) {
            return;
        }
        // What the old document had under way died with it.
        self.in_flight.retain(|id| self.document_request.as_ref() == Some(id));
        let count = self.in_flight.len();
        self.gate.view.send_modify(|view| {
            view.documents += 1;
            view.content_loaded = false;
            view.loaded = false;
            view.requests_in_flight = count;
        });
    }
}

impl Arrival {
    /// The head of the response that it came with.
    pub fn head(&self) -> &ResponseHead {
        match self {
            Self::Document(head) | Self::Body { head, .. } | Self::Refused(head) => head,
        }
    }
}

fn head_of(paused: &Paused, is_top: bool) -> Option<ResponseHead> {
    let url = Url::parse(&paused.request.url).ok()?;
    let headers = paused.response_headers.iter().flatten();
    let headers = headers.map(|header| (header.name.clone(), header.value.clone())).collect();
    Some(ResponseHead { is_top, url, status: paused.response_status_code?, headers })
}

/// As browsers see it: a redirect status without a `Location` is an ordinary response.
fn is_redirect(head: &ResponseHead) -> bool {
    matches!(head.status, 301 | 302 | 303 | 307 | 308) && head.header("location").is_some()
}

/// The response again, but with this HTML, marked as UTF-8.
fn fulfilled(paused: &Paused, head: &ResponseHead, html: &str) -> FulfillRequestParams {
    const OF_THE_OLD_BODY: [&str; 4] = ["content-type", "content-length", "content-encoding", "transfer-encoding"];
    let is_kept = |name: &str| !OF_THE_OLD_BODY.iter().any(|old| old.eq_ignore_ascii_case(name));
    let kept = head.headers.iter().filter(|(name, _)| is_kept(name));
    let kept = kept.map(|(name, value)| HeaderEntry::new(name.clone(), value.clone()));
    let essence = head.header("content-type").and_then(|value| value.split(';').next()).unwrap_or("text/html").trim();
    let content_type = HeaderEntry::new("content-type", format!("{essence}; charset=utf-8"));
    let mut answer = FulfillRequestParams::new(paused.request_id.clone(), i64::from(head.status));
    answer.response_headers = Some(kept.chain([content_type]).collect());
    answer.body = Some(BASE64_STANDARD.encode(html).into());
    answer
}
