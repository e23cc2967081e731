//! Ranks as real processes. This test binary starts itself again, once per rank, in the role that
//! the variable `SHM_TEST_ROLE` names. A role makes assertions; its exit code is the verdict.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command as Program, Stdio};

use hikyaku_nic::fabric::{
    Activity, Command, CopyPort, DeathCause, Event, Landed, MemoryPort, PeerFailure, PeerState,
    Port, PostError, Rank, RemoteAddress, Space, Wait,
};
use hikyaku_nic::hosted::Host;
use hikyaku_nic::sync::Ordering;
use hikyaku_nic::time::Time;
use hikyaku_shm::{AttachError, Job, JobConfig, JobError, ShmPort, attach};
use rustix::io::FdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const ROLE: &str = "SHM_TEST_ROLE";

/// Not a test by itself: the body of the processes that the tests below start.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "ping" => ping(),
        "pong" => pong(),
        "twice" => twice(),
        "waker" => waker(),
        "sleeper" => sleeper(),
        "victim" => victim(),
        "survivor" => survivor(),
        "companion" => companion(),
        "poller" => poller(),
        "owner" => owner(),
        "reader" => reader(),
        "blocked" => blocked(),
        "limited" => limited(),
        other => panic!("no role {other}"),
    }
}

/// A rank's process.
fn program(job: &Job, rank: Rank, role: &str) -> Program {
    let mut program = Program::new(std::env::current_exe().unwrap());
    dress(&mut program, role).envs(job.environment(rank));
    program
}

fn dress<'p>(program: &'p mut Program, role: &str) -> &'p mut Program {
    program.args(["--exact", "role", "--nocapture"]).env(ROLE, role);
    program.stdin(Stdio::piped()).stdout(Stdio::piped())
}

fn start(job: &Job, rank: Rank, role: &str) -> Child {
    let child = program(job, rank, role).spawn().unwrap();
    job.mark_started(rank, child.id());
    child
}

fn job(ranks: u32) -> Job {
    Job::create(&JobConfig::new(ranks, ranks)).unwrap()
}

fn assert_done(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Waits until a role prints this line.
fn await_line(child: &mut Child, line: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|text| text.unwrap().ends_with(line)), "it never said {line}");
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// The next event; fails the test if none comes for this long.
fn next(port: &mut ShmPort) -> Event {
    let deadline = port.now() + Time::from_nanoseconds(60_000_000_000);
    loop {
        if let Some(event) = port.poll() {
            return event;
        }
        port.park(Some(deadline));
        assert!(port.now() < deadline, "nothing happens");
    }
}

fn receive(port: &mut ShmPort) -> (Rank, u64, Vec<u8>) {
    let Event::Landed(landed) = next(port) else { panic!("expected a message") };
    let mut bytes = vec![0; landed.len()];
    let Landed { source, header, data, .. } = landed;
    data.read_out(port, &mut bytes);
    (source, header, bytes)
}

fn send(port: &mut ShmPort, to: Rank, header: u64, payload: &[u8]) {
    let taken = port.post(&Command::send(to, 0, header, payload)).unwrap();
    assert_eq!(taken, payload.len());
}

fn ping() {
    let mut port = attach().unwrap().unwrap();
    for turn in 0..1000 {
        let payload = vec![turn as u8; (turn as usize * 7) % 5000];
        send(&mut port, 1, turn, &payload);
        assert_eq!(receive(&mut port), (1, turn, payload));
    }
}

fn pong() {
    let mut port = attach().unwrap().unwrap();
    for _ in 0..1000 {
        let (source, header, payload) = receive(&mut port);
        send(&mut port, source, header, &payload);
    }
}

fn exchange(mut start: impl FnMut(&Job, Rank, &str) -> Child) {
    let job = job(2);
    let children = [start(&job, 0, "ping"), start(&job, 1, "pong")];
    children.into_iter().for_each(assert_done);
    assert!(job.has_left(0) && job.has_left(1));
    assert!(!job.mark_dead(0, DeathCause::Exit(0)), "a rank that left cannot die");
}

#[test]
fn ranks_exchange_messages_over_the_inherited_descriptor() {
    exchange(start);
}

#[test]
fn ranks_attach_after_the_descriptor_was_closed() {
    exchange(|job, rank, role| {
        rustix::io::fcntl_setfd(job.fd(), FdFlags::CLOEXEC).unwrap();
        start(job, rank, role)
    });
}

