//! The rules of a fabric as test bodies, so that a fabric only instantiates them.
//!
//! Each body is a function over a [`Harness`]: it opens a job, drives the ports and asserts one
//! rule from the head of `hikyaku_nic::fabric` or one number of the checklist for paper 000
//! (IP-01 to IP-25). [`conformance!`] makes a `#[test]` of every body:
//!
//! ```text
//! struct Loopback;
//! impl Harness for Loopback { /* open, kill */ }
//! hikyaku_conformance::conformance!(Loopback);
//! hikyaku_conformance::conformance_layered!(Loopback);
//! ```
//!
//! [`conformance_layered!`] does the same for the layers of `nic` over the fabric, and for each
//! kind of fault that they inject.
//! [`conformance_between_hosts!`] has the bodies that hold if ranks share no memory;
//! [`conformance_of_one_host!`] has the others, with the reasons.
//!
//! The bodies hold for fabrics that answer at once and for those behind a layer that delays,
//! refuses or loses: [`Job::offer`] accepts "full" as an answer only if it persists, and
//! [`Harness::settle`] brings accepted commands to their destination. Nothing sleeps and nothing is
//! timed; loops are bounded by counts.
//!
//! ```text
//!   job       driving ports: offer, send, take, reassemble
//!   landing   IP-01 to IP-09, IP-23, IP-24        tables   IP-12 to IP-14, IP-25
//!   full      IP-10, IP-11, the status ring       wrap     IP-22, inline sizes
//!   credit    grants                              command  chains, ranks out of range
//!   remote    put, read, regions, nodes           death    ends in order and otherwise
//!   session   command queues, TF-01 to TF-05, TF-07, TF-08, TF-16, TF-17, TF-19, TF-22
//!   figures   IP-15 to IP-17, CJ-21, CP-03, CP-15: the causes of printed times and rates
//!   mail      mailboxes: letters of rounds
//!   group     CJ-14, CJ-15, rounds              multicast  CJ-14: into memory
//!   protection  CJ-04 to CJ-07                    atomic   CJ-03, CJ-10 to CJ-12
//!   threads, race  the same rules with a thread a rank
//!   access    shared by the bodies on remote operations
//!   layered   a harness of a layer over another harness's fabric
//! ```

#![cfg(not(loom))]

pub mod access;
pub mod atomic;
pub mod command;
pub mod credit;
pub mod death;
pub mod figures;
pub mod full;
pub mod group;
pub mod job;
pub mod landing;
pub mod layered;
pub mod mail;
pub mod multicast;
pub mod protection;
pub mod race;
pub mod remote;
pub mod session;
pub mod tables;
pub mod threads;
pub mod wrap;

pub use job::{Job, Received};

use hikyaku_nic::fabric::{
    Completion, ContextError, ContextId, CopyPort, FullPolicy, GroupError, GroupId, GroupPort, Key,
    MailboxPort, MemoryPort, Port, QueueId, QueuePort, Rank, RegisterValue, RingPort,
};
use hikyaku_nic::hosted::{Host, HostedPort};
use hikyaku_nic::layer::{FaultInjector, Layer};
use hikyaku_nic::segment::{GroupLayout, SegmentLayout};

/// A port over [`HostedPort`], with features of the papers' interfaces that no capability trait
/// passes on: address registers and the completions of a queue. See there.
#[expect(missing_docs, clippy::missing_errors_doc, reason = "as those of `HostedPort`")]
pub trait TablePort {
    type Host: Host;

    fn tables<R>(&mut self, call: impl FnOnce(&mut HostedPort<Self::Host>) -> R) -> R;

    fn register_key(&mut self, context: ContextId, register: u8) -> Result<Key, ContextError> {
        self.tables(|port| HostedPort::register_key(port, context, register))
    }

    fn set_address_register(
        &mut self,
        context: ContextId,
        register: u8,
        value: Option<RegisterValue>,
    ) -> Result<(), ContextError> {
        self.tables(|port| HostedPort::set_address_register(port, context, register, value))
    }

    fn address_register(
        &mut self,
        context: ContextId,
        register: u8,
    ) -> Result<Option<RegisterValue>, ContextError> {
        self.tables(|port| HostedPort::address_register(port, context, register))
    }

