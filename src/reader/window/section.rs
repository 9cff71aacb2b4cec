//! The headings of a Markdown text, and what belongs to one of them.

/// A heading outside code, in the `#` form or underlined with `=` or `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// 1 to 6.
    pub level: usize,
    /// As it is read: without emphasis, code marks, escapes and link targets.
    pub title: String,
    /// In bytes.
    start: usize,
    /// As it is written.
    source: String,
}

/// A title longer than this is read as it is written: no heading that is one comes near.
const MAX_READ_BYTES: usize = 1000;

/// A heading and all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    pub level: usize,
    pub title: String,
    /// Of its heading, in chars.
    pub offset: usize,
    /// From its heading to the next one of the same or a higher level.
    pub content: &'a str,
}

/// The first section with that title: as it is written, else as it is read, else in another case.
pub fn section<'a>(markdown: &'a str, title: &str) -> Option<Section<'a>> {
    let headings = headings(markdown);
    let wanted = title.trim();
    let lowered = wanted.to_lowercase();
    let at = headings
        .iter()
        .position(|heading| heading.source == wanted)
        .or_else(|| headings.iter().position(|heading| heading.title == wanted))
        .or_else(|| headings.iter().position(|heading| heading.title.to_lowercase() == lowered))?;
    let heading = &headings[at];
    let next = headings[at + 1..].iter().find(|next| next.level <= heading.level);
    Some(Section {
        level: heading.level,
        title: heading.title.clone(),
        offset: markdown[..heading.start].chars().count(),
        content: &markdown[heading.start..next.map_or(markdown.len(), |next| next.start)],
    })
}

/// All headings in order. Lines inside fenced or indented code, quotes and lists are none.
pub fn headings(markdown: &str) -> Vec<Heading> {
    let mut scan = Scan::default();
    let mut start = 0;
    for line in markdown.split_inclusive('\n') {
        scan.line(line.trim_end_matches(['\n', '\r']), start);
        start += line.len();
    }
    scan.headings
}

#[derive(Default)]
struct Scan<'a> {
    headings: Vec<Heading>,
    fence: Option<Fence<'a>>,
    /// Where the paragraph began that these lines continue, and its text: an underline makes it a title.
    paragraph: Option<(usize, String)>,
}

impl<'a> Scan<'a> {
    fn line(&mut self, line: &'a str, start: usize) {
        if let Some(fence) = &self.fence {
            if fence.is_closed_by(line) {
                self.fence = None;
            }
            return;
        }
        let paragraph = self.paragraph.take();
        self.fence = Fence::opened_by(line);
        if self.fence.is_some() {
            return;
        }
        if let Some((level, source)) = hash_heading(line) {
            self.headings.push(Heading::new(level, source, start));
            return;
        }
        match (paragraph, underline_level(line)) {
            (Some((start, source)), Some(level)) => self.headings.push(Heading::new(level, &source, start)),
            (paragraph, _) if line.trim().is_empty() || begins_other_block(line, paragraph.is_some()) => {}
            (Some((start, mut text)), None) => {
                text.push(' ');
                text.push_str(line.trim());
                self.paragraph = Some((start, text));
            }
            (None, _) => self.paragraph = Some((start, line.trim().to_owned())),
        }
    }
}

impl Heading {
    fn new(level: usize, source: &str, start: usize) -> Self {
        // Brackets are matched one by one: a page must not make that long.
        let title = if source.len() <= MAX_READ_BYTES { as_read(source) } else { source.to_owned() };
        Self { level, title: title.trim().to_owned(), start, source: source.to_owned() }
    }
}

/// An open code fence: its run of backticks or tildes.
struct Fence<'a>(&'a str);

impl<'a> Fence<'a> {
    fn opened_by(line: &'a str) -> Option<Self> {
        let line = unindented(line)?;
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let (run, info) = line.split_at(run_length(line, mark));
        (run.len() >= 3 && !(mark == '`' && info.contains('`'))).then_some(Self(run))
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let after = unindented(line).and_then(|line| line.strip_prefix(self.0));
        after.is_some_and(|after| after.trim_start_matches(&self.0[..1]).trim().is_empty())
    }
}

