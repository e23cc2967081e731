//! The mechanisms behind rates that the papers print, tested in the memory of a job: which bytes a
//! transfer writes in addition to its own, and which poll finds an arrival. Nothing is timed.
//!
//! The memory is read as a file, bypassing the library: every store of a transfer shows as a
//! difference.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hikyaku_conformance::job::pattern;
use hikyaku_conformance::{Setup, job};
use hikyaku_nic::fabric::{
    Command, CopyPort, Event, Granularity, Landed, MemoryPort, Notification, Port, PostError,
    RemoteAddress,
};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_shm::{Job, JobConfig, ShmPort};

/// The longest transfer here, and the size of a landing ring.
const LONGEST: usize = 64 << 10;

/// The unit that moves between the caches of processors, bytes.
const LINE: usize = 64;

/// A job of two ranks in this process, and its memory.
struct Watched {
    ports: [ShmPort; 2],
    file: File,
    seen: Vec<u8>,
    /// Kept, since it owns the memory's file.
    _job: Job,
}

/// The bytes and lines that were written since the last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    bytes: usize,
    lines: usize,
}

impl Watched {
    fn new() -> Watched {
        let mut layout = Setup::private(2).layout;
        layout.ring_bytes = LONGEST as u32;
        let sizes = JobConfig::new(2, 2);
        let job =
            Job::create(&JobConfig { layout, region_bytes: 8 * LONGEST as u64, ..sizes }).unwrap();
        let ports = [0, 1].map(|rank| job.join_as(rank).unwrap());
        let file = File::from(job.fd().try_clone_to_owned().unwrap());
        let length = file.metadata().unwrap().len() as usize;
        Watched { ports, file, seen: vec![0; length], _job: job }
    }

    /// Memory of a rank, all zero, and its address for others.
    fn area(&mut self, rank: usize, length: usize) -> (RegionBuffer, RemoteAddress) {
        let mut buffer = self.ports[rank].allocate(length + LINE).unwrap();
        buffer.fill(0);
        let address = self.ports[rank].expose(&buffer).unwrap();
        (buffer, address)
    }

    fn written(&mut self) -> Written {
        let mut now = vec![0; self.seen.len()];
        self.file.read_exact_at(&mut now, 0).unwrap();
        let differ = |(then, now): &(&[u8], &[u8])| then != now;
        let bytes = self.seen.chunks(1).zip(now.chunks(1)).filter(differ).count();
        let lines = self.seen.chunks(LINE).zip(now.chunks(LINE)).filter(differ).count();
        self.seen = now;
        Written { bytes, lines }
    }

    fn post(&mut self, from: usize, command: &Command<'_>) {
        assert_eq!(self.ports[from].post(command), Ok(command.payload.len()));
    }

    fn landed(&mut self, rank: usize) -> Landed {
        match self.ports[rank].poll() {
            Some(Event::Landed(landed)) => landed,
            other => panic!("{other:?}"),
        }
    }
}

/// A payload without zeros, so that each of its bytes shows in memory that was zero.
fn visible(seed: u64, length: usize) -> Vec<u8> {
    pattern(seed, length).into_iter().map(|byte| byte | 1).collect()
}

/// IP-18: a long message by ring writes as many bytes as one by address, within half a percent; its
/// read-out into the reader's own memory writes no more than the pointers.
#[test]
fn ip_18_a_long_message_by_ring_writes_within_half_a_percent_of_one_by_address() {
    let mut job = Watched::new();
    let (_buffer, target) = job.area(0, LONGEST);
    let by_address = visible(18, LONGEST);
    let put = Command { notification: Notification::Status, ..Command::put(target, &by_address) };
    job.written();
    job.post(1, &put);
    let address = job.written().bytes;
    assert!(matches!(job.ports[0].poll(), Some(Event::Notified(_))));

    let by_ring = visible(!18, LONGEST);
    let granularity = Granularity::PerMessage;
    job.written();
    job.post(1, &Command { granularity, ..Command::send(0, 0, 0, &by_ring) });
    let ring = job.written().bytes;
    let landed = job.landed(0);
    assert_eq!(job::read_out(&mut job.ports[0], landed).bytes, by_ring);
    let read_out = job.written().bytes;

    assert!(address >= LONGEST && ring >= LONGEST, "{address} and {ring}");
    assert!(ring - LONGEST <= LONGEST / 200, "{address} and {ring}");
    assert!(read_out <= LONGEST / 200, "{read_out}");
}

