//! Groups: multicast, barriers by sync id, rounds over shared control lines.

#![expect(clippy::unwrap_used, reason = "bodies of tests: an error is a failure")]

use hikyaku_nic::fabric::{
    ChainError, ChannelOffer, Command, Contribution, GroupError, GroupId, GroupPort, PostError,
    Rank, SYNC_IDS,
};
use hikyaku_nic::ring::{LINE_BYTES, LINES};

use crate::job::pattern;
use crate::{Harness, Job, Setup};

/// Every member of a list joins.
pub(crate) fn join<H: Harness>(
    job: &mut Job<'_, H>,
    channel: u32,
    ranks: &[Rank],
    first: u64,
) -> GroupId {
    let mut ids = ranks.iter().map(|rank| job.port(*rank).join(channel, ranks, first).unwrap());
    let id = ids.next().expect("a group has members");
    assert!(ids.all(|other| other == id));
    id
}

/// Some members of a list join.
fn join_as<H: Harness>(
    job: &mut Job<'_, H>,
    channel: u32,
    some: &[Rank],
    ranks: &[Rank],
) -> GroupId {
    let ids = some.iter().map(|rank| job.port(*rank).join(channel, ranks, 0).unwrap());
    ids.reduce(|one, _| one).expect("somebody joins")
}

/// The contribution of a member, read out.
fn read(
    port: &mut impl GroupPort,
    group: GroupId,
    place: usize,
    what: &Contribution,
) -> (u64, Vec<u8>) {
    let mut bytes = vec![0; what.len() + 3];
    let copied = port.load_contribution(group, place, what, 0, &mut bytes);
    assert_eq!(copied, what.len(), "a contribution ends where it ends");
    bytes.truncate(copied);
    let half = bytes.len() / 2;
    let mut rest = vec![0; bytes.len() - half];
    assert_eq!(port.load_contribution(group, place, what, half, &mut rest), rest.len());
    assert_eq!(rest, bytes[half..], "from any byte on");
    (what.word(), bytes)
}

/// A barrier is complete for each member when all have arrived, and not before; ids do not mix, and
/// an id is reused (CJ-15).
pub fn cj_15_barriers_of_several_ids_complete_apart<H: Harness>(harness: &H) {
    const MEMBERS: [Rank; 3] = [3, 0, 1];
    const IDS: [u32; 3] = [0, 7, 127];
    let mut job = Job::open(harness, &Setup::private(4));
    let group = join(&mut job, 1, &MEMBERS, 0);
    for round in 0..5 {
        let mut came = [0; 3];
        // At each step, each member arrives at another id.
        for (step, (at, rank)) in (0..3).flat_map(|s| (0..).zip(MEMBERS).map(move |m| (s, m))) {
            let which = (at + step + round) % 3;
            let id = IDS[which];
            assert_eq!(job.port(rank).sync(group, id), Ok(()), "round {round}");
            came[which] += 1;
            assert_eq!(job.port(rank).synced(group, id), Ok(came[which] == 3));
        }
        for (rank, id) in MEMBERS.into_iter().flat_map(|rank| IDS.map(|id| (rank, id))) {
            assert_eq!(job.port(rank).synced(group, id), Ok(true));
        }
    }
    assert_eq!(job.port(0).synced(group, 5), Ok(true), "nothing is in progress");
}

/// Invalid barriers are refused (CJ-15: sync ids 0 to 127, at most 64 members).
pub fn cj_15_ids_and_members_have_limits<H: Harness>(harness: &H) {
    let mut setup = Setup::shared(65, 1);
    setup.layout.status_slots = 256;
    let mut job = Job::open(harness, &setup);
    let all: Vec<Rank> = (0..65).collect();
    let large = job.port(7).join(0, &all, 0).unwrap();
    assert_eq!(job.port(7).sync(large, 0), Err(GroupError::TooMany { members: 65, limit: 64 }));
    let small = job.port(7).join(1, &all[..64], 0).unwrap();
    let missing = GroupError::NoSuchSyncId { id: SYNC_IDS };
    assert_eq!(job.port(7).sync(small, SYNC_IDS), Err(missing));
    assert_eq!(job.port(7).synced(small, SYNC_IDS), Err(missing));
    assert_eq!(job.port(7).sync(small, SYNC_IDS - 1), Ok(()));
    let again = GroupError::SyncInProgress { id: SYNC_IDS - 1 };
    assert_eq!(job.port(7).sync(small, SYNC_IDS - 1), Err(again));
}

