//! libfabric.so.1, opened once a process and never closed: its providers may have threads.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs, ptr};

use super::abi::{FabricAttr, FidFabric, Info};
use crate::Error;

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut Info);
type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;
type Version = unsafe extern "C" fn() -> u32;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

/// The entry points that we use. Everything else of libfabric is called through tables.
pub(crate) struct Libfabric {
    pub(crate) getinfo: GetInfo,
    pub(crate) freeinfo: FreeInfo,
    pub(crate) dupinfo: DupInfo,
    pub(crate) fabric: OpenFabric,
    version: Version,
    strerror: ErrorText,
}

impl Libfabric {
    /// The library, opened at the first call.
    pub(crate) fn get() -> Result<&'static Self, Error> {
        static LIBRARY: OnceLock<Result<Libfabric, Error>> = OnceLock::new();
        LIBRARY.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, Error> {
        limit_search();
        let kept = KEPT.map(handler_of);
        // SAFETY: the name is a C string; loading runs only libfabric's own initialisation.
        let handle =
            unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        KEPT.into_iter().zip(&kept).for_each(|(signal, kept)| restore(signal, kept));
        if handle.is_null() {
            return Err(Error::NotInstalled { reason: linker_error() });
        }
        Ok(Self {
            // SAFETY: fi_getinfo@FABRIC_1.3 has this type, by libfabric's headers 1.9 to 2.x.
            getinfo: unsafe { find(handle, c"fi_getinfo", c"FABRIC_1.3") }?,
            // SAFETY: as above, fi_freeinfo.
            freeinfo: unsafe { find(handle, c"fi_freeinfo", c"FABRIC_1.3") }?,
            // SAFETY: as above, fi_dupinfo.
            dupinfo: unsafe { find(handle, c"fi_dupinfo", c"FABRIC_1.3") }?,
            // SAFETY: as above, fi_fabric.
            fabric: unsafe { find(handle, c"fi_fabric", c"FABRIC_1.1") }?,
            // SAFETY: as above, fi_version.
            version: unsafe { find(handle, c"fi_version", c"FABRIC_1.0") }?,
            // SAFETY: as above, fi_strerror.
            strerror: unsafe { find(handle, c"fi_strerror", c"FABRIC_1.0") }?,
        })
    }

    /// Major and minor version of the library.
    pub(crate) fn version(&self) -> (u32, u32) {
        // SAFETY: the function takes nothing and has no condition.
        let version = unsafe { (self.version)() };
        (version >> 16, version & 0xffff)
    }

    /// The meaning of an error number.
    pub(crate) fn text(&self, code: i32) -> String {
        // SAFETY: the function takes any number.
        let text = unsafe { (self.strerror)(code) };
        // SAFETY: it returns null or a constant string.
        unsafe { string(text) }.unwrap_or_else(|| "an unknown error".to_owned())
    }

    /// The error of a call, from its negative result.
    pub(crate) fn error(&self, call: &'static str, provider: &str, result: isize) -> Error {
        let code = i32::try_from(-result).unwrap_or(i32::MAX);
        Error::Call { call, provider: provider.to_owned(), code, text: self.text(code) }
    }
}

/// The environment variable of libfabric, and its value, that stops processes of this host from
/// looking for InfiniBand if there is none. Release 2.x then leaves out the module of `verbs`,
/// which reads all names of the kernel: 47 of the 50 ms that the first query takes. The offers stay
/// the same for every other use in the program.
pub fn search_limit() -> Option<(&'static str, &'static str)> {
    limit_without(Path::new("/sys/class/infiniband"))
}

/// Sets that variable for this process, unless it is set or other threads could read variables
/// meanwhile. The daemons of `hikyaku run` set it for their ranks, which may have threads by then;
/// this is for ranks that another launcher has started.
fn limit_search() {
    let is_alone = || fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    let unset = search_limit().filter(|(name, _)| env::var_os(name).is_none());
    if let Some((name, value)) = unset.filter(|_| is_alone()) {
        // SAFETY: this process has no other thread that could read its variables, and none to start
        // one.
        #[expect(clippy::disallowed_methods, reason = "libfabric takes it from nowhere else")]
        unsafe {
            env::set_var(name, value);
        }
    }
}

fn limit_without(devices: &Path) -> Option<(&'static str, &'static str)> {
    (!devices.exists()).then_some(("FI_PROVIDER", "^verbs"))
}

/// Signals whose handlers are kept. Debian's libfabric loads libpsm_infinipath, which on loading
/// replaces them to print a backtrace, and turns a crash into an exit with code 1.
const KEPT: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT, libc::SIGINT, libc::SIGTERM];

fn handler_of(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: a known signal; the action is written to.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: written by the call, which has succeeded.
    (result == 0).then(|| unsafe { action.assume_init() })
}

fn restore(signal: c_int, action: &Option<libc::sigaction>) {
    if let Some(action) = action {
        // SAFETY: the action was in force a moment ago.
        unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
    }
}

/// Finds a function in the version that uses our structures.
///
/// # Safety
///
/// `F` is the type of the function of that name and version, a function pointer.
unsafe fn find<F: Copy>(
    handle: *mut c_void,
    symbol: &'static CStr,
    version: &'static CStr,
) -> Result<F, Error> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is of an open library, the names are C strings.
    let found = unsafe { libc::dlvsym(handle, symbol.as_ptr(), version.as_ptr()) };
    if found.is_null() {
        return Err(Error::TooOld {
            symbol: symbol.to_str().unwrap_or_default(),
            version: version.to_str().unwrap_or_default(),
        });
    }
    // SAFETY: a function pointer is as large as `found` and not null; the caller vouches for `F`.
    Ok(unsafe { ptr::from_ref(&found).cast::<F>().read() })
}

fn linker_error() -> String {
    // SAFETY: dlerror has no condition.
    let text = unsafe { libc::dlerror() };
    // SAFETY: null or a string that lives until the next call of this thread.
    unsafe { string(text) }.unwrap_or_else(|| "no reason given".to_owned())
}

/// A C string as text.
///
/// # Safety
///
/// The pointer is null or of a C string that is not changed meanwhile.
pub(crate) unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infiniband_is_looked_for_where_there_may_be_some() {
        assert_eq!(limit_without(Path::new("/")), None);
        assert_eq!(limit_without(Path::new("/no/devices")), Some(("FI_PROVIDER", "^verbs")));
    }
}
