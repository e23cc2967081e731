//! A faulty cable: two network devices, each of which receives the other's frames, except that some
//! are lost, doubled, changed by a bit or late. For kernels without `netem`.
//!
//! `cable NAME NAME SEED` makes the devices in its network, prints `ready`, and carries frames
//! until its standard input ends. Then it prints how many frames it carried, and how many had each
//! fault. The fault of the n-th frame in a direction follows from the seed; the time of its arrival
//! does not.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write, stdin};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_jobs::Random;
use hikyaku_jobs::pattern::key;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Transmission time of a frame.
const LATENCY: Duration = Duration::from_micros(500);

/// Transmission time of a late frame: later frames overtake it.
const LATE: Duration = Duration::from_millis(4);

/// A fault of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Lost,
    Twice,
    Changed,
    Late,
}

/// How many frames in a thousand have each fault.
const FAULTS: [(Fault, usize); 4] =
    [(Fault::Lost, 20), (Fault::Twice, 10), (Fault::Changed, 10), (Fault::Late, 20)];

/// The most frames in transmission in a direction; others are lost as well, as in a full switch.
const MOST_UNDER_WAY: usize = 4096;

/// Bytes of an Ethernet header, and the offset of its protocol.
const HEADER: usize = 14;
const PROTOCOL: usize = 12;
const IPV4: [u8; 2] = [8, 0];

/// The longest frame: these devices carry 1,500 bytes behind the header.
const MOST_BYTES: usize = 2048;

/// How many frames arrived, and how many had each fault.
static CARRIED: AtomicU64 = AtomicU64::new(0);
static HAPPENED: [AtomicU64; FAULTS.len()] = [const { AtomicU64::new(0) }; FAULTS.len()];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [one, other, seed] = &words[..] else { panic!("cable NAME NAME SEED") };
    let seed: u64 = seed.parse().unwrap();
    let ends = [device(one), device(other)];
    for (direction, (from, to)) in [(0, 1), (1, 0)].into_iter().enumerate() {
        let (from, to) = (ends[from].try_clone().unwrap(), ends[to].try_clone().unwrap());
        let seed = key(seed, &[direction as u64]);
        let lane = Lane { from, to, seed, frames: 0, under_way: BTreeMap::new() };
        thread::spawn(|| lane.run());
    }
    println!("ready");
    stdin().read_to_end(&mut Vec::new()).unwrap();
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let faults = FAULTS.iter().zip(&HAPPENED);
    let faults: Vec<_> =
        faults.map(|((fault, _), it)| format!("{fault:?} {}", count(it))).collect();
    println!("{} frames: {}", count(&CARRIED), faults.join(", "));
}

/// Makes a network device with this name, which exists as long as this file is open.
fn device(name: &str) -> File {
    let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    let kind = libc::__c_anonymous_ifr_ifru { ifru_flags: flags };
    let mut request = libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: kind };
    // The last byte stays zero.
    let places = &mut request.ifr_name[..libc::IFNAMSIZ - 1];
    places.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte as libc::c_char);
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which this is, for the time of the call.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(made, 0, "{name}: {}", std::io::Error::last_os_error());
    file
}

/// One direction.
struct Lane {
    from: File,
    to: File,
    seed: u64,
    /// The number of arrived frames.
    frames: u64,
    /// Frames in transmission, by time of arrival and number.
    under_way: BTreeMap<(Instant, u64), Vec<u8>>,
}

impl Lane {
    /// Carries frames until the device is gone.
    fn run(mut self) {
        let mut bytes = [0; MOST_BYTES];
        loop {
            if self.has_come() {
                let Ok(count) = self.from.read(&mut bytes) else { return };
                self.take(&mut bytes[..count]);
            }
            self.deliver();
        }
    }

    /// Waits until a frame arrives or one is due. Returns whether one has arrived.
    fn has_come(&self) -> bool {
        let due = self.under_way.first_key_value().map(|((at, _), _)| *at);
        let left = due.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec::try_from(left).unwrap());
        let mut polled = [PollFd::new(&self.from, PollFlags::IN)];
        poll(&mut polled, left.as_ref()).unwrap() > 0
    }

    /// Takes a frame and applies its fault.
    fn take(&mut self, frame: &mut [u8]) {
        self.frames += 1;
        CARRIED.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::new(key(self.seed, &[self.frames]));
        let fault = drawn(&mut random)
            .filter(|fault| *fault != Fault::Changed || change(frame, &mut random));
        if let Some(fault) = fault {
            HAPPENED[fault as usize].fetch_add(1, Ordering::Relaxed);
        }
        let (copies, latency) = match fault {
            Some(Fault::Lost) => (0, LATENCY),
            Some(Fault::Twice) => (2, LATENCY),
            Some(Fault::Late) => (1, LATE),
            Some(Fault::Changed) | None => (1, LATENCY),
        };
        let due = Instant::now() + latency;
        for copy in 0..copies {
            if self.under_way.len() < MOST_UNDER_WAY {
                self.under_way.insert((due, 2 * self.frames + copy), frame.to_vec());
            }
        }
    }

    /// Delivers the frames that are due.
    fn deliver(&mut self) {
        let now = Instant::now();
        while let Some(next) = self.under_way.first_entry()
            && next.key().0 <= now
        {
            // A device that is not up yet takes no frame.
            let _ = self.to.write(&next.remove());
        }
    }
}

fn drawn(random: &mut Random) -> Option<Fault> {
    let mut draw = random.below(1000);
    for (fault, share) in FAULTS {
        if draw < share {
            return Some(fault);
        }
        draw -= share;
    }
    None
}

/// Flips a bit behind the Ethernet header, if a checksum there would detect it: a wrong answer of
/// ARP would be kept for a minute.
fn change(frame: &mut [u8], random: &mut Random) -> bool {
    let has_sum = frame.len() > HEADER && frame[PROTOCOL..HEADER] == IPV4;
    if has_sum {
        let byte = HEADER + random.below(frame.len() - HEADER);
        frame[byte] ^= 1 << random.below(8);
    }
    has_sum
}
