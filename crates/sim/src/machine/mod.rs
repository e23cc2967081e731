//! Machines are files: nodes, interface and its step costs, topology, links, host costs.
//!
//! ```text
//!   machines/cp-pacs.toml ──► Machine { shape, links, interface: Interface::CpPacs(costs), .. }
//!                                      + every constant with its source, for people
//! ```
//!
//! A file states clocks, widths, rates, depths and step counts. Results come from running the
//! protocols on them. No curve and no result is ever an input. Every constant has its source: a
//! paper and the place in it, `fitted to` one printed number, or `assumed` with the reason.
//!
//! The parser takes text, and the caller reads files. Every error is one line that names file and
//! key: unknown keys, impossible values, missing keys, constants without a source.

mod build;
mod error;
mod picture;
mod section;
mod shape;

pub use build::Installed;
pub use error::MachineError;
pub use picture::{NetworkPicture, Spot};
pub use section::{MachineConstant, Origin};
pub use shape::{ContentionModel, LinkCosts, NetworkShape};

pub(crate) use section::Section;

use section::SectionBook;

use crate::model::{cenju4, cppacs, dimmnet1, dimmnet2, ethernet, rdma, tofu2};

/// The maximum number of fitted constants of one machine. The parser refuses more.
pub const MOST_FITTED: usize = 4;

/// A simulated machine, from its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The machine's name, one word.
    pub name: String,
    /// A one-line description.
    pub title: String,
    /// The number of nodes.
    pub nodes: u32,
    /// The network's shape.
    pub shape: NetworkShape,
    /// The costs of links and switches, and the model of contention.
    pub links: LinkCosts,
    /// The interface of every node, with the costs of its steps and of the host's steps.
    pub interface: Interface,
    /// Every constant of the file, with its source.
    pub constants: Vec<MachineConstant>,
}

/// The interface of a machine's nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interface {
    /// Paper 000.
    Dimmnet2(Box<dimmnet2::Costs>),
    /// Paper 001.
    Dimmnet1(Box<dimmnet1::Costs>),
    /// Paper 002.
    Tofu2(Box<tofu2::Costs>),
    /// Paper 003.
    Cenju4(Box<cenju4::Costs>),
    /// Paper 004.
    CpPacs(Box<cppacs::Costs>),
    /// A present-day RDMA interface.
    Rdma(Box<rdma::Costs>),
    /// Sockets over a switched Ethernet: the baseline of paper 001.
    Ethernet(Box<ethernet::Ethernet>),
}

impl Interface {
    /// The interface's name in machine files.
    pub fn name(&self) -> &'static str {
        match self {
            Interface::Dimmnet2(_) => "dimmnet2",
            Interface::Dimmnet1(_) => "dimmnet1",
            Interface::Tofu2(_) => "tofu2",
            Interface::Cenju4(_) => "cenju4",
            Interface::CpPacs(_) => "cp-pacs",
            Interface::Rdma(_) => "rdma",
            Interface::Ethernet(_) => "ethernet",
        }
    }

    /// The only shape on which the interface works, if there is one: Cenju-4's switches multicast
    /// and synchronise, and others time the path through one switch by themselves.
    fn needed_shape(&self) -> Option<&'static str> {
        match self {
            Interface::Cenju4(_) => Some("multistage"),
            Interface::Dimmnet1(_) | Interface::Dimmnet2(_) | Interface::Ethernet(_) => {
                Some("switch")
            }
            Interface::Tofu2(_) | Interface::CpPacs(_) | Interface::Rdma(_) => None,
        }
    }

    fn read(
        network: &Section<'_>,
        interface: &Section<'_>,
        host: &Section<'_>,
    ) -> Result<Interface, MachineError> {
        match interface.text("model")? {
            "dimmnet2" => dimmnet2::Costs::read(network, interface, host)
                .map(|costs| Interface::Dimmnet2(Box::new(costs))),
            "dimmnet1" => dimmnet1::Costs::read(interface, host)
                .map(|costs| Interface::Dimmnet1(Box::new(costs))),
            "tofu2" => tofu2::Costs::checked(network, interface, host)
                .map(|costs| Interface::Tofu2(Box::new(costs))),
            "cenju4" => cenju4::Costs::read(network, interface, host)
                .map(|costs| Interface::Cenju4(Box::new(costs))),
            "cp-pacs" => cppacs::Costs::read(network, interface, host)
                .map(|costs| Interface::CpPacs(Box::new(costs))),
            "rdma" => rdma::Costs::read(network, interface, host)
                .map(|costs| Interface::Rdma(Box::new(costs))),
            "ethernet" => ethernet::Ethernet::read(network, interface, host)
                .map(|costs| Interface::Ethernet(Box::new(costs))),
            other => {
                let known = "dimmnet2, dimmnet1, tofu2, cenju4, cp-pacs, rdma, ethernet";
                Err(interface.refuse("model", format!("`{other}` is none of {known}")))
            }
        }
    }
}

