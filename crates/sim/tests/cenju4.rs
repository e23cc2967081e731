//! Programs of tasks on Cenju-4 over its own interface: the seven protocols of paper 003's Table 1
//! with their bytes, and the mechanisms around them. The numbers are those of the checklist.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::{Simulation, TaskName};
use hikyaku_sim::machine::{Interface, Machine};
use hikyaku_sim::model::cenju4::{
    ANSWERED, AddressArea, AddressFault, COMPLETED, CenjuSystem, ContextTask, Costs, Header,
    HeaderError, Interrupt, LogKind, Module, NOTIFICATION_BYTES, PacketTarget, ParcelOperation,
    Processor, REFUSED, ReceiveBuffer, Span, TaskError, UNEQUAL, WriteDestination, WriteSource,
    segment_base,
};
use hikyaku_sim::topology::Multistage;
use proptest::prelude::*;

const QUEUE: u64 = 4 << 10;
const PAGE: u64 = 4096;

fn costs() -> Costs {
    let text = include_str!("../../../machines/cenju4.toml");
    let machine = Machine::parse("cenju4", text).unwrap();
    let Interface::Cenju4(costs) = machine.interface else { panic!("another model") };
    *costs
}

/// A machine whose first nodes run a task each, of context 7, with 512 KB and some mapped pages.
/// Logical number and node are the same. Registers, buffers and queues are ready.
struct Job {
    simulation: Simulation,
    system: CenjuSystem,
    tasks: Vec<ContextTask>,
}

/// Addresses in a task's segment 1. Segment 0 is the task's data.
const MESSAGES: u64 = segment(1);
const LOG: u64 = segment(1) + 2 * PAGE;
const NOTES: u64 = segment(1) + 3 * PAGE;
const WORDS: u64 = segment(1) + 4 * PAGE;

const fn segment(number: u64) -> u64 {
    number << 30
}

impl Job {
    fn new(nodes: u32, ranks: u32) -> Job {
        Job::with(&costs(), nodes, ranks)
    }

    fn with(costs: &Costs, nodes: u32, ranks: u32) -> Job {
        let simulation = Simulation::new(3);
        let system = CenjuSystem::new(&simulation, costs, Rc::new(Multistage::new(nodes)), 544);
        let table: Vec<Processor> = (0..ranks).map(|node| Processor { node, cid: 7 }).collect();
        let task = |at: &Processor| {
            let task = system.create_task(*at, QUEUE).unwrap();
            task.map_new(0, 140).unwrap();
            task.map_new(1, 8).unwrap();
            task.node_table(&table, at.node as u16).unwrap();
            for number in 0..2 {
                let address = MESSAGES + u64::from(number) * PAGE;
                let area = AddressArea { address, bytes: PAGE };
                task.set_buffer(ReceiveBuffer::Message(number), area).unwrap();
            }
            task.set_buffer(ReceiveBuffer::Log, AddressArea { address: LOG, bytes: PAGE }).unwrap();
            task.set_notifications(NOTES);
            task.schedule();
            task.load().unwrap();
            task
        };
        let tasks = table.iter().map(task).collect();
        Job { simulation, system, tasks }
    }

    /// Starts a program on a node.
    fn on<F: Future<Output = ()> + 'static>(
        &self,
        node: u32,
        program: impl FnOnce(ContextTask) -> F,
    ) {
        let task = self.tasks[node as usize].clone();
        self.simulation.spawn(TaskName { kind: "node", index: node }, program(task));
    }

    fn run(&self) {
        self.simulation.run().unwrap();
    }

    /// Runs a program on node 0 and returns its time.
    fn time<F: Future<Output = ()> + 'static>(
        &self,
        program: impl FnOnce(ContextTask) -> F,
    ) -> Time {
        self.on(0, program);
        self.run();
        self.simulation.now()
    }
}

/// Bytes of which no two ranges are alike.
fn pattern(bytes: u64, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ ((at >> 8) * 7)) as u8 ^ seed).collect()
}

fn write(bytes: u64, source: u64, place: WriteDestination) -> Header {
    Header::write(PacketTarget::One(1), source, place, bytes)
}

