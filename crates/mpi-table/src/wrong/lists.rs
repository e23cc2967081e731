//! Facts about single functions that the kinds of arguments do not express. Each line states its
//! reason. A line that applies to nothing fails a test, so that the lists can only shrink.

use crate::{Argument, Function, Kind};

/// An exception for functions and arguments. A name may begin or end with `*`; an empty one matches
/// any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exception {
    function: &'static str,
    argument: &'static str,
    /// The way in which the value is wrong.
    how: &'static str,
    /// The error class that is right here, without `MPI_`; `-`: the value is not tried.
    pub(super) instead: &'static str,
    /// The reason.
    pub(super) why: &'static str,
}

/// A number, a string or a list, by its name in the standard, with right and wrong values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    function: &'static str,
    argument: &'static str,
    pub(super) right: &'static str,
    pub(super) wrong: &'static [(&'static str, &'static str)],
}

const fn not(
    function: &'static str,
    argument: &'static str,
    how: &'static str,
    instead: &'static str,
    why: &'static str,
) -> Exception {
    Exception { function, argument, how, instead, why }
}

const fn number(
    function: &'static str,
    argument: &'static str,
    right: &'static str,
    wrong: &'static [(&'static str, &'static str)],
) -> Number {
    Number { function, argument, right, wrong }
}

/// Functions that the program does not call. `tests/mpi/refused.c` calls them wrongly.
pub(super) const UNCALLED: &[Exception] = &[
    not("Abort", "", "", "", "it ends the program"),
    not("Init*", "", "", "", "the program itself calls it first"),
    not("Finalize", "", "", "", "the program itself calls it last"),
    not("Pcontrol", "", "", "", "every level is right, and what follows has no kind"),
];

/// Functions that are called only with wrong arguments.
pub(super) const ALONE: &[Exception] =
    &[not("Abi_set_fortran_*", "", "", "", "whoever is first sets it once, as MPICH does itself")];

/// Arguments for which every value is right.
pub(super) const ANY: &[Exception] = &[
    not("", "reorder", "", "", "every number is a truth value"),
    not("", "commute", "", "", "every number is a truth value"),
    not("", "high", "", "", "every number is a truth value"),
    not("", "flag", "", "", "every number is a truth value"),
    not("", "disp", "", "", "a shift may be of any length"),
    not("", "stride", "", "", "a type may go backwards"),
    not("", "lb", "", "", "a bound may be anywhere"),
    not("", "extent", "", "", "a bound may be anywhere"),
    not("Comm_split*", "key", "", "", "ranks are ordered by it, whatever it is"),
    not("Status_set_source", "source", "", "", "a status holds what a program puts there"),
    not("Status_set_tag", "tag", "", "", "a status holds what a program puts there"),
    not("Status_set_error", "error", "", "", "a status holds what a program puts there"),
];

