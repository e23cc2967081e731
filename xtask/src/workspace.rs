//! The members of the workspace and their dependencies, from `cargo metadata --no-deps`.
//!
//! Cargo's answer is used rather than the manifests' text because it has already resolved
//! workspace inheritance, renames and target tables. Only the fields read here are declared.

use std::path::Path;

use serde::Deserialize;

/// A package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceMember {
    /// Package name, for example `hikyaku-nic`.
    pub name: String,
    /// Folder of its manifest from the root of the workspace, for example `crates/nic`.
    pub folder: String,
    /// The manifest's description.
    pub description: Option<String>,
    /// Dependencies of every kind and target.
    pub dependencies: Vec<Dependency>,
}

/// An edge from a member to another package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Name of the package depended on (not the local rename).
    pub name: String,
    /// The table of the manifest that lists it.
    pub kind: DependencyKind,
}

/// The table of a manifest that lists a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyKind {
    /// `[dependencies]`.
    Normal,
    /// `[dev-dependencies]`: seen by tests, examples and benches only.
    Development,
    /// `[build-dependencies]`.
    Build,
}

#[derive(Deserialize)]
struct RawMetadata {
    packages: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    manifest_path: String,
    description: Option<String>,
    dependencies: Vec<RawDependency>,
}

#[derive(Deserialize)]
struct RawDependency {
    name: String,
    kind: Option<String>,
}

/// Reads the output of `cargo metadata --no-deps --format-version 1` for the workspace at `root`.
///
/// # Errors
/// If `json` is not such an output.
pub(crate) fn parse(json: &str, root: &Path) -> Result<Vec<WorkspaceMember>, serde_json::Error> {
    let raw: RawMetadata = serde_json::from_str(json)?;
    Ok(raw.packages.into_iter().map(|package| member(package, root)).collect())
}

fn member(raw: RawPackage, root: &Path) -> WorkspaceMember {
    let manifest = Path::new(&raw.manifest_path);
    let folder = manifest.parent().unwrap_or(manifest);
    let folder = folder.strip_prefix(root).unwrap_or(folder);
    let dependencies = raw
        .dependencies
        .into_iter()
        .map(|dependency| Dependency {
            kind: match dependency.kind.as_deref() {
                Some("dev") => DependencyKind::Development,
                Some("build") => DependencyKind::Build,
                _ => DependencyKind::Normal,
            },
            name: dependency.name,
        })
        .collect();
    WorkspaceMember {
        name: raw.name,
        folder: folder.to_string_lossy().into_owned(),
        description: raw.description,
        dependencies,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_members_with_their_kinds_of_dependency() {
        let json = r#"{"packages":[{"name":"hikyaku-nic","manifest_path":"/w/crates/nic/Cargo.toml",
            "description":null,"dependencies":[
              {"name":"thiserror","kind":null},{"name":"proptest","kind":"dev"},
              {"name":"cc","kind":"build"}]}]}"#;
        let members = parse(json, Path::new("/w")).unwrap();
        assert_eq!(members.len(), 1);
        assert_eq!(members[0].folder, "crates/nic");
        let kinds: Vec<_> = members[0].dependencies.iter().map(|d| d.kind).collect();
        use DependencyKind::{Build, Development, Normal};
        assert_eq!(kinds, [Normal, Development, Build]);
    }

    #[test]
    fn refuses_what_is_not_metadata() {
        assert!(parse("{}", Path::new("/w")).is_err());
        assert!(parse("error: no manifest", Path::new("/w")).is_err());
    }
}
