//! libpmix.so.2, opened when the launcher's variables request it, and never closed: it has a
//! thread.
//!
//! Structures and calls are those of the PMIx standard 4 and 5 (chapters 3, 5 and 6), which libpmix
//! keeps since 3. Values that it returns are not freed: a few for each rank that is the first of
//! its host.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::launchers::launcher::LauncherError;

/// The maximum bytes of a job's name, without the terminating zero.
const SPACE_BYTES: usize = 256;

/// `PMIX_RANK_WILDCARD`: for values of the job, not of a rank.
pub(super) const ANY: u32 = u32::MAX - 1;

/// `PMIX_GLOBAL`: for ranks of this host and of others.
const GLOBAL: u8 = 3;

/// Kinds of values: `PMIX_BOOL`, `PMIX_STRING`, `PMIX_UINT32`.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;

/// `PMIX_COLLECT_DATA`: a fence brings the published values of all ranks to each host.
const COLLECT_DATA: &[u8] = b"pmix.collect";

/// `pmix_proc_t`: a rank of a job.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Proc {
    space: [c_char; SPACE_BYTES],
    pub(super) rank: u32,
}

impl Proc {
    /// Another rank of the same job.
    pub(super) fn of(self, rank: u32) -> Proc {
        Proc { rank, ..self }
    }
}

/// `pmix_value_t`.
#[repr(C)]
struct PmixValue {
    kind: u16,
    data: PmixData,
}

/// The contents of a [`PmixValue`], for the kinds that are used here.
#[derive(Clone, Copy)]
#[repr(C)]
union PmixData {
    flag: bool,
    string: *mut c_char,
    number: u32,
    /// As large as the largest kind.
    room: [u64; 2],
}

/// `pmix_info_t`: an attribute of a call.
#[repr(C)]
struct PmixInfo {
    key: [u8; 512],
    flags: u32,
    value: PmixValue,
}

const _: () = assert!(size_of::<PmixValue>() == 24 && size_of::<Proc>() == 260);
const _: () = assert!(size_of::<PmixInfo>() == 544);

type Init = unsafe extern "C" fn(*mut Proc, *const c_void, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Proc,
    *const c_char,
    *const c_void,
    usize,
    *mut *mut PmixValue,
) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut PmixValue) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const PmixInfo, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const c_void, usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions in use.
#[derive(Debug)]
pub(super) struct PmixLibrary {
    init: Init,
    get: Get,
    put: Put,
    commit: Commit,
    fence: Fence,
    finalize: Finalize,
    error_string: ErrorString,
}

