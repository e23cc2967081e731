//! A network in one thread, with all facilities that an interface can have.
//!
//! It is as unhelpful as the rules allow. The rank that runs next is drawn at random; so is, for
//! each message, whether its send waits until it is received. A program that relies on buffered
//! sends deadlocks here, and a deadlock is detected: no rank could do anything in a whole round.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use hikyaku_coll::{
    ADDRESS, Caller, Cause, CopyReach, Facilities, Group, LineTurn, LineTurns, Loss, Made, Mates,
    Notice, OperationEnding,
};
use hikyaku_msg::join_all;
use hikyaku_nic::random::Random;
use hikyaku_nic::ring::LINE_BYTES;
use thiserror::Error;

/// The errors of this network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum NetworkError {
    #[error("rank {0} is dead")]
    Dead(u32),
    #[error("this network cannot {0}")]
    Unsupported(&'static str),
}

/// The ranks, and the behaviour of the network.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    /// The node of each rank.
    pub(crate) nodes: Vec<u32>,
    pub(crate) facilities: Facilities,
    /// A rank that dies, and the number of polls before that.
    pub(crate) death: Option<(u32, usize)>,
}

/// The operations that a rank has started so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Messages, including those of chains and multicasts.
    pub(crate) messages: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// Commands: a chain, a multicast and an addition are one each.
    pub(crate) commands: usize,
    /// Copies out of other ranks' memory, and those that were refused.
    pub(crate) reads: usize,
    pub(crate) refused: usize,
}

/// How a network treats reads of exposed memory; drawn from its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All reads are refused.
    Never,
    /// All reads succeed.
    Always,
    /// Each read may be refused.
    Sometimes,
}

impl Setup {
    pub(crate) fn reading(&self) -> Reading {
        [Reading::Never, Reading::Always, Reading::Always, Reading::Sometimes]
            [self.seed as usize % 4]
    }
}

/// Bytes of a line, and the number of lines per rank.
const LINE: usize = 64;
const LINES: usize = 2;

/// The contributions of a rank on its lines, and its progress.
struct Lines<B> {
    said: Vec<Option<(u64, Vec<B>)>>,
    /// The number of rounds that it has finished.
    finished: usize,
    turns: LineTurns,
    /// Reported losses, with the reporting rank.
    losses: Vec<(u32, Loss)>,
}

impl<B> Lines<B> {
    fn new() -> Lines<B> {
        Lines { said: Vec::new(), finished: 0, turns: LineTurns::default(), losses: Vec::new() }
    }
}

struct Message<B> {
    number: u64,
    tag: i32,
    payload: Vec<B>,
}

struct State<B> {
    setup: Setup,
    random: Random,
    /// Messages and posted receives from `a` to `b` at `a * size + b`, in order.
    messages: Vec<VecDeque<Message<B>>>,
    receives: Vec<VecDeque<(u64, i32)>>,
    /// For each rank: the call, the reporting rank, and the cause.
    notices: Vec<Vec<(u32, u32, Cause)>>,
    lines: Vec<Lines<B>>,
    /// For each synchronisation, the number of ranks that have entered; and the number of calls of
    /// each rank.
    synchronised: Vec<usize>,
    syncs: Vec<usize>,
    /// The calls of each rank.
    made: Vec<Vec<Made>>,
    dead: Vec<bool>,
    /// Whether a copy was refused, so that no rank exposes its memory any more.
    is_refused: bool,
    /// The operations that each rank has started, and the number of its messages to other nodes.
    counts: Vec<Counts>,
    between_nodes: Vec<usize>,
    numbers: u64,
    /// Incremented at every event.
    events: u64,
}

impl<B> State<B> {
    fn size(&self) -> usize {
        self.setup.nodes.len()
    }

    fn lane(&self, from: u32, to: u32) -> usize {
        from as usize * self.size() + to as usize
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.events += 1;
        self.numbers
    }

    fn push(&mut self, from: u32, to: u32, tag: i32, payload: Vec<B>) -> u64 {
        let (lane, number) = (self.lane(from, to), self.number());
        let [one, other] = [from, to].map(|rank| self.setup.nodes[rank as usize]);
        self.between_nodes[from as usize] += usize::from(one != other);
        self.counts[from as usize].messages += 1;
        self.counts[from as usize].bytes += payload.len();
        self.messages[lane].push_back(Message { number, tag, payload });
        number
    }
}