/// Counters: a round is complete at a member when all have added to its counter, one by one or by
/// one command, and not before; also with more members than share a sync id, and for the channel's
/// next group (CJ-15: larger sets by multicast and atomic add).
pub fn cj_15_counters_have_rounds<H: Harness>(harness: &H) {
    let mut setup = Setup::shared(66, 1);
    setup.layout.status_slots = 256;
    let mut job = Job::open(harness, &setup);
    let all: Vec<Rank> = (1..66).rev().collect();
    let mut first = 0;
    for members in [&all[..], &all[3..6]] {
        let group = join(&mut job, 1, members, first);
        let last = members.len() - 1;
        for round in 1..=3_u64 {
            for (place, rank) in members.iter().enumerate() {
                for other in [0, last] {
                    assert_eq!(job.port(members[other]).counted(group, round), Ok(false));
                }
                match place % 2 {
                    0 => assert_eq!(job.port(*rank).add_to_all(group), Ok(())),
                    _ => (0..=last).for_each(|to| job.port(*rank).add(group, to).unwrap()),
                }
            }
            for rank in members {
                assert_eq!(job.port(*rank).counted(group, round), Ok(true));
                assert_eq!(job.port(*rank).counted(group, round + 1), Ok(false));
            }
        }
        let none = GroupError::NoSuchMember { place: last + 1, members: last + 1 };
        assert_eq!(job.port(members[0]).add(group, last + 1), Err(none));
        let left = members.iter().map(|rank| job.port(*rank).leave(group).unwrap());
        first = left.max().unwrap();
        let nobody = GroupError::NoSuchGroup { channel: 1 };
        assert_eq!(job.port(members[0]).add_to_all(group), Err(nobody));
        assert_eq!(job.port(members[0]).counted(group, 1), Err(nobody));
    }
    assert!(job.port(0).reaches(65) && !job.port(0).reaches(66));
}

/// A member that waits for its counter learns of a member that is gone without having added;
/// earlier additions of that member count.
pub fn cj_15_a_counter_misses_the_gone_by_name<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(4));
    let group = join(&mut job, 0, &[0, 1, 2, 3], 0);
    for rank in [1, 2] {
        job.port(rank).add_to_all(group).unwrap();
    }
    job.ports[1] = None;
    job.kill(2);
    for rank in [0, 3] {
        assert_eq!(job.port(rank).counted(group, 1), Ok(false), "others may still add");
    }
    for rank in [0, 3] {
        job.port(rank).add_to_all(group).unwrap();
    }
    for rank in [0, 3] {
        assert_eq!(job.port(rank).counted(group, 1), Ok(true));
        let gone = job.port(rank).counted(group, 2);
        let known = matches!(gone, Err(GroupError::PeerLeft { rank: 1 }))
            || matches!(gone, Err(GroupError::PeerFailed(failure)) if failure.rank == 2);
        assert!(known, "{gone:?}");
    }
}