#[test]
fn cj_03_a_program_uses_all_protocols_of_table_1() {
    let job = Job::new(32, 2);
    let data = pattern(3000, 1);
    job.tasks[0].write(0, &data).unwrap();
    job.tasks[1].set_register(2, 64 * PAGE).unwrap();
    job.tasks[1].write(WORDS, &40_u64.to_le_bytes()).unwrap();
    job.tasks[1].write(8 * PAGE, &pattern(5000, 9)).unwrap();
    job.on(0, async |task| {
        // Remote DMA; the same with address register 2; message 0 and 1; atomic add.
        task.send(&write(3000, 0, WriteDestination::Address(32 * PAGE))).await;
        task.send(&write(3000, 0, WriteDestination::Register(2))).await;
        task.send(&write(100, 8, WriteDestination::Message(0))).await;
        task.send(&write(600, 16, WriteDestination::Message(1))).await;
        task.ask(1, ParcelOperation::Add { value: 2, destination: WORDS }).await;
        // Remote read, swap, compare and swap. No program runs on node 1.
        let (source, destination, bytes) = (8 * PAGE, 16 * PAGE, 5000);
        task.ask(1, ParcelOperation::Read { source, destination, bytes, rrid: 5 }).await;
        task.wait_word(NOTES + 5 * NOTIFICATION_BYTES, ANSWERED).await;
        task.ask(1, ParcelOperation::Swap { destination: WORDS, value: 50, result: WORDS + 8 })
            .await;
        task.wait_word(WORDS + 8, 42).await;
        for (rrid, expected, status) in [(63, 50, ANSWERED), (0, 50, UNEQUAL)] {
            let value = 60;
            task.ask(1, ParcelOperation::CompareSwap { destination: WORDS, expected, value, rrid })
                .await;
            let note = NOTES + u64::from(rrid) * NOTIFICATION_BYTES;
            task.wait_word(note, status).await;
            assert_eq!(task.word(note + 8), Ok(if rrid == 63 { 50 } else { 60 }));
        }
    });
    job.run();
    let [there, here] = [&job.tasks[1], &job.tasks[0]];
    assert_eq!(there.read(32 * PAGE, 3000).unwrap(), data);
    assert_eq!(there.read(64 * PAGE, 3000).unwrap(), data);
    assert_eq!(there.read(MESSAGES, 100).unwrap(), data[8..108]);
    assert_eq!(there.read(MESSAGES + PAGE, 600).unwrap(), data[16..616]);
    assert_eq!(there.entry().messages, [104, 600]);
    assert_eq!(there.word(WORDS), Ok(60));
    assert_eq!(here.read(16 * PAGE, 5000).unwrap(), pattern(5000, 9));
    assert_eq!(job.system.unanswered(0), 0);
}

#[test]
fn cj_01_a_longer_parcel_is_rejected_and_the_longest_arrives() {
    let job = Job::new(32, 2);
    const MOST: u64 = 512 << 10;
    let data = pattern(MOST, 4);
    job.tasks[0].write(0, &data).unwrap();
    job.on(0, async |task| {
        task.send(&write(MOST + 8, 0, WriteDestination::Address(0))).await;
        let refused = HeaderError::TooLong { bytes: MOST + 8, most: MOST };
        assert_eq!(task.interrupt().await, Interrupt::Rejected(refused));
    });
    job.run();
    assert_eq!(job.system.network().counts().sent, 0, "nothing of it is sent");
    job.on(0, async |task| task.send(&write(MOST, 0, WriteDestination::Address(0))).await);
    job.run();
    assert_eq!(job.system.network().counts().sent, 2048);
    assert_eq!(job.tasks[1].read(0, MOST).unwrap(), data);
}

#[test]
fn cj_01_a_full_queue_holds_the_task_back() {
    let job = Job::new(32, 2);
    job.on(0, async |task| {
        for number in 0..300_u64 {
            let to = 8 * number;
            task.send(&Header::inline(PacketTarget::One(1), number, to, 8)).await;
        }
    });
    job.run();
    for number in 0..300 {
        assert_eq!(job.tasks[1].word(8 * number), Ok(number));
    }
}

