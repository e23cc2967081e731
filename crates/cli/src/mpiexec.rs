//! `mpiexec` and `mpirun`: the words that MPI's launchers take (MPI 5.0 §11.5) as a [`Launch`].
//!
//! It is `hikyaku run` by another name: the program under one of those names, a link to it, or
//! `hikyaku mpiexec`. What means other machines is an error; what means places of this machine
//! beyond one CPU a rank changes nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, mem};

use hikyaku_launch::{Bind, Launch, Program};
use thiserror::Error;

use crate::exit::{self, USAGE};
use crate::run::see_to_its_end;

const HELP: &str = "\
Start ranks of programs on this machine, with the words of other MPI launchers

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
  -host, -hosts, -hostfile, -f
                       accepted if they name this machine and no other
  -ppn, --map-by, --oversubscribe, --allow-run-as-root
                       accepted without effect: there is one machine, with any number of ranks

`hikyaku run --help` says how input, output and the end of a job go.
";

/// Why there is no job.
#[derive(Debug, Error, PartialEq, Eq)]
enum Wrong {
    #[error("there is no option `{0}` (see mpiexec --help)")]
    Option(String),
    #[error("{0} needs {1}")]
    Needs(String, &'static str),
    #[error("{0} takes {1}, not `{2}`")]
    Value(String, &'static str, String),
    #[error("`{0}` is another machine: hikyaku starts ranks on this one only, so leave it out")]
    OtherMachine(String),
    #[error("no program is named after the options")]
    NoProgram,
    #[error("cannot read {0}: {1}")]
    File(String, String),
    #[error("-wdir: there is no folder `{0}`")]
    Folder(String),
}

/// Whether the program was started as one of MPI's launchers.
pub(crate) fn is_name(name: &OsStr) -> bool {
    let name = Path::new(name).file_name().and_then(OsStr::to_str);
    matches!(name, Some("mpiexec" | "mpirun" | "mpiexec.hydra"))
}

/// Runs the job and ends as it did.
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
    match Parser::new(&this_machine()).launch(words) {
        Ok(mut launch) => {
            launch.offer_mpi();
            see_to_its_end(&launch)
        }
        Err(wrong) => {
            exit::say(format_args!("mpiexec: {wrong}"));
            ExitCode::from(USAGE)
        }
    }
}

/// What this machine calls itself.
fn this_machine() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The variables that ranks see of the launcher's.
#[derive(Debug, Clone, Default)]
enum Seen {
    /// As all programs do.
    #[default]
    Default,
    All,
    Only(Vec<String>),
}

impl Seen {
    /// Of a word such as `all`, `none`, or a list.
    fn only(list: &str) -> Seen {
        let names = list.split(',').filter(|name| !name.is_empty());
        // Without it the program itself would not be found.
        Seen::Only(names.chain(["PATH"]).map(str::to_owned).collect())
    }
}

/// What was said so far.
struct Parser<'a> {
    this_machine: &'a str,
    bind: Bind,
    label: bool,
    /// Of all programs.
    seen: Seen,
    variables: Vec<(String, String)>,
    /// Of the next program.
    own_seen: Seen,
    next: Program,
    programs: Vec<(Seen, Program)>,
}

/// The words that are left.
type Words<'a> = std::slice::Iter<'a, OsString>;

