//! Jobs on several hosts with an agent that is a script and runs the daemon on this machine. They
//! test the launcher, the daemons and the frames between them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::support::{HIKYAKU, Job, run, sorted, stderr, stdout};

/// The options that name hosts and an agent. The agent runs this shell script with the host as `$0`
/// and the daemon's command line as `$1`.
fn on<'w>(hosts: &'w str, agent: &'w str) -> [&'w str; 4] {
    ["--hosts", hosts, "--launcher-exec", agent]
}

const AGENT: &str = "sh -c 'exec sh -c \"$1\"'";

#[test]
fn ranks_of_all_hosts_write_labelled_lines() {
    let words = [&on("a:2,b:1,localhost:1", AGENT)[..], &["--label", "--", "sh", "-c"]].concat();
    let script = "echo $HIKYAKU_RANK of $HIKYAKU_SIZE";
    let output = run(&[&words[..], &[script]].concat());
    assert_eq!(stderr(&output), "");
    assert_eq!(sorted(&stdout(&output)), ["[0] 0 of 4", "[1] 1 of 4", "[2] 2 of 4", "[3] 3 of 4"]);
}

/// Such hosts are containers of one machine.
#[test]
fn hosts_with_the_same_processors_divide_them() {
    let cpus = rustix::thread::sched_getaffinity(None).unwrap().count();
    let lists = |hosts: &str, bind: &[&str]| {
        let program = ["--", "grep", "Cpus_allowed_list", "/proc/self/status"];
        let output = run(&[&on(hosts, AGENT)[..], bind, &program].concat());
        stdout(&output).lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let all = lists("a:1,b:1", &["--bind", "none"]);
    assert_eq!(all.len(), 1);
    assert_eq!(lists("a:1,b:1", &[]).len() as u32, cpus.min(2), "one each");
    assert_eq!(lists(&format!("a:{cpus},b:1"), &[]), all, "too many to be bound");
}

/// libfabric then starts faster. A value that the user sets, even an empty one, is kept.
#[test]
fn ranks_of_a_host_without_infiniband_do_not_look_for_it() {
    let is_there = Path::new("/sys/class/infiniband").exists();
    for (set, expected) in
        [(None, if is_there { "" } else { "^verbs" }), (Some("tcp"), "tcp"), (Some(""), "")]
    {
        let mut command = Command::new(HIKYAKU);
        command.arg("run").args(on("a:1,b:1", AGENT)).args(["--", "sh", "-c"]);
        command.arg("echo ${FI_PROVIDER-}").env_remove("FI_PROVIDER");
        command.envs(set.map(|value| ("FI_PROVIDER", value)));
        let output = command.output().unwrap();
        assert_eq!(sorted(&stdout(&output)), [expected; 2], "{}", stderr(&output));
    }
}

/// The command line names neither hosts nor ranks: the allocation provides both.
#[test]
fn an_allocation_of_slurm_names_the_hosts() {
    let asked = std::env::temp_dir().join(format!("hikyaku-asked-{}", std::process::id()));
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(HIKYAKU);
        command.args(["run", "--label", "--", "sh", "-c", "echo of $HIKYAKU_SIZE"]);
        for name in ["SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"] {
            command.env_remove(name);
        }
        let agent = format!("sh -c 'echo $0 >> {}; exec sh -c \"$1\"'", asked.display());
        command.env("HIKYAKU_LAUNCHER_EXEC", agent).envs(variables.iter().copied());
        command.output().unwrap()
    };
    let nodes = ("SLURM_JOB_NODELIST", "n[08-09],x");
    let cpus = ("SLURM_JOB_CPUS_PER_NODE", "9(x3)");
    let output = run(&[nodes, ("SLURM_TASKS_PER_NODE", "2,1(x2)"), cpus]);
    let lines = ["[0] of 4", "[1] of 4", "[2] of 4", "[3] of 4"];
    assert_eq!(sorted(&stdout(&output)), lines, "{}", stderr(&output));
    assert_eq!(sorted(&fs::read_to_string(&asked).unwrap()), ["n08", "n09", "x"]);
    assert_eq!(stdout(&run(&[nodes, ("SLURM_JOB_CPUS_PER_NODE", "1(x3)")])).lines().count(), 3);
    for (variables, said) in [
        (&[nodes, ("SLURM_TASKS_PER_NODE", "1")][..], "`1` is no list of an allocation of Slurm"),
        (&[nodes], "say how many ranks by -n N, or where by --hosts"),
    ] {
        let output = run(variables);
        let line = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(line.contains(said) && line.lines().count() == 1, "{line}");
    }
    fs::remove_file(asked).unwrap();
}

#[test]
fn the_first_failure_names_rank_and_host() {
    let words = [&on("a:2,b:2", AGENT)[..], &["--", "sh", "-c"]].concat();
    let script = "test $HIKYAKU_RANK = 3 && exit 7; exec sleep 1000";
    let output = run(&[&words[..], &[script]].concat());
    assert_eq!(output.status.code(), Some(7));
    let line = stderr(&output);
    assert!(line.starts_with("hikyaku: rank 3 (pid "), "{line}");
    assert!(line.ends_with(", host b) exited with code 7\n"), "{line}");
}

