//! What is searched: ranks that drive the protocol over words and copies, a step at a time, and
//! what must hold after each step.
//!
//! A rank that waits sleeps. It takes a step only if it has been woken, or a death has become
//! known, since it last looked at the head: a wake before that look is lost, as it is between
//! processes.
//!
//! Contents are two halves, written and fetched one after the other, so that what is seen in the
//! middle is seen as torn. A write stores a number of its own.

use std::hash::{Hash, Hasher};

use hikyaku_dsm::geometry::initial_node;
use hikyaku_dsm::protocol::direct::FAR_LOOK;
use hikyaku_dsm::word::{Cell, Phase, READERS_A_WORD, READING, Version};
use hikyaku_dsm::{Action, Departed, Direct, Geometry, Kind, Op, Patience, Place, Protocol};
use hikyaku_dsm::{Refusal, Word};

/// The variable's home.
const HOME: u32 = 0;

/// What is explored.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// What each rank wants, one after the other.
    pub(crate) wants: Vec<Vec<(Kind, Patience)>>,
    pub(crate) ranks_per_node: u32,
    /// A rank whose first requests are over before anything else begins, and how many those are.
    pub(crate) alone: Option<(usize, usize)>,
    /// Ranks that may die, requests that may be given up.
    pub(crate) deaths: u32,
    pub(crate) cancels: u32,
    /// Whether ranks may stop standing back.
    pub(crate) insists: bool,
    /// It is looked at how often a rank asks while another one wants to.
    pub(crate) overtakes: bool,
    pub(crate) recoverable: bool,
    pub(crate) broken: Option<Break>,
}

/// What is wrong in a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    IgnoreReaders,
    StoreCell,
    NoCopy,
    LatestLate,
    HeldStays,
    NobodyHelps,
    /// The bit of whoever wanted to ask stays behind.
    WantStays,
    /// Nobody stands back for those who want to ask.
    NobodyStandsBack,
    NobodyIsWoken,
    /// Whoever gives up does not look whether its turn has come meanwhile.
    GivesUpBlindly,
    /// Whoever passes the turn on takes a cell that was given up for a free one.
    PassesBlindly,
    /// Whoever keeps the variable does not look whether somebody is behind.
    KeepsBlindly,
    /// It enters again whether or not somebody has asked for it,
    EntersBlindly,
    /// to read as well,
    ReadsBlindly,
    /// and lets go so.
    LeavesBlindly,
    /// What a keeper that died has left counts as whole.
    KeptIsWhole,
}

