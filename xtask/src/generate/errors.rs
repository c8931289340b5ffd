//! `docs/reference/errors.md`: the pages of all error codes in one.

use std::fmt::Write as _;

use workrail_model::error::ErrorCode;

use crate::generated_file::{GeneratedFile, MARK};

pub(super) fn generated_file() -> GeneratedFile {
    let mut page = format!("<!-- {MARK} -->\n# Errors\n\n");
    page.push_str(
        "Every error that an agent, a person or a program sees has one of these codes, a machine-readable \
         `retry`,\nand a `suggestion` that says what to do next. The schema is \
         [error-envelope.json](../../schemas/durable/error-envelope.json).\n\n",
    );
    for code in ErrorCode::ALL {
        let name = code.as_str();
        // Writing to a String cannot fail.
        writeln!(page, "- [`{name}`](#{})", name.to_lowercase()).expect("string write");
    }
    for code in ErrorCode::ALL {
        page.push('\n');
        page.push_str(&below_the_title(code.page()));
    }
    GeneratedFile { path: "docs/reference/errors.md".to_owned(), content: page }
}

/// The page with its headings one level lower, ending in one line feed.
fn below_the_title(page: &str) -> String {
    let lines: Vec<String> = page
        .trim_end()
        .lines()
        .map(|line| if line.starts_with('#') { format!("#{line}") } else { line.to_owned() })
        .collect();
    format!("{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_and_has_its_page() {
        let page = generated_file().content;
        for code in ErrorCode::ALL {
            assert!(page.contains(&format!("\n## {}\n", code.as_str())), "{}", code.as_str());
        }
    }
}