/// Multicasts a command, handling the sender's arrivals meanwhile, until all are reached.
pub(crate) fn multicast<H: Harness>(
    job: &mut Job<'_, H>,
    from: Rank,
    group: GroupId,
    command: &Command<'_>,
) {
    let (mut reached, mut taken) = (0, 0);
    for _ in 0..100_000 {
        match job.port(from).multicast(group, command, reached, taken) {
            Ok(()) => return job.settle(from),
            Err(ChainError { done, bytes, error: PostError::Full { .. } }) => {
                assert!((done, bytes) >= (reached, taken), "it goes on where it was");
                (reached, taken) = (done, bytes);
                job.drive(from);
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("there is room, and a multicast does not get on");
}

/// One command reaches every other member and no other rank, behind one doorbell (CJ-14).
pub fn cj_14_one_command_reaches_every_member<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(5));
    let group = join(&mut job, 0, &[4, 2, 0, 1], 0);
    for (number, length) in [(1, 0), (2, 8), (3, 40), (4, 41), (5, 600), (6, 3000)] {
        let payload = pattern(number, length);
        let doorbells = harness.doorbells(job.port(2));
        multicast(&mut job, 2, group, &Command::send(99, 3, number, &payload));
        let rung = harness.doorbells(job.port(2)).zip(doorbells).map(|(now, then)| now - then);
        assert!(rung.is_none_or(|rung| rung == 1), "{rung:?}");
        for rank in [0, 1, 4] {
            let mut bytes = Vec::new();
            while bytes.len() < length || bytes.is_empty() {
                let record = job.take(rank).expect("it was sent to every member");
                assert_eq!((record.source, record.protocol, record.header), (2, 3, number));
                assert_eq!(record.offset, bytes.len() as u64);
                bytes.extend(record.bytes);
                if length == 0 {
                    break;
                }
            }
            assert_eq!(bytes, payload);
        }
        assert!(job.take(3).is_none() && job.take(2).is_none(), "to nobody else");
    }
}

/// A multicast without room at a member reports how far it came and continues from there.
pub fn cj_14_a_multicast_stops_where_there_is_no_room<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let group = join(&mut job, 0, &[0, 1, 2], 0);
    // Rank 1's ring for messages of rank 0 is full.
    let filler = pattern(1, 512);
    while job.offer(0, &Command::send(1, 0, 1, &filler)).is_ok() {}
    let payload = pattern(2, 100);
    let command = Command::send(0, 0, 2, &payload);
    let cut = job.port(0).multicast(group, &command, 0, 0).unwrap_err();
    assert_eq!((cut.done, cut.bytes), (1, 0), "place 0 is the sender's own: {cut}");
    assert!(matches!(cut.error, PostError::Full { destination: 1, .. }));
    for _ in 0..100 {
        // A command that a layer has taken arrives when there is room.
        job.settle(0);
        while job.take(1).is_some() {}
    }
    multicast(&mut job, 0, group, &command);
    for rank in [1, 2] {
        let record = job.take(rank).expect("it arrives in the end, once");
        assert_eq!(record.bytes, payload);
        assert!(job.take(rank).is_none());
    }
}

/// In a round all members can read each member's word and payload, whatever their lengths; nothing
/// is visible before it is complete.
pub fn rounds_carry_words_and_payloads<H: Harness>(harness: &H) {
    const MEMBERS: [Rank; 3] = [2, 0, 3];
    let mut job = Job::open(harness, &Setup::private(4));
    let group = join(&mut job, 0, &MEMBERS, 0);
    let lengths = [0, 1, 8, 47, 48, 49, LINE_BYTES, LINE_BYTES + 1, 300, 512, 0, 512, 3];
    for (round, base) in (0..).zip(lengths) {
        let said = |place: usize| {
            let seed = round * 10 + place as u64;
            (seed, pattern(seed, (base + place * 17) % 513))
        };
        for (place, rank) in MEMBERS.into_iter().enumerate() {
            assert_eq!(job.port(rank).all_contributed(group, round * 10), Ok(None));
            let (word, payload) = said(place);
            assert_eq!(job.port(rank).contribute(group, word, &[&payload]), Ok(()));
            let again = job.port(rank).contribute(group, word, &[&payload]);
            assert_eq!(again, Err(GroupError::Contributed));
            let next = job.port(rank).contribution(group, (place + 1) % 3).unwrap();
            assert_eq!(next.is_some(), place == 2, "only the last comes after the next");
        }
        for (place, rank) in MEMBERS.into_iter().enumerate() {
            // They contributed words of their own; the rank's own word is not checked.
            let (expected, same) = if place == 2 { (round * 10, false) } else { (99, false) };
            assert_eq!(job.port(rank).all_contributed(group, expected), Ok(Some(same)));
            for place in 0..3 {
                let what = job.port(rank).contribution(group, place).unwrap().unwrap();
                assert_eq!(read(job.port(rank), group, place, &what), said(place));
            }
            job.port(rank).finish_round(group).unwrap();
        }
    }
}

