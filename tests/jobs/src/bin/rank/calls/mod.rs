//! Every call of `World`, in a job of any number of ranks on any nodes.
//!
//! The cases run one after the other in one world, with a barrier between them, so that leftovers
//! of one (a message, a posted receive, unreturned credit) disturb the next.

mod buffers;
mod collective;
mod errors;
mod futures;
mod matching;
mod modes;
mod neighbours;
mod persistent;
mod requests;
mod scattered;
mod shared;
mod together;
mod topologies;
mod windows;

use std::thread;

use hikyaku::{ANY_SOURCE, ANY_TAG, Error, World};
use hikyaku_jobs::at_length;

/// A case: panics if the library is wrong; no error is expected.
type Case = fn(&World, u64) -> Result<(), Error>;

const CASES: &[(&str, Case)] = &[
    ("matching: ring", matching::ring),
    ("matching: a token goes around", matching::token),
    ("matching: wildcards in order", matching::wildcards_in_order),
    ("matching: messages do not overtake", matching::no_overtaking),
    ("matching: duplicates are apart", matching::duplicates_are_apart),
    ("matching: to itself", matching::to_itself),
    ("modes: synchronous", modes::synchronous),
    ("modes: ready", modes::ready),
    ("modes: probe", modes::probe),
    ("requests: test", requests::test),
    ("requests: wait for any", requests::wait_any),
    ("requests: cancel", requests::cancel),
    ("requests: forgotten", requests::forgotten),
    ("requests: abandoned", requests::abandoned),
    ("requests: scatter and gather", requests::cp_09_answers_come_back_while_parts_go_out),
    ("futures: join", futures::join_both),
    ("futures: join all", futures::join_many),
    ("futures: dropped", futures::dropped),
    ("collective: barrier", collective::barrier),
    ("collective: broadcast", collective::broadcast),
    ("collective: allreduce", collective::allreduce),
    ("collective: allgather", collective::allgather),
    ("collective: disagreement", collective::disagreement),
    ("collective: gather", collective::gather),
    ("collective: gather blocks", collective::gather_blocks),
    ("collective: unequal gather", collective::unequal_gather),
    ("together: reductions", together::reductions),
    ("together: operations of one's own", together::own_operations),
    ("together: movements", together::movements),
    ("together: all to all", together::all_to_all),
    ("together: in flight", together::in_flight),
    ("together: in a scope", together::in_a_scope),
    ("together: progress within other calls", together::progress_within_other_calls),
    ("together: persistent", together::persistent),
    ("together: persistent of every kind", together::persistent_of_every_kind),
    ("together: persistent mistakes", together::persistent_mistakes),
    ("together: mismatch", together::mismatch),
    ("together: abandoned", together::abandoned),
    ("together: no element is cut", together::no_element_is_cut),
    ("together: all to all by layouts", scattered::blocking),
    ("together: layouts of any lengths", scattered::counts),
    ("together: layouts in flight", scattered::started),
    ("together: mistakes of layouts", scattered::mistakes),
    ("topologies: grids", topologies::grids),
    ("topologies: slices of grids", topologies::slices),
    ("topologies: graphs", topologies::graphs),
    ("topologies: ranks placed on nodes", topologies::placed),
    ("topologies: mistakes", topologies::mistakes),
    ("neighbours: opposite blocks", neighbours::opposite_blocks),
    ("neighbours: random graphs", neighbours::random_graphs),
    ("neighbours: layouts", neighbours::layouts),
    ("neighbours: persistent", neighbours::persistent),
    ("neighbours: in a scope", neighbours::in_a_scope),
    ("neighbours: many at once", neighbours::many_at_once),
    ("neighbours: unequal sizes", neighbours::unequal_sizes),
    ("neighbours: abandoned", neighbours::abandoned),
    ("neighbours: left out", neighbours::left_out),
    ("buffers: shared", buffers::shared),
    ("windows: put and get", windows::put_and_get),
    ("windows: bounds", windows::bounds),
    ("windows: atomics", windows::atomics),
    ("windows: signals", windows::signals),
    ("windows: address registers", windows::cj_03_receivers_choose_the_place),
    ("windows: dropped", windows::dropped),
    ("windows: many", windows::many),
    ("shared: counts", shared::fg_10_fg_11_fg_14_fg_20_contents_are_whole_and_never_older),
    ("shared: rows change hands", shared::fg_16_fg_20_rows_change_hands),
    ("shared: messages by protocol", shared::fg_17_direct_stores_need_fewer_messages),
    (
        "shared: a clean copy moves nothing",
        shared::fg_02_fg_03_fg_07_fg_08_a_clean_copy_moves_nothing,
    ),
    ("shared: a stopped owner delays nobody", shared::fg_06_a_stopped_owner_delays_nobody),
    (
        "shared: a bystander is told",
        shared::fg_06_fg_07_fg_08_a_bystander_is_told_with_no_processor,
    ),
    ("shared: readers and a writer", shared::fg_09_readers_and_a_writer),
    ("shared: a reader keeps", shared::fg_21_an_invalidation_leaves_a_reader_alone),
    ("shared: tried", shared::tried),
    ("shared: dropped", shared::dropped),
    ("shared: mistakes", shared::fg_05_mistakes_as_more_than_8192_variables),
    ("shared: side by side", shared::side_by_side),
    ("shared: owners come and go", shared::owners_come_and_go),
    ("errors: truncation", errors::truncation),
    ("errors: part of an element", errors::part_of_an_element),
    ("errors: no such rank or tag", errors::no_such_rank_or_tag),
    ("errors: joining twice", errors::joining_twice),
    ("errors: too much memory", errors::too_much_memory),
    ("persistent: rings", persistent::tf_06_tf_08_tf_09_tf_14_both_neighbours_of_a_ring),
    ("persistent: random graphs", persistent::tf_06_tf_11_tf_13_random_graphs),
    ("persistent: all are neighbours", persistent::tf_06_tf_11_tf_14_all_are_neighbours),
    ("persistent: many rounds", persistent::tf_11_tf_15_many_rounds_with_jitter),
    ("persistent: asleep", persistent::tf_10_the_exchange_goes_on_while_all_but_one_sleep),
    (
        "persistent: one or both directions",
        persistent::tf_18_fast_serves_both_directions_at_once_and_mrc_one_after_the_other,
    ),
    (
        "persistent: plane",
        persistent::tf_20_fast_serves_the_four_neighbours_of_a_plane_each_by_itself,
    ),
    ("persistent: in place", persistent::in_place),
    ("persistent: two requests", persistent::tf_21_a_loop_of_two_buffers_has_two_requests),
    ("persistent: in turn", persistent::in_turn),
    ("persistent: order", persistent::order),
    ("persistent: mistakes", persistent::mistakes),
    ("persistent: queues run out", persistent::tf_19_fast_falls_back_to_mrc_when_queues_run_out),
    // The last case, because data in flight is not taken back.
    ("persistent: freed in flight", persistent::freed_in_flight),
];