/// Wrong values with an error class that differs from that of their kind, or that a function
/// accepts.
pub(super) const INSTEAD: &[Exception] = &[
    not("Free_mem", "base", "null", "ERR_BASE", "the standard has a class for it"),
    not("Scatter*", "recvbuf", "in place", "SUCCESS", "the root's own part is there"),
    not("Iscatter*", "recvbuf", "in place", "SUCCESS", "the root's own part is there"),
    not("Scatter*", "sendbuf", "in place", "ERR_BUFFER", "the root gives all parts"),
    not("Iscatter*", "sendbuf", "in place", "ERR_BUFFER", "the root gives all parts"),
    not("Send*", "sendbuf", "in place", "ERR_BUFFER", "messages are not in place"),
    not("Isend*", "sendbuf", "in place", "ERR_BUFFER", "messages are not in place"),
    not("Neighbor*", "sendbuf", "in place", "ERR_BUFFER", "nothing is given to oneself"),
    not("Ineighbor*", "sendbuf", "in place", "ERR_BUFFER", "nothing is given to oneself"),
    not("", "sendbuf", "in place", "SUCCESS", "what a rank gives lies where it receives"),
    not("Comm_get_attr", "comm_keyval", "predefined", "SUCCESS", "they are there to be read"),
    not("Attr_get", "keyval", "predefined", "SUCCESS", "they are there to be read"),
    not("Type_get_contents_c", "array_of_large_counts", "no place", "-", "there are none"),
    not("Type_commit", "datatype", "predefined", "SUCCESS", "it is committed already"),
    not("", "*_attr_fn", "null", "SUCCESS", "MPI_COMM_NULL_COPY_FN and its kin are null"),
    not("Keyval_create", "copy_fn", "null", "SUCCESS", "MPI_NULL_COPY_FN is null"),
    not("Keyval_create", "delete_fn", "null", "SUCCESS", "MPI_NULL_DELETE_FN is null"),
    not("*call_errhandler", "errorcode", "unknown", "SUCCESS", "a handler is told whatever it is"),
    not("Info_*", "info", "null", "ERR_INFO", "these are about the object"),
    not("Abi_set_fortran_info", "info", "null", "ERR_INFO", "this is what it sets"),
    not("Comm_set_info", "info", "null", "-", "MPICH refuses it, and the standard does not say"),
    not("", "info", "null", "SUCCESS", "MPI_INFO_NULL stands for no hints"),
    not("Wait", "request", "null", "SUCCESS", "a null request is complete"),
    not("Test", "request", "null", "SUCCESS", "a null request is complete"),
    not("Request_get_status", "request", "null", "SUCCESS", "a null request is complete"),
    not("", "array_of_displacements", "negative", "SUCCESS", "a block may lie before"),
    not("Dist_graph_neighbors", "*weights", "no place", "SUCCESS", "the graph has no weights"),
    not("Session_get_nth_pset", "pset_name", "no place", "SUCCESS", "the room for it is none"),
];

const ARG: &str = "ERR_ARG";
const NEGATIVE: &[(&str, &str)] = &[("-1", ARG)];
const NO_RANK: &[(&str, &str)] = &[("99", "ERR_RANK"), ("-77", "ERR_RANK")];
const KEY: &[(&str, &str)] = &[("\"\"", "ERR_INFO_KEY")];
/// A leader's rank in the other group: that group may have any size.
const NO_LEADER: &[(&str, &str)] = &[("99", "ERR_RANK"), ("-77", "ERR_RANK")];

