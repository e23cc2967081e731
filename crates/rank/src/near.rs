//! The near side of a rank's port: ranks of its host, by memory that they share.
//!
//! No other file says which port that is: [`crate::port`], `far/` and `launchers/` use these names.
//! There is no trait for what the far side uses of it: that is most of
//! [`Port`](hikyaku_nic::fabric::Port), what lands and looks up in the tables of
//! [`HostedPort`], and a dozen words of its host (cards, layout,
//! registry, doorbell). Such a trait would be as wide as the port, for one type.

use hikyaku_nic::hosted::HostedPort;

/// The port towards ranks of the own host.
pub(crate) type NearPort = hikyaku_shm::ShmPort;

/// The tables under it, into which the far side lands what comes from other hosts.
pub(crate) type NearTables = HostedPort<hikyaku_shm::ShmHost>;
