//! PMI-1, the protocol by which MPICH's launchers and Slurm connect ranks: lines of text on a
//! socket. One client covers `mpiexec` of MPICH (hydra and gforker) and `srun --mpi=pmi2`.
//!
//! The socket is inherited (`PMI_FD`), or the rank connects (`PMI_PORT`). The specification of the
//! protocol is MPICH's `pmi-1.1.txt`. Values contain no blanks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::launcher::{Launcher, LauncherError, number};

/// The maximum length of a line: a value has at most 1,024 bytes, a name 256.
const LONGEST: usize = 4096;

/// More ranks than any job has. A larger number is a fault, and would take memory for each rank.
const MOST_RANKS: u32 = 1 << 20;

/// A rank's end of the channel.
#[derive(Debug)]
pub(super) struct Pmi {
    stream: UnixStream,
    /// Bytes received after the last line.
    rest: Vec<u8>,
    rank: u32,
    size: u32,
    program: Option<i32>,
    /// The name of the job's key-value space.
    space: String,
}

impl Pmi {
    /// The channel that the environment names. `None`: there is none, or this rank is alone.
    pub(super) fn open(
        value_of: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Pmi>, LauncherError> {
        let is_alone = value_of("PMI_SIZE").is_some_and(|size| size == "1");
        if let (Some(fd), false) = (value_of("PMI_FD"), is_alone) {
            let said = |name: &'static str| {
                let value = value_of(name).unwrap_or_default();
                number(&value).ok_or(LauncherError::Variable { name, value })
            };
            let (rank, size) = (said("PMI_RANK")?, said("PMI_SIZE")?);
            let socket = fd.parse().ok().and_then(hikyaku_shm::take_inherited_socket);
            let name = "PMI_FD";
            let socket = socket.ok_or(LauncherError::Variable { name, value: fd })?;
            return Pmi::over(socket.into(), Some((rank, size))).map(Some);
        }
        let (Some(port), Some(id)) = (value_of("PMI_PORT"), value_of("PMI_ID")) else {
            return Ok(None);
        };
        let stream = TcpStream::connect(&port)
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|error| LauncherError::Channel(format!("{port}: {error}")))?;
        let stream = UnixStream::from(OwnedFd::from(stream));
        let mut pmi = Pmi::new(stream);
        pmi.ask(&format!("cmd=initack pmiid={id}"), "initack")?;
        // The launcher then sends our rank.
        let (mut rank, mut size) = (None, None);
        for _ in 0..3 {
            let line = pmi.line()?;
            rank = field(&line, "rank").and_then(number).or(rank);
            size = field(&line, "size").and_then(number).or(size);
        }
        let named = rank.zip(size).ok_or_else(|| LauncherError::Channel("no rank".to_owned()))?;
        pmi.begin(Some(named)).map(Some)
    }

    fn new(stream: UnixStream) -> Pmi {
        let (rest, space) = (Vec::new(), String::new());
        Pmi { stream, rest, rank: 0, size: 1, program: None, space }
    }

    /// A client on a socket, as rank `named.0` of `named.1`.
    pub(super) fn over(
        stream: UnixStream,
        named: Option<(u32, u32)>,
    ) -> Result<Pmi, LauncherError> {
        Pmi::new(stream).begin(named)
    }

    fn begin(mut self, named: Option<(u32, u32)>) -> Result<Pmi, LauncherError> {
        if let Some((rank, size)) = named {
            if size > MOST_RANKS || rank >= size {
                let (name, value) = match rank >= size {
                    true => ("PMI_RANK", rank.to_string()),
                    false => ("PMI_SIZE", size.to_string()),
                };
                return Err(LauncherError::Variable { name, value });
            }
            (self.rank, self.size) = (rank, size);
        }
        self.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let program = self.ask("cmd=get_appnum", "appnum")?;
        // Slurm sends -1: unknown.
        let program = field(&program, "appnum").and_then(|number| number.parse().ok());
        self.program = program.filter(|number| *number >= 0);
        let space = self.ask("cmd=get_my_kvsname", "my_kvsname")?;
        self.space = field(&space, "kvsname").unwrap_or_default().to_owned();
        Ok(self)
    }

    /// Sends a line and reads the answer, which must be the command `wanted` without an error.
    fn ask(&mut self, request: &str, wanted: &'static str) -> Result<String, LauncherError> {
        let answer = self.exchange(request, wanted)?;
        match field(&answer, "rc") {
            None | Some("0") => Ok(answer),
            _ => Err(LauncherError::Answer { wanted, line: answer }),
        }
    }

    fn exchange(&mut self, request: &str, wanted: &'static str) -> Result<String, LauncherError> {
        self.stream
            .write_all(format!("{request}\n").as_bytes())
            .map_err(|error| LauncherError::Channel(error.to_string()))?;
        let line = self.line()?;
        match field(&line, "cmd") == Some(wanted) {
            true => Ok(line),
            false => Err(LauncherError::Answer { wanted, line }),
        }
    }

    fn line(&mut self) -> Result<String, LauncherError> {
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let line = self.rest.drain(..=end).collect::<Vec<u8>>();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.rest.len() > LONGEST {
                return Err(LauncherError::Channel("a line without an end".to_owned()));
            }
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(LauncherError::Closed),
                Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LauncherError::Channel(error.to_string())),
            }
        }
    }

    /// The value of a key. `None`: there is none.
    fn value(&mut self, key: &str) -> Result<Option<String>, LauncherError> {
        let request = format!("cmd=get kvsname={} key={key}", self.space);
        let answer = self.exchange(&request, "get_result")?;
        let found = matches!(field(&answer, "rc"), None | Some("0"));
        Ok(field(&answer, "value").filter(|_| found).map(str::to_owned))
    }
}

