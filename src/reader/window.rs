//! A window of a long text: its beginning, a page, what surrounds a match, one section.
//!
//! Offsets, limits and counts are in Unicode scalar values ("chars").

mod find;
mod section;
#[cfg(test)]
mod tests;

pub use find::{Found, Match, find};
pub use section::{Heading, Section, headings, section};

/// The beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    pub content: &'a str,
    /// Of `content`.
    pub chars: usize,
    /// Something was left out.
    pub truncated: bool,
    /// Not even the first line fits: `content` ends inside it.
    pub inside_line: bool,
}

/// At most `max_chars` of the text in whole lines; a first line that is longer is cut between two characters.
pub fn cut(text: &str, max_chars: usize) -> Cut<'_> {
    let Some(limit) = byte_at(text, max_chars) else {
        return Cut { content: text, chars: text.chars().count(), truncated: false, inside_line: false };
    };
    let (end, inside_line) = match text[..limit].rfind('\n') {
        Some(last_break) => (last_break + 1, false),
        None => (whole_characters(text, limit), true),
    };
    let content = &text[..end];
    Cut { content, chars: content.chars().count(), truncated: true, inside_line }
}

/// A part of a text, and where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    pub content: &'a str,
    pub offset: usize,
    /// `None` at the end of the text.
    pub next_offset: Option<usize>,
    /// Of the whole text.
    pub total: usize,
}

/// A page of at most `limit_chars` (at least one), ending with a line where one ends in it. Pages that follow
/// `next_offset` from 0 on join to exactly the text. An offset beyond the text gives an empty last page.
pub fn page(text: &str, offset_chars: usize, limit_chars: usize) -> Page<'_> {
    let total = text.chars().count();
    let rest = byte_at(text, offset_chars).map_or("", |start| &text[start..]);
    let cut = cut(rest, limit_chars.max(1));
    Page {
        content: cut.content,
        offset: offset_chars,
        next_offset: cut.truncated.then_some(offset_chars + cut.chars),
        total,
    }
}

/// About how many tokens a language model counts: one for every four bytes of UTF-8, rounded up.
///
/// The rule is OpenAI's "about 4 characters of common English text" (<https://platform.openai.com/tokenizer>). Their
/// tokenisers work on bytes, so bytes carry it over to scripts with two or three bytes a character.
pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

/// Where the char with that index begins; `None` if the text has no more than that many.
fn byte_at(text: &str, chars: usize) -> Option<usize> {
    text.char_indices().nth(chars).map(|(at, _)| at)
}

/// The last place up to `limit` that does not part what is shown as one character; `limit` itself if there is none
/// but the beginning.
fn whole_characters(text: &str, limit: usize) -> usize {
    let after = |at: usize| text[at..].chars().next();
    let before = |at: usize| text[..at].chars().next_back();
    // A text of combining marks alone is not searched to its beginning.
    let places = text[..limit].char_indices().rev().map(|(at, _)| at).take(32);
    let parts = |at: usize| after(at).zip(before(at)).is_some_and(|(next, last)| belong_together(last, next));
    std::iter::once(limit).chain(places).find(|at| *at > 0 && !parts(*at)).unwrap_or(limit)
}

/// The common cases of <https://www.unicode.org/reports/tr29/#Grapheme_Cluster_Boundary_Rules>: combining marks,
/// emoji sequences, flags, Hangul, CR LF.
fn belong_together(last: char, next: char) -> bool {
    const JOINER: char = '\u{200d}';
    let extends = matches!(next,
        '\u{0300}'..='\u{036f}' | '\u{0483}'..='\u{0489}' | '\u{0591}'..='\u{05bd}' | '\u{064b}'..='\u{065f}'
        | '\u{093a}'..='\u{093c}' | '\u{093e}'..='\u{094f}' | '\u{0e31}' | '\u{0e34}'..='\u{0e3a}'
        | '\u{0e47}'..='\u{0e4e}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{3099}' | '\u{309a}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}' | JOINER);
    let is_flag_letter = |c: char| ('\u{1f1e6}'..='\u{1f1ff}').contains(&c);
    let is_jamo = |c: char| ('\u{1100}'..='\u{11ff}').contains(&c);
    extends
        || last == JOINER
        || (last, next) == ('\r', '\n')
        || (is_flag_letter(last) && is_flag_letter(next))
        || (is_jamo(last) && is_jamo(next))
}
