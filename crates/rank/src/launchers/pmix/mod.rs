//! PMIx, by which Open MPI's `mpirun` (`prterun`) and `srun --mpi=pmix` connect ranks. There is no
//! simple wire protocol, so the library of the launcher is opened at run time.

mod sys;

use self::sys::{ANY, PmixLibrary, Proc};
use super::launcher::{Launcher, LauncherError};

/// Variables with the launcher's address: it sets one or more of these, by version.
const SERVERS: [&str; 6] = [
    "PMIX_SERVER_URI41",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI",
];

/// Variables with the number of ranks.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

/// A rank's end of the channel.
#[derive(Debug)]
pub(super) struct Pmix {
    library: &'static PmixLibrary,
    own: Proc,
    size: u32,
}

impl Pmix {
    /// The channel that the environment names. `None`: there is none, or this rank is alone.
    pub(super) fn open(
        value_of: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Pmix>, LauncherError> {
        let is_set = |name: &&str| value_of(name).is_some();
        let is_alone = SIZES.iter().any(|name| value_of(name).as_deref() == Some("1"));
        if value_of("PMIX_NAMESPACE").is_none() || !SERVERS.iter().any(is_set) || is_alone {
            return Ok(None);
        }
        let library = PmixLibrary::get()?;
        let own = library.init()?;
        let size = library.number(own.of(ANY), "pmix.job.size")?;
        Ok(Some(Pmix { library, own, size }))
    }
}

impl Launcher for Pmix {
    fn rank(&self) -> u32 {
        self.own.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn program(&self) -> Option<i32> {
        i32::try_from(self.library.number(self.own, "pmix.appnum").ok()?).ok()
    }

    fn hosts(&mut self) -> Result<Option<Vec<u32>>, LauncherError> {
        let mut names: Vec<String> = Vec::new();
        let host = |rank| {
            let name = self.library.text(self.own.of(rank), "pmix.hname")?;
            let known = names.iter().position(|other| *other == name);
            let at = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            Ok(u32::try_from(at).expect("there are fewer hosts than ranks"))
        };
        (0..self.size).map(host).collect::<Result<_, _>>().map(Some)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), LauncherError> {
        self.library.put(&format!("hikyaku-{key}"), value)
    }

    fn fence(&mut self) -> Result<(), LauncherError> {
        self.library.fence()
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, LauncherError> {
        self.library.text(self.own.of(rank), &format!("hikyaku-{key}"))
    }

    fn finish(&mut self) {
        self.library.finalize();
    }
}
