//! Transposition and the halo exchange of a crystal with an array divided in one, two and three
//! dimensions, with chains and with a start for each message.
//!
//! The messages are those of the example programs `examples/chains`, which run on real ranks and in
//! virtual time. Here the nodes send only these messages, without notifications or answers.

use std::rc::Rc;

use hikyaku_report::{BarChart, Cell, Table, Unit};
use hikyaku_sim::model::cppacs::Tcw;
use hikyaku_sim::topology::HyperCrossbar;

use super::WhatIfAnswer;
use crate::Machines;
use crate::p004::partition::ProgramRun;

/// Elements along each side of the array: 8 bytes each, or three times as many for an atom.
const SIDE: u32 = 64;
const NUMBER: u64 = 8;
const ATOM: u64 = 24;

/// How 64 nodes divide the array: nodes along x, y and z.
const GRIDS: [(&str, [u32; 3]); 3] =
    [("slabs", [1, 64, 1]), ("pencils", [1, 8, 8]), ("blocks", [4, 4, 4])];

/// The messages of a node at a place.
type Messages = fn([u32; 3], [u32; 3]) -> Vec<Tcw>;

const PROGRAMS: [(&str, Messages); 2] = [("transposition", transposition), ("crystal", crystal)];

fn node_at([x, y, z]: [u32; 3], grid: [u32; 3]) -> u32 {
    x + grid[0] * (y + grid[1] * z)
}

fn place_of(node: u32, [along, across, _]: [u32; 3]) -> [u32; 3] {
    [node % along, node / along % across, node / along / across]
}

/// Each line is split at the boundaries of its new owners' parts.
fn transposition(grid: [u32; 3], [x, y, z]: [u32; 3]) -> Vec<Tcw> {
    let pieces = grid[1] / grid[0];
    let lines = (SIDE / grid[1]) * (SIDE / grid[2]);
    let bytes = NUMBER * u64::from(SIDE / grid[1]);
    let piece = |step: u32| {
        let column = x * pieces + (y + 1 + step) % pieces;
        Tcw { to: node_at([y / pieces, column, z], grid), bytes, area: 0 }
    };
    (0..lines).flat_map(|_| (0..pieces).map(piece)).collect()
}

/// The outermost rows go to the 26 neighbours. A node that is its own neighbour sends itself
/// nothing.
fn crystal(grid: [u32; 3], place: [u32; 3]) -> Vec<Tcw> {
    let mut messages = Vec::new();
    for side in (0..27).map(|number| [number % 3, number / 3 % 3, number / 9]) {
        let along = |axis: usize| (place[axis] + grid[axis] + side[axis] - 1) % grid[axis];
        let to = node_at([0, 1, 2].map(along), grid);
        let [x, y, z] = [0, 1, 2].map(|axis| match side[axis] {
            1 => SIDE / grid[axis],
            _ => 1,
        });
        let row = Tcw { to, bytes: ATOM * u64::from(x), area: 0 };
        messages.extend((0..y * z).map(|_| row));
    }
    messages
}

/// The messages of a node to others, their mean length, and the time until all have arrived, in a
/// chain and with a start for each.
fn exchange(machines: &Machines, grid: [u32; 3], messages: Messages) -> (usize, f64, [f64; 2]) {
    let nodes: u32 = grid.iter().product();
    let of = move |node: u32| {
        let mut all = messages(grid, place_of(node, grid));
        all.retain(|message| message.to != node);
        all
    };
    // Not the first node: a block on the diagonal of a transposition stays in place.
    let first = of(1);
    let bytes = first.iter().map(|message| message.bytes).sum::<u64>() as f64;
    let times = [true, false].map(|chained| {
        let run = ProgramRun::on(machines, Rc::new(HyperCrossbar::new(&[4, 4, 4])));
        for node in 0..nodes {
            let (system, chain) = (run.system(), of(node));
            // The grid is periodic, so all nodes send alike.
            let count = chain.len() as u64;
            run.node(node, async move {
                if chained {
                    system.start(node, chain).await;
                } else {
                    for message in chain {
                        system.start(node, vec![message]).await;
                    }
                }
                system.receive(node, 0, count).await;
            });
        }
        run.time()
    });
    (first.len(), bytes / first.len() as f64, times)
}

pub(super) fn run() -> WhatIfAnswer {
    let machines = Machines::stored();
    let mut table = Table::new(
        "An exchange of 64 nodes",
        ["program", "divided into", "messages", "mean length", "in a chain", "one by one", "ratio"],
    );
    let names = GRIDS.map(|(name, _)| name);
    let mut charts = Vec::new();
    let mut findings = Vec::new();
    for (program, messages) in PROGRAMS {
        let found = GRIDS.map(|(_, grid)| exchange(&machines, grid, messages));
        for (name, (count, bytes, [chain, each])) in names.into_iter().zip(found) {
            table.push([
                Cell::from(program),
                Cell::from(name),
                Cell::number(count as f64, Unit::Number),
                Cell::number(bytes, Unit::Bytes),
                Cell::number(chain, Unit::Seconds),
                Cell::number(each, Unit::Seconds),
                Cell::number(each / chain, Unit::Ratio),
            ]);
        }
        let times = |way: usize| found.iter().map(|(.., times)| times[way]).collect();
        let chart = BarChart::new(program, "time of an exchange", Unit::Seconds, names);
        charts.push(chart.with("in a chain", times(0)).with("one by one", times(1)).into());
        let time = |at: usize| found[at].2;
        let best = |way: usize| (0..3).min_by(|&a, &b| time(a)[way].total_cmp(&time(b)[way]));
        let name = |way: usize| best(way).map_or("", |at| names[at]);
        let ratio = |at: usize| time(at)[1] / time(at)[0];
        findings.push(format!(
            "{program}: fastest with {} in a chain and with {} one by one; a chain makes slabs \
             {:.1}, pencils {:.1} and blocks {:.1} times as fast.",
            name(0),
            name(1),
            ratio(0),
            ratio(1),
            ratio(2)
        ));
    }
    WhatIfAnswer {
        setup: format!(
            "CP-PACS with 4 x 4 x 4 nodes and an array of {SIDE} x {SIDE} x {SIDE}. Transposition: \
             x and y of an array of numbers change places. Crystal: each node puts its outermost \
             atoms into its neighbours' layers, row by row. Paper 004 measures the first with \
             blocks (figure 9), and names molecular dynamics as future work."
        ),
        findings,
        charts,
        tables: vec![table],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_12_chains_help_most_where_messages_are_shortest() {
        let machines = Machines::stored();
        let found = GRIDS.map(|(_, grid)| exchange(&machines, grid, transposition));
        assert_eq!(
            found.map(|(count, bytes, _)| (count, bytes as u64)),
            [(4032, 8), (448, 64), (256, 128)]
        );
        let ratios = found.map(|(.., [chain, each])| each / chain);
        assert!(ratios[0] > ratios[1] && ratios[1] > ratios[2] && ratios[2] > 2.0, "{ratios:?}");
    }

    #[test]
    fn every_node_gets_as_many_messages_as_it_sends() {
        for (program, messages) in PROGRAMS {
            for (name, grid) in GRIDS {
                let mut got = [0_i64; 64];
                for node in 0..64 {
                    for message in messages(grid, place_of(node, grid)) {
                        got[message.to as usize] += 1;
                        got[node as usize] -= 1;
                    }
                }
                assert_eq!(got, [0; 64], "{program}, {name}");
            }
        }
    }
}
