//! Formats tables that fit a terminal of 80 columns.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width,
    presets::UTF8_FULL_CONDENSED,
};

/// Terminal width that every table must fit.
pub(crate) const TERMINAL_WIDTH: usize = 80;

/// Minimum width of a column with wrapped text.
const MIN_COLUMN_WIDTH: usize = 8;
/// Total width of a cell's border and the spaces around its text.
const CELL_PADDING: usize = 3;
/// Maximum width of a task's or an arm's name in a table of tasks by arms.
const NAME_WIDTH: usize = 24;
/// Maximum number of characters in a cell. Names in imported files can have any length, but the
/// table library uses 16 bits to count characters.
const MAX_CELL_LENGTH: usize = 1_000;

/// Formats a table. Columns of numbers (`is_right_aligned`) are never wrapped; the other columns
/// share the remaining width.
pub(crate) fn format_table(
    headers: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    is_right_aligned: impl Fn(usize) -> bool,
) -> String {
    let align = |(column, text): (usize, String)| {
        let side =
            if is_right_aligned(column) { CellAlignment::Right } else { CellAlignment::Left };
        Cell::new(truncate_cell(text)).set_alignment(side)
    };
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TERMINAL_WIDTH as u16);
    table.set_header(headers.iter().map(|text| (*text).to_owned()).enumerate().map(align));
    let mut widths: Vec<usize> = headers.iter().map(|head| max_line_width(head)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(&row) {
            *width = max_line_width(cell).max(*width);
        }
        table.add_row(row.into_iter().enumerate().map(align));
    }
    for (index, (column, width)) in table.column_iter_mut().zip(widths).enumerate() {
        let narrowest = u16::try_from(width.min(MIN_COLUMN_WIDTH)).unwrap_or_default();
        column.set_constraint(match is_right_aligned(index) {
            true => ColumnConstraint::ContentWidth,
            false => ColumnConstraint::LowerBoundary(Width::Fixed(narrowest)),
        });
    }
    format!("{}\n", table.trim_fmt())
}

/// Formats a table with a first column of names and one column for each arm. Arms that do not fit
/// are moved to another table below.
pub(crate) fn format_table_by_arms(headers: &[&str], rows: Vec<Vec<String>>) -> String {
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        let cells = cells.map(max_line_width).max().unwrap_or(0);
        let head = headers.get(column).map_or(0, |head| max_line_width(head));
        cells.max(head).min(NAME_WIDTH) + CELL_PADDING
    };
    let mut out = String::new();
    let mut begin = 1;
    while begin < headers.len() {
        let mut used = wide(0) + 1;
        let mut end = begin;
        while end < headers.len() && (end == begin || used + wide(end) <= TERMINAL_WIDTH) {
            used += wide(end);
            end += 1;
        }
        let of = |row: &[String]| -> Vec<String> {
            row.first()
                .into_iter()
                .chain(row.get(begin..end).unwrap_or_default())
                .cloned()
                .collect()
        };
        let heads: Vec<&str> =
            headers.first().into_iter().chain(&headers[begin..end]).copied().collect();
        out.push_str(&format_table(&heads, rows.iter().map(|row| of(row)), |_| false));
        begin = end;
    }
    out
}

/// Truncates a string that does not fit into a table cell. The JSON report contains the full text.
fn truncate_cell(text: String) -> String {
    match text.char_indices().nth(MAX_CELL_LENGTH) {
        Some((at, _)) => format!("{}\u{2026}", &text[..at]),
        None => text,
    }
}

/// Returns the length of the longest line, in characters.
fn max_line_width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_80_columns() {
        let arms: Vec<String> = (0..9)
            .map(|number| format!("tools/some-vendor/some-very-long-model-{number}"))
            .collect();
        let headers: Vec<&str> =
            ["task"].into_iter().chain(arms.iter().map(String::as_str)).collect();
        let row = |id: &str| {
            [id.to_owned()]
                .into_iter()
                .chain(arms.iter().map(|_| "no (25.0% F2P)".into()))
                .collect()
        };
        let shown = format_table_by_arms(
            &headers,
            vec![row("t1"), row(&"scikit-learn__scikit-learn-".repeat(4))],
        );
        assert!(shown.lines().all(|line| line.chars().count() <= TERMINAL_WIDTH), "{shown}");
        let cells = shown.lines().filter(|line| line.contains("t1 ")).collect::<String>();
        assert_eq!(cells.matches("no (").count(), 9, "{shown}");
        let endless = "x".repeat(100_000);
        let shown =
            format_table_by_arms(&["task", &endless], vec![vec![endless.clone(), "yes".into()]]);
        assert!(shown.contains('\u{2026}') && shown.contains("yes"), "{}", shown.len());
        let numbers = vec!["arm ".repeat(30), "33.3% - 66.7%".into(), "ended ".repeat(30)];
        let shown =
            format_table(&["arm", "rate", "ended"], [numbers].into_iter(), |column| column == 1);
        assert!(shown.lines().all(|line| line.chars().count() <= TERMINAL_WIDTH), "{shown}");
        assert!(shown.contains("33.3% - 66.7%"), "{shown}");
    }
}
