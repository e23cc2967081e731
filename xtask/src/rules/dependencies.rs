//! The allowed dependencies between crates: the layers of the architecture as a table.
//!
//! Arrows go downward only. `[dependencies]` and `[build-dependencies]` must be listed in the
//! crate's row; `[dev-dependencies]` may add the conformance suite and anything on a lower level.
//! A member without a row is a violation, so a new crate is a decision and not an accident.

use crate::{DependencyKind, Tree, Violation, WorkspaceMember};

/// A crate of the architecture.
struct CrateRow {
    /// The name of the crate's folder, or of the folder of several such crates.
    name: &'static str,
    /// Height in the picture of layers; dev-dependencies go to lower ones.
    level: u32,
    /// The crates it may depend on.
    may_use: &'static [&'static str],
}

/// The table. Rows of crates that do not exist yet reserve their places.
const TABLE: &[CrateRow] = &[
    CrateRow { name: "report", level: 0, may_use: &[] },
    CrateRow { name: "nic", level: 0, may_use: &[] },
    CrateRow { name: "shm", level: 1, may_use: &["nic"] },
    CrateRow { name: "ofi", level: 1, may_use: &["nic"] },
    CrateRow { name: "sim", level: 1, may_use: &["nic"] },
    CrateRow { name: "conformance", level: 1, may_use: &["nic"] },
    CrateRow { name: "msg", level: 2, may_use: &["nic"] },
    CrateRow { name: "coll", level: 3, may_use: &["nic", "msg"] },
    CrateRow { name: "rank", level: 4, may_use: &["nic", "shm", "ofi", "msg", "coll"] },
    // Its protocols are values, which need none of these; `driver/` executes them at a rank.
    CrateRow { name: "dsm", level: 5, may_use: &["nic", "msg", "rank"] },
    CrateRow { name: "world", level: 6, may_use: &["nic", "msg", "coll", "dsm", "rank"] },
    // Starts programs and uses nothing that they are linked with: no message, no collective.
    CrateRow { name: "launch", level: 7, may_use: &["nic", "shm", "sim"] },
    // Preloaded into any program: it knows the rank by five words and links with nothing of ours.
    CrateRow { name: "heap", level: 0, may_use: &[] },
    // The functions of MPI as text, for the build scripts of its shared libraries.
    CrateRow { name: "mpi-table", level: 0, may_use: &[] },
    CrateRow { name: "mpi", level: 7, may_use: &["nic", "rank", "coll", "msg"] },
    CrateRow { name: "mpi-abi", level: 9, may_use: &["mpi", "mpi-table", "c"] },
    CrateRow { name: "mpi-mpich", level: 9, may_use: &["mpi", "mpi-table", "c"] },
    CrateRow { name: "python", level: 8, may_use: &["world", "launch"] },
    CrateRow { name: "c", level: 8, may_use: &["world"] },
    // Tests of cli use its table of digests.
    CrateRow { name: "jobs", level: 8, may_use: &["nic", "sim", "world", "launch"] },
    // Experiments run models, not programs: no message layer between them and the simulator. dsm
    // for its protocols, which are values.
    CrateRow { name: "reproduce", level: 6, may_use: &["nic", "sim", "dsm", "report"] },
    // Its ranks are programs, and the launcher that it measures is `hikyaku run` around them.
    CrateRow { name: "bench", level: 8, may_use: &["world", "report", "nic", "shm"] },
    // nic for its types only: times and ranks in the tables that it prints. coll and sim to run
    // the one's algorithms on the other's machines, ofi to show and measure networks.
    CrateRow {
        name: "cli",
        level: 9,
        may_use: &[
            "world",
            "launch",
            "bench",
            "report",
            "nic",
            "ofi",
            "sim",
            "coll",
            "reproduce",
            "mpi-table",
        ],
    },
    // Code shared by the larger examples is a crate of their folder.
    CrateRow { name: "examples", level: 11, may_use: &["world", "report", "examples"] },
    CrateRow { name: "xtask", level: 0, may_use: &[] },
];

/// Compares the members' dependencies on each other with the table.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for member in &tree.members {
        match row_of(member) {
            Some(row) => check_member(tree, member, row, &mut found),
            None => found.push(Violation::new(
                manifest(member),
                1,
                format!("workspace member `{}` is not in the dependency table", member.name),
                "give it a row in xtask/src/rules/dependencies.rs",
            )),
        }
    }
    found
}

