//! Relative links in Markdown files: the file exists, and so does the heading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::findings::Findings;
use crate::root::RepositoryFile;

pub(super) fn check(repository: &Path, files: &[RepositoryFile]) -> Findings {
    let pages: BTreeMap<&str, BTreeSet<String>> = files
        .iter()
        .filter(|file| file.has_extension("md"))
        .map(|file| (file.path.as_str(), anchors(&file.text)))
        .collect();
    let mut findings = Findings::default();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        for (line, target) in links(&file.text) {
            if let Some(problem) = problem(repository, &pages, &file.path, target) {
                findings.problem(format!("{}:{line} links to `{target}`, {problem}", file.path));
            }
        }
    }
    findings
}

fn problem(
    repository: &Path,
    pages: &BTreeMap<&str, BTreeSet<String>>,
    from: &str,
    target: &str,
) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let Some(resolved) = resolve(from, path) else { return Some("which is outside the repository") };
    if !repository.join(&resolved).exists() {
        return Some("which does not exist");
    }
    let anchor = anchor?;
    match pages.get(resolved.as_str()) {
        Some(known) if known.contains(anchor) => None,
        Some(_) => Some("but the page has no such heading"),
        None => Some("but only a markdown page has headings"),
    }
}

/// The path of a link relative to the repository; `None` if it leads outside.
fn resolve(from: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(from.to_owned());
    }
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines that are not inside a fenced block, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        let mut rest = content;
        while let Some(position) = rest.find("](") {
            let in_code = rest[..position].matches('`').count() % 2 == 1;
            rest = &rest[position + 2..];
            let Some((target, tail)) = rest.split_once(')') else { break };
            if !in_code {
                found.push((line, target.split_whitespace().next().unwrap_or("")));
                rest = tail;
            }
        }
    }
    found
}

/// The anchors of a page, derived from its headings as code hosts do.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let unique = (1..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.clone()).chain(unique).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> RepositoryFile {
        RepositoryFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn problems(files: &[RepositoryFile]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for RepositoryFile { path, text } in files {
            let on_disk = root.path().join(path);
            std::fs::create_dir_all(on_disk.parent().unwrap()).unwrap();
            std::fs::write(on_disk, text).unwrap();
        }
        check(root.path(), files).problems().to_vec()
    }

    #[test]
    fn links_that_resolve_pass() {
        let readme =
            "# Top\n[a](docs/a.md) [b](docs/a.md#how-it-works) [c](#top) [d](docs) [e](https://x.y/z)\n";
        assert_eq!(
            problems(&[
                file("README.md", readme),
                file("docs/a.md", "## How it `works`?\n[up](../README.md)")
            ]),
            [""; 0]
        );
    }

    #[test]
    fn broken_links_are_reported_with_their_location() {
        let page = "# T\n\n[a](gone.md)\n[b](#nowhere)\n[c](../../x.md)\n[d](/abs.md)\n";
        assert_eq!(
            problems(&[file("docs/a.md", page)]),
            [
                "docs/a.md:3 links to `gone.md`, which does not exist",
                "docs/a.md:4 links to `#nowhere`, but the page has no such heading",
                "docs/a.md:5 links to `../../x.md`, which is outside the repository",
                "docs/a.md:6 links to `/abs.md`, which is outside the repository",
            ]
        );
    }

    #[test]
    fn links_inside_code_are_ignored() {
        assert_eq!(problems(&[file("a.md", "```\n[a](gone.md)\n```\nand `[b](gone.md)` too\n")]), [""; 0]);
    }

    #[test]
    fn equal_headings_get_numbered_anchors() {
        let anchors = anchors("## A b\n## A b\n### `x_y` (planned)\n#tag\n");
        assert_eq!(anchors, ["a-b", "a-b-1", "x_y-planned"].map(str::to_owned).into());
    }
}
