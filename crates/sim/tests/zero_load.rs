//! The latency of a lone message, computed by hand, for each topology and network model.

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::network::{
    CutThrough, LinkTiming, Listener, LogGp, LogGpParameters, Network, NetworkModel, Packet, Rate,
    Timing, Wormhole,
};
use hikyaku_sim::topology::{
    Dragonfly, FatTree, Grid, Hub, HyperCrossbar, LinkClass, Multistage, Node, Switch, Topology,
};

/// Records departures and deliveries with their times in ns.
#[derive(Debug, Default)]
struct Log {
    departed: RefCell<Vec<u64>>,
    delivered: RefCell<Vec<(Node, u64)>>,
    clock: RefCell<Option<hikyaku_sim::engine::Sim>>,
}

impl Log {
    fn now(&self) -> u64 {
        self.clock.borrow().as_ref().expect("set for the run").now().nanoseconds()
    }
}

impl Listener for Log {
    fn departed(&self, _packet: &Packet) {
        self.departed.borrow_mut().push(self.now());
    }

    fn delivered(&self, packet: &Packet) {
        self.delivered.borrow_mut().push((packet.destination, self.now()));
    }
}

/// Sends packets at time zero and returns the log.
fn send(model: Box<dyn NetworkModel>, packets: &[(Node, Node, u64)]) -> Rc<Log> {
    let simulation = Simulation::new(0);
    let network = Network::new(&simulation, model);
    let log = Rc::new(Log::default());
    *log.clock.borrow_mut() = Some(simulation.clone());
    let listener: std::rc::Weak<dyn Listener> = Rc::downgrade(&log) as _;
    network.connect(listener);
    for (token, &(source, destination, bytes)) in (0..).zip(packets) {
        network.send(Packet { source, destination, bytes, token });
    }
    simulation.run().expect("nobody waits");
    *log.clock.borrow_mut() = None;
    log
}

fn ns(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

/// 10 ns per link, 1 GB/s, buffers of 16 bytes.
fn plain() -> Timing {
    Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 16)
}

/// Both models of a shape.
fn models(shape: impl Topology + Clone + 'static, timing: &Timing) -> [Box<dyn NetworkModel>; 2] {
    let shape: Rc<dyn Topology> = Rc::new(shape);
    [Box::new(Wormhole::new(Rc::clone(&shape), timing)), Box::new(CutThrough::new(shape, timing))]
}

/// The latency of one packet of 100 bytes from one node to another, in both models.
fn latency(shape: impl Topology + Clone + 'static, from: Node, to: Node) -> [u64; 2] {
    models(shape, &plain()).map(|model| send(model, &[(from, to, 100)]).delivered.borrow()[0].1)
}

#[test]
fn a_lone_packet_takes_its_links_and_once_its_length() {
    // Links times 10 ns and 100 ns of bytes; the number of links by hand.
    assert_eq!(latency(Switch::new(8), 0, 5), [120; 2]);
    assert_eq!(latency(Hub::new(8), 0, 5), [110; 2]);
    // Injection, two crossbars with two links each, ejection.
    assert_eq!(latency(HyperCrossbar::new(&[4, 8, 8]), 0, 4 + 32), [160; 2]);
    assert_eq!(latency(HyperCrossbar::new(&[4, 8, 8]), 0, 255), [180; 2]);
    // 64 nodes: three stages, so injection, two wires, ejection.
    assert_eq!(latency(Multistage::new(64), 3, 60), [140; 2]);
    // Four steps in x, one in y round the wrap.
    assert_eq!(latency(Grid::torus(&[8, 4]), 0, 4 + 3 * 8), [170; 2]);
    assert_eq!(latency(Grid::mesh(&[8, 4]), 0, 4 + 3 * 8), [190; 2]);
    assert_eq!(latency(Grid::tofu(2, 2, 2), 0, 1 + 2 + 4 + 8 + 16 + 48), [180; 2]);
    assert_eq!(latency(FatTree::new(&[(4, 1), (4, 4), (4, 4)]), 0, 63), [160; 2]);
    assert_eq!(latency(Dragonfly::new(2, 4, 2), 6, 8), [150; 2]);
    // To itself: to the first switch and back.
    assert_eq!(latency(Grid::torus(&[3, 3]), 4, 4), [120; 2]);
}

