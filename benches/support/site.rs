//! The site that the benchmarks read, in a process of its own, so that its CPU time counts for nobody.
//!
//! Every answer is one write of head and body, and none may be cached: each engine does the same work for each page.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::process::{Failure, Running, command};

/// The hidden flag that makes a benchmark serve the site, and its address.
pub const SITE_FLAG: &str = "serve-site";
/// How long the late answer takes.
const LATE: Duration = Duration::from_millis(20);
/// Items of the late list; the last one is `NONCE-49`.
const ITEMS: usize = 50;
/// Functions of the script; with about 230 bytes each it weighs about 200 KB.
const FUNCTIONS: usize = 880;

const HTML: &str = "text/html; charset=utf-8";

/// A site that is served until this is dropped.
pub struct Site {
    _running: Running,
    address: SocketAddr,
}

impl Site {
    pub async fn start(ip: Ipv4Addr) -> Result<Self, Failure> {
        let mut serve = command(std::env::current_exe()?);
        serve.arg(format!("--{SITE_FLAG}")).arg(ip.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Running::start(serve)?;
        let address = running.first_line().await?.trim().parse()?;
        Ok(Self { _running: running, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path_and_query: &str) -> String {
        format!("http://{}{path_and_query}", self.address)
    }
}

/// Serves until standard input ends, which is when the benchmark is gone.
pub async fn serve(ip: Ipv4Addr) -> Result<(), Failure> {
    let listener = TcpListener::bind((ip, 0)).await?;
    writeln(&listener.local_addr()?.to_string())?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let tracker = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection = hyper::server::conn::http1::Builder::new()
            .writev(true)
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        let _task = tracker.spawn(connection);
    }
}

fn writeln(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let nonce = request.uri().query().and_then(|query| query.strip_prefix("n=")).unwrap_or("none");
    let (status, content_type, body) = match request.uri().path() {
        "/app" => (200, HTML, app(nonce).into()),
        "/app.js" => (200, "text/javascript", SCRIPT.clone()),
        "/late" => {
            tokio::time::sleep(LATE).await;
            (200, "application/json", items(nonce).into())
        }
        "/static" => (200, HTML, article(nonce, "").into()),
        "/list" => (200, HTML, article(nonce, LIST_SCRIPT).into()),
        "/data" => (200, "application/json", format!("{{\"nonce\":\"{nonce}\",\"kind\":\"data\"}}").into()),
        "/file" => (200, "application/pdf", Bytes::from_static(b"%PDF-1.4\n%%EOF\n")),
        _ => (404, HTML, article(nonce, "").into()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    Ok(response)
}

fn items(nonce: &str) -> String {
    let items: Vec<String> = (0..ITEMS).map(|number| format!("\"{nonce}-{number}\"")).collect();
    format!("[{}]", items.join(","))
}

fn app(nonce: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><title>App {nonce}</title></head><body><main id=\"root\"><h1>App {nonce}</h1>\
         <ul id=\"late\"></ul></main><script src=\"/app.js\"></script></body></html>"
    )
}

fn article(nonce: &str, script: &str) -> String {
    let paragraph = "The tide rises and falls twice a day, drawn by the moon and held back by the shape of the coast. ";
    let paragraphs = format!("<p>{}</p>", paragraph.repeat(4)).repeat(5);
    format!(
        "<!doctype html><html lang=\"en\"><head><title>Tides {nonce}</title></head><body><main><h1>Tides</h1>\
         <p>Marked {nonce}-mark in the text.</p>{paragraphs}<ul id=\"late\"></ul></main>{script}</body></html>"
    )
}

const LATE_LIST: &str = "fetch('/late' + location.search).then((answer) => answer.json()).then((items) => {
  for (const item of items) { const entry = document.createElement('li'); entry.textContent = item; late.append(entry); }
  globalThis.isLate = true;
});";

const LIST_SCRIPT: &str = "<script>fetch('/late' + location.search).then((answer) => answer.json()).then((items) => {
  for (const item of items) {
    const entry = document.createElement('li');
    entry.textContent = item;
    document.getElementById('late').append(entry);
  }
});</script>";

/// Functions that each run once and feed one checksum, 100 nodes, and then the late list.
static SCRIPT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut script = String::from("let sum = 1;\n");
    for number in 0..FUNCTIONS {
        let _ = writeln!(
            script,
            "function step{number}(seed) {{\n  const words = ['alpha{number}', 'beta{number}', 'gamma{number}'];\n  \
             let value = seed;\n  for (let turn = 0; turn < 40; turn += 1) {{\n    \
             value = (value * 31 + words[turn % 3].length + turn) % 1000003;\n  }}\n  return value;\n}}\n\
             sum = step{number}(sum);"
        );
    }
    script.push_str(
        "const root = document.getElementById('root');
const late = document.getElementById('late');
for (let number = 0; number < 100; number += 1) {
  const node = document.createElement('p');
  node.textContent = `Row ${number} of the page says ${sum % 7}.`;
  root.insertBefore(node, late);
}
",
    );
    script.push_str(LATE_LIST);
    Bytes::from(script)
});

/// The text that only a whole page has.
pub fn last_item(nonce: &str) -> String {
    format!("{nonce}-{}", ITEMS - 1)
}
