//! The one way out, as the rest of the service sees it: a policy, the workers' flags, and why a connection failed.

use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::flags;
use super::proxy::{EGRESS_HEADER, EgressProxy, ProxyClient, Reason};
use super::resolver::{Diagnosis, Resolver, SystemLookup};
use crate::domain::deadline::Deadline;
use crate::domain::network::{HostPort, NetworkPolicy};

/// What may leave, and through what.
pub struct Outlet {
    policy: Arc<NetworkPolicy>,
    resolver: Resolver,
    /// There only where an engine's own filter is not fine enough. The client's credentials end with it.
    proxy: Option<(EgressProxy, ProxyClient)>,
}

impl Outlet {
    /// Starts the proxy if the policy needs it.
    pub async fn open(policy: NetworkPolicy, tasks: TaskTracker, stop: CancellationToken) -> io::Result<Self> {
        let mut proxy = None;
        let mut policy = policy;
        if policy.needs_proxy() {
            let started = EgressProxy::start(policy, tasks, stop).await?;
            // It knows the proxy's own port, too.
            policy = started.policy().clone();
            let client = started.add_client();
            proxy = Some((started, client));
        }
        let policy = Arc::new(policy);
        let resolver = Resolver::new(Arc::clone(&policy), Arc::new(SystemLookup));
        Ok(Self { policy, resolver, proxy })
    }

    pub fn policy(&self) -> &NetworkPolicy {
        &self.policy
    }

    /// Whether workers go through the proxy.
    pub fn is_proxied(&self) -> bool {
        self.proxy.is_some()
    }

    /// The network flags of a Lightpanda worker.
    pub fn lightpanda_flags(&self) -> Vec<String> {
        match &self.proxy {
            Some((_, client)) => flags::proxied(client),
            None => flags::direct(&self.policy),
        }
    }

    /// Why the proxy answered in place of the server; none for the server's own answer.
    pub fn reason_in(&self, url: &Url, headers: &[(String, String)]) -> Option<Reason> {
        let (proxy, _) = self.proxy.as_ref()?;
        let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(EGRESS_HEADER))?;
        proxy.reason_in(value, &HostPort::of(url)?)
    }

    /// What an engine's bare "could not connect" meant.
    pub async fn diagnose(&self, url: &Url, deadline: Deadline) -> Diagnosis {
        self.resolver.diagnose(url, deadline).await
    }
}
