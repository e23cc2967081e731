//! The memory of a rank, measured by counting allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{Job, JobConfig, PacketFormat, PlainInterface};
use hikyaku_sim::network::{LogGp, LogGpParameters, Network, NetworkModel, Rate, Timing, Wormhole};
use hikyaku_sim::topology::Grid;

/// The system's allocator with a counter.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator with the caller's arguments, and its
// result is returned unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises about `layout` are the system's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `place` came from `alloc` above with this layout, so from the system.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes per rank of a job whose ranks all wait for a message that never arrives.
fn bytes_per_idle_rank(ranks: u32, model: impl FnOnce() -> Box<dyn NetworkModel>) -> usize {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let simulation = Simulation::new(0);
    let network = Network::new(&simulation, model());
    let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let job = Job::new(&simulation, JobConfig::new(ranks), interface).expect("as many nodes");
    let ended = job.run(|rank| async move {
        rank.recv(None, None).await;
    });
    let after = ALLOCATED.load(Ordering::Relaxed);
    // The error lists every waiting rank. That list is not part of a rank's memory.
    let Err(SimError::Deadlock { stuck, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(stuck.len(), ranks as usize);
    let list = stuck.capacity() * size_of_val(&stuck[0])
        + stuck.iter().map(|entry| entry.waits_for.capacity()).sum::<usize>();
    (after - before - list) / ranks as usize
}

#[test]
fn an_idle_rank_takes_at_most_two_kibibytes() {
    const RANKS: u32 = 100_000;
    let rate = Rate::bytes_per_second(1e9);
    let log_gp = LogGpParameters { latency: Time::ZERO, gap: Time::ZERO, rate };
    let ideal = bytes_per_idle_rank(RANKS, || Box::new(LogGp::new(RANKS, log_gp)));
    // With a separate network: the channels and links of a 3-D torus count, too.
    let timing = Timing::uniform(Time::ZERO, rate, 16);
    let torus = Rc::new(Grid::torus(&[50, 50, 40]));
    let torus = bytes_per_idle_rank(RANKS, || Box::new(Wormhole::new(torus, &timing)));
    println!("bytes per idle rank: {ideal} on an ideal network, {torus} on a 3-D torus");
    assert!(ideal <= 2048 && torus <= 2048, "{ideal}, {torus}");
}
