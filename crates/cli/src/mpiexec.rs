//! `mpiexec` and `mpirun`: the options of MPI's launchers (MPI 5.0 §11.5) as a [`Launch`].
//!
//! It is `hikyaku run` under another name: the program under one of those names, a symbolic link to
//! it, or `hikyaku mpiexec`. If all named hosts are this machine, they are ignored, and their
//! limits on ranks too.

use std::ffi::{OsStr, OsString};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hikyaku_launch::hosts::{HostEntry, HostsError, assign, own_host_name};
use hikyaku_launch::{Bind, Launch, Program};
use thiserror::Error;

use crate::exit::{self, USAGE};
use crate::hosts;
use crate::input::{self, BY_HAND};
use crate::run::{seconds, see_to_its_end};

const HELP: &str = "\
Start ranks of programs, with the words of other MPI launchers

Usage: mpiexec [OPTIONS] [-n N] PROGRAM [ARGUMENTS]... [: [-n N] PROGRAM [ARGUMENTS]...]...

  -n N, -np N          how many ranks of the program [default: 1]
  -env NAME VALUE      set a variable of the program's ranks; -x NAME=VALUE does the same
  -envall, -envnone    the ranks see all variables of this environment [default], or none
  -envlist A,B         the ranks see these variables; -x NAME adds one
  -genv, -genvall, -genvnone, -genvlist
                       the same for all programs
  -wdir FOLDER         start the program in this folder
  -configfile FILE     take options and programs from a file, one program a line
  -l                   start each line of output with \"[rank] \"
  --bind-to core|none  tie each rank to one CPU, or to none
  -hosts a:4,b:4       run the ranks on these hosts, in order; -host a does the same for the ranks
                       of one program
  -f FILE, -hostfile FILE
                       take the hosts from a file, one a line: host, host:4 or host slots=4
  -ppn K               run at most K ranks on each host; --map-by ppr:K:node does the same
  -launcher-exec COMMAND
                       reach hosts by this command, followed by a host and a command line [ssh]
  -host-timeout SECONDS
                       count a host as dead that was silent for so long [5]
  --map-by, --oversubscribe, --allow-run-as-root
                       accepted without effect

`hikyaku run --help` says how input, output and the end of a job go.
";

/// The reason why there is no job.
#[derive(Debug, Error, PartialEq, Eq)]
enum MpiexecError {
    #[error("there is no option `{0}` (see mpiexec --help)")]
    Option(String),
    #[error("{0} needs {1}")]
    Needs(String, &'static str),
    #[error("{0} takes {1}, not `{2}`")]
    Value(String, &'static str, String),
    #[error(transparent)]
    Hosts(#[from] hosts::WrongHosts),
    #[error("host {0} is named again after others: put programs of one host beside each other")]
    Again(String),
    #[error("no program is named after the options")]
    NoProgram,
    #[error("cannot read {0}: {1}")]
    File(String, String),
    #[error("-wdir: there is no folder `{0}`")]
    Folder(String),
    #[error("-configfile: `{0}` is named in such a file itself; name it beside that one")]
    Nested(String),
}

/// Whether this is the name of one of MPI's launchers.
pub(crate) fn is_name(name: &OsStr) -> bool {
    let name = Path::new(name).file_name().and_then(OsStr::to_str);
    matches!(name, Some("mpiexec" | "mpirun" | "mpiexec.hydra"))
}

/// Runs the job and ends with its exit code.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let said = match words.first().and_then(|word| word.to_str()) {
        None | Some("-h" | "-help" | "--help") => Some(HELP.trim_end().to_owned()),
        Some("-V" | "-version" | "--version") => {
            Some(format!("hikyaku {}", env!("CARGO_PKG_VERSION")))
        }
        _ => None,
    };
    if let Some(said) = said {
        return exit::print(said).map_or_else(|error| error.end(), |()| ExitCode::SUCCESS);
    }
    match Parser::new(&own_host_name()).launch(words) {
        Ok(mut launch) => {
            launch.offer_mpi();
            see_to_its_end(&launch, false)
        }
        Err(wrong) => {
            exit::say(format_args!("mpiexec: {wrong}"));
            ExitCode::from(USAGE)
        }
    }
}

/// Which of the launcher's environment variables the ranks inherit.
#[derive(Debug, Clone, Default)]
enum Seen {
    /// The setting of all programs.
    #[default]
    Default,
    All,
    Only(Vec<String>),
}

impl Seen {
    /// Parses a word such as `all`, `none`, or a list.
    fn only(list: &str) -> Seen {
        let names = list.split(',').filter(|name| !name.is_empty());
        // Without PATH the program itself would not be found.
        Seen::Only(names.chain(["PATH"]).map(str::to_owned).collect())
    }
}

impl From<HostsError> for MpiexecError {
    fn from(error: HostsError) -> MpiexecError {
        MpiexecError::Hosts(error.into())
    }
}

/// The options parsed so far.
struct Parser<'a> {
    this_machine: &'a str,
    /// The hosts of all programs, and how they are reached.
    hosts: Vec<HostEntry>,
    reached: hosts::HostsArguments,
    per_host: Option<u32>,
    bind: Bind,
    label: bool,
    /// The setting of all programs.
    seen: Seen,
    variables: Vec<(String, String)>,
    /// The settings of the next program.
    own_seen: Seen,
    own_hosts: Vec<HostEntry>,
    next: Program,
    programs: Vec<(Seen, Vec<HostEntry>, Program)>,
    /// Whether the words are those of a file.
    in_file: bool,
}