/// Level and title of `## Title ##`.
fn hash_heading(line: &str) -> Option<(usize, &str)> {
    let line = unindented(line)?;
    let (marks, title) = line.split_at(run_length(line, '#'));
    if !(1..=6).contains(&marks.len()) || !(title.is_empty() || title.starts_with([' ', '\t'])) {
        return None;
    }
    let title = title.trim();
    let open = title.trim_end_matches('#');
    let closed = open.is_empty() || open.ends_with([' ', '\t']);
    Some((marks.len(), if closed { open.trim_end() } else { title }))
}

/// The level that a line of `=` or `-` gives to the paragraph above it.
fn underline_level(line: &str) -> Option<usize> {
    let line = unindented(line)?.trim_end();
    let is_all = |mark: char| !line.is_empty() && line.chars().all(|c| c == mark);
    if is_all('=') {
        Some(1)
    } else if is_all('-') {
        Some(2)
    } else {
        None
    }
}

/// A quote, a list item, a table row, markup, a rule, or code by indentation, which cannot interrupt a paragraph.
fn begins_other_block(line: &str, in_paragraph: bool) -> bool {
    let Some(line) = unindented(line) else { return !in_paragraph };
    let is_item = |marker: &str| marker.is_empty() || marker.starts_with([' ', '\t']);
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['>', '|', '<'])
        || line.strip_prefix(['-', '*', '+']).is_some_and(is_item)
        || is_rule(line)
        || (number.len() < line.len() && number.strip_prefix(['.', ')']).is_some_and(is_item))
}

/// A thematic break: three or more equal marks, and blanks.
fn is_rule(line: &str) -> bool {
    let marks: String = line.split_whitespace().collect();
    marks.len() >= 3 && ['-', '*', '_'].iter().any(|mark| marks.chars().all(|c| c == *mark))
}

/// The line without up to three blanks before it; `None` if there are more, or a tab: that is code.
fn unindented(line: &str) -> Option<&str> {
    let blanks = run_length(line, ' ');
    (blanks <= 3 && !line[blanks..].starts_with('\t')).then_some(&line[blanks..])
}

/// Of an ASCII mark at the beginning.
fn run_length(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}

/// A title without its inline marks.
fn as_read(source: &str) -> String {
    let mut read = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let taken = match c {
            '\\' => escaped(after, &mut read),
            '`' => Some(code(rest, &mut read)),
            '[' => link(rest, &mut read),
            '!' if after.starts_with('[') => link(after, &mut read),
            '*' | '_' | '~' => Some(emphasis(c, &source[..source.len() - rest.len()], rest, &mut read)),
            _ => None,
        };
        rest = taken.unwrap_or_else(|| {
            read.push(c);
            after
        });
    }
    read
}

// Each reads one mark from the front and returns what follows it; `None` if it is no mark.

fn escaped<'a>(after: &'a str, read: &mut String) -> Option<&'a str> {
    let mark = after.chars().next().filter(char::is_ascii_punctuation)?;
    read.push(mark);
    Some(&after[1..])
}

fn link<'a>(rest: &'a str, read: &mut String) -> Option<&'a str> {
    let text_end = closing(rest, '[', ']')?;
    let target = &rest[text_end + 1..];
    let target_end = closing(target, '(', ')').or_else(|| closing(target, '[', ']'))?;
    read.push_str(&as_read(&rest[1..text_end]));
    Some(&target[target_end + 1..])
}

/// A run of backticks up to the next equal one; alone it is text.
fn code<'a>(rest: &'a str, read: &mut String) -> &'a str {
    let (fence, after) = rest.split_at(run_length(rest, '`'));
    match after.find(fence) {
        Some(end) => {
            read.push_str(after[..end].trim());
            &after[end + fence.len()..]
        }
        None => {
            read.push_str(fence);
            after
        }
    }
}

/// A run of marks is left out if it touches a word and has a partner: not the stars of `2 * 3`, not the underscore of
/// `snake_case`, not a tilde alone.
fn emphasis<'a>(mark: char, before: &str, rest: &'a str, read: &mut String) -> &'a str {
    let (run, after) = rest.split_at(run_length(rest, mark));
    let touches = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
    let in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (last, next) = (before.chars().next_back(), after.chars().next());
    let is_text = match mark {
        _ if !before.contains(run) && !after.contains(run) => true,
        '~' => run.len() != 2,
        '_' if in_word(last) && in_word(next) => true,
        _ => !touches(last) && !touches(next),
    };
    if is_text {
        read.push_str(run);
    }
    after
}

/// Where the bracket closes that the text begins with.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.checked_sub(1)?;
        }
        if depth == 0 {
            return (at > 0).then_some(at);
        }
    }
    None
}
