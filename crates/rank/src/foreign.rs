//! Programs that a launcher has started as one of several, and that cannot meet by it
//! (`launchers` can with some). They must not become as many jobs of one rank each, whose results
//! look like those of the whole.

use thiserror::Error;

/// This process is one of several that were started by another launcher.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "this program is {} that {launcher} has started ({variable} is set), by which hikyaku's ranks \
     cannot meet: start it by `hikyaku run -n N -- PROGRAM`, mpiexec of MPICH or `srun \
     --mpi=pmi2`, and only if each is meant to be alone have the other launcher start \
     `hikyaku run -n 1 -- PROGRAM`", self.among()
)]
pub struct Foreign {
    /// Who started it.
    launcher: &'static str,
    /// The variable that says so.
    variable: &'static str,
    /// How many there are, if that is known.
    size: Option<u64>,
}

/// Launchers that say how many there are, and in which variable.
const SIZES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI"),
    ("PMI_SIZE", "mpiexec of another MPI"),
    ("SLURM_STEP_NUM_TASKS", "srun"),
];

impl Foreign {
    fn among(&self) -> String {
        match self.size {
            Some(size) => format!("one of {size}"),
            None => "one of several".to_owned(),
        }
    }

    /// What the environment says of another launcher; `None`: there is none, or it has started
    /// this program alone.
    pub(crate) fn of(value_of: impl Fn(&str) -> Option<String>) -> Option<Foreign> {
        let number = |name: &str| value_of(name)?.parse::<u64>().ok();
        let said: Vec<(u64, &'static str, &'static str)> =
            SIZES.iter().filter_map(|(name, by)| Some((number(name)?, *name, *by))).collect();
        if let Some((size, variable, launcher)) = said.iter().find(|(size, ..)| *size > 1) {
            return Some(Foreign { launcher, variable, size: Some(*size) });
        }
        if !said.is_empty() {
            return None;
        }
        // The job's size is that of a step only where there is one: a batch script has it as well.
        let of_step = number("SLURM_STEP_ID").and_then(|_| number("SLURM_NTASKS"));
        if let (Some(size), Some(_)) = (of_step, number("SLURM_PROCID")) {
            let (launcher, variable) = ("srun", "SLURM_NTASKS");
            return (size > 1).then_some(Foreign { launcher, variable, size: Some(size) });
        }
        // These say who one is, and not among how many.
        for (variable, launcher) in [("PMIX_RANK", "prterun"), ("PMI_ID", "mpiexec of another MPI")]
        {
            if value_of(variable).is_some() {
                return Some(Foreign { launcher, variable, size: None });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &[(&str, &str)]) -> Option<Foreign> {
        let value = |name: &str| environment.iter().find(|(other, _)| *other == name);
        Foreign::of(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn one_of_several_is_recognised_whoever_started_it() {
        for (environment, by, size) in [
            (&[("PMI_RANK", "0"), ("PMI_SIZE", "4")][..], "mpiexec", Some(4)),
            (&[("PMI_ID", "1"), ("PMI_PORT", "host:1")], "mpiexec", None),
            (&[("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")], "mpirun", Some(2)),
            (&[("PMIX_RANK", "1")], "prterun", None),
            (&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "3")], "srun", Some(3)),
            (
                &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_ID", "0")],
                "srun",
                Some(8),
            ),
        ] {
            let foreign = of(environment);
            assert!(
                foreign.as_ref().is_some_and(|it| it.launcher.starts_with(by) && it.size == size),
                "{environment:?}: {foreign:?}"
            );
        }
    }

    #[test]
    fn a_program_alone_is_left_alone() {
        for environment in [
            &[][..],
            &[("PMI_SIZE", "1"), ("PMI_RANK", "0")],
            &[("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")],
            // A batch script, and a step of one task in it.
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1")],
            &[("PMI_SIZE", "many")],
        ] {
            assert_eq!(of(environment), None, "{environment:?}");
        }
    }

    #[test]
    fn the_line_says_what_to_do() {
        let line = of(&[("PMI_SIZE", "4")]).map(|foreign| foreign.to_string());
        assert_eq!(
            line.as_deref(),
            Some(
                "this program is one of 4 that mpiexec of another MPI has started (PMI_SIZE is \
                 set), by which hikyaku's ranks cannot meet: start it by `hikyaku run -n N -- \
                 PROGRAM`, mpiexec of MPICH or `srun --mpi=pmi2`, and only if each is meant to be \
                 alone have the other launcher start `hikyaku run -n 1 -- PROGRAM`"
            )
        );
    }
}
