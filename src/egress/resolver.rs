//! From a host to addresses that may be connected to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use url::Url;

use crate::domain::deadline::Deadline;
use crate::domain::network::{HostPort, NetworkPolicy, Refusal};

/// The longest that one look-up may take: the system's resolver asks a silent server twice for 5 s (resolv.conf(5)).
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);

/// How many look-ups run at once. Each holds a blocking thread, also for a while after its caller has given up.
const MAX_LOOKUPS: usize = 64;

/// A host did not lead to an address that may be connected to.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("the address is refused")]
    Refused(#[from] Refusal),
    #[error("{0} has no address; check the spelling of the host")]
    NotFound(HostPort, #[source] io::Error),
    #[error("the look-up of {0} took too long; try again later")]
    TimedOut(HostPort),
}

/// What an engine's bare "could not connect" meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnosis {
    /// The address rule stopped it.
    Private(Refusal),
    /// The name has no address.
    Unresolvable,
    /// The address may be reached: the server itself did not answer.
    Reachable,
}

/// Where names are looked up.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// The addresses of a name; an error or nothing at all if it has none.
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver: the hosts file, then DNS.
#[derive(Debug)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// Looks hosts up and judges every answer.
#[derive(Clone)]
pub struct Resolver {
    policy: Arc<NetworkPolicy>,
    lookup: Arc<dyn Lookup>,
    running: Arc<Semaphore>,
}

impl Resolver {
    pub fn new(policy: Arc<NetworkPolicy>, lookup: Arc<dyn Lookup>) -> Self {
        Self { policy, lookup, running: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }

    pub fn policy(&self) -> &NetworkPolicy {
        &self.policy
    }

    /// The addresses of a host, all of them judged. One refused address among them refuses the host: a name that also
    /// leads inside is not an ordinary site, and which answer is used would be chance.
    pub async fn resolve(&self, target: &HostPort, deadline: Deadline) -> Result<Vec<SocketAddr>, ResolveError> {
        self.policy.check_target(target)?;
        let addresses = match target.fixed_addresses() {
            Some(fixed) => fixed.into_iter().map(|address| SocketAddr::new(address, target.port)).collect(),
            None => self.look_up(target, deadline).await?,
        };
        for address in &addresses {
            self.policy.judge_address(address.ip(), target)?;
        }
        Ok(addresses)
    }

    /// Explains an engine's failed connection, since engines report a blocked address and a dead host alike.
    pub async fn diagnose(&self, url: &Url, deadline: Deadline) -> Diagnosis {
        if let Err(refusal) = self.policy.check_url(url) {
            return Diagnosis::Private(refusal);
        }
        let Some(target) = HostPort::of(url) else { return Diagnosis::Unresolvable };
        match self.resolve(&target, deadline).await {
            Ok(_) => Diagnosis::Reachable,
            Err(ResolveError::Refused(refusal)) => Diagnosis::Private(refusal),
            Err(ResolveError::NotFound(..) | ResolveError::TimedOut(_)) => Diagnosis::Unresolvable,
        }
    }

    async fn look_up(&self, target: &HostPort, deadline: Deadline) -> Result<Vec<SocketAddr>, ResolveError> {
        let host = target.host.to_string();
        let limited = async {
            let _running = self.running.acquire().await.map_err(io::Error::other)?;
            self.lookup.lookup(&host, target.port).await
        };
        let limit = deadline.min_after(LOOKUP_LIMIT).at();
        let not_found = |error| ResolveError::NotFound(target.clone(), error);
        let answers = timeout_at(limit.into(), limited).await.map_err(|_| ResolveError::TimedOut(target.clone()))?;
        match answers.map_err(not_found)? {
            none if none.is_empty() => Err(not_found(io::ErrorKind::NotFound.into())),
            some => Ok(some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hosts file of the test's own; a name that is not in it never answers.
    struct Table(&'static [(&'static str, &'static [&'static str])]);

    #[async_trait]
    impl Lookup for Table {
        async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            match self.0.iter().find(|(name, _)| *name == host) {
                Some((_, addresses)) => {
                    Ok(addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect())
                }
                None => std::future::pending().await,
            }
        }
    }

    fn resolver(policy: NetworkPolicy) -> Resolver {
        let table = Table(&[
            ("public.example", &["93.184.216.34", "2606:4700::1"]),
            ("private.example", &["10.0.0.1"]),
            ("mixed.example", &["93.184.216.34", "10.0.0.1"]),
            ("mapped.example", &["::ffff:127.0.0.1"]),
            ("empty.example", &[]),
        ]);
        Resolver::new(Arc::new(policy), Arc::new(table))
    }

    async fn diagnose(policy: NetworkPolicy, url: &str) -> Diagnosis {
        let deadline = Deadline::after(Duration::from_millis(50));
        resolver(policy).diagnose(&Url::parse(url).unwrap(), deadline).await
    }

    #[tokio::test]
    async fn a_name_is_as_private_as_its_worst_address() {
        assert_eq!(diagnose(NetworkPolicy::default(), "http://public.example/").await, Diagnosis::Reachable);
        for host in ["private.example", "mixed.example", "mapped.example", "10.0.0.1", "localhost", "a.localhost"] {
            let diagnosis = diagnose(NetworkPolicy::default(), &format!("http://{host}/")).await;
            assert!(matches!(diagnosis, Diagnosis::Private(Refusal::Private { .. })), "{host}: {diagnosis:?}");
        }
    }

    #[tokio::test]
    async fn a_name_without_an_answer_is_unresolvable() {
        for host in ["empty.example", "silent.example"] {
            assert_eq!(diagnose(NetworkPolicy::default(), &format!("http://{host}/")).await, Diagnosis::Unresolvable);
        }
    }

    #[tokio::test]
    async fn an_exempt_name_may_lead_inside_on_its_port_only() {
        let policy = NetworkPolicy::new(Vec::new(), vec!["private.example:8080".parse().unwrap()]);
        assert_eq!(diagnose(policy.clone(), "http://private.example:8080/").await, Diagnosis::Reachable);
        assert!(matches!(diagnose(policy, "http://private.example/").await, Diagnosis::Private(_)));
    }

    #[tokio::test]
    async fn our_own_port_is_found_behind_a_name() {
        let policy = NetworkPolicy::new(Vec::new(), vec!["mapped.example:7878".parse().unwrap()]);
        let policy = policy.with_own_ports(["127.0.0.1:7878".parse().unwrap()]);
        let diagnosis = diagnose(policy, "http://mapped.example:7878/").await;
        assert!(matches!(diagnosis, Diagnosis::Private(Refusal::OwnPort { .. })), "{diagnosis:?}");
    }

    #[tokio::test]
    async fn the_system_resolver_answers_from_the_hosts_file() {
        let addresses = SystemLookup.lookup("localhost", 80).await.unwrap();
        assert!(!addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback()));
    }
}