    fn set_registers(&mut self, group: GroupId, registers: &[Key]) -> Result<(), GroupError> {
        self.tables(|port| HostedPort::set_registers(port, group, registers))
    }

    fn completion(&mut self, queue: QueueId) -> Option<Completion> {
        self.tables(|port| HostedPort::completion(port, queue))
    }
}

impl<H: Host> TablePort for HostedPort<H> {
    type Host = H;

    fn tables<R>(&mut self, call: impl FnOnce(&mut HostedPort<H>) -> R) -> R {
        call(self)
    }
}

impl<P: Port + TablePort> TablePort for FaultInjector<P> {
    type Host = P::Host;

    fn tables<R>(&mut self, call: impl FnOnce(&mut HostedPort<P::Host>) -> R) -> R {
        self.inner_mut().tables(call)
    }
}

/// How one fabric is opened and controlled.
pub trait Harness {
    /// Its port. The suite needs every capability.
    type P: RingPort
        + CopyPort
        + MemoryPort
        + QueuePort
        + MailboxPort
        + GroupPort
        + TablePort
        + Send;

    /// Opens the ports of all ranks of a job.
    fn open(&self, setup: &Setup) -> Vec<Self::P>;

    /// Ends the port's rank as a kill would: landed messages stay, held-back ones are lost, and the
    /// other ranks are told. The port is dropped next.
    fn kill(&self, port: &mut Self::P);

    /// Brings every command that the port has accepted to its destination, while there is room.
    /// A fabric that lands before `post` returns has nothing to do.
    fn settle(&self, _port: &mut Self::P) {}

    /// The epoch of the port as a rank sees it: it grows by two when the port's rank has accessed
    /// that rank's memory. `None`: another process accesses it.
    fn epoch(&self, _port: &mut Self::P, _at: Rank) -> Option<u64> {
        None
    }

    /// How often the port rang its doorbell, if it counts.
    fn doorbells(&self, _port: &mut Self::P) -> Option<u64> {
        None
    }
}

/// The parameters of a job.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Sizes of every rank's segment; `layout.ranks` is the number of ranks.
    pub layout: SegmentLayout,
    /// Ranks on each virtual node.
    pub ranks_per_node: u32,
    /// Bytes of each rank's region.
    pub region_bytes: usize,
}

impl Setup {
    /// A small job: a private ring of 4 KiB a source, packets of 512 bytes, 64 records a ring.
    pub fn private(ranks: u32) -> Setup {
        let layout = SegmentLayout {
            ranks,
            posters: u32::MAX,
            status_rings: ranks,
            status_slots: 64,
            status_policy: FullPolicy::Stall,
            rings: ranks,
            first_rings: ranks,
            ring_bytes: 4096,
            ring_policy: FullPolicy::Stall,
            packet_bytes: 512,
            credit: 256,
            queues: 4,
            queue_slots: 16,
            contexts: 4,
            segments: 4,
            groups: GroupLayout { channels: 2, area_bytes: 4096 },
        };
        Setup { layout, ranks_per_node: ranks, region_bytes: 64 << 10 }
    }

    /// The same with `rings` landing rings and as many status rings; source `s` has ring `s %
    /// rings`.
    pub fn shared(ranks: u32, rings: u32) -> Setup {
        let mut setup = Setup::private(ranks);
        (setup.layout.rings, setup.layout.first_rings) = (rings, rings);
        setup.layout.status_rings = rings;
        setup
    }

    /// The same with another policy for full landing rings.
    #[must_use]
    pub fn ring_policy(mut self, policy: FullPolicy) -> Setup {
        self.layout.ring_policy = policy;
        self
    }

    /// The same with another policy for the full status ring.
    #[must_use]
    pub fn status_policy(mut self, policy: FullPolicy) -> Setup {
        self.layout.status_policy = policy;
        self
    }
}

/// Makes a `#[test]` of every body for the fabric that the harness expression opens.
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        $crate::conformance_between_hosts!(conformance_tests $harness);
        $crate::conformance_of_one_host!(conformance_tests $harness);
    };
}

