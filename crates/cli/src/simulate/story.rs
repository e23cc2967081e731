//! Converts the records of a simulation to a timeline: each rank's activities, and the messages.
//!
//! The reader uses only the records and not their origin, so it works for runs of processes as for
//! runs of tasks. Records are in the order of their causes. Within one rank, and between one pair
//! of ranks in one direction, that is the order of time. So an arrival belongs to the oldest
//! message of that sender that has not arrived yet.
//!
//! Large runs are reduced to a displayable part: the first ranks, a first span of time, the busiest
//! links. The timeline states what is left out.

use std::collections::{BTreeMap, VecDeque};

use hikyaku_report::{Activity, Flow, Lane, NetworkLink, Slice, Timeline};
use hikyaku_sim::engine::{RecordKind, Trace, TraceRecord};
use hikyaku_sim::topology::{Topology, Vertex};

/// The limits of a timeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoryLimits {
    /// Number of ranks, from the first on.
    pub(super) ranks: usize,
    /// Number of messages among them; the window of time ends before it would contain more.
    pub(super) messages: usize,
    /// Number of links, the busiest ones.
    pub(super) links: usize,
    /// Number of parts of the window for which a link's utilisation is given.
    pub(super) parts: usize,
}

impl StoryLimits {
    /// For a page that a browser opens at once.
    pub(super) const PAGE: StoryLimits =
        StoryLimits { ranks: 64, messages: 2_000, links: 16, parts: 400 };

    /// For a file that is opened with a viewer for large files.
    pub(super) const FILE: StoryLimits =
        StoryLimits { ranks: 4_096, messages: 400_000, links: 64, parts: 1_000 };
}

/// Converts the records of a run. `links` names the links by their numbers in the records.
pub(super) fn tell(
    trace: &Trace,
    title: &str,
    links: Option<&dyn Topology>,
    limits: &StoryLimits,
) -> Timeline {
    let mut reader = RecordReader::default();
    trace.records().iter().for_each(|record| reader.read(record));
    let mut timeline = reader.timeline(trace, limits);
    timeline.title = title.to_owned();
    if let Some(topology) = links {
        reader.add_links(&mut timeline, topology, limits);
    }
    if trace.dropped() > 0 {
        timeline.left_out.push(format!(
            "The run was longer: its first {} records are shown, {} later ones were not kept.",
            trace.records().len(),
            trace.dropped()
        ));
    }
    timeline
}

/// Converts picoseconds to seconds.
fn seconds(picoseconds: u64) -> f64 {
    picoseconds as f64 * 1e-12
}

/// The activities of one rank; times in picoseconds.
#[derive(Debug, Default)]
struct Diary {
    /// Begin, end, and kind of activity.
    busy: Vec<(u64, u64, Busy)>,
    /// End and source of every receive.
    received: Vec<(u64, u32)>,
    /// Time and source of every arrival.
    arrived: Vec<(u64, u32)>,
    /// Named parts: begin, end, number of the name.
    phases: Vec<(u64, u64, u64)>,
    /// Named parts that have not ended.
    open: Vec<(u64, u64)>,
    end: u64,
}

/// The activity that keeps a rank's processor busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    Computing,
    /// A message to or from this rank.
    Message(u32),
    /// Calls of any kind.
    Calls,
}

/// A message; times in picoseconds.
#[derive(Debug, Clone, Copy)]
struct Travel {
    from: u32,
    to: u32,
    sent: u64,
    arrived: u64,
    bytes: u64,
}

/// All records, sorted by their subject.
#[derive(Debug, Default)]
struct RecordReader {
    ranks: BTreeMap<u32, Diary>,
    travelling: BTreeMap<(u32, u32), VecDeque<(u64, u64)>>,
    travels: Vec<Travel>,
    /// By link: begin and end of each use.
    links: BTreeMap<u32, Vec<(u64, u64)>>,
    end: u64,
}

