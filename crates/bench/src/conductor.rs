//! The conductor: starts the contestants and lets them run their blocks in turn, each block between
//! two measurements of the bare hardware.
//!
//! ```text
//!   bare | hikyaku | bare | Open MPI | bare | MPICH | bare | hikyaku | ...
//!        |<- block with its own bare value (the mean of its two neighbours) ->|
//! ```
//!
//! Invariant: while one contestant runs a block, the others sleep in a read, and the conductor
//! sleeps too; while the bare hardware is measured, all of them sleep.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use hikyaku::shared::Protocol;

use super::arguments::{BenchSettings, PeerKind, Selection};
use super::control::{BlockAnswer, Verb};
use super::hardware::{self, Cores};
use super::job::{self, ConnectedJob, ContestantError};
use super::kinds::{FigureKind, MeasuredForm, MeasuredPoint};
use super::kinds::{
    bandwidth, barrier, bidirectional, collectives, dense, halo, idle, late, latency, nodes, rate,
    rows, shared, start,
};
use super::peers::{self, ReadyPeer};
use super::plan::{self, MeasuredBlock, NearFar, Schedule};
use super::results::{ContestantInfo, Figure, FormBlocks, OWN, by_state, summarise};
use super::rivals::{Rival, RivalKind};

/// Start-up is slow and steady: fewer repetitions suffice.
const START_BLOCKS: u32 = 7;

/// Watching idle ranks takes four seconds each time.
const IDLE_BLOCKS: u32 = 1;

/// A library under measurement.
pub(crate) enum Contestant {
    /// This library, with its own launcher.
    Hikyaku(PathBuf),
    /// Another library.
    Peer(ReadyPeer),
    /// A program for one purpose.
    Rival(Rival),
}

/// The number of ranks of a job, and their placement.
#[derive(Clone, Copy)]
struct RankPlacement {
    ranks: u32,
    /// Whether each rank has a core of its own.
    pinned: bool,
    /// Whether each rank is a node of its own.
    apart: bool,
}

/// The task of a job's ranks.
#[derive(Clone, Copy)]
enum Work<'a> {
    /// Serve the conductor's socket.
    Serve(&'a Path),
    /// Join, pass a barrier, leave.
    Start,
}

impl Contestant {
    /// Its name in figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Contestant::Hikyaku(_) => OWN,
            Contestant::Peer(peer) => peer.kind().name(),
            Contestant::Rival(rival) => rival.kind().name(),
        }
    }

    fn own(&self) -> bool {
        matches!(self, Contestant::Hikyaku(_))
    }

    /// Its place: it is compared with contestants that have a higher one.
    fn place(&self) -> u8 {
        u8::from(match self {
            Contestant::Hikyaku(_) => false,
            Contestant::Peer(peer) => peer.kind() != PeerKind::Own,
            Contestant::Rival(rival) => rival.kind() != RivalKind::Package,
        })
    }

    /// Whether it starts jobs of any number of ranks.
    fn is_library(&self) -> bool {
        !matches!(self, Contestant::Rival(_))
    }

    /// The forms in which it measures a point.
    fn forms(&self, point: &MeasuredPoint) -> Vec<MeasuredForm> {
        match self {
            Contestant::Hikyaku(_) => point.ours.clone(),
            Contestant::Peer(_) => point.theirs.clone(),
            Contestant::Rival(rival) => rival.forms(point),
        }
    }

    /// Its turns in one form.
    fn turn<'a>(
        &self,
        form: &'static str,
        sample: Box<dyn FnMut() -> Result<f64, String> + 'a>,
    ) -> SampledForm<'a> {
        SampledForm { name: self.name(), form, place: self.place(), beside: None, sample }
    }

    fn launcher(&self, crew: RankPlacement, work: Work<'_>) -> Process {
        let RankPlacement { ranks, pinned, apart } = crew;
        match self {
            Contestant::Hikyaku(executable) => {
                let mut command = Process::new(executable);
                let bind = if pinned { "core" } else { "none" };
                command.args(["run", "-n", &ranks.to_string(), "--bind", bind]);
                if apart {
                    command.args(["--ranks-per-node", "1"]);
                }
                command.arg("--");
                command.arg(executable).args(["bench", "start", "--role"]);
                match work {
                    Work::Serve(path) => command.arg("rank").arg("--control").arg(path),
                    Work::Start => command.arg("start"),
                };
                command
            }
            Contestant::Peer(peer) => {
                let mut command = peer.launcher(ranks, pinned);
                match work {
                    Work::Serve(path) => command.arg(path),
                    Work::Start => command.arg("start"),
                };
                command
            }
            Contestant::Rival(rival) => match work {
                Work::Serve(path) => rival.launcher(path),
                Work::Start => unreachable!("a rival starts no jobs"),
            },
        }
    }
}

