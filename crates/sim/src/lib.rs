//! Simulated machines: programs in virtual time.
//!
//! ```text
//!   port       ranks as programs with ports, in processes of their own
//!   job        ranks as async tasks: send, receive, compute; matching; own time of a rank
//!    |
//!   network    wormhole, virtual cut-through, LogGP: how packets wait for links and buffers
//!    |
//!   topology   links, channels and routes: hyper-crossbar, multistage, torus, fat tree, ...
//!
//!   engine     underneath: clock, event queue, tasks, one seed, trace
//! ```
//!
//! Each layer uses only those below it; `engine` knows none of them. Modelled interfaces stand
//! between `job` and `network` as a [`job::Carrier`].
//!
//! ```
//! use std::rc::Rc;
//! use hikyaku_nic::time::Time;
//! use hikyaku_sim::engine::Simulation;
//! use hikyaku_sim::job::{Job, JobConfig, PacketFormat, PlainInterface};
//! use hikyaku_sim::network::{LogGp, LogGpParameters, Network, Rate};
//!
//! // Two nodes, 1 µs apart, 1 GB/s.
//! let latency = Time::from_nanoseconds(1_000);
//! let rate = Rate::bytes_per_second(1e9);
//! let simulation = Simulation::new(42);
//! let model = LogGp::new(2, LogGpParameters { latency, gap: Time::ZERO, rate });
//! let network = Network::new(&simulation, Box::new(model));
//! let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
//! let job = Job::new(&simulation, JobConfig::new(2), interface)?;
//! let report = job.run(|rank| async move {
//!     if rank.rank() == 0 {
//!         rank.send(1, 7, &b"hello"[..]).await.unwrap();
//!     } else {
//!         let message = rank.recv(Some(0), Some(7)).await;
//!         assert_eq!(message.data.as_deref(), Some(&b"hello"[..]));
//!     }
//! })?;
//! // The latency, and 4 bytes after the first.
//! assert_eq!(report.end, Time::from_nanoseconds(1_004));
//! # Ok::<(), hikyaku_sim::SimError>(())
//! ```

pub mod engine;
mod error;
pub mod job;
pub mod machine;
pub mod model;
pub mod network;
pub mod port;
pub mod program;
mod slab;
pub mod topology;

pub use error::{SimError, Stuck};
