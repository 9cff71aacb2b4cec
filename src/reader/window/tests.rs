use proptest::prelude::*;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::*;

#[test]
fn a_text_that_fits_is_not_cut() {
    for (text, max) in [("", 0), ("", 5), ("åäö", 3), ("a\nb\n", 4), ("a\nb", 99)] {
        let cut = cut(text, max);
        assert_eq!((cut.content, cut.truncated, cut.inside_line), (text, false, false), "{text:?}");
        assert_eq!(cut.chars, text.chars().count());
    }
}

#[test]
fn a_cut_leaves_whole_lines() {
    let rows = [
        ("one\ntwo\nthree", 12, "one\ntwo\n", false),
        ("one\ntwo\nthree", 8, "one\ntwo\n", false),
        ("one\ntwo\nthree", 7, "one\n", false),
        ("åäö\r\nåäö\r\n", 9, "åäö\r\n", false),
        ("\n\n\n", 2, "\n\n", false),
        ("one\ntwo", 3, "one", true),
        ("åäöåäö\nx", 4, "åäöå", true),
        ("x", 0, "", true),
    ];
    for (text, max, content, inside_line) in rows {
        let cut = cut(text, max);
        assert_eq!((cut.content, cut.truncated, cut.inside_line), (content, true, inside_line), "{text:?} at {max}");
        assert_eq!(cut.chars, content.chars().count());
    }
}

#[test]
fn what_is_shown_as_one_character_is_not_parted() {
    for (text, max, content) in [
        ("ae\u{301}z", 2, "a"),
        ("a👍🏽z", 2, "a"),
        ("a👩\u{200d}👩\u{200d}👧z", 4, "a"),
        ("a🇩🇪z", 2, "a"),
        ("ab\r\nz", 3, "ab"),
        ("aक\u{93f}z", 2, "a"),
        ("e\u{301}\u{301}z", 2, "e\u{301}"),
    ] {
        assert_eq!(cut(text, max).content, content, "{text:?}");
    }
    let zalgo = format!("a{}", "\u{301}".repeat(1000));
    assert_eq!(cut(&zalgo, 500).chars, 500, "marks alone do not stop the cut");
}

#[test]
fn pages_end_with_lines_and_say_where_the_next_begins() {
    let text = "one\ntwo\nthree\n";
    assert_eq!(page(text, 0, 9), Page { content: "one\ntwo\n", offset: 0, next_offset: Some(8), total: 14 });
    assert_eq!(page(text, 8, 9), Page { content: "three\n", offset: 8, next_offset: None, total: 14 });
    assert_eq!(page(text, 5, 8), Page { content: "wo\n", offset: 5, next_offset: Some(8), total: 14 });
    for offset in [14, 15, usize::MAX] {
        assert_eq!(page(text, offset, 9), Page { content: "", offset, next_offset: None, total: 14 });
    }
    assert_eq!(page(text, 0, 0).next_offset, Some(1), "a page makes progress");
}

#[test]
fn tokens_are_a_quarter_of_the_bytes() {
    assert_eq!(["", "a", "four", "fives", "価格"].map(estimate_tokens), [0, 1, 1, 2, 2]);
}

