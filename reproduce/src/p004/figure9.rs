//! Figures 8 and 9: throughput of matrix transposition, messages one by one and in a chain.

use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cppacs::Tcw;
use hikyaku_sim::topology::Node;

use super::partition::ProgramRun;
use super::table1::{SIDE, TransposedArray, arrays};
use crate::{Check, ExperimentOutcome, Machines};

/// How a node's messages are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// One after the other, a start for each.
    Basic,
    /// All in one chain.
    Chain,
}

const NODES: u32 = SIDE * SIDE;
/// Measured arrays beyond these take long with one start a message and show nothing new.
const LARGEST: usize = 13;

/// Time until every node has all its messages, seconds.
fn transpose(machines: &Machines, array: TransposedArray, method: Method) -> f64 {
    let run = ProgramRun::new(machines);
    for node in 0..NODES {
        let system = run.system();
        let messages = array.messages();
        run.node(node, async move {
            let chain = messages_of(node, array);
            match method {
                Method::Chain => system.start(node, chain).await,
                Method::Basic => {
                    for message in chain {
                        system.send(node, vec![message]).await;
                    }
                }
            }
            system.receive(node, 0, messages).await;
        });
    }
    run.time()
}

/// The messages of a node: each line's runs to the 16 of its group, beginning after itself, so that
/// not all send to the same one at once.
fn messages_of(node: Node, array: TransposedArray) -> Vec<Tcw> {
    let (group, place) = (node / SIDE, node % SIDE);
    let bytes = array.message_bytes();
    let run = move |step: u32| {
        let to = group * SIDE + (place + 1 + step) % SIDE;
        Tcw { to, bytes, area: 0 }
    };
    (0..array.lines()).flat_map(|_| (0..SIDE).map(run)).collect()
}

/// Runs both methods on the arrays of table 1.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let arrays = &arrays()[..LARGEST];
    let rates = |method| -> Vec<f64> {
        let rate = |array: &TransposedArray| {
            array.local_bytes() as f64 / transpose(machines, *array, method)
        };
        arrays.iter().map(rate).collect()
    };
    let (basic, chain) = (rates(Method::Basic), rates(Method::Chain));
    let x = || arrays.iter().map(|array| array.local_bytes() as f64);
    let chart = LineChart::new(
        "Effective throughput of matrix transposition, 256 nodes",
        Axis::log2("data of a processor", Unit::Bytes),
        Axis::linear("throughput", Unit::BytesPerSecond).from_zero(),
    )
    .with(Series::line("chain", x().zip(chain.iter().copied()).collect()))
    .with(Series::line("basic", x().zip(basic.iter().copied()).collect()));
    let ratios: Vec<f64> = chain.iter().zip(&basic).map(|(chain, basic)| chain / basic).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    ExperimentOutcome {
        statement: "A chain saves all starts but one and reaches a much higher throughput than \
                    sending message by message."
            .into(),
        setup: "All 256 nodes in groups of 16; throughput is a processor's data over the time, \
                messages to itself included."
            .into(),
        checks: vec![Check::shape(
            "chain over basic",
            "much higher at every size",
            format!("at least {least:.1} times"),
            least > 2.0,
        )],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            format!(
                "It matters most for short messages: {:.1} times at 8 B, {:.1} at 128 B.",
                ratios[1],
                ratios[LARGEST - 1]
            ),
            "The hardware's overhead for a chained message is not stated and assumed in the \
             machine file; the ratio for short messages is about start over overhead."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_12_a_chain_is_several_times_faster() {
        let machines = &Machines::stored();
        let array = arrays()[2];
        assert!(
            transpose(machines, array, Method::Basic)
                > 3.0 * transpose(machines, array, Method::Chain)
        );
    }
}
