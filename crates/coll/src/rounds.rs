//! Rounds over the lines that ranks of a node share: the building blocks of algorithms by lines.
//!
//! A contribution is written once and read by all. It names the call it belongs to
//! ([`Signature::word`]), so that ranks that make different calls, or pass different arguments,
//! detect that.
//!
//! Where all ranks contribute and read, all detect it in the same round: every rank fails and knows
//! that the others do, and the lines stay valid. Any other failure ends the lines ([`LineTurns`]).
//!
//! Where one rank is the root, the contributors read nothing and continue
//! (`Operation::runs_ahead`): the root of a broadcast or scatter, all others of a gather or
//! reduction. If they have made different calls, no rank may detect it in that call. So the word of
//! a later call has a checksum over such calls, and ranks whose checksums differ ask each other
//! which call it was ([`Group::doubt_past`]):
//!
//! ```text
//!   rank 0   call 7: reduce to 1, returned │ call 8: other sum? ──► question ─┐
//!   rank 1   call 7: reduce to 0, returned │ call 8: other sum? ──► question ─┴─► both fail
//! ```
//!
//! [`LineTurns`]: crate::turns::LineTurns

use std::future::poll_fn;
use std::hint::spin_loop;
use std::task::Poll;

use crate::call::Team;
use crate::combine::Reduction;
use crate::doubling::recursive_doubling;
use crate::error::Failure;
use crate::group::{ChannelUse, Group};
use crate::long::{ByLines, LongCall, LongOperation, LongWay, OffLines};
use crate::mates::{MOST_MATES, Mates};
use crate::part::Data;
use crate::signature::Signature;
use crate::turns::LineTurn;

use hikyaku_nic::fabric::ChannelOffer;
use hikyaku_nic::ring::LINE_BYTES;

/// A part of a broadcast is the longest contribution divided by this: small enough that readers
/// start early, large enough that a round costs little beside the copy (32 KiB of 256).
pub(crate) const BROADCAST_PARTS: usize = 8;

/// Polls of the lines before a call becomes a future, for each poll between two polls for messages:
/// the time of a line to a far core and an answer back. 8 B broadcasts from changing roots on far
/// cores (203 ns a line) took 388 ns with one, 289 with four.
const FIRST_LOOKS: u32 = 4;

/// How often a call yields the processor to other ranks before it becomes a future.
const FIRST_TURNS: u32 = 8;

/// Why a call by lines is refused.
pub(crate) const NEEDS_LINES: &str = "needs ranks of a node that share memory";

/// Why a call by lines stopped early.
pub(crate) enum Stop<G: Group> {
    /// The lines are lost.
    Lost,
    Failed(Failure<G>),
}

impl<G: Group> From<Failure<G>> for Stop<G> {
    fn from(failure: Failure<G>) -> Stop<G> {
        Stop::Failed(failure)
    }
}

impl<G: Group> Stop<G> {
    /// The failure of a call that cannot start again.
    pub(crate) fn into_failure(self, team: &Team<'_, G>) -> Failure<G> {
        match self {
            Stop::Lost => team.lost(),
            Stop::Failed(failure) => failure,
        }
    }
}

/// The result of a call by lines. `None`: the lines are lost, and the ranks fall back to messages.
#[inline(always)]
pub(crate) fn by_lines<G: Group, T>(
    team: &Team<'_, G>,
    done: Result<T, Stop<G>>,
) -> Result<Option<T>, Failure<G>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Stop::Lost) => {
            // Its time no longer measures the chosen way.
            team.choose_way(None);
            Ok(None)
        }
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// The reason why a call by lines continues by messages, where these may be faster. `None`: the
/// call is complete.
#[inline(always)]
pub(crate) fn after_lines<G: Group>(
    team: &Team<'_, G>,
    done: Result<ByLines, Stop<G>>,
) -> Result<Option<OffLines>, Failure<G>> {
    Ok(match by_lines(team, done)? {
        Some(ByLines::Done) => None,
        Some(ByLines::Messages) => Some(OffLines::Slower),
        None => Some(OffLines::Lost),
    })
}

/// A call whose turn on the lines it is.
pub(crate) struct LineRounds<'t, G: Group> {
    pub(crate) team: &'t Team<'t, G>,
    pub(crate) mates: &'t Mates,
    word: u64,
    /// The word that this rank writes: that of the first rank may announce the way of other calls.
    own_word: u64,
    /// The operation and length of a call by lines whose first rank may announce.
    long: Option<(LongOperation, usize)>,
    /// How many ranks share the lines, and this one's place.
    pub(crate) size: usize,
    pub(crate) place: usize,
}

