//! The machines that experiments run on: the compiled-in machine files of the tree, unchanged or
//! with other values for some constants.

use hikyaku_sim::machine::{Machine, MachineError};

/// Name and text of each file of `machines/`.
pub const FILES: [(&str, &str); 8] = [
    ("dimmnet1", include_str!("../../machines/dimmnet1.toml")),
    ("dimmnet2", include_str!("../../machines/dimmnet2.toml")),
    ("fx100-tofu2", include_str!("../../machines/fx100-tofu2.toml")),
    ("cenju4", include_str!("../../machines/cenju4.toml")),
    ("cp-pacs", include_str!("../../machines/cp-pacs.toml")),
    ("fat-tree-200g", include_str!("../../machines/fat-tree-200g.toml")),
    ("dragonfly-200g", include_str!("../../machines/dragonfly-200g.toml")),
    ("ethernet-100", include_str!("../../machines/ethernet-100.toml")),
];

/// The machines of a run.
#[derive(Debug, Clone)]
pub struct Machines {
    all: Vec<Machine>,
}

impl Machines {
    /// The machines of the tree, unchanged. Printed results come from these.
    pub fn stored() -> Machines {
        let parse = |&(name, text): &(&str, &str)| {
            Machine::parse(&file(name), text).expect("a test parses every file")
        };
        Machines { all: FILES.iter().map(parse).collect() }
    }

    /// The same machines, with other values for some keys of one machine's file: constants, or
    /// other entries such as the shape of its network.
    ///
    /// # Errors
    /// The machine's file has no such key, or the machine is invalid with that value.
    ///
    /// # Panics
    /// There is no machine of that name.
    pub fn with(&self, name: &str, values: &[(&str, &str)]) -> Result<Machines, MachineError> {
        let (_, text) = FILES.iter().find(|(known, _)| *known == name).expect("a name of FILES");
        let changed = Machine::parse_with(&file(name), text, values)?;
        let keep = |machine: &Machine| match machine.name == name {
            true => changed.clone(),
            false => machine.clone(),
        };
        Ok(Machines { all: self.all.iter().map(keep).collect() })
    }

    /// The machine with this name.
    ///
    /// # Panics
    /// There is no machine of that name.
    pub fn get(&self, name: &str) -> &Machine {
        self.all.iter().find(|machine| machine.name == name).expect("a name of FILES")
    }
}

fn file(name: &str) -> String {
    format!("machines/{name}.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_and_has_its_name() {
        let machines = Machines::stored();
        for (name, _) in FILES {
            assert_eq!(machines.get(name).name, name);
        }
    }

    #[test]
    fn one_constant_changes_and_nothing_else() {
        let stored = Machines::stored();
        let changed = stored.with("cp-pacs", &[("host.interrupt", "30 us")]).expect("it has one");
        let values = |machines: &Machines| -> Vec<String> {
            let constants = &machines.get("cp-pacs").constants;
            constants
                .iter()
                .map(|constant| format!("{} {}", constant.key, constant.value))
                .collect()
        };
        let (old, new) = (values(&stored), values(&changed));
        let differ: Vec<_> = old.iter().zip(&new).filter(|(old, new)| old != new).collect();
        assert_eq!(differ, [(&"host.interrupt 15 us".to_owned(), &"host.interrupt 30 us".into())]);
        let error = stored.with("cp-pacs", &[("host.interupt", "30 us")]).expect_err("a typo");
        assert!(error.to_string().contains("host.interupt"), "{error}");
    }
}
