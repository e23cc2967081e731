//! Tables: text and numbers with units, written for spreadsheets, terminals and pages.

use unicode_width::UnicodeWidthStr;

use crate::text::{escape, one_line};
use crate::unit::Unit;

/// A cell of at most this many columns is not broken in a page.
const SHORT: usize = 18;

/// The colour of a word in a page. The word has the same meaning: colour alone carries none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As expected.
    Good,
    /// To be read with care.
    Doubtful,
    /// Not as expected.
    Bad,
    /// Neither good nor bad.
    Plain,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Doubtful => "doubtful",
            Tone::Bad => "bad",
            Tone::Plain => "plain",
        }
    }
}

/// One entry of a [`Table`].
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Cell {
    /// No value.
    #[default]
    Empty,
    /// Words.
    Text(String),
    /// A word that a page also colours.
    Toned(String, Tone),
    /// A number in the base unit.
    Number {
        /// The value in the base unit. A value that is not finite is shown, but omitted from CSV.
        value: f64,
        /// Its unit.
        unit: Unit,
        /// Digits after the point; `None` for three significant digits.
        decimals: Option<u8>,
    },
}

impl Cell {
    /// A number shown with three significant digits.
    #[must_use]
    pub fn number(value: f64, unit: Unit) -> Self {
        Cell::Number { value, unit, decimals: None }
    }

    /// A number shown with `decimals` digits after the point.
    #[must_use]
    pub fn fixed(value: f64, unit: Unit, decimals: u8) -> Self {
        Cell::Number { value, unit, decimals: Some(decimals) }
    }

    /// A word that a page also colours.
    #[must_use]
    pub fn toned(word: impl Into<String>, tone: Tone) -> Self {
        Cell::Toned(word.into(), tone)
    }

    /// The cell as a reader sees it.
    #[must_use]
    pub fn display(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Text(text) | Cell::Toned(text, _) => text.clone(),
            Cell::Number { value, unit, decimals } => unit.format_with(*value, *decimals),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Cell::number(f64::from(count), Unit::Number)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::number(value, Unit::Number)
    }
}

