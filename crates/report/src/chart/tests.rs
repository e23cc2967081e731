//! Guarantees of every kind of chart: the SVG is well-formed, escaped and deterministic, and every
//! input draws: empty, single, equal, huge and NaN values.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::unit::Unit;

fn latency() -> LineChart {
    let points = |factor: f64| (3..=20).map(|e| (2_f64.powi(e), factor * 2_f64.powi(e))).collect();
    LineChart::new(
        "Latency <one way> & \"more\"",
        Axis::log2("size", Unit::Bytes),
        Axis::log10("time", Unit::Seconds),
    )
    .with(Series::line("hikyaku", points(1e-10)))
    .with(Series::line("<script>", points(2e-10)))
    .with(Series::reference("hardware", points(0.8e-10)))
}

fn line(points: Vec<(f64, f64)>, scale: fn(String, Unit) -> Axis) -> Chart {
    let axis = || scale("v".to_owned(), Unit::Number);
    LineChart::new("t", axis(), axis()).with(Series::line("s", points)).into()
}

/// Checks that tags nest and attributes are quoted; charts have neither comments nor CDATA.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>') || open.last() == Some(&"style"), "stray > in {svg}");
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?} left open");
    assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
}

fn check(chart: &Chart) -> String {
    let svg = chart.to_svg();
    assert_well_formed(&svg);
    assert_well_formed(&chart.to_inline_svg(HALF_WIDTH));
    assert_eq!(svg, chart.to_svg(), "the same data gives the same bytes");
    assert!(!chart.to_table().to_csv().is_empty());
    svg
}

#[test]
fn a_line_chart_has_its_marks_labels_and_tooltips() {
    let svg = check(&latency().into());
    assert_eq!(svg.matches("<circle").count(), 18, "one marker per point of the first series");
    assert_eq!(svg.matches("<path class=\"line").count(), 3);
    assert!(svg.contains("<title>hikyaku\nsize: 1 KiB\ntime: 102 ns</title>"));
    assert!(svg.contains(">64 KiB</text>") && svg.contains(">1 µs</text>"), "{svg}");
    assert!(svg.contains("aria-label=\"Latency &lt;one way&gt; &amp; &quot;more&quot;\""));
    assert!(!svg.contains("<script"));
}

#[test]
fn few_lines_have_end_names_many_a_legend() {
    let svg = check(&latency().into());
    assert!(!svg.contains("x=\"30\" y=\"12\""), "no legend");
    let mut many = latency();
    for i in 0..9 {
        many.series.push(Series::line(format!("series {i}"), vec![(8.0, 1e-9), (64.0, 1e-8)]));
    }
    let svg = check(&many.into());
    assert!(svg.contains("series 8") && svg.contains("dashed"));
}

#[test]
fn charts_without_data_say_so() {
    let axis = || Axis::linear("v", Unit::Number);
    let charts: [Chart; 6] = [
        LineChart::new("", axis(), axis()).into(),
        LineChart::new("", axis(), axis()).with(Series::line("s", vec![])).into(),
        BarChart::new("", "v", Unit::Number, ["a"]).into(),
        BarChart::new("", "v", Unit::Number, Vec::<String>::new()).with("s", vec![1.0]).into(),
        StackedBars::new("", "v", Unit::Seconds, ["a"]).into(),
        StackedBars::new("", "v", Unit::Seconds, Vec::<String>::new()).with("r", vec![1.0]).into(),
    ];
    for chart in &charts {
        assert!(check(chart).contains("No data to draw"), "{chart:?}");
    }
}

