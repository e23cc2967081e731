//! The two libraries of the paper's measurements, as additions to the interface's steps: their own
//! time, and MPI's announcement of bulk data.

use hikyaku_nic::time::Time;
use hikyaku_sim::engine::{Sim, Simulation, TaskName};
use hikyaku_sim::machine::{Interface, Machine};
use hikyaku_sim::model::cenju4::{CenjuParcel, CenjuSystem, Costs, ParcelProtocol, Span, To};
use hikyaku_sim::topology::Node;

use crate::Machines;

/// The machine and the costs of its interfaces.
pub(super) fn costs(machines: &Machines) -> (Machine, Costs) {
    let machine = machines.get("cenju4").clone();
    let Interface::Cenju4(costs) = machine.interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    (machine, *costs)
}

/// The library, and how it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageLibrary {
    /// Paralib/CJ4.
    Paralib,
    /// Paralib/CJ4 with a system call that flushes the data from the cache.
    ParalibWithCall,
    /// MPI, on top of Paralib/CJ4.
    Mpi,
}

/// A simulation of the machine for one measurement.
pub(super) struct MachineRun {
    simulation: Simulation,
    system: CenjuSystem,
}

impl MachineRun {
    pub(super) fn new(machines: &Machines) -> MachineRun {
        let (machine, costs) = costs(machines);
        let simulation = Simulation::new(0xce14);
        let system =
            CenjuSystem::new(&simulation, &costs, machine.topology(), machine.links.buffer);
        MachineRun { simulation, system }
    }

    /// The programs' interface on a node.
    pub(super) fn node(&self, node: Node) -> NodeProgram {
        NodeProgram { sim: self.simulation.clone(), system: self.system.clone(), node }
    }

    /// Starts a program.
    pub(super) fn start(&self, node: Node, program: impl Future<Output = ()> + 'static) {
        self.simulation.spawn(TaskName { kind: "node", index: node }, program);
    }

    /// A handle on the clock.
    pub(super) fn sim(&self) -> &Sim {
        &self.simulation
    }

    /// Seconds until all programs have ended.
    pub(super) fn time(&self) -> f64 {
        self.simulation.run().expect("the programs of the experiments end");
        self.simulation.now().seconds()
    }
}

/// The operations of a program on a node.
#[derive(Debug, Clone)]
pub(super) struct NodeProgram {
    sim: Sim,
    system: CenjuSystem,
    node: Node,
}

impl NodeProgram {
    /// Paralib: spends half of its time for a message, then sends the parcel.
    pub(super) async fn send(&self, parcel: CenjuParcel) {
        self.sim.delay(half(self.system.costs().host.paralib)).await;
        self.system.post(self.node, parcel).await;
    }

    /// Paralib: waits until an area has received `count` parcels in total, then spends the other
    /// half.
    pub(super) async fn receive(&self, area: u32, count: u64) {
        self.system.wait(self.node, area, count).await;
        self.sim.delay(half(self.system.costs().host.paralib)).await;
    }

    /// Occupies the processor for a time.
    pub(super) async fn work(&self, time: Time) {
        self.sim.delay(time).await;
    }

    /// Sends a message with a library. Areas: 0 data, 1 announcements, 2 readiness.
    async fn send_by(&self, library: MessageLibrary, parcel: CenjuParcel, bytes: u64, round: u64) {
        let host = self.system.costs().host.clone();
        match library {
            MessageLibrary::Paralib => self.send(parcel).await,
            MessageLibrary::ParalibWithCall => {
                self.work(host.system_call).await;
                self.send(CenjuParcel { dirty: false, ..parcel }).await;
            }
            MessageLibrary::Mpi => {
                self.work(half(host.mpi)).await;
                if bytes >= host.mpi_announces_from {
                    self.send(flag(parcel.to.clone(), 1)).await;
                    self.receive(2, round).await;
                }
                self.send(parcel).await;
            }
        }
    }

    async fn receive_by(&self, library: MessageLibrary, from: Node, bytes: u64, round: u64) {
        let host = self.system.costs().host.clone();
        if library == MessageLibrary::Mpi && bytes >= host.mpi_announces_from {
            self.receive(1, round).await;
            self.send(flag(To::One(from), 2)).await;
        }
        self.receive(0, round).await;
        if library == MessageLibrary::Mpi {
            self.work(half(host.mpi)).await;
        }
    }
}

/// A word that only signals.
pub(super) fn flag(to: To, area: u32) -> CenjuParcel {
    CenjuParcel { to, protocol: ParcelProtocol::Inline, area, optimise: true, dirty: true }
}

/// Data from one address to another, both given as offsets from the start of a page.
pub(super) fn data(to: Node, span: Span, optimise: bool) -> CenjuParcel {
    let protocol = ParcelProtocol::Write(span);
    CenjuParcel { to: To::One(to), protocol, area: 0, optimise, dirty: true }
}

/// Half the time of a round trip of `bytes`, seconds. Each of the messages `there` and `back` is
/// preceded by `copy` of CPU time.
pub(super) fn half_round_trip(
    machines: &Machines,
    library: MessageLibrary,
    bytes: u64,
    parcels: [CenjuParcel; 2],
    copy: Time,
) -> f64 {
    const ROUNDS: u64 = 4;
    let run = MachineRun::new(machines);
    let [there, back] = parcels;
    let (a, b) = (run.node(0), run.node(1));
    run.start(0, async move {
        for round in 1..=ROUNDS {
            a.work(copy).await;
            a.send_by(library, there.clone(), bytes, round).await;
            a.receive_by(library, 1, bytes, round).await;
        }
    });
    run.start(1, async move {
        for round in 1..=ROUNDS {
            b.receive_by(library, 0, bytes, round).await;
            b.work(copy).await;
            b.send_by(library, back.clone(), bytes, round).await;
        }
    });
    run.time() / (2 * ROUNDS) as f64
}

fn half(time: Time) -> Time {
    Time::from_picoseconds(time.picoseconds() / 2)
}