/// CP-07: a ping-pong by address writes its bytes and a constant, whatever the length. At a length
/// equal to that constant, half of the moved bytes are the program's: the constant is below 1 KB.
/// At long lengths all but a tenth are.
#[test]
fn cp_07_a_ping_pong_writes_its_bytes_and_a_constant_below_1_kb() {
    let lengths = [64, 256, 1024, 4096, LONGEST];
    let constants = lengths.map(|length| {
        let mut job = Watched::new();
        let ends = [job.area(0, length), job.area(1, length)];
        let payload = visible(7, length);
        job.written();
        for (from, to) in [(0, 1), (1, 0)] {
            let put = Command::put(ends[to].1, &payload);
            job.post(from, &Command { notification: Notification::Status, ..put });
            assert!(matches!(job.ports[to].poll(), Some(Event::Notified(_))));
            assert_eq!(ends[to].0[..length], payload);
        }
        let lines = job.written().lines;
        LINE * lines / 2 - length
    });
    assert!(constants.iter().all(|constant| *constant == constants[0]), "{constants:?}");
    assert!((1..=1024).contains(&constants[0]), "{constants:?}");
    assert!(constants[0] <= LONGEST / 10, "{constants:?}");
}

/// CJ-20: between places any number of words apart, as in paper 003's Fig. 8, a put writes only the
/// lines of its target, and one more where these are not whole. If the bytes are first copied to
/// whole lines, as software would, twice as many lines are written.
#[test]
fn cj_20_a_put_of_any_distance_writes_its_lines_once_and_by_a_copy_twice() {
    const LENGTH: usize = 4096;
    for word in (1..32).step_by(2) {
        let mut job = Watched::new();
        let (mut source, _) = job.area(1, 2 * LENGTH);
        let (mut between, _) = job.area(1, LENGTH);
        let (target, address) = job.area(0, LENGTH);
        source[..2 * LENGTH].copy_from_slice(&visible(word as u64, 2 * LENGTH));
        let moved = &source[4 * word..][..LENGTH];
        let put = |at: u64| RemoteAddress { offset: address.offset + at, ..address };
        job.written();

        job.post(1, &Command::put(put(0), moved));
        assert_eq!(target[..LENGTH], *moved);
        let aligned = job.written().lines;
        assert_eq!(aligned, LENGTH / LINE, "{word} words apart");

        // Other bytes than those in place.
        let changed: Vec<u8> = moved.iter().map(|byte| byte ^ 2).collect();
        between[..LENGTH].copy_from_slice(&changed);
        job.post(1, &Command::put(put(0), &between[..LENGTH]));
        let copied = job.written().lines;
        assert_eq!(copied, 2 * aligned, "{word} words apart");

        job.post(1, &Command::put(put(4), moved));
        assert_eq!(target[4..][..LENGTH], *moved);
        assert_eq!(job.written().lines, aligned + 1, "{word} words apart");
    }
}

/// Ends the other thread when the test fails in this one.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// IP-20: a poll may miss a message that arrives while it reads, and the next poll finds it: a poll
/// that began after an arrival always finds it.
#[test]
fn ip_20_a_poll_that_begins_after_an_arrival_finds_it() {
    const MESSAGES: u64 = 20_000;
    let Watched { ports: [mut receiver, mut sender], .. } = Watched::new();
    let (arrived, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (arrived, stop) = (&arrived, &stop);
        let goes_on = || assert!(!stop.load(Ordering::Relaxed), "the other thread has failed");
        scope.spawn(move || {
            let _stop = Stop(stop);
            let mut number = 0;
            while number < MESSAGES {
                let command = Command { credited: false, ..Command::send(0, 0, number, &[]) };
                match sender.post(&command) {
                    Ok(_) => {
                        number += 1;
                        arrived.store(number, Ordering::Release);
                    }
                    Err(PostError::Full { .. }) => {
                        goes_on();
                        thread::yield_now();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let _stop = Stop(stop);
        let mut found = 0;
        while found < MESSAGES {
            let before = arrived.load(Ordering::Acquire);
            match receiver.poll() {
                Some(Event::Landed(landed)) => {
                    assert_eq!(landed.header, found);
                    found += 1;
                }
                Some(Event::StatusFull) => {}
                Some(other) => panic!("{other:?}"),
                None => {
                    assert!(before <= found, "{before} had arrived, {found} were found");
                    goes_on();
                }
            }
        }
    });
}
