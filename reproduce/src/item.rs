//! The experiments by name: `000-table-7` is table 7 of paper 000.

use crate::{ExperimentOutcome, Machines, p000, p001, p002, p003, p004};

/// A table or figure, or several that one run produces.
#[derive(Debug, Clone, Copy)]
pub struct PaperItem {
    /// Its name on the command line and the stem of its results file.
    pub name: &'static str,
    /// Its subject, in words.
    pub title: &'static str,
    /// The machine files it runs on.
    pub machines: &'static [&'static str],
    /// Runs it on machines. It is deterministic: the outcome is always the same.
    pub run: fn(&Machines) -> ExperimentOutcome,
}

/// All experiments, in the order of the report.
pub fn items() -> &'static [PaperItem] {
    ITEMS
}

/// The items that `words` select; without words, all items. A word selects all items whose names
/// begin with it: `000`, `003-figure`.
///
/// # Errors
/// The first word that selects no item.
pub fn select(words: &[String]) -> Result<Vec<&'static PaperItem>, &str> {
    if words.is_empty() {
        return Ok(ITEMS.iter().collect());
    }
    let named = |item: &PaperItem, word: &str| item.name.starts_with(word);
    if let Some(word) = words.iter().find(|word| !ITEMS.iter().any(|item| named(item, word))) {
        return Err(word);
    }
    Ok(ITEMS.iter().filter(|item| words.iter().any(|word| named(item, word))).collect())
}

const ITEMS: &[PaperItem] = &[
    PaperItem {
        name: "000-table-1",
        title: "Landing memory saved by planning rings from a trace",
        machines: &[],
        run: p000::table1::run,
    },
    PaperItem {
        name: "000-tables-2-3",
        title: "Clocks of the receive path, PUSH and IPUSH",
        machines: &["dimmnet2"],
        run: p000::table2_3::run_item,
    },
    PaperItem {
        name: "000-table-7",
        title: "Breakdown of a ping-pong of 24 bytes",
        machines: &["dimmnet2"],
        run: p000::table7::run_item,
    },
    PaperItem {
        name: "000-figure-8",
        title: "Bandwidth of a ping-pong under five conditions",
        machines: &["dimmnet2"],
        run: p000::figure8::run_item,
    },
    PaperItem {
        name: "001-figures-9-12",
        title: "Shared variables by UDP and by DIMMnet, over size and number",
        machines: &["dimmnet1"],
        run: p001::figures::run_item,
    },
    PaperItem {
        name: "002-figure-9",
        title: "Halo exchange with a queue for each neighbour (FAST)",
        machines: &["fx100-tofu2"],
        run: p002::figure9::run_item,
    },
    PaperItem {
        name: "002-figure-10",
        title: "Halo exchange with one queue (MRC), and its ratio to FAST",
        machines: &["fx100-tofu2"],
        run: p002::figure10::run_item,
    },
    PaperItem {
        name: "003-figure-6",
        title: "Latency of short messages by library",
        machines: &["cenju4"],
        run: p003::figure6::run_item,
    },
    PaperItem {
        name: "003-figure-7",
        title: "Throughput by alignment and read optimisation",
        machines: &["cenju4"],
        run: p003::figure7::run_item,
    },
    PaperItem {
        name: "003-figure-8",
        title: "Throughput of odd-word transfers",
        machines: &["cenju4"],
        run: p003::figure8::run_item,
    },
    PaperItem {
        name: "003-figure-9",
        title: "Everyone to everyone: order and multicast",
        machines: &["cenju4"],
        run: p003::figure9::run_item,
    },
    PaperItem {
        name: "003-figure-10",
        title: "Barrier by five algorithms",
        machines: &["cenju4"],
        run: p003::figure10::run_item,
    },
    PaperItem {
        name: "004-figure-3",
        title: "Effective throughput of a ping-pong",
        machines: &["cp-pacs"],
        run: p004::figure3::run_item,
    },
    PaperItem {
        name: "004-figure-4",
        title: "One-to-all broadcast by three algorithms",
        machines: &["cp-pacs"],
        run: p004::figure4::run_item,
    },
    PaperItem {
        name: "004-figure-5",
        title: "Scatter, processing and gather",
        machines: &["cp-pacs"],
        run: p004::figure5::run_item,
    },
    PaperItem {
        name: "004-figures-6-7",
        title: "All-to-all broadcast by butterfly collection",
        machines: &["cp-pacs"],
        run: p004::figure7::run_item,
    },
    PaperItem {
        name: "004-table-1",
        title: "Messages of a matrix transposition",
        machines: &[],
        run: p004::table1::run_item,
    },
    PaperItem {
        name: "004-figures-8-9",
        title: "Matrix transposition, message by message and in a chain",
        machines: &["cp-pacs"],
        run: p004::figure9::run_item,
    },
    PaperItem {
        name: "004-figure-10",
        title: "Random transfer on the hyper-crossbar, a torus and a mesh",
        machines: &["cp-pacs"],
        run: p004::figure10::run_item,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn select_names(words: &[&str]) -> Result<Vec<&'static str>, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let found = select(&words).map_err(str::to_owned)?;
        Ok(found.iter().map(|item| item.name).collect())
    }

    #[test]
    fn names_are_unique_and_sorted_by_paper() {
        for pair in ITEMS.windows(2) {
            assert!(pair[0].name[..3] <= pair[1].name[..3], "{}", pair[1].name);
        }
        let mut names: Vec<_> = ITEMS.iter().map(|item| item.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ITEMS.len());
    }

    #[test]
    fn words_select_by_prefix_and_unknown_ones_are_told() {
        assert_eq!(select_names(&[]).map(|all| all.len()), Ok(ITEMS.len()));
        assert_eq!(select_names(&["000-table-1"]), Ok(vec!["000-table-1"]));
        assert!(select_names(&["000"]).is_ok_and(|found| !found.is_empty()));
        assert_eq!(select_names(&["000", "007"]), Err("007".into()));
    }
}
