//! The destinations of the ranks' output: the launcher's own standard output and error, which may
//! be one file.

use std::{
    io::{self, ErrorKind, IsTerminal},
    os::fd::{AsFd, BorrowedFd},
};

use super::{
    lines::{OutputSource, Weaver},
    sink::{OutputSink, SinkError},
};

/// The streams of a rank, and their names in messages.
pub(super) const STREAMS: [&str; 2] = ["standard output", "standard error"];

/// One destination.
struct Output {
    weaver: Weaver,
    sink: OutputSink,
}

/// All destinations, and the destination of each stream.
pub(super) struct Outputs {
    all: Vec<Output>,
    of_stream: [usize; 2],
    interactive: [bool; 2],
}

/// The reason why a destination accepts no more output.
pub(super) struct OutputFailure {
    /// The reader has closed its end, as `head` does after enough lines: no reason to complain.
    pub(super) reader_left: bool,
    /// One line of text for the user.
    pub(super) reason: String,
}

impl Outputs {
    /// Outputs to this process's standard output and error.
    pub(super) fn new(label: bool) -> io::Result<Outputs> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let mut all = Vec::new();
        let mut add = |fd: BorrowedFd<'_>| {
            let sink = OutputSink::new(fd.try_clone_to_owned()?.into())?;
            all.push(Output { weaver: Weaver::new(label), sink });
            Ok::<usize, io::Error>(all.len() - 1)
        };
        let out = add(stdout.as_fd())?;
        // Two writers to one file would tear each other's lines apart.
        let err = match is_same_file(stdout.as_fd(), stderr.as_fd()) {
            true => out,
            false => add(stderr.as_fd())?,
        };
        let interactive = [stdout.is_terminal(), stderr.is_terminal()];
        Ok(Outputs { all, of_stream: [out, err], interactive })
    }

    /// Writes a completed piece of a rank's output.
    pub(super) fn write(&mut self, source: OutputSource, piece: &[u8]) {
        let output = &mut self.all[self.of_stream[source.stream]];
        let weaver = &mut output.weaver;
        output.sink.push(|bytes| weaver.weave(source, piece, bytes));
    }

    /// Writes the launcher's own line to standard error.
    pub(super) fn say(&mut self, line: &str) {
        let output = &mut self.all[self.of_stream[1]];
        let weaver = &mut output.weaver;
        output.sink.push(|bytes| {
            weaver.close(bytes);
            bytes.extend_from_slice(format!("hikyaku: {line}\n").as_bytes());
        });
    }

    /// Whether the stream's destination is a terminal.
    pub(super) fn is_interactive(&self, stream: usize) -> bool {
        self.interactive[stream]
    }

    /// Whether the queue of the stream is full: reads of the stream must wait.
    pub(super) fn is_full(&self, stream: usize) -> bool {
        self.all[self.of_stream[stream]].sink.is_full()
    }

    /// Whether the stream's output can no longer be written.
    pub(super) fn has_failed(&self, stream: usize) -> bool {
        self.all[self.of_stream[stream]].sink.has_failed()
    }

    /// Whether everything that can be written is written.
    pub(super) fn is_done(&self) -> bool {
        self.all.iter().all(|output| output.sink.is_done())
    }

    /// The descriptors that signal changes of the destinations.
    pub(super) fn changes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|output| output.sink.as_fd())
    }

    /// Resets the change signals of all destinations.
    pub(super) fn acknowledge(&self) {
        self.all.iter().for_each(|output| output.sink.acknowledge());
    }

    /// Takes a failure that was not reported before.
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
