//! The machine files that come with the tree, compiled in: experiments run on these and on no
//! edited copy.

use hikyaku_sim::machine::Machine;

/// Name and text of each file of `machines/`.
pub const FILES: [(&str, &str); 7] = [
    ("dimmnet1", include_str!("../../machines/dimmnet1.toml")),
    ("dimmnet2", include_str!("../../machines/dimmnet2.toml")),
    ("fx100-tofu2", include_str!("../../machines/fx100-tofu2.toml")),
    ("cenju4", include_str!("../../machines/cenju4.toml")),
    ("cp-pacs", include_str!("../../machines/cp-pacs.toml")),
    ("fat-tree-200g", include_str!("../../machines/fat-tree-200g.toml")),
    ("dragonfly-200g", include_str!("../../machines/dragonfly-200g.toml")),
];

/// A machine that comes with the tree.
///
/// # Panics
/// There is none of that name, or its file is wrong: a test parses all of them.
pub fn machine(name: &str) -> Machine {
    let (name, text) = FILES.iter().find(|(known, _)| *known == name).expect("a name of FILES");
    Machine::parse(&format!("machines/{name}.toml"), text).expect("a test parses every file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_and_has_its_name() {
        for (name, _) in FILES {
            assert_eq!(machine(name).name, name);
        }
    }
}
