//! A right value in C for every kind of argument, and wrong ones.

use super::lists::{NUMBERS, Number, is_any};
use super::{Form, Wrong, communicates};
use crate::kind::Object;
use crate::{Argument, Kind};

/// The ways in which a handle can be wrong.
const HOW: [&str; 4] = ["null", "freed", "of another kind", "invented"];

/// Elements of the arrays for output.
const ROOM: usize = 64;

/// A right value with which a call succeeds, if `completes`; else a right value with which the call
/// may wait for a message.
pub(super) fn right(form: Form<'_>, argument: &Argument, completes: bool) -> String {
    let function = form.function;
    if let Some(row) = number(form, argument) {
        return array(form, argument, row.right);
    }
    let kind = argument.kind;
    match kind {
        Kind::Handle(object) | Kind::HandleOrNull(object) => handle(form, argument, object),
        Kind::HandleInOut(object) => format!("made_{}()", short(object)),
        Kind::HandleOut(object) => format!("&made.{}", short(object)),
        Kind::HandlesIn(Object::Type) => "types".to_owned(),
        Kind::HandlesIn(Object::Request) | Kind::HandlesInOut(Object::Request) => {
            "made_list()".to_owned()
        }
        Kind::Rank if function.chapter == "messages" && completes => "MPI_PROC_NULL".to_owned(),
        Kind::Rank | Kind::Root => "0".to_owned(),
        Kind::Tag => "7".to_owned(),
        Kind::Count => "1".to_owned(),
        Kind::Keyval => format!("key_of.{}", owner(form)),
        Kind::KeyvalInOut => format!("made_key_of_{}()", owner(form)),
        Kind::Code => "added.code".to_owned(),
        Kind::Int | Kind::Wide | Kind::Offset | Kind::Thread => "0".to_owned(),
        Kind::Extent | Kind::Unit | Kind::Address => "8".to_owned(),
        Kind::CountsIn => array(form, argument, "1, 1"),
        Kind::DisplacementsIn => array(form, argument, "0, 1"),
        Kind::ExtentsIn | Kind::AddressesIn => array(form, argument, "0, 8"),
        Kind::IntsIn => array(form, argument, "0, 0"),
        Kind::BufferIn | Kind::Location => "in".to_owned(),
        Kind::BufferOut | Kind::BufferInOut => "out".to_owned(),
        Kind::Memory => "room".to_owned(),
        Kind::LogicalIn => "in".to_owned(),
        Kind::LogicalOut => "out".to_owned(),
        Kind::PointerOut | Kind::StateOut => "&pointer".to_owned(),
        Kind::StatusIn | Kind::StatusInOut => "&status".to_owned(),
        Kind::StatusOut | Kind::StatusesOut => "statuses".to_owned(),
        Kind::StringIn => "\"mpi://SELF\"".to_owned(),
        Kind::StringsIn => "strings".to_owned(),
        Kind::StringOut => "text".to_owned(),
        Kind::State | Kind::Argc | Kind::Argv => "NULL".to_owned(),
        Kind::Function(name) if form.large => format!("a_{name}_c"),
        Kind::Function(name) => format!("a_{name}"),
        other => format!("({}[{ROOM}]){{0}}", pointee(&other.in_c(form.large))),
    }
}

/// Wrong values of an argument, each wrong in one way.
pub(super) fn wrong(form: Form<'_>, argument: &Argument) -> Vec<Wrong> {
    if is_any(form.function, argument) {
        return Vec::new();
    }
    let mut wrong = by_kind(form, argument);
    for (value, class) in number(form, argument).into_iter().flat_map(|row| row.wrong) {
        wrong.push(Wrong { how: value, value: array(form, argument, value), class });
    }
    wrong
}

