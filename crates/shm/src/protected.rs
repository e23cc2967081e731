//! Protected memory: a separate file that only the ranks that may use it can map.
//!
//! All processes of a job map its memory for writing. A rank that uses the library is checked
//! against the tables of the rank to which it writes; one that bypasses the library can write
//! anywhere. So memory that must be safe from such a rank is a separate anonymous file, and the
//! kernel checks the accesses of each process to it:
//!
//! ```text
//!   owner                                 writers              readers           others
//!   make, commit, seal its size, map
//!   hand over the descriptor  ──────────► map for both
//!   ... all writers have mapped it
//!   seal against further writers
//!   hand over one opened for reading  ──────────────────────► map for reading    no access
//!   close                                 close                close
//! ```
//!
//! After the seal no process can make a writable mapping, with any descriptor. Only mappings
//! remain, and no descriptors, so their limit does not limit such windows.
//!
//! A descriptor is sent by a connection of a Unix domain socket (`SCM_RIGHTS`) with an abstract
//! address: this needs no file, no privilege and no set-up. If it could be opened through `/proc`,
//! any process of the user could open it; and `pidfd_getfd` needs the right to trace the peer,
//! which Yama and containers refuse. The kernel reports to each end the process of the other, and
//! only the process that joined as the rank is accepted. The sender connects and writes without
//! waiting for the receiver, since the queue has room: callers hand over, synchronise, take.
//!
//! A part is addressed by its owner's rank and an offset beyond every region.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use hikyaku_nic::fabric::Rank;
use hikyaku_nic::region::RegionError;
use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};

use crate::error::HandError;
use crate::mapping::{FileMapping, peer_process};
use crate::memory::{self, SEALS};
use crate::region::JobRegion;
use crate::wait;

/// The bit of an offset that marks it as beyond the regions; below it are a part's number and the
/// offset in the part.
const BEYOND: u64 = 1 << 63;

/// The first bit of a part's number in an offset.
const NUMBER_AT: u32 = 40;

/// Limits of a part's bytes, and of the parts that a rank makes.
const MOST_BYTES: u64 = 1 << NUMBER_AT;
const MOST_PARTS: u64 = BEYOND >> NUMBER_AT;

/// Limit of connections of other processes that are examined in addition to the expected ones.
const STRANGERS: usize = 64;

/// The protected memory that a process has mapped, its own rank's and that of others.
#[derive(Debug)]
pub struct ProtectedMemory {
    region: Arc<JobRegion>,
    rank: Rank,
    /// The number of parts that this rank has made.
    made: u64,
    parts: BTreeMap<(Rank, u64), FileMapping>,
}

/// A part of this rank while it is handed over. Once this is dropped, no rank can get the part.
#[derive(Debug)]
pub struct ProtectedFile {
    file: OwnedFd,
    offset: u64,
}

/// The socket by which other ranks hand their parts to this rank.
#[derive(Debug)]
pub struct Inbox {
    socket: OwnedFd,
    number: u64,
    /// Connections by which no message has come yet.
    early: RefCell<Vec<OwnedFd>>,
}

/// A part that another rank shall hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedPart {
    /// The part's owner.
    pub owner: Rank,
    /// The part's offset.
    pub offset: u64,
    /// The part's length, bytes.
    pub length: u64,
    /// Whether this rank may write it.
    pub writable: bool,
}

impl ProtectedFile {
    /// The offset of its first byte, as used by all ranks.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Inbox {
    /// The number by which other ranks find the inbox.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl ProtectedMemory {
    /// The protected memory of this rank, without any parts yet.
    pub(crate) fn new(region: Arc<JobRegion>, rank: Rank) -> ProtectedMemory {
        ProtectedMemory { region, rank, made: 0, parts: BTreeMap::new() }
    }

    /// Makes a part of zeros that only this process has mapped.
    ///
    /// # Errors
    /// There is no memory for it, or no descriptor.
    pub fn make(&mut self, length: u64) -> Result<ProtectedFile, RegionError> {
        let refused =
            |errno: Errno| RegionError::NoMemory { wanted: length, code: errno.raw_os_error() };
        let bytes = file_bytes(length).ok_or(refused(Errno::OVERFLOW))?;
        if self.made >= MOST_PARTS {
            return Err(refused(Errno::OVERFLOW));
        }
        let file = memory::create_own(bytes).map_err(refused)?;
        let mapping = FileMapping::new(&file, bytes as usize, true).map_err(refused)?;
        let offset = BEYOND | self.made << NUMBER_AT;
        self.made += 1;
        self.parts.insert((self.rank, offset), mapping);
        Ok(ProtectedFile { file, offset })
    }