/// A rank's handle on the network.
pub(crate) struct Node<B> {
    rank: u32,
    mates: Option<Mates>,
    state: Rc<RefCell<State<B>>>,
}

/// Runs `body` on every rank. Returns their results, `None` for a dead rank.
pub(crate) fn run<B: Copy + Default + 'static, R>(
    setup: &Setup,
    body: impl AsyncFn(&Node<B>) -> R,
) -> Vec<Option<R>> {
    let size = setup.nodes.len();
    let state = Rc::new(RefCell::new(State {
        setup: setup.clone(),
        random: Random::new(setup.seed),
        messages: (0..size * size).map(|_| VecDeque::new()).collect(),
        receives: (0..size * size).map(|_| VecDeque::new()).collect(),
        notices: vec![Vec::new(); size],
        lines: (0..size).map(|_| Lines::new()).collect(),
        synchronised: Vec::new(),
        syncs: vec![0; size],
        made: vec![Vec::new(); size],
        dead: vec![false; size],
        is_refused: false,
        counts: vec![Counts::default(); size],
        between_nodes: vec![0; size],
        numbers: 0,
        events: 0,
    }));
    let mates = |rank| match setup.facilities.lines {
        true => Mates::of(rank, size as u32, |rank| setup.nodes[rank as usize]),
        false => None,
    };
    let node = |rank| Node { rank, mates: mates(rank), state: Rc::clone(&state) };
    let nodes: Vec<Node<B>> = (0..size as u32).map(node).collect();
    let mut futures: Vec<_> = nodes.iter().map(|node| Some(Box::pin(body(node)))).collect();
    let mut results: Vec<Option<R>> = (0..size).map(|_| None).collect();
    let mut polls = vec![0; size];
    let mut context = Context::from_waker(Waker::noop());
    let mut order = Random::new(!setup.seed);
    while futures.iter().any(Option::is_some) {
        let before = state.borrow().events;
        let start = order.place(size);
        for rank in (start..size).chain(0..start) {
            let Some(future) = &mut futures[rank] else { continue };
            if order.below(4) == 0 && state.borrow().events != before {
                continue;
            }
            if setup.death == Some((rank as u32, polls[rank])) {
                state.borrow_mut().dead[rank] = true;
                state.borrow_mut().events += 1;
                // It sends nothing more: reports that its future makes when it is dropped are
                // removed.
                futures[rank] = None;
                state.borrow_mut().notices.iter_mut().for_each(|to| {
                    to.retain(|(_, from, _)| *from != rank as u32);
                });
                state.borrow_mut().lines.iter_mut().for_each(|to| {
                    to.losses.retain(|(from, _)| *from != rank as u32);
                });
                continue;
            }
            polls[rank] += 1;
            if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                results[rank] = Some(result);
                futures[rank] = None;
                state.borrow_mut().events += 1;
            }
        }
        assert_ne!(before, state.borrow().events, "a standstill: {setup:?}");
    }
    results
}

impl<B: Copy + Default + 'static> Node<B> {
    /// The operations that this rank has started so far.
    pub(crate) fn counts(&self) -> Counts {
        self.state.borrow().counts[self.rank as usize]
    }

    /// The number of messages that this rank has sent to other nodes so far.
    pub(crate) fn between_nodes(&self) -> usize {
        self.state.borrow().between_nodes[self.rank as usize]
    }

    /// Reports lost lines to all others.
    fn tell(&self, loss: Option<Loss>) {
        let (Some(loss), mut state) = (loss, self.state.borrow_mut()) else { return };
        state.lines.iter_mut().for_each(|to| to.losses.push((self.rank, loss)));
        state.events += 1;
    }

    fn hear(&self) {
        let losses = std::mem::take(&mut self.state.borrow_mut().lines[self.rank as usize].losses);
        for (_, loss) in losses.into_iter().filter(|(from, _)| *from != self.rank) {
            let news = self.with_turns(|turns| turns.hear(loss));
            self.tell(news);
        }
    }

    fn with_turns<R>(&self, act: impl FnOnce(&mut LineTurns) -> R) -> R {
        act(&mut self.state.borrow_mut().lines[self.rank as usize].turns)
    }

    /// The contribution of a mate in this rank's current round.
    fn said(
        state: &State<B>,
        rank: u32,
        mate: u32,
    ) -> Result<Option<&(u64, Vec<B>)>, NetworkError> {
        let round = state.lines[rank as usize].finished;
        match state.lines[mate as usize].said.get(round) {
            Some(Some(said)) => Ok(Some(said)),
            _ if state.dead[mate as usize] => Err(NetworkError::Dead(mate)),
            _ => Ok(None),
        }
    }

    fn command(&self) {
        self.state.borrow_mut().counts[self.rank as usize].commands += 1;
    }

    fn start_send(&self, to: u32, tag: i32, payload: Vec<B>) -> (u64, bool) {
        let mut state = self.state.borrow_mut();
        let waits = state.random.below(2) == 0;
        (state.push(self.rank, to, tag, payload), waits)
    }
}

