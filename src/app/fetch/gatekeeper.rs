//! What a fetched page may request, and which responses it gets to see.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::browser::{BodyVerdict, Gatekeeper, HeadVerdict, ResponseHead};
use crate::domain::approval::{self, Cleared};
use crate::domain::network::Refusal;
use crate::egress::outlet::Outlet;
use crate::reader::charset;
use crate::reader::text_types::{self, Kind};

/// Decides for one page load.
pub struct FetchGatekeeper {
    outlet: Arc<Outlet>,
    encoding: Mutex<Option<Encoding>>,
    /// Some document of the page declares a shadow root in its HTML.
    declares_shadow: AtomicBool,
}

/// How HTML declares a shadow root.
const SHADOW_ROOT: &[u8] = b"shadowrootmode";

/// The encoding that a document was read in, and what said so.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Encoding {
    /// Its WHATWG name, such as `windows-1252`.
    pub name: String,
    pub source: charset::Source,
}

impl Encoding {
    pub fn new(name: &str, source: charset::Source) -> Self {
        Self { name: name.to_owned(), source }
    }
}

impl FetchGatekeeper {
    pub fn new(outlet: Arc<Outlet>) -> Self {
        Self { outlet, encoding: Mutex::new(None), declares_shadow: AtomicBool::new(false) }
    }

    /// Whether a document of the page declares a shadow root in its HTML, however it is encoded.
    pub fn declares_shadow(&self) -> bool {
        self.declares_shadow.load(Ordering::Relaxed)
    }

    fn look_for_shadow_roots(&self, html: &[u8]) {
        let starts = memchr::memchr2_iter(b's', b'S', html);
        let mut words = starts.filter_map(|at| html.get(at..at + SHADOW_ROOT.len()));
        if words.any(|word| word.eq_ignore_ascii_case(SHADOW_ROOT)) {
            self.declares_shadow.store(true, Ordering::Relaxed);
        }
    }

    /// The encoding of the last document that the top frame got.
    pub fn encoding(&self) -> Option<Encoding> {
        self.encoding.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Gatekeeper for FetchGatekeeper {
    fn request(&self, url: &str) -> Result<Cleared, Refusal> {
        approval::decide(self.outlet.policy(), url)
    }

    fn head(&self, head: &ResponseHead) -> HeadVerdict {
        let is_refusal = self.outlet.reason_in(&head.url, &head.headers).is_some();
        let is_unsupported = content_kind(head, None) == Some(Kind::Unsupported);
        if is_refusal || has_no_content(head.status) || is_attachment(head) || is_unsupported {
            return HeadVerdict::Refuse;
        }
        HeadVerdict::Read
    }

    fn body(&self, head: &ResponseHead, body: &[u8]) -> BodyVerdict {
        if body.is_empty() || !matches!(content_kind(head, Some(body)), Some(Kind::Html | Kind::Xhtml)) {
            return BodyVerdict::Keep;
        }
        self.look_for_shadow_roots(body);
        let content_type = head.header("content-type");
        let (name, source) = charset::encoding_only(content_type, body);
        if head.is_top {
            *self.encoding.lock().unwrap_or_else(PoisonError::into_inner) = Some(Encoding::new(name, source));
        }
        // Lightpanda misreads some of the others (UTF-16 by its mark, bytes that nothing names), and UTF-8 never.
        if name == "UTF-8" && source != charset::Source::Bom {
            return BodyVerdict::Show;
        }
        let text = charset::decide(content_type, body).text;
        self.look_for_shadow_roots(text.as_bytes());
        BodyVerdict::ShowAs(text)
    }
}

/// What the response holds, by its content type or else by its first bytes; none when neither tells.
pub fn content_kind(head: &ResponseHead, body: Option<&[u8]>) -> Option<Kind> {
    media_type(head, body).map(|media_type| text_types::classify(&media_type))
}

/// The media type that the response names, or that its first bytes are of.
pub fn media_type(head: &ResponseHead, body: Option<&[u8]>) -> Option<String> {
    let named = head.header("content-type").and_then(text_types::essence);
    named.or_else(|| body.map(|body| text_types::sniff(body).to_owned()))
}

/// No content, reset content, not modified: the status says that there is no body.
pub fn has_no_content(status: u16) -> bool {
    matches!(status, 204 | 205 | 304)
}

/// The server wants it saved, not shown.
pub fn is_attachment(head: &ResponseHead) -> bool {
    head.header("content-disposition").is_some_and(|value| {
        let kind = value.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("attachment")
    })
}