#[test]
fn a_match_says_where_it_is_and_what_is_around_it() {
    let text = "Ärger\nmit ÄRGER und\närger.";
    let found = find(text, "äRger", 4, 2);
    assert_eq!(found.total, 3);
    let rows: Vec<_> = found.matches.iter().map(|m| (m.offset, m.line, m.before, m.matched, m.after)).collect();
    assert_eq!(rows, [(0, 1, "", "Ärger", "\nmit"), (10, 2, "mit ", "ÄRGER", " und")]);
    assert_eq!(find(text, "", 4, 9), Found::default());
    assert_eq!(find(text, "zorn", 4, 9), Found::default());
    assert_eq!(find("aaaa", "aa", 0, 9).matches.iter().map(|m| m.offset).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn letters_whose_cases_differ_in_length_keep_the_offsets_right() {
    // İ and ẞ-like letters grow or shrink when lowered; K is the Kelvin sign.
    let text = "İİ \u{212a}elvin ΛΌΓΟΣ Ⱥx";
    let offsets = |needle| find(text, needle, 0, 9).matches.iter().map(|m| (m.offset, m.matched)).collect::<Vec<_>>();
    assert_eq!(offsets("kelvin"), [(3, "\u{212a}elvin")]);
    assert_eq!(offsets("λόγος"), [(10, "ΛΌΓΟΣ")]);
    assert_eq!(offsets("ⱥX"), [(16, "Ⱥx")]);
    assert_eq!(offsets("İ"), [(0, "İ"), (1, "İ")]);
    assert_eq!(offsets("i"), [(5 + 2, "i")], "a part of a letter is no match");
}

#[test]
fn a_section_reaches_to_the_next_heading_of_its_rank() {
    let text = "# Top\nintro\n## A\na\n### A1\na1\n## B ##\nb\n# End\n";
    let content = |title| section(text, title).map(|section| section.content);
    assert_eq!(content("A"), Some("## A\na\n### A1\na1\n"));
    assert_eq!(content("A1"), Some("### A1\na1\n"));
    assert_eq!(content(" b "), Some("## B ##\nb\n"));
    assert_eq!(content("Top").map(str::len), Some(text.len() - "# End\n".len()));
    assert_eq!(content("end"), Some("# End\n"));
    assert_eq!(content("C"), None);
    let found = section("é\n## A\n", "a").unwrap();
    assert_eq!((found.offset, found.level, found.title.as_str()), (2, 2, "A"));
}

#[test]
fn the_exact_title_wins_over_one_in_another_case() {
    let text = "# setup\n1\n# Setup\n2\n# `Setup`\n3\n";
    assert_eq!(section(text, "Setup").unwrap().content, "# Setup\n2\n");
    assert_eq!(section(text, "`Setup`").unwrap().content, "# `Setup`\n3\n");
    assert_eq!(section(text, "SETUP").unwrap().content, "# setup\n1\n");
}

fn titles(markdown: &str) -> Vec<(usize, String)> {
    headings(markdown).into_iter().map(|heading| (heading.level, heading.title)).collect()
}

#[test]
fn what_only_looks_like_a_heading_is_none() {
    for text in [
        "```sh\n# a\n```\n",
        "~~~~\n# a\n~~~\n# a\n```\n# a\n",
        "````\n```\n# a\n````\n",
        "```\n# a\n``` x\n# a\n",
        "    # a\n",
        "\t# a\n",
        "#a\n",
        "####### a\n",
        "> # a\n",
        "- # a\n",
        "> a\n---\n",
        "- a\n---\n",
        "\n---\n",
        "a\n\n---\n",
        "| a |\n|---|\n",
        "* * *\n===\n",
        "___\n===\n",
    ] {
        assert_eq!(titles(text), [], "{text:?}");
    }
}

#[test]
fn titles_are_read_as_a_reader_sees_them() {
    let rows = [
        ("#", 1, ""),
        ("###   a b  ###  ", 3, "a b"),
        ("# a#", 1, "a#"),
        ("   ## a\r", 2, "a"),
        ("# C# and F#", 1, "C# and F#"),
        ("# **Bold** and *it* and ~~gone~~", 1, "Bold and it and gone"),
        ("# snake_case and 2 * 3 and _word_", 1, "snake_case and 2 * 3 and word"),
        ("# `a_*b*` call", 1, "a_*b* call"),
        ("# [Install](https://a.example/(x)) ![logo](l.png) [ref][1]", 1, "Install logo ref"),
        ("# [draft] \\*kept\\*", 1, "[draft] *kept*"),
        ("Two\nlines\n===", 1, "Two lines"),
        ("Under\n  ---  ", 2, "Under"),
        ("`` ` ``\n---", 2, "`"),
    ];
    for (text, level, title) in rows {
        assert_eq!(titles(text), [(level, title.to_owned())], "{text:?}");
    }
}

#[test]
fn a_hostile_text_takes_no_longer() {
    let started = std::time::Instant::now();
    let brackets = format!("# {}\n", "[".repeat(1_000_000));
    assert_eq!(titles(&brackets)[0].1.len(), 1_000_000);
    let paragraph = "a [b](c)\n".repeat(200_000) + "===\n";
    assert_eq!(titles(&paragraph).len(), 1);
    let links = format!("# {}x{}", "[".repeat(150), "](u)".repeat(150));
    assert_eq!(titles(&links), [(1, "x".to_owned())]);
    assert_eq!(find(&"İ".repeat(200_000), "i", 9, 9).total, 0);
    assert_eq!(find(&"a".repeat(1_000_000), &"a".repeat(1000), 9, 9).total, 1000);
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

/// Headings outside quotes and lists, as a CommonMark parser finds them.
fn parsed_headings(markdown: &str) -> Vec<(usize, String)> {
    let (mut found, mut depth, mut open) = (Vec::new(), 0, None);
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::BlockQuote(_) | Tag::List(_)) => depth += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_)) => depth -= 1,
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => open = Some((level as usize, String::new())),
            Event::End(TagEnd::Heading(_)) => found.extend(open.take()),
            Event::Text(text) | Event::Code(text) => open.iter_mut().for_each(|(_, title)| title.push_str(&text)),
            Event::SoftBreak => open.iter_mut().for_each(|(_, title)| title.push(' ')),
            _ => {}
        }
    }
    found
}

