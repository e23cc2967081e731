//! Collectives on the ranks of a simulated machine: the algorithms of `coll`, in virtual time.
//!
//! `coll` does not depend on fabrics and `sim` not on collectives, so they are combined here.
//! [`SimulatedRank`] is a [`Group`](hikyaku_coll::Group) over a rank of a simulated job. Over `u8`
//! the messages carry their bytes and the answers are right. Over `()` they carry only lengths and
//! buffers take no memory, so that an allreduce of 100,000 ranks fits into a laptop.
//!
//! ```
//! use std::rc::Rc;
//! use hikyaku_cli::simulated::SimulatedRank;
//! use hikyaku_coll::{Reduction, allreduce};
//! use hikyaku_nic::time::Time;
//! use hikyaku_sim::engine::Simulation;
//! use hikyaku_sim::job::{Job, JobConfig, PacketFormat, PlainInterface};
//! use hikyaku_sim::network::{Network, Rate, Timing, Wormhole};
//! use hikyaku_sim::topology::HyperCrossbar;
//!
//! let simulation = Simulation::new(1);
//! let shape = Rc::new(HyperCrossbar::new(&[4, 4, 2]));
//! let timing = Timing::uniform(Time::from_nanoseconds(50), Rate::megabytes_per_second(300.0), 64);
//! let network = Network::new(&simulation, Box::new(Wormhole::new(shape, &timing)));
//! let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
//! let job = Job::new(&simulation, JobConfig::new(32), interface)?;
//! let report = job.run(|rank| async move {
//!     let group = SimulatedRank::<u8>::new(rank);
//!     let mut data = [1u8];
//!     let sum = Reduction::commutative(1, |left: &[u8], right: &mut [u8]| right[0] += left[0]);
//!     allreduce(&group, None, &mut data, sum).await.map(|()| data[0])
//! })?;
//! assert!(report.results.iter().all(|sum| *sum == Ok(32)));
//! # Ok::<(), hikyaku_sim::SimError>(())
//! ```

mod collective;
mod costs;
mod rank;
mod stencil;

pub use collective::{CollectiveError, algorithms, collective};
pub use costs::message_costs;
pub use hikyaku_coll::{chosen, estimates};
pub use rank::{BufferUnit, SimulatedRank};
pub use stencil::{Plane, PlaneError, conjugate_gradients, heat};
