//! The page: text, figures, tables and key numbers in one self-contained HTML file.
//!
//! A report is mailed, archived and opened years later, so the file refers to nothing outside
//! itself: style and charts are inline, pictures and CSV downloads are data URIs, and there is no
//! script. The content security policy in its head makes the browser enforce that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::chart::{Chart, FULL_WIDTH, HALF_WIDTH, STYLE};
use crate::table::Table;
use crate::text::escape;
use crate::timeline::{TIMELINE_PAGE_STYLE, Timeline};

const PAGE_STYLE: &str = include_str!("page.css");

/// Charts show their data as a table up to this many rows ...
const MOST_ROWS_SHOWN: usize = 64;
/// ... and offer it as CSV up to this many. Beyond, the file would be mostly CSV.
const MOST_ROWS_OFFERED: usize = 5000;
/// A page with at least this many sections has a table of contents.
const SECTIONS_FOR_CONTENTS: usize = 4;

const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A picture to be embedded.
#[derive(Debug, Clone, Copy)]
pub struct Picture<'a> {
    /// The bytes of a PNG file.
    pub png: &'a [u8],
    /// A description for readers who cannot see the picture.
    pub alt: &'a str,
    /// The text below the picture.
    pub caption: &'a str,
}

/// A page under construction. Elements appear in the order in which they are added.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    lead: String,
    sections: Vec<String>,
    body: String,
    figures: usize,
    tables: usize,
    /// The style of elements that few pages use.
    more_style: &'static str,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Page {
            title: title.into(),
            lead: String::new(),
            sections: Vec::new(),
            body: String::new(),
            figures: 0,
            tables: 0,
            more_style: "",
        }
    }

    /// Sets the sentence below the title: the task, its subject, and the result.
    pub fn lead(&mut self, text: &str) -> &mut Self {
        self.lead = text.to_owned();
        self
    }

    /// Adds a strip of key numbers, each a label and a formatted value.
    pub fn facts<L: AsRef<str>, V: AsRef<str>>(
        &mut self,
        facts: impl IntoIterator<Item = (L, V)>,
    ) -> &mut Self {
        self.body += "<dl class=\"facts\">";
        for (label, value) in facts {
            let (label, value) = (escape(label.as_ref()), escape(value.as_ref()));
            self.body += &format!("<div><dt>{label}</dt><dd>{value}</dd></div>");
        }
        self.body += "</dl>\n";
        self
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) -> &mut Self {
        self.sections.push(title.to_owned());
        let (n, title) = (self.sections.len(), escape(title));
        self.body += &format!("<h2 id=\"s{n}\"><span class=\"no\">{n}</span>{title}</h2>\n");
        self
    }

    /// Adds text; an empty line separates paragraphs.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.paragraphs(text, "")
    }

    /// Adds an aside in small print: conditions, caveats, how something was measured.
    pub fn note(&mut self, text: &str) -> &mut Self {
        self.paragraphs(text, " class=\"note\"")
    }

    /// Adds preformatted text, such as a command or terminal output.
    pub fn code(&mut self, text: &str) -> &mut Self {
        self.body += &format!("<pre>{}</pre>\n", escape(text));
        self
    }

    /// Adds a table, numbered, with its CSV to download.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.tables += 1;
        let name = format!("table-{}", self.tables);
        self.body += &format!(
            "<figure class=\"table\" id=\"{name}\">\n<figcaption><b>Table {}</b> {} \
             {}</figcaption>\n<div class=\"scroll\">{}</div>\n</figure>\n",
            self.tables,
            escape(table.caption()),
            csv_link(table, &name),
            table.to_html(),
        );
        self
    }

    /// Adds a chart, numbered, with the data it shows.
    pub fn chart(&mut self, chart: impl Into<Chart>) -> &mut Self {
        self.chart_of_width(&chart.into(), FULL_WIDTH);
        self
    }

    /// Adds charts side by side, two to a row where the page is wide enough.
    pub fn charts(&mut self, charts: impl IntoIterator<Item = Chart>) -> &mut Self {
        self.body += "<div class=\"pair\">\n";
        for chart in charts {
            self.chart_of_width(&chart, HALF_WIDTH);
        }
        self.body += "</div>\n";
        self
    }

    /// Adds a timeline, numbered, as wide as the window, with a list of what is omitted.
    pub fn timeline(&mut self, timeline: &Timeline) -> &mut Self {
        self.more_style = TIMELINE_PAGE_STYLE;
        let caption = self.next_figure(&timeline.title);
        self.body += &format!("<figure>{caption}{}</figure>\n", timeline.to_figure());
        self.note(&timeline.left_out.join("\n\n"))
    }

    /// Adds a picture from the bytes of a PNG file, numbered.
    pub fn image(&mut self, png: &[u8], alt: &str, caption: &str) -> &mut Self {
        self.picture(Picture { png, alt, caption });
        self
    }

    /// Adds pictures side by side, all in one row where the page is wide enough.
    pub fn images<'a>(&mut self, pictures: impl IntoIterator<Item = Picture<'a>>) -> &mut Self {
        self.body += "<div class=\"row\">\n";
        for picture in pictures {
            self.picture(picture);
        }
        self.body += "</div>\n";
        self
    }

    /// The page as one HTML file.
    #[must_use]
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let lead = match self.lead.as_str() {
            "" => String::new(),
            lead => format!("<p class=\"lead\">{}</p>\n", escape(lead)),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             img-src data:; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}{PAGE_STYLE}{}</style>\n</head>\n<body>\n\
             <main>\n<header>\n<h1>{title}</h1>\n{lead}</header>\n{}{}</main>\n</body>\n</html>\n",
            self.more_style,
            self.contents(),
            self.body
        )
    }

    fn contents(&self) -> String {
        if self.sections.len() < SECTIONS_FOR_CONTENTS {
            return String::new();
        }
        let mut out = String::from("<nav aria-label=\"Contents\"><ol>\n");
        for (i, title) in self.sections.iter().enumerate() {
            out += &format!("<li><a href=\"#s{}\">{}</a></li>\n", i + 1, escape(title));
        }
        out + "</ol></nav>\n"
    }

    fn paragraphs(&mut self, text: &str, attributes: &str) -> &mut Self {
        for paragraph in text.split("\n\n").map(str::trim).filter(|p| !p.is_empty()) {
            self.body += &format!("<p{attributes}>{}</p>\n", escape(paragraph));
        }
        self
    }

    fn next_figure(&mut self, caption: &str) -> String {
        self.figures += 1;
        format!("<figcaption><b>Figure {}</b> {}</figcaption>\n", self.figures, escape(caption))
    }

    fn chart_of_width(&mut self, chart: &Chart, width: f64) {
        let caption = self.next_figure(chart.title());
        let name = format!("figure-{}", self.figures);
        self.body += &format!(
            "<figure class=\"plot\" id=\"{name}\">\n{caption}<div class=\"scroll\">{}</div>\n",
            chart.to_inline_svg(width)
        );
        let data = chart.to_table();
        if (1..=MOST_ROWS_SHOWN).contains(&data.len()) {
            self.body += &format!(
                "<details><summary>Data</summary>{}<div class=\"scroll\">{}</div></details>\n",
                csv_link(&data, &name),
                data.to_html()
            );
        } else if (1..=MOST_ROWS_OFFERED).contains(&data.len()) {
            self.body += &format!("<p class=\"data\">Data {}</p>\n", csv_link(&data, &name));
        }
        self.body += "</figure>\n";
    }

    fn picture(&mut self, picture: Picture<'_>) {
        let caption = self.next_figure(picture.caption);
        let content = match png_size(picture.png) {
            Some((width, height)) => {
                // Images below 400 by 400 pixels are data, one square per cell. Smoothing would
                // falsify them.
                let class = if width.max(height) < 400 { " class=\"cells\"" } else { "" };
                format!(
                    "<img{class} width=\"{width}\" height=\"{height}\" alt=\"{}\" \
                     src=\"data:image/png;base64,{}\">\n",
                    escape(picture.alt),
                    BASE64.encode(picture.png)
                )
            }
            None => {
                let alt = escape(picture.alt);
                format!("<p class=\"missing\">{alt} (the picture is not a PNG file)</p>\n")
            }
        };
        self.body += &format!("<figure>\n{content}{caption}</figure>\n");
    }
}

