//! Links over every installed provider: order, both directions, full receivers, wrong packets,
//! reads.

#![allow(clippy::unwrap_used)]

mod support;

use std::cell::Cell;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hikyaku_nic::fabric::{DropCause, DroppedPackets};
use hikyaku_ofi::link::{Acceptance, Breach, Host, Key, LinkArrival, LinkLayout, Links};
use hikyaku_ofi::{Endpoint, Error, Peer, PostResult, Remote, Survey, library_version};
use support::{PATIENCE, processor_time, survey, usable, with_other_releases};

const LAYOUT: LinkLayout = LinkLayout {
    payload: 4096,
    pool: 1 << 15,
    window: 1 << 16,
    windows: 1 << 20,
    most: 1 << 16,
    budget: 0,
    lanes: 2,
};

const KEY: Key = *b"sixteen bytes of";

fn dropped(links: &Links) -> u32 {
    links.drops().strange + links.drops().wrong
}

/// Hosts of a job in one process, all linked with each other.
struct Job {
    hosts: Vec<Links>,
    name: String,
}

impl Job {
    fn open(survey: &Survey, offer: usize, hosts: Host) -> Result<Self, Error> {
        Self::open_with(survey, offer, hosts, LAYOUT)
    }

    fn open_with(
        survey: &Survey,
        offer: usize,
        hosts: Host,
        layout: LinkLayout,
    ) -> Result<Self, Error> {
        let name = survey.offers()[offer].provider.clone();
        let links = |own| Links::open(survey, offer, (own, hosts, hosts as usize - 1), layout, KEY);
        let mut job = Self { hosts: (0..hosts).map(links).collect::<Result<_, _>>()?, name };
        let addresses: Vec<_> = job.hosts.iter().map(|links| links.address().to_vec()).collect();
        for (own, links) in job.hosts.iter_mut().enumerate() {
            for (host, address) in addresses.iter().enumerate().filter(|(host, _)| *host != own) {
                links.connect(host as Host, address)?;
            }
        }
        Ok(job)
    }

