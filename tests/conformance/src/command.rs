//! Commands: chains, answers, and commands that are invalid.

use hikyaku_nic::fabric::{
    ChainError, Command, CopyPort, Granularity, Port, PostError, RemoteAddress, Route, Short, Space,
};

use crate::job::{part, pattern};
use crate::{Harness, Job, Setup};

/// Posts a whole chain, continuing after each partial post.
pub(crate) fn chain<H: Harness>(job: &mut Job<'_, H>, from: u32, commands: &[Command<'_>]) {
    let (mut done, mut bytes) = (0, 0);
    for _ in 0..10_000 {
        let Some(first) = commands.get(done) else { return };
        let mut rest = vec![part(first, bytes)];
        rest.extend(&commands[done + 1..]);
        match job.port(from).post_chain(&rest) {
            Ok(()) => {
                job.settle(from);
                return;
            }
            Err(ChainError { done: more, bytes: taken, error: PostError::Full { .. } }) => {
                bytes = if more == 0 { bytes + taken } else { taken };
                done += more;
                job.drive(from);
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a chain does not come to its end");
}

/// A chain of commands runs in order.
pub fn cp_06_a_chain_runs_in_order<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let payloads: Vec<_> = (0..6).map(|n| pattern(n, 90 * n as usize)).collect();
    let commands: Vec<_> =
        (0..6).map(|n| Command::send(2 * (n as u32 % 2), 0, n, &payloads[n as usize])).collect();
    chain(&mut job, 1, &commands);
    for (rank, headers) in [(0, [0, 2, 4]), (2, [1, 3, 5])] {
        let records = job.take_all(rank);
        assert_eq!(records.iter().map(|r| r.header).collect::<Vec<_>>(), headers);
        assert!(records.iter().all(|r| r.bytes == payloads[r.header as usize]));
    }
}

/// A chain that is taken in part reports how many commands, and bytes of the next, were taken.
pub fn cp_06_a_chain_says_how_far_it_got<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let large = pattern(1, 3 * 4096);
    let commands = [
        Command::send(0, 0, 0, &large[..100]),
        Command::send(0, 0, 1, &large),
        Command::send(0, 0, 2, &large[..7]),
    ];
    let (mut done, mut bytes) = (0, 0);
    let mut received = Vec::new();
    for _ in 0..1000 {
        let mut rest = vec![part(&commands[done], bytes)];
        rest.extend(&commands[done + 1..]);
        let answer = job.port(1).post_chain(&rest);
        job.settle(1);
        received.extend(job.take_all(0));
        let Err(cut) = answer else { break };
        assert!(matches!(cut.error, PostError::Full { .. }), "{cut}");
        bytes = if cut.done == 0 { bytes + cut.bytes } else { cut.bytes };
        done += cut.done;
        assert!(bytes < commands[done].payload.len(), "a command taken whole counts as done");
        job.drive(1);
    }
    // A layer may hold more than fits into the ring at once.
    loop {
        job.settle(1);
        let more = job.take_all(0);
        if more.is_empty() {
            break;
        }
        received.extend(more);
    }
    let mut assembly = crate::job::Assembly::default();
    let whole: Vec<_> = received.into_iter().filter_map(|r| assembly.enter(r)).collect();
    assert_eq!(whole.iter().map(|m| m.header).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(whole.iter().zip(&commands).all(|(m, c)| m.bytes == c.payload));
    assert!(assembly.is_empty());

    let bad = [commands[0], Command::send(9, 0, 0, &[]), commands[2]];
    let cut = (0..1000).find_map(|_| match job.port(1).post_chain(&bad) {
        Err(cut) if !matches!(cut.error, PostError::Full { .. }) => Some(cut),
        _ => {
            job.drive(1);
            job.take_all(0);
            None
        }
    });
    let error = PostError::NoSuchRank { rank: 9, size: 2 };
    assert_eq!(cut, Some(ChainError { done: 1, bytes: 0, error }));
}

/// Ranks and rings that do not exist are errors that name them.
pub fn ranks_and_rings_out_of_range_are_errors<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(3, 2));
    let payload = pattern(3, 100);
    for rank in [3, 4, u32::MAX] {
        let missing = PostError::NoSuchRank { rank, size: 3 };
        assert_eq!(job.refused(1, &Command::send(rank, 0, 0, &payload)), missing);
        assert_eq!(job.refused(1, &Command::nop(rank)), missing);
        let address = RemoteAddress { rank, space: Space::Region, offset: 0 };
        assert_eq!(job.refused(1, &Command::put(address, &payload)), missing);
        assert_eq!(job.port(1).read(address, &mut [0; 8]), Err(missing));
    }
    for ring in [2, u32::MAX] {
        for granularity in [Granularity::PerPacket, Granularity::PerMessage] {
            let route = Route::Ring(ring);
            let command = Command { route, granularity, ..Command::send(0, 0, 0, &payload) };
            let missing = PostError::NoSuchRing { destination: 0, ring };
            assert_eq!(job.refused(1, &command), missing);
        }
    }
    assert!(job.take(0).is_none());
}

