//! Which encoding a body is in, decided as browsers do.
//!
//! The order is that of the encoding sniffing algorithm,
//! <https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding>: byte order mark, header,
//! the document's own declaration, valid UTF-8, windows-1252. Names are those of the WHATWG Encoding Standard, so
//! `latin1` means windows-1252.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

use super::text_types::{self, Kind};

/// How far into a document its declaration is looked for, as the standard says.
const DECLARED_WITHIN: usize = 1024;

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The `charset` of the `Content-Type`.
    Header,
    /// A byte order mark.
    Bom,
    /// The document's own `meta` element or XML declaration.
    Meta,
    /// Nothing says otherwise, and the bytes are valid UTF-8.
    Utf8,
    /// Nothing says anything: the web's default.
    Default,
}

/// A body as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Without its byte order mark.
    pub text: String,
    /// The WHATWG name, such as `windows-1252`.
    pub encoding: &'static str,
    pub source: Source,
    /// Some bytes were not valid in that encoding, and are U+FFFD in the text.
    pub had_errors: bool,
}

/// Decodes a whole body. `content_type` is the header's value.
pub fn decide(content_type: Option<&str>, bytes: &[u8]) -> Decoded {
    let (encoding, source) = choose(content_type, bytes);
    let (text, had_errors) = encoding.decode_with_bom_removal(bytes);
    Decoded { text: text.into_owned(), encoding: encoding.name(), source, had_errors }
}

/// What [`decide`] would say, without decoding. Wants the whole body too: valid UTF-8 is valid to the end.
pub fn encoding_only(content_type: Option<&str>, bytes: &[u8]) -> (&'static str, Source) {
    let (encoding, source) = choose(content_type, bytes);
    (encoding.name(), source)
}

fn choose(content_type: Option<&str>, bytes: &[u8]) -> (&'static Encoding, Source) {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return (encoding, Source::Bom);
    }
    let header = content_type.and_then(|value| text_types::parameter(value, "charset"));
    // An unknown label is no label.
    if let Some(encoding) = header.and_then(|label| Encoding::for_label(label.as_bytes())) {
        return (encoding, Source::Header);
    }
    let start = &bytes[..bytes.len().min(DECLARED_WITHIN)];
    if let Some(encoding) = declared(content_type, start) {
        return (encoding, Source::Meta);
    }
    if str::from_utf8(bytes).is_ok() { (UTF_8, Source::Utf8) } else { (WINDOWS_1252, Source::Default) }
}

/// Only markup can declare its encoding: `<meta charset>` in a plain text is just text.
fn declared(content_type: Option<&str>, start: &[u8]) -> Option<&'static Encoding> {
    let kind = match content_type.and_then(text_types::essence) {
        Some(essence) => text_types::classify(&essence),
        None => Kind::Html,
    };
    match kind {
        Kind::Html => utf16_declaration(start).or_else(|| Prescan::new(start).run()).or_else(|| xml_encoding(start)),
        Kind::Xhtml | Kind::Xml => utf16_declaration(start).or_else(|| xml_encoding(start)),
        _ => None,
    }
}

/// An XML declaration that is itself in UTF-16.
fn utf16_declaration(start: &[u8]) -> Option<&'static Encoding> {
    match start {
        [b'<', 0, b'?', 0, b'x', 0, ..] => Some(UTF_16LE),
        [0, b'<', 0, b'?', 0, b'x', ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// What a declaration inside the document means. It was read as ASCII, so it cannot be in UTF-16.
fn declarable(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16BE || encoding == UTF_16LE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

/// <https://html.spec.whatwg.org/multipage/parsing.html#concept-get-xml-encoding-when-sniffing>
fn xml_encoding(start: &[u8]) -> Option<&'static Encoding> {
    let declaration = start.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..position(declaration, b">")?];
    let value = &declaration[position(declaration, b"encoding")? + b"encoding".len()..];
    let is_blank = |byte: &u8| *byte <= b' ';
    let value = trim_start(value, is_blank).strip_prefix(b"=")?;
    let (quote, value) = trim_start(value, is_blank).split_first()?;
    let end = value.iter().position(|byte| byte == quote).filter(|_| matches!(quote, b'"' | b'\''))?;
    let label = &value[..end];
    if label.iter().any(is_blank) { None } else { Encoding::for_label(label).map(declarable) }
}

/// The encoding that a `content` such as `text/html; charset=euc-kr` names,
/// <https://html.spec.whatwg.org/multipage/urls-and-fetching.html#extracting-character-encodings-from-meta-elements>.
fn from_meta_content(content: &[u8]) -> Option<&'static Encoding> {
    let mut rest = content;
    loop {
        rest = &rest[position(rest, b"charset")? + b"charset".len()..];
        if let Some(value) = trim_start(rest, u8::is_ascii_whitespace).strip_prefix(b"=") {
            rest = trim_start(value, u8::is_ascii_whitespace);
            break;
        }
    }
    let label = match rest.split_first()? {
        (quote @ (b'"' | b'\''), value) => &value[..value.iter().position(|byte| byte == quote)?],
        _ => rest.split(|byte| byte.is_ascii_whitespace() || *byte == b';').next()?,
    };
    Encoding::for_label(label)
}

