//! The near side of a rank's port: ranks on its host, through shared memory.
//!
//! No other file names the concrete port: [`crate::port`], `far/` and `launchers/` use these names.
//! There is no trait for the far side's use of it. That use covers most of
//! [`Port`](hikyaku_nic::fabric::Port), the deliveries and lookups in the tables of [`HostedPort`],
//! and a dozen methods of its host (cards, layout, registry, doorbell). Such a trait would be as
//! wide as the port, for one type.

use hikyaku_nic::hosted::HostedPort;

/// The port to ranks on the own host.
pub(crate) type NearPort = hikyaku_shm::ShmPort;

/// The tables under it, into which the far side delivers data from other hosts.
pub(crate) type NearTables = HostedPort<hikyaku_shm::ShmHost>;
