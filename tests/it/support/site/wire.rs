//! HTTP/1.1 on a blocking socket, as far as a fixture needs it.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;

use super::{Body, Reply, Seen};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub query: HashMap<String, String>,
    headers: Vec<(String, String)>,
}

impl Request {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// A number in the query.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }
}

/// Answers the requests of one connection, in order.
pub fn converse(stream: TcpStream, seen: &Seen, reply: impl Fn(&Request) -> Reply) {
    let _ = stream.set_nodelay(true);
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Ok(Some(request)) = read_request(&mut reader) {
        seen.requests().push(request.clone());
        let reply = reply(&request);
        if let Some(gate) = &reply.gate {
            gate.wait();
        }
        match send(reply, &mut writer, &mut reader) {
            Ok(Sent::Whole) => {}
            Ok(Sent::BrokenOff) => return,
            Err(_) => return seen.hung_up().push(request.path),
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let target = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect();
    let request = Request { path: path.to_owned(), query, headers };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    io::copy(&mut reader.take(length), &mut io::sink())?;
    Ok(Some(request))
}

enum Sent {
    Whole,
    BrokenOff,
}

/// An error means that the other side hung up.
fn send(reply: Reply, writer: &mut TcpStream, reader: &mut impl Read) -> io::Result<Sent> {
    let head = |more: &str| head(&reply, more);
    match &reply.body {
        Body::Whole(body) => {
            writer.write_all(&[head(&format!("content-length: {}\r\n", body.len())), body.clone()].concat())?;
            Ok(Sent::Whole)
        }
        Body::Chunked(body, bytes) => {
            writer.write_all(&head("transfer-encoding: chunked\r\n"))?;
            body.chunks(*bytes).try_for_each(|chunk| write_chunk(writer, chunk))?;
            write_chunk(writer, b"")?;
            Ok(Sent::Whole)
        }
        Body::Endless { piece, pause } => {
            writer.write_all(&head("transfer-encoding: chunked\r\n"))?;
            loop {
                write_chunk(writer, piece)?;
                thread::sleep(*pause);
            }
        }
        Body::Stalled(begin) => {
            writer.write_all(&[head("content-length: 1000000\r\n"), begin.clone()].concat())?;
            Err(until_closed(reader))
        }
        Body::Short(begin) => {
            writer.write_all(&[head("content-length: 1000000\r\n"), begin.clone()].concat())?;
            Ok(Sent::BrokenOff)
        }
        Body::Silent => Err(until_closed(reader)),
        Body::Closed => Ok(Sent::BrokenOff),
    }
}

fn head(reply: &Reply, more: &str) -> Vec<u8> {
    let headers: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {} x\r\n{headers}{more}\r\n", reply.status).into_bytes()
}

fn write_chunk(writer: &mut impl Write, chunk: &[u8]) -> io::Result<()> {
    writer.write_all(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
}

/// Returns once the other side has closed the connection.
fn until_closed(reader: &mut impl Read) -> io::Error {
    let mut byte = [0];
    while matches!(reader.read(&mut byte), Ok(read) if read > 0) {}
    io::ErrorKind::ConnectionAborted.into()
}
