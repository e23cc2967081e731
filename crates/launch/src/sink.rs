//! Writes bytes to a file without ever blocking the supervising thread.
//!
//! A terminal can be stopped and a pager can stop reading. If the supervising thread wrote itself,
//! it would hang there and miss Ctrl-C, ranks that die and `--timeout`. Making the launcher's own
//! standard output non-blocking is no solution: the flag belongs to the open file, which is shared
//! with the shell and everything else in the pipeline. So a separate thread writes. It starts with
//! the first byte; jobs that print nothing have none.
//!
//! ```text
//!   supervising thread ──push──► queue ──► writing thread ──write──► file
//!            ▲                                   │
//!            └───────────── eventfd ◄────────────┘  "written" / "failed"
//! ```
//!
//! Memory is bounded: the caller stops reading from ranks while `is_full`. Then their pipes fill
//! up, and they wait, as they would on the file itself.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno,
};

/// The queue counts as full from this many waiting bytes.
const FULL: usize = 1024 * 1024;

/// A queue of bytes and the thread that writes them.
pub(super) struct OutputSink {
    shared: Arc<SharedSink>,
    /// The file until the thread is started.
    file: Option<File>,
}

struct SharedSink {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// An eventfd that counts changes for the supervising thread.
    changed: OwnedFd,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Bytes that the thread has taken and not written yet.
    writing: usize,
    closed: bool,
    error: Option<SinkError>,
    failed: bool,
}

/// The reason why no more is written.
#[derive(Debug)]
pub(super) enum SinkError {
    /// Writing to the file has failed.
    Write(io::Error),
    /// The thread could not be started.
    Thread(io::Error),
}

impl OutputSink {
    pub(super) fn new(file: File) -> io::Result<OutputSink> {
        let changed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (queue, filled) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(SharedSink { queue, filled, changed });
        Ok(OutputSink { shared, file: Some(file) })
    }

    /// Lets `fill` append bytes. They are dropped if an earlier write has failed.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut queue = self.shared.lock();
        if queue.failed {
            return;
        }
        fill(&mut queue.bytes);
        drop(queue);
        if let Some(file) = self.file.take() {
            let shared = Arc::clone(&self.shared);
            let run = move || shared.write_to(file);
            if let Err(error) = thread::Builder::new().name("hikyaku-output".into()).spawn(run) {
                self.shared.lock().fail(SinkError::Thread(error));
                self.shared.tell();
            }
        }
        self.shared.filled.notify_one();
    }

    /// Whether the queue is full: pushes must wait.
    pub(super) fn is_full(&self) -> bool {
        let queue = self.shared.lock();
        !queue.failed && queue.bytes.len() >= FULL
    }

    /// Whether everything pushed has been written, or nothing further will be.
    pub(super) fn is_done(&self) -> bool {
        let queue = self.shared.lock();
        queue.failed || queue.bytes.len() + queue.writing == 0
    }

    /// Whether writing has failed, so that nothing further will be written.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.lock().failed
    }

    /// Takes the error of a failed write. Returned once.
    pub(super) fn take_error(&mut self) -> Option<SinkError> {
        self.shared.lock().error.take()
    }

    /// Waits until everything pushed is written, at most `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let start = Instant::now();
        while !self.is_done() {
            let left = limit.saturating_sub(start.elapsed());
            let Ok(left) = Timespec::try_from(left) else { return };
            match poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&left)) {
                Ok(0) => return,
                _ => self.acknowledge(),
            }
        }
    }

    /// Resets the descriptor until the next change.
    pub(super) fn acknowledge(&self) {
        // EAGAIN: there was no change. An eventfd returns no other error.
        let _ = rustix::io::read(&self.shared.changed, &mut [0; 8]);
    }
}

/// Readable after a write or a failure.
impl AsFd for OutputSink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.changed.as_fd()
    }
}

