//! Figures 9 to 12: execution time with UDP, DIMMnet and `direct`, over the size and over the
//! number of shared variables. With the links of the machine file, and with links that cost
//! nothing, which is the paper's explanation. Beyond the paper, also with more than two nodes.

use hikyaku_report::{Axis, Cell, Chart, LineChart, Series, Table, Unit};

use super::program::{Links, RunCosts, Setting, SystemVersion, run};
use crate::{Check, ExperimentOutcome, Machines};

/// Sizes of a variable in KiB: 4 to 32 (figures 9, 10).
const SIZES: [u64; 4] = [4, 8, 16, 32];
/// Numbers of variables: 1024 to 8192 (figures 11, 12).
const COUNTS: [u64; 4] = [1024, 2048, 4096, 8192];
/// Nodes: the paper's two, and more.
const NODES: [u32; 3] = [2, 4, 8];
/// Numbers of variables with more nodes: for each node as many as the paper's smallest number.
const EACH: u64 = 512;

/// Times in seconds for every version, number of variables and size, with one set of costs.
struct Cells {
    links: Links,
    /// By version, number, size.
    times: [[[f64; 4]; 4]; 3],
}

/// Times along one axis.
struct Sweep {
    title: &'static str,
    x: Vec<f64>,
    /// By version.
    times: [Vec<f64>; 3],
}

impl Cells {
    fn all(machines: &Machines, links: Links) -> Cells {
        let times = SystemVersion::FIGURES.map(|version| {
            COUNTS.map(|variables| {
                SIZES.map(|kib| {
                    let setting = Setting { version, links, nodes: 2, variables, size: kib << 10 };
                    run(machines, setting).seconds
                })
            })
        });
        Cells { links, times }
    }

    /// Over the sizes, with the number at this index.
    fn over_sizes(&self, title: &'static str, count: usize) -> Sweep {
        let times = [0, 1, 2].map(|version| self.times[version][count].to_vec());
        Sweep { title, x: SIZES.map(|kib| (kib << 10) as f64).to_vec(), times }
    }

    /// Over the numbers, with the size at this index.
    fn over_counts(&self, title: &'static str, size: usize) -> Sweep {
        let times = [0, 1, 2].map(|version| self.times[version].map(|row| row[size]).to_vec());
        Sweep { title, x: COUNTS.map(|count| count as f64).to_vec(), times }
    }

    fn costs(&self) -> &'static str {
        match self.links {
            Links::Physical => "copies and links",
            Links::Free => "copies and free links",
        }
    }

    /// The number of cells in which a version is faster than UDP.
    fn faster(&self, version: usize) -> usize {
        let cells = |at: usize| self.times[at].as_flattened().iter();
        cells(version).zip(cells(0)).filter(|(time, udp)| time < udp).count()
    }

    fn table(&self) -> Table {
        let caption = format!("Every cell, {}", self.costs());
        let head =
            ["variables", "size", "UDP", "DIMMnet", "direct", "UDP / DIMMnet", "UDP / direct"];
        let mut table = Table::new(caption, head);
        for (at, count) in COUNTS.into_iter().enumerate() {
            for (size, kib) in SIZES.into_iter().enumerate() {
                let times = [0, 1, 2].map(|version| self.times[version][at][size]);
                let [udp, dimmnet, direct] = times.map(|time| Cell::number(time, Unit::Seconds));
                let ratio = |version: usize| Cell::number(times[0] / times[version], Unit::Ratio);
                let count = Cell::number(count as f64, Unit::Number);
                let size = Cell::number((kib << 10) as f64, Unit::Bytes);
                table.push([count, size, udp, dimmnet, direct, ratio(1), ratio(2)]);
            }
        }
        table
    }

    fn check(&self) -> Check {
        let faster = self.faster(1);
        Check::shape(
            format!("all 16 cells, {}: DIMMnet beside UDP", self.costs()),
            "faster",
            format!("faster in {faster}"),
            faster == 16,
        )
    }
}

impl Sweep {
    /// The paper's comparison, between UDP and DIMMnet.
    fn gaps(&self) -> Vec<f64> {
        self.times[0].iter().zip(&self.times[1]).map(|(udp, dimmnet)| udp - dimmnet).collect()
    }

