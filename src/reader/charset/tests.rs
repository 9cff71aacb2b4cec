use encoding_rs::{EUC_KR, SHIFT_JIS, WINDOWS_1251};

use super::*;

const JA: &str = "価格の比較表";
const RU: &str = "Привет мир";
const KO: &str = "한국어 문서";
const FR: &str = "café déjà vu";

fn page(text: &str, head: &str) -> String {
    format!("<!doctype html><html><head>{head}<title>{text}</title></head><body><h1>{text}</h1></body></html>")
}

fn encoded(encoding: &'static Encoding, text: &str) -> Vec<u8> {
    let (bytes, _, lossy) = encoding.encode(text);
    assert!(!lossy);
    bytes.into_owned()
}

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

#[test]
fn a_page_is_read_by_the_strongest_signal() {
    let sjis_meta = page(JA, r#"<meta charset="shift_jis">"#);
    let euckr_meta = page(KO, r#"<meta http-equiv="Content-Type" content="text/html; charset=euc-kr">"#);
    let bom_utf16 = [b"\xff\xfe".to_vec(), utf16(&page(JA, ""), u16::to_le_bytes)].concat();
    let bom_utf16be = [b"\xfe\xff".to_vec(), utf16(&page(JA, ""), u16::to_be_bytes)].concat();
    let bom_utf8 = [b"\xef\xbb\xbf".to_vec(), page(JA, "").into_bytes()].concat();
    let html = "text/html";
    let rows = [
        ("meta-sjis", html, encoded(SHIFT_JIS, &sjis_meta), JA, "Shift_JIS", Source::Meta),
        (
            "header-1251",
            "text/html; charset=windows-1251",
            encoded(WINDOWS_1251, &page(RU, "")),
            RU,
            "windows-1251",
            Source::Header,
        ),
        ("bom-utf16", html, bom_utf16.clone(), JA, "UTF-16LE", Source::Bom),
        ("bom-utf16be", html, bom_utf16be, JA, "UTF-16BE", Source::Bom),
        ("header-beats-meta", "text/html; charset=utf-8", sjis_meta.into_bytes(), JA, "UTF-8", Source::Header),
        ("http-equiv-euckr", html, encoded(EUC_KR, &euckr_meta), KO, "EUC-KR", Source::Meta),
        ("none-1252", html, encoded(WINDOWS_1252, &page(FR, "")), FR, "windows-1252", Source::Default),
        (
            "label-alias",
            "text/html; charset=latin1",
            encoded(WINDOWS_1252, &page("price 5€", "")),
            "price 5€",
            "windows-1252",
            Source::Header,
        ),
        ("unknown-label", "text/html; charset=iso-88509-1", page(RU, "").into_bytes(), RU, "UTF-8", Source::Utf8),
        ("bom-beats-header", "text/html; charset=windows-1251", bom_utf8, JA, "UTF-8", Source::Bom),
        ("bom-beats-header-16", "text/html; charset=utf-8", bom_utf16, JA, "UTF-16LE", Source::Bom),
        ("none-utf8", html, page(JA, "").into_bytes(), JA, "UTF-8", Source::Utf8),
        (
            "quoted-label",
            "text/html; charset=\"Windows-1251\"",
            encoded(WINDOWS_1251, &page(RU, "")),
            RU,
            "windows-1251",
            Source::Header,
        ),
    ];
    for (name, content_type, bytes, heading, encoding, source) in rows {
        let decoded = decide(Some(content_type), &bytes);
        assert_eq!((decoded.encoding, decoded.source), (encoding, source), "{name}");
        assert!(decoded.text.contains(&format!("<h1>{heading}</h1>")), "{name}");
        assert!(decoded.text.starts_with("<!doctype"), "{name}: no byte order mark is left");
        assert!(!decoded.had_errors && !decoded.text.contains('\u{fffd}'), "{name}");
        assert_eq!(encoding_only(Some(content_type), &bytes), (encoding, source), "{name}");
    }
}

#[test]
fn what_does_not_fit_its_encoding_is_counted_as_an_error() {
    let decoded = decide(Some("text/html; charset=utf-8"), b"caf\xe9");
    assert_eq!((decoded.text.as_str(), decoded.had_errors), ("caf\u{fffd}", true));
    assert_eq!(decide(Some("text/html"), b"").text, "");
}

/// What the document itself declares, `None` if nothing.
fn declaration(start: &str) -> Option<&'static str> {
    // A byte that is not UTF-8 keeps the answer from being UTF-8 by chance.
    let bytes = [start.as_bytes(), b"\xe9"].concat();
    let (encoding, source) = encoding_only(Some("text/html"), &bytes);
    (source == Source::Meta).then_some(encoding)
}

#[test]
fn a_declaration_is_found_as_browsers_find_it() {
    let rows = [
        ("<META CharSet=KOI8-R>", Some("KOI8-R")),
        ("<meta charset=koi8-r/>", None),
        ("<meta/charset='koi8-r'>", Some("KOI8-R")),
        ("<meta name=a charset = \" koi8-r \" >", Some("KOI8-R")),
        ("<meta charset=utf-16le>", Some("UTF-8")),
        ("<meta charset=x-user-defined>", Some("windows-1252")),
        ("<meta charset=no-such>", None),
        ("<meta charset=no-such><meta charset=koi8-r>", Some("KOI8-R")),
        ("<meta charset=koi8-r charset=big5>", Some("KOI8-R")),
        ("<!-- <meta charset=big5> --><meta charset=koi8-r>", Some("KOI8-R")),
        ("<!--><meta charset=koi8-r>", Some("KOI8-R")),
        ("<a title='<meta charset=big5>'><meta charset=koi8-r>", Some("KOI8-R")),
        ("</a title='<meta charset=big5>'><meta charset=koi8-r>", Some("KOI8-R")),
        ("<!doctype html><?php x ?><meta charset=koi8-r>", Some("KOI8-R")),
        ("<metadata charset=big5><meta charset=koi8-r>", Some("KOI8-R")),
        ("a < b <meta charset=koi8-r>", Some("KOI8-R")),
        ("<meta http-equiv=content-type content='text/html;charset=\"koi8-r\"'>", Some("KOI8-R")),
        ("<meta content='charset charset = koi8-r; x' http-equiv=Content-Type>", Some("KOI8-R")),
        ("<meta content='text/html; charset=koi8-r'>", None),
        ("<meta http-equiv=refresh content='0; charset=koi8-r'>", None),
        ("<meta http-equiv=content-type content='charset=\"koi8-r'>", None),
        ("<meta charset=koi8-r", None),
        ("<?xml version='1.0' encoding=\"koi8-r\"?><html>", Some("KOI8-R")),
        ("<?xml encoding='utf-16'?>", Some("UTF-8")),
        ("<?xml encoding=\"koi 8\"?>", None),
        (" <?xml encoding='koi8-r'?>", None),
        ("<?xml encoding='koi8-r'?><meta charset=big5>", Some("Big5")),
    ];
    for (start, expected) in rows {
        assert_eq!(declaration(start), expected, "{start}");
    }
}

#[test]
fn only_the_first_1024_bytes_are_searched() {
    let meta = "<meta charset=koi8-r>";
    let padded = |blanks| format!("{}{meta}", " ".repeat(blanks));
    assert_eq!(declaration(&padded(1024 - meta.len())), Some("KOI8-R"));
    assert_eq!(declaration(&padded(1025 - meta.len())), None);
}

#[test]
fn only_markup_declares_its_encoding() {
    let meta = "<meta charset=koi8-r>é".as_bytes();
    for content_type in ["text/plain", "application/json", "text/csv", "text/markdown"] {
        assert_eq!(encoding_only(Some(content_type), meta), ("UTF-8", Source::Utf8), "{content_type}");
    }
    for content_type in [None, Some(""), Some("text/html;charset=bogus")] {
        assert_eq!(encoding_only(content_type, meta), ("KOI8-R", Source::Meta), "{content_type:?}");
    }
    let xml = "<?xml version='1.0' encoding='windows-1251'?><meta charset='koi8-r'/>".as_bytes();
    for content_type in ["application/xhtml+xml", "text/xml", "application/rss+xml"] {
        assert_eq!(encoding_only(Some(content_type), xml), ("windows-1251", Source::Meta), "{content_type}");
    }
    let xml = utf16("<?xml version='1.0'?><a>é</a>", u16::to_le_bytes);
    assert_eq!(decide(Some("text/xml"), &xml).text, "<?xml version='1.0'?><a>é</a>");
    let xml = utf16("<?xml version='1.0'?><a>é</a>", u16::to_be_bytes);
    assert_eq!(encoding_only(Some("text/xml"), &xml), ("UTF-16BE", Source::Meta));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_decoded(bytes: Vec<u8>) {
        let decoded = decide(Some("text/html"), &bytes);
        proptest::prop_assert_eq!(encoding_only(Some("text/html"), &bytes), (decoded.encoding, decoded.source));
    }

    #[test]
    fn any_markup_is_searched(start in "[<>!/?a=\"' -]{0,64}(meta charset=koi8-r>)?") {
        decide(None, start.as_bytes());
    }
}
