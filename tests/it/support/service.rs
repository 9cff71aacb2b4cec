//! The service under test, as a child process.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::answer::Answer;
use super::site::Site;
use super::{engine, eventually, process, until};

/// Issue and design give the stop 10 s; the rest is for a busy machine.
pub const STOP_LIMIT: Duration = Duration::from_secs(12);
/// Until it listens.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Above every deadline that a test gives a call.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// What the children of a stopped service may take to be reaped by whoever inherited them.
const CHILDREN_GONE: Duration = Duration::from_secs(2);

/// Makes a command that executes the program given to it, in this data directory.
type Wrapper = Box<dyn FnOnce(&Path) -> Command>;

/// How a service is to be started.
pub struct Setup {
    environment: Vec<(OsString, OsString)>,
    data_dir: Option<TempDir>,
    wrapper: Option<Wrapper>,
}

impl Setup {
    /// A small service that may reach these sites.
    pub fn new(sites: &[&Site]) -> Self {
        let exempt: Vec<String> = sites.iter().map(|site| site.address().to_string()).collect();
        Self { environment: Vec::new(), data_dir: None, wrapper: None }
            .env("PANDARIUM_LISTEN", "127.0.0.1:0")
            .env("PANDARIUM_FETCH_WORKERS", "1")
            .env("PANDARIUM_INSTALL", "never")
            .env("PANDARIUM_LIGHTPANDA", engine::binary())
            .env("PANDARIUM_ALLOW_PRIVATE", exempt.join(","))
            .env("PANDARIUM_LOG", "pandarium=debug,info")
    }

    /// Sets a variable; the last value of a name counts.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self
    }

    /// In the data directory of a service that has ended.
    #[must_use]
    pub fn data_dir(mut self, data_dir: TempDir) -> Self {
        self.data_dir = Some(data_dir);
        self
    }

    /// Behind a command that executes the program given to it, such as `unshare`. It is asked with the data directory.
    #[must_use]
    pub fn wrapped(mut self, wrapper: impl FnOnce(&Path) -> Command + 'static) -> Self {
        self.wrapper = Some(Box::new(wrapper));
        self
    }

    /// `pandarium COMMAND`, not started.
    pub fn command(self, name: &str) -> (Command, TempDir) {
        let data_dir = self.data_dir.unwrap_or_else(|| tempfile::tempdir().expect("a directory can be made"));
        let mut command = match self.wrapper {
            Some(wrapper) => {
                let mut command = wrapper(data_dir.path());
                command.arg(env!("CARGO_BIN_EXE_pandarium"));
                command
            }
            None => process::command(env!("CARGO_BIN_EXE_pandarium")),
        };
        command.envs(self.environment).env("PANDARIUM_DATA_DIR", data_dir.path()).arg(name);
        (command, data_dir)
    }

    /// Runs a service that is expected to end by itself: its exit code, standard output and standard error.
    pub fn refused(self) -> (Option<i32>, String, String) {
        let (mut command, _data_dir) = self.command("serve");
        let output = command.output().expect("the service starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// Starts the service and waits until it listens; its worker may still be starting.
    pub async fn start(self) -> Service {
        let token = self.environment.iter().find(|(name, _)| name == "PANDARIUM_TOKEN").map(|(_, token)| token.clone());
        let (mut command, data_dir) = self.command("serve");
        let started = Instant::now();
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the service starts");
        let log = Log::of(child.stderr.take().expect("a pipe"));
        let first_line = first_line(child.stdout.take().expect("a pipe"));
        let first_line = tokio::time::timeout(START_LIMIT, first_line).await;
        let Ok(Some(line)) = first_line else {
            let _ = child.kill();
            panic!("the service did not listen within {START_LIMIT:?}:\n{}", log.text());
        };
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("first line: {line}")).to_owned();
        let token = match token {
            Some(token) => token.into_string().expect("the token is text"),
            None => std::fs::read_to_string(data_dir.path().join("token")).expect("a token").trim().to_owned(),
        };
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(CALL_LIMIT);
        let client = client.build().expect("a client can be made");
        Service { child: Some(child), data_dir: Some(data_dir), log, url, token, client, started }
    }
}

/// The first line of a pipe, which is then read to its end, so that nobody waits for a reader.
async fn first_line(pipe: impl Read + Send + 'static) -> Option<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe).lines();
        let _ = sender.send(lines.next()?.ok()?);
        lines.for_each(drop);
        Some(())
    });
    receiver.await.ok()
}

/// A service that runs. Every test ends it by [`Service::finish`], or by [`Service::kill`].
pub struct Service {
    child: Option<Child>,
    data_dir: Option<TempDir>,
    log: Log,
    pub url: String,
    pub token: String,
    client: reqwest::Client,
    pub started: Instant,
}

impl Service {
    /// A service that may reach these sites.
    pub async fn for_sites(sites: &[&Site]) -> Self {
        Setup::new(sites).start().await
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn data_dir(&self) -> &Path {
        self.data_dir.as_ref().expect("it runs").path()
    }

    /// All that it has logged so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    pub fn port(&self) -> u16 {
        self.url.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("the URL has a port")
    }

