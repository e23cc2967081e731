//! The calls of a [`Port`](crate::fabric::Port) on command queues, which no layer changes.
//!
//! Their commands are run by the interface, not posted by the program: a layer that delays, loses
//! or refuses posts has nothing to hold back there.

/// Passes the calls on command queues through to a port.
macro_rules! pass_queues {
    ($port:ident) => {
        fn free_queues(&self) -> (u32, u32) {
            self.$port.free_queues()
        }

        fn create_queue(
            &mut self,
            mode: $crate::fabric::QueueMode,
            slots: u32,
        ) -> Result<$crate::fabric::QueueAddress, $crate::fabric::QueueError> {
            self.$port.create_queue(mode, slots)
        }

        fn destroy_queue(&mut self, queue: u32) -> Result<(), $crate::fabric::QueueError> {
            self.$port.destroy_queue(queue)
        }

        fn post_queue(
            &mut self,
            queue: u32,
            chain: &[$crate::fabric::QueueCommand],
        ) -> Result<(), $crate::fabric::QueueError> {
            self.$port.post_queue(queue, chain)
        }

        fn repeat_queue(
            &mut self,
            queue: u32,
            count: u32,
        ) -> Result<(), $crate::fabric::QueueError> {
            self.$port.repeat_queue(queue, count)
        }

        fn release_queue(
            &mut self,
            queue: $crate::fabric::QueueAddress,
            slots: u32,
        ) -> Result<(), $crate::fabric::QueueError> {
            self.$port.release_queue(queue, slots)
        }

        fn help_queue(&mut self, queue: $crate::fabric::QueueAddress) {
            self.$port.help_queue(queue);
        }

        fn queue_state(
            &mut self,
            queue: $crate::fabric::QueueAddress,
        ) -> Result<$crate::fabric::QueueState, $crate::fabric::QueueError> {
            self.$port.queue_state(queue)
        }

        fn completion(&mut self, queue: u32) -> Option<$crate::fabric::Completion> {
            self.$port.completion(queue)
        }

        fn retire_queue(&mut self, queue: u32, rounds: u64, lead: u32) {
            self.$port.retire_queue(queue, rounds, lead);
        }

        fn give_up_queue(&mut self, queue: u32, missing: Rank, tell: &[Rank]) {
            self.$port.give_up_queue(queue, missing, tell);
        }
    };
}
pub(crate) use pass_queues;