#[test]
fn cj_04_a_number_beyond_the_table_is_an_error_and_nothing_is_sent() {
    let job = Job::new(32, 2);
    job.on(0, async |task| {
        let targets = [PacketTarget::One(2), PacketTarget::Group(0), PacketTarget::Sync(4095)];
        for (target, entries) in targets.into_iter().zip([2, 0, 0]) {
            let operation = match target {
                PacketTarget::Sync(_) => ParcelOperation::Synchronise,
                _ => ParcelOperation::Add { value: 1, destination: 0 },
            };
            task.send(&Header::new(target, operation)).await;
            let (PacketTarget::One(number)
            | PacketTarget::Group(number)
            | PacketTarget::Sync(number)) = target;
            let refused = HeaderError::NoSuchTarget { number, entries };
            assert_eq!(task.interrupt().await, Interrupt::Rejected(refused));
            assert_eq!(task.interrupt().await, Interrupt::QueueEmpty);
        }
    });
    job.run();
    assert_eq!(job.system.network().counts().sent, 0);
}

#[test]
fn cj_05_256_contexts_of_a_node_do_not_leak_into_each_other() {
    let simulation = Simulation::new(1);
    let system = CenjuSystem::new(&simulation, &costs(), Rc::new(Multistage::new(4)), 544);
    let make = |node, cid| system.create_task(Processor { node, cid }, QUEUE).unwrap();
    let tasks: Vec<[ContextTask; 2]> = (0..=255).map(|cid| [make(0, cid), make(1, cid)]).collect();
    for (cid, pair) in (0..=255).zip(&tasks) {
        for task in pair {
            task.map_new(0, 1).unwrap();
            task.node_table(&[Processor { node: 1, cid }], 0).unwrap();
        }
        pair[0].write(0, &[cid; 64]).unwrap();
        // All contexts use the same logical address. Some have no page there.
        if cid % 5 == 0 {
            pair[1].map(0, 0, &[]).unwrap();
        }
    }
    let again = system.create_task(Processor { node: 0, cid: 255 }, QUEUE);
    assert_eq!(again.unwrap_err(), TaskError::InUse { node: 0, cid: 255 });
    let senders: Vec<ContextTask> = tasks.iter().map(|[sender, _]| sender.clone()).collect();
    simulation.spawn(TaskName { kind: "system", index: 0 }, async move {
        for sender in senders {
            sender.load().unwrap();
            sender
                .send(&Header::write(PacketTarget::One(0), 0, WriteDestination::Address(0), 64))
                .await;
            assert_eq!(sender.interrupt().await, Interrupt::QueueEmpty);
            sender.unload().unwrap();
        }
    });
    simulation.run().unwrap();
    for (cid, [_, receiver]) in (0..=255_u8).zip(&tasks) {
        match cid % 5 {
            0 => {
                let fault = Interrupt::Fault(Module::Receiver, AddressFault { address: 0 });
                assert_eq!(receiver.take_interrupt(), Some(fault));
            }
            _ => assert_eq!(receiver.read(0, 64).unwrap(), [cid; 64]),
        }
    }
}

#[test]
fn cj_06_an_address_outside_of_the_pages_is_a_fault_at_its_end() {
    let job = Job::new(32, 2);
    // Segment 2 has pages 5 to 7, except page 6.
    let first = job.system.allocate(1, 3);
    job.tasks[1].map(2, 5, &[Some(first), None, Some(first + 2)]).unwrap();
    let base = segment_base(2);
    job.tasks[1].write(base + 5 * PAGE, &[0xAA; 4096]).unwrap();
    job.tasks[0].write(0, &pattern(PAGE, 3)).unwrap();
    job.on(0, async move |task| {
        for page in [4, 5, 6, 7, 8] {
            task.send(&write(256, 0, WriteDestination::Address(base + page * PAGE))).await;
        }
        // On the Sender's side: segment 3 does not exist. Half of the data below is mapped.
        task.send(&write(8, segment_base(3), WriteDestination::Address(0))).await;
        task.send(&write(2 * PAGE, 139 * PAGE, WriteDestination::Address(0))).await;
        for address in [segment_base(3), 140 * PAGE] {
            let fault = Interrupt::Fault(Module::Sender, AddressFault { address });
            while task.interrupt().await != fault {}
        }
    });
    job.run();
    for page in [4, 6, 8] {
        let fault = AddressFault { address: base + page * PAGE };
        let found = job.tasks[1].take_interrupt();
        assert_eq!(found, Some(Interrupt::Fault(Module::Receiver, fault)));
    }
    assert_eq!(job.tasks[1].read(base + 5 * PAGE, 256).unwrap(), pattern(256, 3));
    assert_eq!(job.tasks[1].read(base + 7 * PAGE, 256).unwrap(), pattern(256, 3));
}

