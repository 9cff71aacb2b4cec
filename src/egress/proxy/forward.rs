//! A plain HTTP request in absolute form, passed on to its server.

use http_body_util::{Either, Empty};
use hyper::body::{Body as _, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, StatusCode, Uri, Version};
use url::Url;

use super::answer::{Answer, Fault};
use super::connection::Connection;
use super::headers::strip;
use super::upstream::{Outgoing, Sent};
use crate::domain::network::{HostPort, Refusal};

/// Where a request in absolute form leads; `None` for any other form.
pub(super) fn target(request: &Request<Incoming>) -> Option<HostPort> {
    request.uri().authority()?;
    HostPort::of(&Url::parse(&request.uri().to_string()).ok()?)
}

/// Sends the request to its server and hands the answer back, body and all, as it comes.
pub(super) async fn exchange(
    connection: &Connection,
    target: &HostPort,
    request: Request<Incoming>,
) -> Result<Answer, Fault> {
    let url = Url::parse(&request.uri().to_string()).map_err(Refusal::Invalid)?;
    connection.shared.resolver.policy().check_url(&url)?;
    if url.scheme() != "http" {
        // TLS is the client's: it asks for a tunnel.
        return Err(Refusal::Scheme { scheme: url.scheme().to_owned() }.into());
    }
    let Sent { response, server } = connection.upstreams.send(connection, target, outgoing(request, target)).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Fault::Switched);
    }
    let (mut head, body) = response.into_parts();
    strip(&mut head.headers);
    // What the server speaks is between it and us.
    head.version = Version::HTTP_11;
    Ok(Answer::from_parts(head, Either::Left(connection.upstreams.stream(body, target, server))))
}

/// The request as its server gets it: origin form, one `Host` made from the target that was judged (RFC 9112 section
/// 3.2.2), nothing that ends at this proxy. No `Via`: to the server this is the engine's own connection.
fn outgoing(request: Request<Incoming>, target: &HostPort) -> Request<Outgoing> {
    let (mut head, body) = request.into_parts();
    head.uri = origin_form(&head.uri);
    head.version = Version::HTTP_11;
    head.headers = outgoing_headers(head.headers, target);
    let body = if body.is_end_stream() { Either::Right(Empty::new()) } else { Either::Left(body) };
    Request::from_parts(head, body)
}

/// `Host` comes first, as every browser sends it.
fn outgoing_headers(mut from_client: HeaderMap, target: &HostPort) -> HeaderMap {
    strip(&mut from_client);
    from_client.remove(HOST);
    let mut headers = HeaderMap::with_capacity(from_client.len() + 1);
    if let Ok(host) = HeaderValue::from_str(&host_header(target)) {
        headers.insert(HOST, host);
    }
    headers.extend(from_client);
    headers
}

fn host_header(target: &HostPort) -> String {
    match target.port {
        80 => target.host.to_string(),
        _ => target.to_string(),
    }
}

fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::from(path)
}
