//! A marked block of instructions for agents, in a text that otherwise belongs to the user.

use super::texts::{INSTRUCTIONS, WRITTEN_BY_INSTALL};

const BEGIN: &str = "<!-- workrail:begin";
const END: &str = "<!-- workrail:end -->";

fn block() -> String {
    format!("{BEGIN} {WRITTEN_BY_INSTALL} -->\n{INSTRUCTIONS}{END}\n")
}

/// Where the block is: from the start of its first line to the end of its last.
fn found(text: &str) -> Result<Option<std::ops::Range<usize>>, String> {
    let (begins, ends) = (text.matches(BEGIN).count(), text.matches(END).count());
    match (begins, ends, text.find(BEGIN), text.find(END)) {
        (0, 0, _, _) => Ok(None),
        (1, 1, Some(begin), Some(end)) if begin < end => {
            let end = end + END.len();
            let rest = &text[end..];
            let line_end = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
            Ok(Some(begin..end + line_end))
        }
        (_, _, _, _) => Err(format!(
            "its lines `{BEGIN} ... -->` and `{END}` are not one pair: remove them and what is between them, then try again"
        )),
    }
}

pub(super) fn install(text: &str) -> Result<String, String> {
    let block = if text.contains("\r\n") { block().replace('\n', "\r\n") } else { block() };
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    if let Some(range) = found(text)? {
        return Ok(format!("{}{block}{}", &text[..range.start], &text[range.end..]));
    }
    let gap = match text {
        "" => "",
        _ if text.ends_with('\n') => line_end,
        // The user's last line has no line break yet.
        _ => &line_end.repeat(2),
    };
    Ok(format!("{text}{gap}{block}"))
}

/// The text without the block and the blank line above it; `None` if nothing else was there.
pub(super) fn remove(text: &str) -> Result<Option<String>, String> {
    let Some(range) = found(text)? else { return Ok(Some(text.to_owned())) };
    let before = &text[..range.start];
    let before = match before.strip_suffix("\r\n").or_else(|| before.strip_suffix('\n')) {
        Some(shorter) if shorter.ends_with('\n') || shorter.is_empty() => shorter,
        Some(_) | None => before,
    };
    let rest = format!("{before}{}", &text[range.end..]);
    Ok((!rest.trim().is_empty()).then_some(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_inserted_replaced_and_removed() {
        for text in ["# Mine\n", "# Mine\n\nLast line\n", "a\r\nb\r\n"] {
            let with = install(text).unwrap();
            assert_eq!(install(&with).unwrap(), with);
            assert_eq!(remove(&with).unwrap().as_deref(), Some(text));
            let old = with.replace("one step at a time", "steps");
            assert_eq!(install(&old).unwrap(), with, "an older block is replaced");
            let below = format!("{with}\nadded below\n");
            assert_eq!(
                remove(&below).unwrap(),
                Some(format!("{text}\nadded below\n")),
                "what came later stays"
            );
        }
        assert_eq!(remove(&install("").unwrap()).unwrap(), None);
    }

    #[test]
    fn unpaired_markers_are_refused() {
        let with = install("").unwrap();
        for text in [BEGIN.to_owned(), END.to_owned(), format!("{with}{with}"), format!("{END}\n{BEGIN}\n")] {
            assert!(install(&text).is_err() && remove(&text).is_err(), "{text}");
        }
    }
}