impl<B: Copy + Default + 'static> Group for Node<B> {
    type Byte = B;
    type Error = NetworkError;

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.state.borrow().size() as u32
    }

    fn node_of(&self, rank: u32) -> u32 {
        self.state.borrow().setup.nodes[rank as usize]
    }

    fn nodes(&self) -> u32 {
        let nodes = &self.state.borrow().setup.nodes;
        nodes.iter().collect::<std::collections::BTreeSet<_>>().len() as u32
    }

    fn open(&self, made: Made) -> u32 {
        let mut state = self.state.borrow_mut();
        let number = state.made[self.rank as usize].len() as u32;
        state.made[self.rank as usize].push(made);
        if made.algorithm.is_none() {
            state.lines[self.rank as usize].turns.open(number);
        }
        number
    }

    fn send<'a>(
        &'a self,
        bytes: &'a [B],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), NetworkError>> + Unpin + 'a {
        self.command();
        Sending { node: self, bytes, to, tag, started: None }
    }

    fn recv<'a>(
        &'a self,
        into: &'a mut [B],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, NetworkError>> + Unpin + 'a {
        Receiving { node: self, into, from, tag, posted: None }
    }

    async fn send_chain<'a>(
        &'a self,
        chain: Vec<(u32, &'a [B])>,
        tag: i32,
    ) -> Result<(), NetworkError> {
        self.command();
        let send = |(to, bytes)| Sending { node: self, bytes, to, tag, started: None };
        let sent = join_all(chain.into_iter().map(send).collect()).await;
        sent.into_iter().collect()
    }

    fn facilities(&self) -> Facilities {
        if self.mates.is_some() {
            self.hear();
        }
        let state = self.state.borrow();
        let rank = self.rank as usize;
        let lines =
            self.mates.is_some() && state.lines[rank].turns.are_for(state.made[rank].len() as u32);
        Facilities { lines, ..state.setup.facilities }
    }

    fn mates(&self) -> Option<&Mates> {
        self.mates.as_ref()
    }

    fn next_on_lines(&self) -> Option<u32> {
        let number = self.state.borrow().made[self.rank as usize].len() as u32;
        self.with_turns(|turns| turns.is_next(number)).then_some(number)
    }

    fn pass(&self, made: Made) {
        let mut state = self.state.borrow_mut();
        let number = state.made[self.rank as usize].len() as u32;
        state.made[self.rank as usize].push(made);
        state.lines[self.rank as usize].turns.pass(number);
    }

    fn turn(&self, number: u32) -> LineTurn {
        self.with_turns(|turns| turns.turn(number))
    }

    fn give_way(&self, number: u32) {
        self.with_turns(|turns| turns.give_way(number));
    }

    fn most_on_lines(&self) -> usize {
        LINE
    }

    fn contribute(&self, word: u64, pieces: &[&[B]]) -> Result<bool, NetworkError> {
        let bytes = pieces.concat();
        assert!(bytes.len() <= LINE.max(LINE_BYTES));
        let (mates, mut state) = (self.mates.clone().unwrap(), self.state.borrow_mut());
        let round = state.lines[self.rank as usize].finished;
        let is_behind = |mate: u32| {
            !state.dead[mate as usize] && state.lines[mate as usize].finished + LINES <= round
        };
        if mates.ranks().any(is_behind) {
            return Ok(false);
        }
        let said = &mut state.lines[self.rank as usize].said;
        assert!(said.len() <= round, "contributed twice");
        said.resize_with(round, || None);
        said.push(Some((word, bytes)));
        state.events += 1;
        Ok(true)
    }

    fn all_contributed(&self, word: u64) -> Result<Option<bool>, NetworkError> {
        let state = self.state.borrow();
        let mut same = true;
        for mate in self.mates.as_ref().unwrap().ranks() {
            match Self::said(&state, self.rank, mate)? {
                None => return Ok(None),
                Some((said, _)) => same &= *said == word,
            }
        }
        Ok(Some(same))
    }

    fn contribution(
        &self,
        place: usize,
        from: usize,
        into: &mut [B],
    ) -> Result<Option<u64>, NetworkError> {
        let state = self.state.borrow();
        let mate = self.mates.as_ref().unwrap().ranks().start + place as u32;
        let Some((word, bytes)) = Self::said(&state, self.rank, mate)? else { return Ok(None) };
        let bytes = bytes.get(from..).unwrap_or(&[]);
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        Ok(Some(*word))
    }

    fn finish_round(&self) -> Result<(), NetworkError> {
        let mut state = self.state.borrow_mut();
        state.lines[self.rank as usize].finished += 1;
        state.events += 1;
        Ok(())
    }

    /// The address of the bytes in this process, after a one. Zeros where ranks carry no bytes.
    fn expose(&self, bytes: &[B]) -> [B; ADDRESS] {
        let mut address = [B::default(); ADDRESS];
        let state = self.state.borrow();
        let can = state.setup.reading() != Reading::Never && !state.is_refused;
        if let (true, Some(words)) = (can, (&mut address as &mut dyn Any).downcast_mut()) {
            let words: &mut [u8; ADDRESS] = words;
            words[0] = 1;
            words[8..].copy_from_slice(&(bytes.as_ptr().addr() as u64).to_le_bytes());
        }
        address
    }

    fn reach(address: &[B; ADDRESS]) -> Option<CopyReach> {
        let words: &[u8; ADDRESS] = (address as &dyn Any).downcast_ref()?;
        (words[0] == 1).then_some(CopyReach::Process)
    }

    fn read(
        &self,
        place: usize,
        address: &[B; ADDRESS],
        from: usize,
        into: &mut [B],
    ) -> Result<bool, NetworkError> {
        let mut state = self.state.borrow_mut();
        let mate = self.mates.as_ref().unwrap().ranks().start + place as u32;
        if state.dead[mate as usize] {
            return Err(NetworkError::Dead(mate));
        }
        let is_refused = state.setup.reading() == Reading::Sometimes && state.random.below(4) == 0;
        let counts = &mut state.counts[self.rank as usize];
        if is_refused {
            counts.refused += 1;
            return Ok(false);
        }
        counts.reads += 1;
        let words: &[u8; ADDRESS] = (address as &dyn Any).downcast_ref().unwrap();
        let start = u64::from_le_bytes(words[8..].try_into().unwrap());
        let mut bytes = vec![0; into.len()];
        let memory = File::open("/proc/self/mem").unwrap();
        memory.read_exact_at(&mut bytes, start + from as u64).unwrap();
        let bytes: Box<dyn Any> = Box::new(bytes);
        into.copy_from_slice(&bytes.downcast::<Vec<B>>().unwrap());
        Ok(true)
    }

    fn note_refusal(&self) {
        self.state.borrow_mut().is_refused = true;
    }

    async fn multicast<'a>(&'a self, bytes: &'a [B], tag: i32) -> Result<(), NetworkError> {
        self.command();
        let mut state = self.state.borrow_mut();
        for to in (0..state.size() as u32).filter(|to| *to != self.rank) {
            state.push(self.rank, to, tag, bytes.to_vec());
        }
        Ok(())
    }

    fn sync(&self) -> impl Future<Output = Result<(), NetworkError>> + '_ {
        let number = self.state.borrow().syncs[self.rank as usize];
        self.state.borrow_mut().syncs[self.rank as usize] += 1;
        let mut came = false;
        poll_fn(move |_| {
            let mut state = self.state.borrow_mut();
            if !came {
                came = true;
                let needed = state.synchronised.len().max(number + 1);
                state.synchronised.resize(needed, 0);
                state.synchronised[number] += 1;
                state.events += 1;
            }
            match state.synchronised[number] == state.size() {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
    }

    fn unsupported(what: &'static str) -> NetworkError {
        NetworkError::Unsupported(what)
    }

    fn gone(error: &NetworkError) -> Option<u32> {
        match error {
            NetworkError::Dead(rank) => Some(*rank),
            NetworkError::Unsupported(_) => None,
        }
    }

    fn close(&self, number: u32, ending: OperationEnding) {
        let cause = match ending {
            OperationEnding::Done | OperationEnding::Known => {
                return self.with_turns(|turns| turns.done(number));
            }
            OperationEnding::Failed(cause) => cause,
            OperationEnding::Told => Cause::Failed,
        };
        let loss = self.with_turns(|turns| turns.fail(number, self.rank, cause));
        self.tell(loss);
        let mut state = self.state.borrow_mut();
        state.events += 1;
        if ending != OperationEnding::Told && loss.is_none() {
            let notice = (number, self.rank, cause);
            state.notices.iter_mut().for_each(|to| to.push(notice));
        }
    }

    fn notice(&self, number: u32) -> Option<Notice> {
        self.hear();
        if let Some(loss) = self.with_turns(|turns| turns.ends(number)) {
            return Some(Notice { rank: loss.rank, cause: loss.cause });
        }
        let state = self.state.borrow();
        let told = state.notices[self.rank as usize].iter().find(|(to, ..)| *to == number);
        if let Some((_, rank, cause)) = told {
            return Some(Notice { rank: *rank, cause: *cause });
        }
        (0..state.size() as u32).find_map(|rank| {
            let made = |rank: u32| state.made[rank as usize].get(number as usize);
            let (theirs, own) = (made(rank)?, made(self.rank)?);
            let (one, other) =
                (Caller { rank, call: theirs.call }, Caller { rank: self.rank, call: own.call });
            (!own.fits(theirs)).then_some(Notice { rank, cause: Cause::Differ { one, other } })
        })
    }
}

struct Sending<'a, B> {
    node: &'a Node<B>,
    bytes: &'a [B],
    to: u32,
    tag: i32,
    started: Option<u64>,
}