impl RecordReader {
    fn read(&mut self, record: &TraceRecord) {
        let TraceRecord { kind, who, whom, what, .. } = *record;
        let time = record.time.picoseconds();
        match kind {
            RecordKind::Link => {
                let carried = self.links.entry(who).or_default();
                return carried.push((time, time.saturating_add(what)));
            }
            RecordKind::Model | RecordKind::Depart => return,
            RecordKind::Arrive => return self.arrive(who, whom, time),
            RecordKind::Send => {
                self.travelling.entry((who, whom)).or_default().push_back((time, what));
            }
            _ => {}
        }
        let diary = self.ranks.entry(who).or_default();
        let mut end = time;
        match kind {
            RecordKind::Compute | RecordKind::Overhead | RecordKind::Call => {
                end = time.saturating_add(what);
                let with = match kind {
                    RecordKind::Compute => Busy::Computing,
                    RecordKind::Overhead => Busy::Message(whom),
                    _ => Busy::Calls,
                };
                if end > time {
                    diary.busy.push((time, end, with));
                }
            }
            RecordKind::Receive => diary.received.push((time, whom)),
            RecordKind::Enter => diary.open.push((time, what)),
            RecordKind::Leave => {
                if let Some((begin, name)) = diary.open.pop() {
                    diary.phases.push((begin, time, name));
                }
            }
            _ => {}
        }
        diary.end = diary.end.max(end);
        self.end = self.end.max(end);
    }

    fn arrive(&mut self, to: u32, from: u32, arrived: u64) {
        let waiting = self.travelling.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        if let Some((sent, bytes)) = waiting {
            self.travels.push(Travel { from, to, sent, arrived, bytes });
            self.ranks.entry(to).or_default().arrived.push((arrived, from));
            self.end = self.end.max(arrived);
        }
    }

    /// The timeline of ranks and messages within the limits.
    fn timeline(&mut self, trace: &Trace, limits: &StoryLimits) -> Timeline {
        let shown: Vec<u32> = self.ranks.keys().copied().take(limits.ranks).collect();
        let lane_of = |rank: u32| shown.binary_search(&rank).ok();
        let mut left_out = Vec::new();
        if shown.len() < self.ranks.len() {
            let (first, all) = (shown.len(), self.ranks.len());
            left_out.push(format!("Shown are the first {first} of {all} ranks."));
        }
        let mut travels: Vec<Travel> = self.travels.clone();
        travels.retain(|travel| lane_of(travel.from).is_some() && lane_of(travel.to).is_some());
        let outside = self.travels.len() - travels.len();
        if outside > 0 {
            left_out.push(format!("{outside} messages from or to other ranks are not shown."));
        }
        travels.sort_by_key(|travel| (travel.sent, travel.from, travel.to));
        let mut end = self.end;
        if let Some(first_left_out) = travels.get(limits.messages) {
            end = first_left_out.sent;
            left_out.push(format!(
                "Shown is the beginning, {:.3} µs of {:.3} µs, with {} of {} messages.",
                seconds(end) * 1e6,
                seconds(self.end) * 1e6,
                limits.messages,
                travels.len()
            ));
            travels.truncate(limits.messages);
        }
        let under_way: usize = self.travelling.values().map(VecDeque::len).sum();
        if under_way > 0 {
            left_out.push(format!("{under_way} messages had not arrived at the end."));
        }
        let lanes = shown.iter().map(|rank| self.ranks[rank].lane(*rank, end, trace)).collect();
        let flow = |travel: Travel| {
            let Travel { sent, arrived, bytes, .. } = travel;
            let (from, to) = (lane_of(travel.from)?, lane_of(travel.to)?);
            let (sent, arrived) = (seconds(sent), seconds(arrived.min(end)));
            Some(Flow { from, to, sent, arrived, bytes })
        };
        let messages = travels.into_iter().filter_map(flow).collect();
        let window = (0.0, seconds(end));
        Timeline { title: String::new(), window, lanes, messages, links: Vec::new(), left_out }
    }

    /// Adds the busiest links within the window.
    fn add_links(&self, timeline: &mut Timeline, topology: &dyn Topology, limits: &StoryLimits) {
        let end = (timeline.window.1 * 1e12).round() as u64;
        let link = |(&number, carried): (&u32, &Vec<(u64, u64)>)| {
            let name = name_of(topology, number);
            NetworkLink { name, busy: utilisation(carried, end, limits.parts) }
        };
        let mut links: Vec<NetworkLink> = self.links.iter().map(link).collect();
        links.sort_by(|one, other| other.mean().total_cmp(&one.mean()));
        let all = links.len();
        links.truncate(limits.links);
        if all > links.len() {
            let shown = links.len();
            timeline.left_out.push(format!("Shown are the {shown} busiest of {all} links."));
        }
        timeline.links = links;
    }
}

