//! Splits a long text into pages that fit in a reply, between lines where possible.

/// Leaves room for a reply's heading and next call within the limit of a reply.
const PAGE_BYTES_MAX: usize = 7 * 1024;

/// One page of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPage<'a> {
    pub text: &'a str,
    /// Counted from 1.
    pub number: usize,
    pub of: usize,
}

/// The page with that number, or the last one.
pub fn page(text: &str, number: usize) -> TextPage<'_> {
    let mut pages = Vec::new();
    let mut rest = text;
    while rest.len() > PAGE_BYTES_MAX {
        let room = rest.floor_char_boundary(PAGE_BYTES_MAX);
        let end = rest[..room].rfind('\n').filter(|end| *end > room / 2).unwrap_or(room);
        pages.push(&rest[..end]);
        rest = rest[end..].trim_start_matches('\n');
    }
    if !rest.is_empty() || pages.is_empty() {
        pages.push(rest);
    }
    let of = pages.len();
    let number = number.clamp(1, of);
    TextPage { text: pages[number - 1], number, of }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_contain_every_word_once_and_fit(lines in prop::collection::vec("[a-zäö€ ]{0,400}", 0..80)) {
            let text = lines.join("\n");
            let of = page(&text, 1).of;
            let all: Vec<&str> = (1..=of).map(|number| page(&text, number).text).collect();
            prop_assert!(all.iter().all(|page| page.len() <= PAGE_BYTES_MAX));
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&all.join("\n")), words(&text));
            prop_assert_eq!(page(&text, of + 7).number, of);
        }
    }

    #[test]
    fn a_line_longer_than_a_page_is_split() {
        let text = "x".repeat(PAGE_BYTES_MAX + 10);
        assert_eq!((page(&text, 1).of, page(&text, 2).text.len()), (2, 10));
    }
}