    fn chart(&self, x: Axis) -> Chart {
        let mut chart =
            LineChart::new(self.title, x, Axis::linear("time", Unit::Seconds).from_zero());
        for (version, times) in SystemVersion::FIGURES.into_iter().zip(&self.times) {
            let points = self.x.iter().copied().zip(times.iter().copied()).collect();
            chart = chart.with(Series::line(version.name(), points));
        }
        chart.into()
    }
}

/// Every version with each number of nodes, with equally many variables per node.
struct Growth([[RunCosts; 3]; 4]);

impl Growth {
    fn of(machines: &Machines) -> Growth {
        Growth(SystemVersion::ALL.map(|version| {
            NODES.map(|nodes| {
                let variables = EACH * u64::from(nodes);
                let links = Links::Physical;
                run(machines, Setting { version, links, nodes, variables, size: 4096 })
            })
        }))
    }

    fn chart(&self) -> Chart {
        let mut chart = LineChart::new(
            "More nodes, with the links' rates: 512 variables of 4 KB for each",
            Axis::log2("nodes", Unit::Number),
            Axis::linear("time", Unit::Seconds).from_zero(),
        );
        for (version, runs) in SystemVersion::ALL.into_iter().zip(&self.0) {
            let point = |(nodes, run): (u32, &RunCosts)| (f64::from(nodes), run.seconds);
            let points = NODES.into_iter().zip(runs).map(point).collect();
            chart = chart.with(Series::line(version.name(), points));
        }
        chart.into()
    }

    fn table(&self) -> Table {
        let names = SystemVersion::ALL.map(SystemVersion::name);
        let sent = ["UDP, datagrams an acquire", "one by one, datagrams an acquire"];
        let head = ["nodes"].into_iter().chain(names).chain(sent);
        let mut table = Table::new("More nodes, with the links' rates", head);
        for (at, nodes) in NODES.into_iter().enumerate() {
            let acquires = (2 * EACH * u64::from(nodes)) as f64;
            let times = self.0.iter().map(|runs| Cell::number(runs[at].seconds, Unit::Seconds));
            let sent = self.0[..2]
                .iter()
                .map(|runs| Cell::number(runs[at].datagrams as f64 / acquires, Unit::Number));
            let nodes = Cell::number(nodes.into(), Unit::Number);
            table.push([nodes].into_iter().chain(times).chain(sent));
        }
        table
    }
}

/// Runs the four figures with the machine's links and with free links, and with more nodes.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let size = || Axis::linear("size of a variable", Unit::Bytes);
    let count = || Axis::linear("variables", Unit::Number);
    let [links, copies] = [Links::Physical, Links::Free].map(|links| Cells::all(machines, links));
    let growth = Growth::of(machines);
    let checks = vec![gap(&links.over_sizes("", 0)), links.check(), copies.check()];
    ExperimentOutcome {
        statement: "DIMMnet is faster in every case; the gap is nearly constant in the size of \
                    the variables and grows with their number."
            .into(),
        setup: "The program's acquires as the protocols' messages over the links of two nodes, \
                two rounds that move data; then with free links, the paper's explanation, in which \
                only copies cost anything for a byte; then 4 and 8 nodes, of which the paper \
                says nothing. A third curve is this project's protocol, direct."
            .into(),
        checks,
        tables: vec![links.table(), copies.table(), growth.table()],
        charts: vec![
            links.over_sizes("Figure 9: 1024 variables", 0).chart(size()),
            links.over_sizes("Figure 10: 8192 variables", 3).chart(size()),
            links.over_counts("Figure 11: 4 KB", 0).chart(count()),
            links.over_counts("Figure 12: 16 KB", 2).chart(count()),
            copies.over_sizes("Figure 9 with free links: 1024 variables", 0).chart(size()),
            copies.over_counts("Figure 11 with free links: 4 KB", 0).chart(count()),
            growth.chart(),
        ],
        notes: vec![
            "No times are printed. With the links' rates the gap grows with the size as well: 100 \
             Mb/s take 0.34 s for 1024 rows of 4 KB, 1017 MB/s 4 ms. The paper's constant gap \
             holds if both versions spend their time for a byte in the same copies: free links \
             assume that, and so show it."
                .into(),
            "The time that UDP's software takes (a system call, an interrupt, the stack) is not \
             printed and assumed, so the size of its gap is no result; that every cell has one is."
                .into(),
            "With more nodes an owner change has more to tell. By multicast it leaves in one \
             datagram, as in the paper, but each node acknowledges it, and its processor takes it \
             in; by stores no processor does. One by one takes no longer here: an owner tells the \
             others after it has granted, and its processor is idle then."
                .into(),
            "DIMMnet-1 has neither remote atomics nor remote reads, which direct consists of. \
             Assumed: the boards answer them, request and answer a store each (AOTF), and read \
             memory as fast as BOTF sends; the requester takes an answer as any word that arrives. \
             The owner's processor does nothing and copies nothing, so that direct needs one \
             copy where the others need two: that, and not the words, is what the size changes."
                .into(),
        ],
    }
}

