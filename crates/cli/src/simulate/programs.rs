//! The code of a rank in each built-in program, and the errors in the choice of a program.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::simulated::{
    BufferUnit, Plane, SimulatedRank, algorithms, collective, conjugate_gradients, heat,
};
use hikyaku::{Choices, Operation};
use hikyaku_coll::Costs;
use hikyaku_sim::job::{Payload, Rank};
use hikyaku_sim::model::cenju4::Synchronisation;
use hikyaku_sim::program::{Halo, PingPong, RandomTraffic, Ring, balanced};

use super::arguments::{BuiltinProgram, CollectiveArguments};
use super::setting::SettingError;

/// The result of one rank: nothing, or a line on the error.
pub(crate) type Answer = Result<(), String>;

/// One rank's part of a program.
pub(crate) type Body = Pin<Box<dyn Future<Output = Answer>>>;

/// Creates a rank's part.
pub(crate) type Maker = Box<dyn Fn(Rank) -> Body>;

/// The properties of its job that a program needs.
#[derive(Debug, Clone)]
pub(crate) struct ProgramJob {
    pub(crate) ranks: u32,
    pub(crate) seed: u64,
    pub(crate) payload: Payload,
    /// The barrier in the machine's switches.
    pub(crate) sync: Option<Synchronisation>,
    /// The costs of messages between nodes of the machine.
    pub(crate) costs: Option<Arc<Costs>>,
}

/// Returns the function that creates the parts of a program.
///
/// # Errors
/// No machine runs an algorithm of the given name.
pub(crate) fn maker(program: &BuiltinProgram, job: ProgramJob) -> Result<Maker, SettingError> {
    Ok(match *program {
        BuiltinProgram::Pingpong { size: bytes, rounds } => {
            each(move |rank| PingPong { bytes, rounds }.run(rank))
        }
        BuiltinProgram::Ring { size: bytes, steps } => {
            each(move |rank| Ring { bytes, steps }.run(rank))
        }
        BuiltinProgram::Halo { dims, size, steps, compute } => {
            let halo = Halo::new(&balanced(job.ranks, dims), size, steps, compute);
            each(move |rank| halo.clone().run(rank))
        }
        BuiltinProgram::Random { size, messages, gap } => {
            let random = RandomTraffic::new(job.seed, job.ranks, size, messages, gap);
            each(move |rank| random.clone().run(rank))
        }
        BuiltinProgram::Heat { side, steps, check_every, per_cell } => {
            let plane = Plane { side, steps, check_every, per_cell };
            each(move |rank| heat(rank, plane))
        }
        BuiltinProgram::Cg { side, iterations, per_cell } => {
            let plane = Plane { side, steps: iterations, check_every: 1, per_cell };
            each(move |rank| conjugate_gradients(rank, plane))
        }
        _ => match program.collective() {
            Some((operation, how)) => collectives(operation, how, job)?,
            None => each(async |_| Ok::<(), String>(())),
        },
    })
}

/// Every rank runs the same async function.
fn each<F, E>(part: impl Fn(Rank) -> F + 'static) -> Maker
where
    F: Future<Output = Result<(), E>> + 'static,
    E: ToString,
{
    Box::new(move |rank| {
        let part = part(rank);
        Box::pin(async move { part.await.map_err(|error| error.to_string()) })
    })
}

fn collectives(
    operation: Operation,
    how: &CollectiveArguments,
    job: ProgramJob,
) -> Result<Maker, SettingError> {
    let mut choices = Choices::default();
    if let Some(name) = &how.algorithm {
        if !algorithms(operation).any(|offered| offered == name) {
            return Err(SettingError::Algorithm { operation, name: name.clone() });
        }
        // Succeeds: names of the list are known.
        let _ = choices.choose(operation, name);
    }
    let (times, sync, costs) = ((how.size as usize, how.repeat), job.sync, job.costs);
    Ok(match job.payload {
        Payload::Carried => each(move |rank| {
            let group = SimulatedRank::<u8>::new(rank).with_sync(sync.clone());
            repeated(group.with_costs(costs.clone()), operation, choices, times)
        }),
        Payload::LengthsOnly => each(move |rank| {
            let group = SimulatedRank::<()>::new(rank).with_sync(sync.clone());
            repeated(group.with_costs(costs.clone()), operation, choices, times)
        }),
    })
}

async fn repeated<U: BufferUnit>(
    group: SimulatedRank<U>,
    operation: Operation,
    choices: Choices,
    (bytes, repeat): (usize, u32),
) -> Result<(), crate::simulated::CollectiveError> {
    for _ in 0..repeat {
        let _call = group.rank().enter(operation.name());
        collective(&group, operation, &choices, bytes).await?;
    }
    Ok(())
}
