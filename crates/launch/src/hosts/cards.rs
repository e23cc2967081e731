//! Addresses of ranks ("cards"), gathered on their way to all hosts. Pure.
//!
//! A daemon gathers the cards of its host and of the hosts behind it; the launcher gathers all. So
//! one frame goes up each link and one comes down. If each host sent its own cards to every host,
//! the number of frames would be the square of the number of hosts. Complete sets are passed on at
//! once, incomplete ones after a delay that doubles: no rank waits long for a card that is missing.

use std::time::Duration;

use super::frame::Frame;

/// How long received cards wait for the others, at first and at most.
const PATIENCE: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(256)];

/// Bytes of cards in a frame, at most.
pub(super) const PIECE: usize = 1 << 20;

/// Bytes of a card in a frame beside its contents: the rank and a length.
pub(super) const CARD_HEAD: usize = 8;

/// Received cards that were not passed on yet.
pub(super) struct CardGathering {
    missing: usize,
    cards: Vec<(u32, Vec<u8>)>,
    /// The time at which they are passed on in any case.
    due: Option<Duration>,
    patience: Duration,
}

impl CardGathering {
    /// Expects the cards of so many ranks.
    pub(super) fn new(ranks: usize) -> CardGathering {
        CardGathering { missing: ranks, cards: Vec::new(), due: None, patience: PATIENCE[0] }
    }

    pub(super) fn put(&mut self, now: Duration, cards: Vec<(u32, Vec<u8>)>) {
        self.missing = self.missing.saturating_sub(cards.len());
        self.due.get_or_insert(now + self.patience);
        self.cards.extend(cards);
    }

    /// Stops expecting one card: its rank will never have an address.
    pub(super) fn miss(&mut self) {
        self.missing = self.missing.saturating_sub(1);
    }

    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        if self.missing == 0 { self.due.map(|_| Duration::ZERO) } else { self.due }
    }

    /// Takes the frames that are due now.
    pub(super) fn take(&mut self, now: Duration) -> Vec<Frame> {
        if self.poll_deadline().is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = None;
        self.patience = (2 * self.patience).min(PATIENCE[1]);
        let (mut frames, mut piece, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (rank, card) in std::mem::take(&mut self.cards) {
            let more = CARD_HEAD + card.len();
            if bytes + more > PIECE && !piece.is_empty() {
                frames.push(Frame::Cards(std::mem::take(&mut piece)));
                bytes = 0;
            }
            bytes += more;
            piece.push((rank, card));
        }
        frames.push(Frame::Cards(piece));
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(rank: u32) -> (u32, Vec<u8>) {
        (rank, vec![rank as u8; 28])
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn what_is_whole_goes_on_at_once_and_in_one_frame() {
        let mut cards = CardGathering::new(3);
        cards.put(ms(5), vec![card(0)]);
        cards.put(ms(6), vec![card(2)]);
        assert_eq!((cards.take(ms(6)), cards.poll_deadline()), (vec![], Some(ms(7))));
        cards.put(ms(6), vec![card(1)]);
        assert_eq!(cards.take(ms(6)), [Frame::Cards(vec![card(0), card(2), card(1)])]);
        assert_eq!((cards.take(ms(999)), cards.poll_deadline()), (vec![], None));
    }

    #[test]
    fn what_waits_for_the_rest_goes_on_after_a_while() {
        let mut cards = CardGathering::new(100);
        let mut now = ms(0);
        for wait in [2, 4, 8, 16, 32, 64, 128, 256, 256] {
            cards.put(now, vec![card(1)]);
            assert_eq!(cards.take(now + ms(wait - 1)), []);
            now += ms(wait);
            assert_eq!(cards.take(now), [Frame::Cards(vec![card(1)])]);
        }
        // Ranks that never start are not waited for.
        (0..90).for_each(|_| cards.miss());
        cards.put(now, vec![card(2)]);
        assert_eq!(cards.take(now).len(), 1);
    }

    #[test]
    fn many_are_several_frames_that_can_be_sent() {
        let ranks = 100_000;
        let mut cards = CardGathering::new(ranks as usize);
        cards.put(ms(0), (0..ranks).map(card).collect());
        let frames = cards.take(ms(0));
        let mut seen = Vec::new();
        for frame in &frames {
            let mut bytes = Vec::new();
            frame.put(0, &mut bytes);
            assert!(bytes.len() <= PIECE + 64, "{}", bytes.len());
            let Frame::Cards(cards) = frame else { panic!() };
            seen.extend(cards.iter().map(|(rank, _)| *rank));
        }
        assert_eq!(seen, (0..ranks).collect::<Vec<_>>());
        assert_eq!(frames.len(), (ranks as usize * (CARD_HEAD + 28)).div_ceil(PIECE));
    }
}
