//! C programs against the library: compiled without a warning as C and as C++, linked both ways,
//! and run as jobs.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hikyaku_launch::Launch;
use hikyaku_launch::processes::Processes;

/// The job that [`launcher`] is to run, one item a line: ranks, ranks per node (0: all), and the
/// program with its arguments.
const JOB: &str = "HIKYAKU_C_TEST_JOB";

/// If set, the job runs in virtual time.
const VIRTUAL: &str = "HIKYAKU_C_TEST_VIRTUAL";

/// If set, the number of seconds after which the job is ended. A hundred otherwise.
const TIMEOUT: &str = "HIKYAKU_C_TEST_TIMEOUT";

/// Marks the launcher's exit code in the output of the test harness.
const CODE: &str = "the job's code is ";

/// The header, the test programs and the examples.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linking {
    Shared,
    Static,
}

/// The folder in which cargo has put the library: that of this program.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Compiles a program.
fn compile(source: &Path, language: Language, linking: Linking) -> PathBuf {
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{stem}-{language:?}-{linking:?}-{}", std::process::id()));
    let mut compiler = match language {
        Language::C => Command::new("gcc"),
        Language::Cpp => Command::new("g++"),
    };
    match language {
        Language::C => compiler.args(["-std=c11", "-D_XOPEN_SOURCE=700", "-Wstrict-prototypes"]),
        Language::Cpp => compiler.args(["-std=c++17", "-x", "c++"]),
    };
    compiler.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-o"]).arg(&program);
    compiler.arg(format!("-I{ROOT}/include")).arg(source).args(["-x", "none", "-pthread"]);
    let library = library();
    match linking {
        Linking::Shared => compiler
            .arg(format!("-L{}", library.display()))
            .args(["-lhikyaku_c", &format!("-Wl,-rpath,{}", library.display())]),
        Linking::Static => compiler.arg(library.join("libhikyaku_c.a")).args(["-ldl", "-lm"]),
    };
    let output = compiler.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler:?}: {said}");
    program
}

/// One of the test programs.
fn program(name: &str, language: Language, linking: Linking) -> PathBuf {
    compile(&Path::new(ROOT).join(format!("tests/programs/{name}.c")), language, linking)
}

/// Does nothing unless the variable names a job.
#[test]
fn launcher() {
    let Ok(job) = std::env::var(JOB) else { return };
    let mut words = job.lines();
    let mut number = || words.next().unwrap().parse().unwrap();
    let (ranks, ranks_per_node): (u32, u32) = (number(), number());
    let program = words.next().unwrap();
    let timeout = std::env::var(TIMEOUT).map_or(100, |seconds| seconds.parse().unwrap());
    let launch = Launch {
        args: words.map(Into::into).collect(),
        ranks_per_node: (ranks_per_node > 0).then_some(ranks_per_node),
        timeout: Some(Duration::from_secs(timeout)),
        ..Launch::new(ranks, program)
    };
    let outcome = match std::env::var_os(VIRTUAL) {
        None => launch.run().unwrap(),
        Some(_) => Processes::on_a_test_machine(launch).run().unwrap().outcome,
    };
    outcome.reason.iter().chain(&outcome.details).for_each(|line| eprintln!("{line}"));
    println!("{CODE}{}", outcome.code);
}

/// Runs a program as a job. Returns its exit code, and its output on both streams.
fn job(ranks: u32, ranks_per_node: u32, program: &Path, words: &[&str]) -> (i32, String, String) {
    job_with(&[], ranks, ranks_per_node, program, words)
}

/// The same with additional environment variables.
fn job_with(
    variables: &[(&str, &str)],
    ranks: u32,
    ranks_per_node: u32,
    program: &Path,
    words: &[&str],
) -> (i32, String, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "launcher", "--nocapture"]).stdin(Stdio::null());
    let words = [&[program.to_str().unwrap()], words].concat().join("\n");
    command.env(JOB, format!("{ranks}\n{ranks_per_node}\n{words}"));
    // Not the library that an earlier build left elsewhere.
    command.env("LD_LIBRARY_PATH", library());
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = stdout.split(CODE).nth(1).and_then(|rest| rest.lines().next());
    let code = code.unwrap_or_else(|| panic!("no code: {stdout}{stderr}")).parse().unwrap();
    (code, stdout, stderr)
}

