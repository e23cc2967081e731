//! Figures 8 and 9: throughput of matrix transposition, with single messages and with a chain.

use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cppacs::Tcw;
use hikyaku_sim::topology::Node;

use super::partition::ProgramRun;
use super::table1::{BLOCKS, Mapping, PENCILS, TransposedArray, arrays};
use crate::{Check, ExperimentOutcome, Machines};

/// How a node starts its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// One after the other, a start for each.
    Basic,
    /// All in one chain.
    Chain,
}

/// Time until every node has all its messages, seconds.
fn transpose(machines: &Machines, array: TransposedArray, method: Method) -> f64 {
    let [along, across, _] = array.mapping.grid;
    let in_order = move |[p, q, r]: [u32; 3]| p + along * (q + across * r);
    transpose_on(&ProgramRun::new(machines), array, method, in_order)
}

/// The same, with `node_of` as the node of each place of the grid.
fn transpose_on(
    run: &ProgramRun,
    array: TransposedArray,
    method: Method,
    node_of: impl Fn([u32; 3]) -> Node + Copy + 'static,
) -> f64 {
    transpose_layers(run, array, method, 1, node_of)
}

/// The same, for the first layers of the grid along z. Messages stay in their layer, and layers
/// share no link of a hyper-crossbar, so each takes the time of all.
fn transpose_layers(
    run: &ProgramRun,
    array: TransposedArray,
    method: Method,
    layers: u32,
    node_of: impl Fn([u32; 3]) -> Node + Copy + 'static,
) -> f64 {
    let [along, across, _] = array.mapping.grid;
    let places = (0..along * across * layers)
        .map(|number| [number % along, number / along % across, number / along / across]);
    for place in places {
        let (system, node) = (run.system(), node_of(place));
        run.node(node, async move {
            let chain = messages_of(place, array, node_of);
            match method {
                Method::Chain => system.start(node, chain).await,
                Method::Basic => {
                    for message in chain {
                        system.send(node, vec![message]).await;
                    }
                }
            }
            system.receive(node, 0, array.messages()).await;
        });
    }
    run.time()
}

/// The messages of a place: the pieces of each line, starting after the place itself, so that the
/// places do not all send to the same one at once.
fn messages_of(
    [p, q, r]: [u32; 3],
    array: TransposedArray,
    node_of: impl Fn([u32; 3]) -> Node,
) -> Vec<Tcw> {
    let (pieces, bytes) = (array.pieces(), array.message_bytes());
    let piece = |step: u32| {
        let column = p * pieces + (q + 1 + step) % pieces;
        Tcw { to: node_of([q / pieces, column, r]), bytes, area: 0 }
    };
    (0..array.lines()).flat_map(|_| (0..pieces).map(piece)).collect()
}

/// Throughput of a processor by both methods, chain first, on the arrays of table 1.
fn rates(machines: &Machines, mapping: Mapping) -> [Vec<f64>; 2] {
    [Method::Chain, Method::Basic].map(|method| {
        let rate = |array: TransposedArray| {
            array.local_bytes() as f64 / transpose(machines, array, method)
        };
        arrays(mapping).into_iter().map(rate).collect()
    })
}