/// Right and wrong values by name. The first matching line counts.
pub(super) const NUMBERS: &[Number] = &[
    // For single functions.
    number("Alloc_mem", "size", "64", NEGATIVE),
    number("Info_get_nthkey", "n", "0", &[("-1", ARG), ("99", ARG)]),
    number("Session_get_nth_pset", "n", "0", &[("-1", ARG), ("99", ARG)]),
    number("Dims_create", "nnodes", "1", &[("-1", "ERR_DIMS"), ("0", "ERR_DIMS")]),
    number("Dims_create", "dims", "0", &[("-1", "ERR_DIMS")]),
    number("Type_match_size", "size", "4", &[("3", ARG), ("-1", ARG)]),
    number("Type_create_darray", "size", "1", &[("-1", ARG), ("0", ARG)]),
    number("Comm_create_from_group", "group", "group", &[]),
    number("Abi_set_fortran_booleans", "logical_true", "fortran", &[]),
    number("Abi_set_fortran_info", "info", "info", &[]),
    number("Comm_set_info", "info", "info", &[]),
    number("Cancel", "request", "made_active()", &[]),
    number("Remove_error_class", "errorclass", "*made_class()", &[]),
    number("Remove_error_code", "errorcode", "*made_code()", &[]),
    number("Free_mem", "base", "pointer", &[]),
    number("Intercomm_create_from_groups", "remote_group", "other_group", &[]),
    number("Intercomm_create_from_groups", "remote_leader", "0", NO_LEADER),
    number("Type_create_f90_*", "r", "5", &[("99999", ARG)]),
    // Numbers of things.
    number("", "count", "1", &[]),
    number("", "incount", "1", &[]),
    number("", "n", "1", NEGATIVE),
    number("", "argc", "1", NEGATIVE),
    number("", "nnodes", "1", NEGATIVE),
    number("", "indegree", "1", NEGATIVE),
    number("", "outdegree", "1", NEGATIVE),
    number("", "max*", "8", NEGATIVE),
    number("", "valuelen", "8", NEGATIVE),
    number("", "buflen", "(int[]){8}", &[("(int[]){-1}", ARG)]),
    number("", "size", "sizeof room", &[]),
    number("", "outsize", "sizeof out", NEGATIVE),
    number("", "insize", "sizeof in", NEGATIVE),
    number("", "position", "0", &[("-1", ARG), ("9999", "ERR_TRUNCATE")]),
    number("", "ndims", "1", &[("-1", "ERR_DIMS")]),
    // Ranks.
    number("", "ranks", "0", NO_RANK),
    number("", "ranks1", "0", NO_RANK),
    number("", "ranges", "0, 0, 1", &[("0, 99, 1", "ERR_RANK"), ("0, 0, 0", ARG)]),
    number("", "sources", "0", NO_RANK),
    number("", "destinations", "0", NO_RANK),
    number("", "edges", "0", NO_RANK),
    number("", "local_leader", "0", NO_RANK),
    number("", "remote_leader", "1 - rank", NO_LEADER),
    // Shapes.
    number("", "dims", "1", &[("-1", "ERR_DIMS"), ("99", "ERR_TOPOLOGY")]),
    number("", "coords", "0", &[]),
    number("", "remain_dims", "1", &[]),
    number("", "periods", "1", &[]),
    number("", "direction", "0", &[("-1", "ERR_DIMS"), ("99", "ERR_DIMS")]),
    number("", "indx", "1", &[("-1", "ERR_TOPOLOGY")]),
    number("", "degrees", "1", &[("-1", ARG)]),
    number("", "*weights", "MPI_UNWEIGHTED", &[]),
    // Types.
    number("", "array_of_gsizes", "4", NEGATIVE),
    number("", "array_of_distribs", "(int[]){MPI_DISTRIBUTE_BLOCK}", &[("99", ARG)]),
    number("", "array_of_dargs", "(int[]){MPI_DISTRIBUTE_DFLT_DARG}", &[("-5", ARG)]),
    number("", "array_of_psizes", "1", &[("-1", ARG), ("99", ARG)]),
    number("", "array_of_sizes", "4", NEGATIVE),
    number("", "array_of_subsizes", "2", &[("-1", ARG), ("5", ARG)]),
    number("", "array_of_starts", "1", &[("-1", ARG), ("3", ARG)]),
    number("", "array_of_displacements", "0, 8", &[]),
    number("", "array_of_types", "types", &[]),
    number("", "order", "MPI_ORDER_C", &[("99", ARG)]),
    number("", "p", "5", &[("99999", ARG)]),
    number("", "typeclass", "MPI_TYPECLASS_INTEGER", &[("99", ARG)]),
    number("", "logical_size", "sizeof(int)", &[("3", ARG)]),
    number("", "datarep", "\"external32\"", &[("\"spam\"", ARG)]),
    // Names.
    number("Info_*", "key", "\"a\"", KEY),
    number("Info_set", "value", "\"b\"", &[("\"\"", "ERR_INFO_VALUE")]),
    number("", "pset_name", "\"mpi://SELF\"", &[("\"spam\"", ARG)]),
    number("", "errorclass", "added.class", &[]),
    number("", "color", "0", &[("-77", ARG)]),
    number("", "split_type", "MPI_COMM_TYPE_SHARED", &[("-77", ARG)]),
];

