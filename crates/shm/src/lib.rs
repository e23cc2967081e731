//! The fabric between processes of one host.
//!
//! All of a job's memory is one anonymous file (memfd), made by the launcher, inherited or opened
//! through `/proc` by the ranks, and mapped once by each: nothing is named under `/dev/shm`,
//! nothing stays when the last process is gone, however it went. The rings in it and the rules of
//! their use are nic's; here is the machine under them.
//!
//! ```text
//!   job        the launcher's handle: create, environment, deaths, who waits for what
//!   attach     the rank's side: find the memory, take the place
//!   host       nic's Host: what a port needs of this machine
//!   wait       spinning, yielding, sleeping; why no wake-up is lost
//!   cpus       whose processors are whose
//!   cgroup     what the control group allows
//!   barrier    a memory barrier on all processors, made by the sleeper
//!   region     buffers that peers reach by one copy
//!   view       the same bytes as another rank of the host sees them
//!   kernel_copy  one copy from and to any address of a peer, where the system lets us
//!   conducted  jobs in virtual time: ranks that run one at a time
//!   watch      processes that end
//!   plan       what lies where, as arithmetic
//!   probe      which stores are faster on this machine
//!   header     what the first page and the ranks' notes say
//!   mapping    the memory as references
//!   memory     how much there is, and committing it
//!   limits     what this process may have
//!   clock      the time that all ranks share
//! ```

mod attach;
mod barrier;
mod cgroup;
mod clock;
mod conducted;
mod cpus;
mod error;
mod fork;
mod header;
mod host;
mod job;
mod kernel_copy;
mod limits;
mod mapping;
mod memory;
mod plan;
mod probe;
mod region;
mod view;
mod wait;
mod watch;

use hikyaku_nic::layer::FaultInjector;

pub use attach::attach;
pub use conducted::{CostBySize, Costs, Handed, InterfaceHost, Stage, Tally};
pub use error::{AttachError, JobError};
pub use fork::Process;
pub use host::ShmHost;
pub use job::{Doing, Job, Waiting, open_all, open_conducted, single};
pub use limits::limits_on;
pub use plan::JobConfig;
pub use view::View;
pub use watch::{Watch, WatchError};

/// A rank's port on the shared-memory fabric. The links before it have no faults unless it is told
/// to [`meet`](FaultInjector::meet) some.
pub type ShmPort = FaultInjector<hikyaku_nic::hosted::HostedPort<ShmHost>>;
