//! `hikyaku machine show`: reads a machine file, prints it, and draws its network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use hikyaku_report::{Cell, Chart, Diagram, DiagramPlace, Table};
use hikyaku_reproduce::FILES;
use hikyaku_sim::machine::{Machine, MachineConstant, MachineError, NetworkPicture};
use thiserror::Error;

use crate::exit::{PrintError, USAGE, print, say};
use crate::input::{self, BY_HAND};

/// Look at the machines that programs and experiments can be simulated on.
#[derive(Debug, Args)]
pub(crate) struct MachineArguments {
    #[command(subcommand)]
    command: MachineCommand,
}

#[derive(Debug, Subcommand)]
enum MachineCommand {
    /// Print what a machine file says, and where each of its numbers comes from.
    Show(Show),
}

#[derive(Debug, Args)]
struct Show {
    /// The machine file, or the name of one that comes with hikyaku
    ///
    /// These come with it: dimmnet1, dimmnet2, fx100-tofu2, cenju4, cp-pacs, fat-tree-200g,
    /// dragonfly-200g, ethernet-100.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write a drawing of the network to this file
    ///
    /// Networks of up to 64 nodes are drawn whole, of larger ones a part.
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
}

/// The reason why a machine cannot be loaded.
#[derive(Debug, Error)]
pub(crate) enum MachineLoadError {
    /// The file cannot be read, and no built-in machine has that name.
    #[error("cannot read the machine file {}: {error}; {}", file.display(), built_in())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The description is invalid.
    #[error("{0}")]
    Machine(#[from] MachineError),
}

/// The names of the built-in machines, as a sentence.
fn built_in() -> String {
    let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
    format!("the built-in machines are {}", names.join(", "))
}

/// The reason why a machine cannot be shown.
#[derive(Debug, Error)]
enum ShowError {
    /// It cannot be loaded.
    #[error(transparent)]
    Load(#[from] MachineLoadError),
    /// Standard output cannot be written.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// The drawing cannot be written.
    #[error("cannot write the drawing {}: {error}", file.display())]
    Write {
        /// The file of the drawing.
        file: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// Shows a machine.
pub(crate) fn run(arguments: &MachineArguments) -> ExitCode {
    let MachineCommand::Show(show) = &arguments.command;
    match tell(show) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ShowError::Print(error)) => error.end(),
        Err(error @ ShowError::Write { .. }) => {
            say(error);
            ExitCode::FAILURE
        }
        Err(error) => {
            say(error);
            ExitCode::from(USAGE)
        }
    }
}

fn tell(show: &Show) -> Result<(), ShowError> {
    let machine = load(&show.file)?;
    let Machine { name, title, nodes, interface, .. } = &machine;
    let head = format!("{name}: {title}\n{nodes} nodes, {}", machine.topology().name());
    let text =
        format!("{head}\ninterface: {}\n\n{}", interface.name(), constants(&machine).to_text());
    let printed = print(text);
    if let Some(out) = &show.svg {
        let drawing = draw(machine.picture()).to_svg();
        fs::write(out, drawing).map_err(|error| ShowError::Write { file: out.clone(), error })?;
    }
    Ok(printed?)
}

/// Reads a machine from a file, or finds a built-in one by its name.
pub(crate) fn load(file: &Path) -> Result<Machine, MachineLoadError> {
    let name = file.display().to_string();
    if let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) {
        return Ok(Machine::parse(&name, text)?);
    }
    let text = input::read(file, BY_HAND)
        .map_err(|error| MachineLoadError::Read { file: file.to_owned(), error })?;
    Ok(Machine::parse(&name, &text)?)
}

fn constants(machine: &Machine) -> Table {
    let mut table = Table::new("", ["constant", "value", "source"]);
    for MachineConstant { key, value, source, .. } in &machine.constants {
        table.push([key, value, source].map(|text| Cell::from(text.as_str())));
    }
    table
}

fn draw(NetworkPicture { title, spots, wires }: NetworkPicture) -> Chart {
    let place = |spot: hikyaku_sim::machine::Spot| DiagramPlace {
        x: spot.x,
        y: spot.y,
        label: spot.node.map(|node| node.to_string()).unwrap_or_default(),
    };
    Diagram { title, places: spots.into_iter().map(place).collect(), lines: wires }.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn machines_that_come_along_are_found_by_name_and_drawn() {
        for (name, _) in FILES {
            let machine = load(Path::new(name)).unwrap();
            assert!(!constants(&machine).is_empty());
            let svg = draw(machine.picture()).to_svg();
            assert!(svg.contains("<circle") && svg.ends_with("</svg>"), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_told_in_one_line() {
        let error = load(Path::new("no/such/machine.toml")).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read the machine file no/such/machine.toml: "),
            "{error}"
        );
        assert!(!error.contains('\n'));
    }
}
