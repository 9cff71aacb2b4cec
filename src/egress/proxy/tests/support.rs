//! Real sockets on both sides of the proxy: servers that say exact bytes, and clients that do.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::{EGRESS_HEADER, EgressProxy, LIMITS, Limits, ProxyClient, Reason};
use crate::domain::network::{HostPort, NetworkPolicy};
use crate::egress::resolver::Lookup;

/// Names of the test's own. Each look-up takes the next of a name's answers; the last one stays.
#[derive(Default)]
pub struct Names(Mutex<HashMap<&'static str, Vec<&'static str>>>);

impl Names {
    pub fn with(entries: &[(&'static str, &[&'static str])]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(entries.iter().map(|(name, answers)| (*name, answers.to_vec())).collect())))
    }
}

#[async_trait]
impl Lookup for Names {
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut names = self.0.lock().unwrap();
        let answers = names.get_mut(host).ok_or(io::ErrorKind::NotFound)?;
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        Ok(answer.split(' ').map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect())
    }
}

/// A running proxy with one client.
pub struct Bed {
    pub proxy: EgressProxy,
    pub client: ProxyClient,
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

impl Bed {
    /// Everything on `exempt` may be reached.
    pub async fn exempting(exempt: &[SocketAddr]) -> Self {
        let exempt = exempt.iter().map(|address| address.to_string().parse().unwrap()).collect();
        Self::start(NetworkPolicy::new(Vec::new(), exempt), Names::with(&[]), LIMITS).await
    }

    pub async fn start(policy: NetworkPolicy, names: Arc<Names>, limits: Limits) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let proxy = EgressProxy::start_with(policy, names, limits, tasks.clone(), stop.clone()).await.unwrap();
        let client = proxy.add_client();
        Self { proxy, client, tasks, stop }
    }

    pub fn credentials(&self) -> String {
        let pair = format!("{}:{}", self.client.username(), self.client.password());
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(pair))
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address()).await.unwrap()
    }

    /// Sends a request with credentials: the line, then `headers` (each with its line end), then the rest.
    pub async fn send(&self, stream: &mut TcpStream, line: &str, headers: &str, body: &[u8]) {
        let head = format!("{line} HTTP/1.1\r\nHost: ignored\r\n{}{headers}\r\n", self.credentials());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
    }

    /// One request on a connection of its own, and its whole answer.
    pub async fn exchange(&self, line: &str) -> Reply {
        let mut stream = self.connect().await;
        self.send(&mut stream, line, "Connection: close\r\n", b"").await;
        Reply::whole(&mut stream).await
    }

    /// The reason that the proxy gives for not passing `line` on; the same reason must stand in the client's list.
    pub async fn reason(&self, line: &str, target: &str) -> Option<Reason> {
        let reply = self.exchange(line).await;
        let target: HostPort = target.parse().unwrap();
        let reason = self.proxy.reason_in(&reply.header(EGRESS_HEADER)?, &target);
        let recorded = self.client.take_refusals();
        assert_eq!(recorded.len(), 1);
        assert_eq!((&recorded[0].target, Some(recorded[0].reason)), (&target, reason));
        reason
    }
}

/// An answer as bytes.
#[derive(Debug)]
pub struct Reply {
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub async fn head(stream: &mut TcpStream) -> Self {
        Self { head: read_head(stream).await.expect("an answer head"), body: Vec::new() }
    }

    /// The head, and as many bytes of body as `Content-Length` says.
    pub async fn sized(stream: &mut TcpStream) -> Self {
        let mut reply = Self::head(stream).await;
        reply.body = vec![0; reply.header("content-length").expect("a length").parse().unwrap()];
        stream.read_exact(&mut reply.body).await.unwrap();
        reply
    }

    /// The head, and everything until the connection ends.
    pub async fn whole(stream: &mut TcpStream) -> Self {
        let mut reply = Self::head(stream).await;
        stream.read_to_end(&mut reply.body).await.unwrap();
        reply
    }

    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

/// A server that answers every request with the same bytes, and remembers the request heads.
pub struct Origin {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    _end: tokio_util::sync::DropGuard,
}

impl Origin {
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start("127.0.0.1", move |mut stream, heads| {
            let answer = Arc::clone(&answer);
            async move {
                while let Some(head) = read_head(&mut stream).await {
                    heads.lock().unwrap().push(head);
                    if stream.write_all(&answer).await.is_err() {
                        break;
                    }
                }
            }
        })
        .await
    }

    /// A server on `ip` that does as `serve` says with each connection.
    pub async fn start<F>(ip: &str, serve: impl Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        Self::on(listener, serve)
    }

    pub fn on<F>(
        listener: TcpListener,
        serve: impl Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let (heads, connections, open) = (Arc::<Mutex<Vec<String>>>::default(), Arc::default(), Arc::default());
        let end = CancellationToken::new();
        let origin = Self {
            address,
            heads: Arc::clone(&heads),
            connections: Arc::clone(&connections),
            open: Arc::clone(&open),
            _end: end.clone().drop_guard(),
        };
        let tasks = TaskTracker::new();
        tasks.clone().spawn(end.clone().run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                open.fetch_add(1, Ordering::SeqCst);
                let (served, open) = (serve(stream, Arc::clone(&heads)), Arc::clone(&open));
                tasks.spawn(end.clone().run_until_cancelled_owned(async move {
                    served.await;
                    open.fetch_sub(1, Ordering::SeqCst);
                }));
            }
        }));
        origin
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// How many connections were ever made to it.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until `count` connections are open, for a second at most.
    pub async fn sees_open(&self, count: usize) {
        let limit = Duration::from_secs(1);
        let started = Instant::now();
        while self.open.load(Ordering::SeqCst) != count {
            assert!(started.elapsed() < limit, "{} connections are open", self.open.load(Ordering::SeqCst));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A head with its blank line; `None` at the end of the stream.
pub async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Reads until the other side has gone.
pub async fn until_gone(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while matches!(stream.read(&mut buffer).await, Ok(read) if read > 0) {}
}

/// Writes zeros for as long as somebody takes them, and counts them.
pub async fn flood(stream: &mut TcpStream, total: usize, written: &AtomicUsize) {
    let chunk = [0; 16 * 1024];
    while written.load(Ordering::SeqCst) < total {
        if stream.write_all(&chunk).await.is_err() {
            return;
        }
        written.fetch_add(chunk.len(), Ordering::SeqCst);
    }
}
