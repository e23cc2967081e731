//! The differences between binary interfaces: the width and the predefined values of handles, the
//! layout of a status, and the numbers of constants.
//!
//! All other code of this crate uses the numbers of MPI 5.0's own interface (chapter 20). A dialect
//! converts a program's numbers to those and back. It is a type, so that the compiler can inline
//! it: for the standard's own interface it compiles to nothing.

use crate::failure::Class;

/// The kind of object that a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// A communicator.
    Comm = 1,
    /// A group.
    Group,
    /// A datatype.
    Type,
    /// A reduction.
    Op,
    /// A request.
    Request,
    /// A matched message.
    Message,
    /// Pairs of strings.
    Info,
    /// An error handler.
    Errhandler,
    /// A window.
    Win,
    /// A file.
    File,
    /// A session.
    Session,
}

impl Object {
    /// Its name in the standard.
    pub fn name(self) -> &'static str {
        self.described().0
    }

    /// The error class of invalid handles of this kind.
    pub fn class(self) -> Class {
        self.described().1
    }

    fn described(self) -> (&'static str, Class) {
        match self {
            Object::Comm => ("communicator", Class::Comm),
            Object::Group => ("group", Class::Group),
            Object::Type => ("datatype", Class::Type),
            Object::Op => ("operation", Class::Op),
            Object::Request => ("request", Class::Request),
            Object::Message => ("message", Class::Request),
            Object::Info => ("info object", Class::Info),
            Object::Errhandler => ("error handler", Class::Errhandler),
            Object::Win => ("window", Class::Win),
            Object::File => ("file", Class::File),
            Object::Session => ("session", Class::Session),
        }
    }
}

/// A handle as a number: predefined handles as in MPI 5.0 §20.3, below 1,024; ours above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// MPI_COMM_NULL.
    pub const COMM_NULL: Handle = Handle(0x100);
    /// MPI_COMM_WORLD.
    pub const COMM_WORLD: Handle = Handle(0x101);
    /// MPI_COMM_SELF.
    pub const COMM_SELF: Handle = Handle(0x102);
    /// MPI_GROUP_EMPTY.
    pub const GROUP_EMPTY: Handle = Handle(0x109);
    /// MPI_INFO_NULL.
    pub const INFO_NULL: Handle = Handle(0x130);
    /// MPI_INFO_ENV.
    pub const INFO_ENV: Handle = Handle(0x131);
    /// MPI_ERRORS_ARE_FATAL.
    pub const ERRORS_ARE_FATAL: Handle = Handle(0x141);
    /// MPI_ERRORS_ABORT.
    pub const ERRORS_ABORT: Handle = Handle(0x142);
    /// MPI_ERRORS_RETURN.
    pub const ERRORS_RETURN: Handle = Handle(0x143);
    /// MPI_REQUEST_NULL.
    pub const REQUEST_NULL: Handle = Handle(0x180);
    /// MPI_MESSAGE_NO_PROC.
    pub const MESSAGE_NO_PROC: Handle = Handle(0x129);
    /// MPI_DATATYPE_NULL.
    pub const DATATYPE_NULL: Handle = Handle(0x200);
    /// MPI_OP_NULL.
    pub const OP_NULL: Handle = Handle(0x20);

    /// The null handle of a kind of object.
    pub fn null(object: Object) -> Handle {
        Handle(match object {
            Object::Comm => 0x100,
            Object::Group => 0x108,
            Object::Type => 0x200,
            Object::Op => 0x20,
            Object::Request => 0x180,
            Object::Message => 0x128,
            Object::Info => 0x130,
            Object::Errhandler => 0x140,
            Object::Win => 0x110,
            Object::File => 0x118,
            Object::Session => 0x120,
        })
    }
}

