//! Tests that an invalid command line gives one clear line and exit code 2.

use super::support::{HIKYAKU, run, stderr, stdout};

/// Runs it, and checks the answer to an invalid command line.
fn refusal(words: &[&str]) -> String {
    let output = run(words);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{words:?}: {message}");
    assert!(message.starts_with("hikyaku: "), "{words:?}: {message}");
    assert_eq!(stdout(&output), "", "{words:?}");
    message
}

#[test]
fn rank_counts_that_make_no_sense() {
    assert_eq!(refusal(&["-n", "0", "true"]), "hikyaku: a job needs at least one rank\n");
    let many = refusal(&["-n", "100000", "true"]);
    assert_eq!(many, "hikyaku: 100000 ranks are too many: one machine takes at most 4096\n");
    for count in ["-3", "x", "1.5", "", "99999999999999999999"] {
        assert!(refusal(&["-n", count, "true"]).contains("-n"), "{count:?}");
    }
    assert!(refusal(&["true"]).contains("-n"), "no count");
    refusal(&["-n", "2", "--ranks-per-node", "0", "true"]);
}

#[test]
fn programs_that_cannot_run() {
    let unknown = refusal(&["-n", "2", "--", "no-such-program-anywhere"]);
    assert!(unknown.contains("\"no-such-program-anywhere\""), "{unknown}");
    assert!(refusal(&["-n", "2", "--", "/no/such/file"]).contains("there is no such file"));
    assert!(refusal(&["-n", "2", "--", "/etc/passwd"]).contains("not executable"));
    assert!(refusal(&["-n", "2", "--", "/etc"]).contains("is a directory"));
    assert!(refusal(&["-n", "2", "--", ""]).contains("empty"));
    assert!(refusal(&["-n", "2", "--", &"a".repeat(5000)]).contains("its name is too long"));
    assert!(refusal(&["-n", "2"]).contains("PROGRAM"), "no program");
}

#[test]
fn flags_that_do_not_exist_or_lack_sense() {
    assert!(
        refusal(&["-n", "2", "--lable", "true"]).contains("--label"),
        "a hint at what is meant"
    );
    refusal(&["-n", "2", "--bind", "socket", "true"]);
    refusal(&["--hostfile", "/dev/zero", "true"]);
    for flag in ["--launcher-exec", "--host-timeout", "--daemon-network"] {
        assert!(refusal(&["-n", "2", flag, "9", "true"]).contains("--hosts"), "{flag}");
    }
    let network = refusal(&["--hosts", "a", "--daemon-network", "10.1.0.0/99", "true"]);
    assert!(network.contains("`10.1.0.0/99` is no network: write one such as"), "{network}");
    let unknown = refusal(&["-n", "2", "--coll", "allreduce=rong", "true"]);
    assert!(unknown.contains("recursive-doubling, ring"), "{unknown}");
    let unknown = refusal(&["-n", "2", "--coll", "exchange=tree", "true"]);
    assert!(unknown.contains("`tree` is no scheme of exchanges: there are fast, mrc"), "{unknown}");
    let unsuitable = refusal(&["--hosts", "a:1,b:1", "--coll", "broadcast=multicast", "true"]);
    assert!(unsuitable.contains("needs ranks that share memory"), "{unsuitable}");
    for time in ["0", "-1", "soon", "nan"] {
        assert!(refusal(&["-n", "2", "--timeout", time, "true"]).contains("--timeout"), "{time}");
    }
}

/// It waits neither for the end of an endless file nor for the writer of a pipe.
#[test]
fn machine_files_that_are_none_are_refused() {
    let pipe = std::env::temp_dir().join(format!("hikyaku-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let endless = "/dev/zero: it is longer than 1 MiB; the built-in machines are ";
    for (file, part) in
        [("/dev/zero", endless), ("/tmp", "Is a directory"), (pipe.to_str().unwrap(), "name")]
    {
        let mut command = std::process::Command::new(HIKYAKU);
        let output = command.args(["simulate", "-m", file, "-n", "2", "ring"]).output().unwrap();
        let message = stderr(&output);
        assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
        assert!(message.contains(part), "{message}");
    }
    std::fs::remove_file(pipe).unwrap();
}

#[test]
fn a_line_shows_control_characters_as_escapes() {
    let mut command = std::process::Command::new(HIKYAKU);
    let output = command.args(["machine", "show", "a\u{1b}[31m\nb"]).output().unwrap();
    let message = stderr(&output);
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("a\\u{1b}[31m\\nb: No such file"), "{message}");
}

#[test]
fn simulated_messages_that_no_memory_holds_are_refused() {
    for words in [&["pingpong", "--size", "2G"][..], &["--sweep", "--sizes", "8,16000000000G"]] {
        let mut command = std::process::Command::new(HIKYAKU);
        let output = command.args(["simulate", "-m", "cenju4", "-n", "2"]).args(words).output();
        let output = output.unwrap();
        let message = stderr(&output);
        assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
        assert!(message.contains("is more than 1 GiB"), "{message}");
    }
}

#[test]
fn help_and_version_are_answers() {
    let ask = |words: &[&str]| {
        let output = std::process::Command::new(HIKYAKU).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        stdout(&output)
    };
    let version = concat!("hikyaku ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(ask(&["--version"]), version);
    let all = ask(&["--help"]);
    assert!(all.contains("run") && all.contains("bench"), "{all}");
    let help = ask(&["run", "--help"]);
    for part in ["--bind", "--ranks-per-node", "--label", "--timeout", "Exit code:", "Examples:"] {
        assert!(help.contains(part), "{part} is missing in {help}");
    }
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
}

#[test]
fn what_follows_the_program_is_its_own() {
    let output = run(&["-n", "1", "printf", "%s.", "-n", "--label", "--", "--help"]);
    assert_eq!(stdout(&output), "-n.--label.--.--help.");
}
