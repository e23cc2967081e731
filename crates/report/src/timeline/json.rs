//! The trace event format: what Chrome's tracing view and Perfetto open.
//!
//! Ranks are threads of one process, links counters of another; messages are flows from the slice
//! in which they were sent to the slice in which they arrived. Times are in µs with six decimals,
//! so that a picosecond is not lost.

use std::fmt::Write;

use super::{Activity, Flow, Lane, Link, Slice, Timeline};

/// Process numbers of the two groups.
const RANKS: u32 = 1;
const LINKS: u32 = 2;

impl Timeline {
    /// The run as a trace file in JSON.
    #[must_use]
    pub fn to_trace(&self) -> String {
        let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":");
        string(&mut out, &self.title);
        out += ",\"left out\":";
        string(&mut out, &self.left_out.join(" "));
        out += "},\"traceEvents\":[\n";
        name(&mut out, "process_name", (RANKS, 0), "ranks");
        if !self.links.is_empty() {
            name(&mut out, "process_name", (LINKS, 0), "links");
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            thread(&mut out, number, lane);
        }
        for (number, message) in self.messages.iter().enumerate() {
            flow(&mut out, number, message);
        }
        for link in &self.links {
            counter(&mut out, self.window, link);
        }
        // The last event has no comma behind it.
        out.truncate(out.trim_end().trim_end_matches(',').len());
        out + "\n]}\n"
    }
}

fn thread(out: &mut String, number: usize, lane: &Lane) {
    name(out, "thread_name", (RANKS, number), &lane.name);
    // Viewers nest slices that begin together by their order: the longer one first.
    let mut slices: Vec<&Slice> = lane.slices.iter().collect();
    slices.sort_by(|a, b| a.start.total_cmp(&b.start).then(b.end.total_cmp(&a.end)));
    for slice in slices {
        out.push_str("{\"ph\":\"X\",\"name\":");
        let word = slice.activity.word();
        let label = if slice.label.is_empty() { word } else { &slice.label };
        string(out, label);
        let (start, span) = (micro(slice.start), micro(slice.end - slice.start));
        let colour = colour(slice.activity);
        let _ = write!(out, ",\"cat\":\"{word}\",\"pid\":{RANKS},\"tid\":{number}");
        let _ = writeln!(out, ",\"ts\":{start},\"dur\":{span}{colour}}},");
    }
}

/// Reserved colours of the viewers; Perfetto chooses by name and ignores them.
fn colour(activity: Activity) -> &'static str {
    match activity {
        Activity::Computing => ",\"cname\":\"thread_state_running\"",
        Activity::Calling => ",\"cname\":\"thread_state_iowait\"",
        Activity::Waiting => ",\"cname\":\"thread_state_sleeping\"",
        Activity::Phase => "",
    }
}

fn flow(out: &mut String, number: usize, message: &Flow) {
    let Flow { from, to, sent, arrived, bytes } = *message;
    for (phase, lane, time) in [("\"s\"", from, sent), ("\"f\",\"bp\":\"e\"", to, arrived)] {
        let _ = writeln!(
            out,
            "{{\"ph\":{phase},\"id\":{number},\"name\":\"message\",\"cat\":\"message\",\"pid\":\
             {RANKS},\"tid\":{lane},\"ts\":{},\"args\":{{\"bytes\":{bytes}}}}},",
            micro(time)
        );
    }
}

fn counter(out: &mut String, (start, end): (f64, f64), link: &Link) {
    let step = (end - start) / link.busy.len().max(1) as f64;
    let mut last = None;
    for (place, &busy) in link.busy.iter().enumerate() {
        // A counter keeps its value: only changes are written.
        if last.replace(busy) == Some(busy) {
            continue;
        }
        out.push_str("{\"ph\":\"C\",\"name\":");
        string(out, &link.name);
        let time = micro(start + step * place as f64);
        let percent = (busy * 1000.0).round() / 10.0;
        let _ =
            writeln!(out, ",\"pid\":{LINKS},\"ts\":{time},\"args\":{{\"busy %\":{percent}}}}},");
    }
}

fn name(out: &mut String, kind: &str, (process, thread): (u32, usize), name: &str) {
    let _ = write!(
        out,
        "{{\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{process},\"tid\":{thread},\"args\":{{\"name\":"
    );
    string(out, name);
    out.push_str("}},\n");
    if kind == "thread_name" {
        let _ = writeln!(
            out,
            "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{process},\"tid\":{thread},\
             \"args\":{{\"sort_index\":{thread}}}}},"
        );
    }
}

/// Seconds as µs; what is not finite as 0, which JSON can hold.
fn micro(seconds: f64) -> String {
    let value = if seconds.is_finite() { seconds * 1e6 } else { 0.0 };
    format!("{value:.6}")
}

/// A JSON string (RFC 8259).
fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