#[test]
fn cj_07_only_the_running_task_changes_its_address_registers() {
    let job = Job::new(32, 2);
    let other = job.system.create_task(Processor { node: 1, cid: 9 }, QUEUE).unwrap();
    assert_eq!(other.set_register(0, 64), Err(TaskError::NotRunning));
    other.schedule();
    assert_eq!(other.set_register(0, 64), Ok(()));
    assert_eq!(job.tasks[1].set_register(0, 8), Err(TaskError::NotRunning));
    assert_eq!((other.entry().registers[0], job.tasks[1].entry().registers[0]), (64, 0));
}

#[test]
fn cj_08_pointers_tell_of_messages_and_the_log_of_each_packet() {
    let job = Job::new(32, 3);
    let data = [pattern(600, 1), pattern(600, 2)];
    for (task, data) in job.tasks[1..].iter().zip(&data) {
        task.write(0, data).unwrap();
    }
    for node in [1, 2] {
        job.on(node, async |task| {
            task.send(&Header::write(PacketTarget::One(0), 0, WriteDestination::Message(0), 600))
                .await;
        });
    }
    job.on(0, async move |task| {
        task.wait_until(|task| task.entry().messages[0] == 1200).await;
        // One buffer holds packets of both messages. The log says to which each belongs.
        let mut found = [Vec::new(), Vec::new()];
        let mut lasts = 0;
        for number in 0..task.entry().log / 16 {
            let record = task.record(number).unwrap().unwrap();
            assert_eq!(record.kind, LogKind::Message);
            let bytes = task.read(record.address, u64::from(record.bytes)).unwrap();
            found[usize::from(record.source) - 1].extend(bytes);
            lasts += u32::from(record.last);
        }
        assert_eq!((&found, lasts), (&data, 2));
    });
    job.run();
}

#[test]
fn cj_09_a_quarter_is_reported_before_a_buffer_runs_over() {
    let job = Job::new(32, 2);
    job.tasks[0].write(0, &pattern(16 * PAGE, 5)).unwrap();
    let sim = job.simulation.clone();
    job.on(0, async move |task| {
        for number in 0..64 {
            task.send(&write(PAGE / 4, number * PAGE / 4, WriteDestination::Message(0))).await;
            sim.delay(Time::from_nanoseconds(9_000)).await;
        }
    });
    job.on(1, async |task| {
        // The program does something else. Its handler empties a quarter at each interrupt.
        let mut found = Vec::new();
        while found.len() < 16 * PAGE as usize {
            if let Interrupt::Quarter { buffer: ReceiveBuffer::Message(0), .. } =
                task.interrupt().await
            {
                let at = found.len() as u64 % PAGE;
                found.extend(task.read(MESSAGES + at, PAGE / 4).unwrap());
            }
        }
        assert!(found == pattern(16 * PAGE, 5), "nothing was written over");
    });
    job.run();
}

#[test]
fn cj_10_the_sender_is_told_when_its_data_may_change() {
    let job = Job::new(32, 2);
    job.tasks[0].write(0, &pattern(64 << 10, 1)).unwrap();
    job.on(0, async |task| {
        let place = WriteDestination::Address(0);
        task.send(&Header { ntf: Some(WORDS), ..write(64 << 10, 0, place) }).await;
        assert_eq!(task.word(WORDS), Ok(0));
        task.wait_word(WORDS, COMPLETED).await;
        task.write(0, &vec![0xEE; 64 << 10]).unwrap();
    });
    job.run();
    assert!(job.tasks[1].read(0, 64 << 10).unwrap() == pattern(64 << 10, 1));
}

