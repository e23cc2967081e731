//! `hikyaku fabric`: the networks that libfabric offers here, the one that jobs use, and its speed.

use std::env;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::process::{Child, Command as Process, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hikyaku_ofi::measure::{self, FabricFigures, ValueSpread};
use hikyaku_ofi::{Choice, Endpoint, Error, ProviderRequest, Survey, VARIABLE, choose};
use hikyaku_report::{Cell, Table};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::exit::{PrintError, USAGE, print, say};

/// Timeout of a test on one host for its second process.
const STARTS: Duration = Duration::from_secs(30);

/// Timeout of the connecting side.
const CONNECTS: Duration = Duration::from_secs(10);

/// Interval at which the listening side polls for the end of its second process.
const GLANCE: Duration = Duration::from_millis(100);

/// Look at the networks that libfabric offers for jobs of several hosts
///
/// HIKYAKU_FABRIC=PROVIDER, PROVIDER/DOMAIN or /DOMAIN overrides the choice: tcp, tcp/eth0, /ib0.
/// Layers of a provider are joined by `+` or `;`: tcp+ofi_rxm.
#[derive(Debug, Args)]
pub(crate) struct FabricArguments {
    #[command(subcommand)]
    command: FabricCommand,
}

#[derive(Debug, Subcommand)]
enum FabricCommand {
    /// Print what there is, what would be used, and why not the rest
    List,
    Test(Test),
}

/// Measure 8 bytes one way, and 1 MiB written and read
///
/// Without an option between two processes of this host. Between two hosts, start the one with
/// --listen and then the other with --connect, which prints the figures.
#[derive(Debug, Args)]
struct Test {
    /// Answer the other host, which connects to this address of this one
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "connect")]
    listen: Option<SocketAddr>,

    /// Measure with the host that listens there
    #[arg(long, value_name = "HOST:PORT")]
    connect: Option<String>,

    /// Seconds that --listen waits for the other host
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,
}

