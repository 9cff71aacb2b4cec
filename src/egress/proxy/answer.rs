//! The proxy's own answers, and how they are told apart from a server's.

use std::fmt;
use std::io;
use std::str::FromStr;

use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE};
use hyper::{Response, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::upstream::Streamed;
use crate::domain::network::{HostPort, Refusal};
use crate::egress::resolver::ResolveError;

/// Marks an answer that the proxy made itself: `TOKEN; reason=REASON`. Never let through from a server.
pub const EGRESS_HEADER: &str = "x-pandarium-egress";

/// A server's body, or the proxy's own.
pub(super) type Answer = Response<Either<Streamed, Full<Bytes>>>;

/// Why the proxy did not pass a server's answer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The address is not public.
    Private,
    /// The address is this service's own.
    OwnPort,
    /// The request names nothing that a page may ask for: another scheme, a bad port, userinfo, an impossible name.
    Invalid,
    /// The name has no address.
    Dns,
    /// Nobody listens there, or no route leads there.
    Refused,
    /// The server ended the exchange before a whole answer head, or sent something that is not HTTP.
    Reset,
    /// The look-up or the connection took too long.
    Timeout,
    /// The worker holds as many connections as it may.
    Busy,
}

impl Reason {
    const ALL: [Self; 8] =
        [Self::Private, Self::OwnPort, Self::Invalid, Self::Dns, Self::Refused, Self::Reset, Self::Timeout, Self::Busy];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::OwnPort => "own_port",
            Self::Invalid => "invalid",
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Busy => "busy",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::Private | Self::OwnPort | Self::Invalid => StatusCode::FORBIDDEN,
            Self::Dns | Self::Refused | Self::Reset | Self::Timeout => StatusCode::BAD_GATEWAY,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a reason of the egress proxy")]
pub struct NotAReason;

impl FromStr for Reason {
    type Err = NotAReason;

    fn from_str(text: &str) -> Result<Self, NotAReason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(NotAReason)
    }
}

/// What kept an exchange from happening.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the host leads nowhere")]
    Resolve(#[from] ResolveError),
    #[error("the connection was not made")]
    Connect(#[source] io::Error),
    #[error("the connection was not made in time")]
    ConnectTimeout,
    #[error("the server did not answer")]
    Exchange(#[source] hyper::Error),
    #[error("the server changed the protocol unasked")]
    Switched,
    #[error("the client holds too many connections")]
    Busy,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Resolve(ResolveError::Refused(refusal))
    }
}

impl Fault {
    pub fn reason(&self) -> Reason {
        match self {
            Self::Resolve(ResolveError::Refused(refusal)) => refusal_reason(refusal),
            Self::Resolve(ResolveError::NotFound(..)) => Reason::Dns,
            Self::Resolve(ResolveError::TimedOut(_)) | Self::ConnectTimeout => Reason::Timeout,
            Self::Connect(error) if error.kind() == io::ErrorKind::TimedOut => Reason::Timeout,
            Self::Connect(error) if error.kind() == io::ErrorKind::ConnectionReset => Reason::Reset,
            Self::Connect(_) => Reason::Refused,
            Self::Exchange(_) | Self::Switched => Reason::Reset,
            Self::Busy => Reason::Busy,
        }
    }
}

fn refusal_reason(refusal: &Refusal) -> Reason {
    match refusal {
        Refusal::Private { .. } => Reason::Private,
        Refusal::OwnPort { .. } => Reason::OwnPort,
        Refusal::Invalid(_)
        | Refusal::TooLong { .. }
        | Refusal::Scheme { .. }
        | Refusal::Userinfo
        | Refusal::BadPort { .. }
        | Refusal::HostName => Reason::Invalid,
    }
}

/// The secret behind [`EGRESS_HEADER`].
///
/// A page can read the header when its own host is refused (a name that starts to lead inside). So the token is made
/// from the secret *and* the host and port: it is worth nothing for any other host.
pub(super) struct Mark {
    secret: [u8; 32],
}

impl Mark {
    pub fn random() -> Self {
        Self { secret: rand::random() }
    }

    fn token(&self, target: &HostPort) -> String {
        let digest = Sha256::new().chain_update(self.secret).chain_update(target.to_string()).finalize();
        // Half of the digest: 128 bits are enough, and what is left out keeps the hash from being extended.
        hex::encode(&digest[..16])
    }

    fn write(&self, reason: Reason, target: &HostPort) -> String {
        format!("{}; reason={reason}", self.token(target))
    }

    pub fn read(&self, header: &str, target: &HostPort) -> Option<Reason> {
        let (token, reason) = header.split_once("; reason=")?;
        let ours = bool::from(token.as_bytes().ct_eq(self.token(target).as_bytes()));
        if ours { reason.parse().ok() } else { None }
    }

    /// The answer to a request for `target` that failed.
    pub fn answer(&self, reason: Reason, target: &HostPort) -> Answer {
        let mut answer = plain(reason.status(), "The request did not leave the browser service.\n");
        if let Ok(mark) = HeaderValue::from_str(&self.write(reason, target)) {
            answer.headers_mut().insert(EGRESS_HEADER, mark);
        }
        answer
    }
}

/// The answer to missing or wrong credentials.
pub(super) fn unauthenticated() -> Answer {
    let mut answer = plain(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "The proxy needs the worker's credentials.\n");
    answer.headers_mut().insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"egress\""));
    answer
}

/// The answer to what is not a request to a proxy.
pub(super) fn not_for_a_proxy() -> Answer {
    plain(StatusCode::BAD_REQUEST, "This is a proxy: name an http URL in full, or CONNECT to host:port.\n")
}

/// The answer to `CONNECT`, after which the bytes are the client's own.
pub(super) fn connected() -> Answer {
    Response::new(Either::Right(Full::default()))
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Either::Right(Full::new(Bytes::from_static(text.as_bytes()))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_for_its_own_target_only() {
        let (mark, other) = (Mark::random(), Mark::random());
        let (here, there) = ("a.example:80".parse().unwrap(), "b.example:80".parse().unwrap());
        for reason in Reason::ALL {
            let header = mark.write(reason, &here);
            assert_eq!(mark.read(&header, &here), Some(reason));
            assert_eq!(mark.read(&header, &there), None, "learnt by one host, it is worth nothing for another");
            assert_eq!(other.read(&header, &here), None);
        }
        for forged in ["", "; reason=private", "00; reason=private", "private"] {
            assert_eq!(mark.read(forged, &here), None);
        }
    }
}
