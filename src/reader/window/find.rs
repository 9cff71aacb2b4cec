//! Matches with what surrounds them.

/// Every match that was asked for, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found<'a> {
    pub matches: Vec<Match<'a>>,
    /// Also those beyond the limit.
    pub total: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'a> {
    /// Of the first char of `matched`.
    pub offset: usize,
    /// From 1.
    pub line: usize,
    pub before: &'a str,
    /// As the text writes it.
    pub matched: &'a str,
    pub after: &'a str,
}

/// The first `max` matches from the beginning, none of them overlapping, with up to `context` chars on each side.
/// Case does not matter: both are compared in lower case. An empty needle matches nothing.
pub fn find<'a>(text: &'a str, needle: &str, context: usize, max: usize) -> Found<'a> {
    let needle: String = needle.chars().flat_map(lower).collect();
    let mut found = Found::default();
    if needle.is_empty() {
        return found;
    }
    let lowered = Lowered::new(text);
    let mut place = Place { at: 0, offset: 0, line: 1 };
    let mut from = 0;
    while let Some(at) = lowered.text[from..].find(&needle).map(|at| from + at) {
        let end = at + needle.len();
        let (Some(start), Some(stop)) = (lowered.original(at), lowered.original(end)) else {
            // Only a part of a char matches, such as the `i` of a lowered `İ`.
            from = at + lowered.text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        found.total += 1;
        if found.matches.len() < max {
            place.advance(text, start);
            found.matches.push(Match {
                offset: place.offset,
                line: place.line,
                before: last_chars(&text[..start], context),
                matched: &text[start..stop],
                after: first_chars(&text[stop..], context),
            });
        }
        from = end;
    }
    found
}

/// `char::to_lowercase`, with one letter for both small sigmas.
fn lower(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c })
}

/// A text in lower case, and the way back from its byte offsets.
struct Lowered {
    text: String,
    /// In order: (offset in lower case, offset in the original, whether a char of another length begins here). From an
    /// anchor that is no such char to the next one both advance alike.
    anchors: Vec<(usize, usize, bool)>,
}

impl Lowered {
    fn new(original: &str) -> Self {
        let mut lowered = Self { text: String::with_capacity(original.len()), anchors: vec![(0, 0, false)] };
        for (at, c) in original.char_indices() {
            let start = lowered.text.len();
            lowered.text.extend(lower(c));
            if lowered.text.len() - start != c.len_utf8() {
                lowered.anchors.push((start, at, true));
                lowered.anchors.push((lowered.text.len(), at + c.len_utf8(), false));
            }
        }
        lowered
    }

    /// `None` inside a char whose lower case has another length.
    fn original(&self, at: usize) -> Option<usize> {
        let after = self.anchors.partition_point(|(lowered, ..)| *lowered <= at);
        let (lowered, original, is_odd) = self.anchors[after.checked_sub(1)?];
        (!is_odd || lowered == at).then_some(original + (at - lowered))
    }
}

/// A place in the text, counted on from the one before.
struct Place {
    at: usize,
    offset: usize,
    line: usize,
}

impl Place {
    fn advance(&mut self, text: &str, to: usize) {
        let passed = &text[self.at..to];
        self.offset += passed.chars().count();
        self.line += passed.matches('\n').count();
        self.at = to;
    }
}

fn first_chars(text: &str, count: usize) -> &str {
    super::byte_at(text, count).map_or(text, |end| &text[..end])
}

fn last_chars(text: &str, count: usize) -> &str {
    let skipped = count.checked_sub(1).map(|before_last| text.char_indices().rev().nth(before_last));
    match skipped {
        None => "",
        Some(None) => text,
        Some(Some((start, _))) => &text[start..],
    }
}
