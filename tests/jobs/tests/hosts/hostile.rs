//! A stranger on the network sends a rank of a job packets that no rank has sent: the job loses
//! nothing by it and its report says what was dropped. If the packet has the job's secret and names
//! a rank, ranks that wait for that rank get an error with the reason.
//!
//! The stranger is this test program once more, on a host of the job. No one can send to the
//! launcher or the daemons, which have no port unless daemons are to connect: then strangers at
//! that port are refused, and counted in one line.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Lines, Read, Write, stdin};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{array, env, thread};

use hikyaku_jobs::Random;
use hikyaku_jobs::net::{NETWORK, Net, address};
use hikyaku_jobs::process::Process;
use hikyaku_ofi::{Endpoint, PostResult, ProviderRequest, Survey, VARIABLE, choose};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::hosts;
use super::started::{LIMIT, Started};

/// The stranger's task: a port, the job's secret and a kind of packets.
const STRANGER: &str = "HIKYAKU_JOBS_STRANGER";

/// Duration of the job whose report is tested, seconds. It takes one.
const TOLD_AFTER: &str = "30";

/// Connections whose bytes do not come from libfabric either.
const CONNECTIONS: u64 = 4;

type Key = [u8; 16];

/// An empty packet of rank `source`, as the links of ranks make them.
fn packet(source: u32, number: u32, key: Key) -> Vec<u8> {
    const DATA: u8 = 1;
    const FORM: u8 = 4;
    let words = [source, number, 0, 0].map(u32::to_le_bytes).concat();
    [&[DATA << 4, FORM, 0, 0][..], &words, &key].concat()
}

/// The packets to send.
fn packets(kind: &str, key: Key) -> Vec<Vec<u8>> {
    match kind {
        // Not a packet of ours, one without the secret, and one of a rank that does not exist.
        "dropped" => vec![b"hello".to_vec(), packet(2, 0, [8; 16]), packet(99, 0, key)],
        // Far ahead of everything that rank 2 has sent.
        "breaking" => vec![packet(2, 1 << 20, key)],
        other => panic!("{other} is no kind"),
    }
}

/// The secret of a job, which a host's daemon has in the header of its memory, after the fields
/// that follow the number of the host.
fn key(job: &Started, net: &Net) -> Key {
    const HOST: usize = 23;
    let of = |host: u32| {
        let memory = job.daemon(net, host).unwrap().job_memory().unwrap();
        let mut bytes = [0; 8 * (HOST + 3)];
        memory.read_exact_at(&mut bytes, 0).unwrap();
        let number = u64::from_le_bytes(array::from_fn(|at| bytes[8 * HOST + at]));
        assert_eq!(number, u64::from(host) + 1, "the header is another");
        array::from_fn(|at| bytes[8 * (HOST + 1) + at])
    };
    let keys: [Key; 2] = [of(0), of(1)];
    assert!(keys[0] == keys[1] && keys[0] != [0; 16], "this is no secret: {keys:?}");
    keys[0]
}

