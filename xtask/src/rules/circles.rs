//! No files of different folders import each other in a circle: a folder has an inside.
//!
//! Files of one folder may: an `impl` is often spread over the files of its folder. [`measure`]
//! defines an import.
//!
//! [`measure`]: crate::measure

use crate::measure::circles;
use crate::{Tree, Violation};

/// Finds the circles of the tree's sources.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let named = |circle: Vec<String>| {
        let files = circle.join(", ");
        let what = format!("{} files import each other in a circle: {files}", circle.len());
        let what_to_do = "move what they share to a file that imports none of them";
        Violation::new(&circle[0], 1, what, what_to_do)
    };
    circles(tree).into_iter().map(named).collect()
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
        let found = check(&Tree::from_samples(&CIRCLE, Vec::new()));
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!(found.path, "crates/a/src/b/mod.rs");
        assert!(found.what.ends_with("circle: crates/a/src/b/mod.rs, crates/a/src/d.rs"));
    }
}