/// Runs a job that must succeed, without output on standard error. Returns its output.
#[track_caller]
fn succeed(ranks: u32, ranks_per_node: u32, program: &Path, words: &[&str]) -> String {
    let (code, stdout, stderr) = job(ranks, ranks_per_node, program, words);
    assert_eq!((code, stderr.as_str()), (0, ""), "{ranks}, {ranks_per_node}: {stdout}");
    stdout
}

#[test]
fn every_call_works_from_c_and_cpp_linked_both_ways() {
    let cases = [
        (Language::C, Linking::Shared),
        (Language::C, Linking::Static),
        (Language::Cpp, Linking::Shared),
    ];
    for (language, linking) in cases {
        let program = program("calls", language, linking);
        let stdout = succeed(4, 0, &program, &[]);
        assert!(stdout.contains("4 ranks, every call"), "{stdout}");
        if linking == Linking::Static {
            succeed(3, 1, &program, &[]);
            succeed(4, 2, &program, &[]);
        }
        let alone = Command::new(&program).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&alone.stdout), "1 ranks, every call\n");
    }
}

/// In real and in virtual time: the digests of the table that all languages are compared with.
#[test]
fn collectives_give_the_bits_that_they_give_in_rust() {
    let table = fs::read_to_string(format!("{ROOT}/../../tests/jobs/bits.txt")).unwrap();
    let lines = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let lines: Vec<_> = lines.filter(|line| line.len() > 1 && line[0] != "#").collect();
    let lengths = lines.iter().find(|line| line[0] == "lengths").unwrap()[1..].to_vec();
    let own = lines.iter().filter(|line| line[0] == "operation" && line.contains(&"c"));
    let operations: Vec<&str> = own.map(|line| line[1]).collect();
    let mut jobs: BTreeMap<(u32, u32), Digests<'_>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line[0] == "bits" && operations.contains(&line[3])) {
        let [ranks, per_node] = [line[1], line[2]].map(|word| word.parse().unwrap());
        let expected = jobs.entry((ranks, per_node)).or_default();
        for (length, digest) in lengths.iter().zip(&line[4..]) {
            expected.insert((line[3], length), u64::from_str_radix(digest, 16).unwrap());
        }
    }
    let program = program("bits", Language::C, Linking::Static);
    let words = [operations.join(","), lengths.join(",")];
    for ((ranks, per_node), expected) in jobs {
        let all_on_one = if per_node == 0 { ranks } else { per_node };
        for (per_node, variables) in [(per_node, &[][..]), (all_on_one, &[(VIRTUAL, "yes")])] {
            let words = words.each_ref().map(String::as_str);
            let (code, stdout, stderr) = job_with(variables, ranks, per_node, &program, &words);
            assert_eq!((code, stderr.as_str()), (0, ""), "{ranks}, {per_node}: {stdout}");
            assert_eq!(sums(&stdout), expected, "{ranks}, {per_node}, {variables:?}");
        }
    }
}

/// Digests by operation and length.
type Digests<'a> = BTreeMap<(&'a str, &'a str), u64>;

/// The digests of all ranks, added up.
fn sums(stdout: &str) -> Digests<'_> {
    let mut sums = Digests::new();
    for line in stdout.lines() {
        let ["c", operation, length, digest] = line.split(' ').collect::<Vec<_>>()[..] else {
            continue;
        };
        let sum: &mut u64 = sums.entry((operation, length)).or_default();
        *sum = sum.wrapping_add(u64::from_str_radix(digest, 16).unwrap());
    }
    sums
}

#[test]
fn every_misuse_is_an_error_that_says_why() {
    for (language, linking) in [(Language::C, Linking::Shared), (Language::Cpp, Linking::Static)] {
        let program = program("misuse", language, linking);
        succeed(1, 0, &program, &[]);
        let stdout = succeed(4, 2, &program, &[]);
        assert_eq!(stdout.matches("every misuse is told").count(), 4, "{stdout}");
    }
}

#[test]
fn ranks_that_disagree_are_all_told() {
    let program = program("disagree", Language::C, Linking::Shared);
    succeed(4, 0, &program, &[]);
    succeed(3, 1, &program, &[]);
}

#[test]
fn a_child_of_a_rank_is_none() {
    let program = program("forked", Language::C, Linking::Shared);
    for ranks_per_node in [0, 1] {
        succeed(2, ranks_per_node, &program, &[]);
    }
}

#[test]
fn others_go_on_when_a_rank_dies_that_holds() {
    let program = program("death", Language::C, Linking::Shared);
    let (code, stdout, stderr) = job(4, 0, &program, &[]);
    assert_eq!(code, 137, "{stdout}{stderr}");
    assert!(stderr.contains("rank 0") && stderr.contains("SIGKILL"), "{stderr}");
    assert_eq!(stdout.matches("goes on").count(), 3, "{stdout}{stderr}");
}

