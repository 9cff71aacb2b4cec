//! Formulas: MathML becomes the TeX that it carries, or as much of it as plain text can show.

use dom_query::NodeRef;

/// Marks the formulas that `normalise.js` makes of TeX scripts.
const FROM_SCRIPT: &str = "from-script";

/// Written by `normalise.js` in place of a `<script type="math/tex">`.
pub(super) fn is_from_script(node: &NodeRef<'_>) -> bool {
    node.has_name("math") && node.has_class(FROM_SCRIPT)
}

/// The rendered copy that TeX libraries put beside their source.
pub(super) fn is_rendering(node: &NodeRef<'_>, page_has_formula_scripts: bool) -> bool {
    let Some(class) = node.class() else { return false };
    class.split_whitespace().any(|name| {
        name == "katex-html" || (page_has_formula_scripts && (name == "MathJax" || name.starts_with("MathJax_")))
    })
}

/// Replaces a `<math>` that carries TeX by `<span class="math math-inline">$…$</span>`, or `math-display` with `$$`.
pub(super) fn write(math: &NodeRef<'_>) {
    let Some(tex) = tex(math) else { return flatten(math) };
    let (class, mark) = if is_display(math) { ("math math-display", "$$") } else { ("math math-inline", "$") };
    let span = math.tree.new_element("span");
    span.set_attr("class", class);
    span.append_child(&math.tree.new_text(format!("{mark}{tex}{mark}")));
    math.replace_with(&span);
}

fn tex(math: &NodeRef<'_>) -> Option<String> {
    let is_tex = |node: &NodeRef<'_>| {
        node.has_name("annotation") && node.attr_or("encoding", "").to_ascii_lowercase().contains("tex")
    };
    let source = math.descendants_it().find(is_tex).map(|node| node.text()).or_else(|| math.attr("alttext"))?;
    let source = source.trim();
    let inner = source.strip_prefix("{\\displaystyle").and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.filter(|rest| rest.starts_with(char::is_whitespace));
    Some(inner.unwrap_or(source).trim().to_owned()).filter(|tex| !tex.is_empty())
}

fn is_display(math: &NodeRef<'_>) -> bool {
    let is_display_box = |node: &NodeRef<'_>| {
        node.has_class("katex-display")
            || (node.has_name("mjx-container") && node.attr("display").as_deref() == Some("true"))
    };
    math.attr("display").as_deref() == Some("block") || math.ancestors_it(None).any(|above| is_display_box(&above))
}

/// Superscripts, subscripts and fractions of MathML that brings no TeX.
fn flatten(math: &NodeRef<'_>) {
    for node in math.descendants() {
        match (node.node_name().as_deref(), node.element_children().as_slice()) {
            (Some("annotation" | "annotation-xml"), _) => node.remove_from_parent(),
            (Some("msup"), [_, exponent]) => wrap(exponent, "sup"),
            (Some("msub"), [_, index]) => wrap(index, "sub"),
            (Some("mfrac"), [_, denominator]) => denominator.insert_before(&math.tree.new_text("/")),
            _ => {}
        }
    }
}

fn wrap(node: &NodeRef<'_>, name: &str) {
    let wrapper = node.tree.new_element(name);
    node.insert_before(&wrapper);
    wrapper.append_child(node);
}