impl Diary {
    /// The rank's activities until `end`, with the waits between them.
    fn lane(&self, rank: u32, end: u64, trace: &Trace) -> Lane {
        let mut slices = Vec::new();
        let mut push = |activity, (start, stop): (u64, u64), label: String| {
            if start < stop.min(end) {
                let (start, end) = (seconds(start), seconds(stop.min(end)));
                slices.push(Slice { activity, start, end, label });
            }
        };
        for &(start, stop, name) in &self.phases {
            push(Activity::Phase, (start, stop), trace.name(name).to_owned());
        }
        for &(start, name) in &self.open {
            push(Activity::Phase, (start, self.end), trace.name(name).to_owned());
        }
        let mut free = 0;
        for &(start, stop, with) in &self.busy {
            push(Activity::Waiting, (free, start), self.awaited(start));
            match with {
                Busy::Computing => push(Activity::Computing, (start, stop), String::new()),
                Busy::Calls => push(Activity::Calling, (start, stop), "calls".into()),
                Busy::Message(peer) if peer == rank => {
                    push(Activity::Calling, (start, stop), "copying".into());
                }
                Busy::Message(peer) => {
                    push(Activity::Calling, (start, stop), format!("message, rank {peer}"));
                }
            }
            free = free.max(stop);
        }
        push(Activity::Waiting, (free, self.end), self.awaited(self.end));
        Lane { name: format!("rank {rank}"), slices }
    }

    /// The reason of a wait that ended at a time: the next receive. If receives are not recorded,
    /// as for processes, it is the arrival that ended the wait.
    fn awaited(&self, until: u64) -> String {
        let told = if self.received.is_empty() { &self.arrived } else { &self.received };
        let next = told.partition_point(|(time, _)| *time < until);
        let with = |(time, _): &&(u64, u32)| !self.received.is_empty() || *time == until;
        match told.get(next).filter(with) {
            Some((_, source)) => format!("waiting for rank {source}"),
            None => "waiting".into(),
        }
    }
}

/// For each of `parts` equal parts of `0..end`, the fraction that lies within the spans.
fn utilisation(carried: &[(u64, u64)], end: u64, parts: usize) -> Vec<f64> {
    let mut busy = vec![0.0; parts];
    let part = end as f64 / parts.max(1) as f64;
    for &(start, stop) in carried.iter().filter(|(start, _)| *start < end) {
        let (start, stop) = (start as f64 / part, stop.min(end) as f64 / part);
        let last = (stop.ceil() as usize).min(parts);
        for (place, busy) in busy.iter_mut().enumerate().take(last).skip(start as usize) {
            let (from, to) = (place as f64, place as f64 + 1.0);
            *busy += (stop.min(to) - start.max(from)).max(0.0);
        }
    }
    // Rounding may put the sum of parts that fill a whole slightly above it.
    busy.iter_mut().for_each(|busy| *busy = busy.min(1.0));
    busy
}

fn name_of(topology: &dyn Topology, link: u32) -> String {
    let name = |vertex| match vertex {
        Vertex::Node(node) => format!("node {node}"),
        Vertex::Switch(switch) => format!("switch {switch}"),
    };
    let ends = topology.link(link);
    format!("{} → {}", name(ends.from), name(ends.to))
}

#[cfg(test)]
mod tests {
    use hikyaku::Time;
    use hikyaku_sim::topology::Switch;

    use super::*;

    /// Rank 0 computes 10, sends (2) and ends; rank 1 computes 4, waits, receives (3).
    fn trace() -> Trace {
        let mut trace = Trace::default();
        trace.records_on(100);
        let name = trace.number("step");
        let mut add = |time, kind, who, whom, what| {
            trace.add(TraceRecord { time: Time::from_picoseconds(time), kind, who, whom, what });
        };
        add(0, RecordKind::Enter, 0, 0, name);
        add(0, RecordKind::Compute, 0, 0, 10);
        add(10, RecordKind::Overhead, 0, 1, 2);
        add(10, RecordKind::Send, 0, 1, 64);
        add(12, RecordKind::Leave, 0, 0, 0);
        add(12, RecordKind::End, 0, 0, 0);
        add(0, RecordKind::Compute, 1, 1, 4);
        add(12, RecordKind::Link, 0, 0, 5);
        add(20, RecordKind::Arrive, 1, 0, 64);
        add(20, RecordKind::Overhead, 1, 0, 3);
        add(23, RecordKind::Receive, 1, 0, 64);
        add(23, RecordKind::End, 1, 1, 0);
        trace
    }

    fn told(limits: &StoryLimits) -> Timeline {
        tell(&trace(), "two", Some(&Switch::new(2)), limits)
    }

