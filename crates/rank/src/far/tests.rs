//! Tests with many ranks on other hosts: memory and connections.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hikyaku_coll::Choices;
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{
    Atomic, AtomicOp, Integer, MailEnd, MailboxPort, MemoryPort, RemoteAddress, RingPort, Space,
};
use hikyaku_ofi::Endpoint;
use hikyaku_ofi::link::Acceptance;
use hikyaku_shm::{Hosts, Job, JobConfig, exchange_cards, open_hosts};

use super::*;
use crate::communicator::Communicator;
use crate::port::RankPort;

const PATIENCE: Duration = Duration::from_secs(60);

/// The provider that would be used here, or prints why none can be.
fn survey() -> Option<(Survey, usize)> {
    let chosen = Survey::take().and_then(|survey| {
        let request = ProviderRequest::default();
        let offer = choose(survey.offers(), &request).offer(survey.offers(), &request)?;
        Ok((survey, offer))
    });
    chosen.inspect_err(|error| eprintln!("skipped: {error}")).ok()
}

/// The bytes that this process has allocated.
fn memory() -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// As many endpoints as in a job of 1,000 hosts with one rank each, all in this process. Each sends
/// a message to the first and to the next.
#[test]
fn a_thousand_endpoints_take_the_memory_that_is_said() {
    const ALL: u32 = 1000;
    /// The memory that a provider may use in addition for an endpoint, and for its end of a
    /// connection.
    const PROVIDER: [usize; 2] = [1 << 20, 256 << 10];
    let Some((survey, offer)) = survey() else { return };
    let others = ALL as usize - 1;
    let said = |partners| FarMemory::of(ALL as usize, others, partners);
    let before = memory();
    let open = |own| Links::open(&survey, offer, (own, ALL, others), LAYOUT, [7; 16]).unwrap();
    let mut all: Vec<Links> = (0..ALL).map(open).collect();
    let idle = (memory() - before) / ALL as usize;
    assert!(all.iter().all(|links| links.buffer_bytes() == said(0).buffers));
    let least = said(0).buffers + said(0).sends_and_fetches;
    assert!((least..least + PROVIDER[0]).contains(&idle), "{idle} bytes each, said {least}");

    let addresses: Vec<Vec<u8>> = all.iter().map(|links| links.address().to_vec()).collect();
    let mut unsent: Vec<(u32, u32)> = (1..ALL).map(|own| (own, 0)).collect();
    unsent.extend((0..ALL - 1).map(|own| (own, own + 1)));
    let (mut unread, start) = (unsent.len(), Instant::now());
    let connections = 2 * unsent.len();
    for (own, to) in &unsent {
        all[*own as usize].connect(*to, &addresses[*to as usize]).unwrap();
    }
    while unread > 0 {
        unsent.retain(|(own, to)| {
            all[*own as usize].send(*to, SENDS, &[b"hello"]) != Ok(PostResult::Accepted)
        });
        for links in &mut all {
            let landed = links.progress(|_| {
                unread -= 1;
                Acceptance::Taken
            });
            landed.unwrap();
        }
        assert!(start.elapsed() < PATIENCE, "{unread} wait");
    }
    // The first has a window for each, and the others for the two that have sent them something.
    let window = LAYOUT.window as usize;
    assert!((1..ALL).all(|source| all[0].window(source, SENDS) == LAYOUT.window));
    let used = all[0].buffer_bytes();
    assert!(used >= others * window && used <= said(others).buffers, "{used} bytes");
    assert!(all[1..].iter().all(|links| links.buffer_bytes() <= said(2).buffers));
    let busy = memory() - before - ALL as usize * idle;
    let most = said(others).total() + ALL as usize * (said(2).ranks + window);
    assert!(busy <= most + connections * PROVIDER[1], "{busy} bytes more, said {most}");
    let provider = &survey.offers()[offer].provider;
    eprintln!("{provider}: {idle} bytes an endpoint, of which {least} are ours");
    let each = busy.saturating_sub(used - said(0).buffers) / connections;
    eprintln!("and {each} for an end of a connection");
}

