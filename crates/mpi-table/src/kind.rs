//! Kinds of arguments, and their types in C and in the Rust of the shared libraries.

/// The purpose of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A handle of an object of MPI.
    Handle(Object),
    /// A handle that may be the null handle, or have any value at ranks where it is not
    /// significant.
    HandleOrNull(Object),
    /// A handle that is written.
    HandleOut(Object),
    /// A handle that is read and written.
    HandleInOut(Object),
    /// Handles that are read.
    HandlesIn(Object),
    /// Handles that are read and written.
    HandlesInOut(Object),
    /// Handles that are written.
    HandlesOut(Object),
    /// A handle of the tools interface; `true` if it is written.
    Tool(&'static str, bool),
    /// The safety level of a callback of the tools interface.
    Safety,
    /// The ordering of the events of a source of the tools interface, which is written.
    OrderOut,
    /// A number.
    Int,
    /// A rank, or a constant in its place.
    Rank,
    /// A rank, a constant in its place, or `MPI_ROOT`.
    Root,
    /// A tag, or the constant for any tag.
    Tag,
    /// A key of attributes, which may be a predefined one.
    Keyval,
    /// An error code or class.
    Code,
    /// A level of thread support.
    Thread,
    /// A number of elements: `int`, or `MPI_Count` in the large form.
    Count,
    /// `MPI_Aint`, or `MPI_Count` in the large form.
    Extent,
    /// `int`, or `MPI_Aint` in the large form.
    Unit,
    /// `MPI_Count` in both forms.
    Wide,
    /// `MPI_Aint` in both forms.
    Address,
    /// `MPI_Offset`.
    Offset,
    /// Numbers.
    IntsIn,
    /// Triples of numbers.
    RangesIn,
    /// Numbers of elements, one for each rank or block.
    CountsIn,
    /// Displacements in elements: `int`, or `MPI_Aint` in the large form.
    DisplacementsIn,
    /// `MPI_Aint`, or `MPI_Count` in the large form.
    ExtentsIn,
    /// `MPI_Aint` in both forms.
    AddressesIn,
    /// A number that is written.
    IntOut,
    /// A rank that is written.
    RankOut,
    /// A flag, 0 or 1, that is written.
    FlagOut,
    /// A key of attributes that is written.
    KeyvalOut,
    /// A key of attributes that is invalidated.
    KeyvalInOut,
    /// An error code that is written.
    CodeOut,
    /// A level of thread support that is written.
    ThreadOut,
    /// A number of elements that is written.
    CountOut,
    /// A number of elements that is read and written.
    CountInOut,
    /// An extent that is written.
    ExtentOut,
    /// An extent that is read and written.
    ExtentInOut,
    /// A [`Kind::Unit`] that is written.
    UnitOut,
    /// An `MPI_Count` that is written.
    WideOut,
    /// An `MPI_Aint` that is written.
    AddressOut,
    /// An `MPI_Offset` that is written.
    OffsetOut,
    /// A length of a string, read and written.
    LengthInOut,
    /// Numbers that are written.
    IntsOut,
    /// Numbers of type `MPI_Count` that are written.
    WidesOut,
    /// Addresses that are written.
    AddressesOut,
    /// Memory that is read.
    BufferIn,
    /// Memory that is written.
    BufferOut,
    /// Memory that is read and written.
    BufferInOut,
    /// Memory that the program hands over.
    Memory,
    /// An address that is not dereferenced.
    Location,
    /// An address of memory that is written.
    PointerOut,
    /// A value that only the program interprets.
    State,
    /// A value that only the program interprets, which is written.
    StateOut,
    /// A Fortran LOGICAL that is read.
    LogicalIn,
    /// A Fortran LOGICAL that is written.
    LogicalOut,
    /// A status that is read.
    StatusIn,
    /// A status that is written, unless it is ignored.
    StatusOut,
    /// A status that is read and written.
    StatusInOut,
    /// Statuses that are written, unless they are ignored.
    StatusesOut,
    /// A string that ends with 0.
    StringIn,
    /// A string that is written.
    StringOut,
    /// A list of strings.
    StringsIn,
    /// Lists of strings.
    StringListsIn,
    /// `argc` of `main`.
    Argc,
    /// `argv` of `main`.
    Argv,
    /// A function of the program of this type, or of another type in the large form.
    Function(&'static str),
    /// Further arguments of any type.
    Rest,
}

/// The kind of object that a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// `MPI_Comm`.
    Comm,
    /// `MPI_Group`.
    Group,
    /// `MPI_Datatype`.
    Type,
    /// `MPI_Op`.
    Op,
    /// `MPI_Request`.
    Request,
    /// `MPI_Message`.
    Message,
    /// `MPI_Info`.
    Info,
    /// `MPI_Errhandler`.
    Errhandler,
    /// `MPI_Win`.
    Win,
    /// `MPI_File`.
    File,
    /// `MPI_Session`.
    Session,
}