#[test]
fn cj_11_a_request_that_cannot_be_answered_says_so() {
    let job = Job::new(32, 3);
    // Node 5 has no task, and segment 3 does not exist.
    let lost = Processor { node: 5, cid: 7 };
    let table = [job.tasks[0].processor(), job.tasks[1].processor(), lost];
    job.tasks[0].node_table(&table, 0).unwrap();
    job.on(0, async |task| {
        let (source, destination, bytes) = (segment_base(3), 0, 8);
        for (to, rrid) in [(1, 3), (2, 4)] {
            task.ask(to, ParcelOperation::Read { source, destination, bytes, rrid }).await;
            task.wait_word(NOTES + u64::from(rrid) * NOTIFICATION_BYTES, REFUSED).await;
            while task.interrupt().await != Interrupt::Unanswered {}
        }
    });
    job.run();
    assert_eq!(job.system.unanswered(0), 0);
}

/// All other nodes read from node 0 at once, each with many requests. Returns the maximum number of
/// waiting answers, and the time.
fn everyone_reads_from_one(answer_queue_bytes: u64) -> (usize, f64) {
    let mut costs = costs();
    costs.interface.answer_queue_bytes = answer_queue_bytes;
    let job = Job::with(&costs, 32, 32);
    let most = job.system.most_unanswered();
    for node in 1..32 {
        let system = job.system.clone();
        job.on(node, async move |task| {
            for number in 0..100_u64 {
                let (destination, rrid) = (8 * number, (number % 64) as u8);
                let read = ParcelOperation::Read { source: 0, destination, bytes: 8, rrid };
                task.ask(0, read).await;
                assert!(system.unanswered(node) <= most);
            }
            task.wait_until(|task| task.word(8 * 99) == Ok(77)).await;
        });
    }
    job.tasks[0].write(0, &77_u64.to_le_bytes()).unwrap();
    job.run();
    (job.system.most_answers(0), job.simulation.now().seconds())
}

#[test]
fn cj_12_outstanding_requests_are_limited_to_what_the_answer_queue_holds() {
    let (wide, _) = everyone_reads_from_one(64 << 10);
    let (narrow, _) = everyone_reads_from_one(4 << 10);
    assert!(narrow <= 128 && wide <= 2048, "{narrow} {wide}");
    assert!(wide > 128, "{wide}: without the limit a queue of 4 KB would overflow");
}

#[test]
fn cj_13_data_in_the_header_save_a_memory_access() {
    let flag = |header: Header| {
        let job = Job::new(32, 2);
        job.tasks[0].write(0, &[1; 16]).unwrap();
        job.on(1, async |task| task.wait_until(|task| task.word(8) != Ok(0)).await);
        job.time(async move |task| task.send(&header).await).seconds()
    };
    let inline = flag(Header::inline(PacketTarget::One(1), 1, 8, 8));
    let memory = flag(write(16, 0, WriteDestination::Address(0)));
    let saved = memory - inline;
    assert!((0.2e-6..1.0e-6).contains(&saved), "{saved}");
}

#[test]
fn cj_14_one_parcel_reaches_a_subset_each_at_its_own_address() {
    let job = Job::new(32, 32);
    let members: Vec<u16> = (0..32).filter(|number| number % 3 == 1).collect();
    for (number, task) in (0_u64..).zip(&job.tasks) {
        task.set_register(1, PAGE * number).unwrap();
    }
    let offset = job.tasks[9].register_multicast(&members).unwrap();
    job.tasks[9].write(0, &pattern(1000, 6)).unwrap();
    job.on(9, async move |task| {
        let target = PacketTarget::Group(offset);
        task.send(&Header::write(target, 0, WriteDestination::Register(1), 1000)).await;
    });
    job.run();
    let counts = job.system.network().counts();
    assert_eq!((counts.sent, counts.delivered), (4, 4 * members.len() as u64));
    for (number, task) in (0..).zip(&job.tasks) {
        let found = task.read(PAGE * u64::from(number), 1000).unwrap();
        let expected = if members.contains(&number) { pattern(1000, 6) } else { vec![0; 1000] };
        assert!(found == expected || number == 9 && !members.contains(&9), "{number}");
    }
}

