//! The calls of [`Port`](crate::fabric::Port) about groups, as a hosted port answers them.
//!
//! A macro, because an implementation of a trait cannot be spread over files.

/// Answers them. Within `impl Port for HostedPort`, whose imports it uses.
macro_rules! group_calls {
    () => {
        fn join(
            &mut self,
            channel: u32,
            ranks: &[Rank],
            first: u64,
        ) -> Result<GroupId, GroupError> {
            self.join_group(channel, ranks, first)
        }

        fn leave(&mut self, group: GroupId) -> Result<u64, GroupError> {
            self.leave_group(group)
        }

        fn group(&self, group: GroupId) -> Option<&Group> {
            self.groups.group(group)
        }

        fn set_registers(&mut self, group: GroupId, registers: &[Key]) -> Result<(), GroupError> {
            self.groups.set_registers(group, registers)
        }

        fn multicast(
            &mut self,
            group: GroupId,
            command: &Command<'_>,
            done: usize,
            bytes: usize,
        ) -> Result<(), ChainError> {
            self.doorbells += 1;
            let post = |port: &mut Self, one: &Command<'_>| port.execute_one_of_many(one);
            multicast_by(self, group, command, (done, bytes), post, Self::tell_completed)
        }

        #[inline]
        fn contribute(
            &mut self,
            group: GroupId,
            word: u64,
            payload: &[u8],
        ) -> Result<(), GroupError> {
            self.enter_round(group, word, payload)
        }

        #[inline(always)]
        fn contribution(
            &mut self,
            group: GroupId,
            place: usize,
        ) -> Result<Option<Contribution>, GroupError> {
            self.see_round(group, place)
        }

        #[inline]
        fn all_contributed(&mut self, group: GroupId) -> Result<bool, GroupError> {
            self.see_all(group)
        }

        #[inline(always)]
        fn load_contribution(
            &self,
            group: GroupId,
            place: usize,
            contribution: &Contribution,
            from: usize,
            into: &mut [u8],
        ) -> usize {
            self.load_round(group, place, contribution, from, into)
        }

        #[inline]
        fn finish_round(&mut self, group: GroupId) -> Result<(), GroupError> {
            self.end_round(group)
        }

        fn sync(&mut self, group: GroupId, id: u32) -> Result<(), GroupError> {
            self.send_sync(group, id)
        }

        fn synced(&mut self, group: GroupId, id: u32) -> Result<bool, GroupError> {
            self.see_sync(group, id)
        }
    };
}
pub(super) use group_calls;
