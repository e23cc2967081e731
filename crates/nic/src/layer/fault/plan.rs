//! The faults to inject, and the counts of injected faults.

/// The kinds of faults and their rates, in thousandths of the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// The seed of the generator.
    pub seed: u64,
    /// Commands refused with [`PostError::Full`](crate::fabric::PostError::Full) even if there is
    /// room.
    pub refuse: u32,
    /// Commands that land later.
    pub delay: u32,
    /// The longest delay, in calls.
    pub delay_polls: u32,
    /// Packets lost in the link, each time they are sent.
    pub drop: u32,
    /// The number of calls after which a lost packet is sent again.
    pub retransmit_polls: u32,
    /// Packets that arrive twice.
    pub duplicate: u32,
    /// Limit of packets in a link.
    pub window: usize,
    /// Whether puts and atomic operations without a reply are held too. Otherwise they are refused
    /// for the same time, so that they have taken effect when `post` returns.
    pub hold_remote: bool,
}

impl Faults {
    /// No faults: the layer is transparent.
    pub const NONE: Faults = Faults {
        seed: 0,
        refuse: 0,
        delay: 0,
        delay_polls: 0,
        drop: 0,
        retransmit_polls: 0,
        duplicate: 0,
        window: 0,
        hold_remote: true,
    };

    /// All kinds of faults, each often.
    pub const fn all(seed: u64) -> Faults {
        Faults {
            seed,
            refuse: 100,
            delay: 200,
            delay_polls: 20,
            drop: 100,
            retransmit_polls: 10,
            duplicate: 100,
            window: 16,
            hold_remote: true,
        }
    }

    /// Faults for a whole job: fewer, so that it makes progress, and puts are never held.
    /// `Window::put` is complete on return because a hosted port's put is.
    pub const fn of_a_job(seed: u64) -> Faults {
        Faults {
            refuse: 50,
            delay: 50,
            drop: 20,
            duplicate: 20,
            hold_remote: false,
            ..Faults::all(seed)
        }
    }

    pub(super) fn are_off(&self) -> bool {
        self.refuse == 0 && self.delay == 0 && self.drop == 0 && self.duplicate == 0
    }
}

/// The numbers of injected faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Commands refused.
    pub refused: u64,
    /// Commands delayed.
    pub delayed: u64,
    /// Packets lost.
    pub dropped: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Second copies sent.
    pub duplicated: u64,
    /// Second copies suppressed at the end of the link.
    pub suppressed: u64,
    /// Held commands that failed: their destination died or the port underneath refused them.
    pub abandoned: u64,
}