/// Two halves of the contents.
type Copy = [u16; 2];

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rank {
    protocol: Direct,
    /// What it wants next.
    want: usize,
    doing: Doing,
    alive: bool,
    /// It has been woken since it last looked at the head.
    woken: bool,
    /// What a broken variant remembers: the last operation swapped a cell, or the head.
    swapped: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Doing {
    /// Between requests.
    Nothing,
    /// Told this answer.
    Asking(u64),
    /// The same, having been told to wait: asleep.
    Waiting,
    /// The same, having been told to let others past.
    StandingBack,
    /// Fetching from this node; the first half is there.
    Copying(u32, bool),
    /// Inside: how many steps were made there, and what was found.
    Inside(Kind, u8, Copy),
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Model {
    words: Vec<u64>,
    copies: Vec<Copy>,
    ranks: Vec<Rank>,
    departed: Departed,
    dead: u32,
    given_up: u32,
    /// What the last write that was let go has left.
    committed: u16,
    /// A death may have taken something: what is found then is marked.
    excused: bool,
    /// A word that a broken variant writes later.
    late: Option<(usize, u64)>,
    /// For each rank that wants to ask, how often each other one has asked since it said so; only
    /// if the case bounds it.
    overtaken: Vec<Option<Vec<u8>>>,
    pub(crate) tally: Tally,
}

/// Where a word is among all: those at home, then two for each node.
fn index(geometry: &Geometry, word: Word) -> usize {
    let at = match geometry.place(word) {
        Place::Home(at) => at,
        Place::Node(node, at) => geometry.home_words() + 2 * u64::from(node) + at,
    };
    at as usize
}

fn geometry(case: &Case, rank: u32) -> Geometry {
    Geometry::new(case.wants.len() as u32, case.ranks_per_node, rank)
}

/// How often a rank may ask while another one wants to: what had begun before; and what a reader of
/// another node begins until it looks.
fn most_overtakes(at: usize, case: &Case) -> u8 {
    let near = geometry(case, at as u32).node() == geometry(case, HOME).node();
    let reads = case.wants[at].iter().any(|(kind, _)| *kind == Kind::Read);
    if reads && !near { FAR_LOOK } else { 1 }
}

/// What has been counted on the way, which makes no difference to what comes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// How often a rank said that it wanted to ask.
    pub(crate) wanted: u64,
    /// The most that one rank asked while another one wanted to.
    pub(crate) worst: u8,
    /// The most that all others asked from where a rank began to until it had asked.
    pub(crate) bypassed: u64,
    asked: u64,
    /// How many had asked when each rank began.
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
    pub(crate) fn new(case: &Case) -> Model {
        let first = geometry(case, 0);
        let mut words = first.initial_home();
        (0..first.nodes()).for_each(|_| words.extend(initial_node()));
        let ranks = (0..case.wants.len() as u32).map(|rank| Rank {
            protocol: Direct::new(geometry(case, rank), HOME, case.recoverable),
            want: 0,
            doing: Doing::Nothing,
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
            given_up: 0,
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

    /// Whether every rank has nothing left to do.
    pub(crate) fn is_end(&self, case: &Case) -> bool {
        (0..self.ranks.len()).all(|at| self.is_over(at, case))
    }

    /// Whether a rank sleeps and nobody has woken it.
    pub(crate) fn sleeps(&self, at: usize) -> bool {
        self.ranks[at].doing == Doing::Waiting && !self.ranks[at].woken
    }

    /// Whether a rank has nothing left to do.
    pub(crate) fn is_over(&self, at: usize, case: &Case) -> bool {
        let rank = &self.ranks[at];
        !rank.alive || rank.want == case.wants[at].len() && rank.doing == Doing::Nothing
    }

    /// One step of a rank that has something to do.
    pub(crate) fn advance(&mut self, at: usize, case: &Case) -> Result<(), String> {
        self.step(at, case)
    }

    /// Gives up what a rank waits for; says whether it waits.
    pub(crate) fn give_up(&mut self, at: usize) -> bool {
        let rank = &mut self.ranks[at];
        let asked = rank.doing == Doing::Waiting;
        let waits = rank.alive && (asked || rank.doing == Doing::StandingBack);
        if waits {
            assert_eq!(rank.protocol.cancel(), asked, "there is something to be done");
            if asked {
                rank.doing = Doing::Asking(0);
            } else {
                (rank.want, rank.doing) = (rank.want + 1, Doing::Nothing);
            }
        }
        waits
    }

    /// Ends the standing back of a rank; says whether it did.
    pub(crate) fn insist(&mut self, at: usize) -> bool {
        let rank = &mut self.ranks[at];
        let stands = rank.alive && rank.doing == Doing::StandingBack;
        if stands {
            rank.protocol.insist();
            rank.doing = Doing::Asking(0);
        }
        stands
    }

    /// Ends a rank in the middle of whatever it does.
    pub(crate) fn kill(&mut self, at: usize, case: &Case) {
        self.die(at, case);
    }

    /// Everybody learns which ranks are dead.
    pub(crate) fn learn(&mut self) {
        let dead = self.ranks.iter().enumerate().filter(|(_, rank)| !rank.alive);
        dead.for_each(|(at, _)| self.departed.insert(at as u32));
        self.wake_all();
    }

    fn wake_all(&mut self) {
        for rank in self.ranks.iter_mut().filter(|rank| rank.alive) {
            rank.woken = rank.doing != Doing::Nothing;
        }
    }

    /// Every state that one step leads to; and those to which only chance does: what a rank need
    /// not do is no way out for anybody.
    pub(crate) fn steps(
        &self,
        case: &Case,
        into: &mut Vec<Model>,
        by_chance: &mut Vec<Model>,
    ) -> Result<(), String> {
        for (at, rank) in self.ranks.iter().enumerate() {
            if !rank.alive {
                continue;
            }
            let over = rank.want == case.wants[at].len() && rank.doing == Doing::Nothing;
            if !over && !self.sleeps(at) {
                let mut next = self.clone();
                next.step(at, case)?;
                into.push(next);
            }
            let mut next = self.clone();
            if self.given_up < case.cancels && next.give_up(at) {
                next.given_up += 1;
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

    fn die(&mut self, at: usize, case: &Case) {
        self.dead += 1;
        self.ranks[at].alive = false;
        self.ranks[at].woken = false;
        self.overtaken[at] = None;
        let geometry = geometry(case, at as u32);
        let mates = geometry.ranks_of(geometry.node());
        let node_died = mates.clone().all(|mate| !self.ranks[mate as usize].alive);
        let writes = matches!(self.ranks[at].doing, Doing::Inside(Kind::Write, ..));
        // What it was about to say it has not said: the write may count or not.
        let parts = matches!(self.ranks[at].doing, Doing::Asking(_));
        self.excused |= node_died || writes || parts;
        // What it was about to do and what it knew make no difference any more.
        self.ranks[at].doing = Doing::Nothing;
        self.ranks[at].protocol = Direct::new(geometry, HOME, case.recoverable);
    }

    /// Deaths become known, to everybody at once, some time.
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

    fn step(&mut self, at: usize, case: &Case) -> Result<(), String> {
        let geometry = geometry(case, at as u32);
        let own = geometry.node() as usize;
        match self.ranks[at].doing.clone() {
            Doing::Nothing => {
                let (kind, patience) = case.wants[at][self.ranks[at].want];
                self.ranks[at].protocol.request(kind, patience);
                self.tally.began(at);
                self.ask(at, 0, case)
            }
            Doing::Asking(answer) => self.ask(at, answer, case),
            Doing::Waiting => {
                self.ranks[at].woken = false;
                self.ask(at, 0, case)
            }
            Doing::StandingBack => self.ask(at, 0, case),
            Doing::Copying(from, _) if self.is_gone(&geometry, from) => {
                // Until it is known that the node is gone, nothing comes and nothing is said.
                if self.departed.node_is_gone(&geometry, from) {
                    self.ranks[at].doing = Doing::Asking(1);
                }
                Ok(())
            }
            Doing::Copying(from, half) => {
                let place = usize::from(half);
                self.copies[own][place] = self.copies[from as usize][place];
                let rank = &mut self.ranks[at];
                rank.doing = if half { Doing::Asking(0) } else { Doing::Copying(from, true) };
                Ok(())
            }
            Doing::Inside(Kind::Read, _, found) => {
                if self.copies[own] != found {
                    return Err("contents changed under a reader".into());
                }
                self.leave(at);
                Ok(())
            }
            Doing::Inside(Kind::Write, done, found) => {
                let number = (at + 1) as u16 * 16 + self.ranks[at].want as u16 + 1;
                if done < 2 {
                    self.copies[own][usize::from(done)] = number;
                    self.ranks[at].doing = Doing::Inside(Kind::Write, done + 1, found);
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
        self.ranks[at].doing = Doing::Asking(0);
    }

    fn ask(&mut self, at: usize, answer: u64, case: &Case) -> Result<(), String> {
        let nobody = Departed::default();
        let helps = case.broken != Some(Break::NobodyHelps);
        let departed = if helps { self.departed.clone() } else { nobody };
        let geometry = geometry(case, at as u32);
        let action = self.ranks[at].protocol.next(answer, &departed);
        self.ranks[at].doing = match action {
            Action::Access(word, op) => {
                // It looks anew, or goes on.
                let asks = matches!(word, Word::Held(_));
                self.ranks[at].woken &= asks || op == Op::Load && word != Word::Head;
                let answer = self.access(&geometry, word, op, case);
                self.count(at, (word, op), answer, case)?;
                Doing::Asking(answer)
            }
            Action::Copy { .. } if case.broken == Some(Break::NoCopy) => Doing::Asking(0),
            Action::Copy { from } => Doing::Copying(from, false),
            Action::Wait => Doing::Waiting,
            Action::StandBack => Doing::StandingBack,
            Action::Wake(rank) => {
                let rank = &mut self.ranks[rank as usize];
                let there = rank.alive && rank.doing != Doing::Nothing;
                rank.woken |= there && case.broken != Some(Break::NobodyIsWoken);
                Doing::Asking(0)
            }
            Action::Entered(entry) => {
                let own = geometry.node() as usize;
                self.ranks[at].woken = false;
                let kind = case.wants[at][self.ranks[at].want].0;
                self.check(at, kind, self.copies[own], entry.mark.is_some(), case)?;
                Doing::Inside(kind, 0, self.copies[own])
            }
            Action::Refused(refusal) => {
                self.check_refusal(refusal, case)?;
                self.ranks[at].want += 1;
                Doing::Nothing
            }
            Action::Released => {
                self.ranks[at].want += 1;
                Doing::Nothing
            }
        };
        let rank = &mut self.ranks[at];
        if rank.doing == Doing::Nothing && rank.want == case.wants[at].len() {
            // What it remembers makes no difference any more.
            (rank.protocol, rank.woken) = (Direct::new(geometry, HOME, case.recoverable), false);
        }
        Ok(())
    }

    fn check_refusal(&self, refusal: Refusal, case: &Case) -> Result<(), String> {
        match refusal {
            Refusal::Busy => Ok(()),
            Refusal::Lost(_) if self.excused && !case.recoverable => Ok(()),
            Refusal::Lost(_) => Err("lost without a reason".into()),
        }
    }

    /// What must hold when a rank enters.
    fn check(
        &self,
        at: usize,
        kind: Kind,
        found: Copy,
        marked: bool,
        case: &Case,
    ) -> Result<(), String> {
        for (other, rank) in self.ranks.iter().enumerate() {
            let Doing::Inside(theirs, ..) = rank.doing else { continue };
            if other == at {
                continue;
            }
            match (kind, theirs) {
                (Kind::Read, Kind::Read) => {}
                (Kind::Write, Kind::Write) => return Err("two writers".into()),
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

    /// Counts who asks while others want to, and that it is not more than it may be.
    fn count(
        &mut self,
        at: usize,
        done: (Word, Op),
        answer: u64,
        case: &Case,
    ) -> Result<(), String> {
        match done {
            (Word::Readers(_), Op::Or(bit)) if bit >> READERS_A_WORD != 0 => {
                self.tally.wanted += 1;
                if case.overtakes {
                    self.overtaken[at] = Some(vec![0; self.ranks.len()]);
                }
            }
            (Word::Cell(_), Op::CompareSwap { expected, new }) if answer == expected => {
                if Cell::of(new).phase == Phase::Buried {
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
            (Word::Readers(_), Op::And(bits)) if !bits >> READERS_A_WORD != 0 => {
                self.overtaken[at] = None;
            }
            _ => {}
        }
        Ok(())
    }

    fn access(&mut self, geometry: &Geometry, word: Word, op: Op, case: &Case) -> u64 {
        let place = index(geometry, word);
        let old = self.words[place];
        let mut new = op.apply(old);
        let mut answer = old;
        let swapped = self.ranks[geometry.rank as usize].swapped;
        if case.broken.is_some() {
            self.ranks[geometry.rank as usize].swapped = match (word, op) {
                (Word::Cell(_), Op::Swap(_)) => Some(true),
                (Word::Head, Op::Swap(_)) => Some(false),
                _ => None,
            };
        }
        match (case.broken, word, op) {
            (Some(Break::IgnoreReaders), Word::Readers(_), Op::Load) => answer = 0,
            (Some(Break::StoreCell), Word::Cell(_), Op::CompareSwap { expected, new: stored }) => {
                new = stored;
                answer = expected;
            }
            (Some(Break::WantStays), Word::Readers(_), Op::And(bits)) => {
                new = old & (bits | !READING);
            }
            (Some(Break::NobodyStandsBack), Word::Readers(_), Op::Load) => answer = old & READING,
            (Some(Break::GivesUpBlindly), Word::Head, Op::Load) if swapped == Some(true) => {
                answer = 0;
            }
            (Some(Break::PassesBlindly), Word::Cell(_), Op::Load) if swapped == Some(false) => {
                answer = if Cell::of(old).phase == Phase::Gone { 0 } else { old };
            }
            (Some(Break::KeepsBlindly), Word::Cell(_), Op::Load) if swapped == Some(true) => {
                answer = 0;
            }
            (Some(broken), Word::Held(node), _) => {
                let own = node == geometry.node();
                (new, answer) = careless(broken, own, op, old).unwrap_or((new, answer));
            }
            (Some(Break::LatestLate), Word::Latest, Op::Swap(stored)) => {
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

/// What broken variants do to a word that says what a node holds, and are told; `own`: by a rank of
/// that node.
fn careless(broken: Break, own: bool, op: Op, old: u64) -> Option<(u64, u64)> {
    let kept = |word: u64| word & (Version::KEPT | Version::INSIDE) == Version::KEPT;
    match (broken, op) {
        (Break::HeldStays, Op::Swap(0)) => Some((old, old)),
        (Break::EntersBlindly, Op::CompareSwap { expected, new }) => {
            (own && kept(expected) && !kept(new)).then_some((new, expected))
        }
        (Break::LeavesBlindly, Op::CompareSwap { expected, new }) => {
            (own && !kept(expected) && kept(new)).then_some((new, expected))
        }
        (Break::ReadsBlindly, Op::Load) if own => Some((old, old & !Version::ASKED)),
        (Break::KeptIsWhole, Op::Load) => Some((old, old & !Version::INSIDE)),
        _ => None,
    }
}
