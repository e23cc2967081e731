//! The findings of a benchmark run, as data: the JSON document is this, and the tables and charts
//! are made from it.

use serde::Serialize;

use super::control::DataReuse;
use super::kinds::{FigureKind, FigureUnit};
use super::machine::MachineDescription;
use super::plan::{self, Distance, MeasuredBlock, NearFar, ValueSummary};

/// The version of the JSON document; it grows when a field changes its meaning or is removed.
pub(crate) const SCHEMA: u32 = 1;

/// The name of this library in figures.
pub(crate) const OWN: &str = "hikyaku";

/// All findings of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct BenchResults {
    /// Version of this document.
    pub(crate) schema: u32,
    /// Version of hikyaku.
    pub(crate) hikyaku: String,
    /// The machine.
    pub(crate) machine: MachineDescription,
    /// The cores between which the bare hardware was measured.
    pub(crate) cores: [usize; 2],
    /// The cache-line transfer between them over the run; absent if nothing was measured.
    pub(crate) line: Option<NearFar>,
    /// Blocks asked for per figure.
    pub(crate) blocks: u32,
    /// Length of a block, in milliseconds.
    pub(crate) block_milliseconds: u64,
    /// The libraries, as they name themselves, with the CPUs of their ranks in two-rank jobs.
    pub(crate) contestants: Vec<ContestantInfo>,
    /// The figures.
    pub(crate) figures: Vec<Figure>,
    /// Notes for the reader: peers not found, contestants abandoned.
    pub(crate) notes: Vec<String>,
}

impl BenchResults {
    /// The figures of a kind.
    pub(crate) fn of(&self, kind: FigureKind) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(move |figure| figure.kind == kind)
    }
}

/// A library that took part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ContestantInfo {
    /// Its name in the figures.
    pub(crate) name: String,
    /// Its own description.
    pub(crate) library: String,
    /// The CPUs each rank of its two-rank job may use.
    pub(crate) cpus: Vec<Vec<usize>>,
}

/// One figure: a kind, a size, a rank count, and the value of every contestant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// Its kind.
    pub(crate) kind: FigureKind,
    /// The unit of all its values but ratios.
    pub(crate) unit: FigureUnit,
    /// Whether less is better.
    pub(crate) lower_is_better: bool,
    /// Ranks of the job.
    pub(crate) ranks: u32,
    /// Bytes of a message, for kinds with messages.
    pub(crate) bytes: Option<u64>,
    /// Messages in a window, for kinds with windows.
    pub(crate) window: Option<u32>,
    /// Rows of the array, for kinds with rows.
    pub(crate) rows: Option<u32>,
    /// The form of the messages' data, for kinds that have both.
    pub(crate) data: Option<DataReuse>,
    /// The meaning of "bare" for this figure.
    pub(crate) bare_is: Option<String>,
    /// The value of the bare hardware.
    pub(crate) bare: Option<ValueSummary>,
    /// The values of each contestant.
    pub(crate) series: Vec<ContestantSeries>,
    /// The same for the rounds in which the cores were near, and for those in which they were far,
    /// if the machine was in both states; a round in which it changed is in neither.
    pub(crate) states: Vec<InState>,
}

/// The values in one state of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct InState {
    /// The distance of the cores.
    pub(crate) cores: Distance,
    /// The value of the bare hardware.
    pub(crate) bare: Option<ValueSummary>,
    /// The values of each contestant.
    pub(crate) series: Vec<ContestantSeries>,
}

/// The values of one contestant in one form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ContestantSeries {
    /// The contestant.
    pub(crate) contestant: String,
    /// The calls and the memory; empty if there is only one form.
    pub(crate) form: String,
    /// Its value; absent if it could not be measured.
    pub(crate) value: Option<ValueSummary>,
    /// Its ratio to the bare hardware, formed block by block.
    pub(crate) to_bare: Option<ValueSummary>,
    /// Ratio of this one to each peer, formed round by round.
    pub(crate) to_peers: Vec<PeerRatio>,
    /// Why there is no value.
    pub(crate) unavailable: Option<String>,
}

/// One ratio to a peer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PeerRatio {
    /// The peer.
    pub(crate) peer: String,
    /// The form of the peer that this one was compared with.
    pub(crate) form: String,
    /// This contestant's value over the peer's.
    pub(crate) ratio: ValueSummary,
}

