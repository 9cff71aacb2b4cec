//! A host and one of its ports.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use url::{Host, Url};

/// A host and one of its ports, as a person writes an exemption: `127.0.0.1:8080`, `[::1]:80`, `intranet.example:8443`.
///
/// The host is kept in the form that the WHATWG URL parser gives it, so every spelling of an address compares equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    pub host: Host<String>,
    pub port: u16,
}

/// The text is not `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected host:port, such as 127.0.0.1:8080")]
pub struct NotHostPort;

impl HostPort {
    /// Where an http or https URL leads, with the scheme's own port if the URL names none; `None` for a URL without a host.
    pub fn of(url: &Url) -> Option<Self> {
        Some(Self { host: url.host()?.to_owned(), port: url.port_or_known_default()? })
    }

    /// The addresses that need no look-up: a literal one, and loopback for the names that mean it whatever a resolver says
    /// (RFC 6761 section 6.3).
    pub fn fixed_addresses(&self) -> Option<Vec<IpAddr>> {
        match &self.host {
            Host::Ipv4(address) => Some(vec![IpAddr::V4(*address)]),
            Host::Ipv6(address) => Some(vec![IpAddr::V6(*address)]),
            Host::Domain(name) if is_localhost(name) => {
                Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
            }
            Host::Domain(_) => None,
        }
    }

    /// The same server: hosts compare without the one trailing dot that DNS allows.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.port != other.port {
            return false;
        }
        match (&self.host, &other.host) {
            (Host::Domain(ours), Host::Domain(theirs)) => without_dot(ours) == without_dot(theirs),
            (ours, theirs) => ours == theirs,
        }
    }
}

/// A name without its one trailing dot.
pub(super) fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_localhost(name: &str) -> bool {
    let name = without_dot(name);
    name == "localhost" || name.ends_with(".localhost")
}

impl FromStr for HostPort {
    type Err = NotHostPort;

    fn from_str(text: &str) -> Result<Self, NotHostPort> {
        let (host, port) = text.rsplit_once(':').ok_or(NotHostPort)?;
        if !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NotHostPort);
        }
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(NotHostPort)?;
        let host = Host::parse(host).map_err(|_| NotHostPort)?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_host_and_port_compares_equal() {
        let plain: HostPort = "127.0.0.1:8080".parse().unwrap();
        for spelling in ["0x7f.1:8080", "2130706433:8080", "0177.0.0.1:08080", "127.1:8080", "１２７.0.0.1:8080"] {
            assert_eq!(spelling.parse(), Ok(plain.clone()), "{spelling}");
        }
        assert_eq!("EXAMPLE.com:80".parse::<HostPort>().unwrap().to_string(), "example.com:80");
        assert_eq!("[0:0::1]:80".parse::<HostPort>().unwrap().to_string(), "[::1]:80");
    }

    #[test]
    fn what_is_not_host_and_port_is_refused() {
        for bad in
            ["", ":", "host", "host:", ":80", "host:0", "host:65536", "host:+80", "::1", "::1:80", "a b:80", "h:8x"]
        {
            assert_eq!(bad.parse::<HostPort>(), Err(NotHostPort), "{bad}");
        }
    }

    #[test]
    fn a_trailing_dot_names_the_same_server() {
        let plain: HostPort = "intranet.example:80".parse().unwrap();
        assert!(plain.is_same(&"intranet.example.:80".parse().unwrap()));
        assert!(!plain.is_same(&"intranet.example:81".parse().unwrap()));
        assert!(!plain.is_same(&"intranet.example..:80".parse().unwrap()));
    }
}