/// Bytes of a rank's memory on its near side for a rank on another host that has sent it something:
/// an entry of the port and of each table of the engine, and a page each for its lines.
const NEAR_PARTNER: usize = 9 << 10;

/// The table of docs/cluster.md: memory of a rank by the hosts of its job, with 64 ranks each, and
/// by the number of ranks on other hosts with which it has communicated.
#[test]
fn a_rank_of_640_000_takes_200_mib_at_most() {
    const HERE: u32 = 64;
    let mib = |bytes: usize| bytes.div_ceil(1 << 20);
    let mut table = String::new();
    for (hosts, partners) in
        [(2, 64), (16, 100), (160, 100), (160, 4000), (10_000, 0), (10_000, 100), (10_000, 4000)]
    {
        let ranks = hosts * HERE;
        let of = (0..ranks).map(|rank| rank / HERE).collect();
        let names = (0..hosts).map(|host| format_args!("host{host}").into()).collect();
        let hosts_of = Hosts { own: 0, of, names, key: [0; 16], tells_ends: true, beside: 0 };
        let job = JobConfig::new(ranks, ranks).across(hosts_of).bytes().unwrap();
        let near = job as usize / HERE as usize + partners * NEAR_PARTNER;
        let (ranks, far) = (ranks as usize, (ranks - HERE) as usize);
        let far = FarMemory::of(ranks, far, partners).total();
        let row = [mib(near), mib(far), mib(near + far)];
        assert!(row[2] <= 200, "{hosts} hosts, {partners} partners: {row:?} MiB");
        let [near, far, all] = row;
        table += &format!("| {hosts} x {HERE} | {ranks} | {partners} | {near} | {far} | {all} |\n");
    }
    let text = include_str!("../../../../docs/cluster.md");
    assert!(text.contains(&table), "the table in docs/cluster.md is another:\n{table}");
}

