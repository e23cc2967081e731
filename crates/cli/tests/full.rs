//! Tests of `--full` of `hikyaku run` and `hikyaku simulate`: ranks of this program itself meet the
//! policy that the option names, and that of its default without it.
//!
//! The ranks' program is the test [`flood`], alone in a process of the job.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};

use hikyaku::{Error, World};

/// Set for ranks: this process is one, and no run of tests.
const RANK: &str = "HIKYAKU_TEST_FULL";

/// More than the rings of the receiver hold.
const MESSAGES: u64 = 600;
const BYTES: usize = 4096;

/// Does nothing in a run of tests. A rank of two: rank 1 starts more messages than rank 0 has room
/// for, and only then tells it so, by a word that needs no room.
#[test]
fn flood() {
    if std::env::var_os(RANK).is_some() {
        send_all(&World::init().unwrap()).unwrap();
    }
}

fn send_all(world: &World) -> Result<(), Error> {
    let told = world.window::<u64>(1)?;
    if world.rank() == 1 {
        let sent: Vec<Vec<u8>> = (0..MESSAGES).map(|number| vec![number as u8; BYTES]).collect();
        world.scope(|scope| {
            for data in &sent {
                let _ends_with_the_scope = scope.isend(data, 0, 1)?;
            }
            told.fetch_add(0, 0, 1)?;
            Ok(())
        })?;
        println!("refused {}", world.statistics().refused);
    } else {
        told.wait(0, 0, |value| value == 1)?;
        let mut data = [0u8; BYTES];
        for number in 0..MESSAGES {
            world.recv(&mut data, 1, 1)?;
            assert!(data.iter().all(|byte| *byte == number as u8), "message {number}");
        }
        println!("end {}", world.now().picoseconds());
    }
    Ok(())
}

/// Runs the job by this command and option. Returns the numbers behind these words in its output.
fn numbers(command: &[&str], option: &[&str], words: [&str; 2]) -> [u64; 2] {
    let this = std::env::current_exe().unwrap();
    let mut job = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
    job.args(command).args(option).args(["-n", "2", "--timeout", "60", "--"]).arg(this);
    job.args(["--exact", "flood", "--nocapture"]).env(RANK, "1").stdin(Stdio::null());
    let output = job.output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{option:?}: {text:?}");
    words.map(|word| {
        // The harness of the tests begins the line.
        let after = text[0].split(&format!("{word} ")).nth(1).unwrap_or_default();
        let number = after.split_whitespace().next().unwrap_or_default();
        number.parse().unwrap_or_else(|_| panic!("{option:?}, {word}: {text:?}"))
    })
}

/// No option, the same by name, and the other policy.
const OPTIONS: [&[&str]; 3] = [&[], &["--full", "stall"], &["--full", "refuse"]];

#[test]
fn ip_10_ip_11_run_gives_rings_the_policy_of_its_option() {
    let [default, stall, refuse] =
        OPTIONS.map(|option| numbers(&["run"], option, ["refused", "end"])[0]);
    assert_eq!([default, stall], [0, 0]);
    // The content is the same, which the receiver checks.
    assert!(refuse > 0, "nothing was refused");
}

#[test]
fn ip_10_ip_11_simulate_gives_rings_the_policy_of_its_option() {
    for machine in ["dimmnet2", "fat-tree-200g"] {
        let command = ["simulate", "-m", machine];
        let [default, stall, refuse] =
            OPTIONS.map(|option| numbers(&command, option, ["refused", "end"])[1]);
        assert_eq!(default, stall, "{machine}");
        // Refusals travel back, and what was discarded travels twice.
        assert!(refuse > stall, "{machine}: {refuse} and {stall} ps");
    }
}