/// Code before and after a call that lets it succeed.
const AROUND: &[(&str, &str, &str)] = &[
    ("Buffer_attach", "", "MPI_Buffer_detach(&pointer, (int[]){0});"),
    ("Buffer_detach", "MPI_Buffer_attach(room, sizeof room);", ""),
    ("Comm_attach_buffer", "", "MPI_Comm_detach_buffer(MPI_COMM_SELF, &pointer, (int[]){0});"),
    ("Comm_detach_buffer", "MPI_Comm_attach_buffer(MPI_COMM_SELF, room, sizeof room);", ""),
    ("Session_attach_buffer", "", "MPI_Session_detach_buffer(session, &pointer, (int[]){0});"),
    ("Session_detach_buffer", "MPI_Session_attach_buffer(session, room, sizeof room);", ""),
    ("Free_mem", "MPI_Alloc_mem(64, MPI_INFO_NULL, &pointer);", ""),
    ("Grequest_start", "", "if (code == MPI_SUCCESS) MPI_Grequest_complete(made.request);"),
    ("Comm_delete_attr", "MPI_Comm_set_attr(MPI_COMM_SELF, key_of.comm, NULL);", ""),
    ("Attr_delete", "MPI_Comm_set_attr(MPI_COMM_SELF, key_of.comm, NULL);", ""),
    ("Type_delete_attr", "MPI_Type_set_attr(derived, key_of.type, NULL);", ""),
    ("Info_delete", "", "MPI_Info_set(info, \"a\", \"b\");"),
    ("Add_error_string", "", "MPI_Remove_error_string(added.code);"),
];

/// The code before and after a call.
pub(super) fn around(function: &Function) -> (String, String) {
    let row = AROUND.iter().find(|(name, ..)| fits(name, function.name));
    let guarded = |act: &str| format!("if (is_running) {{ {act} }} ");
    row.map_or_else(Default::default, |(_, before, after)| {
        let one = |act: &str| if act.is_empty() { String::new() } else { guarded(act) };
        (one(before), one(after))
    })
}

/// Whether every value of an argument is right: memory that is not dereferenced or may be null,
/// values that only the program interprets, and numbers in the list.
pub(super) fn is_any(function: &Function, argument: &Argument) -> bool {
    match argument.kind {
        Kind::State | Kind::Location | Kind::StatusOut | Kind::StatusesOut => true,
        Kind::Argc | Kind::Argv | Kind::Rest => true,
        Kind::Int | Kind::Rank | Kind::Tag | Kind::Count | Kind::Extent => {
            ANY.iter().any(|row| row.matches(function, argument.name))
        }
        _ => false,
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => pattern.is_empty() || pattern == name,
    }
}

impl Exception {
    pub(super) fn matches(&self, function: &Function, argument: &str) -> bool {
        fits(self.function, function.name) && fits(self.argument, argument)
    }
}

impl Number {
    pub(super) fn matches(&self, function: &Function, argument: &str) -> bool {
        fits(self.function, function.name) && fits(self.argument, argument)
    }
}

/// The first line of a list that matches.
pub(super) fn first(
    list: &'static [Exception],
    function: &Function,
    argument: &str,
    how: &str,
) -> Option<&'static Exception> {
    list.iter().find(|row| row.matches(function, argument) && fits(row.how, how))
}

/// Lines of the lists that match nothing.
#[cfg(test)]
pub(super) fn unused(table: &[Function]) -> Vec<String> {
    let built: Vec<&Function> = table.iter().filter(|it| it.is_built).collect();
    let has = |function: &str, argument: &str, how: &str| {
        built.iter().filter(|it| fits(function, it.name)).any(|it| {
            let form = super::Form { function: it, large: false };
            let mut named = it.arguments.iter().filter(|it| fits(argument, it.name));
            match how {
                "" => argument.is_empty() || named.next().is_some(),
                _ => named.any(|it| super::values::wrong(form, it).iter().any(|it| it.how == how)),
            }
        })
    };
    let exceptions = [UNCALLED, ALONE, ANY, INSTEAD].concat();
    let unused = exceptions.iter().filter(|it| !has(it.function, it.argument, it.how));
    let mut lines: Vec<String> = unused.map(|it| format!("{it:?}")).collect();
    for (at, row) in NUMBERS.iter().enumerate() {
        let is_first = |function: &&Function| {
            let mut named = function.arguments.iter().map(|it| it.name);
            let earlier = |name| NUMBERS[..at].iter().any(|it| it.matches(function, name));
            named.any(|name| row.matches(function, name) && !earlier(name))
        };
        if !built.iter().any(is_first) {
            lines.push(format!("{row:?}"));
        }
    }
    let around = AROUND.iter().filter(|row| !has(row.0, "", ""));
    lines.extend(around.map(|row| format!("{row:?}")));
    lines
}