/// The paper's statement on the gap in figure 9, with the links' rates. Without them the gap is
/// constant on any machine. On any machine it also grows with the number of variables, because the
/// program accesses them one after the other. A statement that no machine misses is no criterion.
fn gap(sweep: &Sweep) -> Check {
    let gaps = sweep.gaps();
    let most = gaps.iter().copied().fold(0.0, f64::max);
    let spread = most / gaps.iter().copied().fold(f64::MAX, f64::min);
    let check = Check::shape(
        "figure 9: gap over size, with the links' rates",
        "nearly constant",
        format!("largest {spread:.2} times smallest"),
        spread < 1.1,
    );
    check.because(
        "100 Mb/s take 0.34 s for 1024 rows of 4 KB and 1017 MB/s 4 ms, so the gap grows with the \
         size; 8,192 rows of 32 KB take 21 s on that Ethernet alone",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(version: SystemVersion, links: Links, kib: u64) -> f64 {
        let setting = Setting { version, links, nodes: 2, variables: 64, size: kib << 10 };
        run(&Machines::stored(), setting).seconds
    }

    #[test]
    fn fg_15_fg_17_fg_19_direct_stores_are_faster_and_with_free_links_by_a_constant() {
        let gaps = |links| {
            let time = |version, kib| seconds(version, links, kib);
            SIZES.map(|kib| time(SystemVersion::Udp, kib) - time(SystemVersion::Dimmnet, kib))
        };
        let free = gaps(Links::Free);
        assert!(free.iter().all(|gap| *gap > 0.0), "{free:?}");
        assert!(free[3] / free[0] < 1.1 && free[0] / free[3] < 1.1, "{free:?}");
        // Only the simplification makes it constant.
        let physical = gaps(Links::Physical);
        assert!(physical[3] / physical[0] > 2.0, "{physical:?}");
    }

    #[test]
    fn fg_17_remote_atomics_and_reads_are_faster_than_datagrams_of_every_size() {
        for links in [Links::Free, Links::Physical] {
            for kib in SIZES {
                let [direct, udp] = [SystemVersion::Direct, SystemVersion::Udp]
                    .map(|version| seconds(version, links, kib));
                assert!(direct < udp, "{kib} KiB: {direct} s, UDP {udp} s");
            }
        }
    }

    #[test]
    fn fg_15_with_more_nodes_multicast_saves_the_datagrams_of_all_but_one() {
        let Growth([multicast, single, stores, _]) = Growth::of(&Machines::stored());
        for (at, nodes) in NODES.into_iter().enumerate() {
            let acquires = 2 * EACH * u64::from(nodes);
            let saved = single[at].datagrams - multicast[at].datagrams;
            // The old owner notifies all nodes but the new one; with two nodes there are none.
            assert_eq!(saved, acquires * u64::from(nodes.saturating_sub(3)), "{nodes} nodes");
            assert!(multicast[at].seconds <= single[at].seconds, "{nodes} nodes");
            assert!(stores[at].seconds < multicast[at].seconds, "{nodes} nodes");
        }
        // All nodes acquire at once. It takes longer because each handles the others' messages.
        let slower = |runs: [RunCosts; 3]| runs[2].seconds / runs[0].seconds;
        assert!(slower(multicast) > 1.2 * slower(stores));
    }
}
