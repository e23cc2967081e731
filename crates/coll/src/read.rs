//! Copies out of each other's memory, for the algorithms that read directly.
//!
//! ```text
//!   lines: address of my data ──► copies out of memory ──► lines: I have read ──► all have read
//! ```
//!
//! One copy, where lines take two and messages as many or more. The data must not change while
//! others read. So a rank that exposes its data confirms at the end that all others have reported
//! their reads. A rank that fails or drops its call earlier, and may then change its data, does not
//! confirm, and no rank accepts that data as the result.
//!
//! Every rank reads the reports of all ranks. So all of them agree whether they read directly, and
//! whether the system has refused any read: then all fall back.

use std::cell::Cell;
use std::ops::Range;

use crate::error::Failure;
use crate::group::{ADDRESS, CopyReach, Group};
use crate::part::Data;
use crate::rounds::{LineRounds, Stop, starts};

/// The memory of the mates, which they keep unchanged meanwhile.
pub(crate) struct MatesMemory<'r, 't, G: Group> {
    rounds: &'r LineRounds<'t, G>,
    /// The address of each place; of the root alone, if there is one.
    addresses: Vec<[G::Byte; ADDRESS]>,
    root: Option<usize>,
    reach: CopyReach,
    is_refused: Cell<bool>,
}

impl<'t, G: Group> LineRounds<'t, G> {
    /// Exposes `bytes` to all mates, unchanged until [`MatesMemory::end`]. `None` if the bytes of
    /// some rank cannot be read, for example because it passed `None`.
    pub(crate) async fn show(
        &self,
        bytes: Option<&[G::Byte]>,
    ) -> Result<Option<MatesMemory<'_, 't, G>>, Stop<G>> {
        if !self.mates.are_all() {
            return Ok(None);
        }
        let own = self.expose(bytes);
        self.meet(&[&own]).await?;
        let mut addresses = vec![own; self.size];
        let read = self.others().try_for_each(|place| self.read(place, 0, &mut addresses[place]));
        self.finish(read)?;
        Ok(self.memory(addresses, None))
    }

    /// The same, but only the mate at `root` exposes its bytes.
    pub(crate) async fn show_root(
        &self,
        bytes: Option<&[G::Byte]>,
        root: usize,
    ) -> Result<Option<MatesMemory<'_, 't, G>>, Stop<G>> {
        if !self.mates.are_all() {
            return Ok(None);
        }
        let mut address = [G::Byte::default(); ADDRESS];
        if self.place == root {
            address = self.expose(bytes);
        }
        self.broadcast(&mut address, root).await?;
        Ok(self.memory(vec![address], Some(root)))
    }

    /// Whether others can read these bytes.
    pub(crate) fn can_show(&self, bytes: &[G::Byte]) -> bool {
        G::reach(&self.expose(Some(bytes))).is_some()
    }

    fn expose(&self, bytes: Option<&[G::Byte]>) -> [G::Byte; ADDRESS] {
        let nowhere = [G::Byte::default(); ADDRESS];
        bytes.map_or(nowhere, |bytes| self.team.group().expose(bytes))
    }

    fn memory(
        &self,
        addresses: Vec<[G::Byte; ADDRESS]>,
        root: Option<usize>,
    ) -> Option<MatesMemory<'_, 't, G>> {
        let reaches: Option<Vec<CopyReach>> = addresses.iter().map(G::reach).collect();
        let reach = reaches?.into_iter().max()?;
        Some(MatesMemory { rounds: self, addresses, root, reach, is_refused: Cell::new(false) })
    }

    /// The other places, starting with the next one, so that ranks do not all read from the same
    /// place.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<'t, G> {
        let (own, size) = (self.place, self.size);
        (1..size).map(move |distance| (own + distance) % size)
    }
}

impl<G: Group> MatesMemory<'_, '_, G> {
    /// Copies from the memory that the mate at `place` exposes, from byte `from` on. After a
    /// refusal it copies nothing, and the end of the step reports it.
    pub(crate) fn read(
        &self,
        place: usize,
        from: usize,
        into: &mut [G::Byte],
    ) -> Result<(), Failure<G>> {
        let address = self.addresses.get(place).or(self.addresses.first());
        if let (Some(address), false) = (address, self.is_refused.get()) {
            let is_read = self.rounds.team.group().read(place, address, from, into)?;
            self.is_refused.set(!is_read);
        }
        Ok(())
    }

    /// The same for any data.
    pub(crate) fn read_into<D: Data<G::Byte> + ?Sized>(
        &self,
        place: usize,
        from: usize,
        data: &mut D,
        range: Range<usize>,
    ) -> Result<(), Failure<G>> {
        let mut packet = Vec::new();
        for done in starts(range.len(), data.at_a_time()) {
            let at = range.start + done;
            let piece = at..range.end.min(at.saturating_add(data.at_a_time()));
            self.read(place, from + done, data.room(piece, &mut packet))?;
            data.settle(at, &packet);
        }
        Ok(())
    }

    /// The side that copies.
    pub(crate) fn reach(&self) -> CopyReach {
        self.reach
    }

    /// Waits until all have finished their last reads. `false`: a copy was refused.
    pub(crate) async fn end(mut self) -> Result<bool, Stop<G>> {
        if !self.all_have_read().await? {
            return Ok(false);
        }
        let rounds = self.rounds;
        match self.root {
            Some(root) => rounds.broadcast(&mut [], root).await?,
            None => {
                rounds.meet(&[]).await?;
                rounds.finish(Ok(()))?;
            }
        }
        Ok(true)
    }

    /// Waits until all have finished the reads of this step. `false`: a copy was refused.
    async fn all_have_read(&mut self) -> Result<bool, Stop<G>> {
        // A rank that has read repeats its address, which is not all zeros.
        let own = self.addresses.first().copied();
        self.all_say(own.unwrap_or_default()).await
    }

    /// The same; afterwards all expose `bytes`, which must be readable.
    pub(crate) async fn all_show(&mut self, bytes: &[G::Byte]) -> Result<bool, Stop<G>> {
        self.all_say(self.rounds.team.group().expose(bytes)).await
    }

    async fn all_say(&mut self, own: [G::Byte; ADDRESS]) -> Result<bool, Stop<G>> {
        let rounds = self.rounds;
        let own = if self.is_refused.get() { [G::Byte::default(); ADDRESS] } else { own };
        rounds.meet(&[&own]).await?;
        let mut all_read = G::reach(&own).is_some();
        let heard = rounds.others().try_for_each(|place| {
            let mut said = own;
            rounds.read(place, 0, &mut said)?;
            all_read &= G::reach(&said).is_some();
            if let Some(address) = self.addresses.get_mut(place) {
                *address = said;
            }
            Ok(())
        });
        rounds.finish(heard)?;
        if !all_read {
            rounds.team.group().note_refusal();
        }
        Ok(all_read)
    }
}