/// The entry of the list for an argument that is read.
fn number(form: Form<'_>, argument: &Argument) -> Option<&'static Number> {
    let is_written = match argument.kind {
        Kind::IntOut | Kind::FlagOut | Kind::RankOut | Kind::CodeOut | Kind::CountOut => true,
        Kind::ExtentOut | Kind::UnitOut | Kind::WideOut | Kind::AddressOut => true,
        Kind::StringOut => true,
        Kind::IntsOut => form.function.name != "Dims_create",
        _ => false,
    };
    let mut rows = NUMBERS.iter().filter(|row| row.matches(form.function, argument.name));
    rows.next().filter(|_| !is_written)
}

fn by_kind(form: Form<'_>, argument: &Argument) -> Vec<Wrong> {
    let one = |how, value: &str, class| vec![Wrong { how, value: value.to_owned(), class }];
    let kind = argument.kind;
    match kind {
        Kind::Handle(object) => handles(form, object, true, |it| it),
        Kind::HandleOrNull(object) => handles(form, object, false, |it| it),
        Kind::HandleInOut(object) => {
            let place = |value| format!("({}[]){{{value}}}", object.in_c());
            let mut wrong = handles(form, object, true, place);
            wrong.extend(predefined(object));
            wrong.extend(one("no place", "NULL", "ERR_ARG"));
            wrong
        }
        Kind::HandlesIn(object) | Kind::HandlesInOut(object) => {
            let list = |value| format!("({}[]){{{value}, {value}}}", object.in_c());
            let mut wrong = handles(form, object, object == Object::Type, list);
            wrong.extend(one("no list", "NULL", "ERR_ARG"));
            wrong
        }
        Kind::Count if argument.name.ends_with("size") => one("negative", "-1", "ERR_ARG"),
        Kind::Count => one("negative", "-1", "ERR_COUNT"),
        Kind::Int | Kind::Wide if argument.name.ends_with("count") => {
            one("negative", "-1", "ERR_COUNT")
        }
        Kind::Rank => ranks(argument),
        Kind::Root => [("negative", "-77"), ("beyond", "1"), ("of two groups", "MPI_ROOT")]
            .map(|(how, value)| Wrong { how, value: value.to_owned(), class: "ERR_ROOT" })
            .to_vec(),
        Kind::Tag => {
            let mut wrong = one("negative", "-77", "ERR_TAG");
            if !form.function.arguments.iter().any(|it| it.name == "source")
                || argument.name == "sendtag"
            {
                wrong.extend(one("any", "MPI_ANY_TAG", "ERR_TAG"));
            }
            wrong
        }
        Kind::Keyval => keyvals(form, |value| value),
        Kind::KeyvalInOut => {
            let mut wrong = keyvals(form, |value| format!("(int[]){{{value}}}"));
            wrong.extend(one("no place", "NULL", "ERR_ARG"));
            wrong
        }
        Kind::Code => one("unknown", "987654", "ERR_ARG"),
        Kind::CountsIn => {
            let is_count = ["counts", "blocklengths"].iter().any(|it| argument.name.ends_with(it));
            let class = if is_count { "ERR_COUNT" } else { "ERR_ARG" };
            let mut wrong = one("no list", "NULL", "ERR_ARG");
            wrong.extend(one("negative", &array(form, argument, "-1, -1"), class));
            wrong
        }
        Kind::BufferIn | Kind::BufferOut | Kind::BufferInOut => {
            let mut wrong = one("null", "NULL", "ERR_BUFFER");
            wrong.extend(one("in place", "MPI_IN_PLACE", "ERR_BUFFER"));
            wrong
        }
        Kind::Memory => one("null", "NULL", "ERR_BUFFER"),
        Kind::Function(_) => one("null", "NULL", "ERR_ARG"),
        Kind::Int | Kind::Wide | Kind::Address | Kind::Extent => Vec::new(),
        _ => one("no place", "NULL", "ERR_ARG"),
    }
}

/// A handle that is right for a function.
fn handle(form: Form<'_>, argument: &Argument, object: Object) -> String {
    let name = form.function.name;
    let of = |prefix: &str| name.starts_with(prefix);
    match object {
        Object::Comm if name.to_lowercase().contains("neighbor_") => "cart",
        Object::Comm if of("Cart") && !of("Cart_create") && !of("Cart_map") => "cart",
        Object::Comm if of("Graph_get") || of("Graphdims") || of("Graph_n") => "graph",
        Object::Comm if of("Dist_graph_n") => "dist_graph",
        Object::Comm if of("Comm_remote") || of("Intercomm_merge") => "inter",
        Object::Comm if argument.name == "peer_comm" => "MPI_COMM_WORLD",
        Object::Comm => "MPI_COMM_SELF",
        Object::Group if argument.name == "remote_group" => "MPI_GROUP_NULL",
        Object::Group => "group",
        Object::Type if argument.name == "value_type" => "MPI_FLOAT",
        Object::Type if of("Type_get_contents") => "derived",
        Object::Type if of("Type_set_name") || of("Type_set_attr") => "derived",
        Object::Type => "MPI_INT",
        Object::Op => "MPI_SUM",
        Object::Request if of("Grequest_complete") => "*made_generalised()",
        Object::Request => "*made_request()",
        Object::Message => "MPI_MESSAGE_NO_PROC",
        Object::Info if of("Info_") => "info",
        Object::Info => "MPI_INFO_NULL",
        Object::Errhandler => "handler",
        Object::Session => "session",
        Object::Win | Object::File => "0",
    }
    .to_owned()
}

/// Handles that name no object of a kind. `place` converts each to the argument's form.
fn handles(
    form: Form<'_>,
    object: Object,
    has_null: bool,
    place: impl Fn(String) -> String,
) -> Vec<Wrong> {
    let (short, class, in_c) = (short(object), object.class_in_c(), object.in_c());
    let other = if object == Object::Type { "MPI_COMM_SELF" } else { "MPI_INT" };
    let values = [
        format!("{}_NULL", in_c.to_uppercase()),
        format!("freed.{short}"),
        format!("({in_c}){other}"),
        format!("({in_c})0x5a5a5a5a"),
    ];
    let all = HOW.into_iter().zip(values);
    let kept = all.filter(|(how, _)| has_null || *how != "null");
    let mut wrong: Vec<Wrong> =
        kept.map(|(how, value)| Wrong { how, value: place(value), class }).collect();
    if object == Object::Type && communicates(form.function) {
        let value = place("uncommitted".to_owned());
        wrong.push(Wrong { how: "uncommitted", value, class });
    }
    wrong
}

/// A predefined handle, which no program may free.
fn predefined(object: Object) -> Option<Wrong> {
    let name = match object {
        Object::Comm => "MPI_COMM_WORLD",
        Object::Type => "MPI_INT",
        Object::Op => "MPI_SUM",
        Object::Info => "MPI_INFO_ENV",
        _ => return None,
    };
    let value = format!("({}[]){{{name}}}", object.in_c());
    Some(Wrong { how: "predefined", value, class: object.class_in_c() })
}

fn ranks(argument: &Argument) -> Vec<Wrong> {
    let mut values = vec![("negative", "-77"), ("beyond", "1")];
    if argument.name != "source" {
        values.push(("any", "MPI_ANY_SOURCE"));
    }
    let wrong = |(how, value): (_, &str)| Wrong { how, value: value.to_owned(), class: "ERR_RANK" };
    values.into_iter().map(wrong).collect()
}

fn keyvals(form: Form<'_>, place: impl Fn(String) -> String) -> Vec<Wrong> {
    let (mine, other) = if owner(form) == "type" { ("type", "comm") } else { ("comm", "type") };
    let values = [
        ("null", "MPI_KEYVAL_INVALID".to_owned()),
        ("freed", format!("freed.key_of_{mine}")),
        ("of another kind", format!("key_of.{other}")),
        ("invented", "12345678".to_owned()),
        ("predefined", "MPI_TAG_UB".to_owned()),
    ];
    let wrong = |(how, value)| Wrong { how, value: place(value), class: "ERR_KEYVAL" };
    values.into_iter().map(wrong).collect()
}

/// The kind of object whose attributes a function uses.
fn owner(form: Form<'_>) -> &'static str {
    match form.function.name {
        name if name.starts_with("Type_") => "type",
        name if name.starts_with("Win_") => "win",
        _ => "comm",
    }
}

/// A single value unchanged, or a list of values as an array of the form's type.
fn array(form: Form<'_>, argument: &Argument, values: &str) -> String {
    let in_c = argument.kind.in_c(form.large);
    let is_name = |it: char| it.is_alphabetic() || ['(', '*', '"'].contains(&it);
    let is_list = !values.starts_with(is_name) && in_c.ends_with(['*', ']']);
    if !is_list {
        return values.to_owned();
    }
    if in_c.contains("(*)") {
        return format!("(int[][3]){{{{{values}}}}}");
    }
    format!("({}[{ROOM}]){{{values}}}", pointee(&in_c))
}

/// The type to which a pointer points.
fn pointee(pointer: &str) -> &str {
    pointer.trim_start_matches("const ").trim_end_matches('*').trim()
}

/// The name of a kind of object in `tests/mpi/wrong.h`.
fn short(object: Object) -> &'static str {
    if object == Object::Type { "type" } else { object.finder() }
}
