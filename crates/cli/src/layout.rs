//! Fits text to a terminal: truncation, wrapping, and tables.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Between two columns of a table.
const GUTTER: usize = 2;

/// How a column shrinks if a table is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnFit {
    /// Always shown in full.
    Whole,
    /// Cut at its end: preferably not below `good` characters, and never below `min`.
    Cut { min: usize, good: usize },
    /// Dropped before another column is cut below its `good` width; the lowest number first.
    Drop(u8),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) fit: ColumnFit,
}

/// The lines of a table, heading first. Without a width, lines are as long as necessary. Columns that are empty in
/// every row are dropped.
pub(crate) fn table<'r>(columns: &'r [Column], rows: &'r [Vec<String>], room: Option<usize>) -> Vec<String> {
    let cell = |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| cell.width());
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let widest = rows.iter().map(|row| cell(row, at)).max().unwrap_or_default();
            if widest == 0 { 0 } else { widest.max(column.title.width()) }
        })
        .collect();
    if let Some(room) = room {
        fit(columns, &mut widths, room);
    }
    let line = |cells: &dyn Fn(usize) -> &'r str| {
        let mut line = String::with_capacity(total(&widths));
        // Written before the next text, so that lines have no trailing spaces.
        let mut spaces = 0;
        for (at, width) in widths.iter().enumerate().filter(|(_, width)| **width > 0) {
            let text = cut(cells(at), *width);
            if !text.is_empty() {
                line.extend(std::iter::repeat_n(' ', spaces));
                line.push_str(&text);
                spaces = 0;
            }
            spaces += width.saturating_sub(text.width()) + GUTTER;
        }
        line.truncate(line.trim_end().len());
        line
    };
    let heading = line(&|at| columns[at].title);
    let body = rows.iter().map(|row| line(&|at| row.get(at).map_or("", String::as_str)));
    std::iter::once(heading).chain(body).collect()
}

fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.clone().sum::<usize>() + GUTTER * shown.count().saturating_sub(1)
}

/// Drops columns, then cuts those furthest above their `good` width, until everything fits or nothing more can
/// shrink.
fn fit(columns: &[Column], widths: &mut [usize], room: usize) {
    let mut order: Vec<(u8, usize)> = columns
        .iter()
        .enumerate()
        .filter_map(|(at, column)| match column.fit {
            ColumnFit::Drop(order) => Some((order, at)),
            ColumnFit::Whole | ColumnFit::Cut { .. } => None,
        })
        .collect();
    order.sort_unstable();
    // A column is dropped only if cutting alone would leave too little of the others.
    let readable = |widths: &[usize]| {
        let cut: Vec<usize> = widths
            .iter()
            .zip(columns)
            .map(|(width, column)| match column.fit {
                ColumnFit::Cut { good, .. } => (*width).min(good),
                ColumnFit::Whole | ColumnFit::Drop(_) => *width,
            })
            .collect();
        total(&cut)
    };
    for (_, at) in order {
        if readable(widths) > room {
            widths[at] = 0;
        }
    }
    while total(widths) > room {
        let widest = widths
            .iter()
            .zip(columns)
            .enumerate()
            .filter_map(|(at, (width, column))| match column.fit {
                ColumnFit::Cut { min, good } if *width > min => {
                    Some((width.saturating_sub(good), *width, at))
                }
                ColumnFit::Cut { .. } | ColumnFit::Whole | ColumnFit::Drop(_) => None,
            })
            .max();
        let Some((.., at)) = widest else { return };
        widths[at] -= 1;
    }
}

/// The text, cut to a width; a cut text ends with `…`.
pub(crate) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let mut room = width.saturating_sub(1);
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if width > room {
            break;
        }
        room -= width;
        shown.push(c);
    }
    Cow::Owned(format!("{}…", shown.trim_end()))
}

/// The text in lines of at most this width, broken between words; a longer word is not broken.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![text.to_owned()] };
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(std::mem::replace(&mut line, word.to_owned()));
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { title: "RUN", fit: ColumnFit::Whole },
        Column { title: "GOAL", fit: ColumnFit::Cut { min: 8, good: 8 } },
        Column { title: "SESSION", fit: ColumnFit::Drop(1) },
    ];

    fn rows() -> Vec<Vec<String>> {
        vec![vec!["amber-falcon".to_owned(), "give retries a budget".to_owned(), "sess_123456".to_owned()]]
    }

    #[test]
    fn without_a_width_everything_is_shown() {
        let lines = table(&COLUMNS, &rows(), None);
        assert_eq!(lines[1], "amber-falcon  give retries a budget  sess_123456");
    }

    #[test]
    fn a_narrow_table_cuts_first_and_then_drops_columns() {
        let lines = table(&COLUMNS, &rows(), Some(40));
        assert_eq!(lines[1], "amber-falcon  give retries…  sess_123456");
        let lines = table(&COLUMNS, &rows(), Some(30));
        assert_eq!(lines[1], "amber-falcon  give retries a…");
        assert!(lines.iter().all(|line| line.width() <= 30), "{lines:?}");
    }

    #[test]
    fn columns_are_cut_to_their_good_width_before_any_is_cut_further() {
        let columns = [
            Column { title: "STATUS", fit: ColumnFit::Cut { min: 4, good: 18 } },
            Column { title: "GOAL", fit: ColumnFit::Cut { min: 4, good: 12 } },
            Column { title: "WORKFLOW", fit: ColumnFit::Drop(1) },
        ];
        let row = ["waits for a person", "give retries a budget", "wr.small_change"].map(str::to_owned);
        let rows = [row.to_vec()];
        assert_eq!(table(&columns, &rows, Some(36))[1], "waits for a person  give retries a…");
        assert_eq!(table(&columns, &rows, Some(32))[1], "waits for a person  give retrie…", "no workflow");
        assert_eq!(table(&columns, &rows, Some(20))[1], "waits fo…  give ret…", "and then both");
    }

    #[test]
    fn a_column_without_a_value_is_dropped() {
        let lines = table(&COLUMNS, &[vec!["amber-falcon".to_owned()]], None);
        assert_eq!(lines, ["RUN", "amber-falcon"]);
    }

    #[test]
    fn wide_characters_count_as_two() {
        assert_eq!(cut("日本語のゴール", 7), "日本語…");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrapped("one two three", Some(7)), ["one two", "three"]);
    }
}
