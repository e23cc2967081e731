//! Jobs whose ranks run several programs (MPMD), as `mpiexec -n 1 ./server : -n 3 ./client` does.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Launch, LaunchError};

/// The variable with the number of a rank's program, from 0: the attribute MPI_APPNUM.
const NUMBER: &str = "HIKYAKU_APPNUM";

/// A program, and the settings of its ranks.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The number of ranks that run it.
    pub ranks: u32,
    /// The program; searched in `PATH` unless it has a slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables of its ranks beyond those of the launch.
    pub variables: Vec<(String, String)>,
    /// The variables of this process that its ranks inherit. `None`: all.
    pub inherited: Option<Vec<String>>,
    /// The folder in which it starts. `None`: this process's folder.
    pub folder: Option<PathBuf>,
}

impl Launch {
    /// A job that runs these programs: the first ranks run the first program, and so on.
    pub fn of_programs(programs: Vec<Program>) -> Launch {
        let ranks = programs.iter().fold(0, |sum: u32, each| sum.saturating_add(each.ranks));
        Launch { programs, ..Launch::new(ranks, OsString::new()) }
    }

    /// The programs of the job; a single one if all ranks run the same. It has a number too: the
    /// launcher itself may run in a rank of a job of several, and have that rank's number.
    pub(crate) fn all_programs(&self) -> Vec<Program> {
        let mut all = self.programs.clone();
        if all.is_empty() {
            let (program, args) = (self.program.clone(), self.args.clone());
            all.push(Program { ranks: self.ranks, program, args, ..Program::default() });
        }
        for (number, program) in all.iter_mut().enumerate() {
            program.variables.push((NUMBER.to_owned(), number.to_string()));
        }
        all
    }

    /// Whether every rank has a program and every program a rank.
    pub(crate) fn check_programs(&self) -> Result<(), LaunchError> {
        let counts = || self.programs.iter().map(|program| u64::from(program.ranks));
        let fits = counts().all(|ranks| ranks > 0) && counts().sum::<u64>() == self.ranks.into();
        match self.programs.is_empty() || fits {
            true => Ok(()),
            false => Err(LaunchError::NoRanks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_their_ranks_in_order() {
        let of = |ranks, name: &str| Program { ranks, program: name.into(), ..Program::default() };
        let launch = Launch::of_programs(vec![of(1, "one"), of(3, "three")]);
        assert_eq!(launch.ranks, 4);
        assert!(launch.check().is_ok());
        let numbers: Vec<_> =
            launch.all_programs().iter().map(|program| program.variables[0].1.clone()).collect();
        assert_eq!(numbers, ["0", "1"]);
        let wrong = Launch::of_programs(vec![of(0, "none"), of(3, "three")]);
        assert!(matches!(wrong.check(), Err(LaunchError::NoRanks)));
        let single = Launch::new(2, "same").all_programs();
        assert_eq!((single.len(), single[0].ranks), (1, 2));
        assert_eq!(single[0].variables, [(NUMBER.to_owned(), "0".to_owned())]);
    }
}