/// The bodies that hold between hosts, for another macro of this crate: `conformance_tests HARNESS`
/// makes a `#[test]` of each, `conformance_calls "name"` a function `every_body` that runs them
/// all.
#[macro_export]
macro_rules! conformance_between_hosts {
    ($then:ident $what:expr) => {
        $crate::$then! { $what;
            landing: ip_01_cj_08_send_and_put_go_side_by_side,
            landing: ip_02_equal_table_entries_land_in_one_ring,
            landing: ip_03_different_entries_never_mix,
            landing: ip_04_a_shared_ring_keeps_senders_apart_and_a_shared_address_does_not,
            landing: ip_05_the_tail_counts_what_has_landed,
            landing: ip_06_a_record_per_packet_or_per_message,
            landing: fg_13_4_kib_are_nine_packets_of_464_bytes,
            landing: ip_07_interleaved_messages_are_reassembled,
            landing: ip_09_poll_yields_the_order_of_arrival,
            landing: ip_24_a_ring_per_source_is_a_queue_per_source,
            full: ip_10_a_full_ring_stalls_tells_and_resumes,
            full: ip_10_nothing_is_lost_or_doubled_across_many_stalls,
            full: cj_16_a_receiver_without_room_holds_up_nobody_else,
            full: cj_01_one_record_larger_than_the_ring_is_an_error,
            full: packets_of_a_message_larger_than_the_ring_flow_in_parts,
            tables: ip_12_release_advances_the_head,
            tables: ip_12_read_out_advances_the_head,
            tables: ip_12_the_head_waits_for_the_oldest,
            tables: ip_13_the_tables_can_be_read,
            tables: ip_13_a_changed_entry_re_routes_later_messages,
            tables: ip_13_impossible_entries_are_refused,
            tables: ip_13_a_private_ring_goes_from_source_to_source,
            tables: ip_11_each_ring_has_its_own_rule,
            tables: ip_14_the_sender_may_name_the_ring,
            wrap: ip_22_a_payload_wraps_at_every_offset,
            wrap: ip_22_an_exact_fit_fills_the_ring_from_every_offset,
            wrap: cj_13_inline_sizes_and_their_neighbours_are_byte_exact,
            credit: exhausted_credit_holds_up_and_a_grant_resumes,
            credit: a_grant_never_lowers,
            credit: being_held_up_is_told_once,
            command: cp_06_a_chain_runs_in_order,
            command: cp_06_a_chain_says_how_far_it_got,
            command: a_nop_takes_nothing_and_a_rank_may_send_to_itself,
            command: a_payload_is_the_callers_again_when_post_returns,
            command: receive_whole_takes_exactly_what_it_asks_for,
            remote: cp_05_a_put_arrives_before_its_notification,
            remote: cp_06_puts_of_a_chain_land_with_their_words,
            remote: cj_17_a_put_is_exact_from_and_to_any_byte,
            remote: a_put_out_of_bounds_writes_nothing,
            remote: regions_are_given_exhausted_and_given_back,
            protection: cj_04_a_logical_number_is_translated_or_refused,
            protection: cj_05_contexts_do_not_leak,
            protection: cj_05_256_contexts_of_a_rank_do_not_leak,
            protection: cj_05_a_context_that_is_open_again_does_not_know_old_keys,
            protection: cj_06_what_is_outside_of_a_segment_is_an_error_at_the_sender,
            protection: cj_06_a_stale_or_invented_key_opens_nothing,
            protection: cj_06_what_cannot_be_registered_is_refused,
            protection: cj_07_commands_write_memory_and_no_table,
            atomic: cj_11_atomic_operations_do_what_they_say,
            atomic: cj_11_a_get_brings_bytes_and_says_so,
            atomic: cj_12_outstanding_completions_are_limited,
            atomic: cj_03_a_put_lands_where_the_register_points,
            atomic: cj_03_a_register_that_advances_fills_its_segment,
            atomic: cj_03_long_puts_through_a_register_lie_side_by_side,
            atomic: words_that_cannot_be_are_refused,
            atomic: a_refused_command_of_a_chain_is_told_twice,
            atomic: cj_11_commands_go_between_nodes,
            race: fg_12_cj_11_atomic_operations_of_many_ranks_are_undivided,
            race: cj_06_memory_that_was_taken_back_is_not_written,
            death: what_the_dead_delivered_comes_before_its_death,
            death: posts_to_the_dead_fail_and_other_traffic_goes_on,
            death: leaving_in_order_is_not_dying,
            death: park_returns_at_its_deadline,
            threads: ip_04_threads_on_a_shared_ring_never_overwrite_each_other,
            threads: ip_05_a_record_is_visible_only_after_its_payload,
            threads: ip_09_each_source_arrives_in_order_under_contention,
            threads: ip_10_threads_stall_and_resume,
            threads: ip_11_threads_are_refused_and_send_again,
            threads: ip_13_private_rings_change_hands_under_contention,
            threads: everyone_sends_to_everyone,
            threads: credits_bound_a_fast_sender,
            threads: survivors_go_on_when_a_sender_dies,
            mail: a_letter_is_there_in_its_round,
            mail: what_does_not_fit_a_letter_is_an_error,
            mail: memory_is_kept_until_the_writer_has_ended,
            mail: threads_exchange_letters,
        }
    };
}

