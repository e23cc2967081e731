//! No files of different folders import each other in a circle: a folder has an inside.
//!
//! Within a folder files may: an `impl` is often spread over the files of its folder. [`measure`]
//! says what an import is.
//!
//! [`measure`]: crate::measure

use std::collections::BTreeSet;

use crate::measure::circles;
use crate::{Tree, Violation};

/// Folders in which a circle may be, and why.
const ALLOWED: &[(&str, &str)] =
    &[("crates/mpi/src/", "communicators, requests and the process's state name each other")];

/// Finds the circles of the tree's sources.
pub fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, ALLOWED)
}

fn check_with(tree: &Tree, allowed: &[(&str, &str)]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for circle in circles(tree) {
        let holds = |folder: &str| circle.iter().all(|path| path.starts_with(folder));
        match allowed.iter().find(|(folder, _)| holds(folder)) {
            Some((folder, _)) => {
                used.insert(*folder);
            }
            None => found.push(Violation::new(
                &circle[0],
                1,
                format!(
                    "{} files import each other in a circle: {}",
                    circle.len(),
                    circle.join(", ")
                ),
                "move what they share to a file that imports none of them",
            )),
        }
    }
    found.extend(allowed.iter().filter(|(folder, _)| !used.contains(folder)).map(|(folder, _)| {
        let what = format!("`{folder}` is named for a circle and has none");
        Violation::new("xtask/src/rules/circles.rs", 1, what, "delete the entry")
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIRCLE: [(&str, &str); 3] = [
        ("crates/a/src/lib.rs", "mod b;\nmod d;\n"),
        ("crates/a/src/b/mod.rs", "use crate::d::D;\npub struct B;\n"),
        ("crates/a/src/d.rs", "use crate::b::B;\npub struct D;\n"),
    ];

    #[test]
    fn a_circle_is_named_with_its_files() {
        let found = check_with(&Tree::from_samples(&CIRCLE, Vec::new()), &[]);
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!(found.path, "crates/a/src/b/mod.rs");
        assert!(found.what.ends_with("circle: crates/a/src/b/mod.rs, crates/a/src/d.rs"));
    }

    #[test]
    fn an_exception_is_for_a_circle_that_is_there() {
        let tree = Tree::from_samples(&CIRCLE, Vec::new());
        assert_eq!(check_with(&tree, &[("crates/a/src/", "because")]), []);
        let stale = check_with(&tree, &[("crates/a/src/", "because"), ("crates/z/", "because")]);
        assert_eq!(stale.len(), 1);
        assert!(stale[0].what.starts_with("`crates/z/` is named"), "{stale:?}");
    }
}