#[test]
fn cj_14_a_multicast_stays_within_a_group_of_64_nodes() {
    let job = Job::new(128, 128);
    let task = &job.tasks[0];
    let all: Vec<u16> = (0..128).collect();
    assert_eq!(task.register_multicast(&all), Err(TaskError::ManyGroups));
    assert_eq!(task.register_multicast(&[63, 64]), Err(TaskError::ManyGroups));
    assert_eq!(task.register_multicast(&[1, 1]), Err(TaskError::BadMembers));
    assert_eq!(task.register_multicast(&[128]), Err(TaskError::BadMembers));
    assert_eq!(task.register_multicast(&all[..64]), Ok(0));
    assert_eq!(task.register_multicast(&all[64..]), Ok(1));
    // A barrier of more than 64 nodes: each node makes an atomic add by two multicasts.
    assert!(matches!(task.register_sync(&all, 0), Err(TaskError::Barrier(_))));
    let entered = Rc::new(Cell::new(0));
    for node in 0..128 {
        let (all, entered) = (all.clone(), Rc::clone(&entered));
        job.on(node, async move |task| {
            let halves = [&all[..64], &all[64..]];
            let groups = halves.map(|half| task.register_multicast(half).unwrap());
            entered.set(entered.get() + 1);
            for group in groups {
                let add = ParcelOperation::Add { value: 1, destination: WORDS };
                task.send(&Header::new(PacketTarget::Group(group), add)).await;
            }
            task.wait_word(WORDS, 128).await;
            assert_eq!(entered.get(), 128);
        });
    }
    job.run();
}

#[test]
fn cj_15_barriers_of_several_ids_go_on_at_once() {
    let job = Job::new(32, 32);
    let halves: [Vec<u16>; 2] = [(0..16).collect(), (16..32).collect()];
    let sids = [0, 127];
    let refused = job.tasks[0].register_sync(&halves[0], 128).unwrap_err();
    assert!(refused.to_string().contains("128"), "{refused}");
    let rounds = Rc::new(RefCell::new([0_u32; 32]));
    for node in 0..32 {
        let half = usize::from(node >= 16);
        let (members, sid) = (halves[half].clone(), sids[half]);
        let (sim, rounds) = (job.simulation.clone(), Rc::clone(&rounds));
        job.on(node, async move |task| {
            let offset = task.register_sync(&members, sid).unwrap();
            for round in 1..=3 {
                // The first half never delays the second.
                let work = if half == 0 { 50_000 + u64::from(node) } else { 10 };
                sim.delay(Time::from_nanoseconds(work)).await;
                rounds.borrow_mut()[node as usize] = round;
                task.send(&Header::new(PacketTarget::Sync(offset), ParcelOperation::Synchronise))
                    .await;
                task.wait_until(|task| task.synchronised(sid) == u64::from(round)).await;
                let all = rounds.borrow();
                let mine = if half == 0 { &all[..16] } else { &all[16..] };
                assert!(mine.iter().all(|&other| other >= round));
                assert!(half == 0 || all[0] <= 1);
            }
        });
    }
    job.run();
    // Another set cannot use an id that is in use.
    let error = job.tasks[0].register_sync(&[0, 1], 0).unwrap_err();
    assert!(matches!(error, TaskError::Barrier(_)), "{error}");
}

/// Words on two pages that are adjacent for the task, and on a page that follows the first one
/// physically and belongs to another task.
fn words_across_pages() -> (Job, Vec<u8>) {
    let job = Job::new(32, 2);
    let first = job.system.allocate(0, 4);
    job.tasks[0].map(2, 0, &[Some(first), Some(first + 2)]).unwrap();
    let other = job.system.create_task(Processor { node: 0, cid: 8 }, QUEUE).unwrap();
    other.map(0, 0, &[Some(first + 1)]).unwrap();
    other.write(0, &[0xBB; 64]).unwrap();
    let data = pattern(2 * PAGE, 7);
    job.tasks[0].write(segment_base(2), &data).unwrap();
    (job, data)
}

const ACROSS: Span = Span { source: segment(2) + 1004, destination: 0, bytes: 6000 };