/// A contestant's job at one rank count, or why it has none.
struct Seat {
    /// The index of the contestant.
    contestant: usize,
    job: RefCell<Result<ConnectedJob, String>>,
}

/// One form of one contestant, and how a block of it is sampled.
struct SampledForm<'a> {
    name: &'static str,
    form: &'static str,
    place: u8,
    beside: Option<&'static str>,
    sample: Box<dyn FnMut() -> Result<f64, String> + 'a>,
}

/// The state of a run.
pub(crate) struct BenchRun<'a> {
    settings: &'a BenchSettings,
    contestants: Vec<Contestant>,
    executable: PathBuf,
    cores: Cores,
    lines: RefCell<Vec<f64>>,
    infos: Vec<ContestantInfo>,
    notes: Vec<String>,
    progress: &'a mut dyn FnMut(&Figure),
}

/// The findings of a run besides the figures, which are reported one by one.
pub(crate) struct RunFindings {
    /// The cores measured between.
    pub(crate) cores: Cores,
    /// Every cache-line transfer of the run, in nanoseconds.
    pub(crate) lines: Vec<f64>,
    /// The contestants that took part.
    pub(crate) contestants: Vec<ContestantInfo>,
    /// Problems of the run.
    pub(crate) notes: Vec<String>,
}

