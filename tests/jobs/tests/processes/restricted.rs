//! Machines without the usual resources: few descriptors, no copies between processes, no threads,
//! no `/dev/null`, no network, no host name.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
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
    within("-Sn 40").succeed();
    within("-n 64").succeed();
    let end = within("-n 40").run();
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.starts_with("launch: 8 ranks need "), "{}", end.stderr);
    let expected = " open files and the limit is 40: raise it (ulimit -n) or run fewer ranks\n";
    assert!(end.stderr.ends_with(expected), "{}", end.stderr);
}

/// A rank that kept its processor for its whole time slice would poll thousands of times a round.
#[test]
fn ranks_that_poll_on_one_processor_give_it_away() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first = list.trim().split(['-', ',']).next().unwrap();
    let said = job(3, &["polling"]).within(&["taskset", "-c", first]).succeed();
    assert_eq!(said.lines().count(), 3 * 8, "{said}");
    for line in said.lines() {
        let (_, vain) = line.split_once(' ').unwrap();
        assert!(vain.parse::<u64>().unwrap() < 200, "{said}");
    }
}

/// Refuses some system calls and becomes the launcher. The first word selects them: `copies`
/// (`process_vm_readv` and `process_vm_writev`, as container runtimes do), `limits` (`prlimit64`),
/// both not permitted, or `threads` (as if there were too many).
const REFUSING: &str = r#"
import ctypes, os, struct, sys
numbers = {"copies": (310, 270), "limits": (302, 261), "threads": (56, 220)}
number = numbers[sys.argv.pop(1)][os.uname().machine != "x86_64"]
steps = [(0x20, 0, 0, 0)]             # load the number of the system call
if number in (56, 220):
    steps += [(0x15, 0, 1, 435),        # clone3:
              (0x06, 0, 0, 0x00050026), # does not exist; not equal: skip it
              (0x15, 0, 3, number),     # not clone: skip three
              (0x20, 0, 0, 16),         # load its flags
              (0x45, 0, 1, 0x10000),    # not a thread: skip one
              (0x06, 0, 0, 0x0005000b)] # fail with EAGAIN
else:
    steps += [(0x15, 1, 0, number),     # equal: skip one
              (0x15, 0, 1, number + (number in (310, 270))),
              (0x06, 0, 0, 0x00050001)] # fail with EPERM
steps += [(0x06, 0, 0, 0x7fff0000)]     # allow
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
    let filtered = |words: &[&str]| job(3, words).within(&["python3", "-c", REFUSING, "copies"]);
    let carried = |job: Job, way: &str| {
        let output = job.variable("HIKYAKU_LONG_MESSAGES", way).succeed();
        assert_eq!(output.lines().count(), 3, "{output}");
        let all = |line: &str| output.lines().all(|other| other == line);
        ["0 0", "3 0", "0 3"].into_iter().find(|line| all(line)).map(str::to_owned)
    };
    for (way, expected) in [("ring", "0 0"), ("read", "3 0"), ("both", "0 3")] {
        let ways = carried(job(3, &["copies"]), way);
        let ways = ways.as_deref();
        // If the machine refuses anyway, only that can be tested.
        if way != "ring" && ways == Some("0 0") {
            println!("note: this machine refuses copies between processes to all");
        } else {
            assert_eq!(ways, Some(expected), "{way}");
        }
        assert_eq!(carried(filtered(&["copies"]), way).as_deref(), Some("0 0"), "{way}");
    }
    let end = job(2, &["copies"]).variable("HIKYAKU_LONG_MESSAGES", "kernel").run();
    let said = "HIKYAKU_LONG_MESSAGES: `kernel` is no way of long messages: give auto, ring, \
                read, both or put";
    assert!(end.code != Some(0) && end.stderr.contains(said), "{}", end.stderr);
    filtered(&["calls", "2", "matching"]).succeed();
    // Collectives that were to read continue in another way.
    for operation in ["BROADCAST", "ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER"] {
        let variable = format!("HIKYAKU_COLL_{operation}");
        filtered(&["divided", "1", "collective: "]).variable(&variable, "read").succeed();
    }
}

/// One body over a table of lengths, alignments and kinds of memory, with each way, and with
/// refusals of the kernel: the same data arrives.
#[test]
fn each_way_carries_every_length_and_alignment() {
    for (way, expected) in
        [("ring", "0 0"), ("read", "1 0"), ("both", "_ 1"), ("put", "_ _"), ("auto", "_ _")]
    {
        let carried = job(2, &["carried"]).variable("HIKYAKU_LONG_MESSAGES", way);
        let fits = |said: &str| {
            let mut both = said.split_whitespace().zip(expected.split_whitespace());
            both.all(|(is, should)| should == "_" || is == should)
        };
        // Memory that ranks share is copied without the kernel, so both ways occur.
        let said = carried.succeed();
        assert!(fits(&said), "{way}: {said}");
        if ["read", "both"].contains(&way) {
            let said = carried.within(&["python3", "-c", REFUSING, "copies"]).succeed();
            assert!(fits(&said), "{way}, refused: {said}");
        }
    }
}