impl PmixLibrary {
    /// The library, opened at the first call.
    pub(super) fn get() -> Result<&'static PmixLibrary, LauncherError> {
        static LIBRARY: OnceLock<Result<PmixLibrary, String>> = OnceLock::new();
        let opened = LIBRARY.get_or_init(PmixLibrary::open).as_ref();
        opened.map_err(|reason| LauncherError::NoPmix { reason: reason.clone() })
    }

    fn open() -> Result<PmixLibrary, String> {
        // SAFETY: the name is a C string; loading runs only libpmix's own initialisation.
        let handle =
            unsafe { libc::dlopen(c"libpmix.so.2".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(linker_error());
        }
        Ok(PmixLibrary {
            // SAFETY: PMIx_Init has this type, by the standard.
            init: unsafe { find(handle, c"PMIx_Init") }?,
            // SAFETY: as above, PMIx_Get.
            get: unsafe { find(handle, c"PMIx_Get") }?,
            // SAFETY: as above, PMIx_Put.
            put: unsafe { find(handle, c"PMIx_Put") }?,
            // SAFETY: as above, PMIx_Commit.
            commit: unsafe { find(handle, c"PMIx_Commit") }?,
            // SAFETY: as above, PMIx_Fence.
            fence: unsafe { find(handle, c"PMIx_Fence") }?,
            // SAFETY: as above, PMIx_Finalize.
            finalize: unsafe { find(handle, c"PMIx_Finalize") }?,
            // SAFETY: as above, PMIx_Error_string.
            error_string: unsafe { find(handle, c"PMIx_Error_string") }?,
        })
    }

    /// Connects to the launcher. Returns the job and rank of this process.
    pub(super) fn init(&self) -> Result<Proc, LauncherError> {
        let mut own = Proc { space: [0; SPACE_BYTES], rank: 0 };
        // SAFETY: there is room for the result, and no attributes are given.
        let code = unsafe { (self.init)(&raw mut own, ptr::null(), 0) };
        self.check("PMIx_Init", code).map(|()| own)
    }

    /// A text that `whose` has published, or that the launcher provides about it.
    pub(super) fn text(&self, whose: Proc, key: &str) -> Result<String, LauncherError> {
        let value = self.value(whose, key)?;
        if value.kind != STRING {
            return Err(self.failure("PMIx_Get", format!("{key} is no text")));
        }
        // SAFETY: the value is of the kind that this field holds.
        let text = unsafe { value.data.string };
        // SAFETY: a string of the library, which is never freed.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        Ok(text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default())
    }

    /// The same for a number.
    pub(super) fn number(&self, whose: Proc, key: &str) -> Result<u32, LauncherError> {
        let value = self.value(whose, key)?;
        match value.kind {
            // SAFETY: the value is of the kind that this field holds.
            UINT32 => Ok(unsafe { value.data.number }),
            _ => Err(self.failure("PMIx_Get", format!("{key} is no number"))),
        }
    }

    fn value(&self, whose: Proc, key: &str) -> Result<&'static PmixValue, LauncherError> {
        let name = CString::new(key).unwrap_or_default();
        let mut value = ptr::null_mut();
        // SAFETY: a rank, a C string, no attributes, and room for the result.
        let code =
            unsafe { (self.get)(&raw const whose, name.as_ptr(), ptr::null(), 0, &raw mut value) };
        self.check("PMIx_Get", code)?;
        // SAFETY: null, or a value of the library, which is never freed.
        let value = unsafe { value.as_ref() };
        value.ok_or_else(|| self.failure("PMIx_Get", format!("no value of {key}")))
    }

    /// Publishes a text of this rank, with the next [`PmixLibrary::fence`].
    pub(super) fn put(&self, key: &str, text: &str) -> Result<(), LauncherError> {
        let (name, text) = (CString::new(key), CString::new(text));
        let (name, text) = (name.unwrap_or_default(), text.unwrap_or_default());
        let data = PmixData { string: text.as_ptr().cast_mut() };
        let mut value = PmixValue { kind: STRING, data };
        // SAFETY: a C string and a value; both are copied and not written to.
        let code = unsafe { (self.put)(GLOBAL, name.as_ptr(), &raw mut value) };
        self.check("PMIx_Put", code)
    }

    /// Waits for all ranks; afterwards their published values can be read.
    ///
    /// The values are collected: otherwise each read of another host's value is a request to that
    /// host, which Slurm's server sometimes answers by "not found".
    pub(super) fn fence(&self) -> Result<(), LauncherError> {
        // SAFETY: the function takes nothing.
        let code = unsafe { (self.commit)() };
        self.check("PMIx_Commit", code)?;
        let value = PmixValue { kind: BOOL, data: PmixData { flag: true } };
        let mut collect = PmixInfo { key: [0; 512], flags: 0, value };
        collect.key[..COLLECT_DATA.len()].copy_from_slice(COLLECT_DATA);
        // SAFETY: no list of ranks means all of the job; the attribute is read during the call.
        let code = unsafe { (self.fence)(ptr::null(), 0, &raw const collect, 1) };
        self.check("PMIx_Fence", code)
    }

    /// Leaves in an orderly way.
    pub(super) fn finalize(&self) {
        // SAFETY: no attributes are given. A launcher that is gone need not know.
        let _ = unsafe { (self.finalize)(ptr::null(), 0) };
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), LauncherError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number.
        let text = unsafe { (self.error_string)(code) };
        // SAFETY: null or a constant string.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        let reason = text.map_or_else(String::new, |text| text.to_string_lossy().into_owned());
        Err(self.failure(call, format!("{reason} ({code})")))
    }

    fn failure(&self, call: &'static str, reason: String) -> LauncherError {
        LauncherError::Pmix { call, reason }
    }
}

/// Finds a function.
///
/// # Safety
///
/// `F` is the type of the function of that name, a function pointer.
unsafe fn find<F: Copy>(handle: *mut c_void, symbol: &'static CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is of an open library, the name is a C string.
    let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if found.is_null() {
        return Err(linker_error());
    }
    // SAFETY: a function pointer is as large as `found` and not null; the caller vouches for `F`.
    Ok(unsafe { ptr::from_ref(&found).cast::<F>().read() })
}

fn linker_error() -> String {
    // SAFETY: dlerror has no condition.
    let text = unsafe { libc::dlerror() };
    // SAFETY: null or a string that lives until the next call of this thread.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    text.map_or_else(|| "no reason given".to_owned(), |text| text.to_string_lossy().into_owned())
}
