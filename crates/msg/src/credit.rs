//! How many messages a source may send ahead of those that this rank has matched: its credit.
//!
//! The grant is a count of messages since the start and only ever grows. It is renewed when a
//! quarter of the window has been matched, so that a steady stream stores to the sender's view only
//! that often. It need not be renewed earlier: a source without credit has at least three quarters
//! of its window here, unmatched.

/// The account of one source.
#[derive(Debug)]
pub(crate) struct Credit {
    window: u64,
    /// Credited messages that arrived.
    arrived: u64,
    /// How many of these were matched.
    matched: u64,
    /// Messages allowed since the start.
    granted: u64,
}

impl Credit {
    pub(crate) fn new(window: u32) -> Credit {
        let window = u64::from(window.max(1));
        Credit { window, arrived: 0, matched: 0, granted: window }
    }

    /// The source's initial grant.
    pub(crate) fn initial(&self) -> u64 {
        self.granted
    }

    /// A credited message has arrived.
    #[inline]
    pub(crate) fn arrive(&mut self) {
        self.arrived += 1;
    }

    /// A message was matched. Returns the new grant when one is due.
    #[inline]
    pub(crate) fn consume(&mut self) -> Option<u64> {
        self.matched += 1;
        let due = self.matched + self.window;
        (due >= self.granted + self.window.div_ceil(4)).then(|| self.raise(due))
    }

    /// The grant that renews the credit of all matched messages, if not granted yet.
    pub(crate) fn settle(&mut self) -> Option<u64> {
        let due = self.matched + self.window;
        (due > self.granted).then(|| self.raise(due))
    }

    /// The grant of another window beyond all arrived messages, matched or not. For a source whose
    /// unmatched messages were evacuated.
    pub(crate) fn extend(&mut self) -> Option<u64> {
        let due = self.arrived.max(self.matched) + self.window;
        (due > self.granted).then(|| self.raise(due))
    }

    fn raise(&mut self, due: u64) -> u64 {
        self.granted = due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grant_is_renewed_every_quarter_window() {
        let mut credit = Credit::new(16);
        let grants: Vec<_> = (0..12).filter_map(|_| credit.consume()).collect();
        assert_eq!(grants, [20, 24, 28]);
    }

    #[test]
    fn a_window_of_one_is_renewed_at_once() {
        let mut credit = Credit::new(1);
        assert_eq!((credit.consume(), credit.consume()), (Some(2), Some(3)));
    }

    #[test]
    fn settling_grants_the_rest_of_a_quarter() {
        let mut credit = Credit::new(16);
        assert_eq!(credit.consume(), None);
        assert_eq!(credit.settle(), Some(17));
        assert_eq!(credit.settle(), None);
    }

    #[test]
    fn an_extended_window_delays_the_next_grant() {
        let mut credit = Credit::new(4);
        (0..4).for_each(|_| credit.arrive());
        assert_eq!(credit.extend(), Some(8));
        assert_eq!(credit.extend(), None);
        assert_eq!((0..4).find_map(|_| credit.consume()), None);
        assert_eq!(credit.consume(), Some(9));
    }
}