fn check_member(tree: &Tree, member: &WorkspaceMember, row: &CrateRow, found: &mut Vec<Violation>) {
    for dependency in &member.dependencies {
        let used = tree.members.iter().find(|other| other.name == dependency.name);
        // External crates, and members that `check` reports, have no row.
        let Some(used) = used.and_then(row_of) else { continue };
        let development = dependency.kind == DependencyKind::Development
            && (used.name == "conformance" || used.level < row.level);
        if row.may_use.contains(&used.name) || development {
            continue;
        }
        let allowed = match row.may_use {
            [] => "none of our crates".to_string(),
            names => names.join(", "),
        };
        found.push(Violation::new(
            manifest(member),
            line_of(tree, member, &dependency.name),
            format!("`{}` depends on `{}`, the table allows {allowed}", row.name, used.name),
            "move the code to the layer it belongs to",
        ));
    }
}

/// The row of a member, found by its folder: the package's name may differ.
fn row_of(member: &WorkspaceMember) -> Option<&'static CrateRow> {
    let name = match member.folder.split('/').collect::<Vec<_>>()[..] {
        ["crates" | "tests", name] => name,
        ["examples", _] => "examples",
        [name @ ("xtask" | "reproduce")] => name,
        _ => return None,
    };
    TABLE.iter().find(|row| row.name == name)
}

fn manifest(member: &WorkspaceMember) -> String {
    format!("{}/Cargo.toml", member.folder)
}

/// The line of the manifest that mentions the dependency; 1 if it is renamed and not found.
fn line_of(tree: &Tree, member: &WorkspaceMember, dependency: &str) -> usize {
    let text = tree.text(&manifest(member)).unwrap_or_default();
    text.lines().position(|line| line.starts_with(dependency)).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dependency;
    use DependencyKind::{Build, Development, Normal};

    fn member(folder: &str, uses: &[(&str, DependencyKind)]) -> WorkspaceMember {
        let name = folder.rsplit('/').next().unwrap_or(folder);
        let dependencies = uses
            .iter()
            .map(|(name, kind)| Dependency { name: format!("hikyaku-{name}"), kind: *kind })
            .collect();
        WorkspaceMember {
            name: format!("hikyaku-{name}"),
            folder: folder.into(),
            description: None,
            dependencies,
        }
    }

    fn check_members(members: Vec<WorkspaceMember>) -> Vec<String> {
        let manifest = "[package]\n\n[dependencies]\nhikyaku-shm.workspace = true\n";
        let tree = Tree::from_samples(&[("crates/msg/Cargo.toml", manifest)], members);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_downward_pass() {
        let found = check_members(vec![
            member("crates/nic", &[("conformance", Development)]),
            member("crates/shm", &[("nic", Normal), ("conformance", Development)]),
            member("crates/msg", &[("nic", Normal), ("shm", Development)]),
            member("crates/world", &[("nic", Normal), ("shm", Development), ("rank", Normal)]),
            member("tests/conformance", &[("nic", Normal)]),
            member("examples/heat", &[("world", Normal)]),
            member("xtask", &[]),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_forbidden_arrow_is_reported_at_its_line() {
        let found = check_members(vec![
            member("crates/nic", &[]),
            member("crates/shm", &[("nic", Normal)]),
            member("crates/msg", &[("nic", Normal), ("shm", Normal)]),
        ]);
        let what = "`msg` depends on `shm`, the table allows nic";
        let remedy = "move the code to the layer it belongs to";
        assert_eq!(found, [format!("crates/msg/Cargo.toml:4: {what}; {remedy}")]);
    }

    #[test]
    fn development_and_build_dependencies_have_no_way_upward() {
        let upward = |kind| {
            let nic = member("crates/nic", &[("msg", kind)]);
            check_members(vec![nic, member("crates/msg", &[])]).len()
        };
        assert_eq!([Normal, Development, Build].map(upward), [1, 1, 1]);
        let report = member("crates/report", &[("nic", Development)]);
        assert_eq!(check_members(vec![report, member("crates/nic", &[])]).len(), 1);
    }

    #[test]
    fn an_unknown_member_is_reported() {
        let found = check_members(vec![member("crates/common", &[]), member("tools/x", &[])]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/common/Cargo.toml:1: workspace member"));
    }
}