#[test]
fn values_without_a_place_are_counted() {
    let points = vec![(1.0, 1.0), (2.0, f64::NAN), (3.0, -1.0), (4.0, f64::INFINITY), (5.0, 2.0)];
    let svg = check(&line(points.clone(), Axis::log10));
    assert!(svg.contains("3 values not drawn"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 2, "what is left is still seen");
    assert!(check(&line(points, Axis::linear)).contains("2 values not drawn"));
    let svg = check(&line(vec![(0.0, 0.0)], Axis::log2));
    assert!(svg.contains("No data to draw") && svg.contains("1 value not drawn"));
}

#[test]
fn awkward_ranges_are_drawn() {
    let scales: [fn(String, Unit) -> Axis; 3] = [Axis::linear, Axis::log10, Axis::log2];
    let cases = [
        vec![(1.0, 1.0)],
        vec![(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)],
        vec![(1e-280, 1e280), (1e280, 1e-280)],
        vec![(1.0, 1.0), (1.0 + 1e-15, 1.0 + 1e-15)],
        vec![(1.0, f64::MAX), (2.0, f64::MIN), (3.0, f64::MIN_POSITIVE), (4.0, 1.0)],
        (0..70_000).map(|i| (f64::from(i), f64::from(i % 13) + 1.0)).collect(),
    ];
    for points in cases {
        for scale in scales {
            let svg = check(&line(points.clone(), scale));
            assert!(svg.len() < 200_000, "{}", svg.len());
            assert!(svg.contains("class=\"tick\""), "{svg}");
        }
    }
}

#[test]
fn bars_show_values_gaps_and_negatives() {
    let chart = BarChart::new("Rate", "rate", Unit::PerSecond, ["8 B", "1 KiB"])
        .with("a", vec![47e6, f64::NAN])
        .with("b", vec![-1e6]);
    let svg = check(&chart.clone().into());
    assert!(svg.contains(">47.0</text>") && svg.contains(">−1.00</text>"), "{svg}");
    assert_eq!(svg.matches(">n/a</text>").count(), 2);
    assert!(svg.contains("2 values not drawn"));
    assert_eq!(
        Chart::from(chart).to_table().to_csv(),
        ",a (1/s),b (1/s)\r\n8 B,47000000,-1000000\r\n1 KiB,,\r\n"
    );
}

#[test]
fn stacked_bars_show_shares_and_totals() {
    let chart = StackedBars::new("Time", "time", Unit::Seconds, ["computing", "waiting"])
        .with("rank 0", vec![0.75, 0.25])
        .with("rank 1", vec![0.0, 0.0])
        .with("rank 2", vec![f64::NAN, -1.0, 99.0]);
    let svg = check(&chart.into());
    assert!(svg.contains(">75.0 %</text>") && svg.contains(">25.0 %</text>"), "{svg}");
    assert!(svg.contains("rank 0\ncomputing: 750 ms (75.0 %)"));
    assert!(svg.contains(">1.00 s</text>") && svg.contains("2 values not drawn"));
}

/// The contrast of two `#rrggbb` colours (WCAG 2.1, relative luminance).
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |colour: &str| {
        let channel = |i: usize| {
            let value = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn every_colour_can_be_read_on_its_paper() {
    let (light, dark) = STYLE.split_once("@media").unwrap();
    for (mode, css) in [("light", light), ("dark", dark)] {
        let colour = |name: &str| {
            let start = css.find(&format!("{name}:")).unwrap() + name.len() + 1;
            css[start..].trim_start()[..7].to_owned()
        };
        let paper = colour("--paper");
        for name in ["--ink", "--muted", "--c0", "--c1", "--c2", "--c3", "--c4", "--c5"] {
            let ratio = contrast(&colour(name), &paper);
            assert!(ratio >= 4.5, "{mode} {name} has a contrast of {ratio:.2}");
        }
    }
}

#[test]
fn a_diagram_leaves_out_lines_without_places() {
    let place = |x, y, label: &str| DiagramPlace { x, y, label: label.into() };
    let diagram = Diagram {
        title: "A pair".into(),
        places: vec![place(0.0, 0.0, "0"), place(1.0, 1.0, ""), place(f64::NAN, 0.0, "<lost>")],
        lines: vec![(0, 1), (1, 2), (0, 9)],
    };
    let svg = check(&diagram.into());
    assert_eq!(svg.matches("<circle").count(), 1);
    assert_eq!(svg.matches("class=\"mark c1\"").count(), 1);
    assert_eq!(svg.matches("<line").count(), 1);
    assert!(svg.contains("1 value not drawn"));
    let empty = check(&Diagram::default().into());
    assert!(empty.contains("No data to draw"));
}

#[test]
fn bands_and_printed_values_are_drawn_and_are_in_the_data() {
    let axis = |label| Axis::linear(label, Unit::Number);
    let line = Series::line("model", vec![(1.0, 10.0), (3.0, 30.0)]);
    let line = Series { band: vec![(9.0, 12.0), (20.0, 90.0)], ..line };
    let chart = LineChart::new("t", axis("x"), axis("y"))
        .with(line)
        .with(Series::printed("paper", vec![(2.0, 21.0), (3.0, 33.0)]));
    let svg = check(&chart.clone().into());
    assert_eq!(svg.matches("class=\"band c0\"").count(), 1, "{svg}");
    assert_eq!(svg.matches("class=\"mark printed\"").count(), 3, "two points and the legend");
    assert!(svg.contains(">80</text>"), "the axis reaches to the band's end: {svg}");
    assert_eq!(
        Chart::from(chart).to_table().to_csv(),
        "x,model,lowest model,highest model,paper\r\n\
         1,10,9,12,\r\n2,,,,21\r\n3,30,20,90,33\r\n"
    );
}