/// The reason why networks cannot be shown or measured.
#[derive(Debug, thiserror::Error)]
enum FabricFailure {
    /// libfabric failed, or is not installed.
    #[error(transparent)]
    Fabric(#[from] Error),
    /// Standard output cannot be written.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// The two sides could not connect to each other.
    #[error("{what}: {error}")]
    Meeting { what: String, error: io::Error },
    /// The second process of a test on one host failed, and has reported why.
    #[error("the other process of the test has failed")]
    Child,
}

/// Runs `hikyaku fabric`.
pub(crate) fn run(arguments: &FabricArguments) -> ExitCode {
    let done = match &arguments.command {
        FabricCommand::List => list(),
        FabricCommand::Test(test) => try_out(test),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(FabricFailure::Print(error)) => error.end(),
        // It has reported why.
        Err(FabricFailure::Child) => ExitCode::FAILURE,
        Err(error @ FabricFailure::Fabric(Error::Invalid(_))) => {
            say(format_args!("fabric: {error}"));
            ExitCode::from(USAGE)
        }
        Err(error) => {
            say(format_args!("fabric: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The request in the environment.
fn request() -> Result<ProviderRequest, Error> {
    match env::var_os(VARIABLE) {
        Some(value) => ProviderRequest::parse(&value.to_string_lossy()),
        None => Ok(ProviderRequest::default()),
    }
}

/// Prints the offers, and the result of a trial of the one that would be used.
fn list() -> Result<(), FabricFailure> {
    let request = request()?;
    let survey = Survey::take()?;
    let choice = choose(survey.offers(), &request);
    let (major, minor) = survey.version();
    let mut text = format!("libfabric {major}.{minor}\n\n{}\n", table(&survey, &choice).to_text());
    text.push_str(&match choice.best {
        Some(best) => on_trial(&survey, best)?,
        None => match choice.offer(survey.offers(), &request) {
            Ok(_) => String::new(),
            Err(error) => format!("none would be used: {error}"),
        },
    });
    Ok(print(text)?)
}

/// All offers; those of a provider that share a verdict are one line.
fn table(survey: &Survey, choice: &Choice) -> Table {
    let head = ["provider", "kind", "domain", "address", "progress", "verdict"];
    let mut rows: Vec<[String; 6]> = Vec::new();
    for (offer, reason) in survey.offers().iter().zip(&choice.reasons) {
        let address = offer.address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        let progress = if offer.manual_progress { "in calls" } else { "by itself" };
        let (kind, provider) = (offer.kind.to_string(), &offer.provider);
        let same =
            |row: &&mut [String; 6]| row[0] == *provider && row[1] == kind && row[5] == *reason;
        if let Some(row) = rows.iter_mut().find(same) {
            if row[2] != offer.domain && !row[2].ends_with(", ...") {
                row[2].push_str(", ...");
            }
            "...".clone_into(&mut row[3]);
            continue;
        }
        let domain = offer.domain.clone();
        rows.push([provider.clone(), kind, domain, address, progress.into(), reason.clone()]);
    }
    let mut table = Table::new("", head);
    for row in rows {
        table.push(row.map(|word| Cell::from(word.as_str())));
    }
    table
}

/// Opens an offer, and reports which of its claims are true.
fn on_trial(survey: &Survey, offer: usize) -> Result<String, Error> {
    let endpoint = Endpoint::open(survey, offer, 1, 1 << 14)?;
    let sleeps = match endpoint.has_descriptor() {
        true => "a waiting rank sleeps on its descriptor",
        false => "it has no descriptor to sleep on: a waiting rank polls every millisecond",
    };
    let atomics = match Endpoint::try_atomics(survey, offer) {
        Ok(true) => "atomic operations work",
        _ if survey.offers()[offer].claims_atomics => {
            "atomic operations are claimed and do not work: the target's rank does them"
        }
        _ => "no atomic operations: the target's rank does them",
    };
    let inject = endpoint.inject_size();
    Ok(format!("{}: {sleeps}; {atomics}; inlines {inject} bytes", endpoint.provider()))
}

/// Measures, alone or with another host.
fn try_out(test: &Test) -> Result<(), FabricFailure> {
    let request = request()?;
    let survey = Survey::take()?;
    if let Some(host) = &test.connect {
        let mut stream = connect(host)?;
        let figures = measure::measure(&survey, &request, &mut stream)?;
        return Ok(print(tell(&survey, &figures))?);
    }
    if let Some(address) = test.listen {
        let listener = listen(address)?;
        let bound = listener.local_addr().unwrap_or(address);
        say(format_args!("fabric: listening at {bound} for {} s", test.wait));
        let wait = Duration::from_secs(test.wait.into());
        let mut stream = accept(&listener, wait, &mut None)?;
        return Ok(measure::serve(&survey, &request, &mut stream)?);
    }
    on_one_host(&survey, &request)
}

/// Starts this program again as the side that measures and prints, and serves that side.
fn on_one_host(survey: &Survey, request: &ProviderRequest) -> Result<(), FabricFailure> {
    let listener = listen((IpAddr::from(Ipv4Addr::LOCALHOST), 0).into())?;
    let meeting =
        |error| FabricFailure::Meeting { what: "cannot start a second process".into(), error };
    let address = listener.local_addr().map_err(meeting)?.to_string();
    let mut child = Process::new(env::current_exe().map_err(meeting)?)
        .args(["fabric", "test", "--connect", &address])
        .spawn()
        .map_err(meeting)
        .map(Some)?;
    let served = accept(&listener, STARTS, &mut child)
        .and_then(|mut stream| Ok(measure::serve(survey, request, &mut stream)?));
    let Some(mut child) = child else { return served };
    if served.is_err() {
        // If the child has failed, it reports a better reason; else it waits for this side.
        let _ = wait_until(&mut child, Instant::now() + 10 * GLANCE);
        let _ = child.kill();
    }
    match child.wait() {
        Ok(status) if status.success() => served,
        Ok(status) if status.code().is_some_and(|code| code == 1) => Err(FabricFailure::Child),
        _ => served.and(Err(FabricFailure::Child)),
    }
}

/// Waits for the end of a process, until a deadline.
fn wait_until(child: &mut Child, end: Instant) -> io::Result<()> {
    while child.try_wait()?.is_none() && Instant::now() < end {
        poll(&mut [], Timespec::try_from(GLANCE).ok().as_ref())?;
    }
    Ok(())
}

fn listen(address: SocketAddr) -> Result<TcpListener, FabricFailure> {
    TcpListener::bind(address).map_err(|error| FabricFailure::Meeting {
        what: format!("cannot listen at {address}"),
        error,
    })
}

/// Waits for a peer to connect. Gives up if the child that should connect ends.
fn accept(
    listener: &TcpListener,
    at_most: Duration,
    child: &mut Option<Child>,
) -> Result<TcpStream, FabricFailure> {
    let meeting = |error| FabricFailure::Meeting { what: "nobody has connected".into(), error };
    let end = Instant::now() + at_most;
    while Instant::now() < end {
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        let time = Timespec::try_from(GLANCE).ok();
        if poll(&mut polled, time.as_ref()).map_err(|error| meeting(error.into()))? > 0 {
            return Ok(listener.accept().map_err(meeting)?.0);
        }
        if let Some(child) = child
            && child.try_wait().map_err(meeting)?.is_some()
        {
            return Err(FabricFailure::Child);
        }
    }
    Err(meeting(io::ErrorKind::TimedOut.into()))
}

fn connect(host: &str) -> Result<TcpStream, FabricFailure> {
    let meeting =
        |error| FabricFailure::Meeting { what: format!("cannot connect to {host}"), error };
    let mut last = io::ErrorKind::AddrNotAvailable.into();
    for address in host.to_socket_addrs().map_err(meeting)? {
        match TcpStream::connect_timeout(&address, CONNECTS) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(meeting(last))
}

/// Formats the figures.
fn tell(survey: &Survey, figures: &FabricFigures) -> String {
    let FabricFigures { offer, reason, latency, written, read } = figures;
    let (major, minor) = survey.version();
    let line = |what: &str, ValueSpread { least, median, most }: &ValueSpread, unit: &str| {
        format!("{what:<16}{median:>9.1} {unit:<5}(of several {least:.1} to {most:.1})")
    };
    [
        format!("libfabric {major}.{minor}, {} at {}: {reason}", offer.provider, offer.domain),
        line("8 B one way", latency, "us"),
        line("1 MiB written", written, "MB/s"),
        line("1 MiB read", read, "MB/s"),
    ]
    .join("\n")
}