#[test]
fn the_slowest_link_sets_the_pace() {
    let slow = LinkTiming { latency: ns(30), rate: Rate::bytes_per_second(0.5e9), buffer: 1024 };
    let timing = Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 1024);
    for class in [LinkClass::Injection, LinkClass::Ejection, LinkClass::Network(0)] {
        let timing = timing.clone().with(class, slow);
        for model in models(Multistage::new(16), &timing) {
            let log = send(model, &[(0, 15, 100)]);
            // 10 + 10 + 30 of latency, 200 of bytes.
            assert_eq!(*log.delivered.borrow(), [(15, 250)], "{class:?}");
        }
    }
}

#[test]
fn log_gp_by_hand() {
    let parameters =
        |gap| LogGpParameters { latency: ns(500), gap: ns(gap), rate: Rate::bytes_per_second(1e9) };
    let model = |gap| Box::new(LogGp::new(4, parameters(gap)));
    // L + (k - 1) G.
    assert_eq!(*send(model(0), &[(0, 1, 101)]).delivered.borrow(), [(1, 600)]);
    // Two to one: the second packet waits for the bytes of the first, or for the gap.
    let fan_in = send(model(0), &[(0, 3, 101), (1, 3, 101)]);
    assert_eq!(*fan_in.delivered.borrow(), [(3, 600), (3, 700)]);
    let fan_in = send(model(250), &[(0, 3, 101), (1, 3, 101)]);
    assert_eq!(*fan_in.delivered.borrow(), [(3, 600), (3, 850)]);
    // One to two: the second packet leaves when the first has left.
    let fan_out = send(model(0), &[(0, 1, 101), (0, 2, 101)]);
    assert_eq!(*fan_out.delivered.borrow(), [(1, 600), (2, 700)]);
}

#[test]
fn a_blocked_worm_holds_its_channels() {
    // 0 -> 2 holds the path into node 2, and 1 -> 2 waits for it. 1 -> 3 waits behind 1 -> 2,
    // although node 3 is idle: a worm of 100 bytes does not fit into a buffer of 16.
    let shape: Rc<dyn Topology> = Rc::new(Switch::new(4));
    let log =
        send(Box::new(Wormhole::new(shape, &plain())), &[(0, 2, 100), (1, 2, 100), (1, 3, 100)]);
    // The first packet: 10 + 10 + 100. The second gets the last channel when the tail of the first
    // has crossed it: 10 + 100. Its tail has left the sender when the bytes that do not fit into
    // the buffer have crossed: 110 + 100 - 16 = 194. Then the third travels: + 10 + 10 + 100.
    assert_eq!(*log.delivered.borrow(), [(2, 120), (2, 220), (3, 314)]);
    assert_eq!(*log.departed.borrow(), [100, 194, 294]);
}

#[test]
fn a_worm_within_buffers_releases_its_first_channels() {
    // The same with 10 bytes for the last two packets. The second fits into the switch's buffer
    // completely, but it owns the buffer until its head has left.
    let shape: Rc<dyn Topology> = Rc::new(Switch::new(4));
    let log =
        send(Box::new(Wormhole::new(shape, &plain())), &[(0, 2, 100), (1, 2, 10), (1, 3, 10)]);
    assert_eq!(*log.departed.borrow(), [100, 110, 120]);
    assert_eq!(*log.delivered.borrow(), [(2, 120), (2, 130), (3, 140)]);
}

#[test]
fn cut_through_packets_wait_in_one_buffer() {
    // With buffers of 200 bytes, node 1's second packet waits behind its first in the switch's
    // input buffer. The injection link is free long before.
    let timing = Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 200);
    let shape: Rc<dyn Topology> = Rc::new(Switch::new(4));
    let packets = [(0, 2, 100), (1, 2, 100), (1, 3, 100)];
    let log = send(Box::new(CutThrough::new(shape, &timing)), &packets);
    assert_eq!(*log.departed.borrow(), [100, 100, 200]);
    // The third packet starts when the tail of the second has left the buffer at 210.
    assert_eq!(*log.delivered.borrow(), [(2, 120), (2, 220), (3, 320)]);
}

#[test]
fn crosspoint_buffers_keep_packets_for_different_outputs_apart() {
    // Cenju-4's switch, one stage: node 1's second packet has a buffer of its own.
    let timing = Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 200);
    let shape: Rc<dyn Topology> = Rc::new(Multistage::new(4));
    let packets = [(0, 2, 100), (1, 2, 100), (1, 3, 100)];
    let log = send(Box::new(CutThrough::new(shape, &timing)), &packets);
    // The second packet leaves the sender at 100, as soon as the link is free, without contention.
    assert_eq!(*log.delivered.borrow(), [(2, 120), (2, 220), (3, 220)]);
}

