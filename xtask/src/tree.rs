//! The source tree as the rules see it: tracked files, parsed Rust files, workspace members.
//!
//! [`Tree::load`] reads it from disk, once; [`Tree::from_samples`] builds one from strings for the
//! rules' own tests. Rules therefore never read a file, and a rule's test needs no folder.

use std::collections::BTreeSet;
use std::io::ErrorKind::{IsADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use thiserror::Error;

use crate::rust::{self, RustFile};
use crate::violation::Violation;
use crate::workspace::{self, WorkspaceMember};

/// Folders that a walk without git leaves out: they hold build products and run results.
const UNTRACKED_FOLDERS: &[&str] = &[".git", "target", "out"];

/// Why the tree could not be read.
#[derive(Debug, Error)]
pub enum TreeError {
    /// A file or folder of the tree cannot be read.
    #[error("cannot read {path}: {source}; check its permissions")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Cargo cannot be started.
    #[error("cannot start cargo: {0}; install Rust, https://rustup.rs")]
    Cargo(io::Error),
    /// Cargo does not accept the workspace.
    #[error("cargo metadata failed, mend the manifest it names:\n{0}")]
    Metadata(String),
    /// Cargo's answer has an unknown form.
    #[error("cargo metadata answered in an unknown form: {0}; adapt xtask/src/workspace.rs")]
    Form(#[from] serde_json::Error),
}

/// A tracked file that is UTF-8 text.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// Path from the root of the workspace, with `/` between its parts.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// Everything that the rules check.
pub struct Tree {
    /// Every tracked path, text or not.
    pub paths: BTreeSet<String>,
    /// The text files, ordered by path.
    pub texts: Vec<TextFile>,
    /// The Rust files that parse, ordered by path.
    pub rust: Vec<RustFile>,
    /// A violation for each Rust file that does not parse.
    pub unparsed: Vec<Violation>,
    /// The members of the workspace.
    pub members: Vec<WorkspaceMember>,
}

impl Tree {
    /// Reads the tree at `root` and asks cargo for its members.
    ///
    /// # Errors
    /// If a tracked file cannot be read or cargo does not accept the workspace.
    pub fn load(root: &Path) -> Result<Tree, TreeError> {
        let members = workspace::parse(&metadata(root)?, root)?;
        let mut contents = Vec::new();
        for path in tracked(root)? {
            let full = root.join(&path);
            match fs::read(&full) {
                Ok(bytes) => contents.push((path, bytes)),
                // A deletion that is not committed yet, or a folder: another repository in this
                // one, or a link.
                Err(error) if matches!(error.kind(), NotFound | IsADirectory) => {}
                Err(source) => return Err(TreeError::Read { path: full, source }),
            }
        }
        Ok(Tree::build(contents, members))
    }

    /// A tree of the given paths and texts, for tests of rules.
    pub fn from_samples(files: &[(&str, &str)], members: Vec<WorkspaceMember>) -> Tree {
        let contents = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
        Tree::build(contents, members)
    }

    fn build(mut contents: Vec<(String, Vec<u8>)>, members: Vec<WorkspaceMember>) -> Tree {
        contents.sort();
        let paths = contents.iter().map(|(path, _)| path.clone()).collect();
        let texts: Vec<TextFile> = contents
            .into_iter()
            .filter_map(|(path, bytes)| {
                Some(TextFile { path, text: String::from_utf8(bytes).ok()? })
            })
            .collect();
        let mut unparsed = Vec::new();
        let mut rust = Vec::new();
        for file in texts.iter().filter(|file| file.path.ends_with(".rs")) {
            match RustFile::parse(file) {
                Ok(parsed) => rust.push(parsed),
                Err(violation) => unparsed.push(violation),
            }
        }
        rust::mark_test_modules(&mut rust);
        Tree { paths, texts, rust, unparsed, members }
    }

    /// The text of the tracked file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Whether `path` is a tracked file or a folder that contains one.
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self.paths.range(folder.clone()..).next().is_some_and(|p| p.starts_with(&folder))
    }
}

fn metadata(root: &Path) -> Result<String, TreeError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .map_err(TreeError::Cargo)?;
    if !output.status.success() {
        return Err(TreeError::Metadata(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The paths that git tracks or would track; without git (a source archive, a checkout of another
/// user) the paths that a walk finds.
fn tracked(root: &Path) -> Result<Vec<String>, TreeError> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    match listed {
        Ok(output) if output.status.success() => {
            let names = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(names.split('\0').filter(|name| !name.is_empty()).map(Into::into).collect())
        }
        _ => {
            let mut paths = Vec::new();
            walk(root, "", &mut paths)?;
            Ok(paths)
        }
    }
}

fn walk(root: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<(), TreeError> {
    let folder = root.join(prefix);
    let failed = |source| TreeError::Read { path: folder.clone(), source };
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !UNTRACKED_FOLDERS.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_that_is_not_text_is_known_by_path_only() {
        let contents = vec![("a.png".to_string(), vec![0xff, 0xfe]), ("b.md".into(), vec![b'x'])];
        let tree = Tree::build(contents, Vec::new());
        assert!(tree.exists("a.png"));
        assert_eq!(tree.text("a.png"), None);
        assert_eq!(tree.text("b.md"), Some("x"));
    }

    #[test]
    fn a_folder_exists_when_it_holds_a_tracked_file() {
        let tree = Tree::from_samples(&[("docs/a.md", ""), ("docs-old.md", "")], Vec::new());
        assert!(tree.exists("docs"));
        assert!(tree.exists(""));
        assert!(!tree.exists("doc"));
        assert!(!tree.exists("docs/a"));
    }

    #[test]
    fn a_rust_file_that_does_not_parse_is_a_violation() {
        let tree = Tree::from_samples(&[("a.rs", "//! A.\nfn f( {")], Vec::new());
        assert!(tree.rust.is_empty());
        assert_eq!(tree.unparsed.len(), 1);
        assert_eq!(crate::tidy(&tree)[0].path, "a.rs");
    }

    #[test]
    fn a_walk_finds_this_file_and_no_build_products() {
        let mut paths = Vec::new();
        walk(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut paths).unwrap();
        assert!(paths.iter().any(|path| path == "src/tree.rs"));
        assert!(paths.iter().all(|path| !path.starts_with("target/")));
    }
}