/// MPI_ANY_SOURCE.
pub const ANY_SOURCE: i32 = -1;
/// MPI_ANY_TAG.
pub const ANY_TAG: i32 = -2;
/// MPI_PROC_NULL.
pub const PROC_NULL: i32 = -3;
/// MPI_ROOT.
pub const ROOT: i32 = -4;
/// MPI_UNDEFINED, in all interfaces.
pub const UNDEFINED: i32 = -32766;

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The sender's rank.
    pub source: i32,
    /// The tag.
    pub tag: i32,
    /// The error code in the program's numbers; 0 is MPI_SUCCESS. `None`: the program's field stays
    /// unchanged, as required of functions that return the status of one operation (MPI 5.0
    /// §3.2.5).
    pub error: Option<i32>,
    /// Bytes received, packed.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// The status of a null request (MPI 5.0 §3.7.3).
    pub const EMPTY: Status =
        Status { source: ANY_SOURCE, tag: ANY_TAG, error: Some(0), bytes: 0, cancelled: false };

    /// The status of a message from MPI_PROC_NULL (MPI 5.0 §3.10).
    pub const OF_NOBODY: Status = Status { source: PROC_NULL, error: None, ..Status::EMPTY };
}

/// A binary interface.
pub trait Dialect: 'static {
    /// A handle.
    type Handle: Copy + std::fmt::Debug + 'static;
    /// A handle of a file. It may have a type of its own.
    type File: Copy + std::fmt::Debug + 'static;
    /// A status.
    type Status: Copy + Default + std::fmt::Debug + 'static;

    /// MPI_IN_PLACE, as an address.
    const IN_PLACE: usize;
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE, as addresses.
    const STATUS_IGNORE: usize;
    /// MPI_MAX_PROCESSOR_NAME, MPI_MAX_OBJECT_NAME, including the terminating 0.
    const MAX_NAMES: [usize; 2];
    /// MPI_KEYVAL_INVALID.
    const KEYVAL_INVALID: i32;
    /// The first error code that a program may add: the one after MPI_ERR_LASTCODE.
    const FIRST_CODE: i32;
    /// The result of MPI_Abi_get_version.
    const ABI_VERSION: [i32; 2];
    /// MPI_ORDER_C, MPI_ORDER_FORTRAN.
    const ORDERS: [i32; 2];
    /// MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH.
    const TOPOLOGIES: [i32; 3];
    /// MPI_DISTRIBUTE_NONE, BLOCK, CYCLIC, DFLT_DARG.
    const DISTRIBUTIONS: [i32; 4];
    /// The combiners, in the order of [`Combiner`](crate::datatype::Combiner).
    const COMBINERS: [i32; 16];
    /// MPI_TYPECLASS_INTEGER, REAL, COMPLEX, and the class of truth values.
    const TYPE_CLASSES: [i32; 4];
    /// The dialect's name, for the version of the library.
    const NAME: &'static str;

    /// The number of a handle.
    fn number(object: Object, handle: Self::Handle) -> Handle;
    /// The handle of a number.
    fn handle(object: Object, number: Handle) -> Self::Handle;
    /// Converts a rank, or a constant in its place, to the standard's interface.
    fn rank(rank: i32) -> i32;
    /// Converts a rank from the standard's interface.
    fn rank_out(rank: i32) -> i32;
    /// Converts a tag or MPI_ANY_TAG to the standard's interface.
    fn tag(tag: i32) -> i32;
    /// Converts a tag from the standard's interface.
    fn tag_out(tag: i32) -> i32;
    /// Converts a key of attributes. The program's own keys have the same number everywhere.
    fn keyval(keyval: i32) -> i32;
    /// Converts a level of thread support to the standard's interface.
    fn thread_level(level: i32) -> i32;
    /// Converts a level of thread support from the standard's interface.
    fn thread_level_out(level: i32) -> i32;
    /// Converts the result of a comparison from the standard's interface.
    fn comparison_out(comparison: i32) -> i32;
    /// Converts a kind of split to the standard's interface.
    fn split_type(kind: i32) -> i32;
    /// The number of an error class.
    fn class_out(class: Class) -> i32;
    /// The error class of a number, if it is one of the standard's.
    fn class(number: i32) -> Option<Class>;
    /// Writes a status in the dialect's layout.
    fn status_out(status: Status, into: &mut Self::Status);
    /// Reads a status from the dialect's layout.
    fn status(status: &Self::Status) -> Status;
}
