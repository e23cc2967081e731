//! Steps of messages from rank to rank.

use hikyaku::{ANY_SOURCE, ANY_TAG, Error, Request, Scope, World, join, join_all};

use super::plan::{How, Message};
use crate::Random;
use crate::pattern::{check, fill, key, message};

/// Memory of a message at a rank.
pub(super) type Held = Vec<(Message, Vec<u8>)>;

/// The messages that this rank sends.
pub(super) fn outgoing(world: &World, messages: &[Message]) -> Held {
    let own = messages.iter().filter(|message| message.from == world.rank());
    own.map(|planned| (*planned, message(planned.name, planned.length))).collect()
}

/// Room for those that it receives.
pub(super) fn incoming(world: &World, messages: &[Message]) -> Held {
    let own = messages.iter().filter(|message| message.to == world.rank());
    own.map(|planned| (*planned, vec![0; planned.length])).collect()
}

pub(super) fn check_all(received: &Held) {
    received.iter().for_each(|(planned, bytes)| check(planned.name, bytes));
}

/// Starts to send them.
pub(super) fn start_sends<'scope>(
    scope: &'scope Scope<'scope, '_>,
    out: &'scope Held,
) -> Result<Vec<Request<'scope>>, Error> {
    let start = |(planned, data): &'scope (Message, Vec<u8>)| match planned.synchronous {
        true => scope.issend(data, planned.to, planned.tag),
        false => scope.isend(data, planned.to, planned.tag),
    };
    out.iter().map(start).collect()
}

/// Starts to receive them.
pub(super) fn start_receives<'scope>(
    scope: &'scope Scope<'scope, '_>,
    into: &'scope mut Held,
) -> Result<Vec<Request<'scope>>, Error> {
    let start = |(planned, into): &'scope mut (Message, Vec<u8>)| match planned.how {
        How::AnySource => scope.irecv(into, ANY_SOURCE, planned.tag),
        _ => scope.irecv(into, planned.from, planned.tag),
    };
    into.iter_mut().map(start).collect()
}

/// One message after the other, each rank handling its own of the list.
pub(super) fn in_order(world: &World, messages: &[Message]) -> Result<(), Error> {
    let own = world.rank();
    for planned in messages {
        let Message { from, to, tag, length, .. } = *planned;
        if from == to {
            if own == from {
                requests(world, std::slice::from_ref(planned), true, 0)?;
            }
        } else if own == from {
            let data = message(planned.name, length);
            match planned.synchronous {
                true => world.ssend(&data, to, tag)?,
                false => world.send(&data, to, tag)?,
            }
        } else if own == to {
            check(planned.name, &receive(world, planned)?);
        }
    }
    Ok(())
}

fn receive(world: &World, planned: &Message) -> Result<Vec<u8>, Error> {
    let Message { from, tag, length, .. } = *planned;
    let mut into = vec![0; length];
    let found = match planned.how {
        How::Exact => None,
        How::AnySource => Some(world.probe(ANY_SOURCE, tag)?),
        How::Probe => Some(world.probe(from, tag)?),
        How::Poll => loop {
            if let found @ Some(_) = world.iprobe(from, tag)? {
                break found;
            }
            std::thread::yield_now();
        },
    };
    let received = match planned.how {
        How::AnySource => world.recv(&mut into, ANY_SOURCE, tag)?,
        _ => world.recv(&mut into, from, tag)?,
    };
    assert!(found.is_none_or(|found| found == received), "{found:?} is not {received:?}");
    assert_eq!((received.source, received.tag, received.bytes), (from, tag, length as u64));
    Ok(into)
}

/// All at once.
pub(super) fn requests(
    world: &World,
    messages: &[Message],
    receive_first: bool,
    order: u64,
) -> Result<(), Error> {
    let (out, mut into) = (outgoing(world, messages), incoming(world, messages));
    let received = &mut into;
    world.scope(|scope| {
        let mut open;
        if receive_first {
            open = start_receives(scope, received)?;
            open.extend(start_sends(scope, &out)?);
        } else {
            open = start_sends(scope, &out)?;
            open.extend(start_receives(scope, received)?);
        }
        wait_somehow(scope, open, &mut Random::new(order ^ u64::from(world.rank())))
    })?;
    check_all(&into);
    Ok(())
}

/// Waits for all, in one of the possible ways.
fn wait_somehow<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut open: Vec<Request<'scope>>,
    random: &mut Random,
) -> Result<(), Error> {
    match random.below(4) {
        0 => scope.wait_all()?,
        1 => while scope.wait_any(&mut open)?.is_some() {},
        2 => {
            while !open.is_empty() {
                open.swap_remove(random.below(open.len())).wait()?;
            }
        }
        _ => {
            while !open.is_empty() {
                if let Err(again) = open.swap_remove(random.below(open.len())).test()? {
                    open.push(again);
                    std::thread::yield_now();
                }
            }
        }
    }
    Ok(())
}