impl<'t, G: Group> LineRounds<'t, G> {
    /// Waits for the turn of a call.
    #[inline(always)]
    pub(crate) async fn begin(team: &'t Team<'t, G>) -> Result<LineRounds<'t, G>, Stop<G>> {
        let group = team.group();
        let Some(mates) = group.mates() else {
            let refused = team.require(false, NEEDS_LINES);
            return Err(refused.err().map_or(Stop::Lost, Stop::Failed));
        };
        let ranks = mates.ranks();
        let (size, place) = (ranks.len(), (team.rank() - ranks.start) as usize);
        if team.turn() != LineTurn::Now {
            wait_for_turn(team).await?;
        }
        if let Some(offer) = group.offer(team.number(), ChannelUse::Lines) {
            agree(team, ChannelUse::Lines, offer).await?;
        }
        let word = team.word();
        team.count_in();
        Ok(LineRounds { team, mates, word, own_word: word, long: None, size, place })
    }

    /// The same for a call whose ranks must all share the lines.
    #[inline(always)]
    pub(crate) async fn begin_all(team: &'t Team<'t, G>) -> Result<LineRounds<'t, G>, Stop<G>> {
        let rounds = LineRounds::begin(team).await?;
        team.require(rounds.mates.are_all(), "needs all ranks on one node")?;
        Ok(rounds)
    }

    /// A call whose turn on the lines it is, where all ranks share them.
    #[inline(always)]
    pub(crate) fn at_once(team: &'t Team<'t, G>) -> Option<LineRounds<'t, G>> {
        let mates = team.group().mates().filter(|mates| mates.are_all())?;
        let (size, place, word) = (team.size() as usize, team.rank() as usize, team.word());
        Some(LineRounds { team, mates, word, own_word: word, long: None, size, place })
    }

    /// The same where each rank announces its own length, which may differ from the others'
    /// ([`LineRounds::meet_of`], [`LineRounds::read_said`]).
    #[inline]
    pub(crate) fn of_length(self, bytes: usize) -> LineRounds<'t, G> {
        let own_word = Signature::word_of_length(self.own_word, bytes);
        LineRounds { word: self.word_of(bytes), own_word, ..self }
    }

    /// The word of a rank with this length in this call.
    #[inline]
    pub(crate) fn word_of(&self, bytes: usize) -> u64 {
        Signature::word_of_length(self.word, bytes)
    }

    /// [`LineRounds::meet`] of the first round of a call, without a long wait. `None`: not all
    /// ranks are in this call yet; continue with `meet`.
    #[inline(always)]
    pub(crate) fn try_meet(&self, pieces: &[&[G::Byte]]) -> Result<Option<()>, Failure<G>> {
        self.try_meet_of(pieces, |_| self.word)
    }

    /// The same where `words` is the expected word of the mate at each place.
    #[inline(always)]
    pub(crate) fn try_meet_of(
        &self,
        pieces: &[&[G::Byte]],
        words: impl Fn(usize) -> u64,
    ) -> Result<Option<()>, Failure<G>> {
        let group = self.team.group();
        if !group.contribute(self.own_word, pieces)? {
            return Ok(None);
        }
        self.team.has_entered().set(true);
        let same = self.look(|| group.all_contributed(self.word))?;
        Ok(same.and_then(|same| self.has_met(same, &words).then_some(())))
    }

    /// [`LineRounds::give`] without waiting. `None`: there is no room yet; continue with `give`.
    #[inline(always)]
    pub(crate) fn try_give(&self, bytes: &[G::Byte]) -> Option<Result<(), Failure<G>>> {
        match self.team.group().contribute(self.own_word, &[bytes]) {
            Ok(has_room) => has_room.then(|| self.finish(Ok(()))),
            Err(error) => Some(Err(error.into())),
        }
    }

    /// [`LineRounds::take`] without a long wait. `false`: the contribution is missing or belongs to
    /// another call; continue with `take`.
    #[inline(always)]
    pub(crate) fn try_take(
        &self,
        place: usize,
        from: usize,
        into: &mut [G::Byte],
    ) -> Result<bool, Failure<G>> {
        let group = self.team.group();
        let said = self.look(|| group.contribution(place, from, into))?;
        Ok(said == Some(self.word))
    }

    /// [`LineRounds::await_others`] without a long wait. `false`: continue with `await_others`.
    #[inline(always)]
    pub(crate) fn try_others(&self) -> Result<bool, Failure<G>> {
        for place in self.others() {
            if !self.try_take(place, 0, &mut [])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A broadcast of one part, without a long wait. `None`: continue with
    /// [`LineRounds::broadcast_of`].
    #[inline(always)]
    pub(crate) fn try_broadcast(
        &self,
        data: &mut [G::Byte],
        root: usize,
    ) -> Option<Result<(), Failure<G>>> {
        if self.place == root { self.try_give(data) } else { self.try_part(root, 0, data) }
    }

    /// Reads the contribution of the mate at `place`, which does not wait for readers, as
    /// [`LineRounds::try_take`].
    #[inline(always)]
    pub(crate) fn try_part(
        &self,
        place: usize,
        from: usize,
        into: &mut [G::Byte],
    ) -> Option<Result<(), Failure<G>>> {
        match self.try_take(place, from, into) {
            Ok(is_there) => is_there.then(|| self.finish(Ok(()))),
            Err(failure) => Some(Err(failure)),
        }
    }

    /// This rank's place, counted from the one at `first`.
    #[inline(always)]
    pub(crate) fn place_from(&self, first: usize) -> usize {
        if self.place < first { self.place + self.size - first } else { self.place - first }
    }

    /// The place that is `after` places after the one at `first`, cyclically.
    #[inline(always)]
    pub(crate) fn place_at(&self, first: usize, after: usize) -> usize {
        let place = first + after;
        if place < self.size { place } else { place - self.size }
    }

    /// Polls the lines until `poll` finds something, before a call becomes a future.
    #[inline(always)]
    fn look<T>(
        &self,
        mut poll: impl FnMut() -> Result<Option<T>, G::Error>,
    ) -> Result<Option<T>, G::Error> {
        for _ in 0..self.first_looks() {
            if let Some(found) = poll()? {
                return Ok(Some(found));
            }
            spin_loop();
        }
        for _ in 0..FIRST_TURNS {
            if !self.team.group().make_way() {
                break;
            }
            // Others may have left meanwhile. The future reads the notice that says why.
            let Ok(found) = poll() else { break };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The number of these polls where each rank has a processor.
    #[inline]
    fn first_looks(&self) -> u32 {
        match self.team.group().looks() {
            1 => 1,
            looks => FIRST_LOOKS * looks,
        }
    }

    /// Whether `length` bytes fit in one [part](Self::part).
    #[inline]
    pub(crate) fn is_one_part(&self, length: usize, of_the_longest: usize, width: usize) -> bool {
        length <= LINE_BYTES || length <= self.part(of_the_longest, width)
    }

    /// Whether the mates agree on a way for so many bytes before they contribute any of them.
    #[inline(always)]
    pub(crate) fn asks(&self, operation: LongOperation, bytes: usize) -> bool {
        let group = self.team.group();
        operation.is_asked(bytes)
            && self.mates.are_all()
            && self.size > 1
            && group.long_calls().is_some()
    }

    /// The way that this rank chooses for long data.
    pub(crate) fn choose_way(&self, operation: LongOperation, bytes: usize) -> LongWay {
        let call = self.team.group().choose_long(operation, (bytes, None));
        self.team.choose_way(call);
        call.as_ref().map_or(LongWay::Lines, LongCall::way)
    }

    /// Records the way of a broadcast of so many bytes from the mate at `root`.
    pub(crate) fn hear_way(&self, bytes: usize, root: usize, way: LongWay) {
        if root < self.place
            && let Some(calls) = self.team.group().long_calls()
        {
            calls.borrow_mut().hear(bytes, way);
        }
    }

    /// The way of long data to which all contribute, as the first rank has announced it, and the
    /// rounds of a call by lines, whose first rank may announce that of the calls after it.
    /// `is_named`: the program has chosen lines.
    pub(crate) fn way_of(
        self,
        operation: LongOperation,
        (bytes, is_named): (usize, bool),
    ) -> (LineRounds<'t, G>, LongWay) {
        let group = self.team.group();
        let asks = !is_named && self.asks(operation, bytes);
        let Some(calls) = group.long_calls().filter(|_| asks) else {
            return (self, LongWay::Lines);
        };
        let way = calls.borrow_mut().begin(operation, bytes);
        let mut own_word = self.own_word;
        if self.place == 0 {
            // What it has said in its first round it has said.
            let call = match self.team.has_entered().get() {
                true => self.team.chosen_way(),
                false => group.choose_long(operation, (bytes, Some(way))),
            };
            self.team.choose_way(call);
            own_word = Signature::word_ahead(own_word, call.as_ref().map_or(0, LongCall::ahead));
        }
        (LineRounds { own_word, long: Some((operation, bytes)), ..self }, way)
    }

    /// The same before the call becomes a future. `None`: it is not by lines.
    #[inline]
    pub(crate) fn by_lines(
        self,
        operation: LongOperation,
        (bytes, is_named): (usize, bool),
    ) -> Option<LineRounds<'t, G>> {
        if !self.asks(operation, bytes) {
            return Some(self);
        }
        let calls = self.team.group().long_calls()?;
        let is_lines = calls.borrow().announced(operation, bytes) == LongWay::Lines;
        (is_named || is_lines).then(|| self.way_of(operation, (bytes, is_named)).0)
    }

    /// Waits until `look` finds something.
    #[inline(always)]
    async fn wait<T>(
        &self,
        look: impl FnMut() -> Option<Result<T, G::Error>>,
    ) -> Result<T, Stop<G>> {
        self.wait_unless(look, || None).await
    }

    /// The same, or until `fails` returns a failure after `look` has found nothing.
    #[inline(always)]
    async fn wait_unless<T>(
        &self,
        look: impl FnMut() -> Option<Result<T, G::Error>>,
        fails: impl FnMut() -> Option<Failure<G>>,
    ) -> Result<T, Stop<G>> {
        wait_unless(self.team, look, fails).await
    }

    /// Waits for a future other than a round, unless the lines are lost meanwhile.
    pub(crate) async fn unless_lost<T>(
        &self,
        other: impl Future<Output = Result<T, Failure<G>>>,
    ) -> Result<T, Stop<G>> {
        unless_lost(self.team, other).await
    }

    /// The bytes of a part: whole elements of `width` bytes, at least one.
    pub(crate) fn part(&self, of_the_longest: usize, width: usize) -> usize {
        let longest = self.team.group().most_on_lines();
        ((longest / of_the_longest).max(LINE_BYTES) / width * width).max(width)
    }

    /// Enters a round with these pieces, one after the other.
    #[inline(always)]
    pub(crate) async fn contribute(&self, pieces: &[&[G::Byte]]) -> Result<(), Stop<G>> {
        let group = self.team.group();
        self.wait(|| match group.contribute(self.own_word, pieces) {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        })
        .await
    }

    /// Contributes to a round and returns; others read it ([`LineRounds::take`]).
    #[inline(always)]
    pub(crate) async fn give(&self, bytes: &[G::Byte]) -> Result<(), Stop<G>> {
        self.contribute(&[bytes]).await?;
        Ok(self.finish(Ok(()))?)
    }

    /// Waits for the contribution of the mate at `place`, which does not wait for readers, and
    /// reads it from byte `from` on. The caller must end the round with [`LineRounds::finish`].
    #[inline(always)]
    pub(crate) async fn take(
        &self,
        place: usize,
        from: usize,
        into: &mut [G::Byte],
    ) -> Result<(), Stop<G>> {
        let group = self.team.group();
        let said = self.wait(|| group.contribution(place, from, into).transpose()).await?;
        if said == self.word {
            return Ok(());
        }
        let _ = group.finish_round();
        Err(Box::pin(self.other_word(place, said, self.word)).await)
    }

    /// Tells the receivers of a broadcast that its data comes by messages.
    pub(crate) async fn leave_lines(self) -> Result<(), Stop<G>> {
        let word = Signature::word_off_lines(self.word);
        LineRounds { own_word: word, ..self }.give(&[]).await
    }

    /// Waits for the first round of a broadcast. Whether its root has left the lines, which ends
    /// the round.
    pub(crate) async fn is_left_by(&self, root: usize) -> Result<bool, Stop<G>> {
        let group = self.team.group();
        let said = self.wait(|| group.contribution(root, 0, &mut []).transpose()).await?;
        let is_left = said == Signature::word_off_lines(self.word);
        if is_left {
            self.finish(Ok(()))?;
        }
        Ok(is_left)
    }

    /// Waits until all others have contributed to a round to which this rank does not;
    /// [`LineRounds::read`] then finds their data. The caller must end the round with
    /// [`LineRounds::finish`].
    #[inline(always)]
    pub(crate) async fn await_others(&self) -> Result<(), Stop<G>> {
        for place in self.others() {
            self.take(place, 0, &mut []).await?;
        }
        Ok(())
    }

    /// Enters a round that all contribute to, and waits until all have; [`LineRounds::read`] then
    /// finds their data. The caller must end the round with [`LineRounds::finish`].
    #[inline(always)]
    pub(crate) async fn meet(&self, pieces: &[&[G::Byte]]) -> Result<(), Stop<G>> {
        self.meet_of(pieces, |_| self.word).await
    }

    /// The same where `words` is the expected word of the mate at each place.
    #[inline(always)]
    pub(crate) async fn meet_of(
        &self,
        pieces: &[&[G::Byte]],
        words: impl Fn(usize) -> u64,
    ) -> Result<(), Stop<G>> {
        if !self.team.has_entered().take() {
            self.contribute(pieces).await?;
        }
        let group = self.team.group();
        let met = || group.all_contributed(self.word).transpose();
        // A rank that runs ahead waits for no other, and ranks that wait for it contribute nothing.
        // So each poll checks one mate for the word of such a rank; other differing words are found
        // after all have contributed. A mate with a known word is not checked again: a wait that
        // finds something each time never sleeps.
        let mut next = self.place;
        let mut known = [0u64; MOST_MATES as usize / 64];
        known[self.place / 64] |= 1 << (self.place % 64);
        let differs = || {
            next = (next + 1) % self.size;
            let (word, bit) = (&mut known[next / 64], 1 << (next % 64));
            if *word & bit != 0 {
                return None;
            }
            let said = group.contribution(next, 0, &mut []).ok().flatten()?;
            *word |= bit;
            let said = Signature::of_word(said).filter(|_| said != self.word)?;
            said.operation().runs_ahead().then(|| self.differs(next, Some(said)))
        };
        match self.wait_unless(met, differs).await {
            Ok(same) if self.has_met(same, &words) => Ok(()),
            Ok(_) => Err(Box::pin(self.who_differs(words)).await),
            Err(stop) => {
                if matches!(stop, Stop::Failed(_)) {
                    let _ = group.finish_round();
                }
                Err(stop)
            }
        }
    }

    /// Whether all others, who have contributed, have written these words. `is_same`: they have
    /// written this rank's.
    #[inline(always)]
    fn has_met(&self, is_same: bool, words: impl Fn(usize) -> u64) -> bool {
        is_same && self.own_word == self.word || self.have_said(is_same, words)
    }

    /// The same; then all know what the first rank announces.
    #[inline(never)]
    fn have_said(&self, is_same: bool, words: impl Fn(usize) -> u64) -> bool {
        let group = self.team.group();
        let mut ahead = Signature::calls_ahead(self.own_word, self.word);
        let mut has_said = |place| {
            let Some(said) = group.contribution(place, 0, &mut []).ok().flatten() else {
                return false;
            };
            let announced = self.ahead_of(place, said, words(place));
            ahead = ahead.or(announced);
            said == words(place) || announced.is_some()
        };
        let have_all = is_same || self.others().all(&mut has_said);
        let announced = ahead.zip(self.long).zip(group.long_calls()).filter(|_| have_all);
        if let Some(((ahead, (operation, bytes)), calls)) = announced {
            calls.borrow_mut().announce(operation, bytes, ahead);
        }
        have_all
    }

    /// How many calls the mate at `place` announces, if its word is `word` but for that.
    fn ahead_of(&self, place: usize, said: u64, word: u64) -> Option<u32> {
        self.long.filter(|_| place == 0)?;
        Signature::calls_ahead(said, word)
    }

    /// Ends a round to which some rank has contributed for another call, and reports that rank.
    #[cold]
    async fn who_differs(&self, words: impl Fn(usize) -> u64) -> Stop<G> {
        let group = self.team.group();
        let mut others = Vec::new();
        for place in self.others() {
            match group.contribution(place, 0, &mut []) {
                Ok(said) => others.extend(said.map(|said| (place, said))),
                Err(error) => return Stop::Failed(error.into()),
            }
        }
        let finished = group.finish_round();
        others.retain(|(place, said)| {
            let word = words(*place);
            *said != word && self.ahead_of(*place, *said, word).is_none()
        });
        // Prefer a rank that cannot detect it: the others have to report it.
        let unaware = others.iter().find(|(_, said)| !self.is_aware(*said));
        match (unaware.or(others.first()), finished) {
            (Some((place, said)), _) => self.other_word(*place, *said, words(*place)).await,
            (None, Err(error)) => Stop::Failed(error.into()),
            (None, Ok(())) => Stop::Failed(self.differs(self.place, None)),
        }
    }

    /// Handles a mate at `place` that has written `said` and not `word`. If the call is the same
    /// and only the checksum of earlier calls differs, this rank asks it, and the answer ends this
    /// call.
    #[cold]
    async fn other_word(&self, place: usize, said: u64, word: u64) -> Stop<G> {
        let (team, rank) = (self.team, self.rank_at(place));
        let call = Signature::of_word(said);
        let is_past = call == Signature::of_word(word);
        if is_past && team.group().doubt_past(team.number(), rank) {
            let told = self.wait(|| None::<Result<(), G::Error>>).await;
            return told.err().unwrap_or(Stop::Lost);
        }
        if let Some(failure) = self.other_length(place, said, word) {
            return Stop::Failed(failure);
        }
        if self.is_aware(said) && self.is_aware(self.word) && self.mates.are_all() {
            team.all_know();
        }
        Stop::Failed(self.differs(place, call))
    }

    /// Whether a rank with this word reads the others' words. A rank that runs ahead does not; a
    /// rank whose earlier calls were different has another number of rounds.
    fn is_aware(&self, said: u64) -> bool {
        let looks = |call: Signature| !call.operation().runs_ahead();
        Signature::is_same_number(said, self.word) && Signature::of_word(said).is_some_and(looks)
    }

    /// Reads what the mate at `place` has contributed from byte `from` on, after its contribution
    /// was found. Not for this rank's own place: the processor hands over a modified line to its
    /// reader.
    #[inline(always)]
    pub(crate) fn read(
        &self,
        place: usize,
        from: usize,
        into: &mut [G::Byte],
    ) -> Result<(), Failure<G>> {
        self.read_said(place, self.word, from, into)
    }

    /// The same where that mate is expected to have written `word`.
    #[inline(always)]
    pub(crate) fn read_said(
        &self,
        place: usize,
        word: u64,
        from: usize,
        into: &mut [G::Byte],
    ) -> Result<(), Failure<G>> {
        let said = self.team.group().contribution(place, from, into)?;
        match said {
            Some(said) if said == word || self.ahead_of(place, said, word).is_some() => Ok(()),
            said => Err(self.differs(place, said.and_then(Signature::of_word))),
        }
    }

    /// The failure of a mate whose word differs from `word` only in its own length, which others
    /// need not know.
    fn other_length(&self, place: usize, said: u64, word: u64) -> Option<Failure<G>> {
        let [given, expected] = [Signature::of_word(said)?, Signature::of_word(word)?];
        let is_alike = said == Signature::word_of_length(word, given.length() as usize);
        let differs =
            || self.lengths_differ(place, given.length() as usize, expected.length() as usize);
        (is_alike && given.has_own_length()).then(differs)
    }

    /// Ends a round and returns its outcome.
    #[inline(always)]
    pub(crate) fn finish<T>(&self, outcome: Result<T, Failure<G>>) -> Result<T, Failure<G>> {
        let finished = self.team.group().finish_round();
        let value = outcome?;
        finished?;
        Ok(value)
    }

    #[cold]
    fn differs(&self, place: usize, said: Option<Signature>) -> Failure<G> {
        self.team.differs(self.rank_at(place), said)
    }

    fn rank_at(&self, place: usize) -> u32 {
        self.mates.ranks().start + place as u32
    }

    /// The failure of a rank whose length is not the one that this rank expects.
    #[cold]
    pub(crate) fn lengths_differ(&self, place: usize, given: usize, own: usize) -> Failure<G> {
        self.team.lengths_differ(self.rank_at(place), given as u64, own)
    }

    /// Broadcasts the data of the mate at `root` in parts. The root is some parts ahead.
    #[inline(always)]
    pub(crate) fn broadcast<'a>(
        &'a self,
        data: &'a mut [G::Byte],
        root: usize,
    ) -> impl Future<Output = Result<(), Stop<G>>> + 'a {
        self.broadcast_of(data, root)
    }

    /// The same for any data, from the first part on that no round has had.
    pub(crate) async fn broadcast_of<D: Data<G::Byte> + ?Sized>(
        &self,
        data: &mut D,
        root: usize,
    ) -> Result<(), Stop<G>> {
        let part = self.part(BROADCAST_PARTS, 1);
        let group = self.team.group();
        let (mut outcome, mut packet) = (Ok(()), Vec::new());
        for from in starts(data.length(), part).skip(self.team.rounds_over().take()) {
            let range = from..data.length().min(from.saturating_add(part));
            if self.place == root {
                let contributed = self.contribute(&[data.load(range, &mut packet)]).await;
                match contributed {
                    // Receivers may have earlier parts already.
                    Err(Stop::Lost) if from > 0 => return Err(self.team.lost().into()),
                    other => other?,
                }
                // Some ranks may be gone; the others still need the rest.
                let finished = group.finish_round().map_err(Failure::<G>::from);
                outcome = outcome.and(finished);
            } else {
                self.take(root, 0, data.room(range, &mut packet)).await?;
                data.settle(from, &packet);
                self.finish(Ok(()))?;
            }
        }
        Ok(outcome?)
    }
}