/// In a round some members contribute and others only read. A contributor may be ahead by the
/// number of lines and the size of the area; beyond that its call reports that there is no room.
pub fn a_contributor_is_ahead_until_there_is_no_room<H: Harness>(harness: &H) {
    // An area of 4 KiB.
    let lines = LINES as u64;
    for (length, ahead) in [(8, lines), (600, lines), (1600, 2), (2400, 1), (4096, 1)] {
        let mut job = Job::open(harness, &Setup::private(3));
        let group = join(&mut job, 0, &[0, 1, 2], 0);
        let said = |number: u64| pattern(number, length);
        let mut written = 0;
        for number in 0..20 {
            while written < number + ahead {
                job.port(0).contribute(group, written, &[&said(written)]).unwrap();
                job.port(0).finish_round(group).unwrap();
                written += 1;
            }
            for rank in [1, 2] {
                let full = job.port(0).contribute(group, written, &[&said(written)]);
                assert_eq!(full, Err(GroupError::Full), "rank {rank} has not read {number}");
                let what = job.port(rank).contribution(group, 0).unwrap().unwrap();
                assert_eq!(read(job.port(rank), group, 0, &what), (number, said(number)));
                job.port(rank).finish_round(group).unwrap();
            }
        }
        let limit = GroupError::TooLarge { length: 4097, limit: 4096 };
        assert_eq!(job.port(1).contribution(group, 0).map(|what| what.is_some()), Ok(ahead > 1));
        while job.port(0).contribute(group, 0, &[&[0; 4097]]) != Err(limit) {
            for rank in [1, 2] {
                job.port(rank).finish_round(group).unwrap();
            }
        }
    }
}

/// Unread contributions of one group take no room from another: calls of two communicators that
/// ranks make in different orders would otherwise wait for each other for ever.
pub fn groups_take_no_room_from_each_other<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let one = join(&mut job, 0, &[0, 1], 0);
    let other = join(&mut job, 1, &[2, 0], 0);
    job.port(0).contribute(one, 1, &[&pattern(1, 4096)]).unwrap();
    job.port(0).finish_round(one).unwrap();
    assert_eq!(job.port(0).contribute(one, 2, &[&[0; 800]]), Err(GroupError::Full));
    for round in 2..10 {
        job.port(0).contribute(other, round, &[&pattern(round, 4096)]).unwrap();
        job.port(0).finish_round(other).unwrap();
        let what = job.port(2).contribution(other, 1).unwrap().unwrap();
        assert_eq!(read(job.port(2), other, 1, &what), (round, pattern(round, 4096)));
        job.port(2).finish_round(other).unwrap();
    }
    let what = job.port(1).contribution(one, 0).unwrap().unwrap();
    assert_eq!(read(job.port(1), one, 0, &what), (1, pattern(1, 4096)));
    job.port(1).finish_round(one).unwrap();
    assert_eq!(job.port(0).contribute(one, 2, &[&[0; 800]]), Ok(()));
}

/// A rank that waits for a gone member is told its name; contributions from before its end count,
/// and it holds up no room.
pub fn the_gone_end_waits_by_name<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(4));
    let group = join(&mut job, 0, &[0, 1, 2, 3], 0);
    job.port(1).contribute(group, 11, &[&[1; 800]]).unwrap();
    job.port(1).sync(group, 4).unwrap();
    job.ports[1] = None;
    job.port(2).contribute(group, 22, &[]).unwrap();
    job.kill(2);
    for rank in [0, 3] {
        let port = job.port(rank);
        port.sync(group, 4).unwrap();
        port.contribute(group, 0, &[]).unwrap();
        for (place, word) in [(1, 11), (2, 22)] {
            let what = port.contribution(group, place).unwrap().unwrap();
            assert_eq!(what.word(), word);
        }
        assert!(matches!(port.synced(group, 4), Err(GroupError::PeerFailed(f)) if f.rank == 2));
    }
    for rank in [0, 3] {
        assert!(job.port(rank).all_contributed(group, 0).unwrap().is_some());
        job.port(rank).finish_round(group).unwrap();
    }
    for round in 0..5 {
        for rank in [0, 3] {
            job.port(rank).contribute(group, round, &[&[7; 300]]).unwrap();
            let port = job.port(rank);
            assert_eq!(port.contribution(group, 1), Err(GroupError::PeerLeft { rank: 1 }));
            let died = port.contribution(group, 2);
            assert!(matches!(died, Err(GroupError::PeerFailed(f)) if f.rank == 2), "{died:?}");
            assert!(port.all_contributed(group, round).is_err());
        }
        for rank in [0, 3] {
            let unread = job.port(rank).finish_round(group);
            assert_eq!(unread, Err(GroupError::PeerLeft { rank: 1 }), "the round is ended");
        }
    }
}