    /// Opens an inbox, by which up to `room` ranks at a time hand parts to this rank.
    ///
    /// # Errors
    /// The system refused.
    pub fn open_inbox(&self, room: usize) -> Result<Inbox, HandError> {
        let socket = new_socket()?;
        let number = wait::monotonic();
        bind(&socket, &self.address(self.rank, number)?).map_err(system("bind"))?;
        let room = i32::try_from(room).unwrap_or(i32::MAX);
        listen(&socket, room).map_err(system("listen at"))?;
        Ok(Inbox { socket, number, early: RefCell::default() })
    }

    /// Hands a part of this rank to another rank, which has an inbox with this number.
    ///
    /// # Errors
    /// The system refused, or the inbox does not belong to that rank.
    pub fn hand(
        &self,
        file: &ProtectedFile,
        (to, inbox): (Rank, u64),
        writable: bool,
    ) -> Result<(), HandError> {
        let socket = new_socket()?;
        connect(&socket, &self.address(to, inbox)?).map_err(system("connect to"))?;
        self.check_process(to, peer_process(&socket).map_err(system("examine"))?)?;
        let for_reading;
        let file_handed = if writable {
            file.file.as_fd()
        } else {
            for_reading = open_for_reading(&file.file)?;
            for_reading.as_fd()
        };
        let name = [u64::from(self.rank), file.offset].map(u64::to_ne_bytes);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let handed = [file_handed];
        let fits = control.push(SendAncillaryMessage::ScmRights(&handed));
        debug_assert!(fits);
        let flags = SendFlags::NOSIGNAL;
        let sent = sendmsg(&socket, &[IoSlice::new(name.as_flattened())], &mut control, flags);
        sent.map_err(system("send by")).map(drop)
    }

    /// Takes the parts that others have handed over. Those that are `due` have arrived; others of
    /// the expected ones may have.
    ///
    /// # Errors
    /// The error of the first rank whose part is invalid, or is due and missing.
    pub fn take(
        &mut self,
        inbox: &Inbox,
        expected: &[ExpectedPart],
        due: &[ExpectedPart],
    ) -> Result<(), (Rank, HandError)> {
        let mut waiting = Vec::new();
        for _ in 0..expected.len() + STRANGERS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let early = inbox.early.borrow_mut().pop();
            let Ok(socket) = early.map_or_else(|| accept_with(&inbox.socket, flags), Ok) else {
                break;
            };
            let Ok(process) = peer_process(&socket) else { continue };
            let received = match receive(&socket) {
                // Its sender, which is a round ahead, has connected and is about to send.
                Err(Errno::AGAIN) => {
                    waiting.push(socket);
                    continue;
                }
                received => received.ok().flatten(),
            };
            let Some((name, file)) = received else { continue };
            let named = |part: &&ExpectedPart| {
                name == [u64::from(part.owner), part.offset]
                    && self.check_process(part.owner, process).is_ok()
            };
            let Some(part) = expected.iter().find(named) else { continue };
            let mapping = map(&file, part).map_err(|error| (part.owner, error))?;
            self.parts.insert((part.owner, part.offset), mapping);
        }
        inbox.early.borrow_mut().append(&mut waiting);
        let missing = due.iter().find(|part| !self.has(part.owner, part.offset, part.length));
        missing.map_or(Ok(()), |part| Err((part.owner, HandError::Missing)))
    }

    /// Bars further mappings of a part for writing. All writers must have mapped it.
    ///
    /// # Errors
    /// The system refused.
    pub fn seal(&self, file: &ProtectedFile) -> Result<(), HandError> {
        let last = SealFlags::SEAL;
        match rustix::fs::fcntl_add_seals(&file.file, SealFlags::FUTURE_WRITE | last) {
            // Linux before 5.1 has no such seal; there a reader could reopen the file for writing.
            Err(Errno::INVAL) => rustix::fs::fcntl_add_seals(&file.file, last),
            done => done,
        }
        .map_err(system("seal"))
    }

    /// Unmaps a part, this rank's or another's. Other processes keep their mappings of it.
    pub fn let_go(&mut self, owner: Rank, offset: u64) {
        self.parts.remove(&(owner, offset));
    }

    /// The number of parts that this process has mapped.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Whether this process has mapped these bytes.
    pub(crate) fn has(&self, rank: Rank, offset: u64, length: u64) -> bool {
        self.find(rank, offset).is_some_and(|(part, at)| part.is_inside(at, length))
    }

    /// The part that contains an offset, and the offset in the part.
    #[inline]
    pub(crate) fn find(&self, rank: Rank, offset: u64) -> Option<(&FileMapping, u64)> {
        let at = offset % MOST_BYTES;
        (offset & BEYOND != 0).then(|| self.parts.get(&(rank, offset - at)))?.map(|part| (part, at))
    }

    fn address(&self, rank: Rank, number: u64) -> Result<SocketAddrUnix, HandError> {
        let name = format!("hikyaku-{:x}-{rank}-{number:x}", self.region.inode());
        SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(system("name"))
    }

    /// Checks that a process is the one that has joined as a rank.
    fn check_process(&self, rank: Rank, found: u32) -> Result<(), HandError> {
        let expected = self.region.mapping.registry().pid(rank);
        if found == expected { Ok(()) } else { Err(HandError::Stranger { found, expected }) }
    }
}