/// A control group with a limit, below this process's own.
struct ControlGroup(PathBuf);

/// The files of a limit and their contents, in order.
type Limits = &'static [(&'static str, &'static str)];

/// The time of one processor: the controller, and the files of both versions of control groups.
const ONE_PROCESSOR: (&str, [Limits; 2]) = (
    "cpu",
    [
        &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "100000")],
        &[("cpu.max", "100000 100000")],
    ],
);

/// 256 MiB of memory, and no swap in place of it.
const LITTLE_MEMORY: (&str, [Limits; 2]) = (
    "memory",
    [
        &[("memory.limit_in_bytes", "268435456")],
        &[("memory.max", "268435456"), ("memory.swap.max", "0")],
    ],
);

/// Moves itself into a group and becomes the launcher.
const ENTER: &str = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";

impl ControlGroup {
    /// `None`: this process cannot make one; it says so.
    fn new((controller, [first, second]): (&str, [Limits; 2])) -> Option<ControlGroup> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let unique = format!("hikyaku-{controller}-{}", std::process::id());
        let made = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let (mount, files) = match controllers {
                "" => ("/sys/fs/cgroup".to_owned(), second),
                _ if controllers.split(',').any(|it| it == controller) => {
                    (format!("/sys/fs/cgroup/{controller}"), first)
                }
                _ => return None,
            };
            let group = Path::new(&mount).join(path.trim_start_matches('/')).join(&unique);
            fs::create_dir(&group).ok()?;
            let group = ControlGroup(group);
            // If it lacks these files, it is dropped, and so removed.
            let is_limited = |(file, text): &(&str, &str)| {
                let file = group.0.join(file);
                file.exists() && fs::write(file, text).is_ok()
            };
            files.iter().all(is_limited).then_some(group)
        });
        if made.is_none() {
            // Not by a macro, whose output the harness captures.
            let said =
                format!("skipped: no control group with a limit of {controller} can be made");
            let _ = writeln!(std::io::stderr(), "{said} here");
        }
        made
    }

    fn enter(&self) -> [&str; 4] {
        ["sh", "-c", ENTER, self.0.to_str().unwrap()]
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Two ranks have two processors, and the time of one: they behave as on one.
#[test]
fn ranks_with_the_time_of_one_processor_are_crowded() {
    let Some(group) = ControlGroup::new(ONE_PROCESSOR) else { return };
    // Ranks that share a processor copy 8 KiB in place, others put them into the ring.
    let one = job(2, &["one-from-shared", "8192"]).variable("HIKYAKU_LONG_MESSAGES", "read");
    assert_eq!(one.clone().within(&group.enter()).succeed(), "1\n");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert_eq!(one.succeed(), "0\n");
    }
    job(3, &["calls", "1", "matching"]).within(&group.enter()).succeed();
}

/// Allocations that no longer fit are the C library's, and a child that cannot have a copy of the
/// heap ends with one line.
#[test]
fn a_shared_heap_takes_no_more_memory_than_its_control_group_has() {
    let Some(group) = ControlGroup::new(LITTLE_MEMORY) else { return };
    let heap = Job::new(env!("CARGO_BIN_EXE_launch"), env!("CARGO_BIN_EXE_heap"), 1, &["limited"]);
    let end = heap.within(&group.enter()).run();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stdout.starts_with("signal: 6 "), "{}", end.stdout);
    let said = end.stderr.trim_end();
    let is_right = said.starts_with("hikyaku: no memory to copy ") && said.lines().count() == 1;
    assert!(is_right && said.ends_with(" bytes of the shared heap for a forked child"), "{said}");
}

#[test]
fn limits_that_nobody_tells_are_none() {
    job(2, &["calls", "1", "matching"]).within(&["python3", "-c", REFUSING, "limits"]).succeed();
}

#[test]
fn threads_that_are_refused_are_named() {
    let end = job(1, &["copies"]).within(&["python3", "-c", REFUSING, "threads"]).run();
    let expected = "launch: cannot start the thread that writes standard output: Resource \
                    temporarily unavailable (os error 11)\n";
    assert_eq!((end.code, end.stderr.as_str()), (Some(1), expected));
}

