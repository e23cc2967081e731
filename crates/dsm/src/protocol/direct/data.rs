//! The contents: finding the newest copy, fetching it, and invalidating the other copies.

use super::onward::Then;
use super::{Direct, Pending};
use crate::departed::Departed;
use crate::geometry::Word;
use crate::protocol::{Action, WordOp};
use crate::word::{AccessKind, Head, Mark, Version};

impl Direct {
    /// Begins with the contents, when the turn has come. A single node has a single copy, which is
    /// the newest.
    #[inline]
    pub(super) fn contents(&mut self) -> Action {
        if !self.alone() {
            return self.access(Pending::Latest, Word::Latest, WordOp::Load);
        }
        match self.kind {
            AccessKind::Write => self.enter(),
            AccessKind::Read => self.begin_reading(),
        }
    }

    /// Handles the next answer from here to the end of the request, and while releasing.
    pub(super) fn next_of_contents(&mut self, answer: u64, departed: &Departed) -> Action {
        let own = Word::Held(self.geometry.node());
        match self.state {
            Pending::Latest => self.on_latest(Version::of(answer), departed),
            Pending::Held => self.on_held(Version::of(answer)),
            Pending::Invalid => {
                self.state = Pending::Copied;
                Action::Copy { from: self.latest.node }
            }
            // The node went away while its copy was being read: search for the newest copy again.
            Pending::Copied if answer != 0 => self.contents(),
            Pending::Copied => {
                self.moved = true;
                if self.kind == AccessKind::Write {
                    // The copy stays invalid while it is written.
                    return self.tell(0);
                }
                self.access(Pending::Fetched, own, WordOp::Swap(self.latest.bits()))
            }
            Pending::Fetched => {
                self.access(Pending::Share, Word::Latest, WordOp::Or(Version::SHARED))
            }
            Pending::Share => self.begin_reading(),
            Pending::Writing => self.tell(0),
            Pending::Tell(node) => self.tell(node + 1),
            Pending::Salvage { node, best } => self.on_salvage(node, best, answer, departed),
            Pending::Marked => {
                self.access(Pending::Adopted, Word::Latest, WordOp::Swap(self.latest.bits()))
            }
            Pending::Adopted if self.latest.position == self.turn => {
                self.access(Pending::Mark, own, WordOp::Swap(self.latest.bits()))
            }
            Pending::Adopted => self.contents(),
            Pending::Bit => {
                self.mark = self.head.mark;
                self.access(Pending::Pass, Word::Head, WordOp::Swap(self.head.next().bits()))
            }
            Pending::Pass => self.pass_on(self.head.next(), Then::Enter),
            _ => self.next_of_release(answer),
        }
    }

    fn on_latest(&mut self, latest: Version, departed: &Departed) -> Action {
        self.latest = latest;
        if departed.node_is_gone(&self.geometry, latest.node) {
            return self.salvage(departed);
        }
        self.access(Pending::Held, Word::Held(self.geometry.node()), WordOp::Load)
    }

    fn on_held(&mut self, held: Version) -> Action {
        let own = Word::Held(self.geometry.node());
        let clean = held.position == self.latest.position;
        match (clean, self.kind) {
            (true, AccessKind::Read) => self.begin_reading(),
            (true, AccessKind::Write) => self.access(Pending::Writing, own, WordOp::Swap(0)),
            // This node has the newest contents, but its copy is older: its writer died.
            // TurnRecovery has marked the head, and the copy is used as it is.
            (false, _) if self.latest.node == self.geometry.node() => match self.kind {
                AccessKind::Write => self.access(Pending::Writing, own, WordOp::Swap(0)),
                AccessKind::Read => self.begin_reading(),
            },
            (false, _) => self.access(Pending::Invalid, own, WordOp::Swap(0)),
        }
    }

    /// Announces the owner change to the nodes from `node` on, which makes their copies old.
    /// Nothing is announced if this rank wrote last and no other node has seen that write: the
    /// announcement has already been made.
    fn tell(&mut self, node: u32) -> Action {
        let told = self.latest.node == self.geometry.node() && !self.latest.shared;
        if told || node >= self.geometry.nodes() {
            return self.enter();
        }
        let change = Version { position: self.turn, node: self.geometry.node(), shared: false };
        self.access(Pending::Tell(node), Word::Owner(node), WordOp::Max(change.bits()))
    }

    /// The newest contents died with their node. This rank has the turn, so no rank writes
    /// meanwhile. The newest surviving copy becomes the contents.
    fn salvage(&mut self, departed: &Departed) -> Action {
        let victim = self.geometry.ranks_of(self.latest.node).next().unwrap_or(0);
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
            Some(node) => {
                self.access(Pending::Salvage { node, best }, Word::Held(node), WordOp::Load)
            }
            None => self.adopt(best),
        }
    }

    fn on_salvage(&mut self, node: u32, best: Version, answer: u64, dead: &Departed) -> Action {
        let held = Version::of(answer);
        let better = held.position > best.position;
        let found = Version { position: held.position, node, shared: true };
        self.ask_survivors(node + 1, if better { found } else { best }, dead)
    }

    /// Adopts a copy as the contents. The head is marked first, because they are not the newest.
    fn adopt(&mut self, best: Version) -> Action {
        self.latest = best;
        if best.position == 0 {
            // Every copy was being changed. This node's copy is as good as any.
            self.latest.position = self.turn;
        }
        let head = Head { position: self.turn, mark: self.head.mark };
        self.access(Pending::Marked, Word::Head, WordOp::Swap(head.bits()))
    }

    /// Sets this rank's bit as a reader.
    fn begin_reading(&mut self) -> Action {
        let (at, bit) = self.geometry.reader_bit();
        self.access(Pending::Bit, Word::Readers(at), WordOp::Or(bit))
    }
}
