//! The style of charts, in pages and in standalone files.
//!
//! In a page, colours are CSS variables that follow the reader's choice of a light or dark screen.
//! Only browsers know variables: librsvg, CairoSVG and most viewers draw `var(--ink)` black. So a
//! file has the literal colours of a light screen. A media query with the dark colours follows;
//! viewers ignore it.

/// The style of everything inside a chart. A page includes it once for all its charts.
pub(crate) const STYLE: &str = include_str!("chart.css");

/// The number of series colours; `chart.css` names them `--c0` and so on.
const SERIES: usize = 6;

/// The style of an SVG file with charts, and with elements that use the rules of `more`.
pub(crate) fn of_file(more: &str) -> String {
    let (light, rest) = STYLE.split_once("@media").unwrap_or_default();
    let (dark, rules) = rest.split_once("\n}\n").unwrap_or_default();
    // Each rule is one line.
    let rules = rules.lines().chain(more.lines()).filter(|rule| !rule.contains("{ --c:"));
    let rules: Vec<String> = rules.flat_map(for_each_series).collect();
    let literal = |rule: &String| resolve(rule, &[light]) + "\n";
    let on_dark =
        |rule: &String| rule.contains("var(").then(|| resolve(rule, &[dark, light]) + "\n");
    format!(
        "{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
        rules.iter().map(literal).collect::<String>(),
        rules.iter().filter_map(on_dark).collect::<String>(),
    )
}

/// Expands a rule that uses the series colour into one rule per series.
fn for_each_series(rule: &str) -> Vec<String> {
    match rule.split_once(" {") {
        Some((selector, body)) if body.contains("var(--c)") => (0..SERIES)
            .map(|n| {
                format!("{selector}.c{n} {{{}", body.replace("var(--c)", &format!("var(--c{n})")))
            })
            .collect(),
        _ => vec![rule.to_owned()],
    }
}

/// A rule with its variables replaced. The first palette that defines a variable wins.
fn resolve(rule: &str, palettes: &[&str]) -> String {
    let mut parts = rule.split("var(");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap_or((part, ""));
        let value = |palette: &&str| {
            let (_, after) = palette.split_once(&format!("{name}: "))?;
            after.split_once(';').map(|(value, _)| value.to_owned())
        };
        out += &palettes.iter().find_map(value).unwrap_or_default();
        out += rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_literal_colours_for_every_series_and_both_screens() {
        let style = of_file(".more { fill: var(--grid); }\n");
        assert!(!style.contains("var(") && !style.contains("--"), "{style}");
        for rule in [
            ".chart text { fill: #1b1b19; }",
            ".chart .line.c0 { fill: none; stroke: #0060a0; stroke-width",
            ".chart .line.c0 { fill: none; stroke: #5aaee8; stroke-width",
            ".chart .area.c5 { fill: #19779e; }",
            ".more { fill: #e9e8e2; }",
            ".more { fill: #2a2d31; }",
            ".chart { font: 12px/1 \"Helvetica Neue\", ",
            ".chart .line.dashed { stroke-dasharray: 7 3; }",
        ] {
            assert!(style.contains(rule), "{rule}: {style}");
        }
        assert_eq!(style.matches('{').count(), style.matches('}').count());
        assert_eq!(style.matches(".chart .mark.c3 {").count(), 2);
    }
}
