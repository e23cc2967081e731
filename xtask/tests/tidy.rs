//! Runs the rules on the tree itself, so that `cargo test` fails if the tree breaks one.

use std::path::Path;

use xtask::Tree;

fn workspace() -> Tree {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
    Tree::load(root).expect("the workspace can be read")
}

#[test]
fn the_tree_is_tidy() {
    let found: Vec<String> = xtask::tidy(&workspace()).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

/// Guards the test above against passing on an empty tree.
#[test]
fn the_whole_tree_is_seen() {
    let tree = workspace();
    for member in &tree.members {
        let sources = format!("{}/src/", member.folder);
        assert!(tree.rust.iter().any(|f| f.path.starts_with(&sources)), "no sources: {sources}");
    }
    for path in ["Cargo.toml", "xtask/ratchet.toml", "xtask/tests/tidy.rs", "CONTRIBUTING.md"] {
        assert!(tree.text(path).is_some(), "{path} is not among the tracked files");
    }
    let nic = tree.members.iter().find(|member| member.name == "hikyaku-nic");
    let nic = nic.expect("the network interface is a member");
    assert!(nic.dependencies.iter().any(|dependency| dependency.name == "thiserror"));
}
