//! The page as a whole: it has its structure, is self-contained, and escapes hostile text.

use hikyaku_report::{
    Axis, BarChart, Cell, Chart, LineChart, Page, Picture, Series, StackedBars, Table, Unit,
};

/// The smallest bytes with a PNG header: 2 by 1 pixels.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x01\x08\0\0\0\0";

fn page(text: &str) -> String {
    let line =
        LineChart::new(text, Axis::log2(text, Unit::Bytes), Axis::linear(text, Unit::Seconds))
            .with(Series::line(text, vec![(8.0, 1e-6), (16.0, 2e-6)]));
    let bars = BarChart::new(text, text, Unit::PerSecond, [text]).with(text, vec![1.0]);
    let stacked = StackedBars::new(text, text, Unit::Seconds, [text]).with(text, vec![1.0]);
    let mut table = Table::new(text, [text, "n"]);
    table.push([Cell::from(text), Cell::number(2.0, Unit::Bytes)]);

    let mut page = Page::new(text);
    page.lead(text)
        .facts([(text, text)])
        .section(text)
        .text(text)
        .table(&table)
        .section(text)
        .chart(line)
        .charts([Chart::from(bars), Chart::from(stacked)])
        .section(text)
        .image(PNG, text, text)
        .images([Picture { png: b"GIF89a", alt: text, caption: text }])
        .section(text)
        .note(text)
        .code(text);
    page.to_html()
}

/// The tag names in order, except those inside charts and styles.
fn outline(html: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut chart = false;
    for piece in html.split('<').skip(1) {
        let name = piece.split([' ', '>', '\n']).next().unwrap_or_default();
        if !chart && !name.starts_with('/') {
            tags.push(name);
        }
        chart = (chart || name == "svg") && name != "/svg";
    }
    tags
}

#[test]
fn a_page_has_this_structure() {
    let html = page("words");
    let table =
        ["figure", "figcaption", "b", "a", "div", "table", "thead", "tr", "th", "th", "tbody"];
    let chart =
        ["figure", "figcaption", "b", "div", "svg", "details", "summary", "a", "div", "table"];
    let tags = outline(&html).join(" ");
    let expected = [
        "!doctype html head meta meta meta meta title style body main header h1 p nav ol li a li a",
        "li a li a dl div dt dd h2 span p",
        &table.join(" "),
        "tr td td h2 span",
        &chart.join(" "),
        "thead tr th th tbody tr td td tr td td div",
        &chart.join(" "),
        "thead tr th th tbody tr td td",
        &chart.join(" "),
        "thead tr th th tbody tr td td h2 span figure img figcaption b div figure p figcaption b",
        "h2 span p pre",
    ];
    assert_eq!(tags, expected.join(" "));
    assert!(html.contains("<b>Figure 5</b> words") && html.contains("<b>Table 1</b> words"));
    assert!(
        html.contains("<img class=\"cells\" width=\"2\" height=\"1\" alt=\"words\" src=\"data:")
    );
    assert!(html.contains("the picture is not a PNG file"));
    assert_eq!(html, page("words"), "the same data gives the same bytes");
}

#[test]
fn a_page_refers_to_nothing_outside_itself() {
    let html = page("words");
    for outside in
        ["http:", "https:", "//", "url(", "@import", "<script", "<link", "<iframe", "<base"]
    {
        // Base64 may contain one of these by chance, but only in long data; the sample is short.
        assert!(!html.contains(outside), "{outside}");
    }
    let values = |name: &'static str| html.split(name).skip(1);
    assert!(values(" src=\"").all(|value| value.starts_with("data:image/png;base64,")));
    assert!(values(" href=\"").all(|v| v.starts_with('#') || v.starts_with("data:text/csv;")));
    assert!(values(" id=\"").count() >= 8);
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn hostile_text_stays_text() {
    let hostile = "</title></style></svg>\"'><script>alert(1)</script><img onerror=x>\u{1b}[2J\0";
    let (html, plain) = (page(hostile), page("words"));
    assert_eq!(outline(&html), outline(&plain), "text does not change the structure");
    assert!(!html.contains("<script") && !html.contains("<img onerror"));
    assert!(html.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
    let escaped = "&lt;script&gt;alert(1)&lt;/script&gt;";
    assert!(html.matches(escaped).count() > 20);
}

#[test]
fn an_empty_page_is_a_page() {
    let html = Page::new("").to_html();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    assert!(!html.contains("<nav") && !html.contains("class=\"lead\""));
}

#[test]
fn very_long_data_is_not_offered_as_csv() {
    let chart = |n: u32| {
        let points = (0..n).map(|i| (f64::from(i), 1.0)).collect();
        let axis = || Axis::linear("v", Unit::Number);
        Page::new("t")
            .chart(LineChart::new("t", axis(), axis()).with(Series::line("", points)))
            .to_html()
    };
    assert!(chart(64).contains("<details>"));
    let offered = chart(65);
    assert!(!offered.contains("<details>") && offered.contains("download=\"figure-1.csv\""));
    let long = chart(1_000_000);
    assert!(!long.contains("download=") && long.len() < 100_000, "{}", long.len());
}

#[test]
fn paragraphs_are_separated_by_empty_lines() {
    let html = Page::new("t").text("one\ntwo\n\n\n\nthree\n").to_html();
    assert!(html.contains("<p>one\ntwo</p>\n<p>three</p>\n"));
}