/// Runs both methods on the arrays of table 1.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let (pencils, blocks) = (rates(machines, PENCILS), rates(machines, BLOCKS));
    let sizes: Vec<f64> = arrays(PENCILS).iter().map(|array| array.local_bytes() as f64).collect();
    let mut chart = LineChart::new(
        "Effective throughput of matrix transposition, 256 nodes",
        Axis::log2("data of a processor", Unit::Bytes),
        Axis::linear("throughput", Unit::BytesPerSecond).from_zero(),
    );
    for (name, curve) in [
        ("chain, pencils", &pencils[0]),
        ("basic, pencils", &pencils[1]),
        ("chain, blocks", &blocks[0]),
        ("basic, blocks", &blocks[1]),
    ] {
        let points = sizes.iter().copied().zip(curve.iter().copied());
        chart = chart.with(Series::line(name, points.collect()));
    }
    let ratios = |[chain, basic]: &[Vec<f64>; 2]| -> Vec<f64> {
        chain.iter().zip(basic).map(|(chain, basic)| chain / basic).collect()
    };
    let (of_pencils, of_blocks) = (ratios(&pencils), ratios(&blocks));
    let check = |what: &str, ratios: &[f64]| {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let (stated, found) = ("much higher at every size", format!("at least {least:.1} times"));
        Check::shape(what, stated, found, least > 2.0)
    };
    ExperimentOutcome {
        statement: "A chain saves all starts but one and reaches a much higher throughput than \
                    sending message by message."
            .into(),
        setup: "256 nodes, by both rules that give table 1: pencils in groups of 16, and blocks \
                on the 4 x 8 x 8 grid of the nodes, whose lines go to two others. One of the 16 \
                groups and one of the 8 layers is run, since they share no link. \
                Throughput is a processor's data over the time, messages to itself included."
            .into(),
        checks: vec![
            check("chain over basic", &of_pencils),
            check("chain over basic, blocks", &of_blocks),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            format!(
                "It matters most for short messages: {:.1} times at 8 B, {:.1} at 128 B.",
                of_pencils[1],
                of_pencils[of_pencils.len() - 1]
            ),
            "With blocks the four nodes of a line in X turn at one exchanger: a chain ends at \
             about a quarter of the link's rate."
                .into(),
            "The hardware's overhead for a chained message is not stated and assumed in the \
             machine file; the ratio for short messages is about start over overhead."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use hikyaku_sim::topology::HyperCrossbar;

    use super::super::table1::WHOLE_MACHINE;
    use super::*;

    #[test]
    fn cp_12_a_chain_is_several_times_faster() {
        let machines = &Machines::stored();
        for mapping in [PENCILS, BLOCKS] {
            let array = arrays(mapping)[2];
            let [basic, chain] =
                [Method::Basic, Method::Chain].map(|method| transpose(machines, array, method));
            assert!(basic > 3.0 * chain, "{mapping:?}: {basic} and {chain} s");
        }
    }

    #[test]
    fn all_layers_together_take_the_time_of_one() {
        let machines = &Machines::stored();
        for mapping in [PENCILS, BLOCKS] {
            let [along, across, up] = mapping.grid;
            for method in [Method::Basic, Method::Chain] {
                let time = |layers| {
                    let in_order = move |[p, q, r]: [u32; 3]| p + along * (q + across * r);
                    let run = ProgramRun::new(machines);
                    transpose_layers(&run, arrays(mapping)[4], method, layers, in_order)
                };
                assert_eq!(time(1), time(up), "{mapping:?}, {method:?}");
            }
        }
    }

    /// Of the 17 planes in Y, one (8 x 16 nodes) is for input and output and takes no part.
    #[test]
    fn cp_12_the_whole_machine_of_2176_nodes_transposes_with_chains() {
        let machines = &Machines::stored();
        let on_all = |array, method| {
            let run = ProgramRun::on(machines, Rc::new(HyperCrossbar::new(&[8, 17, 16])));
            transpose_on(&run, array, method, |[p, q, r]| p + 8 * (q + 17 * r))
        };
        for row in [0, 3] {
            let (whole, part) = (arrays(WHOLE_MACHINE)[row], arrays(BLOCKS)[row]);
            assert_eq!(whole.messages(), part.messages());
            let chain = on_all(whole, Method::Chain);
            let ratio = chain / transpose(machines, part, Method::Chain);
            // All nodes of a line in X turn at one exchanger: 8, where the partition has 4.
            assert!((1.0..2.1).contains(&ratio), "row {row}: {ratio}");
            assert!(on_all(whole, Method::Basic) > 3.0 * chain, "row {row}");
        }
    }
}
