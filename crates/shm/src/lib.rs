//! The fabric between processes of one host.
//!
//! A job's memory is one anonymous file (memfd), apart from the files of protected windows. The
//! launcher creates it, the ranks inherit it or open it through `/proc`, and each maps it once.
//! Nothing has a name under `/dev/shm`, and nothing remains when the last process has ended, in any
//! way. The rings in it and the rules of their use are nic's; this crate is the machine under them.
//!
//! ```text
//!   job        the launcher's handle: create, environment, deaths, waits
//!   attach     the rank's side: find the memory, become the rank
//!   host       nic's Host: the services that a port needs from this machine
//!   wait       the clock; spinning, yielding, sleeping; why no wake-up is lost
//!   cpus       the ranks that share processors
//!   cgroup     the limits of the control group
//!   barrier    a memory barrier on all processors, executed by the sleeper
//!   region     buffers that peers reach by one copy
//!   protected  memory that only some ranks map, in separate files
//!   heap       the program's large allocations, in its region
//!   view       another rank's region bytes, in place
//!   kernel_copy  one copy from and to any address of a peer, if the system allows it
//!   conducted  jobs in virtual time: ranks that run one at a time
//!   watch      detecting the ends of other ranks
//!   plan       the layout of the memory, as arithmetic
//!   header     the first page, and the ranks' notes
//!   mapping    the memory as references
//!   memory     how much memory is available, and committing it
//!   limits     the resource limits of this process
//! ```

mod attach;
mod barrier;
mod cgroup;
mod conducted;
mod cpus;
mod error;
mod fork;
mod header;
mod heap;
mod host;
mod host_name;
mod job;
mod kernel_copy;
mod limits;
mod mapping;
mod memory;
mod plan;
mod protected;
mod region;
mod view;
mod wait;
mod watch;

use hikyaku_nic::layer::FaultInjector;

pub use attach::{attach, attach_to, take_inherited_socket};
pub use cgroup::cpu_quota;
pub use conducted::{CostBySize, Handed, InterfaceHost, LineCosts, Stage, Tally};
pub use error::{AttachError, HandError, JobError};
pub use fork::{ForkedProcess, around_forks};
pub use header::{COUNTS, JobEnd};
pub use heap::SharedHeap;
pub use host::{Nap, RankWaker, ShmHost};
pub use host_name::own_host_name;
pub use job::{
    Doing, Job, WaitingRank, exchange_cards, open_all, open_conducted, open_hosts, single,
};
pub use limits::limits_on;
pub use memory::available as available_memory;
pub use plan::{Hosts, JobConfig};
pub use protected::{ExpectedPart, Inbox, ProtectedFile, ProtectedMemory};
pub use view::View;
pub use wait::{longest_sleep, sleep_while, wake_one};
pub use watch::{MOST_CONNECTIONS, WatchError, launcher_behind, parent};

/// A rank's port on the shared-memory fabric. Its links have no faults until
/// [`meet`](FaultInjector::meet) enables some.
pub type ShmPort = FaultInjector<hikyaku_nic::hosted::HostedPort<ShmHost>>;
