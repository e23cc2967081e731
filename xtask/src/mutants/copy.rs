//! A copy of the tree that mutants may change: the tree itself belongs to its editors.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{MutantsError, at, make_folder, run};

/// The file that lists the names of the copy's files, one per line.
const LIST: &str = ".copied";

/// Makes `copy` the same as the tree at `root`: all files that git does not ignore.
///
/// An unchanged file stays untouched, so that cargo builds only what has changed.
pub(super) fn refresh(root: &Path, copy: &Path) -> Result<(), MutantsError> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = run(&mut git)?;
    if !listed.status.success() {
        return Err(MutantsError::Git(root.to_path_buf()));
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    refresh_files(root, copy, &names.split('\0').filter(|name| !name.is_empty()).collect())
}

fn refresh_files(root: &Path, copy: &Path, names: &BTreeSet<&str>) -> Result<(), MutantsError> {
    make_folder(copy)?;
    let list = copy.join(LIST);
    // Without a list there is no copy yet.
    let before = fs::read_to_string(&list).unwrap_or_default();
    let mut present = BTreeSet::new();
    for &name in names {
        let (from, to) = (root.join(name), copy.join(name));
        // A deletion that is not committed yet, or another repository in this one.
        if !from.is_file() {
            continue;
        }
        present.insert(name);
        let bytes = fs::read(&from).map_err(at(&from))?;
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        make_folder(to.parent().unwrap_or(copy))?;
        // With the permissions: some files are scripts.
        fs::copy(&from, &to).map_err(at(&to))?;
    }
    for gone in before.lines().filter(|name| !present.contains(name)) {
        // A person may have removed it.
        let _ = fs::remove_file(copy.join(gone));
    }
    let lines: String = present.iter().flat_map(|name| [name, "\n"]).collect();
    fs::write(&list, lines).map_err(at(&list))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_copy_follows_its_tree() {
        let folder = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
        let (root, copy) = (folder.join("root"), folder.join("copy"));
        fs::create_dir_all(root.join("src")).unwrap();
        for (name, text) in [("same", "1"), ("src/changed", "1"), ("gone", "1")] {
            fs::write(root.join(name), text).unwrap();
        }
        let names = BTreeSet::from(["same", "src/changed", "gone", "never"]);
        refresh_files(&root, &copy, &names).unwrap();
        let modified = |name: &str| fs::metadata(copy.join(name)).unwrap().modified().unwrap();
        let before = modified("same");

        fs::write(root.join("src/changed"), "2").unwrap();
        fs::remove_file(root.join("gone")).unwrap();
        // Left by a mutant whose run was ended.
        fs::write(copy.join("src/changed"), "a mutant").unwrap();
        refresh_files(&root, &copy, &names).unwrap();
        assert_eq!(fs::read_to_string(copy.join("src/changed")).unwrap(), "2");
        assert!(!copy.join("gone").exists());
        assert_eq!(modified("same"), before, "an untouched file was written again");
        fs::remove_dir_all(&folder).unwrap();
    }
}