/// Rows of cells under a header. A row may be shorter or longer than the header; missing cells are
/// empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    caption: String,
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows; `caption` may be empty.
    #[must_use]
    pub fn new<H: Into<String>>(
        caption: impl Into<String>,
        header: impl IntoIterator<Item = H>,
    ) -> Self {
        Table {
            caption: caption.into(),
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row.
    pub fn push<C: Into<Cell>>(&mut self, row: impl IntoIterator<Item = C>) -> &mut Self {
        self.rows.push(row.into_iter().map(Into::into).collect());
        self
    }

    /// The caption.
    #[must_use]
    pub fn caption(&self) -> &str {
        &self.caption
    }

    /// The number of rows without the header.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as CSV (RFC 4180). Numbers have full precision and base units, so that a
    /// spreadsheet or script reads exact values. The header names the units.
    ///
    /// If the numbers of a column differ in unit, each cell has its unit. Cells that begin like a
    /// formula are left as they are: the file states the measured values.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let units: Vec<Option<&str>> = (0..self.width()).map(|c| self.common_symbol(c)).collect();
        let header = units.iter().enumerate().map(|(c, unit)| match unit {
            Some(symbol) if !symbol.is_empty() => format!("{} ({symbol})", self.title(c)),
            _ => self.title(c).to_owned(),
        });
        let mut out = csv_line(header);
        for row in &self.rows {
            let field = |(c, unit): (usize, &Option<&str>)| match row.get(c) {
                Some(Cell::Text(text) | Cell::Toned(text, _)) => text.clone(),
                Some(Cell::Number { value, unit: own, .. }) if value.is_finite() => {
                    match own.symbol() {
                        symbol if unit.is_none() && !symbol.is_empty() => {
                            format!("{value} {symbol}")
                        }
                        _ => value.to_string(),
                    }
                }
                _ => String::new(),
            };
            out += &csv_line(units.iter().enumerate().map(field));
        }
        out
    }

    /// The table as text for a terminal. Columns are aligned by display width, numbers to the
    /// right, with a rule under the header. Each line ends with a newline and has no trailing
    /// blanks.
    #[must_use]
    pub fn to_text(&self) -> String {
        let display = |cell: &Cell| one_line(&cell.display());
        let body: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(display).collect()).collect();
        let header: Vec<String> = (0..self.width()).map(|c| one_line(self.title(c))).collect();
        let widths: Vec<usize> = (0..self.width())
            .map(|c| {
                let cells = body.iter().filter_map(|row| row.get(c)).chain([&header[c]]);
                cells.map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();

        let mut out = String::new();
        if !self.caption.is_empty() {
            out += &one_line(&self.caption);
            out.push('\n');
        }
        self.text_line(&mut out, &header, &widths);
        let rule: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        self.text_line(&mut out, &rule, &widths);
        for row in &body {
            self.text_line(&mut out, row, &widths);
        }
        out
    }

    /// The table as an HTML `table` element. The page writes and numbers the caption.
    pub(crate) fn to_html(&self) -> String {
        let numeric = |c: usize| if self.is_numeric(c) { " class=\"n\"" } else { "" };
        // Short names, and numbers with their unit, are not broken.
        let class = |c: usize, text: &str| match numeric(c) {
            "" if text.width() <= SHORT => " class=\"short\"",
            class => class,
        };
        let mut out = String::from("<table><thead><tr>");
        for c in 0..self.width() {
            out += &format!("<th scope=\"col\"{}>{}</th>", numeric(c), escape(self.title(c)));
        }
        out += "</tr></thead><tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for c in 0..self.width() {
                let text = row.get(c).map(Cell::display).unwrap_or_default();
                let class = class(c, &text);
                let text = escape(&text);
                out += &match row.get(c) {
                    Some(Cell::Toned(_, tone)) => {
                        format!("<td><span class=\"tone {}\">{text}</span></td>", tone.class())
                    }
                    _ => format!("<td{class}>{text}</td>"),
                };
            }
            out += "</tr>\n";
        }
        out + "</tbody></table>"
    }

    fn text_line(&self, out: &mut String, cells: &[String], widths: &[usize]) {
        let start = out.len();
        for (c, &width) in widths.iter().enumerate() {
            let cell = cells.get(c).map_or("", String::as_str);
            let blanks = " ".repeat(width - cell.width());
            if c > 0 {
                out.push_str("  ");
            }
            if self.is_numeric(c) {
                out.push_str(&blanks);
                out.push_str(cell);
            } else {
                out.push_str(cell);
                out.push_str(&blanks);
            }
        }
        out.truncate(start + out[start..].trim_end().len());
        out.push('\n');
    }

    fn width(&self) -> usize {
        self.rows.iter().map(Vec::len).chain([self.header.len()]).max().unwrap_or(0)
    }

    fn title(&self, column: usize) -> &str {
        self.header.get(column).map_or("", String::as_str)
    }

    fn column(&self, column: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().filter_map(move |row| row.get(column))
    }

    /// Whether a column holds only numbers and gaps. It is then aligned to the right, as is its
    /// title.
    fn is_numeric(&self, column: usize) -> bool {
        self.column(column).any(|cell| matches!(cell, Cell::Number { .. }))
            && !self.column(column).any(|c| matches!(c, Cell::Text(_) | Cell::Toned(..)))
    }

    /// The symbol of the base unit, if all numbers of a column share it.
    fn common_symbol(&self, column: usize) -> Option<&'static str> {
        let mut symbols = self.column(column).filter_map(|cell| match cell {
            Cell::Number { unit, .. } => Some(unit.symbol()),
            _ => None,
        });
        let first = symbols.next()?;
        symbols.all(|symbol| symbol == first).then_some(first)
    }
}

fn csv_line(fields: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = fields.map(csv_field).collect();
    quoted.join(",") + "\r\n"
}