    /// A request as it stands, without a token.
    pub fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// A request with the agent's token.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(&self.token)
    }

    /// Sends a request and checks what holds for every answer.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let request = request.build().expect("the request is one");
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = self.client.execute(request).await;
        let answer = Answer::of(response.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))).await;
        answer.check(&method, &path);
        answer
    }

    /// Sends this request line as it stands, with the agent's token: the whole answer as it came.
    pub fn raw(&self, request_line: &str) -> String {
        let authority = self.url.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(authority).expect("the service listens");
        let (token, end) = (&self.token, "Connection: close\r\n\r\n");
        let request = format!("{request_line}Host: {authority}\r\nAuthorization: Bearer {token}\r\n{end}");
        stream.write_all(request.as_bytes()).expect("the request is taken");
        let mut answer = String::new();
        stream.set_read_timeout(Some(CALL_LIMIT)).expect("a limit can be set");
        stream.read_to_string(&mut answer).expect("the answer is text");
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// `POST /v1/fetch` with these fields.
    pub async fn fetch(&self, body: Value) -> Answer {
        self.post("/v1/fetch", &body).await
    }

    /// A fetch of this URL without options, which must succeed.
    pub async fn read(&self, url: &str) -> Value {
        self.fetch(json!({ "url": url })).await.ok()
    }

    pub async fn status(&self) -> Value {
        self.get("/v1/status").await.ok()
    }

    /// Waits until a worker has shown a page.
    pub async fn ready(&self) {
        let what = "the service is ready";
        eventually(what, Duration::from_secs(30), async || {
            let answer = self.send(self.bare(Method::GET, "/readyz")).await;
            (answer.status == 200).then_some(())
        })
        .await;
    }

    /// Waits until the pool has so many pages under way.
    pub async fn busy(&self, pages: u64, limit: Duration) {
        eventually(&format!("{pages} pages under way"), limit, async || {
            (self.status().await["pool"]["busy"] == pages).then_some(())
        })
        .await;
    }

    /// A fetch of this page without options, which must succeed.
    pub async fn read_of(&self, site: &Site, path: &str) -> Value {
        self.read(&site.url(path)).await
    }

    /// Waits until the service answers so many calls at once, this look at it left out.
    pub async fn in_flight(&self, calls: u64, limit: Duration) {
        let gauge = format!("pandarium_http_requests_in_flight {}", calls + 1);
        eventually(&gauge, limit, async || {
            let metrics = self.get("/metrics").await;
            metrics.text().lines().any(|line| line == gauge).then_some(())
        })
        .await;
    }

    /// Sends the signal and waits for the end.
    pub async fn stop(&mut self, sent: Signal) -> ExitStatus {
        process::signal(self.pid(), sent);
        let mut child = self.child.take().expect("it runs");
        eventually("the service ends", STOP_LIMIT, async || child.try_wait().expect("it is our child")).await
    }

    /// Kills it without a word. Its data directory is for the next one.
    pub async fn kill(mut self) -> TempDir {
        self.stop(Signal::SIGKILL).await;
        self.check_log();
        self.data_dir.take().expect("it had one")
    }

    /// Stops it as a person would, and checks what it leaves behind.
    pub async fn finish(self) {
        let _data_dir = self.stop_and_keep().await;
    }

    /// As [`Self::finish`]; its data directory is for the next one.
    pub async fn stop_and_keep(mut self) -> TempDir {
        self.check_marks().await;
        self.end().await;
        self.data_dir.take().expect("it had one")
    }

    /// As [`Self::finish`], for a service that may have been told to stop already.
    pub async fn finish_stopped(mut self) {
        self.end().await;
    }

    async fn end(&mut self) {
        let status = self.stop(Signal::SIGTERM).await;
        assert_eq!(status.code(), Some(0), "{status}:\n{}", self.log());
        self.check_end().await;
    }

    /// What must hold after every end.
    pub async fn check_end(&self) {
        let data_dir = self.data_dir();
        until("no worker is left", CHILDREN_GONE, || process::workers_of(data_dir).is_empty()).await;
        self.check_log();
    }

    /// The process ids of the workers, by the service's own word.
    pub async fn workers(&self) -> Vec<u32> {
        let status = self.status().await;
        let pids = status["pool"]["pids"].as_array().expect("pids is a list").iter();
        pids.map(|pid| pid.as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a pid")).collect()
    }

    /// What looks for leftovers afterwards must be able to see the workers that live.
    async fn check_marks(&self) {
        let (workers, marked) = (self.workers().await, process::workers_of(self.data_dir()));
        let is_unseen = |pid: &&u32| !marked.contains(pid) && process::resident_bytes_of(**pid).is_some();
        assert_eq!(workers.iter().find(is_unseen), None, "a worker without a mark; marked are {marked:?}");
    }

    fn check_log(&self) {
        let log = self.log();
        for line in log.lines() {
            assert!(!line.contains("panicked"), "{line}");
            assert!(!line.contains(&self.token), "a line has the token");
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            if let Some(data_dir) = &self.data_dir {
                process::workers_of(data_dir.path()).into_iter().for_each(|pid| process::signal(pid, Signal::SIGKILL));
            }
            assert!(thread::panicking(), "a test must end its service with finish()");
        }
        if thread::panicking() {
            println!("--- log of the service\n{}---", self.log());
        }
    }
}

/// What the service writes to standard error.
#[derive(Clone)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let log = Self(Arc::default());
        let (copy, mut reader) = (log.clone(), BufReader::new(pipe));
        let _reader: JoinHandle<()> = thread::spawn(move || {
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                copy.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        log
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A path of the data directory as text.
pub fn text_of(path: &Path, name: &str) -> String {
    let path: PathBuf = path.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
