//! The partition that the paper measures: 4 x 8 x 8 nodes, all of which pass a barrier before the
//! clock starts (§3.1), so that every run begins at time zero everywhere.

use std::rc::Rc;

use hikyaku_sim::SimError;
use hikyaku_sim::engine::{Sim, Simulation, TaskName};
use hikyaku_sim::machine::{Interface, Machine};
use hikyaku_sim::model::cppacs::{Costs, NiaSystem};
use hikyaku_sim::topology::{Node, Topology};

use crate::Machines;

/// The machine and the costs of its adaptors.
pub(super) fn costs(machines: &Machines) -> (&Machine, Costs) {
    let machine = machines.get("cp-pacs");
    let Interface::CpPacs(costs) = machine.interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    (machine, *costs)
}

/// One run of a program on some nodes, and its duration.
pub(crate) struct ProgramRun {
    simulation: Simulation,
    system: NiaSystem,
}

impl ProgramRun {
    /// On the machine's own network.
    pub(crate) fn new(machines: &Machines) -> ProgramRun {
        ProgramRun::on(machines, machines.get("cp-pacs").topology())
    }

    /// With the same links and switches in another shape.
    pub(crate) fn on(machines: &Machines, topology: Rc<dyn Topology>) -> ProgramRun {
        let (machine, costs) = costs(machines);
        let simulation = Simulation::new(0xc99ac5);
        let network = machine.network_on(&simulation, topology);
        let system = NiaSystem::new(&simulation, &costs, network);
        ProgramRun { simulation, system }
    }

    /// A handle for programs.
    pub(crate) fn system(&self) -> NiaSystem {
        self.system.clone()
    }

    /// A handle on the clock.
    pub(crate) fn sim(&self) -> Sim {
        self.simulation.clone()
    }

    /// Starts a program on a node.
    pub(crate) fn node(&self, node: Node, program: impl Future<Output = ()> + 'static) {
        self.simulation.spawn(TaskName { kind: "node", index: node }, program);
    }

    /// Seconds until all programs have ended.
    pub(crate) fn time(&self) -> f64 {
        self.simulation.run().expect("the programs of the experiments end");
        self.simulation.now().seconds()
    }

    /// Runs until something stops it.
    pub(crate) fn until_stopped(&self) {
        let ended = self.simulation.run();
        assert!(matches!(ended, Err(SimError::Stopped { .. })), "it ended by itself: {ended:?}");
    }
}

/// Message lengths: powers of two, bytes.
pub(super) fn lengths(from: u32, to: u32) -> Vec<u64> {
    (from..=to).map(|log| 1 << log).collect()
}