impl<B: Copy + Default + 'static> Future for Sending<'_, B> {
    type Output = Result<(), NetworkError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let (node, to) = (self.node, self.to);
        if node.state.borrow().dead[to as usize] {
            return Poll::Ready(Err(NetworkError::Dead(to)));
        }
        let Some(number) = self.started else {
            let (number, waits) = node.start_send(to, self.tag, self.bytes.to_vec());
            if !waits {
                return Poll::Ready(Ok(()));
            }
            self.started = Some(number);
            return Poll::Pending;
        };
        let state = node.state.borrow();
        let lane = &state.messages[state.lane(node.rank, to)];
        match lane.iter().any(|message| message.number == number) {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }
}

impl<B> Drop for Sending<'_, B> {
    fn drop(&mut self) {
        if let Some(number) = self.started {
            let mut state = self.node.state.borrow_mut();
            let lane = state.lane(self.node.rank, self.to);
            state.messages[lane].retain(|message| message.number != number);
        }
    }
}

struct Receiving<'a, B> {
    node: &'a Node<B>,
    into: &'a mut [B],
    from: u32,
    tag: i32,
    posted: Option<u64>,
}

impl<B: Copy + Default + 'static> Future for Receiving<'_, B> {
    type Output = Result<u64, NetworkError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut state = this.node.state.borrow_mut();
        let lane = state.lane(this.from, this.node.rank);
        let number = *this.posted.get_or_insert_with(|| {
            let number = state.number();
            state.receives[lane].push_back((number, this.tag));
            number
        });
        let turn = state.receives[lane].iter().find(|(_, tag)| *tag == this.tag);
        let message = state.messages[lane].iter().position(|message| message.tag == this.tag);
        if let (true, Some(at)) = (turn.is_some_and(|(first, _)| *first == number), message) {
            let payload = state.messages[lane].remove(at).unwrap().payload;
            state.receives[lane].retain(|(posted, _)| *posted != number);
            state.events += 1;
            this.posted = None;
            let fits = payload.len().min(this.into.len());
            this.into[..fits].copy_from_slice(&payload[..fits]);
            return Poll::Ready(Ok(payload.len() as u64));
        }
        if state.dead[this.from as usize] {
            return Poll::Ready(Err(NetworkError::Dead(this.from)));
        }
        Poll::Pending
    }
}

impl<B> Drop for Receiving<'_, B> {
    fn drop(&mut self) {
        if let Some(number) = self.posted {
            let mut state = self.node.state.borrow_mut();
            let lane = state.lane(self.from, self.node.rank);
            state.receives[lane].retain(|(posted, _)| *posted != number);
        }
    }
}