/// Both sides of all ranks of a job, on the hosts in `of`. `None`, with a message: there is no
/// libfabric.
fn opened(config: &JobConfig, of: &[u32]) -> Option<(Vec<Job>, Vec<NearPort>, Vec<Far>)> {
    let (jobs, ports) = open_hosts(config, of, [7; 16]).unwrap();
    let mut fars = Vec::new();
    for port in &ports {
        match Far::open(port) {
            Ok(far) => fars.push(far.unwrap()),
            Err(error @ Error::NotInstalled { .. }) => {
                eprintln!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        }
    }
    exchange_cards(&jobs);
    Some((jobs, ports, fars))
}

/// Only the ranks with which a rank has communicated know it: the launcher notifies the others.
#[test]
fn leaving_takes_connections_to_those_who_were_spoken_to() {
    let of = [0, 1, 2, 3, 3];
    let tells_ends = Hosts {
        own: 0,
        of: Vec::new(),
        names: Vec::new(),
        key: [0; 16],
        tells_ends: true,
        beside: 0,
    };
    let told = JobConfig { hosts: Some(tells_ends), ..JobConfig::new(5, 5) };
    for (config, kept, alone, met) in [
        (&told, false, vec![], vec![3]),
        (&JobConfig::new(5, 5), false, vec![1, 2, 3, 4], vec![1, 2, 3, 4]),
        (&told, true, vec![1, 2, 3, 4], vec![1, 2, 3, 4]),
    ] {
        let Some((jobs, mut ports, mut fars)) = opened(config, &of) else { return };
        let far = &mut fars[0];
        if kept {
            far.keep(0);
        }
        assert_eq!(far.to_be_told(&ports[0]), alone);
        // A connection needs both sides.
        let (hello, start) = (Command::send(3, 1, 0, b"hello"), Instant::now());
        while fars[0].send(&ports[0], &hello).is_err() {
            fars.iter_mut().zip(&mut ports).for_each(|(far, port)| _ = far.progress(port));
            assert!(start.elapsed() < PATIENCE);
        }
        let far = &fars[0];
        assert_eq!(far.to_be_told(&ports[0]), met);
        // A rank with contact is notified by the rank itself, and answers.
        std::thread::scope(|scope| {
            let [first, others @ ..] = &mut fars[..] else { panic!() };
            let [own, ports @ ..] = &mut ports[..] else { panic!() };
            let leaves = scope.spawn(|| first.leave(own));
            while !leaves.is_finished() {
                for (far, port) in others.iter_mut().zip(&mut *ports) {
                    far.progress(port);
                    if kept && far.state.peers.is_gone(0) {
                        // A rank that has left uses no memory any more.
                        jobs[0].mark_left(far.own);
                    }
                }
                assert!(start.elapsed() < PATIENCE);
            }
        });
        for far in &fars[1..] {
            let knows = far.state.peers.get(0).is_some_and(|peer| peer.left.is_some());
            assert_eq!(knows, met.contains(&far.own), "rank {}", far.own);
            assert_eq!(far.links.is_connected(0), met.contains(&far.own), "rank {}", far.own);
        }
    }
}

/// A rank that has left frees its windows for others: on the lane of its last message at once, on
/// the other one when its process has ended.
#[test]
fn windows_of_ranks_that_have_left_are_given_back() {
    let hosts =
        Hosts { own: 0, of: vec![], names: vec![], key: [0; 16], tells_ends: true, beside: 0 };
    let config = JobConfig { hosts: Some(hosts), ..JobConfig::new(2, 2) };
    let Some((jobs, mut ports, mut fars)) = opened(&config, &[0, 1]) else { return };
    let (mut first, mut second) = (fars.remove(0), fars.remove(0));
    let (mut near, mut far) = (ports.remove(0), ports.remove(0));
    let start = Instant::now();
    let windows = |far: &Far| [SENDS, NEEDED].map(|lane| far.links.window(1, lane));
    let passing = Command { passes: true, ..Command::send(0, 1, 0, b"hello") };
    for command in [Command::send(0, 1, 0, b"hello"), passing] {
        while second.send(&far, &command).is_err() {
            first.progress(&mut near);
            second.progress(&mut far);
            assert!(start.elapsed() < PATIENCE);
        }
    }
    while windows(&first) != [LAYOUT.window; 2] {
        first.progress(&mut near);
        second.progress(&mut far);
        assert!(start.elapsed() < PATIENCE);
    }
    std::thread::scope(|scope| {
        let leaves = scope.spawn(|| second.leave(&mut far));
        while !leaves.is_finished() {
            first.progress(&mut near);
            assert!(start.elapsed() < PATIENCE);
        }
    });
    assert_eq!(windows(&first), [0, LAYOUT.window]);
    first.before_poll(&mut near);
    assert_eq!(windows(&first), [0, LAYOUT.window], "its process may go on");
    jobs[0].mark_left(1);
    first.before_poll(&mut near);
    assert_eq!(windows(&first), [0, 0]);
    assert!(!first.links.is_broken(1) && first.links.drops() == DroppedPackets::default());
}

/// A letter is one packet with its stamp, from any number of parts, if it fits in one packet.
#[test]
fn a_letter_goes_with_its_stamp() {
    const HEAD: usize = 36 + wire::PUT_HEAD;
    let Some((_jobs, mut ports, mut fars)) = opened(&JobConfig::new(2, 2), &[0, 1]) else { return };
    let (mut writer, mut reader) = (fars.remove(0), fars.remove(0));
    let (mut own, mut near) = (ports.remove(0), ports.remove(0));
    let boxes = [1_000, 8].map(|room| near.open_mailbox(0, room).unwrap());
    let [(long, to), (short, beside)] = boxes;
    let (start, mut sent) = (Instant::now(), 0);
    for round in 1..=4 {
        let byte = round as u8;
        let mut parts = [(0, 300), (300, 1), (301, 99)];
        parts.rotate_left(usize::from(round == 1));
        let [first @ .., (at, last)] = parts;
        for (at, length) in first {
            writer.write_mail(&own, to, (round, at), &vec![byte; length]).unwrap();
        }
        // A letter that another one interrupts is sent by itself.
        let is_interrupted = round % 2 == 0;
        if is_interrupted {
            writer.write_mail(&own, beside, (round, 0), &[byte; 8]).unwrap();
            writer.post_mail(&own, beside, round).unwrap();
        }
        writer.write_mail(&own, to, (round, at), &vec![byte; last]).unwrap();
        writer.post_mail(&own, to, round).unwrap();
        while !near.has_mail(long, round) || is_interrupted && !near.has_mail(short, round) {
            writer.progress(&mut own);
            reader.progress(&mut near);
            assert!(start.elapsed() < PATIENCE);
        }
        let mut letter = [0; 400];
        near.read_mail(long, round, 0, &mut letter).unwrap();
        assert!(letter == [byte; 400], "round {round}");
        let before = std::mem::replace(&mut sent, writer.links.counts(1, NEEDED).sent);
        if round == 3 {
            assert_eq!((sent - before) as usize, HEAD + letter.len());
        }
    }
    // An unfinished letter is not sent: its mailbox's memory may be reused.
    writer.write_mail(&own, to, (5, 0), &[9; 8]).unwrap();
    writer.end_mail(&own, to, MailEnd::Retired { rounds: 4 });
    writer.write_mail(&own, beside, (5, 0), &[5; 8]).unwrap();
    writer.post_mail(&own, beside, 5).unwrap();
    while !near.has_mail(short, 5) {
        writer.progress(&mut own);
        reader.progress(&mut near);
        assert!(start.elapsed() < PATIENCE);
    }
    let mut left = [0; 8];
    near.read_mail(long, 5, 0, &mut left).unwrap();
    assert_ne!(left, [9; 8]);
}

/// Only a message is an event of the near side, which uses events to decide how long to stay awake.
#[test]
fn who_has_got_a_letter_stays_awake_for_the_next() {
    let Some((_jobs, mut ports, mut fars)) = opened(&JobConfig::new(2, 2), &[0, 1]) else { return };
    let (mut writer, mut reader) = (fars.remove(0), fars.remove(0));
    let (mut own, mut near) = (ports.remove(0), ports.remove(0));
    let (mailbox, to) = near.open_mailbox(0, 8).unwrap();
    let start = Instant::now();
    let sleeps = |reader: &mut Far, near: &mut NearPort| {
        assert!(start.elapsed() < PATIENCE);
        let rest = reader.begin_rest(near, (None, RestStart::Awake), std::iter::empty());
        let is_sleep = matches!(rest, Rest::Sleep(_));
        super::rest(near, rest);
        is_sleep
    };
    for round in 1..=3 {
        while !sleeps(&mut reader, &mut near) {}
        writer.write_mail(&own, to, (round, 0), &[7; 8]).unwrap();
        writer.post_mail(&own, to, round).unwrap();
        while !near.has_mail(mailbox, round) {
            writer.progress(&mut own);
            reader.progress(&mut near);
            assert!(start.elapsed() < PATIENCE);
        }
        let is_next_there = near.has_mail(mailbox, round + 1);
        assert!(!is_next_there && !sleeps(&mut reader, &mut near), "round {round}");
    }
}

/// The answer of a peer whose process has ended may be lost, and without a launcher no one reports
/// it.
#[test]
fn a_rank_that_leaves_hears_nothing_for_a_while_and_goes() {
    let config = JobConfig::new(2, 2);
    let Some((_jobs, mut ports, mut fars)) = opened(&config, &[0, 1]) else { return };
    let (mut first, mut second) = (fars.remove(0), fars.remove(0));
    let (mut near, mut far) = (ports.remove(0), ports.remove(0));
    let start = Instant::now();
    while first.links.window(1, SENDS) == 0 {
        let _ = second.send(&far, &Command::send(0, 1, 0, b"hello"));
        first.progress(&mut near);
        second.progress(&mut far);
        assert!(start.elapsed() < PATIENCE);
    }
    let mut waits = false;
    std::thread::scope(|scope| {
        let leaves = scope.spawn(|| first.leave(&mut near));
        while !leaves.is_finished() && start.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        waits = !leaves.is_finished();
        while !leaves.is_finished() {
            second.progress(&mut far);
        }
    });
    assert!(!waits, "an answer that does not come");
    // Its last message has arrived nevertheless.
    while second.state.peers.get(0).is_none_or(|peer| peer.left.is_none()) {
        second.progress(&mut far);
        assert!(start.elapsed() < 2 * PATIENCE);
    }
}

/// A packet of a source with these bytes, as the links would make it.
fn packet(source: u32, number: u32, key: [u8; 16], bytes: &[u8]) -> Vec<u8> {
    const DATA: u8 = 1;
    const FORM: u8 = 4;
    let length = (bytes.len() as u16).to_le_bytes();
    let words = [source, number, 0, 0].map(u32::to_le_bytes).concat();
    [&[DATA * 16 + SENDS, FORM], &length[..], &words, &key, bytes].concat()
}

/// A stranger on the network sends invalid packets, and packets that no rank would have sent: the
/// report of a job that hangs mentions both.
#[test]
fn what_was_dropped_is_in_the_report_of_a_hang() {
    let Some((survey, offer)) = survey() else { return };
    let Some((jobs, mut ports, mut fars)) = opened(&JobConfig::new(3, 3), &[0, 0, 1]) else {
        return;
    };
    let (far, near) = (&mut fars[2], &mut ports[2]);
    let mut hostile = Endpoint::open(&survey, offer, 1, LAYOUT.buffer_bytes()).unwrap();
    let victim = hostile.insert(far.links.address()).unwrap();
    let last = "packets of ranks of other hosts (the last of rank";
    for (bytes, told) in [
        (b"hello".to_vec(), "1 packet without the job's key".to_owned()),
        (packet(0, 0, [8; 16], b""), "2 packets without the job's key".to_owned()),
        (
            packet(0, 0, [7; 16], b"\xffno message"),
            "2 packets without the job's key and 1 packet of ranks of other hosts (the last of \
             rank 0 on host host0: its content means nothing)"
                .to_owned(),
        ),
        (
            packet(1, 9, [7; 16], b""),
            format!(
                "2 packets without the job's key and 2 {last} 1 on host host0: a number in it is \
                 impossible)"
            ),
        ),
    ] {
        let start = Instant::now();
        while hostile.inject(victim, &bytes).unwrap() == PostResult::Full {
            far.progress(near);
            hostile.poll().unwrap();
            assert!(start.elapsed() < PATIENCE);
        }
        while jobs[1].dropped(2).as_deref() != Some(&told) {
            far.progress(near);
            hostile.poll().unwrap();
            assert!(start.elapsed() < PATIENCE, "{:?} is not {told}", jobs[1].dropped(2));
        }
    }
    // No more packets are accepted from the last one: it counts as failed, and its receivers learn
    // why.
    let Some(Event::PeerFailed(failure)) = far.take_event(near) else { panic!() };
    assert_eq!((failure.rank, failure.cause), (1, DeathCause::Malformed));
    assert_eq!(jobs[0].dropped(0), None);
}

/// A send that the receiver's tables have no place for is lost. Its sender gets an error where it
/// waits for that rank, and where it sends more. Memory of that rank can still be used.
#[test]
fn a_send_without_a_ring_is_an_error_of_its_sender() {
    if survey().is_none() {
        return;
    }
    let (jobs, ports) = open_hosts(&JobConfig::new(3, 3), &[0, 1, 1], [7; 16]).unwrap();
    let mut ports: Vec<_> = ports.into_iter().map(|port| RankPort::open(port).unwrap()).collect();
    exchange_cards(&jobs);
    let (mut other, mut receiver) = (ports.pop().unwrap(), ports.pop().unwrap());
    let own = Communicator::over(ports.pop().unwrap(), Choices::default());
    let [is_unmapped, is_over] = [(); 2].map(|()| AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) && start.elapsed() < PATIENCE {
                if let Some(Event::Landed(_)) = receiver.poll() {
                    receiver.route(0, None).unwrap();
                    is_unmapped.store(true, Ordering::Release);
                }
                other.poll();
            }
            jobs.iter().for_each(|job| _ = job.mark_dead(1, DeathCause::Unknown));
        });
        let (messages, mut into) = (own.messages(), [0]);
        own.drive(messages.send(&[1], 1, 1)).unwrap();
        while !is_unmapped.load(Ordering::Acquire) {
            assert!(start.elapsed() < PATIENCE);
            own.engine().borrow_mut().progress();
        }
        // Too long to fit in a record.
        own.drive(messages.send(&[1; 100], 1, 1)).unwrap();
        let check = |error: MsgError| {
            let MsgError::PeerFailed(failure) = &error else { panic!("{error}") };
            assert_eq!((failure.rank, failure.cause), (1, DeathCause::Dropped));
            let words = "rank 1 on host host1 has no landing ring for what this rank sent it";
            assert!(error.to_string().contains(words), "{error}");
        };
        check(own.drive(messages.recv(&mut into, Some(1), Some(1))).unwrap_err());
        check(own.drive(messages.send(&[1; 100], 1, 1)).unwrap_err());
        let target = RemoteAddress { rank: 1, space: Space::Region, offset: 0 };
        let load = Atomic {
            target,
            integer: Integer::U64,
            operation: AtomicOp::Load,
            operand: 0,
            result: None,
        };
        own.engine().borrow_mut().port_mut().fetch(&load).unwrap();
        own.drive(messages.send(&[1], 2, 1)).unwrap();
        is_over.store(true, Ordering::Release);
    });
    assert!(jobs[1].dropped(1).is_some_and(|told| told.contains("the receiver's tables refuse")));
    let _never_leaves = std::mem::ManuallyDrop::new((own, receiver, other));
}