#[test]
fn cj_17_the_word_at_a_pages_head_is_wrong_without_a_remedy() {
    let (job, data) = words_across_pages();
    let Span { source, bytes, .. } = ACROSS;
    job.on(0, async move |task| {
        task.send(&write(bytes, source, WriteDestination::Address(0))).await;
    });
    job.run();
    let (found, mut expected) = (job.tasks[1].read(0, 6000).unwrap(), data[1004..7004].to_vec());
    assert!(found != expected);
    expected[(4096 - 1004)..][..4].fill(0xBB);
    assert!(found == expected, "only that word is wrong, and it is the physically next page's");
}

#[test]
fn cj_17_both_remedies_give_the_right_word_and_hardware_is_faster() {
    let run = |by_copy: bool| {
        let (job, data) = words_across_pages();
        job.on(1, async move |task| {
            task.wait_until(|task| task.read(0, 6000).unwrap() == data[1004..7004]).await;
        });
        job.time(async move |task| match by_copy {
            false => task.put_words(1, ACROSS).await.unwrap(),
            true => task.put_words_by_copy(1, ACROSS, 128).await.unwrap(),
        })
    };
    let (hardware, software) = (run(false), run(true));
    assert!(hardware < software, "{hardware} {software}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Cases A to D of any length, between arbitrary pages.
    #[test]
    fn cj_02_cj_17_words_arrive_byte_exact_from_and_to_any_word(
        source in 0_u64..2600, destination in 0_u64..2600, words in 1_u64..2500,
    ) {
        let job = Job::new(4, 2);
        for task in &job.tasks {
            let first = job.system.allocate(task.processor().node, 10);
            let frames: Vec<Option<u64>> = (0..5).map(|page| Some(first + 9 - 2 * page)).collect();
            task.map(2, 0, &frames).unwrap();
            task.write(segment_base(2), &[0xFF; 5 * PAGE as usize]).unwrap();
        }
        let (source, destination, bytes) = (4 * source, 4 * destination, 4 * words);
        let bytes = bytes.min(5 * PAGE - source.max(destination));
        let data = pattern(bytes, 2);
        job.tasks[0].write(segment_base(2) + source, &data).unwrap();
        let base = segment_base(2);
        let span = Span { source: base + source, destination: base + destination, bytes };
        job.on(0, async move |task| task.put_words(1, span).await.unwrap());
        job.run();
        let found = job.tasks[1].read(base, 5 * PAGE).unwrap();
        let mut expected = vec![0xFF; 5 * PAGE as usize];
        expected[destination as usize..][..bytes as usize].copy_from_slice(&data);
        prop_assert!(found == expected);
    }

    /// Arbitrary words as a header change nothing outside of the task's pages, and the Sender
    /// continues.
    #[test]
    fn any_header_is_served_or_refused(words in any::<[u8; 32]>(), first in 0_u8..11) {
        let job = Job::new(4, 2);
        let witness = job.system.create_task(Processor { node: 1, cid: 1 }, QUEUE).unwrap();
        witness.map_new(0, 1).unwrap();
        witness.write(0, &[0x55; 4096]).unwrap();
        // Protocol and type are often valid; the rest is not.
        let mut header = words;
        header[0] = first | words[0] & 0x70;
        header[5] &= 3;
        header[6] = 0;
        header[7] = 0;
        job.on(0, async move |task| {
            task.send_words(&header).await;
            task.send(&Header::inline(PacketTarget::One(1), 9, WORDS + 64, 8)).await;
        });
        job.on(1, async |task| task.wait_word(WORDS + 64, 9).await);
        job.run();
        prop_assert!(witness.read(0, 4096).unwrap().iter().all(|&byte| byte == 0x55));
    }
}

/// Three tasks share the two register sets of a node's Sender. The operating system passes a set on
/// when a queue is empty; meanwhile tasks compute. Returns the data that arrived.
#[test]
fn cj_23_the_event_of_an_empty_queue_passes_the_sender_on() {
    let simulation = Simulation::new(1);
    let system = CenjuSystem::new(&simulation, &costs(), Rc::new(Multistage::new(4)), 544);
    let make = |node, cid| {
        let task = system.create_task(Processor { node, cid }, QUEUE).unwrap();
        task.map_new(0, 16).unwrap();
        task.node_table(&[Processor { node: 1, cid }], 0).unwrap();
        task
    };
    let senders: Vec<ContextTask> = (0..5).map(|cid| make(0, cid)).collect();
    let receivers: Vec<ContextTask> = (0..5).map(|cid| make(1, cid)).collect();
    let computed = Rc::new(Cell::new(0_u32));
    for (index, task) in (0..).zip(senders.clone()) {
        let (sim, computed) = (simulation.clone(), Rc::clone(&computed));
        simulation.spawn(TaskName { kind: "task", index }, async move {
            task.write(0, &pattern(40_000, index as u8)).unwrap();
            task.send(&Header::write(
                PacketTarget::One(0),
                0,
                WriteDestination::Address(0),
                40_000,
            ))
            .await;
            // The task continues, whether or not its queue is loaded.
            sim.delay(Time::from_nanoseconds(1_000)).await;
            computed.set(computed.get() + 1);
        });
    }
    let (sim, tasks) = (simulation.clone(), senders.clone());
    let at_first = Rc::clone(&computed);
    simulation.spawn(TaskName { kind: "system", index: 0 }, async move {
        tasks[0].load().unwrap();
        tasks[1].load().unwrap();
        assert_eq!(tasks[2].load(), Err(TaskError::NoRegisterSet));
        sim.delay(Time::from_nanoseconds(2_000)).await;
        assert_eq!(tasks[0].unload(), Err(TaskError::Busy));
        for next in 2..5 {
            let before = &tasks[next - 2];
            assert_eq!(before.interrupt().await, Interrupt::QueueEmpty);
            assert_eq!(at_first.get(), 5, "all have computed meanwhile");
            before.unload().unwrap();
            tasks[next].load().unwrap();
        }
    });
    simulation.run().unwrap();
    for (index, task) in (0_u8..).zip(&receivers) {
        assert!(task.read(0, 40_000).unwrap() == pattern(40_000, index), "{index}");
    }
}

#[test]
fn a_task_that_waits_for_what_nobody_writes_is_named() {
    let job = Job::new(4, 1);
    job.on(0, async |task| task.wait_word(WORDS, 1).await);
    let Err(SimError::Deadlock { stuck, .. }) = job.simulation.run() else { panic!("it ends") };
    assert_eq!(stuck[0].to_string(), "node 0 waits for a write of the interface");
}

#[test]
fn system_calls_refuse_what_the_machine_has_not() {
    let job = Job::new(4, 1);
    let create = |node, bytes| job.system.create_task(Processor { node, cid: 0 }, bytes);
    assert_eq!(create(4, QUEUE).unwrap_err(), TaskError::NoSuchNode { node: 4 });
    for bytes in [QUEUE - 32, (64 << 10) + 32, QUEUE + 8] {
        assert_eq!(create(0, bytes).unwrap_err(), TaskError::QueueSize { bytes });
    }
    let task = &job.tasks[0];
    assert_eq!(task.map_new(4, 1), Err(TaskError::NoSuchSegment { segment: 4 }));
    let table = vec![task.processor(); 4097];
    assert_eq!(task.node_table(&table, 0), Err(TaskError::TableFull));
    let nowhere = Processor { node: 4, cid: 0 };
    assert_eq!(task.node_table(&[nowhere], 0), Err(TaskError::NoSuchNode { node: 4 }));
    let area = AddressArea { address: 0, bytes: 40 };
    assert_eq!(task.set_buffer(ReceiveBuffer::Log, area), Err(TaskError::BadArea));
    assert_eq!(task.set_buffer(ReceiveBuffer::Message(2), area), Err(TaskError::BadArea));
    let inline = ParcelOperation::Write {
        source: WriteSource::Inline(0),
        place: WriteDestination::Message(0),
        bytes: 8,
    };
    job.on(0, async move |task| {
        task.send(&Header::new(PacketTarget::One(0), inline)).await;
        let Interrupt::Rejected(error) = task.interrupt().await else { panic!("it is refused") };
        assert!(matches!(error, HeaderError::UnusedBits { .. }), "{error}");
    });
    job.run();
}
