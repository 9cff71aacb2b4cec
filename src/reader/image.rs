//! Which picture an `<img>` shows: pages that load late have the real source elsewhere.

use dom_query::NodeRef;

const LAZY_SOURCES: [&str; 4] = ["data-src", "data-original", "data-lazy-src", "data-lazy"];

/// Writes the absolute source of `image`, or takes an image away that shows nothing. False if it had a source that
/// cannot be told.
pub(super) fn resolve(image: &NodeRef<'_>, absolute: impl FnOnce(&str) -> Option<String>) -> bool {
    if is_tracking_pixel(image) {
        image.remove_from_parent();
        return true;
    }
    let had_source = image.attr("src").is_some_and(|source| !source.is_empty());
    let source = source(image).filter(|source| !source.trim().is_empty()).and_then(|source| absolute(&source));
    let alt = image.attr_or("alt", "");
    if let Some(source) = &source {
        image.set_attr("src", source);
        image.set_attr("alt", &alt);
    } else if alt.is_empty() {
        image.remove_from_parent();
    } else {
        image.remove_attr("src");
    }
    source.is_some() || !had_source
}

fn is_tracking_pixel(image: &NodeRef<'_>) -> bool {
    ["width", "height"].iter().any(|side| image.attr(side).as_deref() == Some("1"))
}

fn source(image: &NodeRef<'_>) -> Option<String> {
    let lazy = LAZY_SOURCES.iter().filter_map(|name| image.attr(name));
    let lazy = lazy.map(|url| url.trim().to_owned()).find(|url| !url.is_empty() && !url.contains(char::is_whitespace));
    let plain = image.attr("src").map(|url| url.to_string());
    lazy.or_else(|| largest_candidate(&image.attr("data-srcset")?))
        .or_else(|| plain.clone().filter(|url| !url.is_empty() && !url.starts_with("data:")))
        .or_else(|| largest_candidate(&image.attr("srcset")?))
        .or_else(|| alternative(image))
        .or(plain)
}

/// The source that the `<picture>` around the image offers.
fn alternative(image: &NodeRef<'_>) -> Option<String> {
    let picture = image.parent().filter(|parent| parent.has_name("picture"))?;
    let sources = picture.descendants_it().filter(|node| node.has_name("source"));
    sources
        .filter_map(|source| source.attr("srcset").or_else(|| source.attr("data-srcset")))
        .find_map(|candidates| largest_candidate(&candidates))
}

/// The widest or densest candidate of a `srcset`.
fn largest_candidate(candidates: &str) -> Option<String> {
    let mut best: Option<(&str, f64)> = None;
    let mut rest = candidates;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        if rest.is_empty() {
            return best.map(|(url, _)| url.to_owned());
        }
        let (word, after) = rest.split_at(rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len()));
        let url = word.trim_end_matches(',');
        // A comma right after the URL ends the candidate, one inside the URL does not.
        let end = if url.len() < word.len() { 0 } else { after.find(',').unwrap_or(after.len()) };
        let (descriptor, remaining) = after.split_at(end);
        let size = size(descriptor);
        if best.is_none_or(|(_, largest)| size > largest) {
            best = Some((url, size));
        }
        rest = remaining;
    }
}

/// `480w` and `2x` as numbers; 1 for no descriptor.
fn size(descriptor: &str) -> f64 {
    let number = descriptor.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number.parse().ok().filter(|size| *size > 0.0).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_candidate_is_the_widest_or_densest() {
        for (candidates, expected) in [
            ("a.png 1x, b.png 2x", Some("b.png")),
            ("a.png 1600w,b.png 400w", Some("a.png")),
            ("a.png, b.png 1.5x", Some("b.png")),
            ("https://x.example/w_1,h_2/a.png 2x, b.png", Some("https://x.example/w_1,h_2/a.png")),
            ("a.png", Some("a.png")),
            (" , ", None),
            ("", None),
        ] {
            assert_eq!(largest_candidate(candidates).as_deref(), expected, "{candidates}");
        }
    }
}
