//! The program on several ranks: the field does not depend on how many, and bad input ends the
//! whole job in one line.
//!
//! The ranks' output is the launcher's, so what is said can only be read if the launcher is a
//! process of its own. It is this test program once more: [`launcher`] runs what the variable
//! [`JOB`] says.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use heat::npy;
use hikyaku::launch::Launch;
use hikyaku::processes::Processes;

/// Names the ranks and the arguments of the job that [`launcher`] is to run, one a line.
const JOB: &str = "HEAT_TEST_JOB";

/// If set, the job runs in virtual time.
const VIRTUAL: &str = "HEAT_TEST_VIRTUAL";

/// What the launcher's exit code is said in, among the lines of the test harness.
const CODE: &str = "the job's code is ";

/// A directory of its own for each test.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Without the variable there is no job and nothing to do.
#[test]
fn launcher() {
    let Ok(job) = std::env::var(JOB) else { return };
    let mut words = job.lines();
    let ranks = words.next().unwrap().parse().unwrap();
    let launch = Launch {
        args: words.map(Into::into).collect(),
        timeout: Some(Duration::from_secs(60)),
        ..Launch::new(ranks, env!("CARGO_BIN_EXE_heat"))
    };
    let outcome = match std::env::var_os(VIRTUAL) {
        None => launch.run().unwrap(),
        Some(_) => Processes::on_a_test_machine(launch).run().unwrap().outcome,
    };
    println!("{CODE}{}", outcome.code);
}

/// Runs `heat` on so many ranks; the job's exit code, and what it wrote to both streams.
fn heat(ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    run_in(None, ranks, arguments)
}

/// The same in virtual time.
fn heat_in_virtual_time(ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    run_in(Some("yes"), ranks, arguments)
}

fn run_in(time: Option<&str>, ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "launcher", "--nocapture"]).stdin(Stdio::null());
    command.env(JOB, format!("{ranks}\n{}", arguments.join("\n")));
    command.envs(time.map(|time| (VIRTUAL, time)));
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = stdout.split(CODE).nth(1).and_then(|rest| rest.lines().next());
    let code = code.unwrap_or_else(|| panic!("no code: {stdout}{stderr}")).parse().unwrap();
    (code, stdout, stderr)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn any_number_of_ranks_computes_the_serial_field() {
    let place = directory("ranks");
    let config = place.join("small.toml");
    let lines = "pattern = \"disc\"\nsize = [37, 23]\nsteps = 150\nboundary = \"insulated\"\n";
    fs::write(&config, format!("{lines}tolerance = 1e-9\ncheck_every = 7\n")).unwrap();
    let mut first = None;
    for ranks in [1, 2, 3, 5, 7] {
        let out = place.join(format!("out-{ranks}"));
        let (code, said, progress) =
            heat(ranks, &[text(&config), "--check", "--output", text(&out)]);
        assert_eq!(code, 0, "{ranks} ranks: {said}{progress}");
        let line = "check: field is bitwise equal to the serial program's (851 cells)";
        assert!(said.contains(line), "{ranks} ranks: {said}");
        assert!(said.contains(&format!(" blocks on {ranks} ranks, nonblocking: ")), "{said}");
        let field = fs::read(out.join("final.npy")).unwrap();
        assert_eq!(npy::decode(&field).unwrap().cells().len(), 851);
        assert!(*first.get_or_insert_with(|| field.clone()) == field, "{ranks} ranks");
    }
}

/// Every exchange, one after the other in one run, of every stencil: the serial field each time.
#[test]
fn every_exchange_of_every_stencil_computes_the_serial_field() {
    let place = directory("exchanges");
    for (name, lines, cells) in [
        ("nine", "size = [29, 31]\nstencil = \"9-point\"\nboundary = \"fixed\"", "899"),
        ("seven", "size = [11, 9, 10]\nboundary = \"insulated\"", "990"),
    ] {
        let config = place.join(format!("{name}.toml"));
        let content = format!("pattern = \"checker\"\nsteps = 40\ncheck_every = 7\n{lines}\n");
        fs::write(&config, content).unwrap();
        for ranks in [1, 4, 6] {
            let out = place.join(format!("{name}-{ranks}"));
            let page = place.join(format!("{name}-{ranks}.html"));
            let exchanges = "blocking,nonblocking,persistent";
            let (code, said, progress) = heat(
                ranks,
                &[
                    text(&config),
                    "--check",
                    "--exchange",
                    exchanges,
                    "--output",
                    text(&out),
                    "--report",
                    text(&page),
                ],
            );
            assert_eq!(code, 0, "{name}, {ranks} ranks: {said}{progress}");
            let line = format!("bitwise equal to the serial program's ({cells} cells)");
            assert!(said.contains(&line), "{name}, {ranks} ranks: {said}");
            for exchange in exchanges.split(',') {
                assert!(
                    said.contains(&format!(" on {ranks} ranks, {exchange}: 40 steps")),
                    "{said}"
                );
            }
            let page = fs::read_to_string(page).unwrap();
            assert!(page.contains("Exchanges side by side"));
        }
    }
}

#[test]
fn bad_input_ends_all_ranks_in_one_line() {
    let place = directory("bad-ranks");
    let rest = "steps = 5\nboundary = \"fixed\"\n";
    let file = |name: &str, content: &[u8]| {
        fs::write(place.join(name), content).unwrap();
        place.join(name)
    };
    file("cut.png", heat::image::MAGIC);
    let cut = file("cut.toml", format!("initial = \"cut.png\"\n{rest}").as_bytes());
    let none = file("none.toml", format!("initial = \"none.png\"\n{rest}").as_bytes());
    let unreadable = file("unreadable.toml", b"steps = [[[");
    let absent = place.join("absent.toml");
    for (config, said) in [
        (&cut, "cut.png: the PNG is truncated"),
        (&none, "none.png: cannot be read: No such file"),
        (&unreadable, "unreadable.toml: line 1: "),
        (&absent, "absent.toml: cannot be read: No such file"),
    ] {
        let out = place.join("out");
        for ranks in [2, 5] {
            let (code, _, stderr) = heat(ranks, &[text(config), "--output", text(&out)]);
            assert_eq!(code, 2, "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(stderr.starts_with("heat: ") && stderr.contains(said), "{stderr}");
            assert!(!out.exists());
        }
    }
    let (code, _, stderr) = heat(3, &[text(&cut), "--colour"]);
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
}

/// The very program in virtual time, on a machine that is not there: the same field to the bit.
#[test]
fn in_virtual_time_the_field_is_the_same() {
    let place = directory("virtual");
    let config = place.join("small.toml");
    let lines = "pattern = \"disc\"\nsize = [37, 23]\nsteps = 60\nboundary = \"insulated\"\n";
    fs::write(&config, format!("{lines}check_every = 7\n")).unwrap();
    for (ranks, exchange) in [(1, "nonblocking"), (4, "blocking,nonblocking"), (6, "nonblocking")] {
        let fields = [heat, heat_in_virtual_time].map(|run| {
            let out = place.join(format!("out-{ranks}"));
            let words = [text(&config), "--check", "--exchange", exchange, "--output", text(&out)];
            let (code, said, progress) = run(ranks, &words);
            assert_eq!(code, 0, "{ranks} ranks: {said}{progress}");
            assert!(said.contains("bitwise equal to the serial program's"), "{said}");
            fs::read(out.join("final.npy")).unwrap()
        });
        assert!(fields[0] == fields[1], "{ranks} ranks");
    }
}