fn csv_field(field: String) -> String {
    // Spaces at the ends are quoted too: many readers would trim them.
    let plain = !field.contains([',', '"', '\r', '\n']) && field.trim() == field;
    if plain { field } else { format!("\"{}\"", field.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new("One way", ["size", "fabric", "time"]);
        let cells = |bytes, fabric: &str, time| {
            [Cell::number(bytes, Unit::Bytes), fabric.into(), Cell::number(time, Unit::Seconds)]
        };
        table.push(cells(8.0, "shm", 78.2e-9)).push(cells(1024.0, "飛脚, \"x\"", 1.07e-6));
        table
    }

    #[test]
    fn csv_is_quoted_and_in_base_units() {
        assert_eq!(
            sample().to_csv(),
            "size (B),fabric,time (s)\r\n8,shm,0.0000000782\r\n\
             1024,\"飛脚, \"\"x\"\"\",0.00000107\r\n"
        );
    }

    #[test]
    fn csv_of_awkward_cells() {
        let mut table = Table::new("", ["a\nb", " c"]);
        table.push([Cell::number(f64::NAN, Unit::Seconds), Cell::Empty]);
        table.push([Cell::number(2.0, Unit::Bytes)]);
        table.push([Cell::number(1.0, Unit::Seconds), "x".into(), 1.5.into()]);
        assert_eq!(table.to_csv(), "\"a\nb\",\" c\",\r\n,,\r\n2 B,,\r\n1 s,x,1.5\r\n");
    }

    #[test]
    fn csv_numbers_keep_full_precision() {
        let mut table = Table::new("", ["v"]);
        table.push([0.1 + 0.2]);
        assert_eq!(table.to_csv(), "v\r\n0.30000000000000004\r\n");
    }

    #[test]
    fn text_is_aligned_by_display_width() {
        assert_eq!(
            sample().to_text(),
            "One way\n\
             \u{20}size  fabric        time\n\
             ─────  ─────────  ───────\n\
             \u{20} 8 B  shm        78.2 ns\n\
             1 KiB  飛脚, \"x\"  1.07 µs\n"
        );
    }

    #[test]
    fn text_cells_cannot_control_the_terminal() {
        let mut table = Table::new("a\u{1b}[2J", ["x\ny"]);
        table.push(["\u{1b}]0;title\u{7}"]);
        assert!(table.to_text().chars().all(|c| c == '\n' || !c.is_control()));
        assert_eq!(table.to_text().lines().count(), 4);
    }

    #[test]
    fn tables_without_rows_or_columns_can_be_written() {
        let none = Table::new("", Vec::<String>::new());
        assert_eq!((none.to_csv().as_str(), none.to_text().as_str()), ("\r\n", "\n\n"));
        let empty = Table::new("", ["a", "b"]);
        assert!(empty.is_empty());
        assert_eq!(empty.to_text(), "a  b\n─  ─\n");
        assert_eq!(empty.to_csv(), "a,b\r\n");
    }

    #[test]
    fn a_toned_word_is_a_word_everywhere_and_coloured_in_a_page() {
        let mut table = Table::new("", ["verdict"]);
        table.push([Cell::toned("a < b", Tone::Bad)]);
        assert_eq!(table.to_csv(), "verdict\r\na < b\r\n");
        assert!(table.to_text().ends_with("a < b\n"));
        let html = table.to_html();
        assert!(html.contains("<td><span class=\"tone bad\">a &lt; b</span></td>"), "{html}");
    }

    #[test]
    fn html_is_escaped_and_numbers_are_marked() {
        let html = sample().to_html();
        assert!(html.contains("<td class=\"n\">78.2 ns</td>"));
        assert!(html.contains("<td class=\"short\">飛脚, &quot;x&quot;</td>"));
        let long = Cell::from("more words than fit");
        let mut table = Table::new("", ["what"]);
        table.push([long]);
        assert!(table.to_html().contains("<td>more words than fit</td>"));
        assert!(html.contains("<th scope=\"col\" class=\"n\">size</th>"));
    }
}