/// The blocks of one contestant in one form, before they are summarised.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FormBlocks {
    /// The contestant.
    pub(crate) contestant: String,
    /// The form.
    pub(crate) form: &'static str,
    /// Its place: each is compared with all that have a higher one. Hikyaku has 0 and others have
    /// 1; protocols that are compared have places of their own.
    pub(crate) place: u8,
    /// The other form of the same contestant that it is compared with too, under that form's name.
    pub(crate) beside: Option<&'static str>,
    /// The blocks, or why there are none.
    pub(crate) outcome: Result<Vec<MeasuredBlock>, String>,
}

/// Summarises the blocks of one figure: `(bare, series)`.
///
/// If a block failed half-way, the contestant's blocks before it do not count: a median of the
/// successful ones would be too good. A peer is compared in the same form if it has that, and
/// otherwise in its fastest, so that no one looks good beside a form that its own users would
/// avoid.
pub(crate) fn summarise(
    all: &[FormBlocks],
    lower_is_better: bool,
) -> (Option<ValueSummary>, Vec<ContestantSeries>) {
    let blocks = |entry: &FormBlocks| entry.outcome.clone().unwrap_or_default();
    let bare: Vec<f64> = all.iter().flat_map(|entry| plan::bare_values(&blocks(entry))).collect();
    let series = |entry: &FormBlocks| {
        let ours = blocks(entry);
        let twin = all.iter().filter(|other| {
            other.contestant == entry.contestant && Some(other.form) == entry.beside
        });
        let twins = twin.map(|other| (other, other.form));
        let opponents = opponents(all, entry, lower_is_better).into_iter();
        let peers = twins.chain(opponents.map(|other| (other, other.contestant.as_str())));
        let ratio = |(peer, name): (&FormBlocks, &str)| {
            let ratio = ValueSummary::of(&plan::ratios_to_peer(&ours, &blocks(peer)))?;
            let (peer, form) = (name.to_owned(), peer.form.to_owned());
            Some(PeerRatio { peer, form, ratio })
        };
        ContestantSeries {
            contestant: entry.contestant.clone(),
            form: entry.form.to_owned(),
            value: ValueSummary::of(&plan::values(&ours)),
            to_bare: ValueSummary::of(&plan::ratios_to_bare(&ours)),
            to_peers: peers.filter_map(ratio).collect(),
            unavailable: entry.outcome.as_ref().err().cloned(),
        }
    };
    (ValueSummary::of(&bare), all.iter().map(series).collect())
}

/// The rounds of a figure by the state of the machine, if there is one on each side of `split`.
pub(crate) fn by_state(
    all: &[FormBlocks],
    split: Option<f64>,
    lower_is_better: bool,
) -> Vec<InState> {
    let Some(split) = split else { return Vec::new() };
    let whole = |round: usize, cores: Distance| {
        let mut blocks = all.iter().filter_map(|entry| entry.outcome.as_ref().ok()?.get(round));
        blocks.all(|block| block.distance(split) == Some(cores))
    };
    let of = |cores| {
        let kept = |entry: &FormBlocks| FormBlocks {
            outcome: entry.outcome.clone().map(|blocks| {
                let rounds = blocks.into_iter().enumerate();
                rounds.filter(|(round, _)| whole(*round, cores)).map(|(_, block)| block).collect()
            }),
            ..entry.clone()
        };
        let kept: Vec<FormBlocks> = all.iter().map(kept).collect();
        let (bare, series) = summarise(&kept, lower_is_better);
        series.iter().any(|one| one.value.is_some()).then_some(InState { cores, bare, series })
    };
    [Distance::Near, Distance::Far].into_iter().filter_map(of).collect()
}

