//! Tests that output is whole, unchanged, and goes to the right place.

use std::{
    fs::File,
    io::Read,
    process::{Command, Stdio},
};

use super::support::{HIKYAKU, run, script, sorted, stderr, stdout};

#[test]
fn labels_name_the_rank_and_streams_stay_apart() {
    let output = script(&["-n", "3", "--label"], "echo out $HIKYAKU_RANK; echo err >&2");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(sorted(&stdout(&output)), ["[0] out 0", "[1] out 1", "[2] out 2"]);
    assert_eq!(sorted(&stderr(&output)), ["[0] err", "[1] err", "[2] err"]);
}

/// Every rank writes numbered lines in pieces of any length. Each line must be whole and in its
/// rank's order.
#[test]
fn lines_of_eight_chatty_ranks_are_whole() {
    let program = "
import os
rank = os.environ['HIKYAKU_RANK']
text = ''.join(f'{rank}:{i}:' + 'x' * (i * 37 % 500) + '\\n' for i in range(2000)).encode()
at, step = 0, 1
while at < len(text):
    at += os.write(1, text[at:at + step])
    step = (step * 31 + 7) % 6000 + 1
";
    let output = run(&["-n", "8", "--", "python3", "-c", program]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut next = [0; 8];
    for line in stdout(&output).lines() {
        let (rank, rest) = line.split_once(':').unwrap();
        let (number, fill) = rest.split_once(':').unwrap();
        let (rank, number): (usize, usize) = (rank.parse().unwrap(), number.parse().unwrap());
        assert_eq!(number, next[rank], "rank {rank}");
        assert_eq!(fill, "x".repeat(number * 37 % 500), "rank {rank}, line {number}");
        next[rank] += 1;
    }
    assert_eq!(next, [2000; 8]);
}

#[test]
fn unfinished_last_lines_do_not_run_together() {
    let output = script(&["-n", "4"], "printf 'rank %s' $HIKYAKU_RANK");
    assert_eq!(sorted(&stdout(&output)), ["rank 0", "rank 1", "rank 2", "rank 3"]);
    assert!(!stdout(&output).ends_with('\n'), "nothing is added at the very end");
}

#[test]
fn bytes_of_a_rank_alone_are_unchanged() {
    let program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)";
    let output = run(&["-n", "1", "--", "python3", "-c", program]);
    let expected: Vec<u8> = (0..=255).cycle().take(256 * 4096).collect();
    assert!(output.stdout == expected, "{} bytes came", output.stdout.len());
}

#[test]
fn a_line_longer_than_any_buffer_arrives_complete() {
    let program = "print('a' * 10_000_000)";
    let output = run(&["-n", "1", "--label", "--", "python3", "-c", program]);
    assert_eq!(output.stdout.len(), "[0] ".len() + 10_000_000 + 1);
    assert!(output.stdout.starts_with(b"[0] aaa") && output.stdout.ends_with(b"a\n"));
}

#[test]
fn both_streams_into_one_file_keep_their_lines() {
    let mut reader = {
        let (reader, writer) = std::io::pipe().unwrap();
        let script = "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done";
        let mut command = Command::new(HIKYAKU);
        command.args(["run", "-n", "4", "--", "sh", "-c", script]).stdin(Stdio::null());
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        assert!(command.status().unwrap().success());
        reader
    };
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let whole =
        |line: &&str| line.len() == 4 && (line.starts_with("out") || line.starts_with("err"));
    assert_eq!(text.lines().filter(whole).count(), 4 * 18, "{text}");
    assert_eq!(text.lines().count(), 4 * 18, "{text}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_job_quietly() {
    // Python ignores SIGPIPE, as Rust does: such a program reports a write error. The last rank
    // does not write, and waits.
    let ignoring = "import os, time\n\
                    while os.environ['HIKYAKU_RANK'] != '3': print('y', flush=True)\n\
                    time.sleep(1000)";
    for program in [&["yes"][..], &["python3", "-c", ignoring]] {
        let mut command = Command::new(HIKYAKU);
        command.args(["run", "-n", "4", "--"]).args(program).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut launcher = command.spawn().unwrap();
        let mut first = [0; 4];
        launcher.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = launcher.wait_with_output().unwrap();
        assert_eq!(first, *b"y\ny\n");
        assert_eq!(output.status.code(), Some(128 + 13), "{program:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{program:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(HIKYAKU);
    command.args(["run", "-n", "1", "--", "echo", "lost"]).stdin(Stdio::null()).stdout(full);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.starts_with("hikyaku: cannot write standard output: "), "{message}");
    assert_eq!(message.lines().count(), 1);
}

/// The kernel sends SIGXFSZ with that error, which would end the launcher without a word.
#[test]
fn a_limit_on_file_sizes_is_an_error() {
    let file = std::env::temp_dir().join(format!("hikyaku-long-{}", std::process::id()));
    let line = "ulimit -f 8000; exec \"$@\"";
    let words = ["-c", line, "limited", HIKYAKU, "run", "-n", "1", "--"];
    let mut command = Command::new("bash");
    command.args(words).args(["head", "-c", "9000000", "/dev/zero"]).stdin(Stdio::null());
    let output = command.stdout(File::create(&file).unwrap()).output().unwrap();
    std::fs::remove_file(file).unwrap();
    let said = "hikyaku: cannot write standard output: File too large (os error 27)\n";
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(1), said));
}