/// Objects with their names in the table and in C, and the error class of an invalid handle, as in
/// `hikyaku_mpi::Class` and as in C without its `MPI_`.
type ObjectRow = (&'static str, Object, &'static str, &'static str, &'static str);

const OBJECTS: [ObjectRow; 11] = [
    ("comm", Object::Comm, "MPI_Comm", "Comm", "ERR_COMM"),
    ("group", Object::Group, "MPI_Group", "Group", "ERR_GROUP"),
    ("type", Object::Type, "MPI_Datatype", "Type", "ERR_TYPE"),
    ("op", Object::Op, "MPI_Op", "Op", "ERR_OP"),
    ("request", Object::Request, "MPI_Request", "Request", "ERR_REQUEST"),
    ("message", Object::Message, "MPI_Message", "Request", "ERR_REQUEST"),
    ("info", Object::Info, "MPI_Info", "Info", "ERR_INFO"),
    ("errhandler", Object::Errhandler, "MPI_Errhandler", "Errhandler", "ERR_ERRHANDLER"),
    ("win", Object::Win, "MPI_Win", "Win", "ERR_WIN"),
    ("file", Object::File, "MPI_File", "File", "ERR_FILE"),
    ("session", Object::Session, "MPI_Session", "Session", "ERR_SESSION"),
];

impl Object {
    /// The object of this name in the table.
    pub fn of(name: &str) -> Option<Object> {
        OBJECTS.iter().find(|(other, ..)| *other == name).map(|(_, object, ..)| *object)
    }

    fn row(self) -> &'static ObjectRow {
        OBJECTS.iter().find(|(_, object, ..)| *object == self).expect("each has a row")
    }

    /// The method that finds the object of a handle.
    pub(crate) fn finder(self) -> &'static str {
        if self == Object::Type { "datatype" } else { self.row().0 }
    }

    /// Its type in C.
    pub fn in_c(self) -> &'static str {
        self.row().2
    }

    /// The error class of an invalid handle.
    pub(crate) fn class(self) -> &'static str {
        self.row().3
    }

    /// The error class of an invalid handle in C, without its `MPI_`.
    pub(crate) fn class_in_c(self) -> &'static str {
        self.row().4
    }

    fn in_rust(self) -> &'static str {
        if self == Object::File { "d::File" } else { "d::Handle" }
    }
}

/// Handles of the tools interface.
const TOOLS: [(&str, &str); 6] = [
    ("t_enum", "MPI_T_enum"),
    ("t_cvar", "MPI_T_cvar_handle"),
    ("t_pvar", "MPI_T_pvar_handle"),
    ("t_session", "MPI_T_pvar_session"),
    ("t_registration", "MPI_T_event_registration"),
    ("t_event", "MPI_T_event_instance"),
];