proptest! {
    #[test]
    fn a_cut_is_a_beginning_within_its_budget(text in "[a-cé\u{301}👍\r\n]{0,60}", max in 0_usize..70) {
        let cut = cut(&text, max);
        prop_assert!(text.starts_with(cut.content));
        prop_assert_eq!(cut.chars, cut.content.chars().count());
        prop_assert!(cut.chars <= max);
        prop_assert_eq!(cut.truncated, cut.content.len() < text.len());
        let ends_a_line = cut.content.is_empty() || cut.content.ends_with('\n');
        prop_assert!(!cut.truncated || cut.inside_line || ends_a_line);
        // The next line would not have fitted.
        let next = text[cut.content.len()..].split_inclusive('\n').next().unwrap_or_default();
        prop_assert!(!cut.truncated || cut.chars + next.chars().count() > max);
    }

    #[test]
    fn following_the_pages_gives_exactly_the_text(text in "[a-cé\u{301}👍🇩\r\n]{0,80}", limit in 0_usize..20) {
        let (mut joined, mut offset) = (String::new(), 0);
        loop {
            let page = page(&text, offset, limit);
            prop_assert_eq!(page.offset, joined.chars().count());
            prop_assert!(page.content.chars().count() <= limit.max(1));
            joined.push_str(page.content);
            match page.next_offset {
                Some(next) => {
                    prop_assert!(next > offset);
                    offset = next;
                }
                None => break,
            }
        }
        prop_assert_eq!(joined, text);
    }

    #[test]
    fn a_match_is_where_it_says(text in "[aAbİiKkſsΣσς\n]{0,40}", needle in "[aAbİiKkſsΣσς]{1,3}", context in 0_usize..5) {
        let lowered = |text: &str| text.to_lowercase().replace('ς', "σ");
        let found = find(&text, &needle, context, usize::MAX);
        prop_assert_eq!(found.total, found.matches.len());
        for m in &found.matches {
            let from: String = text.chars().skip(m.offset).collect();
            prop_assert!(from.starts_with(m.matched));
            prop_assert_eq!(lowered(m.matched), lowered(&needle));
            prop_assert_eq!(m.line, 1 + text.chars().take(m.offset).filter(|c| *c == '\n').count());
            let surrounded = [m.before, m.matched, m.after].concat();
            prop_assert!(text.contains(&surrounded));
            prop_assert_eq!(m.before.chars().count(), context.min(m.offset));
            let after = from.chars().count() - m.matched.chars().count();
            prop_assert_eq!(m.after.chars().count(), context.min(after));
        }
        let is_there = text.contains(&needle);
        prop_assert!(!is_there || found.total > 0);
    }

    #[test]
    fn headings_are_those_of_commonmark(
        lines in prop::collection::vec("(#{1,7}|```|~~~~?|={3}|---|    )? ?([a-c]{1,3}|`x`|\\*\\*b\\*\\*)?( #)?", 0..12)
    ) {
        // Without quotes and lists: these go on in lines that look like any other, and only a full parser knows how far.
        let text = lines.join("\n");
        prop_assert_eq!(titles(&text), parsed_headings(&text), "{:?}", text);
    }

    #[test]
    fn any_markdown_has_its_sections(text in "[#a\\[\\]()`*_~\\\\!\n -]{0,60}") {
        for heading in headings(&text) {
            prop_assert!(section(&text, &heading.title).is_some());
        }
    }
}