/// A stranger on host 1, which has sent everything to rank 0 and stays until its input ends.
struct Stranger {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Stranger {
    fn end(mut self) {
        drop(self.process.stdin.take());
        // The output of its harness.
        self.said.by_ref().for_each(drop);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Starts a stranger, by the calling test.
fn stranger(job: &mut Started, net: &Net, kind: &str, test: &str) -> Stranger {
    let rank = job.rank(net, 0).unwrap();
    let ports = rank.ports();
    let [port] = ports[..] else { panic!("rank 0 listens at {ports:?}") };
    let hex: String = key(job, net).iter().map(|byte| format!("{byte:02x}")).collect();
    let before = net.on(1);
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).arg(env::current_exe().unwrap());
    command.args(["--exact", &format!("hostile::{test}"), "--nocapture"]);
    command.env(STRANGER, format!("{port} {hex} {kind}"));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    let has_sent = said.by_ref().map_while(Result::ok).any(|line| line.ends_with(SENT));
    assert!(has_sent, "the stranger has failed");
    Stranger { process, said }
}

/// The stranger's line after that.
const SENT: &str = "the stranger has sent all";

/// Whether this is the stranger's process; then it does its whole task.
fn is_stranger() -> bool {
    let Ok(words) = env::var(STRANGER) else { return false };
    let [port, key, kind] = words.split(' ').collect::<Vec<_>>()[..] else { panic!("{words}") };
    let port: u16 = port.parse().unwrap();
    let key = array::from_fn(|at| u8::from_str_radix(&key[2 * at..][..2], 16).unwrap());
    let mut random = Random::new(1);
    let mut connect = |number: u64| {
        let mut stream = TcpStream::connect((address(0), port)).unwrap();
        let bytes: Vec<u8> = (0..1000 * number).map(|_| random.below(256) as u8).collect();
        // The other side may have closed it by then.
        let _ = stream.write_all(&bytes);
        stream
    };
    let open: Vec<TcpStream> = (0..CONNECTIONS).map(&mut connect).collect();
    drop(connect(1));

    let survey = Survey::take().unwrap();
    let wanted = env::var(VARIABLE).ok().map(|value| ProviderRequest::parse(&value).unwrap());
    let request = wanted.unwrap_or_default();
    let offer = choose(survey.offers(), &request).offer(survey.offers(), &request).unwrap();
    let mut endpoint = Endpoint::open(&survey, offer, 1, 1 << 18).unwrap();
    // The address of a TCP endpoint: family, port, host.
    let mut place = endpoint.address().to_vec();
    assert_eq!(place.len(), 16);
    place[2..4].copy_from_slice(&port.to_be_bytes());
    place[4..8].copy_from_slice(&[10, 77, 0, 1]);
    let victim = endpoint.insert(&place).unwrap();
    for bytes in packets(kind, key) {
        while endpoint.inject(victim, &bytes).unwrap() == PostResult::Full {
            endpoint.poll().unwrap();
        }
    }
    println!("{SENT}");
    let over = thread::spawn(|| stdin().read_to_end(&mut Vec::new()));
    while !over.is_finished() {
        // The provider may progress in calls only. It may report that the victim is gone.
        let _ = endpoint.poll();
        thread::yield_now();
    }
    drop(open);
    true
}

#[test]
fn what_strangers_send_costs_a_job_nothing_and_is_counted() {
    if is_stranger() {
        return;
    }
    let Some((net, _alone)) = hosts(2) else { return };
    let told = env::temp_dir().join(format!("hikyaku-told-{}", std::process::id()));
    let words = ["until-told", told.to_str().unwrap()];
    let mut job = Started::with((TOLD_AFTER, &[]), &net, (2, 2), &words);
    assert_eq!(job.line().as_deref(), Some("begun"));
    for host in 0..2 {
        assert_eq!(job.daemon(&net, host).unwrap().ports(), [], "a daemon's port");
    }
    assert_eq!(job.launcher(&net).unwrap().ports(), [], "the launcher's port");
    let test = "what_strangers_send_costs_a_job_nothing_and_is_counted";
    let stranger = stranger(&mut job, &net, "dropped", test);
    File::create(&told).unwrap();
    assert_eq!(job.line().as_deref(), Some("right"));
    let ended = job.end();
    stranger.end();
    fs::remove_file(told).unwrap();
    assert_eq!(ended.code, Some(124), "{}", ended.errors);
    let dropped: Vec<&str> =
        ended.errors.lines().filter(|line| line.contains("has dropped")).collect();
    let [line] = dropped[..] else { panic!("{}", ended.errors) };
    assert!(line.contains("rank 0 (pid "), "{line}");
    let what = "it has dropped 2 packets without the job's key and 1 packet of ranks of other \
                hosts (the last of rank 99: its source cannot be)";
    assert!(line.contains(what), "{line}");
    net.wait_for_silence("strangers");
}

#[test]
fn an_impossible_packet_is_an_error_of_whoever_waits() {
    if is_stranger() {
        return;
    }
    let Some((net, _alone)) = hosts(2) else { return };
    let words = ["until-told", "/no/such/file"];
    let mut job = Started::with((LIMIT, &[]), &net, (2, 2), &words);
    assert_eq!(job.line().as_deref(), Some("begun"));
    let test = "an_impossible_packet_is_an_error_of_whoever_waits";
    let stranger = stranger(&mut job, &net, "breaking", test);
    let ended = job.end();
    stranger.end();
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    let lines: Vec<&str> = ended.errors.lines().collect();
    println!("{lines:?}");
    let of_launcher = lines.iter().filter(|line| line.starts_with("launch: ")).count();
    let said = format!("rank 0: rank 2 on host {}", address(1));
    assert!(of_launcher == 1 && lines.iter().any(|line| line.starts_with(&said)), "{lines:?}");
    net.wait_for_silence("an impossible packet");
}

/// Runs a function in the network of a process.
fn beside<T: Send>(process: &Process, run: impl FnOnce() -> T + Send) -> T {
    let network = File::open(format!("/proc/{}/ns/net", process.pid)).unwrap();
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).unwrap();
            run()
        });
        inside.join().unwrap()
    })
}

/// Sends bytes to the launcher. Returns the connection.
fn say(port: u16, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect((address(0), port)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

fn wait_for_refusal(mut stream: &TcpStream) {
    match stream.read(&mut [0; 64]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("it is not refused: {other:?}"),
    }
}

#[test]
fn strangers_at_the_launchers_port_are_refused_and_counted() {
    let Some((net, _alone)) = hosts(2) else { return };
    let words = ["wait-for", "1"];
    let mut job = Started::connected(&net, Some(NETWORK), false, (2, 1), &words);
    for _ in 0..2 {
        assert!(job.line().unwrap().starts_with("waits "));
    }
    let launcher = job.launcher(&net).unwrap();
    let [port] = launcher.ports()[..] else { panic!("the launcher listens at no one port") };
    let daemon = job.daemon(&net, 1).unwrap();
    assert_eq!(daemon.ports(), [], "a daemon that starts no other has no port");
    let elsewhere = beside(&launcher, || TcpStream::connect(("127.0.0.1", port)).map(drop));
    assert_eq!(elsewhere.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // A daemon's first message, for a host whose daemon is already connected.
    let hello = [&b"hikyaku1"[..], &1_u32.to_le_bytes(), &[7; 32]].concat();
    let silent = beside(&daemon, || {
        let silent = say(port, b"");
        drop(say(port, b"hiky"));
        wait_for_refusal(&say(port, &[b'x'; 1000]));
        wait_for_refusal(&say(port, &hello));
        silent
    });
    job.rank(&net, 1).unwrap().kill();
    let ended = job.end();
    drop(silent);
    assert_eq!(ended.code, Some(137), "{}", ended.errors);
    let of_them: Vec<&str> = ended.errors.lines().filter(|line| line.contains("refused")).collect();
    let at = format!("{}:{port}", address(0));
    let said = format!("hikyaku: refused 4 connections to {at}: not by a daemon of this job");
    assert_eq!(of_them, [said], "{}", ended.errors);
    net.wait_for_silence("strangers at the port");
}