/// The other bodies of [`conformance!`]. They need features that ranks of different hosts lack:
///
/// - shared memory: `figures`, which reads rings, `group`, `multicast`, `session` and
///   `threads::rounds_and_barriers_of_all`; `reads_see_what_is_there_and_nothing_outside`,
///   `a_message_is_copied_by_either_end_or_both` and `memory_of_another_node_is_not_read`, whose
///   nodes are not hosts
/// - an interface that works without the target's processor: `ip_23_...`, and
///   `cj_03_operations_need_no_processor_of_the_target`
/// - an answer of the receiver before a send is taken: `ip_08_...`, `ip_25_...` and
///   `ranks_and_rings_out_of_range_are_errors`, where a refused send is dropped at the receiver;
///   `ip_11_a_...` and `a_full_status_ring_...`, where a source learns that there is no room, but
///   not of which kind
/// - a word at a third rank, or for a get: `cj_06_rights_...`, `cj_10_...`; a record of a write at
///   an address register: `cj_03_places_...`
#[macro_export]
macro_rules! conformance_of_one_host {
    ($then:ident $what:expr) => {
        $crate::$then! { $what;
            landing: ip_08_one_record_for_packets_on_a_shared_ring_is_refused,
            landing: ip_23_messages_land_while_the_receiver_does_nothing,
            full: ip_11_a_refusing_ring_gets_the_same_content_in_the_end,
            full: a_full_status_ring_stalls_tells_and_resumes,
            full: a_full_status_ring_refuses_and_counts_apart_from_rings,
            tables: ip_25_an_unmapped_source_is_served_by_put,
            command: ranks_and_rings_out_of_range_are_errors,
            remote: reads_see_what_is_there_and_nothing_outside,
            remote: a_message_is_copied_by_either_end_or_both,
            remote: memory_of_another_node_is_not_read,
            protection: cj_06_rights_are_what_the_owner_gave,
            atomic: cj_10_words_come_after_what_they_announce,
            race: cj_03_operations_need_no_processor_of_the_target,
            race: cj_03_places_taken_through_a_register_are_apart,
            group: cj_14_one_command_reaches_every_member,
            multicast: cj_14_every_member_has_its_own_address,
            multicast: cj_14_registers_move_on_as_their_members_say,
            multicast: cj_14_what_a_member_refuses_is_an_event_and_the_others_are_served,
            multicast: cj_12_cj_14_events_of_refusals_are_limited,
            multicast: cj_15_one_command_adds_at_every_member,
            multicast: what_cannot_be_multicast_is_refused,
            group: cj_14_a_multicast_stops_where_there_is_no_room,
            group: cj_15_barriers_of_several_ids_complete_apart,
            group: cj_15_ids_and_members_have_limits,
            group: cj_15_counters_have_rounds,
            group: cj_15_a_counter_misses_the_gone_by_name,
            group: rounds_carry_words_and_payloads,
            group: a_contributor_is_ahead_until_there_is_no_room,
            group: groups_take_no_room_from_each_other,
            group: the_gone_end_waits_by_name,
            group: impossible_groups_are_refused,
            group: a_channel_is_used_again,
            group: channels_are_offered_once_and_as_long_as_they_are_free,
            group: rounds_that_are_passed_over_hold_up_nobody,
            group: rounds_are_for_one_node,
            threads: rounds_and_barriers_of_all,
            session: tf_01_a_slot_runs_when_written_and_released_in_order,
            session: tf_02_an_arrival_advances_the_addressed_queue,
            session: tf_03_scheduling_may_lead_write,
            session: tf_04_the_mode_is_chosen_at_creation,
            session: tf_05_a_completion_per_command_and_an_event_per_notified_put,
            session: cj_23_an_empty_queue_passes_the_rank_on_to_its_task,
            session: tf_07_data_follows_ready_to_recv_in_either_order,
            session: tf_08_the_pointers_move_as_in_the_trace_of_fast,
            session: tf_11_threads_exchange_with_their_neighbours,
            session: tf_16_a_round_of_fast_is_the_same_commands_for_any_length,
            session: tf_17_by_mrc_the_second_put_waits_for_the_first_and_by_fast_for_nothing,
            session: tf_19_queues_and_slots_are_limited,
            session: cj_01_a_queue_takes_as_many_commands_as_have_run,
            session: tf_22_nop_and_a_put_to_ones_own_queue,
            session: a_third_rank_runs_what_it_releases,
            session: a_combination_is_computed_by_whoever_releases_it,
            session: large_copies_are_put_off_and_done,
            session: a_bad_command_is_an_error_completion_and_writes_nothing,
            session: a_release_beyond_what_can_be_counted_is_an_error,
            session: a_chain_can_be_repeated_without_writing_it,
            session: a_retired_queue_is_free_when_its_last_release_has_come,
            session: a_queue_that_is_abandoned_says_who_is_missing,
            figures: ip_15_the_ring_alone_asks_for_head_tail_and_room,
            figures: ip_16_without_read_out_a_round_trip_takes_the_records_alone,
            figures: ip_17_with_read_out_a_round_trip_leaves_the_rings_empty,
            figures: cj_21_the_same_order_waits_shifted_does_not_and_a_multicast_is_one_command,
            figures: cp_03_neighbours_exchange_in_all_directions_at_once,
            figures: cp_15_a_rank_receives_while_it_sends,
        }
    };
}

