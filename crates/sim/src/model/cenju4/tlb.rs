//! The address TLB of a sender or receiver: four entries, the oldest replaced (paper 003 §5.1).

/// The cached translations, by context and page number.
#[derive(Debug, Clone)]
pub(super) struct Tlb {
    entries: Vec<(u8, u64)>,
    next: usize,
    size: usize,
}

impl Tlb {
    pub(super) fn new(entries: u64) -> Tlb {
        Tlb { entries: Vec::new(), next: 0, size: entries.max(1) as usize }
    }

    /// Whether a page's translation is cached; it is from now on.
    pub(super) fn hits(&mut self, cid: u8, page: u64) -> bool {
        let page = (cid, page);
        if self.entries.contains(&page) {
            return true;
        }
        if self.entries.len() < self.size {
            self.entries.push(page);
        } else {
            self.entries[self.next] = page;
            self.next = (self.next + 1) % self.size;
        }
        false
    }

    /// Forgets all translations: a table has changed.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_page_replaces_the_oldest() {
        let mut tlb = Tlb::new(4);
        let found: Vec<bool> = [1, 2, 3, 4, 1, 5, 2, 1].map(|page| tlb.hits(0, page)).to_vec();
        assert_eq!(found, [false, false, false, false, true, false, true, false]);
    }
}