impl<'a> BenchRun<'a> {
    /// A run of `contestants`; `executable` is this program. `progress` receives every figure when
    /// it is complete.
    pub(crate) fn new(
        settings: &'a BenchSettings,
        executable: PathBuf,
        contestants: Vec<Contestant>,
        progress: &'a mut dyn FnMut(&Figure),
    ) -> BenchRun<'a> {
        BenchRun {
            settings,
            contestants,
            executable,
            cores: Cores::available(),
            lines: RefCell::new(Vec::new()),
            infos: Vec::new(),
            notes: Vec::new(),
            progress,
        }
    }

    /// Measures everything the settings select.
    pub(crate) fn run(mut self) -> RunFindings {
        let cores = u32::try_from(hardware::affinity().len()).unwrap_or(u32::MAX).max(1);
        let points = points(self.settings, cores);
        let same = |one: &MeasuredPoint, next: &MeasuredPoint| {
            (one.ranks, one.apart) == (next.ranks, next.apart)
        };
        for same_jobs in points.chunk_by(same) {
            self.measure(same_jobs, cores);
        }
        let covers = |kind| self.settings.selection.covers(kind);
        if covers(Selection::Start) {
            self.start(cores);
            self.memory(cores);
        }
        if covers(Selection::Idle) {
            self.idle(cores);
        }
        let lines = self.lines.into_inner();
        RunFindings { cores: self.cores, lines, contestants: self.infos, notes: self.notes }
    }

    /// Reports a figure, and notes the contestants missing in it, once for each reason.
    fn report(&mut self, figure: &Figure) {
        for series in &figure.series {
            let Some(reason) = &series.unavailable else { continue };
            let place = match (figure.rows, figure.bytes) {
                (Some(rows), Some(bytes)) => format!("{rows} rows of {bytes} bytes"),
                _ => format!("{} ranks", figure.ranks),
            };
            let note = format!("{}, {place}: {reason}", series.contestant);
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        (self.progress)(figure);
    }

    /// Measures points that share their jobs.
    fn measure(&mut self, points: &[MeasuredPoint], cores: u32) {
        let Some(&MeasuredPoint { ranks, apart, .. }) = points.first() else { return };
        let takes_part = |one: &Contestant| points.iter().any(|point| !one.forms(point).is_empty());
        let seats = self.seat(RankPlacement { ranks, pinned: ranks <= cores, apart }, takes_part);
        for point in points {
            let figure = self.figure_of(point, &seats);
            self.report(&figure);
        }
    }

    /// Starts one job for each contestant that takes part.
    fn seat(&mut self, crew: RankPlacement, takes_part: impl Fn(&Contestant) -> bool) -> Vec<Seat> {
        let mut seats = Vec::new();
        for (place, contestant) in self.contestants.iter().enumerate() {
            if !takes_part(contestant) {
                continue;
            }
            let launch = |path: &Path| contestant.launcher(crew, Work::Serve(path));
            let job = ConnectedJob::start(crew.ranks, self.settings.time_limit, launch);
            if let Ok(job) = &job {
                let cpus: Vec<Vec<usize>> = job.hello().map(|hello| hello.cpus.clone()).collect();
                if let [first, second, ..] = cpus.as_slice()
                    && let Some(cores) = Cores::of_ranks(first, second)
                    && contestant.own()
                {
                    self.cores = cores;
                }
                let name = contestant.name();
                if !self.infos.iter().any(|info| info.name == name) {
                    let library = job.hello().next().map(|h| peers::short_version(&h.library));
                    let library = library.unwrap_or_default();
                    self.infos.push(ContestantInfo { name: name.to_owned(), library, cpus });
                }
            }
            let job = RefCell::new(job.map_err(|error| error.to_string()));
            seats.push(Seat { contestant: place, job });
        }
        seats
    }

    fn figure_of(&self, point: &MeasuredPoint, seats: &[Seat]) -> Figure {
        let mut turns = Vec::new();
        for seat in seats {
            let forms = self.contestants[seat.contestant].forms(point);
            turns.extend(forms.into_iter().map(|form| self.turn(point, seat, form)));
        }
        let bare = || {
            let line = hardware::line(self.cores);
            self.lines.borrow_mut().push(line);
            Some(Beside { bare: point.bare(self.cores, line), line: Some(line) })
        };
        let all = rounds(self.settings.blocks, bare, turns);
        let has_rows = point.kind == FigureKind::Rows;
        let has_messages = point.bytes > 0 || point.kind == FigureKind::Latency;
        let split = NearFar::split(&self.lines.borrow());
        Figure {
            states: by_state(&all, split, point.kind.lower_is_better()),
            bytes: has_messages.then_some(point.bytes),
            window: (point.window > 1 && !has_rows).then_some(point.window),
            rows: has_rows.then_some(point.window),
            data: point.data,
            bare_is: Some(point.bare_is()),
            ..figure(point.kind, point.ranks, &all)
        }
    }

    fn turn<'b>(
        &'b self,
        point: &'b MeasuredPoint,
        seat: &'b Seat,
        form: MeasuredForm,
    ) -> SampledForm<'b> {
        let block = self.settings.block.as_nanos() as f64;
        let crowded = point.ranks as usize > hardware::affinity().len().max(1);
        let mut schedule = point.fixed;
        let sample = move || {
            let mut job = seat.job.borrow_mut();
            let result = match job.as_mut() {
                Ok(job) => sample(job, point, form, block, crowded, &mut schedule),
                Err(reason) => return Err(reason.clone()),
            };
            // A job that failed once is excluded, because its next answer cannot be trusted, unless
            // it reported the failure itself.
            result.map_err(|error| {
                if !matches!(error, ContestantError::Refused { .. }) {
                    *job = Err(error.to_string());
                }
                error.to_string()
            })
        };
        let contestant = &self.contestants[seat.contestant];
        let turn = contestant.turn(form.name, Box::new(sample));
        if matches!(form.verb, Verb::OneWay(_) | Verb::TwoWays(_)) {
            // Each way is a limit of its own, and is compared with.
            return SampledForm { name: form.name, form: "", ..turn };
        }
        let Some(protocol) = form.protocol else { return turn };
        let beside = (form.name == nodes::COMPUTES).then_some(nodes::WAITS);
        let place = Protocol::ALL.iter().position(|other| *other == protocol);
        SampledForm { name: protocol.name(), place: place.unwrap_or(0) as u8, beside, ..turn }
    }

    /// Times whole jobs.
    fn start(&mut self, cores: u32) {
        for ranks in start::start_ranks(self.settings) {
            let limit = self.settings.time_limit;
            let turn = |contestant| {
                let sample = move || {
                    let crew = RankPlacement { ranks, pinned: ranks <= cores, apart: false };
                    let launcher = Contestant::launcher(contestant, crew, Work::Start);
                    let elapsed = job::time_to_end(launcher, limit);
                    elapsed.map(|time| time.as_secs_f64() * 1e3).map_err(|error| error.to_string())
                };
                Contestant::turn(contestant, "", Box::new(sample))
            };
            let libraries = self.contestants.iter().filter(|one| one.is_library());
            let turns = libraries.map(turn).collect();
            let beside = |bare| Beside { bare, line: None };
            let bare = || start::bare(&self.executable, ranks).ok().map(beside);
            let all = rounds(self.settings.blocks.min(START_BLOCKS), bare, turns);
            let bare_is = Some(format!("{ranks} processes that do nothing"));
            self.report(&Figure { bare_is, ..figure(FigureKind::Start, ranks, &all) });
        }
    }

    /// Queries the ranks of new jobs for their memory.
    fn memory(&mut self, cores: u32) {
        for ranks in start::memory_ranks(self.settings) {
            let crew = RankPlacement { ranks, pinned: ranks <= cores, apart: false };
            let seats = self.seat(crew, Contestant::is_library);
            let mut all = Vec::new();
            for Seat { contestant, job } in &seats {
                let contestant = &self.contestants[*contestant];
                let mut job = job.borrow_mut();
                let told = match job.as_mut() {
                    Ok(job) => start::memory(job).map_err(|error| error.to_string()),
                    Err(reason) => Err(reason.clone()),
                };
                let entry = |form, outcome: Result<f64, String>| FormBlocks {
                    contestant: contestant.name().to_owned(),
                    form,
                    place: contestant.place(),
                    beside: None,
                    outcome: outcome
                        .map(|value| vec![MeasuredBlock { value, bare: None, lines: None }]),
                };
                all.push(entry("resident", told.clone().map(|(resident, _)| resident)));
                all.push(entry("shared", told.map(|(_, shared)| shared)));
            }
            self.report(&figure(FigureKind::Memory, ranks, &all));
        }
    }

    /// Watches blocked ranks.
    fn idle(&mut self, cores: u32) {
        let crew = RankPlacement { ranks: 2, pinned: 2 <= cores, apart: false };
        let seats = self.seat(crew, Contestant::is_library);
        let turns = seats.iter().map(|Seat { contestant, job }| {
            let contestant = &self.contestants[*contestant];
            let sample = move || {
                let mut job = job.borrow_mut();
                match job.as_mut() {
                    Ok(job) => idle::sample(job).map_err(|error| error.to_string()),
                    Err(reason) => Err(reason.clone()),
                }
            };
            contestant.turn("", Box::new(sample))
        });
        let all = rounds(IDLE_BLOCKS, || None, turns.collect());
        self.report(&figure(FigureKind::Idle, 2, &all));
    }
}

