//! A small run as figure, picture and trace; empty runs.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::page::Page;

fn slice(activity: Activity, start: f64, end: f64, label: &str) -> Slice {
    Slice { activity, start, end, label: label.into() }
}

fn small() -> Timeline {
    let computing = slice(Activity::Computing, 0.0, 2e-6, "");
    let phase = slice(Activity::Phase, 2e-6, 4e-6, "exchange <1>");
    let waiting = slice(Activity::Waiting, 2e-6, 4e-6, "");
    Timeline {
        title: "two \"ranks\"".into(),
        window: (0.0, 4e-6),
        lanes: vec![
            Lane { name: "rank 0".into(), slices: vec![computing.clone(), phase, waiting] },
            Lane { name: "rank 1".into(), slices: vec![computing] },
        ],
        messages: vec![Flow { from: 1, to: 0, sent: 2e-6, arrived: 3.5e-6, bytes: 1024 }],
        links: vec![NetworkLink { name: "1 → 0".into(), busy: vec![0.0, 0.0, 0.5, 0.5] }],
        left_out: vec!["Nothing else happened.".into()],
    }
}

#[test]
fn a_figure_shows_lanes_messages_and_links_and_needs_no_script() {
    let mut page = Page::new("run");
    page.timeline(&small());
    let html = page.to_html();
    assert!(!html.contains("<script") && html.contains("default-src 'none'"));
    for part in ["rank 1", "class=\"computing\"", "class=\"way\"", "1 → 0", "zoom64"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.contains("exchange &lt;1&gt;") && !html.contains("exchange <1>"));
    assert!(html.contains("Nothing else happened."));
    assert_eq!(html.matches("class=\"head\"").count(), 2, "one, and the legend's");
}

#[test]
fn a_picture_is_whole_and_names_everything() {
    let svg = small().to_svg();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
    assert!(!svg.contains("var("), "viewers other than browsers know no variables");
    let said = ["Nothing else happened.", "in a call"];
    for part in ["rank 0", "1 → 0", "0.5 µs", "class=\"busy\""].into_iter().chain(said) {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}

#[test]
fn a_trace_is_json_with_threads_flows_and_counters() {
    let trace = small().to_trace();
    let read: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert_eq!(read["traceEvents"].as_array().unwrap().len(), trace.lines().count() - 2);
    assert!(trace.contains("two \\\"ranks\\\""));
    assert_eq!(trace.matches("\"ph\":\"X\"").count(), 4);
    assert_eq!(trace.matches("\"ph\":\"s\"").count(), 1);
    assert_eq!(trace.matches("\"ph\":\"f\"").count(), 1);
    assert_eq!(trace.matches("\"ph\":\"C\"").count(), 2, "changes only");
    assert!(trace.contains("\"dur\":2.0,") && trace.contains("\"ts\":2.0}"), "{trace}");
    // An enclosing slice comes before those within it.
    assert!(trace.find("exchange").unwrap() < trace.find("\"name\":\"waiting\"").unwrap());
}

#[test]
fn an_empty_run_is_drawn() {
    let empty = Timeline::default();
    assert!(empty.to_svg().ends_with("</svg>"));
    assert!(empty.to_trace().contains("\"traceEvents\":["));
    assert_eq!((empty.share(Activity::Waiting), empty.links_table().len()), (0.0, 0));
    let mut page = Page::new("nothing");
    page.timeline(&empty);
    let odd = Timeline { window: (f64::NAN, f64::INFINITY), ..small() };
    assert!(!odd.to_svg().contains("NaN"), "{}", odd.to_svg());
    page.timeline(&odd);
    assert!(!page.to_html().contains("NaN"));
}

#[test]
fn shares_are_of_all_lanes_together() {
    assert_eq!(small().share(Activity::Computing), 0.5);
    assert_eq!(small().links[0].mean(), 0.25);
}