    /// Lets all hosts make progress once; `land` gets the host and the arrival.
    fn progress(&mut self, mut land: impl FnMut(usize, LinkArrival<'_>) -> Acceptance) {
        for (host, links) in self.hosts.iter_mut().enumerate() {
            links.progress(|arrival| land(host, arrival)).unwrap();
        }
    }
}

/// Runs `body` with a job of `hosts` on each usable provider.
fn each(hosts: Host, body: impl Fn(Job)) {
    each_with(hosts, LAYOUT, body);
}

/// The same with this layout of links.
fn each_with(hosts: Host, layout: LinkLayout, body: impl Fn(Job)) {
    let Some(survey) = survey() else { return };
    for (provider, offer) in usable(&survey) {
        match Job::open_with(&survey, offer, hosts, layout) {
            Ok(job) => {
                eprintln!("with {provider}");
                body(job);
            }
            Err(error) => eprintln!("skipped: {provider}: {error}"),
        }
    }
}

/// The payload of a packet with this number.
fn payload(number: usize) -> Vec<u8> {
    let length = 4 + (number * 131) % (LAYOUT.payload - 3);
    let mut bytes = vec![number as u8; length];
    bytes[..4].copy_from_slice(&(number as u32).to_le_bytes());
    bytes
}

/// Checks that a packet is the next one.
fn check(name: &str, next: &mut usize, bytes: &[u8]) {
    assert!(bytes == payload(*next), "{name}: packet {next} is another");
    *next += 1;
}

#[test]
fn packets_arrive_in_order_in_both_directions() {
    each(2, |mut job| {
        const PACKETS: usize = 500;
        let (mut sent, mut received, start) = ([0; 2], [0; 2], Instant::now());
        while received != [PACKETS; 2] {
            for host in [0, 1] {
                while sent[host] < PACKETS {
                    let bytes = payload(sent[host]);
                    let (head, rest) = bytes.split_at(3);
                    let posted = job.hosts[host].send(1 - host as Host, 0, &[head, rest]).unwrap();
                    if posted == PostResult::Full {
                        break;
                    }
                    sent[host] += 1;
                }
            }
            let name = job.name.clone();
            job.progress(|host, arrival| {
                let LinkArrival::Packet { source, payload, .. } = arrival else {
                    panic!("{arrival:?}")
                };
                assert_eq!(source, 1 - host as Host, "{name}");
                check(&name, &mut received[host], payload);
                Acceptance::Taken
            });
            assert!(start.elapsed() < PATIENCE, "{name}: {sent:?} sent, {received:?} came");
        }
        for links in &job.hosts {
            assert_eq!(dropped(links), 0, "{}", job.name);
        }
    });
}

#[test]
fn a_full_receiver_stops_its_sender_and_no_other() {
    each(3, |mut job| {
        // Host 0 takes nothing from host 1, and everything from host 2.
        let (mut sent, mut from_two, start) = ([0; 3], 0, Instant::now());
        let mut quiet = 0;
        while from_two < 100 || quiet < 200 {
            quiet += 1;
            for host in [1, 2] {
                let wanted = if host == 1 { usize::MAX } else { 100 };
                if sent[host] < wanted
                    && job.hosts[host].send(0, 1, &[&payload(sent[host])]).unwrap()
                        == PostResult::Accepted
                {
                    (sent[host], quiet) = (sent[host] + 1, 0);
                }
            }
            let name = job.name.clone();
            job.progress(|_, arrival| match arrival {
                LinkArrival::Packet { source: 2, payload, .. } => {
                    check(&name, &mut from_two, payload);
                    Acceptance::Taken
                }
                _ => Acceptance::Full,
            });
            assert!(start.elapsed() < PATIENCE, "{name}: {sent:?} sent, {from_two} came");
        }
        let unread = job.hosts[0].unread(1, 1);
        assert!(unread <= LAYOUT.window, "{}: {unread} bytes", job.name);
        assert!(unread > LAYOUT.window / 2, "{}: {unread} bytes", job.name);

        // With room again everything arrives, in order, and the sender continues.
        let (mut from_one, before) = (0, sent[1]);
        while from_one < before + 50 {
            if job.hosts[1].send(0, 1, &[&payload(sent[1])]).unwrap() == PostResult::Accepted {
                sent[1] += 1;
            }
            let name = job.name.clone();
            job.progress(|_, arrival| {
                let LinkArrival::Packet { source: 1, payload, .. } = arrival else {
                    panic!("{arrival:?}")
                };
                check(&name, &mut from_one, payload);
                Acceptance::Taken
            });
            assert!(start.elapsed() < 2 * PATIENCE, "{name}: {from_one} of {before} came");
        }
    });
}

#[test]
fn a_lane_does_not_wait_for_another() {
    each(2, |mut job| {
        // Lane 1 is full until lane 0, whose packets are sent later, has delivered them.
        let (mut came, mut full, mut sent) = ([0; 2], false, [0; 2]);
        let start = Instant::now();
        while came[1] < 30 {
            let links = &mut job.hosts[0];
            let lane = u8::from(!full);
            let posted = links.send(1, lane, &[&payload(sent[usize::from(lane)])]).unwrap();
            if posted == PostResult::Accepted {
                sent[usize::from(lane)] += 1;
            }
            let name = job.name.clone();
            job.progress(|_, arrival| {
                let LinkArrival::Packet { lane, payload, .. } = arrival else {
                    panic!("{arrival:?}")
                };
                if lane == 1 && came[0] < 100 {
                    full = true;
                    return Acceptance::Full;
                }
                check(&name, &mut came[usize::from(lane)], payload);
                Acceptance::Taken
            });
            full &= came[0] < 100;
            assert!(start.elapsed() < PATIENCE, "{name}: {sent:?} sent, {came:?} came");
        }
    });
}

#[test]
fn large_data_is_read_by_its_receiver() {
    each(2, |mut job| {
        const LENGTH: usize = 3 << 20;
        if job.name == "shm" && library_version().unwrap().0 >= 2 {
            // Between processes it can read; `hikyaku fabric test` does.
            eprintln!("skipped: shm of 2.5.1 crashes if reader and owner are one process");
            return;
        }
        let from = job.hosts[0].region(LENGTH).unwrap();
        let into = job.hosts[1].region(LENGTH).unwrap();
        let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
        from.copy_in(0, &bytes);
        let offer = from.remote().to_bytes();
        let (mut remote, mut done, mut posted) = (None, false, PostResult::Full);
        let (mut offered, start) = (PostResult::Full, Instant::now());
        while !done {
            if offered == PostResult::Full {
                offered = job.hosts[0].send(1, 0, &[&offer]).unwrap();
            }
            if let (Some(remote), PostResult::Full) = (remote, posted) {
                posted = job.hosts[1].fetch(0, remote, (&into, 0, LENGTH), 77).unwrap();
            }
            job.progress(|host, arrival| {
                match arrival {
                    LinkArrival::Packet { payload, .. } => {
                        remote = Some(Remote::from_bytes(payload.try_into().unwrap()));
                    }
                    LinkArrival::Fetched { token, error } => {
                        assert_eq!((host, token, error), (1, 77, None));
                        done = true;
                    }
                }
                Acceptance::Taken
            });
            assert!(start.elapsed() < PATIENCE, "{}: not read", job.name);
        }
        let mut read = vec![0; LENGTH];
        into.copy_out(0, &mut read);
        assert!(read == bytes, "{}: other bytes", job.name);
    });
}

/// Runs `body` with a job of two hosts on each provider that lends memory, both as it is and where
/// it chooses keys and uses addresses as device providers do. rxm follows the provider below it,
/// which does not.
fn each_that_lends(body: impl Fn(Job, bool)) {
    for as_devices in [false, true] {
        let Some(mut survey) = survey() else { return };
        let usable = usable(&survey);
        if as_devices {
            survey.register_as_devices();
        }
        for (provider, offer) in usable {
            let Ok(job) = Job::open(&survey, offer, 2) else { continue };
            let is_layer = provider.ends_with("ofi_rxm");
            let lends = is_layer || ["tcp", "net"].contains(&&*provider);
            assert_eq!(job.hosts[0].lends(), lends, "{provider}");
            if lends && !(as_devices && is_layer) {
                eprintln!("with {provider}{}", if as_devices { ", as a device" } else { "" });
                body(job, as_devices);
            }
        }
    }
}

#[test]
fn memory_of_the_program_is_lent_until_it_is_taken_back() {
    each_that_lends(|mut job, as_devices| {
        const LENGTH: usize = 1 << 20;
        let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 241) as u8).collect();
        let into = job.hosts[1].region(LENGTH).unwrap();
        for name in [1, 2, u64::MAX >> 1] {
            let lent = job.hosts[0].lend(name, &bytes).unwrap();
            let Remote { address, key } = lent.remote();
            let (start, again) = (bytes.as_ptr().addr() as u64, job.hosts[0].lend(name, &bytes));
            assert_eq!(address, if as_devices { start } else { 0 }, "{}", job.name);
            // The name is in use if keys are made of it.
            assert_eq!(again.is_ok(), as_devices, "{}", job.name);
            drop(again);
            let remote = Remote { address: address + 70_000, key };
            into.copy_in(0, &vec![0; LENGTH]);
            let (mut done, mut posted, start) = (false, PostResult::Full, Instant::now());
            while !done {
                if posted == PostResult::Full {
                    let part = (&into, 5, LENGTH - 70_000);
                    posted = job.hosts[1].fetch(0, remote, part, 9).unwrap();
                }
                job.progress(|host, arrival| {
                    assert_eq!(
                        (host, arrival),
                        (1, LinkArrival::Fetched { token: 9, error: None })
                    );
                    done = true;
                    Acceptance::Taken
                });
                assert!(start.elapsed() < PATIENCE, "{}: not read", job.name);
            }
            let mut read = vec![0; LENGTH - 70_000];
            into.copy_out(5, &mut read);
            assert!(read == bytes[70_000..], "{}: other bytes", job.name);
            drop(lent);
            // The name is free again, for other memory.
            assert!(job.hosts[0].lend(name, &bytes[..1]).is_ok());
        }
    });
}