/// The selected points, ordered so that points that can share a job are adjacent.
fn points(settings: &BenchSettings, cores: u32) -> Vec<MeasuredPoint> {
    let all = [
        (Selection::Latency, latency::points(settings)),
        (Selection::Rate, rate::points()),
        (Selection::Bandwidth, bandwidth::points(settings)),
        (Selection::Bidirectional, bidirectional::points(settings)),
        (Selection::Barrier, barrier::points(settings, cores)),
        (Selection::Collectives, collectives::points(settings, cores)),
        (Selection::Halo, halo::points(settings, cores)),
        (Selection::Late, late::points(settings)),
        (Selection::Late, dense::points(settings)),
        (Selection::Shared, shared::points(settings)),
        (Selection::Shared, nodes::points(settings)),
        (Selection::Rows, rows::points(settings)),
    ];
    let selected = all.into_iter().filter(|(kind, _)| settings.selection.covers(*kind));
    let in_forms = |point: MeasuredPoint| point.in_forms(&settings.data);
    let mut points: Vec<MeasuredPoint> =
        selected.flat_map(|(_, points)| points).flat_map(in_forms).collect();
    points.sort_by_key(|point| (point.ranks, point.apart));
    points
}

/// A figure without messages; the caller adds further fields.
fn figure(kind: FigureKind, ranks: u32, all: &[FormBlocks]) -> Figure {
    let (bare, series) = summarise(all, kind.lower_is_better());
    Figure {
        kind,
        unit: kind.unit(),
        lower_is_better: kind.lower_is_better(),
        ranks,
        bytes: None,
        window: None,
        rows: None,
        data: None,
        bare_is: None,
        bare,
        series,
        states: Vec::new(),
    }
}

/// One block; the first one finds out how much fits into a block.
/// Samples one block; the first one finds out how much fits into a block.
///
/// With a core for each rank, a batch in which other work had the core must not count: the block's
/// value is the median of its batches. With more ranks than cores the other work is the job itself,
/// and the time that waiting takes from its own ranks is to be measured: the value is the mean.
fn sample(
    job: &mut ConnectedJob,
    point: &MeasuredPoint,
    form: MeasuredForm,
    block: f64,
    crowded: bool,
    schedule: &mut Option<Schedule>,
) -> Result<f64, ContestantError> {
    let mut time = |schedule: Schedule| -> Result<f64, ContestantError> {
        let answers = job.run(&point.command(schedule, form))?;
        match answers.into_iter().next() {
            Some(BlockAnswer::Times { nanoseconds }) if !nanoseconds.is_empty() => {
                let each = |batch: u64| batch.max(1) as f64 / schedule.repetitions as f64;
                let times: Vec<f64> = nanoseconds.into_iter().map(each).collect();
                let middle = if crowded { plan::mean(&times) } else { plan::median(&times) };
                Ok(middle.expect("there is at least one time, and all are finite"))
            }
            answer => Err(ContestantError::Answer { rank: 0, answer: format!("{answer:?}") }),
        }
    };
    let fitting = match *schedule {
        Some(fitting) => fitting,
        None => {
            let unreported = point.unreported as f64;
            let mut look = Schedule::FIRST;
            let fitting = loop {
                let each = time(point.whole_rounds(look))? + unreported;
                match look.look_again(each, block) {
                    Some(next) => look = next,
                    None => break point.whole_rounds(Schedule::fill(each, block)),
                }
            };
            *schedule.insert(fitting)
        }
    };
    Ok(point.value(time(fitting)?))
}

