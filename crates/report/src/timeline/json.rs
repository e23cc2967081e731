//! The trace event format, for Chrome's tracing view and Perfetto.
//!
//! Ranks are threads of one process, links are counters of another. Messages are flows from the
//! slice in which they were sent to the slice in which they arrived. Times are in µs, to the
//! picosecond. One event is one line. Events are written one by one, since a run may have millions.

use serde_json::{Value, json};

use super::{Activity, Flow, Lane, NetworkLink, Slice, Timeline};

/// Process numbers of the two groups.
const RANKS: u32 = 1;
const LINKS: u32 = 2;

impl Timeline {
    /// The run as a trace file in JSON.
    #[must_use]
    pub fn to_trace(&self) -> String {
        let about = json!({ "title": self.title, "left out": self.left_out.join(" ") });
        let mut out =
            format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[\n");
        let mut put = |event: Value| out += &format!("{event},\n");
        put(name("process_name", (RANKS, 0), "ranks"));
        if !self.links.is_empty() {
            put(name("process_name", (LINKS, 0), "links"));
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            thread(&mut put, number, lane);
        }
        for (number, message) in self.messages.iter().enumerate() {
            flow(&mut put, number, message);
        }
        for link in &self.links {
            counter(&mut put, self.window, link);
        }
        // The last event has no comma.
        out.truncate(out.len() - ",\n".len());
        out + "\n]}\n"
    }
}

fn thread(put: &mut impl FnMut(Value), number: usize, lane: &Lane) {
    put(name("thread_name", (RANKS, number), &lane.name));
    let order = json!({ "sort_index": number });
    put(json!({
        "ph": "M", "name": "thread_sort_index", "pid": RANKS, "tid": number, "args": order
    }));
    // Viewers nest slices that begin together by their order: the longer one comes first.
    let mut slices: Vec<&Slice> = lane.slices.iter().collect();
    slices.sort_by(|a, b| a.start.total_cmp(&b.start).then(b.end.total_cmp(&a.end)));
    for slice in slices {
        let word = slice.activity.word();
        let label = if slice.label.is_empty() { word } else { &slice.label };
        let (start, span) = (micro(slice.start), micro(slice.end - slice.start));
        put(json!({
            "ph": "X", "name": label, "cat": word, "pid": RANKS, "tid": number,
            "ts": start, "dur": span, "cname": colour(slice.activity)
        }));
    }
}

/// Reserved colours of the viewers; Perfetto chooses by name and ignores them.
fn colour(activity: Activity) -> &'static str {
    match activity {
        Activity::Computing => "thread_state_running",
        Activity::Calling => "thread_state_iowait",
        Activity::Waiting => "thread_state_sleeping",
        Activity::Phase => "generic_work",
    }
}

fn flow(put: &mut impl FnMut(Value), number: usize, message: &Flow) {
    let Flow { from, to, sent, arrived, bytes } = *message;
    let event = |phase, lane: usize, time| {
        json!({
            "ph": phase, "id": number, "name": "message", "cat": "message", "pid": RANKS,
            "tid": lane, "ts": micro(time), "args": { "bytes": bytes }
        })
    };
    put(event("s", from, sent));
    let mut end = event("f", to, arrived);
    // Bind the flow to the enclosing slice, not to the next one.
    end["bp"] = json!("e");
    put(end);
}

fn counter(put: &mut impl FnMut(Value), (start, end): (f64, f64), link: &NetworkLink) {
    let step = (end - start) / link.busy.len().max(1) as f64;
    let mut last = None;
    for (place, &busy) in link.busy.iter().enumerate() {
        // A counter keeps its value, so only changes are written.
        if last.replace(busy) == Some(busy) {
            continue;
        }
        let percent = (busy * 1000.0).round() / 10.0;
        let time = micro(start + step * place as f64);
        put(json!({
            "ph": "C", "name": link.name, "pid": LINKS, "ts": time, "args": { "busy %": percent }
        }));
    }
}

fn name(kind: &str, (process, thread): (u32, usize), name: &str) -> Value {
    json!({ "ph": "M", "name": kind, "pid": process, "tid": thread, "args": { "name": name } })
}

/// Seconds as µs, to the picosecond. A value that is not finite becomes 0, because JSON has none.
fn micro(seconds: f64) -> f64 {
    if seconds.is_finite() { (seconds * 1e12).round() / 1e6 } else { 0.0 }
}
