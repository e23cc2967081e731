//! The contents: where the newest are, fetching them, and telling the others that they are old.

use super::onward::Then;
use super::{Direct, State};
use crate::departed::Departed;
use crate::geometry::Word;
use crate::protocol::{Action, Op};
use crate::word::{Head, Kind, Mark, Version};

impl Direct {
    /// The turn has come. On one node there is one copy, and it is the newest.
    #[inline]
    pub(super) fn contents(&mut self) -> Action {
        if !self.alone() {
            return self.access(State::Latest, Word::Latest, Op::Load);
        }
        match self.kind {
            Kind::Write => self.enter(),
            Kind::Read => self.begin_reading(),
        }
    }

    /// What the next answer means, from here to the end of the request, and in letting go.
    pub(super) fn next_of_contents(&mut self, answer: u64, departed: &Departed) -> Action {
        let own = Word::Held(self.geometry.node());
        match self.state {
            State::Latest => self.on_latest(Version::of(answer), departed),
            State::Held => self.on_held(Version::of(answer)),
            State::Invalid => {
                self.state = State::Copied;
                Action::Copy { from: self.latest.node }
            }
            // The node went while its copy was being read: what it had is looked for anew.
            State::Copied if answer != 0 => self.contents(),
            State::Copied => {
                self.moved = true;
                if self.kind == Kind::Write {
                    // It stays invalid while it is written.
                    return self.tell(0);
                }
                self.access(State::Fetched, own, Op::Swap(self.latest.bits()))
            }
            State::Fetched => self.access(State::Share, Word::Latest, Op::Or(Version::SHARED)),
            State::Share => self.begin_reading(),
            State::Writing => self.tell(0),
            State::Tell(node) => self.tell(node + 1),
            State::Salvage { node, best } => self.on_salvage(node, best, answer, departed),
            State::Marked => {
                self.access(State::Adopted, Word::Latest, Op::Swap(self.latest.bits()))
            }
            State::Adopted if self.latest.position == self.turn => {
                self.access(State::Mark, own, Op::Swap(self.latest.bits()))
            }
            State::Adopted => self.contents(),
            State::Bit => {
                self.mark = self.head.mark;
                self.access(State::Pass, Word::Head, Op::Swap(self.head.next().bits()))
            }
            State::Pass => self.pass_on(self.head.next(), Then::Enter),
            _ => self.next_of_release(answer),
        }
    }

    fn on_latest(&mut self, latest: Version, departed: &Departed) -> Action {
        self.latest = latest;
        if departed.node_is_gone(&self.geometry, latest.node) {
            return self.salvage(departed);
        }
        self.access(State::Held, Word::Held(self.geometry.node()), Op::Load)
    }

    fn on_held(&mut self, held: Version) -> Action {
        let own = Word::Held(self.geometry.node());
        let clean = held.position == self.latest.position;
        match (clean, self.kind) {
            (true, Kind::Read) => self.begin_reading(),
            (true, Kind::Write) => self.access(State::Writing, own, Op::Swap(0)),
            // A copy at the newest node itself that is not the newest: its writer died. Recovery
            // has said so in the head; what is there is taken as it is.
            (false, _) if self.latest.node == self.geometry.node() => match self.kind {
                Kind::Write => self.access(State::Writing, own, Op::Swap(0)),
                Kind::Read => self.begin_reading(),
            },
            (false, _) => self.access(State::Invalid, own, Op::Swap(0)),
        }
    }

    /// Tells the nodes from `node` on that the owner has changed and their copies are old. Who
    /// wrote last and has let nobody see it has told them before.
    fn tell(&mut self, node: u32) -> Action {
        let told = self.latest.node == self.geometry.node() && !self.latest.shared;
        if told || node >= self.geometry.nodes() {
            return self.enter();
        }
        let change = Version { position: self.turn, node: self.geometry.node(), shared: false };
        self.access(State::Tell(node), Word::Owner(node), Op::Max(change.bits()))
    }

    /// The newest contents died with their node. The turn is ours, so nobody writes meanwhile: the
    /// newest copy of those that are left is taken for the contents.
    fn salvage(&mut self, departed: &Departed) -> Action {
        let victim = self.geometry.ranks_of(self.latest.node).start;
        self.head.mark = Some(Mark { victim, stale: true });
        if !self.recoverable {
            return self.fail();
        }
        let best = Version { position: 0, node: self.geometry.node(), shared: true };
        self.ask_survivors(0, best, departed)
    }

    fn ask_survivors(&mut self, from: u32, best: Version, departed: &Departed) -> Action {
        let mut nodes = from..self.geometry.nodes();
        match nodes.find(|node| !departed.node_is_gone(&self.geometry, *node)) {
            Some(node) => self.access(State::Salvage { node, best }, Word::Held(node), Op::Load),
            None => self.adopt(best),
        }
    }

    fn on_salvage(&mut self, node: u32, best: Version, answer: u64, dead: &Departed) -> Action {
        let held = Version::of(answer);
        let better = held.position > best.position;
        let found = Version { position: held.position, node, shared: true };
        self.ask_survivors(node + 1, if better { found } else { best }, dead)
    }

    /// Takes a copy for the contents. First the head tells everybody that they are not the newest.
    fn adopt(&mut self, best: Version) -> Action {
        self.latest = best;
        if best.position == 0 {
            // Every copy was being changed. This node's is as good as any.
            self.latest.position = self.turn;
        }
        let head = Head { position: self.turn, mark: self.head.mark };
        self.access(State::Marked, Word::Head, Op::Swap(head.bits()))
    }

    /// Says that this rank reads.
    fn begin_reading(&mut self) -> Action {
        let (at, bit) = self.geometry.reader_bit();
        self.access(State::Bit, Word::Readers(at), Op::Or(bit))
    }
}
