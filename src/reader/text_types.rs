//! Media types: which bodies are read, and how those that are no markup are shown.

use serde::de::IgnoredAny;

/// How a body is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Html,
    Xhtml,
    Text,
    Markdown,
    Json,
    /// Includes SVG: its source is text, and no engine here draws it for a reader.
    Xml,
    Csv,
    /// Not text; a caller names the type in its error.
    Unsupported,
}

/// What the answer is to be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, XML and CSV are fenced.
    Markdown,
    Plain,
}

/// A body as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// Why JSON came as it is.
    pub as_is: Option<AsIs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsIs {
    InvalidJson,
    /// Indented, it would be more than [`MAX_GROWTH`] times as long.
    NestedTooDeeply,
}

/// Documents of the real world grow two- to threefold; a chain of brackets would grow with the square of its length.
pub const MAX_GROWTH: usize = 8;

/// `type/subtype` in lower case. `None` if the value is malformed, or says nothing: the types that
/// <https://mimesniff.spec.whatwg.org/#mime-type-sniffing-algorithm> calls unknown. Then see [`sniff`].
pub fn essence(content_type: &str) -> Option<String> {
    let essence = content_type.split(';').next()?.trim().to_ascii_lowercase();
    let (kind, subtype) = essence.split_once('/')?;
    let says_nothing = matches!(essence.as_str(), "unknown/unknown" | "application/unknown" | "*/*");
    (is_token(kind) && is_token(subtype) && !says_nothing).then_some(essence)
}

/// A parameter of a `Content-Type`, without its quotes; the first one wins.
pub fn parameter(content_type: &str, name: &str) -> Option<String> {
    let mut rest = content_type.split_once(';')?.1;
    loop {
        let (parameter, after) = split_parameter(rest);
        if let Some((found, value)) = parameter.split_once('=')
            && found.trim().eq_ignore_ascii_case(name)
        {
            return Some(unquoted(value.trim()));
        }
        rest = after?;
    }
}

/// Up to the next semicolon that is not inside quotes.
fn split_parameter(text: &str) -> (&str, Option<&str>) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => return (&text[..at], Some(&text[at + 1..])),
            _ => {}
        }
    }
    (text, None)
}

fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else { return value.to_owned() };
    let (mut text, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => text.extend(chars.next()),
            _ => text.push(c),
        }
    }
    text
}

fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// What a `Content-Type` says of its body. Parameters and case do not matter; one that says nothing is
/// [`Kind::Unsupported`], so sniff first.
pub fn classify(content_type: &str) -> Kind {
    let Some(essence) = essence(content_type) else { return Kind::Unsupported };
    match essence.as_str() {
        "text/html" => Kind::Html,
        "application/xhtml+xml" => Kind::Xhtml,
        "text/markdown" | "text/x-markdown" => Kind::Markdown,
        "text/csv" | "application/csv" => Kind::Csv,
        "text/json" | "application/json" => Kind::Json,
        "text/xml" | "application/xml" => Kind::Xml,
        // Text by tradition only: their source is of no use to a reader.
        "text/rtf" | "text/richtext" => Kind::Unsupported,
        // Text under another tree, for historical reasons. A series of JSON documents is not one document.
        "application/javascript"
        | "application/x-javascript"
        | "application/ecmascript"
        | "application/yaml"
        | "application/x-yaml"
        | "application/toml"
        | "application/x-ndjson"
        | "application/jsonl" => Kind::Text,
        other if other.ends_with("+json") => Kind::Json,
        other if other.ends_with("+xml") => Kind::Xml,
        other if other.starts_with("text/") => Kind::Text,
        _ => Kind::Unsupported,
    }
}

/// The media type of a body whose header says nothing, by <https://mimesniff.spec.whatwg.org/#identifying-a-resource-with-an-unknown-mime-type>
/// as far as a reader of text needs it.
pub fn sniff(bytes: &[u8]) -> &'static str {
    /// The length of a resource header, as the standard says.
    const HEADER_BYTES: usize = 1445;
    let header = &bytes[..bytes.len().min(HEADER_BYTES)];
    if let Some((_, name)) = SIGNATURES.iter().find(|(signature, _)| header.starts_with(signature)) {
        return name;
    }
    match header {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return "image/webp",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => return "video/mp4",
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0xef, 0xbb, 0xbf, ..] => return sniffed_text(header),
        _ => {}
    }
    if header.iter().any(|byte| is_binary(*byte)) {
        return "application/octet-stream";
    }
    sniffed_text(header)
}

