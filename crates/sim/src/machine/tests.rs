//! The machine files of the tree, and every error of a file.

#![allow(clippy::unwrap_used)]

use super::*;
use hikyaku_nic::time::Time;

const FILES: [(&str, &str); 8] = [
    ("dimmnet1", include_str!("../../../../machines/dimmnet1.toml")),
    ("dimmnet2", include_str!("../../../../machines/dimmnet2.toml")),
    ("fx100-tofu2", include_str!("../../../../machines/fx100-tofu2.toml")),
    ("cenju4", include_str!("../../../../machines/cenju4.toml")),
    ("cp-pacs", include_str!("../../../../machines/cp-pacs.toml")),
    ("fat-tree-200g", include_str!("../../../../machines/fat-tree-200g.toml")),
    ("dragonfly-200g", include_str!("../../../../machines/dragonfly-200g.toml")),
    ("ethernet-100", include_str!("../../../../machines/ethernet-100.toml")),
];

const CP_PACS: &str = FILES[4].1;

#[test]
fn eight_machines_come_with_the_tree() {
    for (name, text) in FILES {
        let machine = Machine::parse(name, text).unwrap();
        assert_eq!(machine.name, name);
        assert!(machine.fitted().count() <= MOST_FITTED);
        assert!(machine.constants.len() >= 6, "{name}");
        for constant in &machine.constants {
            assert!(constant.source.len() > 6, "{name}: {}", constant.key);
        }
    }
}

#[test]
fn a_file_says_exactly_one_machine() {
    let machine = Machine::parse("cp-pacs", CP_PACS).unwrap();
    assert_eq!(machine.shape, NetworkShape::HyperCrossbar([4, 8, 8]));
    assert_eq!(machine.nodes, 256);
    assert_eq!(machine.links.rate, crate::network::Rate::megabytes_per_second(300.0));
    let Interface::CpPacs(costs) = &machine.interface else { panic!("another model") };
    assert_eq!(costs.packet_bytes, 2048);
    assert!(costs.start > Time::ZERO);
    assert_eq!(machine.interface.name(), "cp-pacs");
}