/// For each measured peer of `own`, the form to compare `own`'s with.
fn opponents<'a>(
    all: &'a [FormBlocks],
    own: &FormBlocks,
    lower_is_better: bool,
) -> Vec<&'a FormBlocks> {
    let form = own.form;
    let middle = |entry: &FormBlocks| {
        let value = plan::median(&plan::values(entry.outcome.as_deref().ok()?))?;
        Some(if lower_is_better { value } else { -value })
    };
    let mut chosen: Vec<(&FormBlocks, f64)> = Vec::new();
    for entry in all.iter().filter(|entry| entry.place > own.place) {
        let Some(cost) = middle(entry) else { continue };
        match chosen.iter_mut().find(|(one, _)| one.contestant == entry.contestant) {
            None => chosen.push((entry, cost)),
            Some((one, _)) if one.form == form => {}
            Some(one) if entry.form == form || cost < one.1 => *one = (entry, cost),
            Some(_) => {}
        }
    }
    chosen.into_iter().map(|(entry, _)| entry).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;

    pub(crate) fn entry(name: &str, own: bool, pairs: &[(f64, f64)]) -> FormBlocks {
        let blocks = pairs.iter().map(|&(value, bare)| MeasuredBlock {
            value,
            bare: Some(bare),
            lines: Some([bare; 2]),
        });
        let blocks = blocks.collect();
        let place = u8::from(!own);
        FormBlocks {
            contestant: name.into(),
            form: "heap",
            place,
            beside: None,
            outcome: Ok(blocks),
        }
    }

    /// A run with one figure, one peer, one contestant that failed.
    pub(crate) fn example() -> BenchResults {
        let all = [
            entry("hikyaku", true, &[(100.0, 50.0), (480.0, 240.0)]),
            entry("Open MPI", false, &[(360.0, 50.0), (1200.0, 240.0)]),
            FormBlocks {
                contestant: "MPICH".into(),
                form: "heap",
                place: 1,
                beside: None,
                outcome: Err("no answer within 60 s".into()),
            },
        ];
        let (bare, series) = summarise(&all, true);
        let figure = |bytes| Figure {
            kind: FigureKind::Latency,
            unit: FigureUnit::Nanoseconds,
            lower_is_better: true,
            ranks: 2,
            bytes: Some(bytes),
            window: None,
            rows: None,
            data: None,
            bare_is: Some("one cache line one way".into()),
            bare,
            series: series.clone(),
            states: Vec::new(),
        };
        BenchResults {
            schema: SCHEMA,
            hikyaku: "0.1.0".into(),
            machine: MachineDescription::describe(),
            cores: [0, 1],
            line: NearFar::of(&[50.0, 240.0]),
            blocks: 2,
            block_milliseconds: 50,
            contestants: vec![ContestantInfo {
                name: "hikyaku".into(),
                library: "hikyaku 0.1.0".into(),
                cpus: vec![vec![0], vec![1]],
            }],
            figures: vec![figure(8), figure(1024)],
            notes: vec!["MPICH: no answer within 60 s".into()],
        }
    }

    #[test]
    fn ratios_are_formed_by_block_and_round() {
        let (bare, series) = summarise(
            &[
                entry("hikyaku", true, &[(100.0, 50.0), (480.0, 240.0)]),
                entry("Open MPI", false, &[(400.0, 50.0), (1920.0, 240.0)]),
            ],
            true,
        );
        assert_eq!(bare.unwrap().blocks, 4);
        assert_eq!(series[0].to_bare.unwrap().median, 2.0);
        assert_eq!(series[0].to_peers[0].peer, "Open MPI");
        assert_eq!(series[0].to_peers[0].ratio.median, 0.25);
        assert!(series[1].to_peers.is_empty());
        assert_eq!(series[1].to_bare.unwrap().median, 8.0);
    }

    #[test]
    fn protocols_are_compared_with_those_below_and_a_form_with_the_one_beside_it() {
        let by = |name: &str, place, form, value| FormBlocks {
            place,
            form,
            beside: (form == "busy").then_some("idle"),
            ..entry(name, true, &[(value, 1.0)])
        };
        let all = [
            by("direct", 0, "idle", 2.0),
            by("direct", 0, "busy", 3.0),
            by("fagus", 1, "idle", 4.0),
            by("fagus", 1, "busy", 100.0),
            by("udp", 2, "idle", 40.0),
            by("udp", 2, "busy", 120.0),
        ];
        let ratios = |at: usize| {
            let series = &summarise(&all, true).1[at];
            let told = series.to_peers.iter().map(|to| (to.peer.clone(), to.ratio.median));
            told.collect::<Vec<_>>()
        };
        let expected = |told: &[(&str, f64)]| {
            told.iter().map(|(name, ratio)| ((*name).to_owned(), *ratio)).collect::<Vec<_>>()
        };
        assert_eq!(ratios(0), expected(&[("fagus", 0.5), ("udp", 0.05)]));
        assert_eq!(ratios(1), expected(&[("idle", 1.5), ("fagus", 0.03), ("udp", 0.025)]));
        assert_eq!(ratios(2), expected(&[("udp", 0.1)]));
        assert_eq!(ratios(5), expected(&[("idle", 3.0)]));
    }

    #[test]
    fn rounds_of_a_state_are_those_in_which_all_were_in_it() {
        let all = [
            entry("hikyaku", true, &[(100.0, 50.0), (480.0, 240.0), (110.0, 55.0)]),
            entry("Open MPI", false, &[(400.0, 50.0), (960.0, 240.0), (990.0, 240.0)]),
        ];
        let states = by_state(&all, Some(110.0), true);
        let told: Vec<_> = states
            .iter()
            .map(|state| {
                let own = &state.series[0];
                let value = own.value.unwrap();
                (state.cores, value.median, value.blocks, own.to_peers[0].ratio.median)
            })
            .collect();
        assert_eq!(told, [(Distance::Near, 100.0, 1, 0.25), (Distance::Far, 480.0, 1, 0.5)]);
        assert_eq!(by_state(&all, None, true), []);
        assert_eq!(by_state(&all[..1], Some(1000.0), true).len(), 1);
    }

    #[test]
    fn a_peer_is_compared_in_the_same_form_where_it_has_that() {
        let form = |form, entry| FormBlocks { form, ..entry };
        let all = [
            form("resident", entry("hikyaku", true, &[(8.0, 1.0)])),
            form("shared", entry("hikyaku", true, &[(1.0, 1.0)])),
            form("resident", entry("MPICH", false, &[(16.0, 1.0)])),
            form("shared", entry("MPICH", false, &[(4.0, 1.0)])),
        ];
        let ratios: Vec<f64> = summarise(&all, true)
            .1
            .iter()
            .flat_map(|s| &s.to_peers)
            .map(|r| r.ratio.median)
            .collect();
        assert_eq!(ratios, [0.5, 0.25]);
        let all = [
            form("allocated", entry("hikyaku", true, &[(8.0, 1.0)])),
            entry("MPICH", false, &[(16.0, 1.0)]),
        ];
        assert_eq!(summarise(&all, true).1[0].to_peers[0].ratio.median, 0.5);
    }

    #[test]
    fn a_peer_without_that_form_is_compared_in_its_fastest() {
        let form = |form, entry| FormBlocks { form, ..entry };
        let all = [
            form("allocated", entry("hikyaku", true, &[(8.0, 1.0)])),
            form("isend", entry("MPICH", false, &[(32.0, 1.0)])),
            form("persistent", entry("MPICH", false, &[(16.0, 1.0)])),
            form("blocking", entry("MPICH", false, &[(64.0, 1.0)])),
            FormBlocks { outcome: Err("gone".into()), ..entry("Open MPI", false, &[]) },
        ];
        let compared = |lower_is_better| {
            let ratios = summarise(&all, lower_is_better).1[0].to_peers.clone();
            ratios.into_iter().map(|r| (r.form, r.ratio.median)).collect::<Vec<_>>()
        };
        assert_eq!(compared(true), [("persistent".to_owned(), 0.5)]);
        assert_eq!(compared(false), [("blocking".to_owned(), 0.125)]);
    }

    #[test]
    fn the_document_has_the_fields_a_reader_needs() {
        let document: Value = serde_json::to_value(example()).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        for field in ["hikyaku", "machine", "cores", "line", "blocks", "contestants", "notes"] {
            assert!(!document[field].is_null(), "{field}");
        }
        for field in ["cpu", "cores", "affinity", "kernel"] {
            assert!(!document["machine"][field].is_null(), "{field}");
        }
        let figure = &document["figures"][0];
        assert_eq!(figure["kind"], "latency");
        assert_eq!(figure["unit"], "ns");
        assert_eq!(figure["bytes"], 8);
        let own = &figure["series"][0];
        assert_eq!(own["contestant"], "hikyaku");
        assert_eq!(own["to_bare"]["median"], 2.0);
        assert_eq!(own["value"]["blocks"], 2);
        let failed = &figure["series"][2];
        assert!(failed["value"].is_null());
        assert_eq!(failed["unavailable"], "no answer within 60 s");
    }
}