/// Waits in a call whose turn it is until `look` finds something, or `fails` does where `look` has
/// not.
#[inline(always)]
async fn wait_unless<G: Group, T>(
    team: &Team<'_, G>,
    mut look: impl FnMut() -> Option<Result<T, G::Error>>,
    mut fails: impl FnMut() -> Option<Failure<G>>,
) -> Result<T, Stop<G>> {
    poll_fn(|context| {
        for _ in 0..team.group().looks() {
            match look() {
                Some(Ok(found)) => return Poll::Ready(Ok(found)),
                Some(Err(error)) => return Poll::Ready(Err(Stop::Failed(error.into()))),
                None => spin_loop(),
            }
        }
        if team.turn() == LineTurn::Lost {
            return Poll::Ready(Err(Stop::Lost));
        }
        if let Some(failure) = fails() {
            return Poll::Ready(Err(Stop::Failed(failure)));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Waits for the turn of a call. A call some of whose rounds are over cannot start again: its data
/// has changed, or others have it.
#[inline(always)]
async fn wait_for_turn<G: Group>(team: &Team<'_, G>) -> Result<(), Stop<G>> {
    let is_now = || (team.turn() == LineTurn::Now).then_some(Ok(()));
    wait_unless(team, is_now, || None).await.map_err(|stop| match team.rounds_over().get() {
        0 => stop,
        _ => Stop::Failed(stop.into_failure(team)),
    })
}

/// Waits in a call whose turn it is for a future other than a round, unless the lines are lost
/// meanwhile.
pub(crate) async fn unless_lost<G: Group, T>(
    team: &Team<'_, G>,
    other: impl Future<Output = Result<T, Failure<G>>>,
) -> Result<T, Stop<G>> {
    let mut other = std::pin::pin!(other);
    poll_fn(|context| match other.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(done.map_err(Stop::Failed)),
        Poll::Pending if team.turn() == LineTurn::Lost => Poll::Ready(Err(Stop::Lost)),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Begins a call on the port's group of all ranks. It takes turns with calls on lines: both lose
/// their turns together. The first such call agrees on the group.
pub(crate) async fn begin_on_network<G: Group>(team: &Team<'_, G>) -> Result<(), Stop<G>> {
    wait_for_turn(team).await?;
    if let Some(offer) = team.group().offer(team.number(), ChannelUse::Network) {
        agree(team, ChannelUse::Network, offer).await?;
    }
    team.count_in();
    Ok(())
}

/// Agrees with all ranks on a channel that does not exist yet.
#[inline(never)]
async fn agree<G: Group>(
    team: &Team<'_, G>,
    usage: ChannelUse,
    mut offer: [G::Byte; ChannelOffer::BYTES],
) -> Result<(), Stop<G>> {
    let mut common = Reduction::commutative(offer.len(), G::join_offers);
    unless_lost(team, recursive_doubling(team, &mut offer, &mut common)).await?;
    let settled = team.group().settle(team.number(), usage, &offer);
    if settled.map_err(Failure::<G>::from)? { Ok(()) } else { Err(Stop::Lost) }
}

/// The starts of the parts of `length` bytes. Zero bytes are one part.
pub(crate) fn starts(length: usize, part: usize) -> impl Iterator<Item = usize> {
    (0..length.max(1)).step_by(part)
}
