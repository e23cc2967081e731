//! The limits of this process's control groups: processor time and memory.
//!
//! Reads both versions of cgroups. A limit is looked up in the group that `/proc/self/cgroup` names
//! and in every group above it, from `/sys/fs/cgroup` down; the lowest limit counts. A missing
//! group is skipped: in a container the path is often the host's, while the container's own group
//! is the root of the mount.

use std::fs;
use std::path::{Path, PathBuf};

/// The processor time that this process's control groups allow, in processors; `None` without a
/// quota.
pub fn cpu_quota() -> Option<f64> {
    Cgroup::of_this_process().cpu_quota()
}

/// The groups of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cgroup {
    root: PathBuf,
    /// The group of the unified hierarchy (version 2).
    unified: Option<String>,
    /// The groups of version 1, by controller.
    cpu: Option<String>,
    memory: Option<String>,
}

impl Cgroup {
    /// The groups of this process.
    pub(crate) fn of_this_process() -> Cgroup {
        let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Cgroup::parse(&text, Path::new("/sys/fs/cgroup"))
    }

    /// The groups in the text of `/proc/<pid>/cgroup`, mounted at `root`.
    fn parse(text: &str, root: &Path) -> Cgroup {
        let mut groups = Cgroup { root: root.to_path_buf(), ..Cgroup::default() };
        for line in text.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let path = Some(path.to_owned());
            match controllers {
                "" => groups.unified = path,
                _ if controllers.split(',').any(|name| name == "cpu") => groups.cpu = path,
                _ if controllers.split(',').any(|name| name == "memory") => groups.memory = path,
                _ => {}
            }
        }
        groups
    }

    /// The processors that the quota allows, rounded up; `None` without a quota.
    pub(crate) fn cpus(&self) -> Option<u32> {
        self.cpu_quota().map(|quota| quota.ceil() as u32)
    }

    /// The processor time that the quota allows, in processors; `None` without a quota.
    fn cpu_quota(&self) -> Option<f64> {
        let unified = self.unified_folders().filter_map(|folder| {
            let text = read(&folder, "cpu.max")?;
            let (quota, period) = text.split_once(' ')?;
            processors(quota.parse().ok()?, period.parse().ok()?)
        });
        let first =
            folders(&self.root.join("cpu"), self.cpu.as_deref()).into_iter().filter_map(|folder| {
                let quota = read(&folder, "cpu.cfs_quota_us")?.parse().ok()?;
                processors(quota, read(&folder, "cpu.cfs_period_us")?.parse().ok()?)
            });
        unified.chain(first).min_by(f64::total_cmp)
    }

    /// Bytes that the groups may still allocate; `None` without a limit.
    pub(crate) fn memory_left(&self) -> Option<u64> {
        let unified = self.unified_folders().filter_map(|folder| {
            let limit = read(&folder, "memory.max")?.parse().ok()?;
            let used = read(&folder, "memory.current")?.parse().ok()?;
            Some(left(limit, used, &read(&folder, "memory.stat").unwrap_or_default()))
        });
        let memory = self.root.join("memory");
        let first = folders(&memory, self.memory.as_deref()).into_iter().filter_map(|folder| {
            let limit: u64 = read(&folder, "memory.limit_in_bytes")?.parse().ok()?;
            let used = read(&folder, "memory.usage_in_bytes")?.parse().ok()?;
            let limited = limit < UNLIMITED;
            limited.then(|| left(limit, used, &read(&folder, "memory.stat").unwrap_or_default()))
        });
        unified.chain(first).min()
    }

    /// Version 2 alone is mounted at the root; if version 1 is used too, under `unified`.
    fn unified_folders(&self) -> impl Iterator<Item = PathBuf> {
        let group = self.unified.as_deref();
        folders(&self.root, group).into_iter().chain(folders(&self.root.join("unified"), group))
    }
}

/// Version 1 writes "no limit" as the largest multiple of a page; no real limit is that large.
const UNLIMITED: u64 = 1 << 60;

/// The folders of a group and of the groups above it.
fn folders(mount: &Path, group: Option<&str>) -> Vec<PathBuf> {
    let group = group.map(|group| Path::new(group.trim_start_matches('/')));
    let groups = group.iter().flat_map(|group| group.ancestors());
    groups.map(|group| mount.join(group)).collect()
}

fn read(folder: &Path, file: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(file)).ok()?.trim().to_owned())
}

/// The quota divided by the period. Version 1 writes "no quota" as -1.
fn processors(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// The unused part of a limit. The file cache counts as free: the kernel drops it on demand.
fn left(limit: u64, used: u64, stat: &str) -> u64 {
    let cached: u64 = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| matches!(*name, "inactive_file" | "active_file"))
        .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
        .sum();
    limit.saturating_sub(used.saturating_sub(cached))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder of control files.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let unique = format!("hikyaku-cgroup-{}-{name}", std::process::id());
            let root = std::env::temp_dir().join(unique);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Tree(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_quota_is_more_than_nothing() {
        assert!(cpu_quota().is_none_or(|quota| quota > 0.0));
    }

    #[test]
    fn version_2_takes_the_lowest_quota_above() {
        let files = [("a/cpu.max", "350000 100000\n"), ("a/b/cpu.max", "max 100000\n")];
        let tree = Tree::new("two", &files);
        let quota = |text| Cgroup::parse(text, &tree.0).cpu_quota();
        assert_eq!(quota("0::/a/b\n"), Some(3.5));
        assert_eq!(quota("0::/a/b/gone/deeper\n"), Some(3.5));
        assert_eq!(Cgroup::parse("0::/a/b\n", &tree.0).cpus(), Some(4));
        assert_eq!(quota("0::/\n"), None);
    }

    #[test]
    fn version_1_is_read_by_controller() {
        let files = [
            ("cpu/docker/x/cpu.cfs_quota_us", "50000\n"),
            ("cpu/docker/x/cpu.cfs_period_us", "100000\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
        ];
        let tree = Tree::new("one", &files);
        let quota = |text| Cgroup::parse(text, &tree.0).cpu_quota();
        assert_eq!(quota("3:cpuacct,cpu:/docker/x\n2:memory:/y\n"), Some(0.5));
        assert_eq!(quota("3:cpuset:/docker/x\n1:cpu:/\n"), None);
    }

    #[test]
    fn memory_counts_the_file_cache_as_free() {
        let stat = "anon 5\ninactive_file 300\nactive_file 100\nfile 999\n";
        let files = [
            ("g/memory.max", "1000\n"),
            ("g/memory.current", "900\n"),
            ("g/memory.stat", stat),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.usage_in_bytes", "5\n"),
        ];
        let tree = Tree::new("memory", &files);
        assert_eq!(Cgroup::parse("0::/g\n", &tree.0).memory_left(), Some(500));
        assert_eq!(Cgroup::parse("4:memory:/\n", &tree.0).memory_left(), None);
    }

    #[test]
    fn an_invalid_file_is_no_limit() {
        let files = [("cpu.max", "soon never\n"), ("memory.max", "\n"), ("memory.current", "x")];
        let tree = Tree::new("nonsense", &files);
        for text in ["0::/\n", "", "::::\n", "no colons"] {
            let groups = Cgroup::parse(text, &tree.0);
            assert_eq!((groups.cpu_quota(), groups.memory_left()), (None, None));
        }
        assert_eq!(processors(1, 0), None);
        assert_eq!(processors(-1, 100_000), None);
    }
}