impl Machine {
    /// The command queues that each of a node's processes gets, if the interface has queues: an
    /// equal share of those of all engines (paper 002 section 2.2: 48 of a node, so 24 of each of
    /// two processes).
    pub fn queues_of_process(&self, processes: u32) -> Option<u32> {
        match &self.interface {
            Interface::Tofu2(costs) => {
                let all = costs.engines * costs.queues;
                u32::try_from(all / u64::from(processes.max(1))).ok()
            }
            _ => None,
        }
    }

    /// Reads the text of a machine file; `file` is its name in errors.
    ///
    /// # Errors
    /// [`MachineError`]: one line with the file, the key and what to write.
    pub fn parse(file: &str, text: &str) -> Result<Machine, MachineError> {
        Machine::parse_with(file, text, &[])
    }

    /// Reads the text of a machine file with other values for some of its constants or words. Each
    /// is named by its key from the root: `("host.interrupt", "30 us")` or `("topology.shape",
    /// "torus")`.
    ///
    /// # Errors
    /// As [`Machine::parse`], and if the file has no such key.
    pub fn parse_with(
        file: &str,
        text: &str,
        values: &[(&str, &str)],
    ) -> Result<Machine, MachineError> {
        let mut table = text.parse::<toml::Table>().map_err(|error| syntax(file, text, &error))?;
        for (key, value) in values {
            section::replace(&mut table, key, value).map_err(|what| MachineError::Value {
                file: file.to_owned(),
                key: (*key).to_owned(),
                what: what.into(),
            })?;
        }
        if let Some(text) = section::unprintable(&table) {
            return Err(MachineError::Value {
                file: file.to_owned(),
                key: text.escape_debug().to_string(),
                what: "has a line end or another control character".into(),
            });
        }
        let book = SectionBook::new(file);
        let root = Section::root(&book, &table);
        let mut machine = Machine::read(&root)?;
        root.finish()?;
        machine.constants = book.into_constants();
        let fitted = machine.fitted().count();
        if fitted > MOST_FITTED {
            return Err(MachineError::Value {
                file: file.to_owned(),
                key: "source".into(),
                what: format!("{fitted} constants are fitted, at most {MOST_FITTED} may be"),
            });
        }
        Ok(machine)
    }

    /// The fitted constants, each fitted to one printed number.
    pub fn fitted(&self) -> impl Iterator<Item = &MachineConstant> {
        self.constants.iter().filter(|constant| constant.origin == Origin::Fitted)
    }

    fn read(root: &Section<'_>) -> Result<Machine, MachineError> {
        let (name, title) = (root.text("name")?.to_owned(), root.text("title")?.to_owned());
        let nodes = root.whole("nodes", 1..=1 << 20)?;
        let topology = root.section("topology")?;
        let shape = NetworkShape::read(&topology)?;
        if let Some(room) = shape.nodes()
            && u64::from(nodes) > room
        {
            let what = format!("is {nodes}, the topology has room for {room}");
            return Err(root.refuse("nodes", what));
        }
        let network = root.section("network")?;
        let links = LinkCosts::read(&network)?;
        let (interface, host) = (root.section("interface")?, root.section("host")?);
        let model = Interface::read(&network, &interface, &host)?;
        if let Some(needed) = model.needed_shape()
            && topology.text("shape")? != needed
        {
            let what = format!("the interface {} works only on `{needed}`", model.name());
            return Err(topology.refuse("shape", what));
        }
        match &model {
            Interface::Cenju4(_) if links.flow != ContentionModel::CutThrough => {
                let what = "the interface cenju4 works only with `cut-through`";
                return Err(network.refuse("model", what));
            }
            Interface::Dimmnet2(_) if nodes > dimmnet2::MOST_NODES => {
                let most = dimmnet2::MOST_NODES;
                let what = format!("boards' landing rings are simulated for up to {most} nodes");
                return Err(root.refuse("nodes", what));
            }
            _ => {}
        }
        for section in [topology, network, interface, host] {
            section.finish()?;
        }
        let constants = Vec::new();
        Ok(Machine { name, title, nodes, shape, links, interface: model, constants })
    }
}

/// The parser's message as one line.
fn syntax(file: &str, text: &str, error: &toml::de::Error) -> MachineError {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    MachineError::Syntax {
        file: file.to_owned(),
        line: text.get(..at).unwrap_or_default().matches('\n').count() + 1,
        what: error.message().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests;