/// The size of the file of a part of `length` bytes.
fn file_bytes(length: u64) -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    length.max(1).checked_next_multiple_of(page).filter(|bytes| *bytes <= MOST_BYTES)
}

fn new_socket() -> Result<OwnedFd, HandError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(system("make"))
}

/// The same file by a descriptor that cannot write.
fn open_for_reading(file: &OwnedFd) -> Result<OwnedFd, HandError> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(system("open for reading what goes by"))
}

/// Receives a message of a connection: owner and offset of a part, and its file.
fn receive(socket: &OwnedFd) -> Result<Option<([u64; 2], OwnedFd)>, Errno> {
    let mut name = [[0; 8]; 2];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(name.as_flattened_mut())];
    let received = recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.next().and_then(|mut files| files.next());
    let is_whole = received.bytes == name.as_flattened().len();
    Ok(file.filter(|_| is_whole).map(|file| (name.map(u64::from_ne_bytes), file)))
}

/// Maps a received part. Its owner can no longer truncate it.
fn map(file: &OwnedFd, part: &ExpectedPart) -> Result<FileMapping, HandError> {
    let bytes = file_bytes(part.length).ok_or(HandError::Malformed)?;
    let found = rustix::fs::fstat(file).map_err(system("examine what came by"))?.st_size;
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| HandError::Malformed)?;
    if u64::try_from(found) != Ok(bytes) || !seals.contains(SEALS) {
        return Err(HandError::Malformed);
    }
    FileMapping::new(file, bytes as usize, part.writable).map_err(system("map what came by"))
}