/// The offer that the other process of a test uses, and the address of the first process.
const OTHER: &str = "HIKYAKU_TEST_LINK";

/// Packets that each of two processes sends, and bytes of the region of the first.
const EACH: usize = 300;
const REGION: usize = 1 << 20;

/// One of two processes with a link between them.
fn process(own: Host, offer: usize) -> Links {
    Links::open(&survey().unwrap(), offer, (own, 2, 1), LAYOUT, KEY).unwrap()
}

/// Sends the packets of `next` and delivers arrivals until done.
fn until(
    links: &mut Links,
    mut next: impl FnMut(&mut Links),
    mut land: impl FnMut(LinkArrival<'_>),
    done: &Cell<bool>,
) {
    let start = Instant::now();
    while !done.get() {
        next(links);
        let came = links.progress(|arrival| {
            land(arrival);
            Acceptance::Taken
        });
        if !came.unwrap() {
            links.wait(Duration::from_millis(5)).unwrap();
        }
        assert!(start.elapsed() < PATIENCE, "the other process is silent");
    }
}

/// The other process: sends packets, reads the region that its peer's last packet announces,
/// reports that, and ends when its peer has confirmed.
fn other_process(words: &str) {
    let (offer, address) = words.split_once(' ').unwrap();
    let mut links = process(1, offer.parse().unwrap());
    links.connect(0, &from_hex(address)).unwrap();
    println!("address {}", to_hex(links.address()));
    let into = links.region(REGION).unwrap();
    let (mut sent, mut came, mut posted) = (0, 0, PostResult::Full);
    let (remote, fetched, done) = (Cell::new(None), Cell::new(false), Cell::new(false));
    let next = |links: &mut Links| {
        if sent < EACH {
            sent += usize::from(links.send(0, 1, &[&payload(sent)]) == Ok(PostResult::Accepted));
        } else if sent == EACH && fetched.get() {
            sent += usize::from(links.send(0, 1, &[b"read"]) == Ok(PostResult::Accepted));
        }
        if let (Some(remote), PostResult::Full) = (remote.get(), posted) {
            posted = links.fetch(0, remote, (&into, 0, REGION), 5).unwrap();
        }
    };
    let land = |arrival: LinkArrival<'_>| match arrival {
        LinkArrival::Packet { payload: b"end", .. } => done.set(true),
        LinkArrival::Packet { payload, .. } if came == EACH => {
            remote.set(Some(Remote::from_bytes(payload.try_into().unwrap())));
        }
        LinkArrival::Packet { payload, .. } => check("the other process", &mut came, payload),
        LinkArrival::Fetched { .. } => fetched.set(true),
    };
    until(&mut links, next, land, &done);
    let mut read = vec![0; REGION];
    into.copy_out(0, &mut read);
    assert!(read.iter().all(|byte| *byte == 0x5a), "other bytes were read");
}