impl Drop for OutputSink {
    fn drop(&mut self) {
        // The thread is not joined: it may wait for a reader for ever.
        self.shared.lock().closed = true;
        self.shared.filled.notify_one();
    }
}

impl SharedSink {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A poisoned lock is harmless: each statement under the lock leaves the queue consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals a change to the supervising thread.
    fn tell(&self) {
        // EAGAIN would mean that 2^64 changes have not been acknowledged.
        let _ = rustix::io::write(&self.changed, &1u64.to_ne_bytes());
    }

    /// The writing thread's loop.
    fn write_to(&self, mut file: File) {
        let mut batch = Vec::new();
        loop {
            let mut queue = self.lock();
            while queue.bytes.is_empty() && !queue.closed {
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.bytes.is_empty() {
                return;
            }
            std::mem::swap(&mut queue.bytes, &mut batch);
            queue.writing = batch.len();
            drop(queue);
            let result = write_all(&mut file, &batch);
            batch.clear();
            let mut queue = self.lock();
            queue.writing = 0;
            let failed = result.is_err();
            if let Err(error) = result {
                queue.fail(SinkError::Write(error));
            }
            drop(queue);
            self.tell();
            if failed {
                return;
            }
        }
    }
}

/// Writes all bytes. Another process that shares the open file may have made it non-blocking: then
/// this thread waits for room, as it would without that flag.
fn write_all(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(file, PollFlags::OUT)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Queue {
    fn fail(&mut self, error: SinkError) {
        self.failed = true;
        self.error = Some(error);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs::OpenOptions, io::Read};

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    fn wait_for_change(sink: &OutputSink) {
        poll(&mut [PollFd::new(sink, PollFlags::IN)], None).unwrap();
        sink.acknowledge();
    }

    #[test]
    fn bytes_arrive_in_order_and_the_end_is_told() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut sink = OutputSink::new(writer.into()).unwrap();
        assert!(sink.is_done());
        sink.push(|bytes| bytes.extend_from_slice(b"one\n"));
        sink.push(|bytes| bytes.extend_from_slice(b"two\n"));
        while !sink.is_done() {
            wait_for_change(&sink);
        }
        drop(sink);
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn a_reader_that_does_not_read_makes_it_full_and_not_blocked() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut sink = OutputSink::new(writer.into()).unwrap();
        let mut pushed = 0;
        while !sink.is_full() {
            sink.push(|bytes| bytes.extend_from_slice(&[b'x'; 10_000]));
            pushed += 10_000;
            assert!(pushed < 64 * FULL, "never full");
        }
        let mut file = File::from(reader);
        let mut buffer = vec![0; 100_000];
        let mut read = 0;
        while read < pushed {
            read += file.read(&mut buffer).unwrap();
        }
        while !sink.is_done() {
            wait_for_change(&sink);
        }
        assert_eq!(read, pushed);
        assert!(!sink.is_full());
    }

    #[test]
    fn a_file_that_another_process_made_non_blocking_gets_all_bytes() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).unwrap();
        let mut sink = OutputSink::new(writer.into()).unwrap();
        // More than a pipe holds.
        let text = vec![b'x'; 1 << 20];
        sink.push(|bytes| bytes.extend_from_slice(&text));
        drop(sink);
        let mut read = Vec::new();
        File::from(reader).read_to_end(&mut read).unwrap();
        assert!(read == text, "{} bytes arrived", read.len());
    }

    #[test]
    fn a_failed_write_is_told_once_and_later_bytes_are_dropped() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut sink = OutputSink::new(full).unwrap();
        sink.push(|bytes| bytes.push(b'x'));
        wait_for_change(&sink);
        assert!(sink.has_failed() && sink.is_done() && !sink.is_full());
        let error = sink.take_error().unwrap();
        let SinkError::Write(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(sink.take_error().is_none());
        sink.push(|_| unreachable!("nothing is written any more"));
    }
}
