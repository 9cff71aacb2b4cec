//! GFM tables: one line a row, every row as wide as the widest.

use super::escape::{CELL_BREAK, CELL_ITEM, CELL_START, CELL_TEXT, LINE_BREAK, ROW_END, force_pipes};

/// Text that a cell reaching over several rows may add by being repeated, in bytes for the whole table.
const MAX_REPEATED: usize = 64 * 1024;
/// Columns that are written; a wider row loses the columns beyond.
const MAX_COLUMNS: usize = 256;

/// The content of a cell on one line: blocks parted by `<br>`, list items by semicolons.
pub(super) fn flat_cell(text: &str) -> String {
    let mut out = String::new();
    let mut after_item = false;
    let mut starts_item = false;
    for piece in text.split_inclusive([CELL_BREAK, CELL_ITEM, LINE_BREAK, '\n']) {
        let border = piece.chars().next_back().filter(|c| matches!(*c, CELL_BREAK | CELL_ITEM | LINE_BREAK | '\n'));
        let content = piece.trim_end_matches([CELL_BREAK, CELL_ITEM, LINE_BREAK, '\n']).trim_matches(' ');
        if !content.is_empty() {
            if !out.is_empty() {
                out.push_str(if starts_item && after_item { "; " } else { "<br>" });
            }
            out.push_str(content);
            after_item = starts_item;
            starts_item = false;
        }
        starts_item |= border == Some(CELL_ITEM);
    }
    force_pipes(&out)
}

#[derive(Debug, Clone)]
struct Cell<'a> {
    text: &'a str,
    columns: usize,
    rows: usize,
    align: &'a str,
}

/// The table whose rows and cells `text` holds, parted by the marks.
pub(super) fn layout(text: &str) -> String {
    let rows: Vec<Vec<Cell<'_>>> = text.split(ROW_END).map(cells_of).filter(|row| !row.is_empty()).collect();
    let grid = grid(&rows);
    let width = grid.iter().map(Vec::len).max().unwrap_or(0);
    let Some((header, body)) = grid.split_first() else { return String::new() };
    if grid.iter().flatten().all(|text| text.is_empty()) {
        return String::new();
    }
    let mut out = line(header, width);
    out.push_str("\n|");
    for align in alignments(&rows, width) {
        out.push_str(match align {
            "left" => " :--- |",
            "center" => " :---: |",
            "right" => " ---: |",
            _ => " --- |",
        });
    }
    for row in body {
        out.push('\n');
        out.push_str(&line(row, width));
    }
    out
}

fn cells_of(row: &str) -> Vec<Cell<'_>> {
    row.split(CELL_START)
        .filter_map(|cell| {
            let (layout, text) = cell.split_once(CELL_TEXT)?;
            let mut parts = layout.split(',');
            let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(1);
            let (columns, rows) = (number(), number());
            Some(Cell { text: text.trim_matches([' ', '\n']), columns, rows, align: parts.next().unwrap_or_default() })
        })
        .collect()
}

/// The cells' texts by row and column: a cell over several columns is followed by empty ones, a cell over several rows
/// is repeated in each.
fn grid<'a>(rows: &[Vec<Cell<'a>>]) -> Vec<Vec<&'a str>> {
    let mut grid: Vec<Vec<&str>> = Vec::with_capacity(rows.len());
    // What hangs down into the next row, by column: the text and the rows left.
    let mut hanging: Vec<(&str, usize)> = Vec::new();
    let mut repeated = 0;
    for row in rows {
        let mut line: Vec<&str> = Vec::new();
        let mut next: Vec<(&str, usize)> = Vec::new();
        let mut cells = row.iter();
        loop {
            let column = line.len();
            if column >= MAX_COLUMNS {
                break;
            }
            if let Some((text, left)) = hanging.get(column).copied().filter(|(_, left)| *left > 0) {
                repeated += text.len();
                line.push(if repeated <= MAX_REPEATED { text } else { "" });
                next.push((text, left - 1));
                continue;
            }
            let Some(cell) = cells.next() else {
                if hanging.iter().skip(column).all(|(_, left)| *left == 0) {
                    break;
                }
                line.push("");
                next.push(("", 0));
                continue;
            };
            for offset in 0..cell.columns.min(MAX_COLUMNS) {
                let text = if offset == 0 { cell.text } else { "" };
                line.push(text);
                next.push((text, cell.rows - 1));
            }
        }
        grid.push(line);
        hanging = next;
    }
    grid
}

/// The alignment of each column: that of its first cell that has one.
fn alignments<'a>(rows: &[Vec<Cell<'a>>], width: usize) -> Vec<&'a str> {
    let mut found = vec![""; width];
    for row in rows {
        let mut column = 0;
        for cell in row {
            if let Some(align) = found.get_mut(column).filter(|align| align.is_empty()) {
                *align = cell.align;
            }
            column += cell.columns;
        }
    }
    found
}

fn line(cells: &[&str], width: usize) -> String {
    let mut out = String::from("|");
    for column in 0..width {
        let text = cells.get(column).copied().unwrap_or_default();
        out.push(' ');
        out.push_str(text);
        out.push_str(if text.is_empty() { "|" } else { " |" });
    }
    out
}
