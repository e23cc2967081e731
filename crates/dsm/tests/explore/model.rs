//! The searched model: ranks that drive the protocol over words and copies, one step at a time, and
//! the conditions that must hold after each step.
//!
//! A waiting rank sleeps. It takes a step only if it has been woken, or a death has become known,
//! since it last read the head. A wake before that read is lost, as between processes.
//!
//! The contents are two halves, written and fetched one after the other. A rank that reads them
//! between the two sees them torn. Each write stores a different number.

use std::hash::{Hash, Hasher};

use hikyaku_dsm::geometry::initial_node;
use hikyaku_dsm::protocol::direct::FAR_LOOK;
use hikyaku_dsm::word::{READERS_A_WORD, READING, RequestCell, RequestPhase, Version};
use hikyaku_dsm::{AccessKind, Action, Departed, Direct, Geometry, Patience, WordOp, WordPlace};
use hikyaku_dsm::{Refusal, Word};

/// The variable's home.
const HOME: u32 = 0;

/// A case to explore.
#[derive(Debug, Clone)]
pub(crate) struct DirectCase {
    /// The requests of each rank, in order.
    pub(crate) wants: Vec<Vec<(AccessKind, Patience)>>,
    pub(crate) ranks_per_node: u32,
    /// A rank whose first requests end before the other ranks begin, and the number of those
    /// requests.
    pub(crate) alone: Option<(usize, usize)>,
    /// The maximum number of deaths and of cancelled requests.
    pub(crate) deaths: u32,
    pub(crate) cancels: u32,
    /// Whether ranks may stop standing back.
    pub(crate) insists: bool,
    /// Whether to count how often a rank asks while another rank wants to.
    pub(crate) overtakes: bool,
    pub(crate) recoverable: bool,
    pub(crate) broken: Option<Break>,
}

/// The fault that is injected into a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    IgnoreReaders,
    StoreCell,
    NoCopy,
    LatestLate,
    HeldStays,
    NobodyHelps,
    /// The bit of a rank that wanted to ask stays set.
    WantStays,
    /// No rank stands back for others that want to ask.
    NobodyStandsBack,
    NobodyIsWoken,
    /// A rank that cancels does not check whether its turn has come meanwhile.
    CancelsBlindly,
    /// A rank that passes the turn on takes a cancelled cell for a free one.
    PassesBlindly,
    /// A keeper does not check whether a rank is behind it.
    KeepsBlindly,
    /// A keeper enters to write even if another rank has asked for the variable.
    EntersBlindly,
    /// A keeper enters to read in the same case.
    ReadsBlindly,
    /// A keeper releases in the same case.
    LeavesBlindly,
    /// The contents of a dead keeper count as whole.
    KeptIsWhole,
}