/// The remaining words.
type Words<'a> = std::slice::Iter<'a, OsString>;

impl<'a> Parser<'a> {
    fn new(this_machine: &'a str) -> Parser<'a> {
        Parser {
            this_machine,
            hosts: Vec::new(),
            reached: hosts::HostsArguments::default(),
            per_host: None,
            bind: Bind::default(),
            label: false,
            seen: Seen::All,
            variables: Vec::new(),
            own_seen: Seen::Default,
            own_hosts: Vec::new(),
            next: Program { ranks: 1, ..Program::default() },
            programs: Vec::new(),
            in_file: false,
        }
    }

    fn launch(mut self, words: &[OsString]) -> Result<Launch, MpiexecError> {
        self.line(words)?;
        if self.programs.is_empty() {
            return Err(MpiexecError::NoProgram);
        }
        let places = self.places()?;
        let all = self.seen.clone();
        let programs = self.programs.into_iter().map(|(seen, _, program)| {
            let seen = if matches!(seen, Seen::Default) { all.clone() } else { seen };
            let inherited = match seen {
                Seen::Only(names) => Some(names),
                _ => None,
            };
            Program { inherited, ..program }
        });
        let programs: Vec<Program> = programs.collect();
        let mut launch = Launch::of_programs(programs);
        launch.bind = self.bind;
        launch.label = self.label;
        launch.variables = self.variables;
        launch.owns_process = true;
        launch.hosts = places.map(|places| self.reached.on(places));
        Ok(launch)
    }

    /// The hosts of all ranks in order; `None` if all are this machine.
    fn places(&self) -> Result<Option<Vec<(String, u32)>>, MpiexecError> {
        let is_this = |host: &HostEntry| {
            ["localhost", "127.0.0.1", "::1", self.this_machine].contains(&host.name.as_str())
        };
        let named = self.programs.iter().flat_map(|(_, own, _)| own).chain(&self.hosts);
        if named.clone().all(is_this) {
            return Ok(None);
        }
        // Consecutive programs without hosts of their own share the common hosts.
        let mut parts: Vec<(&[HostEntry], u32)> = Vec::new();
        for (_, own, program) in &self.programs {
            match parts.last_mut() {
                Some(([], ranks)) if own.is_empty() => {
                    *ranks = ranks.saturating_add(program.ranks);
                }
                _ => parts.push((own, program.ranks)),
            }
        }
        let here = [HostEntry { name: "localhost".to_owned(), slots: None }];
        let mut places: Vec<(String, u32)> = Vec::new();
        for (own, ranks) in parts {
            let entries = match (own, &self.hosts[..]) {
                ([], []) => &here,
                ([], all) => all,
                (own, _) => own,
            };
            for (name, ranks) in assign(entries, Some(ranks), self.per_host)? {
                let known = places.iter().position(|(other, _)| *other == name);
                match known {
                    None => places.push((name, ranks)),
                    Some(at) if at + 1 == places.len() => {
                        places[at].1 = places[at].1.saturating_add(ranks);
                    }
                    Some(_) => return Err(MpiexecError::Again(name)),
                }
            }
        }
        Ok(Some(places))
    }

    /// Parses programs with their options, separated by `:`.
    fn line(&mut self, words: &[OsString]) -> Result<(), MpiexecError> {
        words.split(|word| word == ":").try_for_each(|words| self.program(words))
    }

    /// Parses options, a program and its arguments. With a file of programs, the program is
    /// missing.
    fn program(&mut self, words: &[OsString]) -> Result<(), MpiexecError> {
        let before = self.programs.len();
        let mut words = words.iter();
        let program = loop {
            let Some(word) = words.next() else { break None };
            match word.to_str().and_then(|word| word.strip_prefix('-')) {
                // `--` ends the options.
                Some("-") => break words.next(),
                Some(name) => self.option(name, &mut words)?,
                None => break Some(word),
            }
        };
        let Some(program) = program else {
            let is_file = self.programs.len() > before;
            return if is_file { Ok(()) } else { Err(MpiexecError::NoProgram) };
        };
        let next = Program { ranks: 1, ..Program::default() };
        let mut whole = mem::replace(&mut self.next, next);
        whole.program = program.clone();
        whole.args = words.cloned().collect();
        let (seen, hosts) = (mem::take(&mut self.own_seen), mem::take(&mut self.own_hosts));
        self.programs.push((seen, hosts, whole));
        Ok(())
    }

    /// Parses an option without its first dash, and its values.
    fn option(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), MpiexecError> {
        let name = name.strip_prefix('-').unwrap_or(name);
        let (name, mut given) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let said = || format!("-{name}");
        let mut value = |what| {
            let next = given.take().or_else(|| Some(words.next()?.to_string_lossy().into_owned()));
            next.ok_or_else(|| MpiexecError::Needs(said(), what))
        };
        match name {
            "n" | "np" | "c" => {
                let text = value("a number of ranks")?;
                self.next.ranks = number(said(), text)?;
            }
            "env" => self.next.variables.push((value("a name")?, value("a value")?)),
            "genv" => self.variables.push((value("a name")?, value("a value")?)),
            "envall" => self.own_seen = Seen::All,
            "genvall" => self.seen = Seen::All,
            "envnone" => self.own_seen = Seen::only(""),
            "genvnone" => self.seen = Seen::only(""),
            "envlist" => self.own_seen = Seen::only(&value("names")?),
            "genvlist" => self.seen = Seen::only(&value("names")?),
            "x" => {
                let text = value("a name")?;
                self.export(&text);
            }
            "wdir" | "wd" => self.next.folder = Some(folder(&value("a folder")?)?),
            "l" | "prepend-rank" | "tag-output" => self.label = true,
            "bind-to" => self.bind = bind(&value(BINDS)?)?,
            "host" | "H" => self.own_hosts.extend(HostEntry::list(&value("names of hosts")?)?),
            "hosts" => self.hosts.extend(HostEntry::list(&value("names of hosts")?)?),
            "f" | "hostfile" | "machinefile" => {
                self.hosts.extend(HostEntry::file(&read(&value("a file")?)?)?);
            }
            "ppn" | "perhost" | "npernode" | "N" => {
                let text = value("a number of ranks")?;
                self.per_host = Some(number(said(), text)?);
            }
            "launcher-exec" => self.reached.launcher_exec = Some(value("a command")?),
            "host-timeout" => {
                let text = value("seconds")?;
                let time =
                    seconds(&text).map_err(|_| MpiexecError::Value(said(), "seconds", text))?;
                self.reached.host_timeout = Some(time);
            }
            "configfile" => self.file(value("a file")?)?,
            "map-by" => {
                let text = value("a value")?;
                let ppr = text.strip_prefix("ppr:").and_then(|rest| rest.strip_suffix(":node"));
                self.per_host = ppr.and_then(|count| count.parse().ok()).or(self.per_host);
            }
            "rank-by" => drop(value("a value")?),
            "oversubscribe" | "allow-run-as-root" => {}
            _ => return Err(MpiexecError::Option(format!("-{name}"))),
        }
        Ok(())
    }

    /// Reads a file of options and programs, one program per line.
    fn file(&mut self, name: String) -> Result<(), MpiexecError> {
        if mem::replace(&mut self.in_file, true) {
            return Err(MpiexecError::Nested(name));
        }
        let text = read(&name)?;
        let mut lines = text.lines().map(split).filter(|words| !words.is_empty());
        lines.try_for_each(|words| self.line(&words))?;
        self.in_file = false;
        Ok(())
    }

    /// `-x NAME=VALUE` sets a variable, `-x NAME` lets ranks inherit one.
    fn export(&mut self, text: &str) {
        match (text.split_once('='), &mut self.own_seen, &mut self.seen) {
            (Some((name, value)), ..) => {
                self.next.variables.push((name.to_owned(), value.to_owned()));
            }
            (None, Seen::Only(names), _) | (None, Seen::Default, Seen::Only(names)) => {
                names.push(text.to_owned());
            }
            _ => {}
        }
    }
}

/// Splits a line into words. `'` and `\"` quote blanks, and `#` begins a comment.
pub(crate) fn split(line: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for letter in line.chars() {
        match (letter, quote) {
            (it, Some(open)) if it == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from).collect()
}

fn number(option: String, text: String) -> Result<u32, MpiexecError> {
    text.parse().map_err(|_| MpiexecError::Value(option, "a number of ranks", text))
}

/// The values of `-bind-to`. With a larger part of the machine, ranks get equal shares of its CPUs.
const BINDS: &str = "core, hwthread, none, or a larger part, such as socket";

fn bind(how: &str) -> Result<Bind, MpiexecError> {
    match how.split(':').next().unwrap_or_default() {
        "core" | "hwthread" | "cpu" => Ok(Bind::Core),
        "none" => Ok(Bind::None),
        "socket" | "package" | "numa" | "board" | "machine" | "rr" | "user" => Ok(Bind::Auto),
        cache if cache.ends_with("cache") => Ok(Bind::Auto),
        _ => Err(MpiexecError::Value("-bind-to".to_owned(), BINDS, how.to_owned())),
    }
}

fn folder(name: &str) -> Result<PathBuf, MpiexecError> {
    let folder = PathBuf::from(name);
    if folder.is_dir() { Ok(folder) } else { Err(MpiexecError::Folder(name.to_owned())) }
}

fn read(name: &str) -> Result<String, MpiexecError> {
    let text = input::read(Path::new(name), BY_HAND);
    text.map_err(|error| MpiexecError::File(name.to_owned(), error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    fn parse(line: &str) -> Result<Launch, MpiexecError> {
        Parser::new("here").launch(&split(line))
    }

    #[test]
    fn it_is_known_by_its_name() {
        for (name, is) in
            [("mpiexec", true), ("/a/mpirun", true), ("hikyaku", false), ("/mpirun/hikyaku", false)]
        {
            assert_eq!(is_name(OsStr::new(name)), is, "{name}");
        }
    }

    #[test]
    fn options_arrive_in_the_launch() {
        let launch = parse(
            "-l --bind-to core -genv A 1 -ppn 2 --oversubscribe --allow-run-as-root --map-by \
             core -host localhost,here:4 -np 3 -env B 'two words' -x C=3 -wdir / prog -n 7",
        )
        .unwrap();
        assert_eq!((launch.ranks, launch.label, launch.bind), (3, true, Bind::Core));
        assert_eq!(launch.variables, [("A".into(), "1".into())]);
        let [program] = &launch.programs[..] else { panic!() };
        assert_eq!((program.program.to_str(), program.ranks), (Some("prog"), 3));
        assert_eq!(program.args, ["-n", "7"]);
        let expected = [("B".into(), "two words".into()), ("C".into(), "3".into())];
        assert_eq!(program.variables, expected);
        assert_eq!(program.folder.as_deref(), Some(Path::new("/")));
        assert!(program.inherited.is_none() && launch.owns_process);
    }

    #[test]
    fn programs_stand_between_colons() {
        let launch =
            parse("-genvlist A -n 1 one x : -n 2 -envall two : -envlist B,C -x D three").unwrap();
        let names: Vec<_> =
            launch.programs.iter().map(|it| (it.program.to_str().unwrap(), it.ranks)).collect();
        assert_eq!(names, [("one", 1), ("two", 2), ("three", 1)]);
        assert_eq!(launch.ranks, 4);
        let seen: Vec<_> = launch.programs.iter().map(|it| it.inherited.clone()).collect();
        let list = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(seen, [list(&["A", "PATH"]), None, list(&["B", "C", "PATH", "D"])]);
    }

    #[test]
    fn files_name_programs_and_machines() {
        let folder = std::env::temp_dir();
        let name = |what: &str| folder.join(format!("hikyaku-{what}-{}", std::process::id()));
        let (config, hosts) = (name("config"), name("hosts"));
        fs::write(&config, "# a remark\n-n 2 one 'a b'\n\n-n 1 two\n").unwrap();
        let launch = parse(&format!("-l -configfile {}", config.display())).unwrap();
        assert_eq!((launch.ranks, launch.programs.len(), launch.label), (3, 2, true));
        assert_eq!(launch.programs[0].args, ["a b"]);
        fs::write(&hosts, "localhost slots=4\n# far\n").unwrap();
        let line = format!("-hostfile {} -n 2 prog", hosts.display());
        assert!(parse(&line).unwrap().hosts.is_none());
        fs::write(&hosts, "far:4\n").unwrap();
        assert_eq!(parse(&line).unwrap().hosts.unwrap().places, [("far".to_owned(), 2)]);
        fs::write(&config, format!("-n 1 one\n-configfile {}\n", config.display())).unwrap();
        let nested = parse(&format!("-configfile {}", config.display())).unwrap_err();
        assert_eq!(nested, MpiexecError::Nested(config.display().to_string()));
        fs::remove_file(config).unwrap();
        fs::remove_file(hosts).unwrap();
    }

    #[test]
    fn hosts_are_of_all_programs_or_of_one() {
        for (line, expected) in [
            ("-hosts a:2,b:2 -n 4 x", Ok("a:2 b:2")),
            ("-hosts a,b -n 5 x", Ok("a:3 b:2")),
            ("-hosts a,b -ppn 3 -n 5 x", Ok("a:3 b:2")),
            ("--host a:9,b:9 --map-by ppr:2:node -np 4 x", Ok("a:2 b:2")),
            ("-hosts a:2,b:2 -n 1 x : -n 3 y", Ok("a:2 b:2")),
            ("-n 1 -host a x : -n 2 -host b y", Ok("a:1 b:2")),
            ("-n 1 -host a x : -n 2 -host a y", Ok("a:3")),
            ("-n 2 -host a x : -n 1 y", Ok("a:2 localhost:1")),
            ("-hosts here,localhost -n 9 x", Ok("")),
            ("-n 1 -host a x : -n 1 -host b y : -n 1 -host a z", Err("host a is named again")),
            ("-hosts a:1,b:1 -n 3 x", Err("3 ranks do not fit on hosts with 2 places")),
            ("-hosts a,b -ppn 1 -n 3 x", Err("3 ranks do not fit on hosts with 2 places")),
            ("-hosts -x -n 1 x", Err("`-x` is no name of a host")),
            ("-hosts a:b -n 1 x", Err("host a cannot have `b` ranks")),
        ] {
            let places = |launch: Launch| {
                let places = launch.hosts.map(|hosts| hosts.places).unwrap_or_default();
                places.iter().map(|(name, n)| format!("{name}:{n}")).collect::<Vec<_>>().join(" ")
            };
            match (parse(line).map(places), expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{line}"),
                (Err(wrong), Err(part)) => {
                    assert!(wrong.to_string().contains(part), "{line}: {wrong}");
                }
                (got, _) => panic!("{line}: {got:?}"),
            }
        }
        let launch = parse("-hosts a -launcher-exec 'rsh -x' -host-timeout 2.5 x").unwrap();
        let hosts = launch.hosts.unwrap();
        assert_eq!((hosts.agent, hosts.timeout.as_millis()), (split("rsh -x"), 2_500));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (line, part) in [
            ("-n", "-n needs a number of ranks"),
            ("-n two prog", "not `two`"),
            ("-ppn some prog", "-ppn takes a number of ranks, not `some`"),
            ("-hostfile /no/such prog", "cannot read /no/such"),
            ("--spam prog", "there is no option `-spam`"),
            ("-n 2", "no program"),
            ("one : -n 2", "no program"),
            ("-wdir /no/such prog", "no folder `/no/such`"),
            ("-configfile /no/such", "cannot read /no/such"),
            ("-configfile /dev/zero", "it is longer than 1 MiB"),
            ("--bind-to scoket x", "-bind-to takes core, hwthread, none"),
            ("-hosts a:1 -n 4294967295 x : -n 2 y", "4294967295 ranks do not fit"),
        ] {
            let wrong = parse(line).unwrap_err().to_string();
            assert!(wrong.contains(part), "{line}: {wrong}");
        }
    }
}