#[test]
fn a_shell_script_may_start_the_program() {
    exchange(|job, rank, role| {
        let mut shell = Program::new("sh");
        shell.args(["-c", r#"true && "$0" "$@""#]).arg(std::env::current_exe().unwrap());
        dress(&mut shell, role).envs(job.environment(rank)).spawn().unwrap()
    });
}

fn twice() {
    let first = attach().unwrap().unwrap();
    let error = attach().unwrap_err();
    let pid = std::process::id();
    assert_eq!(error, AttachError::AlreadyJoined { rank: 0, pid });
    assert!(error.to_string().starts_with("rank 0 has already joined this job (pid "));
    drop(first);
    assert_eq!(attach().unwrap_err(), AttachError::Gone { rank: 0, pid });
}

#[test]
fn a_rank_joins_only_once() {
    assert_done(start(&job(1), 0, "twice"));
}

fn sleeper() {
    let mut port = attach().unwrap().unwrap();
    assert_eq!(receive(&mut port), (0, 9, b"good morning".to_vec()));
    assert!(port.host().sleeps().0 > 0);
}

fn waker() {
    let mut port = attach().unwrap().unwrap();
    while port.host().segment(1).doorbell().sleeping.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    send(&mut port, 1, 9, b"good morning");
}

#[test]
fn a_sleeping_rank_is_woken_by_a_message() {
    let job = job(2);
    [start(&job, 0, "waker"), start(&job, 1, "sleeper")].into_iter().for_each(assert_done);
}

fn victim() {
    let mut port = attach().unwrap().unwrap();
    send(&mut port, 0, 1, b"farewell");
    say("ready");
    // Ends when it is killed, or when the test ends.
    let _ = std::io::stdin().read(&mut [0]);
}

fn survivor() {
    let mut port = attach().unwrap().unwrap();
    assert_eq!(receive(&mut port).2, b"farewell");
    let Event::PeerFailed(failure) = next(&mut port) else { panic!("expected a death") };
    let PeerFailure { rank, cause, .. } = failure;
    assert_eq!((rank, cause), (1, DeathCause::Signal(9)));
    assert_eq!(port.peer(1), PeerState::Failed(failure));
    let error = port.post(&Command::send(1, 0, 0, &[])).unwrap_err();
    assert_eq!(error, PostError::PeerFailed(failure));
    assert!(failure.pid != 0 && error.to_string().ends_with("died: killed by signal 9"));
}

#[test]
fn a_killed_rank_is_an_event_elsewhere() {
    let job = job(2);
    let survivor = start(&job, 0, "survivor");
    let mut victim = start(&job, 1, "victim");
    await_line(&mut victim, "ready");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(job.mark_dead(1, DeathCause::Signal(9)));
    assert!(!job.has_left(1));
    assert_done(survivor);
}

/// A rank that no launcher notifies: it watches the others itself.
fn companion() {
    watching(next);
}

/// The same without any wait.
fn poller() {
    watching(|port| {
        loop {
            if let Some(event) = port.poll() {
                return event;
            }
        }
    });
}

fn watching(next: impl Fn(&mut ShmPort) -> Event) {
    let mut port = attach().unwrap().unwrap();
    assert_eq!(receive(&mut port).2, b"farewell");
    port.host().watch_others(Vec::new(), None).unwrap();
    say("watches");
    let Event::PeerFailed(failure) = next(&mut port) else { panic!("expected a death") };
    assert_eq!((failure.rank, failure.cause), (1, DeathCause::Unknown));
}

#[test]
fn ranks_without_a_launcher_watch_each_other() {
    for role in ["companion", "poller"] {
        let job = job(2);
        let mut companion = start(&job, 0, role);
        let mut victim = start(&job, 1, "victim");
        await_line(&mut victim, "ready");
        await_line(&mut companion, "watches");
        victim.kill().unwrap();
        // Also while its parent has not waited for it.
        assert_done(companion);
        victim.wait().unwrap();
    }
}

const SHARED: usize = 3 << 20;

fn pattern() -> Vec<u8> {
    (0..SHARED).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

/// Confines this process to one processor: kernel copies are for ranks that share one.
fn confine() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
    one.set(first.unwrap());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

fn owner() {
    confine();
    let mut port = attach().unwrap().unwrap();
    assert_eq!(receive(&mut port).2, b"ready");
    let mut shared = port.allocate(SHARED).unwrap();
    let own = pattern();
    shared.copy_from_slice(&own);
    let mut offer = |bytes: &[u8]| {
        let address = port.expose(bytes);
        let space = address.is_some_and(|address| address.space == Space::Process);
        let offset = address.map_or(0, |address| address.offset);
        send(&mut port, 1, offset, &[u8::from(address.is_some()), u8::from(space)]);
    };
    offer(&shared);
    offer(&own);
    assert_eq!(receive(&mut port).2, b"done");
}

fn reader() {
    confine();
    let mut port = attach().unwrap().unwrap();
    send(&mut port, 0, 0, b"ready");
    let expected = pattern();
    for which in 0..2 {
        let (rank, offset, flags) = receive(&mut port);
        if flags[0] == 0 {
            assert!(which == 1 && port.capabilities().process_from.is_none());
            continue;
        }
        let space = if flags[1] == 1 { Space::Process } else { Space::Region };
        assert_eq!(space == Space::Process, which == 1);
        let address = RemoteAddress { rank, space, offset };
        let mut copy = vec![0; SHARED];
        match port.read(address, &mut copy) {
            // A container may forbid it; then this is the error.
            Err(PostError::Refused { rank: 0, .. }) if which == 1 => continue,
            read => read.unwrap(),
        }
        assert!(copy == expected);
        let beyond = RemoteAddress { offset: u64::MAX - 4096, ..address };
        let error = port.read(beyond, &mut copy).unwrap_err();
        assert!(matches!(error, PostError::OutOfBounds { rank: 0, .. }), "{error}");
        let put = Command::put(beyond, &expected);
        assert!(matches!(port.post(&put), Err(PostError::OutOfBounds { .. })));
    }
    send(&mut port, 0, 0, b"done");
}

#[test]
fn buffers_of_another_process_are_read() {
    let job = job(2);
    [start(&job, 0, "owner"), start(&job, 1, "reader")].into_iter().for_each(assert_done);
}

fn blocked() {
    let port = attach().unwrap().unwrap();
    let (activity, since) = (Activity::Receive, port.now());
    port.announce_wait(Some(Wait { since, ..Wait::new(activity).with(Some(2), Some(7)) }));
    say("blocked");
    let _ = std::io::stdin().read(&mut [0]);
    port.announce_wait(None);
}

#[test]
fn the_launcher_sees_what_a_rank_waits_for() {
    let job = job(3);
    let mut child = start(&job, 1, "blocked");
    await_line(&mut child, "blocked");
    let text = job.waiting(1).unwrap().to_string();
    assert!(text.starts_with("receive from rank 2, tag 7, for "), "{text}");
    assert_eq!(job.waiting(0), None);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(job.waiting(1), None);
}

/// Runs under limits on address space and on file sizes; above the latter the kernel would kill it.
fn limited() {
    let fits = JobConfig::new(2, 2);
    let maximum = getrlimit(Resource::As).maximum;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let used = size.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10;
    let create = |current| {
        setrlimit(Resource::As, Rlimit { current: Some(current), maximum }).unwrap();
        Job::create(&fits)
    };
    let Err(JobError::Limit { wanted, .. }) = create(used) else { panic!() };
    // Room for the job's memory, but for almost nothing else.
    let error = create(used + wanted + (8 << 20)).unwrap_err();
    assert!(matches!(error, JobError::Attach(AttachError::AddressSpace { .. })), "{error}");
    // Room for everything.
    setrlimit(Resource::As, Rlimit { current: Some(1 << 40), maximum }).unwrap();
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: Some(1 << 30), maximum }).unwrap();
    let error = Job::create(&fits).unwrap_err();
    assert!(matches!(error, JobError::Limit { limit: 0x4000_0000, .. }), "{error}");
    let scaled = JobConfig::new(2, 2);
    assert!(scaled.region_bytes * 2 <= 1 << 30);
    Job::create(&scaled).unwrap();
    setrlimit(Resource::Fsize, Rlimit { current: Some(1 << 16), maximum }).unwrap();
    assert!(matches!(Job::create(&JobConfig::new(2, 2)), Err(JobError::Limit { .. })));
}

#[test]
fn a_limit_on_addresses_or_file_sizes_is_an_error() {
    let mut program = Program::new(std::env::current_exe().unwrap());
    // A thread's own arena would have room that counts as used.
    dress(&mut program, "limited").env("MALLOC_ARENA_MAX", "1");
    assert_done(program.spawn().unwrap());
}

#[test]
fn attaching_without_a_job_gives_none() {
    if std::env::var_os("HIKYAKU_JOB").is_none() {
        assert!(attach().unwrap().is_none());
    }
}
