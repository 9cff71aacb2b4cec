//! Which addresses may be reached.

use std::fmt;
use std::str::FromStr;

use url::Host;

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

impl FromStr for HostPort {
    type Err = NotHostPort;

    fn from_str(text: &str) -> Result<Self, NotHostPort> {
        let (host, port) = text.rsplit_once(':').ok_or(NotHostPort)?;
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

#[derive(Debug, Clone, thiserror::Error)]
#[error("stub")]
pub struct Refusal;