    #[test]
    fn waits_are_what_lies_between_and_say_for_whom() {
        let timeline = told(&StoryLimits::PAGE);
        let words = |lane: usize| -> Vec<(Activity, u64, u64, String)> {
            let ps = |time: f64| (time * 1e12).round() as u64;
            let slices = timeline.lanes[lane].slices.iter();
            slices.map(|s| (s.activity, ps(s.start), ps(s.end), s.label.clone())).collect()
        };
        let [phase, compute, send] = &words(0)[..] else { panic!("{:?}", words(0)) };
        assert_eq!(*phase, (Activity::Phase, 0, 12, "step".into()));
        assert_eq!(*compute, (Activity::Computing, 0, 10, String::new()));
        assert_eq!(*send, (Activity::Calling, 10, 12, "message, rank 1".into()));
        let [_, wait, receive] = &words(1)[..] else { panic!("{:?}", words(1)) };
        assert_eq!(*wait, (Activity::Waiting, 4, 20, "waiting for rank 0".into()));
        assert_eq!(*receive, (Activity::Calling, 20, 23, "message, rank 0".into()));
        assert!(timeline.left_out.is_empty(), "{:?}", timeline.left_out);
    }

    #[test]
    fn messages_go_from_their_sending_to_their_arrival_and_links_fill_their_parts() {
        let timeline = told(&StoryLimits { parts: 23, ..StoryLimits::PAGE });
        let [message] = timeline.messages[..] else { panic!("{:?}", timeline.messages) };
        assert_eq!((message.from, message.to, message.bytes), (0, 1, 64));
        assert!((message.arrived - 20e-12).abs() < 1e-15);
        let [link] = &timeline.links[..] else { panic!("{:?}", timeline.links) };
        assert_eq!(link.name, "node 0 → switch 0");
        let full: Vec<usize> = (0..23).filter(|&part| link.busy[part] > 0.99).collect();
        assert_eq!(full, [12, 13, 14, 15, 16]);
    }

    #[test]
    fn processes_are_told_of_by_their_calls_and_arrivals() {
        let mut trace = Trace::default();
        trace.records_on(100);
        let mut add = |time, kind, who, whom, what| {
            trace.add(TraceRecord { time: Time::from_picoseconds(time), kind, who, whom, what });
        };
        add(0, RecordKind::Call, 0, 0, 6);
        add(5, RecordKind::Send, 0, 1, 8);
        add(6, RecordKind::Compute, 0, 0, 4);
        add(20, RecordKind::Arrive, 1, 0, 8);
        add(20, RecordKind::Call, 1, 1, 2);
        add(40, RecordKind::Call, 1, 1, 1);
        add(41, RecordKind::End, 1, 1, 0);
        let timeline = tell(&trace, "two", None, &StoryLimits::PAGE);
        let words = |lane: usize| -> Vec<(Activity, String)> {
            let slices = timeline.lanes[lane].slices.iter();
            slices.map(|slice| (slice.activity, slice.label.clone())).collect()
        };
        let calls = (Activity::Calling, String::from("calls"));
        let last = (Activity::Waiting, String::from("waiting"));
        // It has no records after that: it does not wait.
        assert_eq!(words(0), [calls.clone(), (Activity::Computing, String::new())]);
        let first = (Activity::Waiting, String::from("waiting for rank 0"));
        assert_eq!(words(1), [first, calls.clone(), last, calls]);
        assert_eq!(timeline.messages.len(), 1);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let one = told(&StoryLimits { ranks: 1, ..StoryLimits::PAGE });
        assert_eq!((one.lanes.len(), one.messages.len()), (1, 0));
        let said = one.left_out.join(" ");
        assert!(said.contains("first 1 of 2 ranks") && said.contains("1 messages from or to"));
        let none = told(&StoryLimits { messages: 0, links: 0, ..StoryLimits::PAGE });
        assert_eq!(none.window.1, 10e-12);
        let said = none.left_out.join(" ");
        assert!(said.contains("0 of 1 messages") && said.contains("0 busiest of 1"), "{said}");
        let mut short = Trace::default();
        short.records_on(4);
        trace().records().iter().for_each(|record| short.add(*record));
        let said = tell(&short, "", None, &StoryLimits::PAGE).left_out.join(" ");
        assert!(said.contains("1 messages had not arrived") && said.contains("8 later ones"));
    }

    #[test]
    fn a_message_that_is_still_under_way_and_an_open_phase_end_with_the_run() {
        let mut open = Trace::default();
        open.records_on(4);
        trace().records().iter().take(3).for_each(|record| open.add(*record));
        let timeline = tell(&open, "", None, &StoryLimits::PAGE);
        let phase = &timeline.lanes[0].slices[0];
        assert_eq!((phase.activity, phase.end), (Activity::Phase, 12e-12));
    }
}
