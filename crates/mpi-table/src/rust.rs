//! Generates the functions of a shared library in Rust. They only convert the arguments to those of
//! `hikyaku-mpi`, with its dialect.
//!
//! Every function has two names, `MPI_` and `PMPI_`, and neither calls the other, because a tool
//! may replace the first (MPI 5.0 §15.2). The output is a module that expects the dialect in
//! another module beside it.

use std::fmt::Write as _;

use crate::kind::{Kind, Object};
use crate::{Argument, Function};

/// The text before the functions.
const HEAD: &str = r#"
#[allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::not_unsafe_ptr_arg_deref,
    clippy::clone_on_copy,
    clippy::redundant_clone,
    clippy::ptr_as_ptr,
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    clippy::missing_safety_doc,
    missing_docs,
    unused_variables
)]
mod functions {
use std::ffi::{c_char, c_int};

use hikyaku_mpi::{
    BlockTypes, Blocks, Buffer, Dialect, Elements, HandleAt, Handles, HandlesAt, NumberAt, Numbers,
    NumbersAt, Object, Operands, Out, StatusesAt, Text, TextAt, Texts, status_of,
};

use crate::dialect as d;
use crate::dialect::This as D;
"#;

/// The functions of a table as a Rust module.
pub fn functions(table: &[Function]) -> String {
    let mut text = HEAD.to_owned();
    for function in table {
        for large in [false, true] {
            if !large || function.has_large {
                // Writing to a string cannot fail.
                let _ = write_function(&mut text, function, table, large);
            }
        }
    }
    text + "}\n"
}

/// How a function executes an operation that is described once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Blocking: complete when the function returns.
    Run,
    /// Non-blocking: left in flight.
    Start,
    /// Persistent: may be started repeatedly.
    Keep,
}

/// The operation of a collective function, and the function's form of it; `None` if the function is
/// not a collective.
fn verb_of(function: &Function, table: &[Function]) -> Option<(String, Verb)> {
    let collective = ["collectives", "topologies"].contains(&function.chapter);
    let is_form = |name: &str| {
        // A function is an operation if it has a non-blocking form.
        let started = format!("I{}{}", name[..1].to_lowercase(), &name[1..]);
        table.iter().any(|other| other.name == started)
    };
    let name = function.name;
    if !collective {
        return None;
    }
    if let Some(base) = name.strip_suffix("_init") {
        return Some((base.to_owned(), Verb::Keep));
    }
    if is_form(name) {
        return Some((name.to_owned(), Verb::Run));
    }
    let rest = name.strip_prefix('I')?;
    let base = format!("{}{}", rest[..1].to_uppercase(), &rest[1..]);
    is_form(&base).then_some((base, Verb::Start))
}

fn write_function(
    text: &mut String,
    function: &Function,
    table: &[Function],
    large: bool,
) -> std::fmt::Result {
    let name = format!("{}{}", function.name, if large { "_c" } else { "" });
    let taken: Vec<&Argument> =
        function.arguments.iter().filter(|argument| argument.kind != Kind::Rest).collect();
    let typed: Vec<String> = taken
        .iter()
        .map(|argument| format!("{}: {}", ident(argument.name), argument.kind.in_rust(large)))
        .collect();
    let (typed, names) = (typed.join(", "), idents(&taken));
    let result = match function.returns {
        None => "c_int".to_owned(),
        Some("double") => "f64".to_owned(),
        Some("address") => "isize".to_owned(),
        Some("int") => "c_int".to_owned(),
        Some(object) => Object::of(object).map_or("", |object| handle_type(object)).to_owned(),
    };
    let body = body(function, table, &name, large);
    // One body, to which both names jump: the code that catches panics is inlined only once.
    writeln!(text, "#[inline(never)]\nextern \"C\" fn {name}({typed}) -> {result} {{\n{body}\n}}")?;
    for prefix in ["MPI_", "PMPI_"] {
        writeln!(
            text,
            "#[unsafe(no_mangle)]\nextern \"C\" fn {prefix}{name}({typed}) -> {result} {{\n    \
             {name}({names})\n}}"
        )?;
    }
    Ok(())
}