/// Invalid groups are refused, each with its error.
pub fn impossible_groups_are_refused<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let port = job.port(1);
    let missing = GroupError::NoSuchChannel { channel: 2, channels: 2 };
    assert_eq!(port.join(2, &[0, 1], 0), Err(missing));
    let stranger = GroupError::NoSuchRank { rank: 3, size: 3 };
    assert_eq!(port.join(0, &[1, 3], 0), Err(stranger));
    for members in [&[][..], &[0, 2], &[1, 1], &[0, 1, 0]] {
        assert_eq!(port.join(0, members, 0), Err(GroupError::Members { rank: 1 }), "{members:?}");
    }
    let far = port.join(0, &[1], u64::MAX);
    assert_eq!(far, Err(GroupError::FirstRound { channel: 0, first: u64::MAX, least: 0 }));
    let group = port.join(0, &[2, 1], 0).unwrap();
    assert_eq!(port.join(0, &[1], 0), Err(GroupError::ChannelInUse { channel: 0 }));
    assert_eq!(port.group(group).map(|g| (g.members().to_vec(), g.place())), Some((vec![2, 1], 1)));
    let place = GroupError::NoSuchMember { place: 2, members: 2 };
    assert_eq!(port.contribution(group, 2), Err(place));
    let nobody = GroupError::NoSuchGroup { channel: 0 };
    let other = job.port(0);
    assert_eq!(other.contribute(group, 0, &[]), Err(nobody), "it has not joined");
    assert_eq!(other.contribution(group, 0), Err(nobody));
    assert_eq!(other.sync(group, 0), Err(nobody));
    assert_eq!((other.finish_round(group), other.leave(group)), (Err(nobody), Err(nobody)));
    let error = other.multicast(group, &Command::nop(0), 0, 0).unwrap_err();
    assert!(matches!(error.error, PostError::Unsupported(_)), "{error}");
    assert_eq!(other.group(group), None);
}

/// A channel serves one group after another, with other members and another number of rounds.
pub fn a_channel_is_used_again<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let mut first = 0;
    for (life, [one, other]) in (0..).zip([[0, 1], [2, 1], [0, 2], [1, 0]]) {
        let group = join(&mut job, 0, &[one, other], first);
        for round in 0..life {
            for rank in [one, other] {
                job.port(rank).contribute(group, round, &[&[9; 1600]]).unwrap();
            }
            for rank in [one, other] {
                assert_eq!(job.port(rank).all_contributed(group, round), Ok(Some(true)));
                let what = job.port(rank).contribution(group, 0).unwrap().unwrap();
                assert_eq!(what.word(), round);
                job.port(rank).finish_round(group).unwrap();
            }
        }
        for rank in [one, other] {
            job.port(rank).sync(group, 1).unwrap();
        }
        job.port(one).contribute(group, 50, &[&[5; 1600]]).unwrap();
        job.port(one).finish_round(group).unwrap();
        let next = job.port(one).leave(group).unwrap();
        assert!(next > first, "rounds and barriers count");
        let in_use = Err(GroupError::ChannelInUse { channel: 0 });
        assert_eq!(job.port(one).join(0, &[one], next), in_use, "the other still reads");
        let what = job.port(other).contribution(group, 0).unwrap().unwrap();
        assert_eq!(read(job.port(other), group, 0, &what), (50, vec![5; 1600]));
        job.port(other).finish_round(group).unwrap();
        let theirs = job.port(other).leave(group).unwrap();
        let early = job.port(one).join(0, &[one], 0);
        assert_eq!(early, Err(GroupError::FirstRound { channel: 0, first: 0, least: next }));
        first = next.max(theirs).max(first);
    }
}

