//! Endpoints of every installed provider: messages, writes and reads between two of them.

#![allow(clippy::unwrap_used)]

mod support;

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use hikyaku_ofi::{
    Choice, Endpoint, EndpointCompletion, Error, Peer, PostResult, ProviderRequest, Region, Survey,
    choose,
};
use support::{PATIENCE, processor_time, survey, usable, with_other_releases};

/// Two endpoints that know each other.
struct Pair {
    ends: [Endpoint; 2],
    peers: [Peer; 2],
    name: String,
}

impl Pair {
    fn open(survey: &Survey, offer: usize) -> Result<Self, Error> {
        let open = || Endpoint::open(survey, offer, 4, 1 << 16);
        let mut ends = [open()?, open()?];
        let [first, second] = [0, 1].map(|end| ends[end].address().to_vec());
        let peers = [ends[0].insert(&second)?, ends[1].insert(&first)?];
        Ok(Self { ends, peers, name: survey.offers()[offer].provider.clone() })
    }

    /// Polls both until `done` accepts an event.
    fn until(&mut self, mut done: impl FnMut(usize, EndpointCompletion<'_>) -> bool) {
        let start = Instant::now();
        loop {
            for end in [0, 1] {
                while let Some(event) = self.ends[end].poll().unwrap() {
                    if let EndpointCompletion::Failed { error, .. } = &event {
                        panic!("{}: {error}", self.name);
                    }
                    if done(end, event) {
                        return;
                    }
                }
            }
            assert!(start.elapsed() < PATIENCE, "{}: nothing comes", self.name);
        }
    }

    /// Posts until the provider accepts, and lets it make progress in between.
    fn post(&mut self, mut post: impl FnMut(&mut Endpoint, Peer) -> Result<PostResult, Error>) {
        let start = Instant::now();
        while post(&mut self.ends[0], self.peers[0]).unwrap() == PostResult::Full {
            for end in &mut self.ends {
                assert_eq!(end.poll().unwrap(), None, "{}: only full", self.name);
            }
            assert!(start.elapsed() < PATIENCE, "{}: full for ever", self.name);
        }
    }
}

/// Runs `body` with a pair of each usable provider.
fn each(body: impl Fn(Pair)) {
    let Some(survey) = survey() else { return };
    let usable = usable(&survey);
    assert!(!usable.is_empty(), "libfabric is installed and has no provider that fits");
    for (provider, offer) in usable {
        match Pair::open(&survey, offer) {
            Ok(pair) => {
                eprintln!("with {provider}");
                body(pair);
            }
            // psm and others are listed without their hardware.
            Err(error) => eprintln!("skipped: {provider}: {error}"),
        }
    }
}

#[test]
fn messages_arrive_whole_and_in_order() {
    each(|mut pair| {
        let region = pair.ends[0].region(1 << 14).unwrap();
        let lengths: Vec<usize> = (0..200).map(|i| (i * 97) % 9000 + 1).collect();
        let (mut received, mut sent) = (Vec::new(), 0);
        let mut flying = false;
        let start = Instant::now();
        while received.len() < lengths.len() {
            if !flying && sent < lengths.len() {
                region.copy_in(0, &vec![sent as u8; lengths[sent]]);
                let (to, from) = (pair.peers[0], (&region, 0, lengths[sent]));
                if pair.ends[0].send(to, from, 7).unwrap() == PostResult::Accepted {
                    (sent, flying) = (sent + 1, true);
                }
            }
            while let Some(event) = pair.ends[0].poll().unwrap() {
                assert_eq!(event, EndpointCompletion::Done { token: 7 }, "{}", pair.name);
                flying = false;
            }
            while let Some(event) = pair.ends[1].poll().unwrap() {
                let EndpointCompletion::Message { payload } = event else { panic!("{event:?}") };
                assert!(payload.iter().all(|byte| usize::from(*byte) == received.len() % 256));
                received.push(payload.len());
            }
            assert!(start.elapsed() < PATIENCE, "{}: {} came", pair.name, received.len());
        }
        assert_eq!(received, lengths, "{}", pair.name);
        assert_eq!(pair.ends[0].in_flight(), usize::from(flying), "{}", pair.name);
    });
}

#[test]
fn short_messages_are_injected() {
    each(|mut pair| {
        pair.post(|end, peer| end.inject(peer, b"eight by"));
        let name = pair.name.clone();
        pair.until(|end, event| {
            assert_eq!(
                (end, event),
                (1, EndpointCompletion::Message { payload: b"eight by" }),
                "{name}"
            );
            true
        });
    });
}

#[test]
fn writes_land_with_their_data_and_reads_fetch() {
    each(|mut pair| {
        let [own, target]: [Region; 2] = [0, 1].map(|end| pair.ends[end].region(8192).unwrap());
        own.copy_in(0, &[7; 8192]);
        let remote = target.remote();
        pair.post(|end, peer| end.write(peer, remote, (&own, 0, 8192), Some(0xfeed_beef), 1));
        let (mut written, mut done) = (false, false);
        pair.until(|end, event| {
            match (end, event) {
                (0, EndpointCompletion::Done { token: 1 }) => done = true,
                (1, EndpointCompletion::Written { data: 0xfeed_beef }) => written = true,
                other => panic!("{other:?}"),
            }
            written && done
        });
        let mut bytes = [0; 8192];
        target.copy_out(0, &mut bytes);
        assert_eq!(bytes, [7; 8192], "{}", pair.name);

        target.copy_in(100, &[9; 10]);
        pair.post(|end, peer| end.read(peer, remote, (&own, 0, 200), 2));
        pair.until(|end, event| (end, event) == (0, EndpointCompletion::Done { token: 2 }));
        own.copy_out(0, &mut bytes);
        assert_eq!((bytes[99], bytes[100], bytes[109], bytes[110]), (7, 9, 9, 7), "{}", pair.name);
    });
}

#[test]
fn waiting_sleeps_and_ends_with_a_message() {
    each(|mut pair| {
        let settle = Instant::now();
        pair.post(|end, peer| end.inject(peer, b"first"));
        pair.until(|end, _| end == 1);
        assert!(settle.elapsed() < PATIENCE);
        let (start, before) = (Instant::now(), processor_time());
        while start.elapsed() < Duration::from_millis(300) {
            let rest = Duration::from_millis(300).saturating_sub(start.elapsed());
            pair.ends[1].wait(rest).unwrap();
            assert_eq!(pair.ends[1].poll().unwrap(), None, "{}", pair.name);
        }
        let used = processor_time() - before;
        // Half of the time separates polling from sleeping clearly.
        assert!(used < start.elapsed() / 2, "{}: {used:?} while idle", pair.name);

        pair.post(|end, peer| end.inject(peer, b"second"));
        let waited = Instant::now();
        loop {
            pair.ends[1].wait(Duration::from_secs(5)).unwrap();
            let _ = pair.ends[0].poll().unwrap();
            if pair.ends[1].poll().unwrap()
                == Some(EndpointCompletion::Message { payload: b"second" })
            {
                break;
            }
            assert!(waited.elapsed() < PATIENCE, "{}", pair.name);
        }
    });
}

#[test]
fn regions_outlive_what_is_in_flight() {
    each(|mut pair| {
        let region = pair.ends[0].region(4096).unwrap();
        region.copy_in(0, &[5; 4096]);
        pair.post(|end, peer| end.send(peer, (&region, 0, 4096), 3));
        drop(region);
        let name = pair.name.clone();
        pair.until(|end, event| match event {
            EndpointCompletion::Message { payload } => {
                assert_eq!(payload, [5; 4096], "{name}");
                end == 1
            }
            _ => false,
        });
    });
}

#[test]
fn more_than_fits_is_full_and_then_accepted() {
    each(|mut pair| {
        let region = pair.ends[0].region(64).unwrap();
        let mut accepted = 0_u64;
        let (to, start) = (pair.peers[0], Instant::now());
        // Without any poll a limit is reached at some point.
        while pair.ends[0].send(to, (&region, 0, 64), accepted).unwrap() == PostResult::Accepted {
            accepted += 1;
            assert!(accepted < 100_000, "{}: takes everything", pair.name);
        }
        let (mut done, mut messages) = (0, 0);
        while done < accepted || messages < accepted {
            for end in [0, 1] {
                match pair.ends[end].poll().unwrap() {
                    Some(EndpointCompletion::Done { .. }) => done += 1,
                    Some(EndpointCompletion::Message { .. }) => messages += 1,
                    Some(other) => panic!("{}: {other:?}", pair.name),
                    None => {}
                }
            }
            assert!(start.elapsed() < PATIENCE, "{}: {done}, {messages}", pair.name);
        }
        pair.post(|end, peer| end.send(peer, (&region, 0, 64), 0));
    });
}

#[test]
fn addresses_of_another_kind_are_refused() {
    each(|mut pair| {
        let long = vec![1; 300];
        for wrong in [&b""[..], b"x", &long] {
            let error = pair.ends[0].insert(wrong).unwrap_err().to_string();
            assert!(error.contains(&pair.name), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    });
}

#[test]
fn atomics_are_what_a_trial_says() {
    let Some(survey) = survey() else { return };
    for (provider, offer) in usable(&survey) {
        let Ok(works) = Endpoint::try_atomics(&survey, offer) else { continue };
        // net of 1.17 lists them and refuses each; ofi_rxm and shm do them in software.
        match &*provider {
            "tcp" | "net" => assert!(!works, "{provider}"),
            "tcp;ofi_rxm" | "shm" => assert!(works, "{provider}"),
            _ => {}
        }
    }
}

#[test]
fn the_choice_among_what_is_installed_can_be_opened() {
    let Some(survey) = survey() else { return };
    let near: IpAddr = [127, 0, 0, 1].into();
    let request = ProviderRequest { near: Some(near), ..ProviderRequest::default() };
    let choice: Choice = choose(survey.offers(), &request);
    assert_eq!(choice.reasons.len(), survey.offers().len());
    let best = choice.offer(survey.offers(), &request).unwrap();
    let end = Endpoint::open(&survey, best, 4, 1 << 16).unwrap();
    assert_eq!(end.provider(), survey.offers()[best].provider);
    assert!(!end.address().is_empty());
}

/// Runs one test of this program in a separate process.
fn alone(test: &str, variable: &str, library: Option<&Path>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(variable, "1");
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The signal handlers of this process, as the kernel lists them.
fn handlers() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("SigCgt")).unwrap().to_owned()
}

/// A crash stays a crash: libraries that libfabric loads take over no signal.
#[test]
fn loading_leaves_handlers_of_signals() {
    if env::var_os("HIKYAKU_TEST_HANDLERS").is_none() {
        return alone("loading_leaves_handlers_of_signals", "HIKYAKU_TEST_HANDLERS", None);
    }
    let before = handlers();
    if survey().is_some() {
        assert_eq!(handlers(), before);
    }
}

/// Without the library, one line says what to install.
#[test]
fn without_libfabric_one_line_says_what_to_install() {
    if env::var_os("HIKYAKU_TEST_EMPTY").is_none() {
        let folder = env::temp_dir().join(format!("hikyaku-no-ofi-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // A file that is not a library is where the linker looks first.
        fs::write(folder.join("libfabric.so.1"), "no library").unwrap();
        let test = "without_libfabric_one_line_says_what_to_install";
        alone(test, "HIKYAKU_TEST_EMPTY", Some(&folder));
        fs::remove_dir_all(&folder).unwrap();
        return;
    }
    let error = Survey::take().err().expect("a file of ten bytes is no library").to_string();
    assert!(error.starts_with("libfabric.so.1 cannot be opened ("), "{error}");
    assert!(error.contains("apt-get install libfabric1"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

/// The same binary runs with other releases.
#[test]
fn other_releases_pass_the_same_tests() {
    with_other_releases();
}
