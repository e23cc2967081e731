//! Programs on a shipped machine: correct results, with bytes and with lengths, alone and together.

#![allow(clippy::unwrap_used)]

use hikyaku_nic::time::Time;

use super::*;
use crate::engine::Simulation;
use crate::job::{Job, JobConfig, JobReport};
use crate::machine::Machine;

fn run<F>(ranks: u32, payload: Payload, program: impl Fn(Rank) -> F) -> JobReport<F::Output>
where
    F: Future<Output = Result<(), ProgramError>> + 'static,
{
    let text = include_str!("../../../../machines/cp-pacs.toml");
    let machine = Machine::parse("cp-pacs", text).unwrap();
    let simulation = Simulation::new(11);
    let installed = machine.install(&simulation);
    let config = JobConfig { payload, ..JobConfig::new(ranks) };
    let job = Job::new(&simulation, config, installed.carrier).unwrap();
    let report = job.run(program).unwrap();
    assert_eq!(report.results, vec![Ok(()); ranks as usize]);
    assert_eq!(report.totals.sent, report.totals.received);
    assert_eq!(job.in_flight(), 0);
    report
}

#[test]
fn lengths_alone_take_the_time_of_bytes() {
    for ranks in [1, 2, 12] {
        let both = [Payload::Carried, Payload::LengthsOnly].map(|payload| {
            let compute = Time::from_nanoseconds(500);
            let random = RandomTraffic::new(11, ranks, 100, 5, Time::from_nanoseconds(2_000));
            let halo = Halo::new(&balanced(ranks, 3), 640, 3, compute);
            [
                run(ranks, payload, |rank| PingPong { bytes: 3_000, rounds: 4 }.run(rank)).end,
                run(ranks, payload, |rank| Ring { bytes: 0, steps: 4 }.run(rank)).end,
                run(ranks, payload, move |rank| halo.clone().run(rank)).end,
                run(ranks, payload, move |rank| random.clone().run(rank)).end,
            ]
        });
        assert_eq!(both[0], both[1], "{ranks}");
    }
}

#[test]
fn a_changed_message_is_reported() {
    run(2, Payload::Carried, |rank| async move {
        if rank.rank() == 0 {
            rank.send(1, 0, &[1u8, 2, 3][..]).await?;
            return Ok(());
        }
        let message = rank.recv(None, None).await;
        let wrong = check(&rank, &message, 3, 0).unwrap_err().to_string();
        assert_eq!(wrong, "rank 1 got a wrong message from rank 0: byte 0 is 1 and not 0");
        let wrong = check(&rank, &message, 4, 0).unwrap_err().to_string();
        assert_eq!(wrong, "rank 1 got a wrong message from rank 0: 3 bytes in place of 4");
        Ok(())
    });
}

#[test]
fn grids_of_ranks_are_nearly_cubes() {
    assert_eq!(balanced(100_000, 3), [50, 50, 40]);
    assert_eq!(balanced(64, 2), [8, 8]);
    assert_eq!(balanced(13, 3), [13, 1, 1]);
    assert_eq!(balanced(7, 1), [7]);
    assert!((1..200).all(|n| balanced(n, 3).iter().product::<u32>() == n));
}