#[test]
fn a_full_buffer_holds_the_sender_back() {
    // Four packets to one node pass a buffer that holds one packet. The sender of the second has
    // finished when the first has left the switch.
    let timing = Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 100);
    let shape: Rc<dyn Topology> = Rc::new(Switch::new(3));
    let packets = [(0, 2, 100), (1, 2, 100), (1, 2, 100)];
    let log = send(Box::new(CutThrough::new(shape, &timing)), &packets);
    assert_eq!(*log.delivered.borrow(), [(2, 120), (2, 220), (2, 330)]);
    assert_eq!(*log.departed.borrow(), [100, 100, 310]);
}

#[test]
fn cj_18_cenju_4_switch_latencies() {
    // 125 ns a switch for one receiver, 187.5 ns for several; 3 bytes at 80 MHz.
    let through =
        LinkTiming { latency: ns(125), rate: Rate::megabytes_per_second(240.0), buffer: 1024 };
    let mut timing = Timing { default: through, ..plain() };
    timing.by_class.insert(LinkClass::Injection, LinkTiming { latency: Time::ZERO, ..through });
    timing.multicast_extra = Time::from_picoseconds(62_500);
    let simulation = Simulation::new(0);
    let shape: Rc<dyn Topology> = Rc::new(Multistage::new(64));
    let network = Network::new(&simulation, Box::new(CutThrough::new(shape, &timing)));
    let log = Rc::new(Log { clock: RefCell::new(Some(simulation.clone())), ..Log::default() });
    let listener: std::rc::Weak<dyn Listener> = Rc::downgrade(&log) as _;
    network.connect(listener);
    let packet = Packet { source: 0, destination: 63, bytes: 24, token: 0 };
    network.send(packet);
    simulation.run().unwrap();
    // Three switches and 24 bytes at 240 MB/s.
    assert_eq!(*log.delivered.borrow(), [(63, 3 * 125 + 100)]);
    let start = simulation.now();
    network.multicast(packet, &[1, 20, 63]).unwrap();
    simulation.run().unwrap();
    let spans: Vec<(Node, u64)> = log.delivered.borrow()[1..]
        .iter()
        .map(|&(node, at)| (node, at - start.nanoseconds()))
        .collect();
    // 3 x 187.5 + 100 = 662.5
    assert_eq!(spans, [(1, 662), (20, 662), (63, 662)]);
    assert_eq!(network.counts().delivered, 4);
    *log.clock.borrow_mut() = None;
}

#[test]
fn a_closed_door_holds_packets_in_the_network() {
    for model in models(Switch::new(3), &Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 100))
    {
        let simulation = Simulation::new(0);
        let network = Network::new(&simulation, model);
        let log = Rc::new(Log { clock: RefCell::new(Some(simulation.clone())), ..Log::default() });
        let listener: std::rc::Weak<dyn Listener> = Rc::downgrade(&log) as _;
        network.connect(listener);
        network.set_open(2, false);
        for (token, destination) in [(0, 2), (1, 1)] {
            network.send(Packet { source: 0, destination, bytes: 100, token });
        }
        simulation.run().unwrap();
        assert_eq!(*log.delivered.borrow(), [], "the second waits behind the first");
        network.set_open(2, true);
        simulation.run().unwrap();
        let order: Vec<Node> = log.delivered.borrow().iter().map(|entry| entry.0).collect();
        assert_eq!(order, [2, 1]);
        *log.clock.borrow_mut() = None;
    }
}

#[test]
fn networks_without_copying_switches_refuse_a_multicast() {
    let packet = Packet { source: 0, destination: 0, bytes: 1, token: 0 };
    let timing = plain();
    let models: [Box<dyn NetworkModel>; 3] = [
        Box::new(LogGp::new(
            3,
            LogGpParameters { latency: ns(1), gap: ns(1), rate: Rate::INFINITE },
        )),
        Box::new(Wormhole::new(Rc::new(Switch::new(3)), &timing)),
        Box::new(CutThrough::new(Rc::new(FatTree::new(&[(3, 1)])), &timing)),
    ];
    for model in models {
        let simulation = Simulation::new(0);
        let network = Network::new(&simulation, model);
        let error = network.multicast(packet, &[1, 2]).unwrap_err();
        assert!(error.to_string().contains("cannot multicast"));
        assert_eq!(network.counts().sent, 0);
    }
}
