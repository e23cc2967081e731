//! Tests of `hikyaku simulate` from the user's view: answers, refusals of one line, interrupts.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use hikyaku_coll::Operation;

const HIKYAKU: &str = env!("CARGO_BIN_EXE_hikyaku");

fn simulate(line: &str) -> Output {
    let words = ["simulate"].into_iter().chain(line.split_whitespace());
    Command::new(HIKYAKU).args(words).stdin(Stdio::null()).output().unwrap()
}

fn stdout(line: &str) -> String {
    let output = simulate(line);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{line}: {told}");
    assert_eq!(told, "", "{line}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it, and checks the answer to an invalid command line.
fn refusal(line: &str) -> String {
    let output = simulate(line);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    assert_eq!(message.lines().count(), 1, "{line}: {message}");
    assert!(message.starts_with("hikyaku: "), "{line}: {message}");
    assert_eq!(output.stdout, b"", "{line}");
    message
}

#[test]
fn arguments_that_would_be_ignored_are_refused() {
    for (line, argument) in [
        ("-m cenju4 --what-if halo", "--machine"),
        ("-n 4 --what-if halo", "--ranks"),
        ("--what-if halo barrier", "a built-in program"),
        ("--sweep -m dimmnet1 -n 2 barrier", "a built-in program"),
        ("--sweep -m dimmnet1 -n 2 --trace t.json", "--trace"),
        ("-m cenju4 -n 4 --sizes 8 barrier", "--sizes"),
        ("-m cenju4 -n 4 --output here barrier", "--output"),
        ("-m cenju4 -n 4 --timeline t.html start", "--timeline"),
        ("-m cenju4 -n 4 --lengths-only -- true", "--lengths-only"),
        ("-m cenju4 -n 4 --seed 2 -- true", "--seed"),
    ] {
        let message = refusal(line);
        assert!(message.starts_with(&format!("hikyaku: {argument} has no effect")), "{message}");
    }
}

#[test]
fn arrays_that_have_no_room_are_refused_before_the_run() {
    for program in ["alltoall --size 1G", "allgather --size 1G", "reduce_scatter --size 1G"] {
        let message = refusal(&format!("-m fat-tree-200g -n 800 {program}"));
        assert!(message.contains("--lengths-only"), "{message}");
    }
    stdout(
        "-m fat-tree-200g -n 800 --lengths-only alltoall --algorithm bruck --size 1G --repeat 0",
    );
}

#[test]
fn every_built_in_program_ends_with_the_right_answer() {
    let programs = [
        "pingpong --rounds 3",
        "ring",
        "halo --dims 2 --steps 2",
        "random --messages 5",
        "heat --side 8 --steps 12",
        "cg --side 4 --iterations 200",
        "barrier",
        "broadcast --algorithm pipelined --size 4K",
        "reduce",
        "allreduce --size 1K --repeat 2",
        "gather",
        "scatter",
        "allgather",
        "alltoall --size 100",
        "alltoallw --size 101",
        "reduce_scatter",
        "scan",
        "exscan",
    ];
    for program in programs {
        let name = program.split(' ').next().unwrap();
        let text = stdout(&format!("-m cp-pacs -n 12 {program}"));
        assert!(
            text.starts_with(&format!("{name}, 12 ranks on cp-pacs (hyper-crossbar")),
            "{text}"
        );
        assert!(text.contains("right"), "{text}");
    }
}

#[test]
fn a_collective_says_which_algorithm_it_chose_and_why() {
    let by_costs = "by the costs of messages on this machine: binomial ";
    let text = stdout("-m cenju4 -n 32 gather");
    assert!(text.contains(&format!("Algorithm: binomial; {by_costs}")), "{text}");
    let text = stdout("-m cenju4 -n 32 barrier");
    assert!(text.contains("Algorithm: sync, as the table says"), "{text}");
    let text = stdout("-m cenju4 -n 32 --ranks-per-node 2 gather");
    assert!(text.contains("Algorithm: binomial, as the table says"), "{text}");
    assert!(!stdout("-m cenju4 -n 32 gather --algorithm linear").contains("Algorithm:"));
}

#[test]
fn lengths_only_says_that_nothing_was_checked_and_ranks_may_share_nodes() {
    let text = stdout("-m cenju4 -n 64 --ranks-per-node 2 --lengths-only alltoall --size 1K");
    assert!(text.contains("not checked") && text.contains("assumed"), "{text}");
    assert!(text.contains("median"), "{text}");
}

#[test]
fn machines_that_are_no_machines_are_told_in_one_line() {
    let unknown = refusal("-m cray -n 2 pingpong");
    assert!(unknown.contains("machine file cray") && unknown.contains("cp-pacs"), "{unknown}");
    assert!(refusal("-m /dev/null -n 2 pingpong").contains("name"), "an empty file");
    let folder = tempfile_with("clocks = 3");
    let message = refusal(&format!("-m {folder} -n 2 pingpong"));
    assert!(message.contains(&folder), "{message}");
    std::fs::remove_file(folder).unwrap();
}

/// A machine file with one line too many.
fn tempfile_with(line: &str) -> String {
    let text = include_str!("../../../machines/cp-pacs.toml");
    let file = std::env::temp_dir().join(format!("hikyaku-machine-{}.toml", std::process::id()));
    std::fs::write(&file, text.replace("nodes = 256", &format!("nodes = 256\n{line}"))).unwrap();
    file.display().to_string()
}

#[test]
fn numbers_and_names_that_make_no_sense_are_told_in_one_line() {
    let many = refusal("-m cp-pacs -n 257 barrier");
    assert!(many.contains("need 257 nodes, cp-pacs has 256; --nodes 257"), "{many}");
    assert!(refusal("-m cp-pacs -n 0 barrier").contains("0 ranks"), "none");
    assert!(refusal("-m cp-pacs -n 2 --ranks-per-node 0 barrier").contains("--ranks-per-node"));
    assert!(refusal("-m cp-pacs -n 2 --nodes 3000000 barrier").contains("larger"));
    assert!(refusal("-m cp-pacs -n 2 dance").contains("dance"));
    assert!(refusal("-m cp-pacs -n 2").contains("PROGRAM"));
    assert!(refusal("-m cp-pacs pingpong").contains("-n RANKS"));
    assert!(refusal("-n 2 pingpong").contains("--machine"));
    assert!(refusal("-m cp-pacs -n 2 halo --dims 4").contains("dims"));
    assert!(refusal("-m cp-pacs -n 2 halo --compute soon").contains("write a time such as"));
    let algorithm = refusal("-m cp-pacs -n 2 allreduce --algorithm magic");
    assert!(algorithm.contains("there are recursive-doubling, ring"), "{algorithm}");
}

/// An option without effect would hide that the run is not the intended one.
#[test]
fn options_of_processes_without_processes_are_refused() {
    for option in ["--records f", "--report f", "--label", "--rings 2", "--compute measured"] {
        let name = option.split(' ').next().unwrap();
        let expected = format!(
            "hikyaku: {name} is only for programs that run as processes: those after `--`\n"
        );
        assert_eq!(refusal(&format!("-m cenju4 -n 4 {option} ring")), expected);
    }
}

/// The error comes before the run, which may take hours.
#[test]
fn files_that_cannot_be_written_are_told_before_the_run() {
    for line in ["--trace /no/such/f ring", "--timeline /no/such/f.svg ring", "--records / -- true"]
    {
        let output = simulate(&format!("-m cenju4 -n 4 {line}"));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]), "{message}");
        assert!(message.starts_with("hikyaku: cannot write /"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn the_same_command_gives_the_same_result() {
    // Wall time and memory differ; the rest must be equal.
    let virtual_part = |text: String| {
        let lines = text.lines().filter(|line| !line.contains('/') && !line.contains("memory"));
        lines.map(str::to_owned).filter(|line| !line.starts_with("time")).collect::<Vec<_>>()
    };
    let run = || virtual_part(stdout("-m cp-pacs -n 16 --seed 5 random --messages 20"));
    let text = run();
    assert!(text.len() > 10, "{text:?}");
    assert_eq!(text, run());
}

/// On the machine whose switches have all that a machine may have.
#[test]
fn every_algorithm_runs_or_the_help_says_where() {
    let help = stdout("barrier --help");
    for operation in Operation::ALL {
        let line = |by: &str| format!("-m cenju4 -n 4 {} --algorithm {by}", operation.name());
        let refused = refusal(&line("magic"));
        let (_, offered) = refused.trim_end().split_once(": there are ").unwrap();
        for by in operation.algorithms() {
            if offered.split(", ").any(|name| name == *by) {
                assert!(stdout(&line(by)).contains("right"), "{operation:?} by {by}");
            } else {
                assert!(refusal(&line(by)).ends_with(&format!("by `{by}`: there are {offered}\n")));
                assert!(help.contains(by), "{by} in {help}");
            }
        }
    }
}

#[test]
fn an_algorithm_that_does_not_suit_fails_with_a_report() {
    let output = simulate("-m cp-pacs -n 3 broadcast --algorithm binary-tree");
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("power of two"), "{message}");
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.starts_with("broadcast, 3 ranks"));
    assert!(report.contains("none: failed") && !report.contains("right"), "{report}");
}

#[test]
fn an_interrupt_ends_a_long_run_with_its_report() {
    let words = "simulate -m cp-pacs -n 64 --lengths-only ring --steps 100000000";
    let mut run = Command::new("env")
        .args(["--default-signal=INT", "sh", "-c", "echo ready; exec \"$0\" \"$@\"", HIKYAKU])
        .args(words.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    // Until the handler is installed, the signal would end the process without output.
    while !catches_interrupts(run.id()) {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let mut report = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut report).unwrap();
    let code = run.wait().unwrap().code();
    assert_eq!(code, Some(130), "{report}");
    assert!(report.starts_with("ring, 64 ranks") && report.contains("median"), "{report}");
    assert!(report.contains("none: interrupted"), "{report}");
}

/// Whether a process is ours by now, not the shell that becomes it, and has a handler for SIGINT
/// (Linux).
fn catches_interrupts(process: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
    if name.trim() != "hikyaku" {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught & 1 << (Signal::INT.as_raw() - 1) != 0
}

#[test]
fn what_happened_is_written_as_page_picture_and_trace() {
    let folder = std::env::temp_dir().join(format!("hikyaku-timeline-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    let (page, picture, trace) = (file("a.html"), file("a.svg"), file("a.json"));
    for (machine, links) in
        [("cp-pacs", true), ("fx100-tofu2", true), ("dimmnet2 --nodes 8", false)]
    {
        let run = format!("-m {machine} -n 8 --trace {trace}");
        stdout(&format!("{run} --timeline {page} halo --steps 2"));
        stdout(&format!("{run} --timeline {picture} halo --steps 2"));
        let read = |file: &str| std::fs::read_to_string(file).unwrap();
        let html = read(&page);
        assert!(html.contains("rank 7") && html.contains("class=\"way\""), "{machine}");
        assert_eq!(html.contains("busiest link shown"), links, "{machine}");
        assert!(read(&picture).ends_with("</svg>"));
        // 8 ranks, 3 dimensions of 2: 6 messages per rank and step.
        assert_eq!(read(&trace).matches("\"ph\":\"s\"").count(), 8 * 6 * 2, "{machine}");
        assert_eq!(read(&trace).matches("\"ph\":\"f\"").count(), 8 * 6 * 2, "{machine}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(refusal("-m cp-pacs -n 2 --timeline a.txt pingpong").contains("(.html)"));
    let nowhere = simulate("-m cp-pacs -n 2 --trace /no/such/folder/a.json pingpong");
    assert_eq!(nowhere.status.code(), Some(1));
    let message = String::from_utf8(nowhere.stderr).unwrap();
    assert!(message.contains("cannot write /no/such/folder/a.json"), "{message}");
}

#[test]
fn a_sweep_and_a_question_write_their_pages() {
    let folder = std::env::temp_dir().join(format!("hikyaku-sweep-{}", std::process::id()));
    let output = folder.display().to_string();
    let words = format!("--sweep -m cp-pacs -n 16 --sizes 8,1K --output {output}");
    let swept = simulate(&words);
    assert_eq!(swept.status.code(), Some(0));
    let text = String::from_utf8(swept.stdout).unwrap();
    assert!(text.contains("23 points; of 23 with a choice to judge"), "{text}");
    let csv = std::fs::read_to_string(folder.join("sweep.csv")).unwrap();
    assert!(csv.lines().count() > 40 && csv.contains("chosen, fastest"), "{csv}");
    assert!(std::fs::read_to_string(folder.join("sweep.html")).unwrap().contains("<svg"));
    let text = stdout(&format!("--what-if rings --output {output}"));
    assert!(text.contains("half a round trip") || text.contains("Half a round trip"), "{text}");
    assert!(folder.join("what-if-rings.html").exists());
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(refusal("--what-if rain").contains("there are halo, rings, broadcast"));
    assert!(refusal("--sweep -n 0").contains("0 ranks"));
}

/// The table of docs/hosts.md: ten thousand hosts, and the benefit of a tree of daemons.
#[test]
fn a_start_is_calculated_as_the_manual_says() {
    let line = "-m fat-tree-200g -n 640000 --ranks-per-node 64 --nodes 10000 start";
    let text = stdout(line);
    let manual = include_str!("../../../docs/hosts.md");
    let rows: Vec<&str> = text.lines().skip(3).collect();
    assert_eq!(rows.len(), 4, "{text}");
    assert!(rows.iter().all(|row| manual.contains(row)), "docs/hosts.md has another:\n{text}");
}
