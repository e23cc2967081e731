//! Tests of `hikyaku fabric` from outside: the list, a test on this host, and the line for each
//! failure.
//!
//! No test asserts a time. If libfabric is not installed, the tests say so and check nothing else.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

fn fabric(arguments: &[&str], provider: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
    command.arg("fabric").args(arguments).env_remove("HIKYAKU_FABRIC");
    if let Some(provider) = provider {
        command.env("HIKYAKU_FABRIC", provider);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line of a command that failed with this code.
fn complaint(output: &Output, code: i32) -> String {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("hikyaku: fabric: "), "{line}");
    assert_eq!(text(&output.stdout), "");
    line
}

/// Whether libfabric is installed; prints a line if it is not.
fn installed() -> bool {
    let output = fabric(&["list"], None);
    if output.status.success() {
        return true;
    }
    let line = complaint(&output, 1);
    assert!(line.contains("install it"), "{line}");
    eprintln!("skipped: {line}");
    false
}

#[test]
fn the_list_says_what_would_be_used_and_why() {
    if !installed() {
        return;
    }
    let listed = text(&fabric(&["list"], None).stdout);
    let (head, rest) = listed.split_once('\n').unwrap();
    assert!(head.starts_with("libfabric 1.") || head.starts_with("libfabric 2."), "{head}");
    assert_eq!(rest.matches("chosen: ").count(), 1, "{listed}");
    assert!(rest.contains("atomic operations"), "{listed}");
    for (provider, reason) in [("udp ", "datagrams, which may be lost"), ("shm ", "this host")] {
        let line = rest.lines().find(|line| line.starts_with(provider));
        assert!(line.is_none_or(|line| line.contains(reason)), "{listed}");
    }
    let overridden = text(&fabric(&["list"], Some("udp+ofi_rxd")).stdout);
    if overridden.contains("udp;ofi_rxd") {
        let chosen = overridden.lines().find(|line| line.contains("chosen: ")).unwrap();
        assert!(chosen.starts_with("udp;ofi_rxd"), "{overridden}");
    }
}

#[test]
fn a_test_on_this_host_prints_three_figures() {
    if !installed() {
        return;
    }
    for provider in [None, Some("shm")] {
        let output = fabric(&["test"], provider);
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{provider:?}: {}", text(&output.stderr));
        let lines: Vec<&str> = printed.lines().collect();
        let [head, latency, written, read] = lines[..] else { panic!("{printed}") };
        assert!(head.contains(provider.unwrap_or(" at lo")), "{printed}");
        for (line, name) in [(latency, "8 B one way"), (written, "1 MiB wr"), (read, "1 MiB re")] {
            let figure: f64 = line[16..].split_whitespace().next().unwrap().parse().unwrap();
            assert!(line.starts_with(name) && figure > 0.0, "{printed}");
        }
    }
}

#[test]
fn wrong_overrides_are_answered_in_one_line() {
    if !installed() {
        return;
    }
    let unknown = complaint(&fabric(&["test"], Some("nonesuch")), 1);
    assert!(unknown.contains("no usable provider nonesuch; it lists"), "{unknown}");
    let empty = complaint(&fabric(&["list"], Some("")), 2);
    assert!(empty.contains("HIKYAKU_FABRIC="), "{empty}");
}

#[test]
fn peers_that_are_none_are_answered_in_one_line() {
    if !installed() {
        return;
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let line = complaint(&fabric(&["test", "--connect", &nobody], None), 1);
    assert!(line.contains(&format!("cannot connect to {nobody}")), "{line}");
    let listen = ["test", "--listen", "127.0.0.1:0", "--wait", "0"];
    let line = text(&fabric(&listen, None).stderr);
    assert!(line.ends_with("nobody has connected: timed out\n"), "{line}");

    let mut listener = Command::new(env!("CARGO_BIN_EXE_hikyaku"))
        .args(["fabric", "test", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(listener.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.split(" at ").nth(1).unwrap().split(' ').next().unwrap();
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: hikyaku\r\n\r\n").unwrap();
    line.clear();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("no `hikyaku fabric test` of this version"), "{line}");
    assert_eq!(listener.wait().unwrap().code(), Some(1));
}

#[test]
fn without_libfabric_a_line_says_what_to_install() {
    let folder = env::temp_dir().join(format!("hikyaku-fabric-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("libfabric.so.1"), "no library").unwrap();
    for command in ["list", "test"] {
        let output = Command::new(env!("CARGO_BIN_EXE_hikyaku"))
            .args(["fabric", command])
            .env("LD_LIBRARY_PATH", &folder)
            .output()
            .unwrap();
        let line = complaint(&output, 1);
        assert!(line.contains("apt-get install libfabric1"), "{line}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