impl<'a> Parser<'a> {
    fn new(this_machine: &'a str) -> Parser<'a> {
        Parser {
            this_machine,
            bind: Bind::default(),
            label: false,
            seen: Seen::All,
            variables: Vec::new(),
            own_seen: Seen::Default,
            next: Program { ranks: 1, ..Program::default() },
            programs: Vec::new(),
        }
    }

    fn launch(mut self, words: &[OsString]) -> Result<Launch, Wrong> {
        self.line(words)?;
        if self.programs.is_empty() {
            return Err(Wrong::NoProgram);
        }
        let all = self.seen.clone();
        let programs = self.programs.into_iter().map(|(seen, program)| {
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
        Ok(launch)
    }

    /// Programs with their options, with `:` between.
    fn line(&mut self, words: &[OsString]) -> Result<(), Wrong> {
        words.split(|word| word == ":").try_for_each(|words| self.program(words))
    }

    /// Options, a program, its arguments. A file of programs has none.
    fn program(&mut self, words: &[OsString]) -> Result<(), Wrong> {
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
            return if is_file { Ok(()) } else { Err(Wrong::NoProgram) };
        };
        let next = Program { ranks: 1, ..Program::default() };
        let mut whole = mem::replace(&mut self.next, next);
        whole.program = program.clone();
        whole.args = words.cloned().collect();
        self.programs.push((mem::take(&mut self.own_seen), whole));
        Ok(())
    }

    /// An option without its first dash, and what follows it.
    fn option(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), Wrong> {
        let name = name.strip_prefix('-').unwrap_or(name);
        let (name, mut given) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let said = || format!("-{name}");
        let mut value = |what| {
            let next = given.take().or_else(|| Some(words.next()?.to_string_lossy().into_owned()));
            next.ok_or_else(|| Wrong::Needs(said(), what))
        };
        match name {
            "n" | "np" | "c" => {
                let text = value("a number of ranks")?;
                self.next.ranks = text
                    .parse()
                    .map_err(|_| Wrong::Value(said(), "a number of ranks", text.clone()))?;
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
            "bind-to" => self.bind = bind(&value("core or none")?),
            "host" | "hosts" => self.hosts(&value("names of machines")?)?,
            "f" | "hostfile" | "machinefile" => self.host_file(&value("a file")?)?,
            "configfile" => {
                for line in read(&value("a file")?)?.lines() {
                    let words = split(line);
                    if !words.is_empty() {
                        self.line(&words)?;
                    }
                }
            }
            "ppn" | "map-by" | "rank-by" => drop(value("a value")?),
            "oversubscribe" | "allow-run-as-root" => {}
            _ => return Err(Wrong::Option(format!("-{name}"))),
        }
        Ok(())
    }

    /// `-x NAME=VALUE` sets a variable, `-x NAME` lets one be seen.
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

    /// Machines with commas between, each perhaps with `:` and a number.
    fn hosts(&self, list: &str) -> Result<(), Wrong> {
        list.split(',').map(str::trim).filter(|name| !name.is_empty()).try_for_each(|host| {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            let is_this = ["localhost", "127.0.0.1", "::1", self.this_machine];
            match is_this.contains(&name) || is_this.contains(&host) {
                true => Ok(()),
                false => Err(Wrong::OtherMachine(name.to_owned())),
            }
        })
    }

    /// A machine a line, perhaps with more words, such as `slots=4`.
    fn host_file(&self, name: &str) -> Result<(), Wrong> {
        let text = read(name)?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        lines.filter_map(|line| line.split_whitespace().next()).try_for_each(|it| self.hosts(it))
    }
}

/// The words of a line, in which `'` and `\"` hold blanks and `#` begins a remark.
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

fn bind(how: &str) -> Bind {
    match how.split(':').next() {
        Some("core" | "hwthread" | "cpu") => Bind::Core,
        Some("none") => Bind::None,
        _ => Bind::Auto,
    }
}

fn folder(name: &str) -> Result<PathBuf, Wrong> {
    let folder = PathBuf::from(name);
    if folder.is_dir() { Ok(folder) } else { Err(Wrong::Folder(name.to_owned())) }
}

fn read(name: &str) -> Result<String, Wrong> {
    fs::read_to_string(name).map_err(|error| Wrong::File(name.to_owned(), error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(line: &str) -> Result<Launch, Wrong> {
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
        assert!(parse(&format!("-hostfile {} -n 2 prog", hosts.display())).is_ok());
        fs::write(&hosts, "far:4\n").unwrap();
        let far = parse(&format!("-f {} -n 2 prog", hosts.display())).unwrap_err();
        assert_eq!(far, Wrong::OtherMachine("far".into()));
        fs::remove_file(config).unwrap();
        fs::remove_file(hosts).unwrap();
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (line, part) in [
            ("-n", "-n needs a number of ranks"),
            ("-n two prog", "not `two`"),
            ("-hosts far,here prog", "`far` is another machine"),
            ("--spam prog", "there is no option `-spam`"),
            ("-n 2", "no program"),
            ("one : -n 2", "no program"),
            ("-wdir /no/such prog", "no folder `/no/such`"),
            ("-configfile /no/such", "cannot read /no/such"),
        ] {
            let wrong = parse(line).unwrap_err().to_string();
            assert!(wrong.contains(part), "{line}: {wrong}");
        }
    }
}
