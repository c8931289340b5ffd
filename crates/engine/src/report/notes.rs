//! Notes as HTML. Their text may come from any source that the agent read, so nothing in them is trusted (G76).
//!
//! Raw HTML is shown as text. Links and images become text followed by their address: a printed page stays
//! readable, and nothing on the page loads or leads anywhere. The result passes a sanitiser that allows only
//! structure: no attribute survives it.

use ammonia::Builder;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use workrail_model::text::clean;

/// Text structure only; nothing active, nothing that loads or links.
const TAGS: [&str; 27] = [
    "blockquote",
    "br",
    "code",
    "del",
    "dd",
    "dl",
    "dt",
    "em",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "strong",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

/// Deeper structure is shown as text: the sanitiser's time grows with the square of the depth.
const DEPTH_MAX: usize = 32;

pub(crate) fn render(markdown: &str) -> String {
    let text = clean(markdown);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut addresses = Vec::new();
    let mut depth = 0;
    let events = Parser::new_ext(&text, options)
        .flat_map(|event| harmless(event, &mut addresses))
        .filter(|event| is_shallow(event, &mut depth));
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    sanitiser().clean(&html).to_string()
}

fn sanitiser() -> Builder<'static> {
    // Empty: only the tags listed here pass, and no attributes.
    let mut builder = Builder::empty();
    builder.tags(TAGS.into_iter().collect()).link_rel(None);
    builder
}

/// An event with everything active removed; `addresses` holds those of the open links.
fn harmless<'a>(event: Event<'a>, addresses: &mut Vec<String>) -> Vec<Event<'a>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => vec![Event::Text(text)],
        Event::Start(Tag::HtmlBlock) => vec![Event::Start(Tag::Paragraph)],
        Event::End(TagEnd::HtmlBlock) => vec![Event::End(TagEnd::Paragraph)],
        Event::Start(Tag::Link { dest_url, .. }) => {
            addresses.push(dest_url.to_string());
            Vec::new()
        }
        Event::Start(Tag::Image { dest_url, .. }) => {
            addresses.push(dest_url.to_string());
            vec![Event::Text("[image: ".into())]
        }
        Event::End(TagEnd::Link) => vec![Event::Text(addressed(addresses).into())],
        Event::End(TagEnd::Image) => vec![Event::Text(format!("]{}", addressed(addresses)).into())],
        // The page's own headings use the levels above these.
        Event::Start(Tag::Heading { level, .. }) => vec![Event::Start(Tag::Heading {
            level: lowered(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        })],
        Event::End(TagEnd::Heading(level)) => vec![Event::End(TagEnd::Heading(lowered(level)))],
        Event::TaskListMarker(done) => vec![Event::Text(if done { "☑ " } else { "☐ " }.into())],
        other @ (Event::Start(_)
        | Event::End(_)
        | Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::Rule) => vec![other],
    }
}

/// Tracks the depth of an event; returns whether to keep it.
fn is_shallow(event: &Event<'_>, depth: &mut usize) -> bool {
    if matches!(event, Event::Start(_)) {
        *depth += 1;
        return *depth <= DEPTH_MAX;
    }
    if matches!(event, Event::End(_)) {
        *depth = depth.saturating_sub(1);
        return *depth < DEPTH_MAX;
    }
    true
}

fn addressed(addresses: &mut Vec<String>) -> String {
    addresses
        .pop()
        .filter(|address| !address.is_empty())
        .map(|address| format!(" ({address})"))
        .unwrap_or_default()
}

fn lowered(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H4,
        HeadingLevel::H2 => HeadingLevel::H5,
        HeadingLevel::H3 | HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_of_any_depth_is_rendered_with_bounded_depth_and_all_its_text() {
        for deep in [
            format!("{} inside", ">".repeat(20_000)),
            (0..2_000).map(|depth| format!("{}- item {depth}\n", "  ".repeat(depth))).collect(),
            format!("{}inside{}", "*a **".repeat(5_000), "** b*".repeat(5_000)),
        ] {
            let html = render(&deep);
            let (mut depth, mut deepest) = (0_i64, 0_i64);
            for (at, _) in html.match_indices('<') {
                depth += if html[at..].starts_with("</") { -1 } else { 1 };
                deepest = deepest.max(depth);
            }
            assert!(deepest <= 33, "{deepest}");
            assert!(html.contains("inside") || html.contains("item 1999"), "the text is kept");
        }
    }

    #[test]
    fn nothing_in_a_note_runs_loads_or_links() {
        let hostile = "# Title\n\n<script>alert(1)</script>\n\nText <img src=x onerror=alert(2)> and <b onclick='x'>b</b>\n\n\
                       [click](javascript:alert(3)) ![pixel](https://tracker.example/p.png) <https://auto.example>\n\n\
                       | a | b |\n|---|---|\n| <svg/onload=alert(4)> | `</td><script>` |\n\n<!-- comment -->\n\n\
                       <iframe src=\"https://x.example\"></iframe>\n\n&lt;script&gt;\n\n- [x] done\n";
        let html = render(hostile);
        for forbidden in ["<script", "<img", "<svg", "<iframe", "<b ", "<a", "<!--", "<input"] {
            assert!(!html.contains(forbidden), "{forbidden} in {html}");
        }
        let mut tags = html.match_indices('<').map(|(at, _)| &html[at..]);
        assert!(tags.all(|tag| !tag[..tag.find('>').unwrap()].contains('=')), "no attribute at all: {html}");
        for kept in [
            "<h4>Title</h4>",
            "click (javascript:alert(3))",
            "[image: pixel] (https://tracker.example/p.png)",
            "&lt;script&gt;alert(1)",
            "<td>",
            "☑ done",
        ] {
            assert!(html.contains(kept), "{kept} in {html}");
        }
    }
}
