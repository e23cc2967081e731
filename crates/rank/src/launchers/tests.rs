//! Ranks, as threads, that connect through a launcher that speaks PMI-1 like MPICH's.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use hikyaku_nic::fabric::{Command, Event, Port};

use super::*;
use crate::port::RankPort;

/// The launcher's values, and the fence of its ranks.
struct Server {
    values: Mutex<BTreeMap<String, String>>,
    fence: Barrier,
    mapping: Option<&'static str>,
    finished: AtomicU32,
}

impl Server {
    /// Answers one rank until it has finished or is gone.
    fn serve(&self, stream: UnixStream) {
        let mut out = stream.try_clone().expect("a descriptor");
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let word = |name: &str| {
                let words = line.split(' ');
                let value = words.filter_map(|word| word.strip_prefix(&format!("{name}="))).next();
                value.unwrap_or_default().to_owned()
            };
            let answer = match word("cmd").as_str() {
                "init" => "response_to_init rc=0 pmi_version=1 pmi_subversion=1".to_owned(),
                "get_appnum" => "appnum rc=0 appnum=3".to_owned(),
                "get_my_kvsname" => "my_kvsname rc=0 kvsname=it".to_owned(),
                "put" => {
                    assert!(word("value").len() <= 1024 && word("kvsname") == "it");
                    self.values.lock().expect("whole").insert(word("key"), word("value"));
                    "put_result rc=0".to_owned()
                }
                "barrier_in" => {
                    self.fence.wait();
                    "barrier_out rc=0".to_owned()
                }
                "get" => match (word("key").as_str(), self.mapping) {
                    ("PMI_process_mapping", Some(mapping)) => {
                        format!("get_result rc=0 value={mapping}")
                    }
                    (key, _) => match self.values.lock().expect("whole").get(key) {
                        Some(value) => format!("get_result rc=0 value={value}"),
                        None => "get_result rc=-1 msg=no_such value=unknown".to_owned(),
                    },
                },
                "finalize" => {
                    self.finished.fetch_add(1, Ordering::Relaxed);
                    "finalize_ack".to_owned()
                }
                other => panic!("{other}"),
            };
            writeln!(out, "cmd={answer}").expect("the rank is there");
        }
    }
}

/// Runs `size` ranks. Returns how many have left in an orderly way.
fn meet(size: u32, mapping: Option<&'static str>, run: impl Fn(RankPort) + Sync) -> u32 {
    let server = Arc::new(Server {
        values: Mutex::default(),
        fence: Barrier::new(size as usize),
        mapping,
        finished: AtomicU32::new(0),
    });
    thread::scope(|scope| {
        for rank in 0..size {
            let (ours, theirs) = UnixStream::pair().expect("two sockets");
            let server = Arc::clone(&server);
            scope.spawn(move || server.serve(theirs));
            let run = &run;
            scope.spawn(move || {
                let pmi = Pmi::over(ours, Some((rank, size))).expect("a launcher");
                let (near, started) =
                    LaunchedRank::over(Box::new(pmi), HostTimeout::default()).expect("a job");
                let port = RankPort::of_started(near, started).expect("a port");
                run(port);
            });
        }
    });
    server.finished.load(Ordering::Relaxed)
}

/// Sends a word to the next rank, and waits for that of the previous one.
fn pass_on(mut port: RankPort) {
    let (rank, size) = (port.rank(), port.size());
    while port.post(&Command::send((rank + 1) % size, 0, rank.into(), &[])).is_err() {
        port.park(None);
    }
    loop {
        match port.poll() {
            Some(Event::Landed(landed)) => {
                assert_eq!(landed.header, u64::from((rank + size - 1) % size));
                assert_eq!(port.program(), Some(3));
                return;
            }
            Some(_) => {}
            None => _ = port.park(None),
        }
    }
}

#[test]
fn ranks_of_one_host_meet() {
    for mapping in [None, Some("(vector,(0,1,4))"), Some("(vector,(7,1,4))"), Some("nonsense")] {
        assert_eq!(meet(4, mapping, pass_on), 4, "{mapping:?}");
    }
}

#[test]
fn ranks_of_several_hosts_meet() {
    if let Err(error) = hikyaku_ofi::Survey::take() {
        eprintln!("skipped: {error}");
        return;
    }
    for mapping in ["(vector,(0,2,2))", "(vector,(0,2,1))"] {
        assert_eq!(meet(4, Some(mapping), pass_on), 4, "{mapping}");
    }
}

/// Ends a rank without leaving, as a kill would: so ends a thread that panics.
fn die(port: RankPort) {
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _port = port;
        panic!("this rank dies");
    }));
    assert!(died.is_err());
}

#[test]
fn a_rank_that_has_not_left_is_dead_on_all_hosts() {
    if let Err(error) = hikyaku_ofi::Survey::take() {
        eprintln!("skipped: {error}");
        return;
    }
    let finished = meet(4, Some("(vector,(0,2,2))"), |mut port| {
        if port.rank() == 3 {
            return die(port);
        }
        let failure = loop {
            match port.poll() {
                Some(Event::PeerFailed(failure)) => break failure,
                Some(_) => {}
                None => _ = port.park(None),
            }
        };
        assert_eq!(failure.rank, 3);
    });
    assert_eq!(finished, 3);
}

#[test]
fn hosts_are_numbered_by_their_first_ranks() {
    assert_eq!(renumbered(&[7, 7, 2, 9, 2]), [0, 0, 1, 2, 1]);
}

#[test]
fn bytes_travel_as_digits() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(unhex(&hex(&bytes)), Some(bytes));
    for bad in ["", "0", "0g", "001"] {
        assert_eq!(unhex(bad), None, "{bad}");
    }
}
