//! The three broadcast algorithms of paper 004, Fig. 4: its links and adaptors in other shapes.

use std::rc::Rc;

use hikyaku_report::{Axis, Cell, LineChart, Series, Table, Unit};
use hikyaku_sim::topology::{
    Dragonfly, FatTree, Grid, Hub, HyperCrossbar, Multistage, Switch, Topology,
};

use super::{WhatIfAnswer, lengths};
use crate::Machines;
use crate::p004::figure4::{BroadcastAlgorithm, broadcast_on};

/// Shapes of 256 nodes.
fn shapes() -> Vec<Rc<dyn Topology>> {
    vec![
        Rc::new(HyperCrossbar::new(&[4, 8, 8])),
        Rc::new(Grid::torus(&[4, 8, 8])),
        Rc::new(Grid::mesh(&[4, 8, 8])),
        Rc::new(Grid::torus(&[4, 4, 4, 4])),
        Rc::new(Multistage::new(256)),
        Rc::new(FatTree::new(&[(16, 1), (16, 16)])),
        Rc::new(Dragonfly::with_groups(4, 8, 1, 8)),
        Rc::new(Switch::new(256)),
        Rc::new(Hub::new(256)),
    ]
}

pub(super) fn run() -> WhatIfAnswer {
    let machines = Machines::stored();
    let sizes = lengths(6, 16, 5);
    let mut table = Table::new(
        "Time until the last of 256 nodes has the message",
        ["network", "bytes", "ONE2ALL-PP", "ONE2ALL-SYS", "ONE2ALL-BT", "fastest"],
    );
    let mut charts = Vec::new();
    let (mut slowest_tree, mut tree_first): (Option<(f64, String)>, u32) = (None, 0);
    for shape in shapes() {
        let mut chart = LineChart::new(
            shape.name(),
            Axis::log2("message length", Unit::Bytes),
            Axis::log10("time", Unit::Seconds),
        );
        let curves = BroadcastAlgorithm::ALL.map(|algorithm| -> Vec<f64> {
            let time = |&bytes| broadcast_on(&machines, Rc::clone(&shape), algorithm, bytes);
            sizes.iter().map(time).collect()
        });
        for (algorithm, curve) in BroadcastAlgorithm::ALL.iter().zip(&curves) {
            let points = sizes.iter().map(|&bytes| bytes as f64).zip(curve.iter().copied());
            chart = chart.with(Series::line(algorithm.name(), points.collect()));
        }
        for (place, &bytes) in sizes.iter().enumerate() {
            let times = curves.each_ref().map(|curve| curve[place]);
            let fastest = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b]));
            let name = fastest.map_or("", |fastest| BroadcastAlgorithm::ALL[fastest].name());
            let cells = times.map(|time| Cell::number(time, Unit::Seconds));
            let head = [Cell::from(shape.name()), Cell::number(bytes as f64, Unit::Bytes)];
            table.push(head.into_iter().chain(cells).chain([Cell::from(name)]));
        }
        tree_first += u32::from(curves[2][0] < curves[0][0].min(curves[1][0]));
        let tree = curves[2][sizes.len() - 1];
        if slowest_tree.as_ref().is_none_or(|(time, _)| tree > *time) {
            slowest_tree = Some((tree, shape.name()));
        }
        charts.push(chart.into());
    }
    let (time, name) = slowest_tree.unwrap_or_default();
    let findings = vec![
        format!(
            "With {} the tree, which starts each node once, is the fastest on {tree_first} of {} \
             networks: start-up dominates.",
            Unit::Bytes.format(sizes[0] as f64),
            charts.len()
        ),
        format!(
            "With 64 KiB the shape matters: the tree is slowest on the {name}, {}, where its \
             messages share links.",
            Unit::Seconds.format(time)
        ),
    ];
    WhatIfAnswer {
        setup: "CP-PACS's adaptors (start, TCW chains, packets), links of 300 MB/s and 100 ns a \
                hop, wormhole routing, in nine shapes of 256 nodes. Ranks are numbered as on \
                4 x 8 x 8; ONE2ALL-SYS goes along those dimensions whatever the network is."
            .into(),
        findings,
        charts,
        tables: vec![table],
    }
}