/// Without those of two or three letters that a text may well begin with, such as `BM`; the bytes after them tell.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\0\0\x01\0", "image/x-icon"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"\0asm", "application/wasm"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"OggS\0", "application/ogg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
];

/// A binary data byte, <https://mimesniff.spec.whatwg.org/#binary-data-byte>.
fn is_binary(byte: u8) -> bool {
    matches!(byte, 0x00..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f)
}

/// Markup begins with one of these tags, and a blank or `>` after it.
const HTML_STARTS: &[&[u8]] = &[
    b"<!DOCTYPE HTML",
    b"<HTML",
    b"<HEAD",
    b"<SCRIPT",
    b"<IFRAME",
    b"<H1",
    b"<DIV",
    b"<FONT",
    b"<TABLE",
    b"<A",
    b"<STYLE",
    b"<TITLE",
    b"<B",
    b"<BODY",
    b"<BR",
    b"<P",
];

fn sniffed_text(header: &[u8]) -> &'static str {
    let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header).trim_ascii_start();
    let begins = |start: &&[u8]| {
        let tag_ends = matches!(header.get(start.len()), Some(b' ' | b'>' | b'\n' | b'\r' | b'\t' | b'\x0c'));
        header.len() > start.len() && header[..start.len()].eq_ignore_ascii_case(start) && tag_ends
    };
    if header.starts_with(b"<!--") || HTML_STARTS.iter().any(begins) {
        "text/html"
    } else if header.starts_with(b"<?xml") {
        "text/xml"
    } else {
        "text/plain"
    }
}

/// A body that is no markup, ready to be read. Text and Markdown come as they are; so does JSON that is not valid.
pub fn render(kind: Kind, text: &str, format: Format) -> Rendered {
    let (text, as_is) = match kind {
        Kind::Json => match indent_json(text) {
            Ok(indented) => (indented, None),
            Err(reason) => (text.to_owned(), Some(reason)),
        },
        _ => (text.to_owned(), None),
    };
    let text = match (format, kind) {
        (Format::Markdown, Kind::Json) => fenced(&text, "json"),
        (Format::Markdown, Kind::Xml) => fenced(&text, "xml"),
        (Format::Markdown, Kind::Csv) => fenced(&text, "csv"),
        _ => text,
    };
    Rendered { text, as_is }
}

/// In a fence longer than any run of backticks inside.
pub fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

/// Indents by two blanks. Only blanks change: numbers, keys, their order and their doubles stay as written.
fn indent_json(text: &str) -> Result<String, AsIs> {
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| AsIs::InvalidJson)?;
    let limit = text.len().saturating_mul(MAX_GROWTH).max(1024);
    let mut printer = Printer { out: String::with_capacity(text.len() * 2), depth: 0 };
    let mut rest = text.trim_ascii_start();
    while let Some(first) = rest.chars().next() {
        let token = &rest[..token_length(rest, first)];
        rest = rest[token.len()..].trim_ascii_start();
        let closes_at_once = rest.starts_with(['}', ']']);
        printer.print(token, closes_at_once);
        if printer.out.len() > limit {
            return Err(AsIs::NestedTooDeeply);
        }
    }
    Ok(printer.out)
}

struct Printer {
    out: String,
    depth: usize,
}

impl Printer {
    fn print(&mut self, token: &str, closes_at_once: bool) {
        match token {
            "{" | "[" => {
                self.out.push_str(token);
                self.depth += 1;
                if !closes_at_once {
                    self.new_line();
                }
            }
            "}" | "]" => {
                self.depth = self.depth.saturating_sub(1);
                if !self.out.ends_with(['{', '[']) {
                    self.new_line();
                }
                self.out.push_str(token);
            }
            "," => {
                self.out.push(',');
                self.new_line();
            }
            ":" => self.out.push_str(": "),
            _ => self.out.push_str(token),
        }
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth));
    }
}

/// Of the first token of valid JSON.
fn token_length(text: &str, first: char) -> usize {
    match first {
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        '"' => string_length(text),
        _ => text.find(|c: char| ",:]}".contains(c) || c.is_ascii_whitespace()).unwrap_or(text.len()),
    }
}

fn string_length(text: &str) -> usize {
    let mut escaped = true; // The opening quote does not end the string.
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests;
