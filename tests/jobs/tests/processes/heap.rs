//! A program whose global allocator is the shared heap.

use hikyaku_jobs::Job;

#[test]
fn vectors_of_a_program_can_be_shared() {
    let launch = env!("CARGO_BIN_EXE_launch");
    for ways in ["auto", "ring", "read", "both", "put"] {
        let job = Job::new(launch, env!("CARGO_BIN_EXE_heap"), 2, &[]);
        job.variable("HIKYAKU_LONG_MESSAGES", ways).succeed();
    }
}