/// A nop uses and changes nothing; a rank may send to itself.
pub fn a_nop_takes_nothing_and_a_rank_may_send_to_itself<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    assert_eq!(job.offer(1, &Command::nop(0)), Ok(0));
    assert!(job.take(0).is_none());
    for length in [0, 48, 49, 2000] {
        let payload = pattern(length as u64, length);
        job.send(1, &Command::send(1, 2, 3, &payload));
        let bytes: Vec<u8> = job.take_all(1).into_iter().flat_map(|r| r.bytes).collect();
        assert_eq!(bytes, payload);
    }
}

/// A payload is borrowed only for the call: later changes by the caller are not sent.
pub fn a_payload_is_the_callers_again_when_post_returns<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    for number in 0..100 {
        let length = (number * 31 % 500) as usize;
        let mut payload = pattern(number, length);
        let mut taken = 0;
        while taken < length || length == 0 {
            let rest = part(&Command::send(0, 0, number, &payload), taken);
            if let Ok(more) = job.port(1).post(&rest) {
                taken += more;
                if length == 0 {
                    break;
                }
            } else {
                job.drive(1);
            }
        }
        payload.fill(0xee);
        job.settle(1);
        let bytes: Vec<u8> = job.take_all(0).into_iter().flat_map(|r| r.bytes).collect();
        assert_eq!(bytes, pattern(number, length));
    }
}

/// The fast path of a receive takes a message only if it is the source's next, has arrived whole
/// and is exactly the requested one; `poll` yields the others.
pub fn receive_whole_takes_exactly_what_it_asks_for<H: Harness>(harness: &H) {
    for setup in [Setup::private(3), Setup::shared(3, 1)] {
        let mut job = Job::open(harness, &setup);
        let mut into = [0; 200];
        let nothing = job.port(0).receive_whole(1, 5, 6, &mut into);
        assert!(!matches!(nothing, Short::Taken(_)), "nothing has come");
        for message in [b"thirteen byte".to_vec(), pattern(1, 100)] {
            job.send(1, &Command::send(0, 5, 6, &message));
            let room = message.len();
            for (source, protocol, header, room) in
                [(2, 5, 6, room), (1, 4, 6, room), (1, 5, 7, room), (1, 5, 6, room - 1)]
            {
                let answer = job.port(0).receive_whole(source, protocol, header, &mut into[..room]);
                assert!(!matches!(answer, Short::Taken(_)), "that is another message");
            }
            if let Short::Taken(length) = job.port(0).receive_whole(1, 5, 6, &mut into) {
                assert_eq!(&into[..length], message);
            } else {
                let record = job.take(0).expect("without the fast path it comes by poll");
                assert_eq!(record.bytes, message);
            }
            assert!(job.take(0).is_none(), "it is taken once");
        }
        job.send(1, &Command::send(0, 5, 7, b"before"));
        job.send(1, &Command::send(0, 5, 6, b"behind"));
        let answer = job.port(0).receive_whole(1, 5, 6, &mut into);
        assert!(!matches!(answer, Short::Taken(_)), "it is not the next");
        let bytes: Vec<_> = job.take_all(0).into_iter().map(|record| record.bytes).collect();
        assert_eq!(bytes, [b"before".to_vec(), b"behind".to_vec()]);
    }
}