/// Instantiates the bodies for the fabric of the harness expression behind the layers of `nic`:
/// with an idle fault injector, with each kind of fault alone, and with all of them, one module
/// each.
#[macro_export]
macro_rules! conformance_layered {
    ($harness:expr) => {
        mod faults_off {
            use super::*;
            $crate::conformance!($crate::layered::layered($harness, $crate::layered::OFF));
        }
        mod delay {
            use super::*;
            $crate::conformance!($crate::layered::layered($harness, $crate::layered::DELAY));
        }
        mod refuse {
            use super::*;
            $crate::conformance!($crate::layered::layered($harness, $crate::layered::REFUSE));
        }
        mod drop_and_duplicate {
            use super::*;
            $crate::conformance!($crate::layered::layered($harness, $crate::layered::LOSSY));
        }
        $crate::conformance_all_faults!($harness);
    };
}

/// The same with all kinds of faults only.
#[macro_export]
macro_rules! conformance_all_faults {
    ($harness:expr) => {
        mod all_faults {
            use super::*;
            $crate::conformance!($crate::layered::layered($harness, $crate::layered::ALL));
        }
    };
}

/// The part of [`conformance!`] that writes the functions.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr; $($module:ident: $body:ident,)*) => {
        $(
            #[test]
            fn $body() {
                $crate::$module::$body(&$harness);
            }
        )*
    };
}

/// A function that runs bodies one after the other, and prints each name.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_calls {
    ($name:expr; $($module:ident: $body:ident,)*) => {
        fn every_body<H: $crate::Harness>(harness: &H) {
            $(
                eprintln!("{}: {}", $name, stringify!($body));
                $crate::$module::$body(harness);
            )*
        }
    };
}
