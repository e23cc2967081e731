//! A set of descriptors that one thread waits for together (epoll). Each has a token by which its
//! owner recognizes it. Level-triggered: the next wait reports unread or unwritten data again.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
};

/// The longest single wait. The kernel cannot count to every limit; the caller waits again.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct EventSet(OwnedFd);

impl EventSet {
    pub(super) fn new() -> io::Result<EventSet> {
        Ok(EventSet(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor to wait for input.
    pub(super) fn add(&self, fd: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
    }

    /// Adds a descriptor to wait for output.
    pub(super) fn add_to_write(&self, fd: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(token), epoll::EventFlags::OUT)
    }

    pub(super) fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.0, fd)
    }

    /// The tokens of the ready descriptors, in the order in which they became ready. Waits until
    /// one is ready, a signal arrives, or `limit` has passed.
    pub(super) fn wait(
        &self,
        limit: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = u64> + use<>> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit.min(A_DAY)).ok());
        let mut events = Vec::with_capacity(64);
        match epoll::wait(&self.0, spare_capacity(&mut events), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.into_iter().map(|event: epoll::Event| event.data.u64()))
    }

    /// [`EventSet::wait`] without blocking.
    pub(super) fn ready(&self) -> io::Result<impl Iterator<Item = u64> + use<>> {
        self.wait(Some(Duration::ZERO))
    }
}

/// A set is readable when one of its descriptors is ready.
impl AsFd for EventSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rustix::pipe::pipe;

    use super::*;

    #[test]
    fn a_set_tells_what_is_ready_until_it_is_removed() {
        let (events, inner) = (EventSet::new().unwrap(), EventSet::new().unwrap());
        let (reader, writer) = pipe().unwrap();
        inner.add(&reader, 5).unwrap();
        events.add(&inner, 6).unwrap();
        let ready = |set: &EventSet| set.ready().unwrap().collect::<Vec<_>>();
        assert_eq!((ready(&events), ready(&inner)), (vec![], vec![]));
        rustix::io::write(&writer, b"a").unwrap();
        assert_eq!(events.wait(Some(Duration::MAX)).unwrap().collect::<Vec<_>>(), [6]);
        assert_eq!((ready(&inner), ready(&inner)), (vec![5], vec![5]), "it is still unread");
        events.add_to_write(&writer, u64::MAX).unwrap();
        assert_eq!(ready(&events), [6, u64::MAX]);
        inner.remove(&reader).unwrap();
        assert_eq!((ready(&inner), ready(&events)), (vec![], vec![u64::MAX]));
    }
}
