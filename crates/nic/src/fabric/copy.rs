//! Copies between the memory of two ranks, without a landing ring: by the reader, or by both ends
//! at once.
//!
//! ```text
//!   receiver                                   sender
//!   --------                                   ------
//!   open_joint(into) ──── JointCopy, sent as a message ────►
//!   read_jointly                               write_jointly
//!     copies from the back                       copies from the front
//!   until all is there, or nothing is left to copy and the sender has a part in its hands
//! ```
//!
//! Copying is most of the time of a long message, and the sender waits anyway. With two processors
//! the message takes little more than half of what one copy takes.

use super::{Port, PostError, Rank, RemoteAddress, Space};

/// A copy that both ends may make, as its receiver has opened it. The sender needs all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JointCopy {
    /// Where the message goes, in the receiver's memory.
    pub into: RemoteAddress,
    /// Its length, bytes.
    pub length: u64,
    /// Which of the receiver's copies it is.
    pub number: u32,
}

/// Where a fabric has memory of a rank of another host that is lent: the words mean something to
/// the fabric only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentAddress {
    /// Where its bytes begin.
    pub address: u64,
    /// What opens it.
    pub key: u64,
}

/// A port that copies from and to the memory of other ranks itself. The messages of `msg` need one.
pub trait CopyPort: Port {
    /// The address by which other ranks may reach these bytes of this process, if they can.
    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress>;

    /// From how many bytes on it may be faster to copy a message out of such memory of its sender
    /// than to store it into a landing ring; `None`: it never is, or is not possible. May change
    /// while the job runs.
    fn copies_from(&self, space: Space) -> Option<usize>;

    /// Reads another rank's memory with no help from its program; complete on return.
    ///
    /// # Errors
    /// The address is out of bounds, the peer is gone, or the fabric or kernel refuses.
    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>;

    /// Lends these bytes of this process to a rank of another host: until they are taken back by
    /// this name it may fetch them from where the answer says, with no help of this rank's program
    /// where the fabric's hardware or the kernel reads them. The caller promises about them what it
    /// does for [`CopyPort::expose`]. `None`: not possible, or not worth while.
    fn lend(&mut self, to: Rank, name: u64, bytes: &[u8]) -> Option<LentAddress> {
        let _ = (to, name, bytes);
        None
    }

    /// Takes bytes back that were lent by a name.
    fn take_back(&mut self, name: u64) {
        let _ = name;
    }

    /// Lends a copy in place of bytes that were lent by a name: who fetches these goes on with the
    /// copy, as if nothing had changed. `false`: not possible; nothing has changed.
    fn replace_lent(&mut self, to: Rank, name: u64, copy: &[u8]) -> bool {
        let _ = (to, name, copy);
        false
    }

    /// Starts to fetch the first bytes that a rank of another host lends. They arrive as parts of a
    /// message of that rank, in order, with this protocol and header. `false`: not possible now.
    fn fetch_lent(
        &mut self,
        (from, lent): (Rank, LentAddress),
        length: u64,
        (protocol, header): (u8, u64),
    ) -> bool {
        let _ = (from, lent, length, protocol, header);
        false
    }

    /// Opens a copy into these bytes. `None`: this fabric has none. A rank has one open copy: the
    /// one before is over for its sender.
    fn open_joint(&mut self, into: &[u8]) -> Option<JointCopy> {
        let _ = into;
        None
    }

    /// Copies what the sender has not: returns whether all is there. `false`: the sender is copying
    /// the last part; call again. `into` is what the copy was opened for.
    ///
    /// # Errors
    /// As [`CopyPort::read`]; also if the word that divides the copy was overwritten. The copy is
    /// closed then.
    fn read_jointly(
        &mut self,
        from: RemoteAddress,
        into: &mut [u8],
        copy: &JointCopy,
    ) -> Result<bool, PostError> {
        let _ = (from, into, copy);
        Err(PostError::Unsupported("copy by both ends"))
    }

    /// Copies a message to a receiver as far as the receiver has not. Returns the bytes copied.
    ///
    /// # Errors
    /// As [`CopyPort::read`]; the receiver then copies everything.
    fn write_jointly(&mut self, copy: &JointCopy, payload: &[u8]) -> Result<u64, PostError> {
        let _ = (copy, payload);
        Err(PostError::Unsupported("copy by both ends"))
    }

    /// Ends a copy early. Returns whether its sender, `from`, is out of the memory; if not, call
    /// again.
    fn close_joint(&mut self, from: Rank, copy: &JointCopy) -> bool {
        let _ = (from, copy);
        true
    }
}