/// Members that do not know the others' channels agree on one by offers.
pub fn channels_are_offered_once_and_as_long_as_they_are_free<H: Harness>(harness: &H) {
    let mut setup = Setup::private(3);
    setup.layout.groups.channels = 6;
    let mut job = Job::open(harness, &setup);
    join(&mut job, 0, &[0, 1], 0);
    let port = job.port(0);
    let offer = |channels, first| ChannelOffer { channels, first };
    let first = port.offer(0);
    assert_eq!(first, offer(1 << 4, 0), "channel 0 is in use");
    assert_eq!(port.offer(1), offer(1 << 1 | 1 << 5, 0));
    let rest = port.offer(0);
    assert_eq!(rest, offer(1 << 2 | 1 << 3, 0), "there is no other of this kind");
    assert_eq!(port.offer(3), offer(0, 0));
    port.withdraw(first);
    assert_eq!(port.offer(7), first);
    port.withdraw(rest);
    let agreed = rest.and(job.port(1).offer(2)).and(offer(!0, 700));
    assert_eq!((agreed, agreed.channel()), (offer(1 << 2, 700), Some(2)));
    assert_eq!(ChannelOffer::of_bytes(&agreed.to_bytes()), agreed);
    assert_eq!(ChannelOffer::of_bytes(&[9; 5]).channel(), None);

    let group = join(&mut job, 2, &[0, 1], agreed.first);
    assert_eq!(job.port(0).offer(2), offer(1 << 3, 0));
    job.port(0).contribute(group, 5, &[]).unwrap();
    job.port(0).finish_round(group).unwrap();
    job.port(0).leave(group).unwrap();
    assert_eq!(job.port(0).offer(2), offer(0, 0), "the other still reads");
    job.port(1).finish_round(group).unwrap();
    assert_eq!(job.port(0).offer(2), offer(1 << 2, agreed.first + 1), "rounds count on");
}

/// A rank that does not know the outcome of its offer may count as a member: its lines never show a
/// round that the others began, and hold up no rank.
pub fn rounds_that_are_passed_over_hold_up_nobody<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let offer = job.port(2).offer(1);
    let group = join_as(&mut job, 1, &[0, 1], &[0, 1, 2]);
    job.port(0).contribute(group, 7, &[]).unwrap();
    job.port(0).finish_round(group).unwrap();
    job.port(2).pass_over(offer.channels);
    job.port(2).withdraw(offer);
    let next = job.port(2).offer(1);
    assert!(next.channels == offer.channels && next.first > 1 << 30, "{next:?}");
    job.port(2).withdraw(next);
    let alone = job.port(2).join(1, &[2], next.first).unwrap();
    job.port(2).contribute(alone, 7, &[]).unwrap();
    assert_eq!(job.port(1).contribution(group, 2), Ok(None), "that is another group's");
    job.port(1).finish_round(group).unwrap();
    for rank in [0, 1] {
        job.port(rank).leave(group).unwrap();
    }
    for rank in [0, 1] {
        let least = job.port(rank).offer(1);
        assert_eq!(least.channels, offer.channels, "rank 2 has no round to finish");
    }
}

/// Rounds need shared memory; barriers and multicast are commands and work between nodes too.
pub fn rounds_are_for_one_node<H: Harness>(harness: &H) {
    let setup = Setup { ranks_per_node: 2, ..Setup::private(4) };
    let mut job = Job::open(harness, &setup);
    let group = join(&mut job, 0, &[0, 1, 2, 3], 0);
    let other = GroupError::OtherNode { rank: 2 };
    assert_eq!(job.port(1).contribute(group, 0, &[]), Err(other));
    assert_eq!(job.port(1).contribution(group, 0), Err(other));
    assert_eq!(job.port(1).all_contributed(group, 0), Err(other));
    for rank in 0..4 {
        job.port(rank).sync(group, 0).unwrap();
        assert_eq!(job.port(rank).synced(group, 0), Ok(rank == 3));
    }
    multicast(&mut job, 3, group, &Command::send(0, 0, 4, &[5; 5]));
    for rank in 0..3 {
        assert_eq!(job.take(rank).map(|record| record.header), Some(4));
    }
    let near = join(&mut job, 1, &[3, 2], 0);
    job.port(2).contribute(near, 6, &[]).unwrap();
    let what = job.port(3).contribution(near, 1).unwrap().unwrap();
    assert_eq!(what.word(), 6);
}