/// The error of the file in which `from` is replaced by `to`.
fn error_of(from: &str, to: &str) -> String {
    assert!(CP_PACS.contains(from), "{from}");
    Machine::parse("m.toml", &CP_PACS.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn unknown_keys_are_named_with_what_is_known() {
    let error = error_of("[host]", "[host]\nstrat = 1");
    assert!(error.starts_with("m.toml: unknown key `host.strat`; known here: "), "{error}");
    assert!(error.contains("start"), "{error}");
    let error = error_of("nodes = 256", "nodes = 256\nnode = 1");
    assert!(error.starts_with("m.toml: unknown key `node`"), "{error}");
    let error = error_of("[host]", "[hosts]\na = 1\n[host]");
    assert!(error.starts_with("m.toml: unknown key `hosts`"), "{error}");
    let error = error_of("source = \"004 §2: max", "sauce = 1, source = \"004 §2: max");
    assert!(error.contains("`network.link_rate.sauce`"), "{error}");
}

#[test]
fn missing_keys_come_with_an_example() {
    let error = error_of("start =", "begin =");
    assert!(error.starts_with("m.toml: `host.start` is missing; write `start = {"), "{error}");
    assert!(error_of("[host]", "[guest]").contains("`host` is missing"));
    assert!(error_of("shape = \"hyper-crossbar\"", "").contains("`topology.shape` is missing"));
    assert!(error_of("extent = [4, 8, 8]", "").contains("`topology.extent` is missing"));
    assert!(error_of("name = \"cp-pacs\"", "").contains("`name` is missing"));
    assert!(error_of("nodes = 256", "").contains("`nodes` is missing"));
}

#[test]
fn impossible_values_are_refused_by_key() {
    for (from, to, key) in [
        ("nodes = 256", "nodes = 257", "`nodes`: is 257, the topology has room for 256"),
        ("nodes = 256", "nodes = 0", "`nodes`: is not a whole number from 1"),
        ("nodes = 256", "nodes = \"many\"", "`nodes`"),
        ("\"hyper-crossbar\"", "\"moebius\"", "`topology.shape`: `moebius` is none of"),
        ("[4, 8, 8]", "[4, 8]", "`topology.extent`: is not three numbers"),
        ("[4, 8, 8]", "[4, 0, 8]", "`topology.extent`: is not a list"),
        ("[4, 8, 8]", "[4096, 4096, 8]", "`topology.shape`: has 134217728 nodes"),
        // 2^32 and 2^64 nodes, and more.
        ("[4, 8, 8]", "[65536, 65536, 1]", "`topology.shape`: has 4294967296 nodes"),
        (
            "\"hyper-crossbar\"\nextent = [4, 8, 8]",
            "\"torus\"\nextent = [65536, 65536, 65536, 65536]",
            "`topology.shape`: has 18446744073709551615 nodes",
        ),
        (
            "\"hyper-crossbar\"\nextent = [4, 8, 8]",
            "\"tofu\"\nextent = [4294967295, 4294967295, 4294967295]",
            "`topology.shape`: has 18446744073709551615 nodes",
        ),
        ("\"wormhole\"", "\"worm\"", "`network.model`: `worm` is none of"),
        ("\"300 MB/s\"", "\"300\"", "`network.link_rate`: `300` has no unit"),
        ("\"300 MB/s\"", "300", "`network.link_rate`: `300` has no unit"),
        ("\"300 MB/s\"", "\"0 MB/s\"", "`network.link_rate`: `0 MB/s` is zero"),
        ("\"2048 B\"", "\"-1 B\"", "`interface.packet`: `-1 B` is not a number"),
        ("\"300 MB/s\"", "\"999 B/s\"", "`network.link_rate`: `999 B/s` is not from 1 kB/s"),
        ("\"300 MB/s\"", "\"1000001 GB/s\"", "`network.link_rate`: `1000001 GB/s` is not from"),
        ("\"2.67 us\"", "\"1.1 s\"", "`host.start`: `1.1 s` is not from 1 ps to 1 s"),
        ("\"2048 B\"", "\"1025M\"", "`interface.packet`: `1025M` is not from 1 B to 1 GiB"),
        ("model = \"cp-pacs\"", "model = \"cp-pax\"", "`interface.model`: `cp-pax` is none of"),
        ("name = \"cp-pacs\"", "name = \"\"", "`name`: is not a text"),
    ] {
        let error = error_of(from, to);
        assert!(error.starts_with("m.toml: ") && error.contains(key), "{to}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn numbers_have_a_limit() {
    let error = error_in("cenju4", "check = { value = 4", "check = { value = 1000001");
    assert!(error.contains("`interface.check`: `1000001` is not a whole number from 0"), "{error}");
}

/// What a file says goes to terminals, in one line.
#[test]
fn control_characters_are_refused() {
    for (from, to, key) in [
        ("name = \"cp-pacs\"", "name = \"a\\u001b[31m\"", "`a\\u{1b}[31m`"),
        ("name = \"cp-pacs\"", "name = \"a\\nb\"", "`a\\nb`"),
        ("\"300 MB/s\"", "\"300\\r MB/s\"", "`300\\r MB/s`"),
        ("source = \"004 §2: max", "source = \"\\u0007004 §2: max", "`\\u{7}004 §2: max"),
        ("[4, 8, 8]", "[4, \"\\u001b\", 8]", "`\\u{1b}`"),
        ("[host]", "\"a\\nb\" = 1\n[host]", "`a\\nb`"),
    ] {
        let error = error_of(from, to);
        let expected = format!("m.toml: {key}");
        assert!(error.starts_with(expected.trim_end_matches('`')), "{to}: {error}");
        assert!(error.contains("control character") && !error.contains(char::is_control));
    }
}

/// The error of a file of the tree in which `from` is replaced by `to`.
fn error_in(name: &str, from: &str, to: &str) -> String {
    let (_, text) = FILES.iter().find(|(file, _)| *file == name).unwrap();
    assert!(text.contains(from), "{from}");
    Machine::parse("m.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
}

/// Some interfaces are part of their network, or bring their own path between nodes.
#[test]
fn interfaces_are_refused_on_networks_that_they_cannot_use() {
    let torus = "shape = \"torus\"\nextent = [32]";
    for (name, from, to, key) in [
        ("cenju4", "shape = \"multistage\"", torus, "`topology.shape`"),
        ("cenju4", "model = \"cut-through\"", "model = \"wormhole\"", "`network.model`"),
        ("dimmnet1", "shape = \"switch\"", torus, "`topology.shape`"),
        ("dimmnet2", "shape = \"switch\"", torus, "`topology.shape`"),
        ("ethernet-100", "shape = \"switch\"", torus, "`topology.shape`"),
    ] {
        let error = error_in(name, from, to);
        assert!(error.starts_with(&format!("m.toml: {key}: ")), "{name}: {error}");
    }
}

#[test]
fn sizes_that_no_model_has_are_refused() {
    for (name, from, to, key) in [
        ("dimmnet2", "packet = { value = \"2048 B\"", "packet = { value = \"7 B\"", "packet"),
        ("dimmnet2", "packet = { value = \"2048 B\"", "packet = { value = \"65K\"", "packet"),
        ("dimmnet2", "nodes = 2", "nodes = 1025", "nodes"),
        ("cenju4", "registers = { value = 4", "registers = { value = 0", "registers"),
    ] {
        let error = error_in(name, from, to);
        assert!(error.contains(&format!("{key}`: ")), "{name}: {error}");
    }
}

#[test]
fn a_constant_without_source_is_refused() {
    let bare = error_of("{ value = \"300 MB/s\", source = \"004 §2: maximum", "\"300 MB/s\" # {");
    assert!(bare.contains("`network.link_rate`: has no source; write `link_rate = {"), "{bare}");
    let empty = error_of("source = \"004 §2: maximum throughput of a link\"", "source = \" \"");
    assert!(empty.contains("`network.link_rate`: has no source"), "{empty}");
    let none = error_of("{ value = \"300 MB/s\", source", "{ source");
    assert!(none.contains("`network.link_rate`: has no value"), "{none}");
}

#[test]
fn more_fitted_constants_than_allowed_are_refused() {
    let text = CP_PACS.replace("assumed: ", "fitted to ").replace("004 §2: ", "fitted to ");
    let error = Machine::parse("m.toml", &text).unwrap_err().to_string();
    assert!(error.contains("constants are fitted, at most 4 may be"), "{error}");
}

#[test]
fn invalid_toml_is_reported_by_line() {
    let error = error_of("nodes = 256", "nodes = = 256");
    assert!(error.starts_with("m.toml: line 6: "), "{error}");
    assert!(!error.contains('\n'), "{error}");
    assert!(Machine::parse("m.toml", "").unwrap_err().to_string().contains("`name` is missing"));
}

#[test]
fn every_shape_can_be_written() {
    let shape = |topology: &str| {
        let start = CP_PACS.find("[topology]").unwrap();
        let end = CP_PACS.find("[network]").unwrap();
        let text = format!("{}[topology]\n{topology}\n{}", &CP_PACS[..start], &CP_PACS[end..]);
        Machine::parse("m.toml", &text.replace("nodes = 256", "nodes = 2"))
            .map(|machine| machine.shape)
            .map_err(|error| error.to_string())
    };
    let nodes = |topology: &str| shape(topology).unwrap().nodes();
    assert_eq!(nodes("shape = \"switch\""), None);
    assert_eq!(nodes("shape = \"hub\""), None);
    assert_eq!(nodes("shape = \"multistage\""), None);
    assert_eq!(nodes("shape = \"torus\"\nextent = [4, 4, 4, 4]"), Some(256));
    assert_eq!(nodes("shape = \"mesh\"\nextent = [5]"), Some(5));
    assert_eq!(nodes("shape = \"tofu\"\nextent = [3, 1, 1]"), Some(36));
    assert_eq!(nodes("shape = \"fat-tree\"\nradix = 40\nlevels = 2"), Some(800));
    assert_eq!(nodes("shape = \"fat-tree\"\nradix = 40\nlevels = 1"), Some(40));
    let dragonfly = "shape = \"dragonfly\"\nnodes = 2\nrouters = 4\nlinks = 2\ngroups = ";
    assert_eq!(nodes(&format!("{dragonfly}9")), Some(72));
    assert!(shape(&format!("{dragonfly}10")).unwrap_err().contains("`topology.groups`"));
    assert!(shape("shape = \"fat-tree\"\nradix = 5\nlevels = 2").unwrap_err().contains("radix"));
    let nine = shape("shape = \"torus\"\nextent = [1, 1, 1, 1, 1, 1, 1, 1, 1]").unwrap_err();
    assert!(nine.contains("more than 8 dimensions"), "{nine}");
}
