//! The network models against queueing theory.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::{Random, Sim, Simulation, TaskName};
use hikyaku_sim::network::{
    CutThrough, Listener, Network, NetworkModel, Packet, Rate, Timing, Wormhole,
};
use hikyaku_sim::topology::{Grid, HyperCrossbar, Switch, Topology};

/// The size of every packet in bytes: 1 µs at 1 GB/s.
const BYTES: u64 = 1_000;
const SERVICE_NS: f64 = 1_000.0;

/// A switch whose latencies are negligible compared with a packet's length.
fn timing(buffer: u64) -> Timing {
    Timing::uniform(Time::from_picoseconds(1), Rate::bytes_per_second(1e9), buffer)
}

/// Sums the waits of packets beyond the time of a lone packet. The token is the sending time.
struct Waits {
    sim: Sim,
    count: Cell<u32>,
    sum_ns: Cell<f64>,
}

impl Listener for Waits {
    fn departed(&self, _packet: &Packet) {}

    fn delivered(&self, packet: &Packet) {
        let took = self.sim.now() - Time::from_picoseconds(packet.token);
        self.count.set(self.count.get() + 1);
        self.sum_ns.set(self.sum_ns.get() + took.picoseconds() as f64 * 1e-3 - SERVICE_NS);
    }
}

/// The mean wait, ns, of packets from many Poisson sources for one common link.
fn mean_wait(model: Box<dyn NetworkModel>, load: f64) -> f64 {
    const SOURCES: u32 = 255;
    const PACKETS: u32 = 1_200;
    let simulation = Simulation::new(7);
    let network = Network::new(&simulation, model);
    let (count, sum_ns) = (Cell::new(0), Cell::new(0.0));
    let waits = Rc::new(Waits { sim: simulation.clone(), count, sum_ns });
    let listener: Weak<dyn Listener> = Rc::downgrade(&waits) as _;
    network.connect(listener);
    for source in 1..=SOURCES {
        let (sim, network) = (simulation.clone(), Rc::clone(&network));
        simulation.spawn(TaskName { kind: "source", index: source }, async move {
            let mut random = sim.random(u64::from(source));
            let mean_ps = SERVICE_NS * 1e3 * f64::from(SOURCES) / load;
            for _ in 0..PACKETS {
                sim.delay(Time::from_picoseconds(random.exponential(mean_ps) as u64)).await;
                let token = sim.now().picoseconds();
                network.send(Packet { source, destination: 0, bytes: BYTES, token });
            }
        });
    }
    simulation.run().expect("the sources end");
    assert_eq!(waits.count.get(), SOURCES * PACKETS);
    waits.sum_ns.get() / f64::from(waits.count.get())
}

#[test]
fn a_link_under_poisson_traffic_is_an_m_d_1_queue() {
    let shape: Rc<dyn Topology> = Rc::new(Switch::new(256));
    for load in [0.3, 0.6, 0.8] {
        // Pollaczek and Khinchine: the mean wait is load / (2 (1 - load)) service times.
        let theory = load / (2.0 * (1.0 - load)) * SERVICE_NS;
        let models: [Box<dyn NetworkModel>; 2] = [
            Box::new(CutThrough::new(Rc::clone(&shape), &timing(u64::MAX))),
            Box::new(Wormhole::new(Rc::clone(&shape), &timing(16))),
        ];
        for model in models {
            let name = format!("{model:?}")[..8].to_string();
            let wait = mean_wait(model, load);
            assert!(
                (wait / theory - 1.0).abs() < 0.05,
                "{name} at {load}: {wait} ns, not {theory}"
            );
        }
    }
}

/// Keeps every input supplied with packets for random outputs, and counts arrivals.
struct Saturate {
    network: RefCell<Weak<Network>>,
    random: RefCell<Random>,
    ports: u32,
    delivered: Cell<u64>,
}

impl Saturate {
    fn supply(&self, source: u32) {
        let destination = self.random.borrow_mut().below(u64::from(self.ports)) as u32;
        if let Some(network) = self.network.borrow().upgrade() {
            network.send(Packet { source, destination, bytes: BYTES, token: 0 });
        }
    }
}

impl Listener for Saturate {
    fn departed(&self, packet: &Packet) {
        self.supply(packet.source);
    }

    fn delivered(&self, _packet: &Packet) {
        self.delivered.set(self.delivered.get() + 1);
    }
}

/// The throughput of a saturated network under uniform random traffic, as a share of the capacity
/// of the links into its nodes.
fn saturation(model: Box<dyn NetworkModel>) -> f64 {
    let simulation = Simulation::new(11);
    let ports = model.nodes();
    let network = Network::new(&simulation, model);
    let saturate = Rc::new(Saturate {
        network: RefCell::new(Rc::downgrade(&network)),
        random: RefCell::new(simulation.random(1)),
        ports,
        delivered: Cell::new(0),
    });
    let listener: Weak<dyn Listener> = Rc::downgrade(&saturate) as _;
    network.connect(listener);
    (0..ports).for_each(|source| saturate.supply(source));
    let run_to = |services: u64| {
        let end = Time::from_nanoseconds(services * SERVICE_NS as u64);
        simulation.at(end, Sim::stop);
        assert_eq!(simulation.run(), Err(SimError::Stopped { at: end }));
        saturate.delivered.get()
    };
    let (warm, services) = (run_to(200), 800);
    let counted = run_to(200 + services) - warm;
    counted as f64 / (services * u64::from(ports)) as f64
}

#[test]
fn a_large_input_queued_crossbar_saturates_at_0_586() {
    // Each input has room for several packets, so that an output always has its next packet.
    let crossbar = |ports| {
        let shape: Rc<dyn Topology> = Rc::new(Switch::new(ports));
        saturation(Box::new(CutThrough::new(shape, &timing(4 * BYTES))))
    };
    let (limit, found) = (2.0 - 2f64.sqrt(), crossbar(256));
    assert!((found / limit - 1.0).abs() < 0.02, "{found}, not {limit}");
    // A crossbar of two ports: 3/4 if packets are sent in slots (Karol, Hluchyj, Morgan 1987), and
    // always more than the limit for many ports.
    let small = crossbar(2);
    assert!((0.70..0.80).contains(&small), "{small}");
}

#[test]
fn cp_13_cp_14_random_traffic_favours_the_hyper_crossbar() {
    let worms = |shape: Rc<dyn Topology>| saturation(Box::new(Wormhole::new(shape, &timing(16))));
    let crossbar = worms(Rc::new(HyperCrossbar::new(&[4, 8, 8])));
    let torus = worms(Rc::new(Grid::torus(&[4, 8, 8])));
    let mesh = worms(Rc::new(Grid::mesh(&[4, 8, 8])));
    println!("hyper-crossbar {crossbar:.3}, torus {torus:.3}, mesh {mesh:.3}");
    assert!((0.28..0.40).contains(&crossbar), "{crossbar}");
    assert!(crossbar > torus && torus > mesh, "{crossbar}, {torus}, {mesh}");
}