/// <https://html.spec.whatwg.org/multipage/parsing.html#prescan-a-byte-stream-to-determine-its-encoding>.
/// `None` from a step means that the bytes are at their end.
struct Prescan<'a> {
    rest: &'a [u8],
}

/// Name and value.
type Attribute = (Vec<u8>, Vec<u8>);

#[derive(Default)]
struct Meta {
    seen: Vec<Vec<u8>>,
    got_pragma: bool,
    /// Whether the encoding counts only together with `http-equiv`.
    need_pragma: Option<bool>,
    encoding: Option<&'static Encoding>,
}

impl<'a> Prescan<'a> {
    fn new(start: &'a [u8]) -> Self {
        Self { rest: start }
    }

    fn run(mut self) -> Option<&'static Encoding> {
        loop {
            self.rest = &self.rest[position(self.rest, b"<")?..];
            let is_meta = |name: &[u8]| name.eq_ignore_ascii_case(b"meta");
            match self.rest {
                [b'<', b'!', b'-', b'-', ..] => {
                    // `<!-->` is a comment: the dashes that open it may also close it.
                    self.skip(2 + position(&self.rest[2..], b"-->")? + 3)?;
                }
                [b'<', name @ ..] if name.len() > 4 && is_meta(&name[..4]) && ends_name(name[4]) => {
                    self.skip(5)?;
                    if let Some(encoding) = self.meta()?.encoding() {
                        return Some(encoding);
                    }
                }
                [b'<', b'/', letter, ..] | [b'<', letter, ..] if letter.is_ascii_alphabetic() => {
                    self.skip(self.rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'>')?)?;
                    while self.attribute()?.is_some() {}
                }
                [b'<', b'!' | b'/' | b'?', ..] => self.skip(position(self.rest, b">")?)?,
                _ => self.skip(1)?,
            }
        }
    }

    fn meta(&mut self) -> Option<Meta> {
        let mut meta = Meta::default();
        while let Some((name, value)) = self.attribute()? {
            meta.take(name, &value);
        }
        Some(meta)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.rest = self.rest.get(count..)?;
        Some(())
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.skip(1)?;
        Some(byte)
    }

    fn skip_blanks(&mut self) {
        self.rest = trim_start(self.rest, u8::is_ascii_whitespace);
    }

    /// "Get an attribute": name and value in lower case; `Some(None)` at the end of the tag.
    fn attribute(&mut self) -> Option<Option<Attribute>> {
        self.rest = trim_start(self.rest, |byte| byte.is_ascii_whitespace() || *byte == b'/');
        if self.peek()? == b'>' {
            return Some(None);
        }
        let mut name = vec![self.next()?.to_ascii_lowercase()];
        while !matches!(self.peek()?, b'=' | b'/' | b'>') && !self.peek()?.is_ascii_whitespace() {
            name.push(self.next()?.to_ascii_lowercase());
        }
        self.skip_blanks();
        if self.peek()? != b'=' {
            return Some(Some((name, Vec::new())));
        }
        self.skip(1)?;
        self.skip_blanks();
        let value = match self.peek()? {
            quote @ (b'"' | b'\'') => {
                self.skip(1)?;
                let value = self.value(|byte| byte == quote)?;
                self.skip(1)?;
                value
            }
            _ => self.value(|byte| byte == b'>' || byte.is_ascii_whitespace())?,
        };
        Some(Some((name, value)))
    }

    fn value(&mut self, ends: impl Fn(u8) -> bool) -> Option<Vec<u8>> {
        let end = self.rest.iter().position(|byte| ends(*byte))?;
        let value = self.rest[..end].to_ascii_lowercase();
        self.skip(end)?;
        Some(value)
    }
}

impl Meta {
    fn take(&mut self, name: Vec<u8>, value: &[u8]) {
        if self.seen.contains(&name) {
            return;
        }
        match name.as_slice() {
            b"http-equiv" => self.got_pragma = value == b"content-type",
            b"content" if self.encoding.is_none() => {
                self.encoding = from_meta_content(value);
                self.need_pragma = self.encoding.map(|_| true).or(self.need_pragma);
            }
            b"charset" => {
                self.encoding = Encoding::for_label(value);
                self.need_pragma = Some(false);
            }
            _ => {}
        }
        self.seen.push(name);
    }

    fn encoding(self) -> Option<&'static Encoding> {
        if self.need_pragma? && !self.got_pragma {
            return None;
        }
        self.encoding.map(declarable)
    }
}

fn ends_name(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'/'
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn trim_start(mut bytes: &[u8], is_blank: impl Fn(&u8) -> bool) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(first)
    {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests;