/// The two halves of the contents.
type Copy = [u16; 2];

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rank {
    protocol: Direct,
    /// The index of the rank's next request.
    want: usize,
    doing: RankActivity,
    alive: bool,
    /// Whether the rank has been woken since it last read the head.
    woken: bool,
    /// The memory of a faulty variant: whether the last operation swapped a cell, or the head.
    swapped: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RankActivity {
    /// Between requests.
    Nothing,
    /// The rank will pass this answer to the protocol.
    Asking(u64),
    /// Asleep after [`Action::Wait`].
    Waiting,
    /// Standing back after [`Action::StandBack`].
    StandingBack,
    /// Fetching from this node, and whether the first half is done.
    Copying(u32, bool),
    /// Inside: the number of steps made, and the contents found.
    Inside(AccessKind, u8, Copy),
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Model {
    words: Vec<u64>,
    copies: Vec<Copy>,
    ranks: Vec<Rank>,
    departed: Departed,
    dead: u32,
    abandoned: u32,
    /// The number stored by the last released write.
    committed: u16,
    /// Whether a death may have destroyed the contents. Contents found then must be marked.
    excused: bool,
    /// A word that a faulty variant writes later.
    late: Option<(usize, u64)>,
    /// For each rank that wants to ask, how often each other rank has asked since. Only if the case
    /// bounds it.
    overtaken: Vec<Option<Vec<u8>>>,
    pub(crate) tally: Tally,
}

/// The index of a word: first the words at home, then two for each node.
fn index(geometry: &Geometry, word: Word) -> usize {
    let at = match geometry.place(word) {
        WordPlace::Home(at) => at,
        WordPlace::Node(node, at) => geometry.home_words() + 2 * u64::from(node) + at,
    };
    at as usize
}

fn geometry(case: &DirectCase, rank: u32) -> Geometry {
    Geometry::new(case.wants.len() as u32, case.ranks_per_node, rank)
}

/// The bound on how often a rank may ask while another wants to: by requests that had begun before,
/// and, for a reader of another node, by requests that begin before it reads the bits.
fn most_overtakes(at: usize, case: &DirectCase) -> u8 {
    let near = geometry(case, at as u32).node() == geometry(case, HOME).node();
    let reads = case.wants[at].iter().any(|(kind, _)| *kind == AccessKind::Read);
    if reads && !near { FAR_LOOK } else { 1 }
}

/// Counters that do not distinguish states.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// How often a rank set its bit because it wanted to ask.
    pub(crate) wanted: u64,
    /// The maximum number of requests of one rank while another wanted to ask.
    pub(crate) worst: u8,
    /// The maximum number of requests by all others between the begin of a request and its asking.
    pub(crate) bypassed: u64,
    asked: u64,
    /// The number of requests at the time when each rank began.
    since: Vec<u64>,
}

impl Tally {
    fn began(&mut self, at: usize) {
        self.since[at] = self.asked;
    }

    fn asked(&mut self, at: usize) {
        self.bypassed = self.bypassed.max(self.asked - self.since[at]);
        self.asked += 1;
    }
}

impl PartialEq for Tally {
    fn eq(&self, _: &Tally) -> bool {
        true
    }
}

impl Eq for Tally {}

impl Hash for Tally {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Model {
    pub(crate) fn new(case: &DirectCase) -> Model {
        let first = geometry(case, 0);
        let mut words = first.initial_home();
        (0..first.nodes()).for_each(|_| words.extend(initial_node()));
        let ranks = (0..case.wants.len() as u32).map(|rank| Rank {
            protocol: Direct::new(geometry(case, rank), HOME, case.recoverable),
            want: 0,
            doing: RankActivity::Nothing,
            alive: true,
            woken: false,
            swapped: None,
        });
        let mut model = Model {
            words,
            copies: vec![[0; 2]; first.nodes() as usize],
            ranks: ranks.collect(),
            departed: Departed::default(),
            dead: 0,
            abandoned: 0,
            committed: 0,
            excused: false,
            late: None,
            overtaken: vec![None; case.wants.len()],
            tally: Tally { since: vec![0; case.wants.len()], ..Tally::default() },
        };
        if let Some((at, requests)) = case.alone {
            while model.ranks[at].want < requests {
                model.step(at, case).expect("nobody is in the way");
            }
        }
        model
    }

    /// Whether no rank has anything left to do.
    pub(crate) fn is_end(&self, case: &DirectCase) -> bool {
        (0..self.ranks.len()).all(|at| self.is_over(at, case))
    }

    /// Whether a rank sleeps and has not been woken.
    pub(crate) fn sleeps(&self, at: usize) -> bool {
        self.ranks[at].doing == RankActivity::Waiting && !self.ranks[at].woken
    }

    /// Whether a rank has nothing left to do.
    pub(crate) fn is_over(&self, at: usize, case: &DirectCase) -> bool {
        let rank = &self.ranks[at];
        !rank.alive || rank.want == case.wants[at].len() && rank.doing == RankActivity::Nothing
    }

    /// One step of a rank that has something to do.
    pub(crate) fn advance(&mut self, at: usize, case: &DirectCase) -> Result<(), String> {
        self.step(at, case)
    }

    /// Cancels the request of a waiting rank. Returns whether it waited.
    pub(crate) fn cancel(&mut self, at: usize) -> bool {
        let rank = &mut self.ranks[at];
        let asked = rank.doing == RankActivity::Waiting;
        let waits = rank.alive && (asked || rank.doing == RankActivity::StandingBack);
        if waits {
            assert_eq!(rank.protocol.cancel(), asked, "there is something to be done");
            if asked {
                rank.doing = RankActivity::Asking(0);
            } else {
                (rank.want, rank.doing) = (rank.want + 1, RankActivity::Nothing);
            }
        }
        waits
    }

    /// Makes a rank stop standing back. Returns whether it stood back.
    pub(crate) fn insist(&mut self, at: usize) -> bool {
        let rank = &mut self.ranks[at];
        let stands = rank.alive && rank.doing == RankActivity::StandingBack;
        if stands {
            rank.protocol.insist();
            rank.doing = RankActivity::Asking(0);
        }
        stands
    }

    /// Kills a rank in the middle of any step.
    pub(crate) fn kill(&mut self, at: usize, case: &DirectCase) {
        self.die(at, case);
    }

    /// Every rank learns which ranks are dead.
    pub(crate) fn learn(&mut self) {
        let dead = self.ranks.iter().enumerate().filter(|(_, rank)| !rank.alive);
        dead.for_each(|(at, _)| self.departed.insert(at as u32));
        self.wake_all();
    }

    fn wake_all(&mut self) {
        for rank in self.ranks.iter_mut().filter(|rank| rank.alive) {
            rank.woken = rank.doing != RankActivity::Nothing;
        }
    }

    /// All states that one step leads to, and separately those that only chance leads to. No rank
    /// may depend on a step that need not happen.
    pub(crate) fn steps(
        &self,
        case: &DirectCase,
        into: &mut Vec<Model>,
        by_chance: &mut Vec<Model>,
    ) -> Result<(), String> {
        for (at, rank) in self.ranks.iter().enumerate() {
            if !rank.alive {
                continue;
            }
            let over = rank.want == case.wants[at].len() && rank.doing == RankActivity::Nothing;
            if !over && !self.sleeps(at) {
                let mut next = self.clone();
                next.step(at, case)?;
                into.push(next);
            }
            let mut next = self.clone();
            if self.abandoned < case.cancels && next.cancel(at) {
                next.abandoned += 1;
                by_chance.push(next);
            }
            let mut next = self.clone();
            if case.insists && next.insist(at) {
                by_chance.push(next);
            }
            if self.dead < case.deaths && !over {
                let mut next = self.clone();
                next.die(at, case);
                by_chance.push(next);
            }
        }
        self.notice(into);
        Ok(())
    }

    fn die(&mut self, at: usize, case: &DirectCase) {
        self.dead += 1;
        self.ranks[at].alive = false;
        self.ranks[at].woken = false;
        self.overtaken[at] = None;
        let geometry = geometry(case, at as u32);
        let node_died = self.is_gone(&geometry, geometry.node());
        let writes = matches!(self.ranks[at].doing, RankActivity::Inside(AccessKind::Write, ..));
        // The rank dies before its next operation: the write may count or not.
        let parts = matches!(self.ranks[at].doing, RankActivity::Asking(_));
        self.excused |= node_died || writes || parts;
        // The rank's next operation and its knowledge no longer distinguish states.
        self.ranks[at].doing = RankActivity::Nothing;
        self.ranks[at].protocol = Direct::new(geometry, HOME, case.recoverable);
    }

    /// A death becomes known to all ranks at once, at any time.
    fn notice(&self, into: &mut Vec<Model>) {
        for (at, rank) in self.ranks.iter().enumerate() {
            if !rank.alive && !self.departed.contains(at as u32) {
                let mut next = self.clone();
                next.departed.insert(at as u32);
                next.wake_all();
                into.push(next);
            }
        }
    }

    fn step(&mut self, at: usize, case: &DirectCase) -> Result<(), String> {
        let geometry = geometry(case, at as u32);
        let own = geometry.node() as usize;
        match self.ranks[at].doing.clone() {
            RankActivity::Nothing => {
                let (kind, patience) = case.wants[at][self.ranks[at].want];
                self.ranks[at].protocol.request(kind, patience);
                self.tally.began(at);
                self.ask(at, 0, case)
            }
            RankActivity::Asking(answer) => self.ask(at, answer, case),
            RankActivity::Waiting => {
                self.ranks[at].woken = false;
                self.ask(at, 0, case)
            }
            RankActivity::StandingBack => self.ask(at, 0, case),
            RankActivity::Copying(from, _) if self.is_gone(&geometry, from) => {
                // Until the node is known to be gone, nothing arrives and no error is reported.
                if self.departed.node_is_gone(&geometry, from) {
                    self.ranks[at].doing = RankActivity::Asking(1);
                }
                Ok(())
            }
            RankActivity::Copying(from, half) => {
                let place = usize::from(half);
                self.copies[own][place] = self.copies[from as usize][place];
                let rank = &mut self.ranks[at];
                rank.doing =
                    if half { RankActivity::Asking(0) } else { RankActivity::Copying(from, true) };
                Ok(())
            }
            RankActivity::Inside(AccessKind::Read, _, found) => {
                if self.copies[own] != found {
                    return Err("contents changed under a reader".into());
                }
                self.leave(at);
                Ok(())
            }
            RankActivity::Inside(AccessKind::Write, done, found) => {
                let number = (at + 1) as u16 * 16 + self.ranks[at].want as u16 + 1;
                if done < 2 {
                    self.copies[own][usize::from(done)] = number;
                    self.ranks[at].doing = RankActivity::Inside(AccessKind::Write, done + 1, found);
                } else {
                    self.committed = number;
                    self.leave(at);
                }
                Ok(())
            }
        }
    }

    fn is_gone(&self, geometry: &Geometry, node: u32) -> bool {
        geometry.ranks_of(node).all(|rank| !self.ranks[rank as usize].alive)
    }

    fn leave(&mut self, at: usize) {
        self.ranks[at].protocol.release();
        self.ranks[at].doing = RankActivity::Asking(0);
    }

    fn ask(&mut self, at: usize, answer: u64, case: &DirectCase) -> Result<(), String> {
        let nobody = Departed::default();
        let helps = case.broken != Some(Break::NobodyHelps);
        let departed = if helps { self.departed.clone() } else { nobody };
        let geometry = geometry(case, at as u32);
        let action = self.ranks[at].protocol.next(answer, &departed);
        self.ranks[at].doing = match action {
            Action::Access(word, op) => {
                // The rank begins again, or continues.
                let asks = matches!(word, Word::Held(_));
                self.ranks[at].woken &= asks || op == WordOp::Load && word != Word::Head;
                let answer = self.access(&geometry, word, op, case);
                self.count(at, (word, op), answer, case)?;
                RankActivity::Asking(answer)
            }
            Action::Copy { .. } if case.broken == Some(Break::NoCopy) => RankActivity::Asking(0),
            Action::Copy { from } => RankActivity::Copying(from, false),
            Action::Wait => RankActivity::Waiting,
            Action::StandBack => RankActivity::StandingBack,
            Action::Wake(rank) => {
                let rank = &mut self.ranks[rank as usize];
                let there = rank.alive && rank.doing != RankActivity::Nothing;
                rank.woken |= there && case.broken != Some(Break::NobodyIsWoken);
                RankActivity::Asking(0)
            }
            Action::Entered(entry) => {
                let own = geometry.node() as usize;
                self.ranks[at].woken = false;
                let kind = case.wants[at][self.ranks[at].want].0;
                self.check(at, kind, self.copies[own], entry.mark.is_some(), case)?;
                RankActivity::Inside(kind, 0, self.copies[own])
            }
            Action::Refused(refusal) => {
                self.check_refusal(refusal, case)?;
                self.ranks[at].want += 1;
                RankActivity::Nothing
            }
            Action::Released => {
                self.ranks[at].want += 1;
                RankActivity::Nothing
            }
        };
        let rank = &mut self.ranks[at];
        if rank.doing == RankActivity::Nothing && rank.want == case.wants[at].len() {
            // The rank's memory no longer distinguishes states.
            (rank.protocol, rank.woken) = (Direct::new(geometry, HOME, case.recoverable), false);
        }
        Ok(())
    }

    fn check_refusal(&self, refusal: Refusal, case: &DirectCase) -> Result<(), String> {
        match refusal {
            Refusal::Busy => Ok(()),
            Refusal::Lost(_) if self.excused && !case.recoverable => Ok(()),
            Refusal::Lost(_) => Err("lost without a reason".into()),
            Refusal::Overwritten => Err("nobody has overwritten anything".into()),
        }
    }

    /// The conditions that must hold when a rank enters.
    fn check(
        &self,
        at: usize,
        kind: AccessKind,
        found: Copy,
        marked: bool,
        case: &DirectCase,
    ) -> Result<(), String> {
        for (other, rank) in self.ranks.iter().enumerate() {
            let RankActivity::Inside(theirs, ..) = rank.doing else { continue };
            if other == at {
                continue;
            }
            match (kind, theirs) {
                (AccessKind::Read, AccessKind::Read) => {}
                (AccessKind::Write, AccessKind::Write) => return Err("two writers".into()),
                _ => return Err("a reader beside a writer".into()),
            }
        }
        if found[0] != found[1] && !marked {
            return Err(format!("torn contents {found:?}"));
        }
        let newest = found == [self.committed; 2];
        if !newest && !marked && !self.excused {
            return Err(format!("old contents {found:?}, not {}", self.committed));
        }
        if marked && !(self.excused && case.recoverable) {
            return Err("marked without a reason".into());
        }
        Ok(())
    }

    /// Counts requests made while others want to ask, and checks the bound.
    fn count(
        &mut self,
        at: usize,
        done: (Word, WordOp),
        answer: u64,
        case: &DirectCase,
    ) -> Result<(), String> {
        match done {
            (Word::Readers(_), WordOp::Or(bit)) if bit >> READERS_A_WORD != 0 => {
                self.tally.wanted += 1;
                if case.overtakes {
                    self.overtaken[at] = Some(vec![0; self.ranks.len()]);
                }
            }
            (Word::Cell(_), WordOp::CompareSwap { expected, new }) if answer == expected => {
                if RequestCell::of(new).phase == RequestPhase::Buried {
                    return Ok(());
                }
                self.overtaken[at] = None;
                self.tally.asked(at);
                let most = most_overtakes(at, case);
                for (other, counts) in self.overtaken.iter_mut().enumerate() {
                    let Some(counts) = counts else { continue };
                    counts[at] += 1;
                    self.tally.worst = self.tally.worst.max(counts[at]);
                    if counts[at] > most {
                        return Err(format!("rank {at} has overtaken {other} again"));
                    }
                }
            }
            (Word::Readers(_), WordOp::And(bits)) if !bits >> READERS_A_WORD != 0 => {
                self.overtaken[at] = None;
            }
            _ => {}
        }
        Ok(())
    }

    fn access(&mut self, geometry: &Geometry, word: Word, op: WordOp, case: &DirectCase) -> u64 {
        let place = index(geometry, word);
        let old = self.words[place];
        let mut new = op.apply(old);
        let mut answer = old;
        let swapped = self.ranks[geometry.rank as usize].swapped;
        if case.broken.is_some() {
            self.ranks[geometry.rank as usize].swapped = match (word, op) {
                (Word::Cell(_), WordOp::Swap(_)) => Some(true),
                (Word::Head, WordOp::Swap(_)) => Some(false),
                _ => None,
            };
        }
        match (case.broken, word, op) {
            (Some(Break::IgnoreReaders), Word::Readers(_), WordOp::Load) => answer = 0,
            (
                Some(Break::StoreCell),
                Word::Cell(_),
                WordOp::CompareSwap { expected, new: stored },
            ) => {
                new = stored;
                answer = expected;
            }
            (Some(Break::WantStays), Word::Readers(_), WordOp::And(bits)) => {
                new = old & (bits | !READING);
            }
            (Some(Break::NobodyStandsBack), Word::Readers(_), WordOp::Load) => {
                answer = old & READING;
            }
            (Some(Break::CancelsBlindly), Word::Head, WordOp::Load) if swapped == Some(true) => {
                answer = 0;
            }
            (Some(Break::PassesBlindly), Word::Cell(_), WordOp::Load) if swapped == Some(false) => {
                answer = if RequestCell::of(old).phase == RequestPhase::Gone { 0 } else { old };
            }
            (Some(Break::KeepsBlindly), Word::Cell(_), WordOp::Load) if swapped == Some(true) => {
                answer = 0;
            }
            (Some(broken), Word::Held(node), _) => {
                let own = node == geometry.node();
                (new, answer) = careless(broken, own, op, old).unwrap_or((new, answer));
            }
            (Some(Break::LatestLate), Word::Latest, WordOp::Swap(stored)) => {
                self.late = Some((place, stored));
                return old;
            }
            _ => {}
        }
        self.words[place] = new;
        // The rank that passed the turn on writes the word with its next step.
        if let (Some((at, stored)), Word::Cell(_)) = (self.late, word) {
            self.words[at] = stored;
            self.late = None;
        }
        answer
    }
}

/// The new value of the word `held` under a faulty variant, and the answer. `own`: a rank of that
/// node performs the operation.
fn careless(broken: Break, own: bool, op: WordOp, old: u64) -> Option<(u64, u64)> {
    let kept = |word: u64| word & (Version::KEPT | Version::INSIDE) == Version::KEPT;
    match (broken, op) {
        (Break::HeldStays, WordOp::Swap(0)) => Some((old, old)),
        (Break::EntersBlindly, WordOp::CompareSwap { expected, new }) => {
            (own && kept(expected) && !kept(new)).then_some((new, expected))
        }
        (Break::LeavesBlindly, WordOp::CompareSwap { expected, new }) => {
            (own && !kept(expected) && kept(new)).then_some((new, expected))
        }
        (Break::ReadsBlindly, WordOp::Load) if own => Some((old, old & !Version::ASKED)),
        (Break::KeptIsWhole, WordOp::Load) => Some((old, old & !Version::INSIDE)),
        _ => None,
    }
}