#[test]
fn a_rank_that_ends_without_finalize_is_dead_to_the_others() {
    let program = program("death", Language::C, Linking::Static);
    let (code, stdout, stderr) = job(2, 0, &program, &["unfinished"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
}

/// Calls that never return, with the job's report of each, as for Rust; `LAST` is the last rank.
/// One of the collectives at a time: ranks in different ones get an error.
const WAITS: [(&str, &str); 5] = [
    ("send", "send to rank LAST, tag 3"),
    ("recv", "receive from rank LAST, tag 5"),
    ("recv any", "receive from any rank, any tag"),
    ("write", "acquisition of shared variable 'field' to write, held by rank LAST"),
    ("read", "acquisition of shared variable 'field' to read, held by rank LAST"),
];
const WAITS_TOGETHER: [(&str, &str); 3] =
    [("barrier", "barrier"), ("broadcast", "broadcast (root LAST)"), ("allreduce", "allreduce")];

/// One job for each collective, in real time concurrently.
#[test]
fn every_call_says_what_it_waits_for() {
    let program = program("waits", Language::C, Linking::Static);
    let ways: [(i32, &[(&str, &str)]); 2] = [(124, &[(TIMEOUT, "10")]), (3, &[(VIRTUAL, "yes")])];
    for (code, variables) in ways {
        std::thread::scope(|scope| {
            for together in WAITS_TOGETHER {
                let program = &program;
                scope.spawn(move || hang(program, together, code, variables));
            }
        });
    }
}

fn hang(program: &Path, together: (&str, &str), code: i32, variables: &[(&str, &str)]) {
    let calls: Vec<_> = WAITS.into_iter().chain([together]).collect();
    let words: Vec<&str> = calls.iter().map(|(call, _)| *call).collect();
    let last = calls.len();
    for per_node in [1, last as u32 + 1] {
        let job = job_with(variables, last as u32 + 1, per_node, program, &words);
        assert_eq!(job.0, code, "{}{}", job.1, job.2);
        for (rank, (call, expected)) in calls.iter().enumerate() {
            let expected = expected.replace("LAST", &last.to_string());
            let line = job.2.lines().find_map(|line| {
                let after = line.split_once(&format!("rank {rank} "))?.1;
                Some(after.split_once("waits in ")?.1)
            });
            // A collective may report the rank that it waits for, and every call the start of the
            // wait.
            let is_right = line.and_then(|line| line.strip_prefix(&expected)).is_some_and(|rest| {
                [", for ", ", since ", " with rank "].iter().any(|way| rest.starts_with(way))
            });
            assert!(is_right, "{call}: {expected:?} is said as {line:?} in\n{}", job.2);
        }
    }
}

#[test]
fn the_library_has_what_the_header_declares_and_nothing_else() {
    let header = fs::read_to_string(format!("{ROOT}/include/hikyaku.h")).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = header.split(|c: char| !is_name(c));
    let names: BTreeSet<&str> = words.filter(|word| word.starts_with("hikyaku_")).collect();
    let library = library().join("libhikyaku_c.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let symbols = String::from_utf8(output.stdout).unwrap();
    let mut symbols: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().next_back()).collect();
    // By these symbols the libraries of a process find the rank that one of them is.
    for inner in ["hikyaku_rank_here", "hikyaku_rank_share"] {
        assert!(symbols.remove(inner), "{inner}");
    }
    assert!(symbols.len() > 20 && symbols.is_subset(&names), "{symbols:?}");
    let functions = names.iter().filter(|name| header.contains(&format!("{name}(")));
    let missing: Vec<_> = functions.filter(|name| !symbols.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_program_of_the_guide_works() {
    let guide = fs::read_to_string(format!("{ROOT}/../../docs/c.md")).unwrap();
    let program = guide.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide.c");
    fs::write(&source, program).unwrap();
    succeed(2, 0, &compile(&source, Language::C, Linking::Static), &[]);
}

#[test]
fn the_example_divides_its_work() {
    let source = Path::new(ROOT).join("../../examples/c/work_queue.c");
    let program = compile(&source, Language::C, Linking::Shared);
    for (ranks, ranks_per_node) in [(4, 0), (3, 1)] {
        let stdout = succeed(ranks, ranks_per_node, &program, &[]);
        assert!(stdout.contains("400 pieces, longest 143 steps"), "{stdout}");
    }
}
