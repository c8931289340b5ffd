//! What a user reads on a page of the console: its text, its fields and what its buttons send.

/// The text of a page's `main`, or of the whole page if it has none; one block per line.
pub fn words(html: &str) -> String {
    let main = html
        .split_once("<main")
        .map_or(html, |(_, rest)| rest.split_once('>').map_or("", |(_, inner)| inner));
    text_of(main.split("</main>").next().unwrap_or_default())
}

/// The text of the element with this id; panics if the page has none.
pub fn part(html: &str, id: &str) -> String {
    let start = format!("<section id=\"{id}\"");
    let (_, rest) = html.split_once(&start).unwrap_or_else(|| panic!("no part {id}: {html}"));
    let own = rest.split_once('>').map_or("", |(_, inner)| inner);
    text_of(own.split("</section>").next().unwrap_or_default())
}

/// The text of the page's first message to the user.
pub fn alert(html: &str) -> Option<String> {
    let (_, rest) = html.split_once(" role=\"alert\"")?;
    let (_, own) = rest.split_once('>')?;
    Some(text_of(own.split("</div>").next().unwrap_or_default()))
}

/// Elements that start a new line.
const BLOCKS: [&str; 28] = [
    "p", "div", "h1", "h2", "h3", "h4", "ul", "ol", "li", "dl", "dt", "dd", "table", "tr", "section",
    "article", "form", "label", "fieldset", "legend", "details", "summary", "pre", "select", "option",
    "textarea", "text", "br",
];
/// Elements whose content is not read.
const SILENT: [&str; 2] = ["script", "style"];

fn text_of(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(&unescaped(before));
        let (tag, behind) = after.split_once('>').unwrap_or((after, ""));
        rest = behind;
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if let Some(silent) = SILENT.iter().find(|silent| **silent == name) {
            rest = behind.split_once(&format!("</{silent}>")).map_or("", |(_, behind)| behind);
        }
        text.push_str(&shown(tag, name));
    }
    text.push_str(&unescaped(rest));
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The text for a tag: a line break, a field with its value, or a form's target.
fn shown(tag: &str, name: &str) -> String {
    let is_end = tag.starts_with('/');
    match name {
        "button" => if is_end { "] " } else { " [" }.to_owned(),
        "td" | "th" if !is_end => " | ".to_owned(),
        "form" if !is_end && attribute(tag, "method").as_deref() == Some("post") => {
            format!("\nPOST {}\n", attribute(tag, "action").unwrap_or_default())
        }
        "input" if attribute(tag, "type").as_deref() == Some("hidden") => String::new(),
        "input" => {
            let (name, value) = (attribute(tag, "name"), attribute(tag, "value"));
            format!(" {}={} ", name.unwrap_or_default(), value.unwrap_or_default())
        }
        _ if BLOCKS.contains(&name) => "\n".to_owned(),
        _ => String::new(),
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next().map(unescaped)
}

fn unescaped(text: &str) -> String {
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    marks.into_iter().fold(text.to_owned(), |text, (mark, sign)| text.replace(mark, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_a_user_reads_it() {
        let page = "<head><title>no</title></head><main id=\"main\"><h1>Now</h1><section id=\"needs\" data-part><p>A &lt;b&gt;, \
                    <em>truly</em></p><svg><text>B</text></svg><form method=\"post\" action=\"/run/a/approve\"><input \
                    type=\"hidden\" name=\"token\" value=\"t\"><input name=\"q\" value=\".\"><button>Approve</button></form>\
                    </section><div class=\"banner\" role=\"alert\"><b>Not</b> yet.</div></main><p>no</p>";
        assert_eq!(words(page), "Now\nA <b>, truly\nB\nPOST /run/a/approve\nq=. [Approve]\nNot yet.");
        assert_eq!(part(page, "needs"), "A <b>, truly\nB\nPOST /run/a/approve\nq=. [Approve]");
        assert_eq!(alert(page).as_deref(), Some("Not yet."));
        assert_eq!(alert("<p>no</p>"), None);
    }
}
