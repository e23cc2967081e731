//! Copies between the memory of two ranks, without a landing ring: by the reader, or by both ends
//! at once.
//!
//! ```text
//!   receiver                                   sender
//!   --------                                   ------
//!   open_joint(into) ──── JointCopy, sent as a message ────►
//!   read_jointly                               write_jointly
//!     copies from the back                       copies from the front
//!   until all is copied, or nothing is left to claim and the sender still copies its last part
//! ```
//!
//! Copying takes most of the time of a long message, and the sender waits anyway. With two
//! processors the message takes little more than half the time of one copy.

use super::{Port, PostError, Rank, RemoteAddress, Space};

/// A copy that both ends may make, as its receiver has opened it. The sender needs all fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JointCopy {
    /// The message's destination, in the receiver's memory.
    pub into: RemoteAddress,
    /// Its length, bytes.
    pub length: u64,
    /// The number of this copy among the receiver's copies.
    pub number: u32,
}

/// The address of lent memory of a rank of another host. The words are opaque to all but the
/// fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentAddress {
    /// The address of the first byte.
    pub address: u64,
    /// The key that grants access.
    pub key: u64,
}

/// A port that itself copies from and to the memory of other ranks. The messages of `msg` need one.
pub trait CopyPort: Port {
    /// The address by which other ranks may reach these bytes of this process, if they can.
    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress>;

    /// The length in bytes from which it may be faster to copy a message out of such memory of its
    /// sender than to store it into a landing ring. `None`: it is never faster, or not possible.
    /// May change while the job runs.
    fn copies_from(&self, space: Space) -> Option<usize>;

    /// Reads another rank's memory without its program's help; complete on return.
    ///
    /// # Errors
    /// The address is out of bounds, the peer is gone, or the fabric or kernel refuses.
    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>;

    /// Records whether this rank has taken exposed bytes back that peers may still read. Set it
    /// before the bytes change, until each of those peers has answered.
    fn set_revoked(&mut self, is_revoked: bool) {
        let _ = is_revoked;
    }

    /// Whether a rank has done so: bytes that were read of it before this call may be others than
    /// it has exposed.
    fn has_revoked(&self, rank: Rank) -> bool {
        let _ = rank;
        false
    }

    /// Lends these bytes of this process to a rank of another host, under a name. Until they are
    /// taken back, that rank may fetch them from the returned address, without this rank's program
    /// where the fabric's hardware or the kernel reads them. The caller gives the same promise
    /// about the bytes as for [`CopyPort::expose`]. `None`: not possible, or not worthwhile.
    fn lend(&mut self, to: Rank, name: u64, bytes: &[u8]) -> Option<LentAddress> {
        let _ = (to, name, bytes);
        None
    }

    /// Takes back the bytes that were lent under a name.
    fn take_back(&mut self, name: u64) {
        let _ = name;
    }

    /// Lends a copy in place of the bytes that were lent under a name: a rank that is fetching them
    /// continues with the copy. `false`: not possible; nothing has changed.
    fn replace_lent(&mut self, to: Rank, name: u64, copy: &[u8]) -> bool {
        let _ = (to, name, copy);
        false
    }

    /// Starts to fetch the first `length` bytes that a rank of another host lends. They arrive in
    /// order, as parts of a message of that rank with this protocol and header. `false`: not
    /// possible now.
    fn fetch_lent(
        &mut self,
        (from, lent): (Rank, LentAddress),
        length: u64,
        (protocol, header): (u8, u64),
    ) -> bool {
        let _ = (from, lent, length, protocol, header);
        false
    }

    /// Opens a copy into these bytes. `None`: this fabric has no such copies. A rank has at most
    /// one open copy: its sender must be done with the one before.
    fn open_joint(&mut self, into: &[u8]) -> Option<JointCopy> {
        let _ = into;
        None
    }

    /// Copies the parts that the sender has not copied. Returns whether all has arrived. `false`:
    /// the sender is copying the last part; call again. `into` is the opened buffer.
    ///
    /// # Errors
    /// As [`CopyPort::read`]; also if the word that divides the copy was overwritten. Then the copy
    /// is closed.
    fn read_jointly(
        &mut self,
        from: RemoteAddress,
        into: &mut [u8],
        copy: &JointCopy,
    ) -> Result<bool, PostError> {
        let _ = (from, into, copy);
        Err(PostError::Unsupported("copy by both ends"))
    }

    /// Copies the parts of a message that the receiver has not copied. Returns the bytes copied.
    ///
    /// # Errors
    /// As [`CopyPort::read`]; the receiver then copies everything.
    fn write_jointly(&mut self, copy: &JointCopy, payload: &[u8]) -> Result<u64, PostError> {
        let _ = (copy, payload);
        Err(PostError::Unsupported("copy by both ends"))
    }

    /// Ends a copy early. Returns whether its sender, `from`, no longer accesses the memory; if
    /// not, call again.
    fn close_joint(&mut self, from: Rank, copy: &JointCopy) -> bool {
        let _ = (from, copy);
        true
    }
}
