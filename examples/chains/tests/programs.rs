//! Both programs in each decomposition, in real and in virtual time, and the gain of a chain.

use std::path::PathBuf;

use hikyaku_jobs::own;

#[test]
fn launcher() {
    own::launch(env!("CARGO_BIN_EXE_chains"));
}

#[test]
fn cp_06_cp_12_crystal_and_transposition_are_those_of_one_rank_in_each_decomposition() {
    for (program, side) in [("crystal", "8"), ("transpose", "16")] {
        for ranks in [1, 8] {
            for dimensions in ["1", "2", "3"] {
                for run in [own::run, own::run_in_virtual_time] {
                    for words in
                        [&[program, dimensions, side][..], &[program, dimensions, side, "each"]]
                    {
                        let (code, said, complaints) = run(ranks, words);
                        let right = format!("{ranks} of {ranks} ranks have the right result");
                        assert!(
                            code == 0 && said.contains(&right),
                            "{words:?}: {said}{complaints}"
                        );
                    }
                }
            }
        }
    }
}

/// Paper 004's Table 1: a rank of 1 x P x P has N/P times N/P lines, each cut into P messages of
/// 8 N/P bytes, of which it keeps one. Its rows of cubes begin with 16 messages of 8 B.
#[test]
fn cp_11_a_transposition_of_pencils_sends_the_messages_of_the_table() {
    for (ranks, across) in [(4, 2), (16, 4)] {
        for side in [across, 2 * across, 4 * across] {
            let lines = (side / across) * (side / across);
            let (puts, bytes) = (lines * (across - 1), 8 * side / across);
            for run in [own::run, own::run_in_virtual_time] {
                let (code, said, complaints) = run(ranks, &["transpose", "2", &side.to_string()]);
                let right = format!("{ranks} of {ranks} ranks have the right result");
                let sent = format!("{puts} puts of {bytes} B in an exchange");
                assert!(
                    code == 0 && said.contains(&right) && said.contains(&sent),
                    "{sent}: {said}{complaints}"
                );
            }
        }
    }
}

/// Puts of a rank in an exchange, and the nanoseconds it takes, on a machine with 16 nodes.
fn exchange(machine: &str, program: &str, dimensions: &str, each: bool) -> (u64, u64) {
    let file = format!("{}/../../machines/{machine}.toml", env!("CARGO_MANIFEST_DIR"));
    let words = [program, dimensions, "16", "each"];
    let words = if each { &words[..] } else { &words[..3] };
    let (code, said, complaints) = own::run_on(&PathBuf::from(file), 16, words);
    let line = said.lines().find(|line| line.contains(" puts of "));
    let line = line.unwrap_or_else(|| panic!("{code}: {said}{complaints}"));
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[2])
}

/// A start takes 2.67 us there, and a message of a chain 0.2 us of the interface. Elsewhere every
/// put has its start, but a chain waits for all answers at once.
#[test]
fn cp_06_cp_12_a_chain_of_a_process_costs_one_start_where_there_are_chains() {
    let start = 2_670;
    for (program, dimensions) in [("transpose", "1"), ("transpose", "3"), ("crystal", "3")] {
        let [(puts, chain), (_, each)] =
            [false, true].map(|each| exchange("cp-pacs", program, dimensions, each));
        assert!(chain < puts * start / 2, "{program} {dimensions}: {puts} puts in {chain} ns");
        assert!(each > puts * start, "{program} {dimensions}: {puts} puts in {each} ns");
    }
    let (puts, chain) = exchange("fat-tree-200g", "transpose", "1", false);
    assert!(chain > puts * 50, "a start of 50 ns each: {puts} puts in {chain} ns");
}

/// Paper 004: the shorter the messages, the more a chain saves.
#[test]
fn cp_12_chains_help_slabs_more_than_blocks() {
    let ratio = |dimensions| {
        let [chain, each] =
            [false, true].map(|each| exchange("cp-pacs", "transpose", dimensions, each).1 as f64);
        each / chain
    };
    let (slabs, blocks) = (ratio("1"), ratio("3"));
    assert!(slabs > blocks && blocks > 3.0, "{slabs} and {blocks}");
}