/// An error of the provider ends all waits: for a rank with contact, for one without, and for any.
/// The ranks of the own host are not affected.
#[test]
fn an_error_of_the_provider_ends_waits() {
    if survey().is_none() {
        return;
    }
    let (_jobs, ports) = open_hosts(&JobConfig::new(4, 4), &[0, 1, 2, 0], [7; 16]).unwrap();
    let own = ports.into_iter().next().unwrap();
    let alone = Communicator::over(RankPort::open(own).unwrap(), Choices::default());
    let reset = Error::Call {
        call: "fi_cq_read",
        provider: "net".to_owned(),
        code: 104,
        text: String::new(),
    };
    let (messages, mut into) = (alone.messages(), [0]);
    let mut spoken = messages.recv(&mut into, Some(1), Some(1));
    {
        let mut engine = alone.engine().borrow_mut();
        let far = engine.port_mut().far_mut().unwrap();
        far.state.peers.enter(1);
        far.to_fail = Some(reset);
    }
    let check = |error: MsgError, rank| {
        let MsgError::PeerFailed(failure) = &error else { panic!("{error}") };
        assert_eq!((failure.rank, failure.cause), (rank, DeathCause::Unreachable(104)));
        let words = format!("rank {rank} on host host{rank} cannot be reached any more: ");
        assert!(error.to_string().contains(&words), "{error}");
    };
    check(alone.drive(&mut spoken).unwrap_err(), 1);
    drop(spoken);
    check(alone.drive(messages.recv(&mut into, Some(2), Some(1))).unwrap_err(), 2);
    check(alone.drive(messages.send(&[1], 2, 1)).unwrap_err(), 2);
    check(alone.drive(messages.recv(&mut into, None, Some(1))).unwrap_err(), 1);
    assert!(!matches!(alone.engine().borrow().port().peer(3), PeerState::Failed(_)));
}