/// What cannot be written is known before a run that may take minutes.
#[test]
fn results_that_cannot_be_written_are_an_error_at_once() {
    let sweep = &["simulate", "--sweep", "-m", "cenju4", "-n", "1", "--sizes", "8"];
    let commands: [&[&str]; 3] =
        [&["reproduce", "003-figure-6"], sweep, &["simulate", "--what-if", "halo"]];
    for words in commands {
        let mut command = Command::new(HIKYAKU);
        let output = command.args(words).args(["--output", "/proc/no"]).output().unwrap();
        let said = "hikyaku: cannot write to /proc/no: No such file or directory (os error 2)\n";
        assert_eq!((output.status.code(), &*stderr(&output)), (Some(1), said), "{words:?}");
        assert_eq!(stdout(&output), "", "{words:?}");
    }
}

/// The errors and the exit code of a program, first with standard output to a full device, then
/// with a reader that has gone before.
fn without_takers(words: &[&str]) -> [(Option<i32>, String); 2] {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    [Stdio::from(full), Stdio::from(closed)].map(|stdout| {
        let mut command = Command::new(HIKYAKU);
        let output = command.args(words).stdin(Stdio::null()).stdout(stdout).output().unwrap();
        (output.status.code(), stderr(&output))
    })
}

#[test]
fn what_cannot_be_printed_is_one_line_and_nothing_where_the_reader_has_gone() {
    let machine: &[&str] = &["machine", "show", "cenju4"];
    let ring = &["simulate", "-m", "fat-tree-200g", "-n", "2", "ring"];
    let commands: [&[&str]; 5] =
        [&["--help"], &["run", "--help"], machine, &["reproduce", "--list"], ring];
    for words in commands {
        let [full, closed] = without_takers(words);
        let said = "hikyaku: cannot write standard output: No space left on device (os error 28)\n";
        assert_eq!(full, (Some(1), said.to_owned()), "{words:?}");
        assert_eq!(closed, (Some(128 + 13), String::new()), "{words:?}");
    }
}

#[test]
fn exit_codes_stay_what_they_are_where_nobody_takes_the_messages() {
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    let failing: &[&str] = &["run", "-n", "2", "--", "sh", "-c", "exit 3"];
    let cases: [(&[&str], i32); 4] = [
        (failing, 3),
        (&["run", "-n", "0", "true"], 2),
        (&["run", "-n", "1", "--timeout", "0.1", "--", "sleep", "1000"], 124),
        (&["simulate", "-m", "no-such-machine", "-n", "2", "ring"], 2),
    ];
    for (words, code) in cases {
        for stderr in [full(), closed()] {
            let mut command = Command::new(HIKYAKU);
            command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
            assert_eq!(command.status().unwrap().code(), Some(code), "{words:?}");
        }
    }
}

#[test]
fn ranks_inherit_three_descriptors_and_the_jobs_memory() {
    let program = "
import os
for fd in range(3, 1024):
    try: print(os.readlink(f'/proc/self/fd/{fd}'))
    except FileNotFoundError: pass
";
    // The process that runs the tests may have leaked descriptors, which the launcher passes on as
    // they would be without a launcher. So the launcher gets none here.
    let bare = "for fd in /proc/$$/fd/*; do
            n=${fd##*/}; if [ $n -gt 2 ]; then eval \"exec $n>&-\"; fi
        done; exec \"$@\"";
    let words = [bare, "bare", HIKYAKU, "run", "-n", "2", "--", "python3", "-c", program];
    let mut command = Command::new("bash");
    let output = command.arg("-c").args(words).stdin(Stdio::null()).output().unwrap();
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 2, "the memory for each rank, not {text:?}");
    assert!(text.lines().all(|line| line.starts_with("/memfd:")), "{text}");
}
