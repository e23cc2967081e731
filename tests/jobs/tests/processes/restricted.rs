//! Machines that do not give what one is used to: few descriptors, no copies between processes, no
//! network, no host name.

use std::process::Command;

use hikyaku_jobs::Job;

use super::job;

/// A wrapper that lowers a limit and becomes the launcher.
fn limited(limit: &str) -> [String; 4] {
    ["bash", "-c", &format!("ulimit {limit}; exec \"$@\""), "limited"].map(str::to_owned)
}

#[test]
fn few_open_files_are_enough_or_are_named() {
    let within = |limit: &str| {
        let wrapper = limited(limit);
        job(8, &["calls", "1", "matching"]).within(&wrapper.each_ref().map(String::as_str))
    };
    within("-Sn 64").succeed();
    within("-n 100").succeed();
    let end = within("-n 64").run();
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let expected = "launch: 8 ranks need 88 open files and the limit is 64: raise it (ulimit -n) \
                    or run fewer ranks\n";
    assert_eq!(end.stderr, expected);
}

/// Refuses `process_vm_readv` and `process_vm_writev` (x86-64: 310, 311; elsewhere 270, 271) with
/// "operation not permitted", as container runtimes do, and becomes the launcher.
const NO_COPIES: &str = r#"
import ctypes, os, struct, sys
first = 310 if os.uname().machine == "x86_64" else 270
steps = [(0x20, 0, 0, 0),            # load the number of the system call
         (0x15, 1, 0, first),        # equal: skip one
         (0x15, 0, 1, first + 1),    # not equal: skip one
         (0x06, 0, 0, 0x00050001),   # fail with EPERM
         (0x06, 0, 0, 0x7fff0000)]   # allow
code = b"".join(struct.pack("HBBI", *step) for step in steps)
code = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.addressof(program), 0, 0):
    sys.exit(f"the filter was not taken: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn long_messages_arrive_where_the_kernel_will_not_copy() {
    let filtered = |words: &[&str]| job(3, words).within(&["python3", "-c", NO_COPIES]);
    let reads = |job: Job| {
        let output = job.succeed();
        let lines: Vec<u64> = output.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(lines.len(), 3, "{output}");
        lines
    };
    // Where the machine refuses anyway, that it does is all that can be tested.
    if reads(job(3, &["copies"])) == [0; 3] {
        println!("note: this machine refuses copies between processes to all");
    }
    assert_eq!(reads(filtered(&["copies"])), [0; 3]);
    filtered(&["calls", "2", "matching"]).succeed();
}

/// Takes the host name away and becomes the launcher.
const NO_NAME: &str = "import os, socket, sys\n\
                       socket.sethostname('')\n\
                       os.execvp(sys.argv[1], sys.argv[1:])\n";

#[test]
fn neither_network_nor_host_name_is_needed() {
    let mut apart = vec!["unshare", "--net", "--uts"];
    if !rustix::process::geteuid().is_root() {
        apart.extend(["--user", "--map-root-user"]);
    }
    let may = Command::new(apart[0]).args(&apart[1..]).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: {} is not permitted here", apart.join(" "));
        return;
    }
    apart.extend(["python3", "-c", NO_NAME]);
    job(4, &["calls", "3"]).within(&apart).succeed();
}