#[test]
fn hosts_that_cannot_start_are_one_line() {
    let other = "sh -c 'echo \"\u{2}hikyaku-daemon protocol=1 version=0 build=x byte-order=little \
                 clock=0\"; cat'";
    let without_memory = "sh -c 'ulimit -f 1; exec sh -c \"$1\"'";
    for (agent, program, code, said) in [
        (AGENT, "no-such-program", 2, "cannot run \"no-such-program\": there is no such program"),
        ("sh -c 'echo no route >&2; exit 255'", "true", 1, "exited with code 255: no route"),
        ("sh -c '[ $0 = a ] || exit 254; exec sh -c \"$1\"'", "true", 1, "exited with code 254"),
        ("/no/such/agent", "true", 1, "there is no such file"),
        (other, "true", 1, "its hikyaku has version 0 (protocol 1), this one"),
        (without_memory, "true", 1, "does not fit into the limit on file sizes"),
    ] {
        let output = run(&[&on("a:1,b:1", agent)[..], &["--", program]].concat());
        let line = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}");
        assert!(line.contains(said) && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn garbage_on_the_channel_ends_the_job_with_one_line() {
    let agent = "sh -c 'sh -c \"$1\" | { sed -u 1q; echo nonsense; }'";
    let output = run(&[&on("a:1,b:1", agent)[..], &["--", "sleep", "1000"]].concat());
    let line = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("what came from it is malformed: a frame that is longer"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn a_time_limit_and_a_signal_leave_nothing_on_any_host() {
    let flags = [&on("a:1,b:1", AGENT)[..], &["--timeout", "1"]].concat();
    let mut job = Job::start(&[], &flags, "echo ready; exec sleep 1000");
    job.wait_for_lines(2);
    let (code, text) = job.end();
    assert_eq!((code, text.lines().count()), (Some(124), 3), "{text}");
    assert!(text.contains(", host b) is not waiting in a call of hikyaku"), "{text}");
    job.wait_for_silence();
    for (signal, expected) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let mut job = Job::start(&[], &on("a:1,b:1", AGENT), "echo ready; exec sleep 1000");
        job.wait_for_lines(2);
        job.signal(signal);
        assert_eq!(job.launcher.wait().unwrap().code(), expected);
        job.wait_for_silence();
    }
}

/// The hosts are done before the last output is read, and the agents continue: that is no error.
#[test]
fn agents_that_linger_change_nothing() {
    let agent = "sh -c 'sh -c \"$1\"; exec sleep 1000'";
    // More than the capacity of a pipe.
    let script = "yes 123456789 | head -n 4000";
    let mut job = Job::start(&[], &on("a:1,b:1", agent), script);
    job.wait_for_lines(1);
    let is_daemon = |process: &String| process.ends_with("hikyaku\0daemon\0");
    while job.survivors().iter().any(is_daemon) {
        std::thread::yield_now();
    }
    assert_eq!(job.wait_for_lines(7_999).len(), 7_999);
    assert_eq!(job.end(), (Some(0), String::new()));
    job.wait_for_silence();
}

#[test]
fn more_than_sixteen_hosts_start_each_other() {
    let hosts: Vec<String> = (0..40).map(|host| format!("h{host}")).collect();
    let output = run(&[&on(&hosts.join(","), AGENT)[..], &["--", "echo", "here"]].concat());
    assert_eq!(stderr(&output), "");
    assert_eq!(stdout(&output).lines().count(), 40);
}

/// The agents drop everything after the greeting.
#[test]
fn daemons_that_connect_need_agents_for_the_plan_alone() {
    let agent = "sh -c 'sh -c \"$1\" | { sed -u 1q; exec cat > /dev/null; }'";
    let hosts: Vec<String> = (0..20).map(|host| format!("h{host}")).collect();
    for (hosts, network) in [("a:2,localhost:1,b:1", "127.0.0.0/8"), (&hosts.join(","), "lo")] {
        let flags = ["--label", "--daemon-network", network, "--", "sh", "-c"];
        let script = "cat; echo $HIKYAKU_RANK >&2; exit 3";
        let mut command = Command::new(HIKYAKU);
        command.arg("run").args(on(hosts, agent)).args(flags).arg(script);
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"input\n").unwrap();
        drop(writer);
        let output = command.stdin(reader).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{network}: {said}");
        assert_eq!(stdout(&output), "[0] input\n", "{network}: {said}");
        assert!(said.contains("exited with code 3"), "{network}: {said}");
        assert!(!said.contains("cannot connect") && !said.contains("refused"), "{said}");
    }
}

#[test]
fn a_network_that_this_host_is_not_on_is_one_line() {
    let flags = ["--daemon-network", "203.0.113.0/24", "--", "true"];
    let output = run(&[&on("a:1,b:1", AGENT)[..], &flags].concat());
    let line = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("it has no address in 203.0.113.0/24 (see --daemon-network)"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    // A job on this host alone opens no port.
    let output = run(&[&on("localhost:2", AGENT)[..], &flags].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}