fn system(what: &'static str) -> impl Fn(Errno) -> HandError {
    move |errno| HandError::System { what, errno }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::open_all;
    use crate::plan::JobConfig;

    /// The records of two ranks of this process.
    fn two() -> (Vec<crate::ShmPort>, [ProtectedMemory; 2]) {
        let ports = open_all(&JobConfig::new(2, 2)).unwrap();
        let book = |rank: usize| {
            ProtectedMemory::new(Arc::clone(ports[rank].host().region()), rank as Rank)
        };
        let books = [book(0), book(1)];
        (ports, books)
    }

    fn hand_over(length: u64, writable: bool) -> (ProtectedMemory, ProtectedMemory, u64) {
        let (_ports, [mut owner, mut other]) = two();
        let file = owner.make(length).unwrap();
        let inbox = other.open_inbox(1).unwrap();
        owner.hand(&file, (1, inbox.number()), writable).unwrap();
        let offset = file.offset();
        let part = [ExpectedPart { owner: 0, offset, length, writable }];
        other.take(&inbox, &part, &part).unwrap();
        (owner, other, offset)
    }

    #[test]
    fn who_may_write_shares_the_bytes_with_the_owner() {
        let (owner, other, offset) = hand_over(5000, true);
        let [mine, theirs] = [&owner, &other].map(|book| book.find(0, offset + 8).unwrap());
        theirs.0.word64(theirs.1).unwrap().store(7, hikyaku_nic::sync::Ordering::Relaxed);
        let mut found = [0; 8];
        mine.0.bytes(mine.1, 8, false).unwrap().load(0, &mut found);
        assert_eq!(found, 7u64.to_ne_bytes());
        assert!(other.has(0, offset, 8192) && !other.has(0, offset, 8193));
        assert!(other.find(1, offset).is_none() && other.find(0, 8).is_none());
    }

    #[test]
    fn cj_06_who_may_read_has_no_way_to_write() {
        let (mut owner, other, offset) = hand_over(4096, false);
        let (part, at) = other.find(0, offset).unwrap();
        assert!(part.word64(at).is_none() && part.word32(at).is_none());
        assert!(part.bytes(at, 8, true).is_none() && part.bytes(at, 8, false).is_some());
        assert_eq!(part.load(at, 8), Some(0));
        assert_eq!(part.make_writable(), Err(Errno::ACCESS), "the kernel says no as well");
        owner.let_go(0, offset);
        assert_eq!(part.load(at, 8), Some(0), "whoever has it keeps it");
        assert_eq!((owner.parts(), other.parts()), (0, 1));
    }

    /// Not even by a writable descriptor, or by opening the file again.
    #[test]
    fn after_the_seal_nobody_becomes_a_writer() {
        let (_ports, [mut owner, mut other]) = two();
        let file = owner.make(100).unwrap();
        owner.seal(&file).unwrap();
        let inbox = other.open_inbox(1).unwrap();
        owner.hand(&file, (1, inbox.number()), true).unwrap();
        let offset = file.offset();
        let part = ExpectedPart { owner: 0, offset, length: 100, writable: true };
        let error = other.take(&inbox, &[part], &[]).unwrap_err();
        let refused = HandError::System { what: "map what came by", errno: Errno::PERM };
        assert_eq!(error, (0, refused));
        let again = format!("/proc/self/fd/{}", file.file.as_raw_fd());
        let again = rustix::fs::open(again, OFlags::RDWR, Mode::empty()).unwrap();
        assert_eq!(rustix::io::pwrite(&again, &[1], 0), Err(Errno::PERM));
        assert_eq!(FileMapping::new(&again, 4096, true).unwrap_err(), Errno::PERM);
        assert_eq!(rustix::fs::ftruncate(&again, 0), Err(Errno::PERM));
    }

    #[test]
    fn what_does_not_come_or_is_not_as_said_is_an_error() {
        let (_ports, [mut owner, mut other]) = two();
        let file = owner.make(4096).unwrap();
        let part = ExpectedPart { owner: 0, offset: file.offset(), length: 4096, writable: true };
        let inbox = other.open_inbox(1).unwrap();
        assert_eq!(other.take(&inbox, &[part], &[]), Ok(()));
        let take = |other: &mut ProtectedMemory, part| other.take(&inbox, &[part], &[part]);
        assert_eq!(take(&mut other, part), Err((0, HandError::Missing)));
        owner.hand(&file, (1, inbox.number()), true).unwrap();
        let longer = ExpectedPart { length: 4097, ..part };
        assert_eq!(take(&mut other, longer), Err((0, HandError::Malformed)));
        owner.hand(&file, (1, inbox.number()), true).unwrap();
        let another = ExpectedPart { offset: part.offset + MOST_BYTES, ..part };
        assert_eq!(take(&mut other, another), Err((0, HandError::Missing)));
        let number = inbox.number();
        drop(inbox);
        let gone = owner.hand(&file, (1, number), true).unwrap_err();
        assert_eq!(gone, HandError::System { what: "connect to", errno: Errno::CONNREFUSED });
    }

    /// Truncating such a file would kill its readers.
    #[test]
    fn a_file_whose_size_is_not_sealed_is_refused() {
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("hikyaku", flags).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let part = ExpectedPart { owner: 0, offset: BEYOND, length: 1, writable: false };
        assert_eq!(map(&file, &part).unwrap_err(), HandError::Malformed);
    }

    #[test]
    fn only_the_process_that_is_the_rank_is_given_anything() {
        let (ports, [mut owner, other]) = two();
        let file = owner.make(1).unwrap();
        let inbox = other.open_inbox(1).unwrap();
        ports[0].host().mapping().registry().set_pid(1, 1);
        let stranger = HandError::Stranger { found: std::process::id(), expected: 1 };
        assert_eq!(owner.hand(&file, (1, inbox.number()), true), Err(stranger));
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let (_ports, [mut owner, _]) = two();
        for (length, errno) in [(MOST_BYTES + 1, Errno::OVERFLOW), (MOST_BYTES, Errno::NOMEM)] {
            let error = owner.make(length).unwrap_err();
            assert_eq!(error, RegionError::NoMemory { wanted: length, code: errno.raw_os_error() });
        }
        assert_eq!(owner.parts(), 0);
    }
}