/// Each is sent in ready mode, when its receiver has reported that the receive is posted.
pub(super) fn ready(world: &World, messages: &[Message]) -> Result<(), Error> {
    for planned in messages {
        let Message { from, to, tag, length, name, .. } = *planned;
        if world.rank() == to {
            let mut into = vec![0; length];
            world.scope(|scope| {
                let receive = scope.irecv(&mut into, from, tag)?;
                world.send(&[1u8], from, tag)?;
                receive.wait()
            })?;
            check(name, &into);
        } else if world.rank() == from {
            world.recv(&mut [0u8], to, tag)?;
            world.rsend(&message(name, length), to, tag)?;
        }
    }
    Ok(())
}

/// All send to one rank, which receives from any source. `wild` carries nothing else.
pub(super) fn to_one(
    wild: &World,
    root: u32,
    count: usize,
    most: usize,
    seed: u64,
) -> Result<(), Error> {
    let (own, size) = (wild.rank(), wild.size());
    let named = |rank: u32, number: u64| key(seed, &[u64::from(rank), number]);
    let length = |rank: u32, number: u64| Random::new(named(rank, number)).below(most + 1);
    if own != root {
        for number in 0..count as u64 {
            let data = message(named(own, number), length(own, number));
            wild.send(&data, root, number as i32 % 7)?;
        }
        return wild.barrier();
    }
    let (mut seen, mut heard) = (vec![0u64; size as usize], vec![0; most]);
    for _ in 0..count * (size as usize - 1) {
        let received = wild.recv(&mut heard, ANY_SOURCE, ANY_TAG)?;
        let number = &mut seen[received.source as usize];
        assert_eq!(received.tag, *number as i32 % 7, "a message overtook another");
        assert_eq!(received.count::<u8>(), length(received.source, *number));
        check(named(received.source, *number), &heard[..received.count::<u8>()]);
        *number += 1;
    }
    wild.barrier()
}

/// Futures with all ranks at once, itself included.
pub(super) fn futures(
    world: &World,
    tag: i32,
    turns: usize,
    length: usize,
    seed: u64,
) -> Result<(), Error> {
    let named =
        |turn: usize, from: u32, to: u32| key(seed, &[turn as u64, u64::from(from), u64::from(to)]);
    let own = world.rank();
    let talk = async |peer: u32| -> Result<(), Error> {
        let (mut data, mut heard) = (vec![0; length], vec![0; length]);
        for turn in 0..turns {
            fill(named(turn, own, peer), &mut data);
            let sent = world.send_async(&data, peer, tag);
            let (sent, received) = join(sent, world.recv_async(&mut heard, peer, tag)).await;
            sent?;
            received?;
            check(named(turn, peer, own), &heard);
        }
        Ok(())
    };
    let talks = (0..world.size()).map(|peer| Box::pin(talk(peer))).collect();
    world.block_on(join_all(talks)).into_iter().collect()
}

/// To one rank of a ring and from another.
pub(super) fn around(
    world: &World,
    tag: i32,
    distance: u32,
    (length, shared): (usize, bool),
    seed: u64,
) -> Result<(), Error> {
    let (to, from) = neighbours(world, distance);
    let named = |rank: u32| key(seed, &[u64::from(rank)]);
    if shared {
        let (mut data, mut heard) = (world.alloc(length)?, world.alloc(length)?);
        fill(named(world.rank()), &mut data);
        world.sendrecv(&data, to, tag, &mut heard, from, tag)?;
        check(named(from), &heard);
    } else {
        let (data, mut heard) = (message(named(world.rank()), length), vec![0; length]);
        world.sendrecv(&data, to, tag, &mut heard, from, tag)?;
        check(named(from), &heard);
    }
    Ok(())
}

/// The ranks at this distance in a ring: the receiver, and the sender.
pub(super) fn neighbours(world: &World, distance: u32) -> (u32, u32) {
    let (own, size) = (world.rank(), world.size());
    ((own + distance) % size, (own + size - distance % size) % size)
}

/// Sends and receives that match or are cancelled: no message is received in part.
pub(super) fn cancelled(
    world: &World,
    tag: i32,
    distance: u32,
    length: usize,
    seed: u64,
) -> Result<(), Error> {
    let (to, from) = neighbours(world, distance);
    let data = message(key(seed, &[u64::from(world.rank())]), length);
    let name = key(seed, &[u64::from(from)]);
    let mut heard = vec![0; length];
    let (sent, received) = world.scope(|scope| {
        let receive = scope.irecv(&mut heard, from, tag)?;
        let send = scope.issend(&data, to, tag)?;
        Ok((send.cancel()?.is_some(), receive.cancel()?.is_some()))
    })?;
    if received {
        check(name, &heard);
    }
    let mut told = [0u8];
    world.sendrecv(&[u8::from(sent)], to, tag + 1, &mut told, from, tag + 1)?;
    match (told == [1], received) {
        (true, false) => {
            world.recv(&mut heard, from, tag)?;
            check(name, &heard);
        }
        (sent, received) => assert_eq!(sent, received, "a message that was taken back came"),
    }
    // The next step's receives must not match messages that others still cancel in this one.
    world.barrier()
}
