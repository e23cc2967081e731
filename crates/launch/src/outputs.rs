//! Where the ranks' output goes: the launcher's own standard output and error, which may be one
//! file.

use std::{
    io::{self, ErrorKind, IsTerminal},
    os::fd::{AsFd, BorrowedFd},
};

use super::{
    lines::{OutputSource, Weaver},
    sink::{OutputSink, SinkError},
};

/// The streams a rank writes, and their names in messages.
pub(super) const STREAMS: [&str; 2] = ["standard output", "standard error"];

/// One destination.
struct Output {
    weaver: Weaver,
    sink: OutputSink,
}

/// All destinations, and which stream goes to which.
pub(super) struct Outputs {
    all: Vec<Output>,
    of_stream: [usize; 2],
    interactive: [bool; 2],
}

/// Why nothing more can be written for the streams of a destination.
pub(super) struct OutputFailure {
    /// The reader went away, as `head` does when it has seen enough: nothing to complain about.
    pub(super) reader_left: bool,
    /// One line for a person.
    pub(super) reason: String,
}

impl Outputs {
    /// To where this process writes.
    pub(super) fn new(label: bool) -> io::Result<Outputs> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let mut all = Vec::new();
        let mut add = |fd: BorrowedFd<'_>| {
            let sink = OutputSink::new(fd.try_clone_to_owned()?.into())?;
            all.push(Output { weaver: Weaver::new(label), sink });
            Ok::<usize, io::Error>(all.len() - 1)
        };
        let out = add(stdout.as_fd())?;
        // In one file, two writers would tear each other's lines apart.
        let err = match is_same_file(stdout.as_fd(), stderr.as_fd()) {
            true => out,
            false => add(stderr.as_fd())?,
        };
        let interactive = [stdout.is_terminal(), stderr.is_terminal()];
        Ok(Outputs { all, of_stream: [out, err], interactive })
    }

    /// Writes what a rank has completed.
    pub(super) fn write(&mut self, source: OutputSource, piece: &[u8]) {
        let output = &mut self.all[self.of_stream[source.stream]];
        let weaver = &mut output.weaver;
        output.sink.push(|bytes| weaver.weave(source, piece, bytes));
    }

    /// Writes a line of the launcher's own to standard error.
    pub(super) fn say(&mut self, line: &str) {
        let output = &mut self.all[self.of_stream[1]];
        let weaver = &mut output.weaver;
        output.sink.push(|bytes| {
            weaver.close(bytes);
            bytes.extend_from_slice(format!("hikyaku: {line}\n").as_bytes());
        });
    }

    /// Whether the stream ends at a person's terminal.
    pub(super) fn is_interactive(&self, stream: usize) -> bool {
        self.interactive[stream]
    }

    /// Whether no more of the stream should be read for now.
    pub(super) fn is_full(&self, stream: usize) -> bool {
        self.all[self.of_stream[stream]].sink.is_full()
    }

    /// Whether nothing of the stream can be written any more.
    pub(super) fn has_failed(&self, stream: usize) -> bool {
        self.all[self.of_stream[stream]].sink.has_failed()
    }

    /// Whether everything is written that can be.
    pub(super) fn is_done(&self) -> bool {
        self.all.iter().all(|output| output.sink.is_done())
    }

    /// The descriptors that tell of changes.
    pub(super) fn changes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|output| output.sink.as_fd())
    }

    /// Has seen that destinations changed.
    pub(super) fn acknowledge(&self) {
        self.all.iter().for_each(|output| output.sink.acknowledge());
    }

    /// A failure not told before.
    pub(super) fn take_failure(&mut self) -> Option<OutputFailure> {
        let of_stream = self.of_stream;
        self.all.iter_mut().enumerate().find_map(|(index, output)| {
            let error = output.sink.take_error()?;
            let stream = of_stream.iter().position(|&of| of == index)?;
            let name = STREAMS[stream];
            Some(match error {
                SinkError::Write(error) => OutputFailure {
                    reader_left: error.kind() == ErrorKind::BrokenPipe,
                    reason: format!("cannot write {name}: {error}"),
                },
                SinkError::Thread(error) => OutputFailure {
                    reader_left: false,
                    reason: format!("cannot start the thread that writes {name}: {error}"),
                },
            })
        })
    }
}

fn is_same_file(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    match (rustix::fs::fstat(a), rustix::fs::fstat(b)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
        _ => false,
    }
}
