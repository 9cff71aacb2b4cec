//! Why a URL or an address is refused.

use super::HostPort;

/// A URL or an address that may not be opened. Each message says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this is not a URL; write it in full, such as https://example.com/")]
    Invalid(#[source] url::ParseError),

    #[error("the URL is {length} bytes long; shorten it to at most {limit}")]
    TooLong { length: usize, limit: usize },

    #[error("a {scheme}: URL is never opened; give the page's http or https address")]
    Scheme { scheme: String },

    #[error("the URL carries a user name or a password; take them out and send a header or a cookie instead")]
    Userinfo,

    #[error("port {port} is kept from web pages because another protocol lives there; use the port of the web server")]
    BadPort { port: u16 },

    #[error("the host name cannot be looked up; write it without empty labels and in at most 253 characters")]
    HostName,

    #[error(
        "{target} is not on the public internet ({range}); \
         a person can exempt it with PANDARIUM_ALLOW_PRIVATE={target}"
    )]
    Private { target: HostPort, range: &'static str },

    #[error("{target} is a port of this service, which no page may reach; name another server")]
    OwnPort { target: HostPort },
}