/// The value of a field of a line.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

impl Launcher for Pmi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn program(&self) -> Option<i32> {
        self.program
    }

    fn process(&self) -> Option<u32> {
        // A program in between, such as a script, may be the parent, and outlive the launcher.
        hikyaku_shm::launcher_behind(&self.stream).or_else(hikyaku_shm::parent)
    }

    fn hosts(&mut self) -> Result<Option<Vec<u32>>, LauncherError> {
        let mapping = self.value("PMI_process_mapping")?;
        Ok(mapping.and_then(|mapping| nodes(&mapping, self.size)))
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), LauncherError> {
        let key = format!("hikyaku-{key}-{}", self.rank);
        let request = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        self.ask(&request, "put_result").map(drop)
    }

    fn fence(&mut self) -> Result<(), LauncherError> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, LauncherError> {
        let value = self.value(&format!("hikyaku-{key}-{rank}"))?;
        value.ok_or(LauncherError::Missing { rank })
    }

    fn finish(&mut self) {
        // A launcher that is gone need not know.
        let _ = self.ask("cmd=finalize", "finalize_ack");
    }
}

/// The node of each rank, from a text such as `(vector,(0,2,2),(2,1,1))`: blocks of first node,
/// nodes, ranks per node, repeated until all ranks have one. `None`: the text has another form.
fn nodes(text: &str, size: u32) -> Option<Vec<u32>> {
    let text = text.strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut blocks = Vec::new();
    for block in text.split_terminator(')') {
        let numbers = block.trim_start_matches([',', '(']).split(',');
        let numbers: Vec<u32> = numbers.map(number).collect::<Option<_>>()?;
        let &[first, nodes, each] = &numbers[..] else { return None };
        (nodes > 0 && each > 0 && nodes <= size && each <= size).then_some(())?;
        blocks.push((first, nodes, each));
    }
    let mut of = Vec::new();
    while !blocks.is_empty() && of.len() < size as usize {
        for &(first, nodes, each) in &blocks {
            let nodes = first..first.checked_add(nodes)?;
            of.extend(nodes.flat_map(|node| std::iter::repeat_n(node, each as usize)));
        }
    }
    of.truncate(size as usize);
    (!of.is_empty()).then_some(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_names_the_node_of_each_rank() {
        for (text, size, expected) in [
            ("(vector,(0,1,1))", 3, Some(vec![0, 0, 0])),
            ("(vector,(0,2,2))", 4, Some(vec![0, 0, 1, 1])),
            ("(vector,(0,2,1))", 4, Some(vec![0, 1, 0, 1])),
            ("(vector,(0,1,3),(1,1,1))", 4, Some(vec![0, 0, 0, 1])),
            ("(vector,(0,2,2))", 3, Some(vec![0, 0, 1])),
            ("(vector,(4294967295,1,1))", 1, None),
            ("(vector,(0,0,1))", 2, None),
            ("(vector,(0,1))", 2, None),
            ("(vector,(0,1,4000000000))", 2, None),
            ("(vector)", 2, None),
            ("(vector,)", 2, None),
            ("unknown", 2, None),
        ] {
            assert_eq!(nodes(text, size), expected, "{text}");
        }
    }

    #[test]
    fn numbers_of_ranks_that_cannot_be_are_refused() {
        for (named, name) in [((2, 2), "PMI_RANK"), ((0, MOST_RANKS + 1), "PMI_SIZE")] {
            let (ours, _theirs) = UnixStream::pair().expect("two sockets");
            let error = Pmi::over(ours, Some(named)).expect_err("it is refused").to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_channel_that_breaks_is_one_line() {
        for (said, part) in [
            ("", "has closed the channel"),
            ("cmd=what rc=0\n", "`cmd=what rc=0` and not response_to_init"),
            ("cmd=response_to_init rc=-1\n", "rc=-1"),
            (&"x".repeat(3 * LONGEST), "a line without an end"),
            (&format!("cmd=response_to_init rc=0\n{}", "x".repeat(3 * LONGEST)), "without an end"),
        ] {
            let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
            theirs.write_all(said.as_bytes()).expect("it fits");
            theirs.shutdown(std::net::Shutdown::Write).expect("it is open");
            let error = Pmi::over(ours, Some((0, 2))).expect_err("it is broken").to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
