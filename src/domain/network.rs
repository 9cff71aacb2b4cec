//! Which addresses may be reached. The one place that decides it: for URLs, for the proxy and for the engines' own flags.

mod address;
mod host_port;
mod port;
mod refusal;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use url::{Host, Url};

pub use address::special_ranges;
pub use host_port::{HostPort, NotHostPort};
pub use refusal::Refusal;

/// The longest URL that is opened, in bytes: twice the 8,000 that RFC 9110 section 4.1 asks everyone to support, rounded up.
const MAX_URL_BYTES: usize = 16_384;

/// The longest name that DNS can hold, in its text form without the trailing dot (RFC 1035 section 3.1).
const MAX_NAME_BYTES: usize = 253;

/// The longest part of a refused scheme that a message repeats.
const SHOWN_SCHEME_BYTES: usize = 32;

/// What a person allowed beyond the public internet, and the sockets that nobody may reach.
#[derive(Clone, Debug, Default)]
pub struct NetworkPolicy {
    trusted: Vec<IpNet>,
    exempt: Vec<HostPort>,
    own: Vec<SocketAddr>,
}

impl NetworkPolicy {
    /// A policy that judges the `trusted` ranges as public and lets every `exempt` host and port pass.
    ///
    /// An exemption names one host, exactly: `127.0.0.1:80` is not `localhost:80`, and a name is exempt wherever it leads.
    pub fn new(trusted: Vec<IpNet>, exempt: Vec<HostPort>) -> Self {
        Self { trusted, exempt, own: Vec::new() }
    }

    /// Adds sockets on which this service listens. Neither trust nor an exemption opens them.
    pub fn with_own_ports(mut self, sockets: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.own.extend(sockets);
        self
    }

    /// The ranges that are judged as public.
    pub fn trusted(&self) -> &[IpNet] {
        &self.trusted
    }

    /// The hosts and ports that pass wherever they lead.
    pub fn exempt(&self) -> &[HostPort] {
        &self.exempt
    }

    /// Whether workers must go through the proxy: an engine's own filter knows no ports, so it can neither open one port
    /// of an address nor keep ours closed inside a range that is trusted.
    pub fn needs_proxy(&self) -> bool {
        let holds_own = |range: &IpNet| {
            self.own.iter().any(|own| {
                own.ip().is_unspecified() || range.contains(&own.ip()) || own.ip().is_loopback() && is_loopback(range)
            })
        };
        !self.exempt.is_empty() || self.trusted.iter().any(holds_own)
    }

    /// Parses as browsers do (the WHATWG URL standard) and refuses every form that no page should have.
    pub fn parse_url(text: &str) -> Result<Url, Refusal> {
        if text.len() > MAX_URL_BYTES {
            return Err(Refusal::TooLong { length: text.len(), limit: MAX_URL_BYTES });
        }
        let url = Url::parse(text).map_err(Refusal::Invalid)?;
        check_form(&url)?;
        Ok(url)
    }

    /// What can be told without a look-up: the form, the port, a literal address, and the names that mean loopback.
    pub fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        self.check_target(&check_form(url)?)
    }

    /// [`Self::check_url`] for a host and port alone, which is all that a tunnel names.
    pub fn check_target(&self, target: &HostPort) -> Result<(), Refusal> {
        if port::is_bad(target.port) {
            return Err(Refusal::BadPort { port: target.port });
        }
        if matches!(&target.host, Host::Domain(name) if !is_host_name(name)) {
            return Err(Refusal::HostName);
        }
        target.fixed_addresses().into_iter().flatten().try_for_each(|address| self.judge_address(address, target))
    }

    /// Whether a connection to `address` may be made for `target`, the host and port that were asked for.
    pub fn judge_address(&self, address: IpAddr, target: &HostPort) -> Result<(), Refusal> {
        if self.is_own(address, target.port) {
            return Err(Refusal::OwnPort { target: target.clone() });
        }
        if self.is_exempt(target) || self.is_trusted(address) {
            return Ok(());
        }
        match address::special_range(address) {
            Some(range) => Err(Refusal::Private { target: target.clone(), range }),
            None => Ok(()),
        }
    }

    fn is_exempt(&self, target: &HostPort) -> bool {
        self.exempt.iter().any(|exempt| exempt.is_same(target))
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|range| range.contains(&address))
    }

    /// Loopback counts whole: which of its addresses a socket answers on differs between systems. A socket on every
    /// interface answers on addresses that are not known here, so its port is closed wherever the address is not public.
    fn is_own(&self, address: IpAddr, port: u16) -> bool {
        let address = innermost(address);
        let local = address.is_loopback() || address.is_unspecified();
        self.own.iter().filter(|own| own.port() == port).any(|own| {
            local || own.ip() == address || (own.ip().is_unspecified() && address::special_range(address).is_some())
        })
    }
}

/// A range with a loopback address in it.
fn is_loopback(range: &IpNet) -> bool {
    range.network().is_loopback()
        || range.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST))
        || range.contains(&IpAddr::V6(Ipv6Addr::LOCALHOST))
}

/// The address that counts: the IPv4 address inside an IPv6 address, if there is one.
fn innermost(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(outer) if !outer.is_loopback() => address::embedded_ipv4(outer).map_or(address, IpAddr::V4),
        canonical => canonical,
    }
}

/// The scheme, the userinfo and the host's presence; where the URL leads, if they are right.
fn check_form(url: &Url) -> Result<HostPort, Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme().chars().take(SHOWN_SCHEME_BYTES).collect();
        return Err(Refusal::Scheme { scheme });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::Userinfo);
    }
    let target = HostPort::of(url).ok_or(Refusal::Invalid(url::ParseError::EmptyHost))?;
    match &target.host {
        Host::Domain(name) if !is_host_name(name) => Err(Refusal::HostName),
        _ => Ok(target),
    }
}

/// A name that DNS can hold. An empty label, such as a second trailing dot makes, is read differently by different resolvers.
fn is_host_name(name: &str) -> bool {
    let name = host_port::without_dot(name);
    name.len() <= MAX_NAME_BYTES && name.split('.').all(|label| !label.is_empty())
}