/// A link that downloads a table.
fn csv_link(table: &Table, name: &str) -> String {
    let data = BASE64.encode(table.to_csv());
    format!(
        "<a class=\"csv\" download=\"{name}.csv\" \
         href=\"data:text/csv;charset=utf-8;base64,{data}\">CSV</a>"
    )
}

/// Width and height of a PNG file in pixels, from its first chunk (PNG §11.2.1). `None` if the
/// bytes do not begin like a PNG file. The browser checks the rest.
fn png_size(png: &[u8]) -> Option<(u32, u32)> {
    let header = png.strip_prefix(PNG_SIGNATURE)?.get(4..16)?;
    let word = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let (width, height) = (word(4)?, word(8)?);
    (header.starts_with(b"IHDR") && width > 0 && height > 0).then_some((width, height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_png_is_read_from_its_header() {
        let mut png = PNG_SIGNATURE.to_vec();
        png.extend(b"\0\0\0\x0dIHDR\0\0\0\x40\0\0\x01\0");
        assert_eq!(png_size(&png), Some((64, 256)));
        for end in 0..png.len() {
            assert_eq!(png_size(&png[..end]), None, "cut at {end}");
        }
        assert_eq!(png_size(b"GIF89a"), None);
        png[19] = 0;
        assert_eq!(png_size(&png), None, "no width");
    }
}
