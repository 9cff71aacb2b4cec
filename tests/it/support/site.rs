//! Sites that the tests serve, and what really arrived at them.
//!
//! Plain threads and blocking sockets: a handler that must drip, stall or break off says so in order, and the tests'
//! own runtime has no part in it.

mod wire;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub use wire::Request;

const HTML: &str = "text/html; charset=utf-8";

type Route = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// What a site answers with.
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    gate: Option<Gate>,
}

/// How the body comes.
enum Body {
    Whole(Vec<u8>),
    /// In chunks of so many bytes.
    Chunked(Vec<u8>, usize),
    /// Begins, goes on piece by piece with a pause, and never ends.
    Endless {
        piece: Vec<u8>,
        pause: Duration,
    },
    /// Begins, and then nothing more comes.
    Stalled(Vec<u8>),
    /// Ends before as many bytes as the head promises.
    Short(Vec<u8>),
    /// Not even a head.
    Silent,
    /// The connection closes without an answer.
    Closed,
}

impl Reply {
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::of(status, Body::Whole(body.into())).header("content-type", content_type)
    }

    pub fn html(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, HTML, body)
    }

    /// A status without a body and without a content type.
    pub fn empty(status: u16) -> Self {
        Self::of(status, Body::Whole(Vec::new()))
    }

    pub fn redirect(status: u16, location: impl Into<String>) -> Self {
        Self::empty(status).header("location", location)
    }

    /// A page that sends `piece` again and again.
    pub fn endless(piece: impl Into<Vec<u8>>, pause: Duration) -> Self {
        Self::of(200, Body::Endless { piece: piece.into(), pause }).header("content-type", HTML)
    }

    /// A page that begins and never goes on.
    pub fn stalled(begin: impl Into<Vec<u8>>) -> Self {
        Self::of(200, Body::Stalled(begin.into())).header("content-type", HTML)
    }

    /// A page that breaks off.
    pub fn short(begin: impl Into<Vec<u8>>) -> Self {
        Self::of(200, Body::Short(begin.into())).header("content-type", HTML)
    }

    pub fn silent() -> Self {
        Self::of(200, Body::Silent)
    }

    pub fn closed() -> Self {
        Self::of(200, Body::Closed)
    }

    fn of(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body, gate: None }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The same body in chunks.
    #[must_use]
    pub fn chunked(mut self, bytes: usize) -> Self {
        if let Body::Whole(body) = self.body {
            self.body = Body::Chunked(body, bytes);
        }
        self
    }

    /// Not before the gate is open.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

/// Holds answers back until a test opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let (is_open, opened) = &*self.0;
        let is_open = is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(opened.wait_while(is_open, |is_open| !*is_open));
    }
}

/// The pages of a site that is not served yet.
#[derive(Default)]
pub struct Pages {
    routes: HashMap<String, Route>,
}

impl Pages {
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers this path, whatever its query.
    #[must_use]
    pub fn route(mut self, path: &str, reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        self.routes.insert(path.to_owned(), Box::new(reply));
        self
    }

    /// A page with this HTML.
    #[must_use]
    pub fn page(self, path: &str, html: impl Into<String>) -> Self {
        let html = html.into();
        self.route(path, move |_| Reply::html(html.clone()))
    }

    pub fn serve(self) -> Site {
        self.serve_at(Ipv4Addr::LOCALHOST)
    }

    /// Serves at another loopback address.
    pub fn serve_at(self, address: Ipv4Addr) -> Site {
        let listener = TcpListener::bind((address, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Seen::default());
        let (copy, routes) = (Arc::clone(&seen), Arc::new(self.routes));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if copy.is_closed.load(Ordering::Acquire) {
                    return;
                }
                copy.connections.fetch_add(1, Ordering::AcqRel);
                let (seen, routes) = (Arc::clone(&copy), Arc::clone(&routes));
                thread::spawn(move || wire::converse(stream, &seen, |request| reply(&routes, request)));
            }
        });
        Site { address, seen }
    }
}

/// A route of the test, else a file of `tests/site`.
fn reply(routes: &HashMap<String, Route>, request: &Request) -> Reply {
    if let Some(route) = routes.get(&request.path) {
        return route(request);
    }
    let name = request.path.trim_start_matches('/');
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/site").join(name);
    let is_plain = !name.is_empty() && !name.contains(['/', '\\']);
    match is_plain.then(|| std::fs::read(&file)) {
        Some(Ok(body)) => Reply::html(body),
        _ => Reply::new(404, HTML, "<!doctype html><title>none</title><h1>No such page</h1>"),
    }
}

/// What arrived.
#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    hung_up: Mutex<Vec<String>>,
    is_closed: AtomicBool,
}

impl Seen {
    fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hung_up(&self) -> MutexGuard<'_, Vec<String>> {
        self.hung_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A site that is served until this is dropped.
pub struct Site {
    address: SocketAddr,
    seen: Arc<Seen>,
}

impl Site {
    /// The pages of `tests/site` and no others.
    pub fn of_files() -> Self {
        Pages::new().serve()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How often a path was asked for.
    pub fn count(&self, path: &str) -> usize {
        self.seen.requests().iter().filter(|request| request.path == path).count()
    }

    /// All that asked for this path, in order.
    pub fn requests(&self, path: &str) -> Vec<Request> {
        self.seen.requests().iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Connections that were made to it, whether or not anything came over them.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Acquire)
    }

    /// How often the other side hung up during an answer to this path that has no end.
    pub fn hung_up(&self, path: &str) -> usize {
        self.seen.hung_up().iter().filter(|hung_up| *hung_up == path).count()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.seen.is_closed.store(true, Ordering::Release);
        // The listener looks up once more.
        drop(std::net::TcpStream::connect(self.address));
    }
}
