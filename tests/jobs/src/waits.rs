//! Calls that never return, and the report of each in a job that hangs.
//!
//! The rank of a call's number makes it, all in one job; the last rank receives a message that is
//! never sent.

/// Each call and the continuation of its line after "waits in "; `SELF` is its rank, `LAST` the
/// last one. Virtual time cannot tell that the last call never returns.
pub const CALLS: [(&str, &str); 33] = [
    ("send", "send to rank LAST, tag 3"),
    ("ssend", "send to rank LAST, tag 4"),
    ("recv", "receive from rank LAST, tag 5"),
    ("recv any", "receive from any rank, any tag"),
    ("sendrecv", "receive from rank LAST, tag 6"),
    ("probe", "probe for a message from rank LAST, any tag"),
    ("isend", "send to rank LAST, tag 3"),
    ("irecv", "receive from rank LAST, tag 5"),
    ("wait all", "wait for 3 operations, the first of them: receive from rank LAST, tag 8"),
    ("end of scope", "wait for 2 operations, the first of them: receive from rank LAST, tag 8"),
    ("wait any", "wait for 2 operations, the first of them: receive from rank LAST, tag 8"),
    ("future", "receive from rank LAST, tag 9"),
    ("futures", "wait for 2 operations, the first of them: receive from rank LAST, tag 9"),
    ("one of two futures", "receive from rank LAST, tag 9"),
    ("own future", "a future of the program's own"),
    ("recv beside a collective", "receive from rank LAST, tag 5"),
    ("probe beside a collective", "probe for a message from rank LAST, any tag"),
    ("barrier", "barrier"),
    ("broadcast", "broadcast (root LAST)"),
    ("reduce", "reduce (root SELF)"),
    ("allreduce", "allreduce"),
    ("gather", "gather (root SELF)"),
    ("scatter", "scatter (root LAST)"),
    ("allgather", "allgather"),
    ("alltoall", "alltoall with rank"),
    ("scan", "scan with rank"),
    ("ibroadcast", "broadcast (root LAST) with rank"),
    ("awaited", "allreduce with rank"),
    ("two collectives", "wait for 2 operations, the first of them: barrier with rank"),
    ("persistent", "barrier with rank"),
    ("neighbours", "neighbour exchange with rank"),
    ("neighbours later", "neighbour exchange with rank"),
    ("window", "window wait at rank LAST"),
];
