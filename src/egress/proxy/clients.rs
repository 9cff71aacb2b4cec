//! Who may use the proxy: one pair of credentials a worker.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, PROXY_AUTHORIZATION};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::answer::Reason;
use crate::domain::network::HostPort;

/// How many refusals are remembered for a client; the oldest go first.
const MAX_REFUSALS: usize = 64;

/// A request that the proxy did not pass on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub target: HostPort,
    pub reason: Reason,
}

/// The credentials of one worker. Dropping it revokes them and closes every connection made with them.
pub struct ProxyClient {
    state: Arc<ClientState>,
    registry: Arc<Registry>,
}

type Registry = Mutex<HashMap<String, Arc<ClientState>>>;

/// What the proxy knows about one client.
pub(super) struct ClientState {
    username: String,
    password: String,
    proxy: SocketAddr,
    refusals: Mutex<VecDeque<Refused>>,
    pub gone: CancellationToken,
    pub connections: Arc<Semaphore>,
}

impl ClientState {
    pub fn record(&self, target: HostPort, reason: Reason) {
        let mut refusals = lock(&self.refusals);
        if refusals.len() == MAX_REFUSALS {
            refusals.pop_front();
        }
        refusals.push_back(Refused { target, reason });
    }
}

impl ProxyClient {
    pub fn username(&self) -> &str {
        &self.state.username
    }

    pub fn password(&self) -> &str {
        &self.state.password
    }

    pub fn proxy_address(&self) -> SocketAddr {
        self.state.proxy
    }

    /// `http://USERNAME:PASSWORD@127.0.0.1:PORT`. A secret.
    pub fn url(&self) -> String {
        format!("http://{}:{}@{}", self.state.username, self.state.password, self.state.proxy)
    }

    /// The last requests of this client that were not passed on, oldest first; at most 64.
    pub fn refusals(&self) -> Vec<Refused> {
        lock(&self.state.refusals).iter().cloned().collect()
    }

    /// [`Self::refusals`], which are forgotten afterwards.
    pub fn take_refusals(&self) -> Vec<Refused> {
        lock(&self.state.refusals).drain(..).collect()
    }
}

impl fmt::Debug for ProxyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyClient").field("username", &self.state.username).finish_non_exhaustive()
    }
}

impl Drop for ProxyClient {
    fn drop(&mut self) {
        lock(&self.registry).remove(&self.state.username);
        self.state.gone.cancel();
    }
}

/// Every client of one proxy.
pub(super) struct Clients {
    proxy: SocketAddr,
    max_connections: usize,
    registry: Arc<Registry>,
}

impl Clients {
    pub fn new(proxy: SocketAddr, max_connections: usize) -> Self {
        Self { proxy, max_connections, registry: Arc::default() }
    }

    pub fn add(&self) -> ProxyClient {
        let state = Arc::new(ClientState {
            username: format!("{:016x}", rand::random::<u64>()),
            password: format!("{:032x}", rand::random::<u128>()),
            proxy: self.proxy,
            refusals: Mutex::default(),
            gone: CancellationToken::new(),
            connections: Arc::new(Semaphore::new(self.max_connections)),
        });
        lock(&self.registry).insert(state.username.clone(), Arc::clone(&state));
        ProxyClient { state, registry: Arc::clone(&self.registry) }
    }

    /// The client that these headers belong to: `Proxy-Authorization: Basic`, RFC 7617. User names are not secret,
    /// passwords are compared in constant time.
    pub fn authenticate(&self, headers: &HeaderMap) -> Option<Arc<ClientState>> {
        let header = headers.get(PROXY_AUTHORIZATION)?.to_str().ok()?;
        let (scheme, encoded) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let credentials = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        let (username, password) = credentials.split_once(':')?;
        let client = lock(&self.registry).get(username).cloned()?;
        bool::from(client.password.as_bytes().ct_eq(password.as_bytes())).then_some(client)
    }
}

/// A value behind a lock is whole even if a thread died while holding it: every change here is a single step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> Clients {
        Clients::new("127.0.0.1:9".parse().unwrap(), 8)
    }

    fn basic(scheme: &str, credentials: &str) -> HeaderMap {
        let value = format!("{scheme} {}", STANDARD.encode(credentials));
        HeaderMap::from_iter([(PROXY_AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn only_the_right_credentials_of_a_client_that_still_exists_pass() {
        let clients = clients();
        let (client, other) = (clients.add(), clients.add());
        let right = format!("{}:{}", client.username(), client.password());
        assert!(clients.authenticate(&basic("Basic", &right)).is_some());
        assert!(clients.authenticate(&basic("basic", &right)).is_some());
        assert!(clients.authenticate(&HeaderMap::new()).is_none());
        for wrong in
            ["", ":", &format!("{}:", client.username()), &format!("{}:{}", client.username(), other.password())]
        {
            assert!(clients.authenticate(&basic("Basic", wrong)).is_none(), "{wrong}");
        }
        assert!(clients.authenticate(&basic("Bearer", &right)).is_none());
        drop(client);
        assert!(clients.authenticate(&basic("Basic", &right)).is_none());
    }

    #[test]
    fn the_last_refusals_are_kept_and_can_be_taken_once() {
        let client = clients().add();
        for port in 1..=100 {
            client.state.record(format!("a.example:{port}").parse().unwrap(), Reason::Private);
        }
        let refusals = client.refusals();
        assert_eq!((refusals.len(), refusals[0].target.port, refusals[63].target.port), (64, 37, 100));
        assert_eq!(client.take_refusals(), refusals);
        assert!(client.refusals().is_empty());
    }

    #[test]
    fn a_password_is_not_in_the_debug_form() {
        let client = clients().add();
        assert!(!format!("{client:?}").contains(client.password()));
    }
}
