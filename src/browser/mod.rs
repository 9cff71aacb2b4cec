//! The port to the engines, and everything behind it.
//!
//! Behaviour is written once, above [`Page`]: an engine knows how to navigate, to run a function of ours and to close.
//! What a page may open and what is done with a response is not decided here but by the caller's [`Gatekeeper`].

pub mod cdp;
pub mod gate;
pub mod lightpanda;
pub mod pool;
pub mod script;
pub mod wait;
pub mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;
use url::Url;

use crate::domain::approval::Cleared;
use crate::domain::deadline::Deadline;
use crate::domain::network::Refusal;

pub use cdp::CdpError;
pub use worker::LaunchError;

/// A page could not be opened, moved or read. Cheap to clone: callers that share a page load share its error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BrowserError {
    #[error("no engine can be started: {reason}")]
    NoEngine { reason: String },
    #[error("the engine could not be started")]
    Launch(#[source] LaunchError),
    #[error("every worker is busy and {waiting} calls are waiting already")]
    PoolExhausted { waiting: usize },
    #[error("the service is stopping")]
    Stopping,
    #[error("the engine's process ended during the call{}", quote(.last_words))]
    WorkerLost { last_words: Vec<String> },
    #[error("the engine gave the page up: its script ran too long without a pause, or used too much memory")]
    PageLost,
    #[error("the time was up while {step}")]
    DeadlineExceeded { step: &'static str },
    #[error("the page is not allowed to open {url}")]
    Blocked {
        url: String,
        #[source]
        refusal: Refusal,
    },
    #[error("{url} could not be loaded ({engine_error})")]
    Navigation { url: String, failure: NavigationFailure, engine_error: String },
    #[error("a script failed: {message}")]
    Script { message: String, line: i64, column: i64 },
    #[error("the selector is not valid CSS")]
    InvalidSelector,
    #[error("the engine did not do what was asked")]
    Protocol(#[source] CdpError),
}

fn quote(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; its last words: {}", lines.join(" | ")) }
}

/// Why a navigation brought no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NavigationFailure {
    Dns,
    Refused,
    Tls,
    Reset,
    TooLarge,
    RedirectLoop,
    BadEncoding,
    /// The engine's own time limit; the call's deadline is [`BrowserError::DeadlineExceeded`].
    TimedOut,
    Other,
}

/// Which global object a function runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// The page's own: what the page redefined is redefined.
    Main,
    /// Ours: the same document, untouched built-ins.
    Isolated,
}

/// What a page is given before it opens its first URL.
#[derive(Debug, Clone, Default)]
pub struct PageOptions {
    /// Sent with requests to the first URL's origin, and to no other.
    pub headers: Vec<(String, String)>,
    pub cookies: Vec<Cookie>,
    /// BCP 47 tag for `navigator.language` and `Accept-Language`.
    pub locale: Option<String>,
}

/// A cookie that the caller gives a page.
#[derive(Debug, Clone)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// The host of the first URL where none is given.
    pub domain: Option<String>,
    pub path: Option<String>,
}

/// The head of a response to a document request.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// It answers a request of the top frame.
    pub is_top: bool,
    pub url: Url,
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl ResponseHead {
    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What becomes of a response, by its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadVerdict {
    /// The body is needed: [`Gatekeeper::body`] decides.
    Read,
    /// The page does not get it, and the body is not read.
    Refuse,
}

/// What becomes of a response, by its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyVerdict {
    /// The page gets it as it is.
    Show,
    /// The page gets this HTML in its place, as UTF-8: the engine would misread the encoding.
    ShowAs(String),
    /// The page does not get it; it comes back as [`Arrival::Body`].
    Keep,
}

/// Decides on every document request and response of a page. Asked on the path of the request: it must not wait.
pub trait Gatekeeper: Send + Sync {
    /// May this URL be requested as a document? Asked for each hop, whoever started it.
    fn request(&self, url: &str) -> Result<Cleared, Refusal>;
    /// Asked for each response that is not a redirect.
    fn head(&self, head: &ResponseHead) -> HeadVerdict;
    fn body(&self, head: &ResponseHead, body: &[u8]) -> BodyVerdict;
}

/// A move to another URL on the way to the final one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub from: Url,
    /// The HTTP status of the redirect; none when the page moved by itself (script, meta refresh).
    pub status: Option<u16>,
}

/// What a navigation brought.
#[derive(Debug, Clone)]
pub enum Arrival {
    /// A document that the page shows.
    Document(ResponseHead),
    /// A response whose body was kept for the caller; the page is what it was before.
    Body { head: ResponseHead, bytes: Arc<Vec<u8>> },
    /// A response that was refused by its head; the page is what it was before.
    Refused(ResponseHead),
}

/// What is known of a page at a moment. [`Page::view`] tells each change.
#[derive(Debug, Clone, Default)]
pub struct PageView {
    /// Counts the documents that the top frame has shown.
    pub documents: u64,
    pub content_loaded: bool,
    pub loaded: bool,
    /// Requests under way that a page waits for; sockets and event streams do not count.
    pub requests_in_flight: usize,
    /// Moves so far, oldest first.
    pub redirects: Vec<Redirect>,
    /// How the last navigation of the top frame ended, once it has.
    pub arrival: Option<Arrival>,
    /// Set when a navigation that the page itself started was stopped or failed.
    pub stopped: Option<BrowserError>,
    /// The connection is gone: nothing will change any more.
    pub closed: bool,
}

/// One page of an engine, alone in its browser context.
#[async_trait]
pub trait Page: Send + Sync {
    /// Opens a URL. Returns once the response has been dealt with: a document is there, but may still be loading.
    async fn navigate(&mut self, target: &Cleared, deadline: Deadline) -> Result<(), BrowserError>;

    /// Calls a JavaScript function expression with arguments by value and awaits its result, also by value.
    async fn call(
        &mut self,
        world: World,
        function: &str,
        arguments: &[Value],
        deadline: Deadline,
    ) -> Result<Value, BrowserError>;

    /// Evaluates a caller's expression in the page's own world.
    async fn evaluate(&mut self, expression: &str, deadline: Deadline) -> Result<Value, BrowserError>;

    fn view(&self) -> watch::Receiver<PageView>;

    /// Disposes the page's context and gives its connection back. A page that is dropped instead loses it.
    async fn close(self: Box<Self>);
}

/// Which engine it is, by its own word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineIdentity {
    /// As callers name it, such as `lightpanda`.
    pub name: &'static str,
    pub version: String,
    pub user_agent: String,
    pub binary: PathBuf,
}

/// A source of pages.
#[async_trait]
pub trait Engine: Send + Sync {
    /// None until it has shown a page, and while it is down.
    fn identity(&self) -> Option<EngineIdentity>;

    /// Opens an empty page with what the caller wants it to have.
    async fn open(
        &self,
        first: &Cleared,
        options: &PageOptions,
        gatekeeper: Arc<dyn Gatekeeper>,
        deadline: Deadline,
    ) -> Result<Box<dyn Page>, BrowserError>;
}
