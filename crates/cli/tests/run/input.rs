//! Tests of standard input, which belongs to rank 0.

use std::{
    io::Write,
    process::{Command, Stdio},
    thread,
};

use super::support::{HIKYAKU, sorted, stdout};

fn fed(words: &[&str], input: Vec<u8>) -> (std::process::Output, std::io::Result<()>) {
    let mut command = Command::new(HIKYAKU);
    command.arg("run").args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut launcher = command.spawn().unwrap();
    let mut stdin = launcher.stdin.take().unwrap();
    let feeder = thread::spawn(move || stdin.write_all(&input));
    let output = launcher.wait_with_output().unwrap();
    (output, feeder.join().unwrap())
}

#[test]
fn rank_0_reads_it_and_the_others_find_it_empty() {
    let script = "echo $HIKYAKU_RANK $(wc -c)";
    let (output, _) = fed(&["-n", "3", "--", "sh", "-c", script], b"12345".to_vec());
    assert_eq!(sorted(&stdout(&output)), ["0 5", "1 0", "2 0"]);
}

#[test]
fn large_input_passes_unchanged() {
    let input: Vec<u8> = (0..20_000_000u32).map(|i| (i % 251) as u8).collect();
    let (output, fed) = fed(&["-n", "2", "--", "cat"], input.clone());
    fed.unwrap();
    assert!(output.stdout == input, "{} bytes came", output.stdout.len());
}

#[test]
fn rank_0_may_stop_reading() {
    let (output, fed) = fed(&["-n", "2", "--", "head", "-c", "3"], vec![b'z'; 10_000_000]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), "zzz");
    assert!(fed.is_err(), "the feeder learns that nobody reads");
}

/// On a terminal, the prompt of rank 0 is shown although its line has no end, and typed input
/// reaches rank 0 although it is not in the terminal's foreground group.
#[test]
fn a_terminal_is_a_conversation_with_rank_0() {
    let driver = "
import os, pty, sys
script = '[ $HIKYAKU_RANK = 1 ] || { printf \"name? \"; read name; echo \"hello $name\"; cat; }'
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], 'run', '-n', '2', '--', 'sh', '-c', script])
seen = b''
def expect(text):
    global seen
    while text not in seen:
        seen += os.read(fd, 1000)
expect(b'name? ')
os.write(fd, b'bob\\n')
expect(b'hello bob')
os.write(fd, b'\\x04')  # end of file
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print('exit', status)
";
    let output = Command::new("python3").args(["-c", driver, HIKYAKU]).output().unwrap();
    assert_eq!(stdout(&output), "exit 0\n", "{}", String::from_utf8_lossy(&output.stderr));
}