#[test]
fn two_processes_exchange_packets_and_a_region() {
    if let Ok(words) = env::var(OTHER) {
        return other_process(&words);
    }
    let Some(survey) = survey() else { return };
    for (provider, offer) in usable(&survey) {
        eprintln!("with {provider}");
        let mut links = process(0, offer);
        let mut other = Command::new(env::current_exe().unwrap())
            .args(["--exact", "two_processes_exchange_packets_and_a_region", "--nocapture"])
            .env(OTHER, format!("{offer} {}", to_hex(links.address())))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Open until the end: the other process writes the result of its test there.
        let mut said = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = said.find_map(|line| {
            line.split_once("address ").map(|(_, address)| from_hex(address.trim()))
        });
        links.connect(1, &address.unwrap()).unwrap();
        let from = links.region(REGION).unwrap();
        from.copy_in(0, &[0x5a; REGION]);
        let remote = from.remote().to_bytes();
        let (mut sent, mut came, read) = (0, 0, Cell::new(false));
        let ended = Cell::new(false);
        let next = |links: &mut Links| {
            let packet = match sent {
                0..EACH => payload(sent),
                EACH => remote.to_vec(),
                _ if sent == EACH + 1 && read.get() => b"end".to_vec(),
                _ => return,
            };
            sent += usize::from(links.send(1, 1, &[&packet]) == Ok(PostResult::Accepted));
            ended.set(sent == EACH + 2);
        };
        let land = |arrival: LinkArrival<'_>| match arrival {
            LinkArrival::Packet { payload: b"read", .. } => read.set(true),
            LinkArrival::Packet { payload, .. } => check(&provider, &mut came, payload),
            LinkArrival::Fetched { .. } => panic!("{provider}: nothing is read here"),
        };
        until(&mut links, next, land, &ended);
        // Some providers make progress only within calls: poll until the other has the last packet.
        let start = Instant::now();
        while other.try_wait().unwrap().is_none() {
            links.progress(|arrival| panic!("{provider}: {arrival:?}")).unwrap();
            links.wait(Duration::from_millis(5)).unwrap();
            assert!(start.elapsed() < PATIENCE, "{provider}: the other process does not end");
        }
        assert!(other.wait().unwrap().success(), "{provider}");
        assert_eq!(dropped(&links), 0, "{provider}");
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Sends raw bytes, as an endpoint that is not a host of the job.
fn send_raw(stranger: &mut Endpoint, to: Peer, bytes: &[u8], job: &mut Job) {
    let start = Instant::now();
    while stranger.inject(to, bytes).unwrap() == PostResult::Full {
        stranger.poll().unwrap();
        job.progress(|_, arrival| panic!("{arrival:?}"));
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn packets_that_cannot_be_are_counted_and_not_landed() {
    let Some(survey) = survey() else { return };
    for (provider, offer) in usable(&survey) {
        let Ok(mut job) = Job::open(&survey, offer, 2) else { continue };
        let mut stranger = Endpoint::open(&survey, offer, 1, LAYOUT.buffer_bytes()).unwrap();
        let victim = stranger.insert(job.hosts[0].address()).unwrap();
        let packet = |[kind, form, lane, source]: [u8; 4], number: u8, key: &Key| {
            let words = [source.into(), number.into(), 0, 0];
            let words = words.map(u32::to_le_bytes).concat();
            [&[kind * 16 + lane, form, 0, 0][..], &words, key].concat()
        };
        let wrong = [
            b"short".to_vec(),
            packet([1, 3, 0, 1], 0, &KEY),
            packet([1, 4, 0, 0], 0, &KEY),
            packet([1, 4, 0, 99], 0, &KEY),
            packet([1, 4, 2, 1], 0, &KEY),
            packet([1, 4, 0, 1], 0, b"another secret.."),
            // With host 1 as its source and an unexpected number. After that nothing more is taken.
            packet([1, 4, 0, 1], 5, &KEY),
            packet([1, 4, 0, 1], 0, &KEY),
            packet([1, 4, 1, 1], 0, &KEY),
        ];
        for bytes in &wrong {
            send_raw(&mut stranger, victim, bytes, &mut job);
        }
        let start = Instant::now();
        while dropped(&job.hosts[0]) < wrong.len() as u32 {
            job.progress(|_, arrival| panic!("{provider}: {arrival:?}"));
            stranger.poll().unwrap();
            assert!(start.elapsed() < PATIENCE, "{provider}: {}", dropped(&job.hosts[0]));
        }
        let drops = DroppedPackets { strange: 3, wrong: 6, last: Some((1, DropCause::Number)) };
        assert_eq!(job.hosts[0].drops(), drops, "{provider}");
        assert_eq!(job.hosts[0].take_broken(), Some((1, Breach::Impossible)), "{provider}");
        assert!(job.hosts[0].is_broken(1) && !job.hosts[1].is_broken(0), "{provider}");
    }
}

#[test]
fn idle_links_sleep_and_wake_for_a_packet() {
    each(2, |mut job| {
        let (mut sent, mut came, start) = (PostResult::Full, 0, Instant::now());
        let [first, second] = &mut job.hosts[..] else { panic!() };
        while came == 0 {
            if sent == PostResult::Full {
                sent = first.send(1, 0, &[b"first"]).unwrap();
            }
            first.progress(|_| Acceptance::Taken).unwrap();
            second
                .progress(|_| {
                    came += 1;
                    Acceptance::Taken
                })
                .unwrap();
            assert!(start.elapsed() < PATIENCE, "{}", job.name);
        }
        let (start, before) = (Instant::now(), processor_time());
        while start.elapsed() < Duration::from_millis(300) {
            second.progress(|arrival| panic!("{arrival:?}")).unwrap();
            second.wait(Duration::from_millis(300).saturating_sub(start.elapsed())).unwrap();
        }
        let used = processor_time() - before;
        assert!(used < start.elapsed() / 2, "{}: {used:?} while idle", job.name);

        let start = Instant::now();
        while first.send(1, 0, &[b"second"]).unwrap() == PostResult::Full {
            first.progress(|_| Acceptance::Taken).unwrap();
        }
        while came == 1 {
            second.wait(Duration::from_secs(5)).unwrap();
            first.progress(|_| Acceptance::Taken).unwrap();
            second
                .progress(|arrival| {
                    assert_eq!(
                        arrival,
                        LinkArrival::Packet { source: 0, lane: 0, payload: b"second" }
                    );
                    came += 1;
                    Acceptance::Taken
                })
                .unwrap();
            assert!(start.elapsed() < PATIENCE, "{}", job.name);
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_in_one_line() {
    each(2, |mut job| {
        let links = &mut job.hosts[0];
        let long = vec![0; LAYOUT.payload + 1];
        for (what, error) in [
            ("4097", links.send(1, 0, &[&long]).unwrap_err()),
            ("host 0", links.send(0, 0, &[b"to itself"]).unwrap_err()),
            ("host 7", links.send(7, 0, &[b"to nobody"]).unwrap_err()),
            ("lane 2", links.send(1, 2, &[b"on no lane"]).unwrap_err()),
            ("host 7", links.connect(7, b"x").unwrap_err()),
        ] {
            let line = error.to_string();
            assert!(line.contains(what) && line.lines().count() == 1, "{line}");
        }
        let Some(survey) = survey() else { return };
        let offer = usable(&survey)[&job.name];
        let small = LinkLayout { window: 4096, most: 8000, ..LAYOUT };
        let error = Links::open(&survey, offer, (0, 2, 1), small, KEY).err().unwrap().to_string();
        assert!(error.contains("two must fit"), "{error}");
    });
}

#[test]
fn a_window_grows_for_a_source_that_sends_much_within_the_budget() {
    let Some(survey) = survey() else { return };
    let layout =
        LinkLayout { payload: 16 << 10, window: 4096, budget: 60 << 10, lanes: 1, ..LAYOUT };
    for (provider, offer) in usable(&survey) {
        let open = |own| Links::open(&survey, offer, (own, 3, 2), layout, KEY);
        let Ok(mut hosts) = (0..3).map(open).collect::<Result<Vec<_>, _>>() else { continue };
        let addresses: Vec<_> = hosts.iter().map(|links| links.address().to_vec()).collect();
        // A source may send before its address is known here.
        hosts[1].connect(0, &addresses[0]).unwrap();
        hosts[2].connect(0, &addresses[0]).unwrap();
        let (mut sent, mut came, start) = ([0; 3], [0; 3], Instant::now());
        while came[1] < 1_000_000 || came[2] < 100_000 {
            for from in [1, 2] {
                let longest = hosts[from].longest(0, 0);
                if hosts[from].send(0, 0, &[&vec![from as u8; longest]]).unwrap()
                    == PostResult::Accepted
                {
                    sent[from] += longest;
                }
                hosts[from].progress(|arrival| panic!("{arrival:?}")).unwrap();
            }
            let landed = hosts[0].progress(|arrival| {
                let LinkArrival::Packet { source, payload, .. } = arrival else { panic!() };
                assert!(payload.iter().all(|byte| u32::from(*byte) == source));
                came[source as usize] += payload.len();
                Acceptance::Taken
            });
            landed.unwrap();
            if came[1] > 0 && came[2] > 0 && !hosts[0].is_connected(1) {
                hosts[0].connect(1, &addresses[1]).unwrap();
                hosts[0].connect(2, &addresses[2]).unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "{provider}: {came:?} came");
        }
        let grown = [1, 2].map(|source| hosts[0].window(source, 0));
        assert!(grown.iter().any(|window| *window > 4096), "{provider}: {grown:?}");
        let all: u32 = grown.iter().map(|window| window - 4096).sum();
        assert!(all as usize <= layout.budget, "{provider}: {grown:?}");
    }
}

/// Windows for three sources on a lane, and a pool for the first packets of two more.
const CROWDED: LinkLayout = LinkLayout { window: 4096, windows: 3 * 4096, pool: 4096, ..LAYOUT };

#[test]
fn many_that_send_at_once_to_one_that_is_full_all_arrive_in_order() {
    const SOURCES: Host = 24;
    const PACKETS: usize = 12;
    each_with(SOURCES + 1, CROWDED, |mut job| {
        let mut sent = [0; SOURCES as usize + 1];
        let (mut came, mut room, mut quiet) = (sent, false, 0);
        let start = Instant::now();
        while came[1..].iter().any(|came| *came < PACKETS) {
            quiet += 1;
            for (links, sent) in job.hosts.iter_mut().zip(&mut sent).skip(1) {
                let mut bytes = payload(*sent);
                // The first ones are long: the pool has room for two.
                bytes.resize(1904 - bytes.len() % 1900, *sent as u8);
                if *sent < PACKETS && links.send(0, 1, &[&bytes]).unwrap() == PostResult::Accepted {
                    (*sent, quiet) = (*sent + 1, 0);
                }
            }
            let name = job.name.clone();
            job.progress(|host, arrival| {
                let LinkArrival::Packet { source, lane: 1, payload } = arrival else {
                    panic!("{name}: {arrival:?}")
                };
                assert_eq!(host, 0, "{name}");
                if !room {
                    return Acceptance::Full;
                }
                let next = &mut came[source as usize];
                assert_eq!(payload[..4], (*next as u32).to_le_bytes(), "{name}: of {source}");
                *next += 1;
                Acceptance::Taken
            });
            let links = &job.hosts[0];
            if !room {
                // Windows of three sources, and no more than the pool for the others.
                let unread: Vec<u32> =
                    (1..=SOURCES).map(|source| links.unread(source, 1)).collect();
                let windows = (1..=SOURCES).filter(|source| links.window(*source, 1) > 0).count();
                assert!(windows <= 3, "{name}: {windows} windows");
                let all: u32 = unread.iter().sum();
                assert!(all <= 4 * 4096, "{name}: {all} bytes are held: {unread:?}");
                room = quiet > 300 && sent[1..].iter().all(|sent| *sent > 0);
            }
            assert!(start.elapsed() < 2 * PATIENCE, "{name}: {sent:?} sent, {came:?} came");
        }
        assert!(job.hosts.iter().all(|links| dropped(links) == 0), "{}", job.name);
    });
}

#[test]
fn who_dies_before_it_has_a_window_holds_up_nobody() {
    const SOURCES: Host = 12;
    each_with(SOURCES + 1, LinkLayout { windows: 0, ..CROWDED }, |mut job| {
        let (mut sent, start) = ([false; SOURCES as usize + 1], Instant::now());
        let mut rounds = 0;
        while rounds < 300 {
            for source in 1..=SOURCES {
                let sent = &mut sent[source as usize];
                *sent = *sent
                    || job.hosts[source as usize].send(0, 0, &[&[source as u8; 1900]]).unwrap()
                        == PostResult::Accepted;
            }
            job.progress(|_, _| Acceptance::Full);
            rounds += usize::from(sent[1..].iter().all(|sent| *sent));
            assert!(start.elapsed() < PATIENCE, "{}: {sent:?}", job.name);
        }
        // Two have their packets in the pool, ten were refused. All but the last three die.
        let living = SOURCES - 2..=SOURCES;
        for host in (1..=SOURCES).filter(|host| !living.contains(host)) {
            job.hosts[0].break_link(host, Breach::Local);
        }
        let mut came = Vec::new();
        while came.len() < 3 {
            let name = job.name.clone();
            for host in living.clone().map(|host| host as usize).chain([0]) {
                let landed = job.hosts[host].progress(|arrival| {
                    let LinkArrival::Packet { source, payload, .. } = arrival else { panic!() };
                    assert!(payload.iter().all(|byte| u32::from(*byte) == source), "{name}");
                    came.push(source);
                    Acceptance::Taken
                });
                landed.unwrap();
            }
            assert!(start.elapsed() < 2 * PATIENCE, "{name}: {came:?}");
        }
        came.sort_unstable();
        assert_eq!(came, Vec::from_iter(living), "{}", job.name);
        assert_eq!(dropped(&job.hosts[0]), 0, "{}", job.name);
    });
}

#[test]
fn receive_memory_follows_those_who_send() {
    let layout =
        LinkLayout { payload: 4096, pool: 1 << 15, window: 4096, windows: 1 << 20, ..LAYOUT };
    each_with(10, layout, |mut job| {
        let quiet = job.hosts[0].buffer_bytes();
        assert_eq!(quiet, layout.bytes((10, 9), 0).buffers, "{}", job.name);
        let (mut sent, mut came, start) = ([false; 10], 0, Instant::now());
        while came < 9 {
            for (links, sent) in job.hosts.iter_mut().zip(&mut sent).skip(1) {
                *sent = *sent || links.send(0, 0, &[b"first"]).unwrap() == PostResult::Accepted;
            }
            job.progress(|_, _| {
                came += 1;
                Acceptance::Taken
            });
            assert!(start.elapsed() < PATIENCE, "{}: {came} came", job.name);
        }
        let windows = (0..2).map(|lane| (1..10).map(|host| job.hosts[0].window(host, lane)).sum());
        assert_eq!(windows.collect::<Vec<u32>>(), [9 * 4096, 0], "{}", job.name);
        assert!(job.hosts[0].buffer_bytes() <= layout.bytes((10, 9), 9).buffers, "{}", job.name);
        // A host that has only sent has no memory for arrivals.
        assert_eq!(job.hosts[1].buffer_bytes(), quiet, "{}", job.name);
    });
}

/// The same binary runs with other releases.
#[test]
fn other_releases_pass_the_same_tests() {
    with_other_releases();
}
