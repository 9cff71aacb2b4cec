//! Headers that belong to one connection and are never passed on.

use hyper::header::{self, HeaderMap, HeaderName};

use super::answer::EGRESS_HEADER;

/// RFC 9110 section 7.6.1, and the proxy headers of section 11.7. `Expect` is met by the proxy itself.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// Takes out what ends at this connection: the list above, what `Connection` names, and a mark that is not ours.
///
/// A length beside a transfer coding goes too: the coding rules, and who believes the length reads another message
/// (RFC 9112 section 6.3).
pub(super) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in named_by_connection(headers) {
        headers.remove(name);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove(EGRESS_HEADER);
}

/// `Host` and `Content-Length` describe the message itself: a sender cannot make them disappear on the way.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok());
    names.filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_at_this_connection_is_taken_out_and_nothing_else() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-hop, content-length"),
            ("connection", "X-Second"),
            ("x-hop", "1"),
            ("x-second", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("x-pandarium-egress", "forged"),
            ("content-length", "5"),
            ("authorization", "Bearer page"),
            ("cookie", "a=b"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "content-length", "cookie"]);
    }
}