/// The bare measurement between two blocks.
#[derive(Clone, Copy)]
struct Beside {
    /// The bare value, in the point's unit.
    bare: f64,
    /// The cache-line transfer at that moment, in nanoseconds, if it was measured.
    line: Option<f64>,
}

/// Runs all turns `blocks` times in alternation, each between two bare measurements.
///
/// A turn that fails is not repeated.
fn rounds(
    blocks: u32,
    mut bare: impl FnMut() -> Option<Beside>,
    mut turns: Vec<SampledForm<'_>>,
) -> Vec<FormBlocks> {
    let mut outcomes: Vec<Result<Vec<MeasuredBlock>, String>> =
        turns.iter().map(|_| Ok(vec![])).collect();
    let mut before = bare();
    for _ in 0..blocks {
        for (turn, outcome) in turns.iter_mut().zip(&mut outcomes) {
            let Ok(taken) = outcome else { continue };
            match (turn.sample)() {
                Ok(value) => {
                    let after = bare();
                    let beside = before.zip(after);
                    let bare = beside.map(|(one, other)| (one.bare + other.bare) / 2.0);
                    let lines = beside.and_then(|(one, other)| Some([one.line?, other.line?]));
                    taken.push(MeasuredBlock { value, bare, lines });
                    before = after;
                }
                Err(reason) => *outcome = Err(reason),
            }
        }
    }
    let named = |(turn, outcome): (SampledForm<'_>, _)| FormBlocks {
        contestant: turn.name.to_owned(),
        form: turn.form,
        place: turn.place,
        beside: turn.beside,
        outcome,
    };
    turns.into_iter().zip(outcomes).map(named).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use super::*;

    #[test]
    fn every_block_stands_between_two_bare_measurements() {
        let own = Contestant::Hikyaku("hikyaku".into());
        let turn = |form, value: f64| own.turn(form, Box::new(move || Ok(value)));
        let measured = Cell::new(0.0);
        let bare = || {
            measured.set(measured.get() + 10.0);
            Some(Beside { bare: measured.get(), line: Some(-measured.get()) })
        };
        let all = rounds(2, bare, vec![turn("heap", 1.0), turn("allocated", 2.0)]);
        let bares = |entry: &FormBlocks| plan::bare_values(entry.outcome.as_ref().unwrap());
        assert_eq!(bares(&all[0]), [15.0, 35.0]);
        assert_eq!(bares(&all[1]), [25.0, 45.0]);
        let lines = |entry: &FormBlocks| entry.outcome.as_ref().unwrap().last().unwrap().lines;
        assert_eq!(lines(&all[1]), Some([-40.0, -50.0]));
        assert_eq!(measured.get(), 50.0);
    }

    #[test]
    fn a_turn_that_failed_is_not_asked_again() {
        let own = Contestant::Hikyaku("hikyaku".into());
        let asked = Cell::new(0);
        let fail = || {
            asked.set(asked.get() + 1);
            Err("gone".to_owned())
        };
        let turns = vec![own.turn("", Box::new(fail))];
        let all = rounds(5, || None, turns);
        assert_eq!(all[0].outcome, Err("gone".into()));
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn the_own_launcher_is_hikyaku_run() {
        let own = Contestant::Hikyaku("/x/hikyaku".into());
        let words = |pinned, apart, work| {
            let command = own.launcher(RankPlacement { ranks: 2, pinned, apart }, work);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(true, false, Work::Serve(Path::new("/s"))),
            "run -n 2 --bind core -- /x/hikyaku bench start --role rank --control /s"
        );
        assert_eq!(
            words(false, true, Work::Start),
            "run -n 2 --bind none --ranks-per-node 1 -- /x/hikyaku bench start --role start"
        );
    }
}