/// Prints which case failed, besides the panic's own message.
struct Named<'a> {
    case: &'a str,
    rank: u32,
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("rank {} was in the case \"{}\"", self.rank, self.case);
        }
    }
}

/// The word that selects all cases that hold in virtual time.
const VIRTUAL: &str = "in virtual time";

/// Cases that cannot hold there, with the reasons.
const NOT_VIRTUAL: &[&str] = &[
    // Messages of different ranks have paths of different length, so they do not arrive in the
    // order in which they were sent.
    "matching: wildcards in order",
    // It checks that everything has arrived at the moment at which the last rank has started. There
    // nothing arrives at once; all waits there show that no rank's help is needed.
    "persistent: asleep",
    // There are no letters there: by messages, a rank that has made no call is waited for.
    "neighbours: left out",
    // A rank is stopped in its turn, and no other rank's turn comes.
    "shared: a stopped owner",
];

/// The case of a thousand rounds is a long one in virtual time: each wait is a turn of a process,
/// and without faults all rounds are alike, since the ranks' computing between them takes no time
/// there.
const LONG_IF_VIRTUAL: &str = "persistent: many rounds";

/// Cases of whole jobs: variables, joining, and the words of rounds of a node.
const WHOLE: &[&str] =
    &["shared: ", "buffers: shared", "errors: joining twice", "collective: disagreement"];

/// Runs the cases in two halves of the ranks at the same time, each with a communicator of its own
/// that numbers them backwards; then in communicators made from that.
pub(crate) fn run_divided(world: &World, seed: u64, only: &str) -> Result<(), Error> {
    let key = -(world.rank() as i32);
    let half = world.split(world.rank() % 2, key)?.expect("every rank has a color");
    assert_eq!(half.size(), (world.size() + 1 - world.rank() % 2) / 2);
    assert_eq!(half.rank(), half.size() - 1 - world.rank() / 2);
    let wanted =
        |case: &str| case.starts_with(only) && !WHOLE.iter().any(|name| case.starts_with(name));
    run_cases(&half, seed, &wanted)?;
    // In a group of the first ranks of a half, in another order, and in its duplicate.
    let mut ranks: Vec<u32> = (0..half.size().min(3)).collect();
    ranks.rotate_left(1);
    if ranks.contains(&half.rank()) {
        let island = half.create_group(&ranks)?.duplicate();
        assert_eq!(ranks[island.rank() as usize], half.rank());
        run_cases(&island, seed, &|case| case.starts_with("matching: ") && case.starts_with(only))?;
    }
    world.barrier()
}

/// Runs all cases, or those whose name begins with `only`; at the end nothing may be left over.
pub(crate) fn run(world: &World, seed: u64, only: &str) -> Result<(), Error> {
    let wanted = |case: &str| match only {
        VIRTUAL => {
            let holds = !NOT_VIRTUAL.iter().any(|name| case.starts_with(name));
            let differ = at_length() && std::env::var_os("HIKYAKU_FAULTS").is_some();
            holds && (differ || case != LONG_IF_VIRTUAL)
        }
        only => case.starts_with(only),
    };
    run_cases(world, seed, &wanted)?;
    let left = world.statistics();
    assert_eq!((left.unexpected_messages, left.unexpected_bytes), (0, 0), "messages left over");
    assert_eq!((left.malformed, left.stray), (0, 0), "packets that made no sense");
    Ok(())
}

fn run_cases(world: &World, seed: u64, wanted: &dyn Fn(&str) -> bool) -> Result<(), Error> {
    for (case, body) in CASES.iter().filter(|(case, _)| wanted(case)) {
        let named = Named { case, rank: world.rank() };
        body(world, seed).unwrap_or_else(|error| panic!("{error}"));
        // Between the barriers all ranks are here and none is in the next case.
        world.barrier()?;
        assert_eq!(world.iprobe(ANY_SOURCE, ANY_TAG)?, None, "a message is left over");
        world.barrier()?;
        drop(named);
    }
    Ok(())
}

/// The rank `distance` after this one and the rank as far before it, in a ring.
fn around(world: &World, distance: u32) -> (u32, u32) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + distance) % size, (rank + size - distance % size) % size)
}

/// The partner of this rank, if it has one: 0 with 1, 2 with 3 and so on.
fn partner(world: &World) -> Option<u32> {
    let partner = world.rank() ^ 1;
    (partner < world.size()).then_some(partner)
}

/// Whether this rank is the first of its pair.
fn is_first(world: &World) -> bool {
    world.rank().is_multiple_of(2)
}
