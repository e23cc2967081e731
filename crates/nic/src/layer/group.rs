//! The calls of a [`Port`](crate::fabric::Port) about groups, which no layer changes.
//!
//! What members say to each other goes through shared memory and not over links: there is nothing
//! to delay, lose or refuse. Multicast commands are posts, and each layer's own business.

/// Passes the calls about groups through to a port.
macro_rules! pass_groups {
    ($port:ident) => {
        fn join(
            &mut self,
            channel: u32,
            ranks: &[u32],
            first: u64,
        ) -> Result<$crate::fabric::GroupId, $crate::fabric::GroupError> {
            self.$port.join(channel, ranks, first)
        }

        fn leave(
            &mut self,
            group: $crate::fabric::GroupId,
        ) -> Result<u64, $crate::fabric::GroupError> {
            self.$port.leave(group)
        }

        fn group(&self, group: $crate::fabric::GroupId) -> Option<&$crate::fabric::Group> {
            self.$port.group(group)
        }

        fn set_registers(
            &mut self,
            group: $crate::fabric::GroupId,
            registers: &[$crate::fabric::Key],
        ) -> Result<(), $crate::fabric::GroupError> {
            self.$port.set_registers(group, registers)
        }

        #[inline(always)]
        fn contribute(
            &mut self,
            group: $crate::fabric::GroupId,
            word: u64,
            payload: &[u8],
        ) -> Result<(), $crate::fabric::GroupError> {
            self.$port.contribute(group, word, payload)
        }

        #[inline(always)]
        fn contribution(
            &mut self,
            group: $crate::fabric::GroupId,
            place: usize,
        ) -> Result<Option<$crate::fabric::Contribution>, $crate::fabric::GroupError> {
            self.$port.contribution(group, place)
        }

        #[inline(always)]
        fn all_contributed(
            &mut self,
            group: $crate::fabric::GroupId,
        ) -> Result<bool, $crate::fabric::GroupError> {
            self.$port.all_contributed(group)
        }

        #[inline(always)]
        fn load_contribution(
            &self,
            group: $crate::fabric::GroupId,
            place: usize,
            contribution: &$crate::fabric::Contribution,
            from: usize,
            into: &mut [u8],
        ) -> usize {
            self.$port.load_contribution(group, place, contribution, from, into)
        }

        #[inline(always)]
        fn finish_round(
            &mut self,
            group: $crate::fabric::GroupId,
        ) -> Result<(), $crate::fabric::GroupError> {
            self.$port.finish_round(group)
        }

        fn sync(
            &mut self,
            group: $crate::fabric::GroupId,
            id: u32,
        ) -> Result<(), $crate::fabric::GroupError> {
            self.$port.sync(group, id)
        }

        fn synced(
            &mut self,
            group: $crate::fabric::GroupId,
            id: u32,
        ) -> Result<bool, $crate::fabric::GroupError> {
            self.$port.synced(group, id)
        }
    };
}
pub(crate) use pass_groups;
