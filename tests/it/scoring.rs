//! How much of a page's main text is in the Markdown, and how much else: the method of article-extraction-benchmark.
//!
//! Tokens are `\w+`, compared as multisets of runs of four. Precision and recall are averaged over the pages, and F1 is
//! made from the averages. Link targets, images and escapes of the Markdown are taken out first.

use std::collections::HashMap;

use regex::Regex;

#[derive(Debug, Clone, Copy)]
pub struct Score {
    pub precision: f64,
    pub recall: f64,
}

impl Score {
    pub fn f1(self) -> f64 {
        2.0 * self.precision * self.recall / (self.precision + self.recall).max(f64::MIN_POSITIVE)
    }
}

/// The score of one page.
pub fn score(gold: &str, markdown: &str) -> Score {
    let text = plain_text(markdown);
    let (wanted, found) = (runs_of_four(gold), runs_of_four(&text));
    let shared: usize = wanted.iter().map(|(run, times)| (*times).min(found.get(run).copied().unwrap_or(0))).sum();
    let part = |runs: &HashMap<Vec<&str>, usize>| shared as f64 / runs.values().sum::<usize>().max(1) as f64;
    Score { precision: part(&found), recall: part(&wanted) }
}

/// The averages over several pages.
pub fn average(scores: &[Score]) -> Score {
    let mean = |value: fn(&Score) -> f64| scores.iter().map(value).sum::<f64>() / scores.len().max(1) as f64;
    Score { precision: mean(|score| score.precision), recall: mean(|score| score.recall) }
}

fn runs_of_four(text: &str) -> HashMap<Vec<&str>, usize> {
    let words = Regex::new(r"\w+").unwrap();
    let tokens: Vec<&str> = words.find_iter(text).map(|found| found.as_str()).collect();
    let mut runs = HashMap::new();
    if tokens.len() < 4 {
        runs.insert(tokens, 1);
        return runs;
    }
    for run in tokens.windows(4) {
        *runs.entry(run.to_vec()).or_insert(0) += 1;
    }
    runs
}

/// Markdown without the parts that are no text of the page.
fn plain_text(markdown: &str) -> String {
    const TARGET: &str = r"\((?:<[^>]*>|(?:\\.|[^()\\]|\([^()]*\))*)\)";
    let image = Regex::new(&format!(r"!\[(?:\\.|[^\]\\])*\]{TARGET}")).unwrap();
    let target = Regex::new(&format!(r"\]{TARGET}")).unwrap();
    let escape = Regex::new(r"\\([!-/:-@\[-`{-~])").unwrap();
    let text = image.replace_all(markdown, "");
    let text = target.replace_all(&text, "]");
    escape.replace_all(&text, "$1").into_owned()
}

/// The page saved as `tests/it/pages/NAME.html.gz` without its scripts, and its gold text.
pub fn saved_page(name: &str) -> (String, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pages");
    let packed = std::fs::File::open(format!("{folder}/{name}.html.gz")).unwrap();
    let mut bytes = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut bytes).unwrap();
    let scripts = Regex::new(r"(?is)<script\b.*?</script\s*>").unwrap();
    let page = scripts.replace_all(&String::from_utf8_lossy(&bytes), "").into_owned();
    let gold: serde_json::Value =
        serde_json::from_slice(&std::fs::read(format!("{folder}/{name}.gold.json")).unwrap()).unwrap();
    (page, gold["gold_text"].as_str().unwrap().to_owned())
}

pub const PAGES: [&str; 10] = [
    "aeb-06e5123e4ef7",
    "aeb-264dc3ae3124",
    "aeb-42aad16bde92",
    "aeb-624fcd903d56",
    "aeb-7f93c1944a41",
    "aeb-9ebb3af65694",
    "moz-daringfireball-1",
    "moz-gitlab-blog",
    "moz-rtl-4",
    "moz-wikipedia-3",
];

#[test]
fn equal_texts_score_one_and_foreign_texts_nothing() {
    let text = "one two three four five six";
    assert!((score(text, text).f1() - 1.0).abs() < 1e-9);
    assert!(score(text, "seven eight nine ten eleven").f1() < 1e-9);
}

#[test]
fn words_around_the_main_text_cost_precision_only() {
    let found = score("one two three four five", "zero one two three four five");
    assert!((found.recall - 1.0).abs() < 1e-9);
    assert!((found.precision - 2.0 / 3.0).abs() < 1e-9);
}

#[test]
fn f1_is_made_from_the_averages() {
    let half = Score { precision: 0.5, recall: 1.0 };
    let whole = Score { precision: 1.0, recall: 1.0 };
    assert!((average(&[half, whole]).f1() - 2.0 * 0.75 / 1.75).abs() < 1e-9);
}

#[test]
fn markup_is_no_text() {
    let markdown = r#"[one](https://a.example/x_(y) "title") ![alt](i.png)two \*three\* **four**"#;
    assert_eq!(plain_text(markdown), "[one] two *three* **four**");
    assert!((score("one two three four", markdown).f1() - 1.0).abs() < 1e-9);
}

#[test]
fn every_saved_page_has_gold_text() {
    for name in PAGES {
        let (page, gold) = saved_page(name);
        assert!(page.contains("<body") && !page.contains("<script"), "{name}");
        assert!(gold.split_whitespace().count() > 100, "{name}");
    }
}