#[test]
fn a_machine_without_dev_null_is_told_so() {
    let script = "mount -t tmpfs none /dev && exec \"$@\"";
    let apart = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "apart"];
    let may = Command::new(apart[0]).args(&apart[1..]).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: {} is not permitted here", apart.join(" "));
        return;
    }
    let end = job(2, &["calls", "1", "matching"]).within(&apart).run();
    let expected = "launch: cannot open /dev/null, which is the standard input of all ranks but \
                    the first: No such file or directory (os error 2)\n";
    assert_eq!((end.code, end.stderr.as_str()), (Some(1), expected));
}

/// Removes the host name and becomes the launcher.
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

/// Becomes root of a network of its own, whose only interface takes frames of this many bytes, runs
/// the launcher there, and prints the kernel's counts of packets.
const FRAMES: &str = "ip link set lo up mtu $0 && \"$@\" && cat /proc/net/snmp";

/// The bytes of rows that a job has moved, and the kernel's counts of datagrams and of fragments.
struct Counted {
    moved: u64,
    datagrams: u64,
    fragments: u64,
}

/// A wrapper that gives a job a network of its own; `None`, with a line that says so: it may not.
fn network_apart() -> Option<Vec<&'static str>> {
    let mut apart = vec!["unshare", "--net"];
    if !rustix::process::geteuid().is_root() {
        apart.extend(["--user", "--map-root-user"]);
    }
    let probe = ["sh", "-c", FRAMES, "1500", "true"];
    let may = Command::new(apart[0]).args(&apart[1..]).args(probe).output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: {} is not permitted here", apart.join(" "));
        return None;
    }
    Some(apart)
}

/// Paper 001's program with a protocol on `rows` rows of `bytes` bytes, over frames of `mtu` bytes.
fn counted(apart: &[&str], mtu: &str, protocol: &str, (rows, bytes): (u64, u64)) -> Counted {
    let within = [apart, &["sh", "-c", FRAMES, mtu]].concat();
    let words = ["rows", protocol, &bytes.to_string(), &rows.to_string()];
    let output = job(2, &words).ranks_per_node(1).within(&within).succeed();
    let count = |protocol: &str, name: &str| -> u64 {
        let mut lines = output.lines().filter(|line| line.starts_with(protocol));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split(' ').position(|it| it == name).unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    };
    Counted {
        moved: output.lines().next().unwrap().parse().unwrap(),
        datagrams: count("Udp:", "OutDatagrams"),
        fragments: count("Ip:", "FragCreates"),
    }
}

/// The fewest datagrams of three runs: on a busy machine some are sent again.
fn fewest(run: impl Fn() -> Counted) -> Counted {
    (0..3).map(|_| run()).min_by_key(|it| it.datagrams).unwrap()
}

/// FG-18: what the kernel does for the baseline and not for direct stores grows with the number of
/// rows: so many datagrams for each row that moves, however many rows there are.
#[test]
fn fg_18_the_gap_is_of_datagrams_and_grows_with_the_number_of_rows() {
    let Some(apart) = network_apart() else { return };
    for bytes in [4 << 10, 16 << 10] {
        let gap = |rows: u64| {
            let by = |protocol| counted(&apart, "65536", protocol, (rows, bytes));
            let (direct, udp) = (by("direct"), fewest(|| by("udp")));
            assert_eq!((direct.datagrams, direct.moved), (0, udp.moved));
            udp.datagrams as f64
        };
        let (few, many) = (gap(16), gap(128));
        // What a job sends once, whatever its rows, makes it a little less than eight times.
        let times = many / few;
        assert!((6.0..9.0).contains(&times), "{bytes} B: {few} and {many} datagrams");
    }
}

/// FG-19: the rows of paper 001's program move with both protocols alike, so the gap between them
/// is caused by datagrams alone. If a frame holds a row, the number of datagrams is the same for
/// rows of any size; on an Ethernet the gap grows with the frames that a row takes. With direct
/// stores the kernel counts none.
#[test]
fn fg_19_the_gap_is_of_datagrams_and_grows_with_the_frames_of_a_row() {
    let Some(apart) = network_apart() else { return };
    let counted = |mtu: &str, protocol: &str, bytes| counted(&apart, mtu, protocol, (16, bytes));
    const ETHERNET: u64 = 1500;
    let mut few = Vec::new();
    for bytes in [4 << 10, 32 << 10] {
        let direct = counted("1500", "direct", bytes);
        assert_eq!((direct.datagrams, direct.fragments), (0, 0));
        let equal = fewest(|| counted("65536", "udp", bytes));
        assert_eq!((equal.moved, equal.fragments), (direct.moved, 0));
        few.push(equal.datagrams);
        let links = counted("1500", "udp", bytes);
        assert_eq!(links.moved, direct.moved);
        assert!(links.fragments >= links.moved / ETHERNET, "{} of {bytes}", links.fragments);
    }
    assert!(few[1] < 2 * few[0], "{few:?} datagrams, for eight times the bytes");
}
