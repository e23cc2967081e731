//! A remote shell for tests, over a network that a test can cut.
//!
//! - `reach serve` is the first process of a host: it runs requested commands, reaps orphans, and
//!   ends, and with it the host, when its standard input does.
//! - `reach [-x] ADDRESS COMMAND...` lets a shell there run the command. Its standard input and
//!   output are the command's. Like ssh, it does not detect a cut cable.
//! - `reach hosts COUNT COMMAND...` makes COUNT hosts and runs the command on the first.

#![allow(clippy::unwrap_used)]
#![expect(clippy::disallowed_methods, reason = "threads end the program; burials are not urgent")]

use std::env::current_exe;
use std::fs::File;
use std::io::{Read, Write, stderr, stdin, stdout};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, exit};
use std::thread;
use std::time::Duration;

use hikyaku_jobs::net::{Net, PORT};
use rustix::process::{WaitOptions, wait};

/// How often a host without processes checks for new ones to reap.
const BURIAL: Duration = Duration::from_millis(20);

fn main() {
    // One of the options that other launchers pass to ssh.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "-x").collect();
    match &words[..] {
        [word] if word == "serve" => serve(),
        [word, count, command @ ..] if word == "hosts" => exit(on_hosts(count, command)),
        [address, command @ ..] if !command.is_empty() => reach(address, &command.join(" ")),
        _ => panic!("reach serve | reach ADDRESS COMMAND | reach hosts COUNT COMMAND"),
    }
}

fn serve() {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
    println!("ready");
    thread::spawn(|| {
        pass(&mut stdin(), &mut std::io::sink());
        exit(0);
    });
    thread::spawn(|| {
        loop {
            if wait(WaitOptions::empty()).is_err() {
                thread::sleep(BURIAL);
            }
        }
    });
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        thread::spawn(move || run(&mut stream));
    }
}

/// Starts the command at the beginning of a connection's stream, up to a zero byte.
#[expect(clippy::zombie_processes, reason = "`serve` buries whatever has ended")]
fn run(stream: &mut TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut command = Vec::new();
    loop {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) if byte != [0] => command.push(byte[0]),
            Ok(1) => break,
            _ => return,
        }
    }
    let command = String::from_utf8(command).unwrap();
    let end = || OwnedFd::from(stream.try_clone().unwrap());
    Command::new("sh").args(["-c", &command]).stdin(end()).stdout(end()).spawn().unwrap();
}

fn reach(address: &str, command: &str) {
    let mut stream = match TcpStream::connect((address, PORT)) {
        Ok(stream) => stream,
        Err(error) => {
            let _ = writeln!(stderr(), "reach: {address}: {error}");
            exit(255);
        }
    };
    stream.set_nodelay(true).unwrap();
    stream.write_all(&[command.as_bytes(), &[0]].concat()).unwrap();
    let mut to = stream.try_clone().unwrap();
    thread::spawn(move || {
        let mut from = File::from(stdin().as_fd().try_clone_to_owned().unwrap());
        pass(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut out = File::from(stdout().as_fd().try_clone_to_owned().unwrap());
    pass(&mut stream, &mut out);
}

/// Runs a command on the first of `count` hosts, which end with it. Returns its exit code.
fn on_hosts(count: &str, command: &[String]) -> i32 {
    let own = current_exe().unwrap();
    let net = Net::new(count.parse().unwrap(), own.to_str().unwrap()).unwrap();
    let words = [&net.on(0), command].concat();
    let status = Command::new(&words[0]).args(&words[1..]).status().unwrap();
    status.code().unwrap_or(1)
}

/// Passes bytes on until either end is closed. Not `std::io::copy`: that splices, and while a
/// splice waits for a socket no other thread can read the pipe.
fn pass(from: &mut dyn Read, to: &mut dyn Write) {
    let mut bytes = [0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}
