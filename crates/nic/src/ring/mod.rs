//! The rings: landing of messages, their order of arrival, and the queues of runnable commands.
//!
//! All of them have free-running 64-bit positions (index = position mod size). So full and empty
//! are distinct without a spare element, and each position is used only once.

mod bytes;
mod command;
mod joint;
mod landing;
mod ledger;
mod lines;
mod mail;
mod status;

pub use bytes::{Bytes, LongStores, copy, copy_apart, repeats_slowly};
pub use command::{
    CommandQueue, CommandSlot, Descriptor, GENERATION_MASK, MAX_LEAD, QueueFull, QueuePointers,
    ReleaseError, Setup,
};
pub use joint::{CopyStage, JointWord, MOST_COPIES, Pages};
pub use landing::{Claim, LandingRing, RingControl, span_of};
pub use ledger::{Ledger, Overlap};
pub use lines::{ControlLines, LINE_BYTES, LINES, PayloadPlace, Said};
pub use mail::{MailSlots, SlotStamp};
pub use status::{Poster, Slot, StatusControl, StatusRing, records_of};

/// Landing positions are multiples of this, so that two senders of a shared ring never write the
/// same cache line.
pub const GRANULE: u64 = 64;