/// Kinds with a name of their own, and their types in C and in Rust, in both forms.
type Row = (&'static str, Kind, [&'static str; 2], [&'static str; 2]);

const INT: [&str; 2] = ["int", "int"];
const INT_P: [&str; 2] = ["int *", "int *"];
const C_INT: [&str; 2] = ["c_int", "c_int"];
const C_INT_OUT: [&str; 2] = ["*mut c_int", "*mut c_int"];
const VOID_P: [&str; 2] = ["void *", "void *"];
const MUT_BYTES: [&str; 2] = ["*mut u8", "*mut u8"];
const STATUS_P: [&str; 2] = ["MPI_Status *", "MPI_Status *"];
const STATUS_OUT: [&str; 2] = ["*mut d::Status", "*mut d::Status"];

const ROWS: &[Row] = &[
    ("int", Kind::Int, INT, C_INT),
    ("rank", Kind::Rank, INT, C_INT),
    ("root", Kind::Root, INT, C_INT),
    ("tag", Kind::Tag, INT, C_INT),
    ("keyval", Kind::Keyval, INT, C_INT),
    ("code", Kind::Code, INT, C_INT),
    ("thread", Kind::Thread, INT, C_INT),
    ("count", Kind::Count, ["int", "MPI_Count"], ["c_int", "i64"]),
    ("extent", Kind::Extent, ["MPI_Aint", "MPI_Count"], ["isize", "i64"]),
    ("unit", Kind::Unit, ["int", "MPI_Aint"], ["c_int", "isize"]),
    ("wide", Kind::Wide, ["MPI_Count"; 2], ["i64"; 2]),
    ("address", Kind::Address, ["MPI_Aint"; 2], ["isize"; 2]),
    ("offset", Kind::Offset, ["MPI_Offset"; 2], ["i64"; 2]),
    ("ints_in", Kind::IntsIn, ["const int *"; 2], ["*const c_int"; 2]),
    ("ranges_in", Kind::RangesIn, ["int (*)[3]"; 2], ["*const c_int"; 2]),
    (
        "counts_in",
        Kind::CountsIn,
        ["const int *", "const MPI_Count *"],
        ["*const c_int", "*const i64"],
    ),
    (
        "displacements_in",
        Kind::DisplacementsIn,
        ["const int *", "const MPI_Aint *"],
        ["*const c_int", "*const isize"],
    ),
    (
        "extents_in",
        Kind::ExtentsIn,
        ["const MPI_Aint *", "const MPI_Count *"],
        ["*const isize", "*const i64"],
    ),
    ("addresses_in", Kind::AddressesIn, ["const MPI_Aint *"; 2], ["*const isize"; 2]),
    ("int_out", Kind::IntOut, INT_P, C_INT_OUT),
    ("rank_out", Kind::RankOut, INT_P, C_INT_OUT),
    ("flag_out", Kind::FlagOut, INT_P, C_INT_OUT),
    ("keyval_out", Kind::KeyvalOut, INT_P, C_INT_OUT),
    ("keyval_inout", Kind::KeyvalInOut, INT_P, C_INT_OUT),
    ("code_out", Kind::CodeOut, INT_P, C_INT_OUT),
    ("thread_out", Kind::ThreadOut, INT_P, C_INT_OUT),
    ("count_out", Kind::CountOut, ["int *", "MPI_Count *"], ["*mut c_int", "*mut i64"]),
    ("count_inout", Kind::CountInOut, ["int *", "MPI_Count *"], ["*mut c_int", "*mut i64"]),
    ("extent_out", Kind::ExtentOut, ["MPI_Aint *", "MPI_Count *"], ["*mut isize", "*mut i64"]),
    ("extent_inout", Kind::ExtentInOut, ["MPI_Aint *", "MPI_Count *"], ["*mut isize", "*mut i64"]),
    ("unit_out", Kind::UnitOut, ["int *", "MPI_Aint *"], ["*mut c_int", "*mut isize"]),
    ("wide_out", Kind::WideOut, ["MPI_Count *"; 2], ["*mut i64"; 2]),
    ("address_out", Kind::AddressOut, ["MPI_Aint *"; 2], ["*mut isize"; 2]),
    ("offset_out", Kind::OffsetOut, ["MPI_Offset *"; 2], ["*mut i64"; 2]),
    ("length_inout", Kind::LengthInOut, INT_P, C_INT_OUT),
    ("ints_out", Kind::IntsOut, INT_P, C_INT_OUT),
    ("wides_out", Kind::WidesOut, ["MPI_Count *"; 2], ["*mut i64"; 2]),
    ("addresses_out", Kind::AddressesOut, ["MPI_Aint *"; 2], ["*mut isize"; 2]),
    ("buffer_in", Kind::BufferIn, ["const void *"; 2], ["*const u8"; 2]),
    ("buffer_out", Kind::BufferOut, VOID_P, MUT_BYTES),
    ("buffer_inout", Kind::BufferInOut, VOID_P, MUT_BYTES),
    ("memory", Kind::Memory, VOID_P, MUT_BYTES),
    ("location", Kind::Location, ["const void *"; 2], ["*const u8"; 2]),
    ("pointer_out", Kind::PointerOut, VOID_P, ["*mut usize"; 2]),
    ("state", Kind::State, VOID_P, ["usize"; 2]),
    ("state_out", Kind::StateOut, VOID_P, ["*mut usize"; 2]),
    ("logical_in", Kind::LogicalIn, VOID_P, ["*const u8"; 2]),
    ("logical_out", Kind::LogicalOut, VOID_P, MUT_BYTES),
    ("status_in", Kind::StatusIn, ["const MPI_Status *"; 2], ["*const d::Status"; 2]),
    ("status_out", Kind::StatusOut, STATUS_P, STATUS_OUT),
    ("status_inout", Kind::StatusInOut, STATUS_P, STATUS_OUT),
    ("statuses_out", Kind::StatusesOut, STATUS_P, STATUS_OUT),
    ("string_in", Kind::StringIn, ["const char *"; 2], ["*const c_char"; 2]),
    ("string_out", Kind::StringOut, ["char *"; 2], ["*mut c_char"; 2]),
    ("strings_in", Kind::StringsIn, ["char **"; 2], ["*const *const c_char"; 2]),
    ("string_lists_in", Kind::StringListsIn, ["char ***"; 2], ["*const usize"; 2]),
    ("t_safety", Kind::Safety, ["MPI_T_cb_safety"; 2], C_INT),
    ("t_order_out", Kind::OrderOut, ["MPI_T_source_order *"; 2], C_INT_OUT),
    ("argc", Kind::Argc, INT_P, C_INT_OUT),
    ("argv", Kind::Argv, ["char ***"; 2], ["*mut usize"; 2]),
    ("rest", Kind::Rest, ["..."; 2], [""; 2]),
];

impl Kind {
    /// The kind of this name in the table.
    pub(crate) fn of(name: &'static str) -> Option<Kind> {
        if let Some((_, kind, ..)) = ROWS.iter().find(|(other, ..)| *other == name) {
            return Some(*kind);
        }
        if let Some(function) = name.strip_prefix("function:") {
            return Some(Kind::Function(function));
        }
        for (tool, in_c) in TOOLS {
            match name.strip_prefix(tool) {
                Some("") => return Some(Kind::Tool(in_c, false)),
                Some("_out" | "_inout") => return Some(Kind::Tool(in_c, true)),
                _ => {}
            }
        }
        for (object, handle, ..) in OBJECTS {
            let kind = match name.strip_prefix(object) {
                Some("") => Kind::Handle(handle),
                Some("_or_null") => Kind::HandleOrNull(handle),
                Some("_out") => Kind::HandleOut(handle),
                Some("_inout") => Kind::HandleInOut(handle),
                Some("s_in") => Kind::HandlesIn(handle),
                Some("s_out") => Kind::HandlesOut(handle),
                Some("s_inout") => Kind::HandlesInOut(handle),
                _ => continue,
            };
            return Some(kind);
        }
        None
    }

    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|(_, kind, ..)| *kind == self)
    }

    /// Its type in C.
    pub fn in_c(self, large: bool) -> String {
        match self {
            Kind::Handle(object) | Kind::HandleOrNull(object) => object.in_c().to_owned(),
            Kind::HandleOut(object)
            | Kind::HandleInOut(object)
            | Kind::HandlesOut(object)
            | Kind::HandlesInOut(object) => format!("{} *", object.in_c()),
            Kind::HandlesIn(object) => format!("const {} *", object.in_c()),
            Kind::Tool(name, false) => name.to_owned(),
            Kind::Tool(name, true) => format!("{name} *"),
            // This function has no count among its arguments.
            Kind::Function(name) if large && name != "MPI_Datarep_extent_function" => {
                format!("{name}_c *")
            }
            // The types of the tools interface are functions, not pointers to functions.
            Kind::Function(name) => format!("{name} *"),
            other => other.row().map_or("", |row| row.2[usize::from(large)]).to_owned(),
        }
    }

    /// Its type in the functions of the shared libraries.
    pub(crate) fn in_rust(self, large: bool) -> String {
        match self {
            Kind::Handle(object) | Kind::HandleOrNull(object) => object.in_rust().to_owned(),
            Kind::HandlesIn(object) => format!("*const {}", object.in_rust()),
            Kind::HandleOut(object)
            | Kind::HandleInOut(object)
            | Kind::HandlesOut(object)
            | Kind::HandlesInOut(object) => format!("*mut {}", object.in_rust()),
            Kind::Tool(_, false) | Kind::Function(_) => "usize".to_owned(),
            Kind::Tool(_, true) => "*mut usize".to_owned(),
            other => other.row().map_or("", |row| row.3[usize::from(large)]).to_owned(),
        }
    }
}