fn handle_type(object: Object) -> &'static str {
    if object == Object::File { "d::File" } else { "d::Handle" }
}

fn idents(arguments: &[&Argument]) -> String {
    arguments.iter().map(|argument| ident(argument.name)).collect::<Vec<_>>().join(", ")
}

/// An argument's name, changed if it is a keyword of Rust.
fn ident(name: &str) -> String {
    if ["type", "ref", "in", "fn", "box"].contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

/// The object whose error handler gets failures: the first argument that can have one. A function
/// that makes an object without another one has the handler itself (MPI 5.0 §7.4.2, §11.3.1).
fn scope(function: &Function) -> String {
    let of = |kinds: &[Object]| {
        function.arguments.iter().find(|argument| match argument.kind {
            Kind::Handle(object) | Kind::HandleOrNull(object) => kinds.contains(&object),
            _ => false,
        })
    };
    let has_handler = of(&[Object::Comm, Object::Win, Object::Session]);
    let is_made =
        |it: &Argument| matches!(it.kind, Kind::HandleOut(Object::Comm | Object::Session));
    let makes = function.arguments.iter().any(is_made);
    match has_handler.or_else(|| of(&[Object::Errhandler]).filter(|_| makes)) {
        Some(Argument { name, kind: Kind::Handle(object) | Kind::HandleOrNull(object) }) => {
            format!("Some((Object::{object:?}, {}))", ident(name))
        }
        _ => "None".to_owned(),
    }
}

fn body(function: &Function, table: &[Function], name: &str, large: bool) -> String {
    let scope = scope(function);
    if let Some(result) = function.returns {
        return value(function, result);
    }
    if !function.is_built {
        let call = described(function, name, &[]);
        return format!("    hikyaku_mpi::unsupported::<D>({call}, {scope})");
    }
    let passed = |argument: &Argument| pass(argument, large);
    let all: Vec<&Argument> = function.arguments.iter().collect();
    let form = match verb_of(function, table) {
        None => format!("mpi.{}({})", method(function.does), together(&all, passed)),
        Some((base, verb)) => collective(&all, &base, verb, passed),
    };
    let mpi = if large { "let mpi = &mpi.with_large_counts(); " } else { "" };
    let nulled: String = all.iter().filter_map(|it| nulled(it)).collect();
    // A valid communicator or session implies that MPI is in use.
    let implies = scope != "None" && !scope.contains("Errhandler");
    let needs = if implies || function.is_always_allowed() { "" } else { "mpi.needs_mpi()?; " };
    // Move: borrowed values would be stored twice, by this call and by the code that catches
    // panics.
    format!(
        "    hikyaku_mpi::call::<D>({}, {scope}, move |mpi| {{ {needs}{nulled}{mpi}{form} }})",
        described(function, name, &function.arguments)
    )
}

/// The description of a function for its failures.
fn described(function: &Function, name: &str, arguments: &[Argument]) -> String {
    let listed = arguments
        .iter()
        .filter_map(|it| Some(format!("(\"{}\", hikyaku_mpi::Class::{})", it.name, it.class()?)));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let is_for_any_thread = function.is_for_any_thread();
    format!(
        "&hikyaku_mpi::CalledFunction {{ name: \"MPI_{name}\", arguments: &[{listed}], \
         is_for_any_thread: {is_for_any_thread} }}"
    )
}

/// The arguments of a method's call, each converted by `pass`. Arguments that together describe
/// elements become one value.
fn together(arguments: &[&Argument], pass: impl Fn(&Argument) -> Option<String>) -> String {
    let (mut values, mut rest) = (Vec::new(), arguments);
    while !rest.is_empty() {
        let (value, length) = value_of(rest);
        let (own, after) = rest.split_at(length);
        let list = own.iter().filter_map(|it| pass(it)).collect::<Vec<_>>().join(", ");
        if !list.is_empty() {
            values.push(value.map_or(list.clone(), |value| format!("{value}::new({list})")));
        }
        rest = after;
    }
    values.join(", ")
}

/// The type of the value that the first arguments form, and the number of these arguments.
fn value_of(arguments: &[&Argument]) -> (Option<&'static str>, usize) {
    let is_buffer = |kind| matches!(kind, Kind::BufferIn | Kind::BufferOut | Kind::BufferInOut);
    let mut kinds = [None; 5];
    kinds.iter_mut().zip(arguments).for_each(|(kind, it)| *kind = Some(it.kind));
    match kinds {
        [Some(buffer), Some(Kind::Count), Some(Kind::Handle(Object::Type)), ..]
            if is_buffer(buffer) =>
        {
            (Some("Elements"), 3)
        }
        [
            Some(buffer),
            Some(Kind::CountsIn),
            Some(Kind::DisplacementsIn | Kind::AddressesIn),
            Some(Kind::Handle(Object::Type) | Kind::HandlesIn(Object::Type)),
            ..,
        ] if is_buffer(buffer) => (Some("Blocks"), 4),
        [
            Some(Kind::BufferIn),
            Some(Kind::BufferOut),
            Some(Kind::Count | Kind::CountsIn),
            Some(Kind::Handle(Object::Type)),
            Some(Kind::Handle(Object::Op)),
        ] => (Some("Operands"), 5),
        _ => (None, 1),
    }
}

/// Hints are not used, but their handles are checked.
fn hints(arguments: &[&Argument], pass: impl Fn(&Argument) -> Option<String>) -> String {
    let hints = arguments.iter().filter(|it| it.kind == Kind::Handle(Object::Info));
    hints.filter_map(|it| Some(format!("{}; ", pass(it)?))).collect()
}

/// The body of a collective in one of its forms.
fn collective(
    arguments: &[&Argument],
    base: &str,
    verb: Verb,
    pass: impl Fn(&Argument) -> Option<String>,
) -> String {
    let of_form = |argument: &Argument| {
        matches!(argument.kind, Kind::HandleOut(Object::Request))
            || (verb == Verb::Keep && argument.kind == Kind::Handle(Object::Info))
    };
    let own: Vec<&Argument> = arguments.iter().copied().filter(|it| !of_form(it)).collect();
    // Some types are not significant at some ranks, or with MPI_IN_PLACE, and may be invalid there.
    let given = |it: &Argument| match it.kind {
        Kind::Handle(Object::Type) => Some(found(Object::Type, it)),
        Kind::HandlesIn(Object::Type) => Some(format!("BlockTypes::Given({})", pass(it)?)),
        _ => pass(it),
    };
    let bound: Vec<String> = own
        .iter()
        .filter_map(|it| Some(format!("let {} = {};", ident(it.name), given(it)?)))
        .collect();
    // The program's lists are valid only until the function returns.
    let kept: Vec<String> = match verb {
        Verb::Keep => own.iter().filter_map(|it| keep_list(it, base)).collect(),
        Verb::Run | Verb::Start => Vec::new(),
    };
    let copies = together(&own, |it| Some(format!("{}.clone()", ident(it.name))));
    let (bound, kept, method) = (bound.join(" "), kept.join(" "), method(base));
    let of_kind = |kind| arguments.iter().find(|it| it.kind == kind).and_then(|it| pass(it));
    let request = of_kind(Kind::HandleOut(Object::Request)).unwrap_or_default();
    let names = together(&own, |it| Some(ident(it.name)));
    if base.starts_with("Neighbor") {
        // The description itself is kept, and the lists are read once.
        let described = format!("mpi.{method}({names})?");
        let info = of_kind(Kind::Handle(Object::Info)).unwrap_or_default();
        return match verb {
            Verb::Run => format!("{bound} {described}.run()"),
            Verb::Start => format!("{bound} mpi.leave_exchange({described}, {request})"),
            Verb::Keep => format!("{bound} mpi.keep_exchange({described}, {info}, {request})"),
        };
    }
    let bound = hints(arguments, &pass) + &bound;
    let can_be_over = matches!(base, "Barrier" | "Bcast" | "Allgather" | "Allreduce");
    let lists = (&*names, &*copies, &*request);
    let mut among = act(verb, &method, can_be_over, lists);
    if verb == Verb::Run && IS_TRIED.contains(&base) {
        among = format!("{} else {{ {among} }}", at_once(&own, &method));
    }
    // Intercommunicators have descriptions of their own.
    let between = act(verb, &format!("inter_{method}"), false, lists);
    format!("{bound} {kept} if comm.is_inter() {{ {between} }} else {{ {among} }}")
}

/// Keeps a list of the program for a persistent operation, where it is significant: elsewhere its
/// pointer may be anything.
fn keep_list(argument: &Argument, base: &str) -> Option<String> {
    let (name, said) = (ident(argument.name), argument.name);
    let mpi = match argument.kind {
        Kind::CountsIn | Kind::DisplacementsIn => "",
        Kind::HandlesIn(_) => "mpi, ",
        _ => return None,
    };
    // The result of this operation is divided among the ranks of one group.
    let size = if base == "Reduce_scatter" { "local_size" } else { "size" };
    let kept = format!("{name}.kept({mpi}comm.{size}() as usize, \"{said}\")?");
    let condition = match base {
        "Gatherv" | "Scatterv" => "comm.is_root(root)",
        "Alltoallv" | "Alltoallw" if name.starts_with('s') => "!sendbuf.is_in_place::<D>()",
        _ => return Some(format!("let {name} = {kept};")),
    };
    Some(format!("let {name} = if {condition} {{ {kept} }} else {{ {name} }};"))
}

/// Operations with a fast path that is tried before they are described.
const IS_TRIED: [&str; 12] = [
    "Allgather",
    "Allgatherv",
    "Allreduce",
    "Alltoall",
    "Alltoallv",
    "Exscan",
    "Gather",
    "Reduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Scan",
    "Scatter",
];

/// The call of the fast path. It borrows types and communicator.
fn at_once(arguments: &[&Argument], method: &str) -> String {
    let lent = together(arguments, |it| {
        let lent = match it.kind {
            Kind::Handle(Object::Type | Object::Comm) => "&",
            Kind::CountsIn | Kind::DisplacementsIn => "&",
            _ => "",
        };
        Some(format!("{lent}{}", ident(it.name)))
    });
    format!("if let Some(done) = mpi.{method}_at_once({lent}) {{ done }}")
}

/// Executes a described operation. `can_be_over`: it may complete before there is a future.
fn act(
    verb: Verb,
    method: &str,
    can_be_over: bool,
    (names, copies, request): (&str, &str, &str),
) -> String {
    let future = if can_be_over { ".in_flight()" } else { "" };
    match verb {
        Verb::Run if can_be_over => format!("mpi.{method}({names})?.run()"),
        Verb::Run => format!("mpi.run(&comm.clone(), mpi.waiting().{method}({names})?)"),
        Verb::Start => {
            format!("mpi.leave(&comm.clone(), mpi.{method}({names})?{future}, {request})")
        }
        Verb::Keep => {
            let keep = if can_be_over { "keep_at_once" } else { "keep" };
            let described = format!("mpi.{method}({copies})");
            format!("mpi.{keep}(&comm.clone(), move |mpi, comm| {described}, {request})")
        }
    }
}

/// The body of a function that returns a value and not an error code.
fn value(function: &Function, result: &str) -> String {
    let names = idents(&function.arguments.iter().collect::<Vec<_>>());
    match Object::of(result) {
        None if result == "int" => format!("    hikyaku_mpi::to_int::<D, _>({names})"),
        Some(object) => format!("    hikyaku_mpi::from_int::<D, _>(Object::{object:?}, {names})"),
        None => format!("    hikyaku_mpi::{}::<D>({names})", method(function.name)),
    }
}

/// The name of the method that implements a function.
fn method(name: &str) -> String {
    name.to_lowercase()
}

/// Finds the object of a handle, or fails with the argument's name.
fn found(object: Object, argument: &Argument) -> String {
    let (finder, name, said) = (object.finder(), ident(argument.name), argument.name);
    format!("mpi.{finder}({name}).map_err(|it| it.named(\"{said}\"))")
}

/// Writes the null handle for a communicator that the call makes, before it looks at its other
/// arguments: programs read the handle even if the call fails.
fn nulled(argument: &Argument) -> Option<String> {
    let (name, said) = (ident(argument.name), argument.name);
    let is_made = argument.kind == Kind::HandleOut(Object::Comm);
    let at = format!("HandleAt::<D>::new(Object::Comm, {name}, \"{said}\")?");
    is_made.then(|| format!("let {name} = {at}.nulled(); "))
}

/// An argument of the method's call; `None` if the method does not take it.
fn pass(argument: &Argument, large: bool) -> Option<String> {
    let (name, said) = (ident(argument.name), argument.name);
    let size = if large { "large" } else { "small" };
    Some(match argument.kind {
        Kind::Handle(Object::Request) => format!("D::number(Object::Request, {name})"),
        Kind::HandleOrNull(_) => name,
        Kind::Handle(Object::Message) => format!("D::number(Object::Message, {name})"),
        Kind::Handle(object) => format!("{}?", found(object, argument)),
        Kind::HandleOut(Object::Comm) => name,
        Kind::HandleOut(object) | Kind::HandleInOut(object) => {
            format!("HandleAt::<D>::new(Object::{object:?}, {name}, \"{said}\")?")
        }
        Kind::HandlesIn(object) => format!("Handles::<D>::new(Object::{object:?}, {name})"),
        Kind::HandlesInOut(object) | Kind::HandlesOut(object) => {
            format!("HandlesAt::<D>::new(Object::{object:?}, {name})")
        }
        Kind::Int | Kind::Wide | Kind::Offset | Kind::State | Kind::Function(_) => name,
        Kind::Tool(..) | Kind::Safety | Kind::OrderOut => name,
        Kind::Rank | Kind::Root => format!("D::rank({name})"),
        Kind::Tag => format!("D::tag({name})"),
        Kind::Keyval => format!("D::keyval({name})"),
        Kind::Code => name,
        Kind::Thread => format!("D::thread_level({name})"),
        Kind::Count => format!("i64::from({name})"),
        Kind::Extent | Kind::Unit | Kind::Address => format!("{name} as i64"),
        Kind::IntsIn | Kind::RangesIn => format!("Numbers::small({name})"),
        Kind::CountsIn => format!("Numbers::{size}({name})"),
        Kind::DisplacementsIn if large => format!("Numbers::large({name}.cast())"),
        Kind::DisplacementsIn => format!("Numbers::small({name})"),
        Kind::ExtentsIn | Kind::AddressesIn => format!("Numbers::large({name}.cast())"),
        Kind::IntOut | Kind::FlagOut | Kind::KeyvalOut | Kind::KeyvalInOut | Kind::LengthInOut => {
            format!("Out::new({name}, \"{said}\")?")
        }
        Kind::RankOut => format!("Out::new({name}, \"{said}\")?.mapped(D::rank_out)"),
        Kind::CodeOut => format!("Out::new({name}, \"{said}\")?"),
        Kind::ThreadOut => format!("Out::new({name}, \"{said}\")?.mapped(D::thread_level_out)"),
        Kind::CountOut | Kind::CountInOut => format!("NumberAt::{size}({name}, \"{said}\")?"),
        Kind::ExtentOut | Kind::ExtentInOut | Kind::AddressOut | Kind::WideOut => {
            format!("NumberAt::large({name}.cast(), \"{said}\")?")
        }
        Kind::UnitOut if large => format!("NumberAt::large({name}.cast(), \"{said}\")?"),
        Kind::UnitOut => format!("NumberAt::small({name}, \"{said}\")?"),
        Kind::OffsetOut => format!("NumberAt::large({name}, \"{said}\")?"),
        Kind::IntsOut => format!("NumbersAt::small({name})"),
        Kind::WidesOut => format!("NumbersAt::large({name})"),
        Kind::AddressesOut => format!("NumbersAt::large({name}.cast())"),
        Kind::BufferIn | Kind::Location => format!("Buffer::new({name}.cast_mut())"),
        Kind::BufferOut | Kind::BufferInOut | Kind::Memory => format!("Buffer::new({name})"),
        Kind::LogicalIn => format!("Buffer::new({name}.cast_mut()).not_null(\"{said}\")?"),
        Kind::LogicalOut => format!("Buffer::new({name}).not_null(\"{said}\")?"),
        Kind::PointerOut | Kind::StateOut => format!("Out::new({name}, \"{said}\")?"),
        Kind::StatusIn => format!("status_of::<D>({name}, \"{said}\")?"),
        Kind::StatusOut | Kind::StatusesOut => format!("StatusesAt::<D>::new({name})"),
        Kind::StatusInOut => format!("StatusesAt::<D>::needed({name}, \"{said}\")?"),
        Kind::StringIn => format!("Text::new({name}).read(\"{said}\")?"),
        Kind::StringOut => format!("TextAt::new({name}, \"{said}\")"),
        Kind::StringsIn => format!("Texts::new({name})"),
        Kind::StringListsIn => name,
        Kind::Argc | Kind::Argv | Kind::Rest => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::table;

    fn built(name: &str) -> (Function, Vec<Function>) {
        let mut all = table().unwrap();
        all.iter_mut().for_each(|function| function.is_built = true);
        (all.iter().find(|function| function.name == name).unwrap().clone(), all)
    }

    #[test]
    fn a_function_passes_what_its_kinds_say() {
        let (recv, all) = built("Recv");
        let text = functions(&[recv]);
        for part in [
            "extern \"C\" fn MPI_Recv(buf: *mut u8, count: c_int, ",
            "extern \"C\" fn PMPI_Recv_c(buf: *mut u8, count: i64, ",
            "mpi.recv(Elements::new(Buffer::new(buf), i64::from(count), mpi.datatype(datatype)",
            "Some((Object::Comm, comm))",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!functions(&all).contains("MPI_MPI_"));
    }

    #[test]
    fn a_collective_is_described_once_and_has_three_verbs() {
        for (name, verb) in
            [("Bcast", Verb::Run), ("Ibcast", Verb::Start), ("Bcast_init", Verb::Keep)]
        {
            let (function, all) = built(name);
            assert_eq!(verb_of(&function, &all), Some(("Bcast".to_owned(), verb)));
            let text = functions(&all);
            for method in ["bcast", "inter_bcast"] {
                let elements = "Elements::new(buffer, count, datatype)";
                let call = format!("mpi.{method}({elements}, root, comm)");
                assert!(text.contains(&call), "{call}");
            }
        }
        let (neighbor, all) = built("Ineighbor_allgather");
        assert_eq!(verb_of(&neighbor, &all).unwrap().0, "Neighbor_allgather");
        for name in ["Op_create", "Send", "Send_init", "Info_create", "Reduce_local"] {
            let (function, all) = built(name);
            assert_eq!(verb_of(&function, &all), None, "{name}");
        }
    }

    #[test]
    fn a_failure_goes_to_the_object_or_to_the_handler_of_one_to_be_made() {
        for (name, expected) in [
            ("Send", "Some((Object::Comm, comm))"),
            ("Session_init", "Some((Object::Errhandler, errhandler))"),
            ("Comm_create_from_group", "Some((Object::Errhandler, errhandler))"),
            ("Comm_set_errhandler", "Some((Object::Comm, comm))"),
            ("File_set_errhandler", "None"),
            ("Type_free", "None"),
        ] {
            assert_eq!(scope(&built(name).0), expected, "{name}");
        }
    }

    #[test]
    fn what_is_not_built_says_so() {
        let (mut send, _) = built("Ssend");
        send.is_built = false;
        assert!(
            functions(&[send])
                .contains("unsupported::<D>(&hikyaku_mpi::CalledFunction { name: \"MPI_Ssend\"")
        );
    }
}
