//! The structures of libfabric's binary interface that we use, as `repr(C)` definitions.
//!
//! They have the layout of interface version 1.17. Later versions only append fields, and the entry
//! points of version `FABRIC_1.3` still accept these; `tests/layout.rs` compares every size and
//! offset here with the headers of an installed libfabric. Functions of tables that we never call
//! are pointers without a type, so that they cannot be called by mistake.

use std::ffi::{c_char, c_int, c_void};

use libc::iovec;

/// The interface version of these structures: `FI_VERSION(1, 17)`.
pub(crate) const API_VERSION: u32 = 1 << 16 | 17;

/// Means "to no particular peer" and "from any peer".
pub(crate) const ADDR_UNSPEC: u64 = u64::MAX;

/// Capabilities, flags of operations and of completions.
pub(crate) mod flag {
    pub(crate) const MSG: u64 = 1 << 1;
    pub(crate) const RMA: u64 = 1 << 2;
    pub(crate) const ATOMIC: u64 = 1 << 4;
    pub(crate) const READ: u64 = 1 << 8;
    pub(crate) const WRITE: u64 = 1 << 9;
    pub(crate) const RECV: u64 = 1 << 10;
    pub(crate) const SEND: u64 = 1 << 11;
    pub(crate) const REMOTE_READ: u64 = 1 << 12;
    pub(crate) const REMOTE_WRITE: u64 = 1 << 13;
    pub(crate) const MULTI_RECV: u64 = 1 << 16;
    pub(crate) const REMOTE_CQ_DATA: u64 = 1 << 17;
}

/// Modes: requirements of a provider on its user.
pub(crate) mod mode {
    pub(crate) const CONTEXT: u64 = 1 << 59;
    pub(crate) const CONTEXT2: u64 = 1 << 52;
}

/// Modes of memory registration.
pub(crate) mod mr_mode {
    use std::ffi::c_int;

    pub(crate) const LOCAL: c_int = 1 << 2;
    pub(crate) const VIRT_ADDR: c_int = 1 << 4;
    pub(crate) const ALLOCATED: c_int = 1 << 5;
    pub(crate) const PROV_KEY: c_int = 1 << 6;
    pub(crate) const ENDPOINT: c_int = 1 << 9;
}

/// Messages of a sender are received in the order they were sent (send after send).
pub(crate) const ORDER_SAS: u64 = 1 << 8;

pub(crate) const EP_MSG: u32 = 1;
pub(crate) const EP_DGRAM: u32 = 2;
pub(crate) const EP_RDM: u32 = 3;

pub(crate) const PROGRESS_MANUAL: u32 = 2;
pub(crate) const THREAD_SAFE: u32 = 1;
pub(crate) const RM_ENABLED: u32 = 2;
pub(crate) const AV_TABLE: u32 = 2;

pub(crate) const SOCKADDR_IN: u32 = 2;
pub(crate) const SOCKADDR_IN6: u32 = 3;
pub(crate) const ADDR_STR: u32 = 9;

pub(crate) const CQ_FORMAT_DATA: u32 = 3;
pub(crate) const WAIT_NONE: u32 = 0;
pub(crate) const WAIT_FD: u32 = 3;

pub(crate) const GETWAIT: c_int = 5;
pub(crate) const ENABLE: c_int = 6;

pub(crate) const OPT_ENDPOINT: c_int = 0;
pub(crate) const OPT_MIN_MULTI_RECV: c_int = 0;

pub(crate) const UINT64: u32 = 7;
pub(crate) const SUM: u32 = 2;

/// `FI_EAVAIL`: the completion queue has an error to read.
pub(crate) const EAVAIL: i32 = 259;

/// A function of a table that we never call.
pub(crate) type Unused = *const c_void;

#[repr(C)]
pub(crate) struct TxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct RxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
}

#[repr(C)]
pub(crate) struct EpAttr {
    pub(crate) kind: u32,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) msg_prefix_size: usize,
    pub(crate) max_order_raw_size: usize,
    pub(crate) max_order_war_size: usize,
    pub(crate) max_order_waw_size: usize,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
}

#[repr(C)]
pub(crate) struct DomainAttr {
    pub(crate) domain: *mut FidDomain,
    pub(crate) name: *mut c_char,
    pub(crate) threading: u32,
    pub(crate) control_progress: u32,
    pub(crate) data_progress: u32,
    pub(crate) resource_mgmt: u32,
    pub(crate) av_type: u32,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    pub(crate) cq_cnt: usize,
    pub(crate) ep_cnt: usize,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) max_ep_tx_ctx: usize,
    pub(crate) max_ep_rx_ctx: usize,
    pub(crate) max_ep_stx_ctx: usize,
    pub(crate) max_ep_srx_ctx: usize,
    pub(crate) cntr_cnt: usize,
    pub(crate) mr_iov_limit: usize,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key: *mut u8,
    pub(crate) auth_key_size: usize,
    pub(crate) max_err_data: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct FabricAttr {
    pub(crate) fabric: *mut FidFabric,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut Fid,
    pub(crate) tx_attr: *mut TxAttr,
    pub(crate) rx_attr: *mut RxAttr,
    pub(crate) ep_attr: *mut EpAttr,
    pub(crate) domain_attr: *mut DomainAttr,
    pub(crate) fabric_attr: *mut FabricAttr,
    pub(crate) nic: *mut c_void,
}

/// The first fields of every object of libfabric.
#[repr(C)]
pub(crate) struct Fid {
    pub(crate) fclass: usize,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *mut Ops,
}

#[repr(C)]
pub(crate) struct Ops {
    pub(crate) size: usize,
    pub(crate) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct FidFabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut OpsFabric,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct OpsFabric {
    pub(crate) size: usize,
    pub(crate) domain:
        unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
    pub(crate) passive_ep: Unused,
    pub(crate) eq_open: Unused,
    pub(crate) wait_open: Unused,
    pub(crate) trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub(crate) struct FidDomain {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut OpsDomain,
    pub(crate) mr: *mut OpsMr,
}

#[repr(C)]
pub(crate) struct OpsDomain {
    pub(crate) size: usize,
    pub(crate) av_open:
        unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
    pub(crate) cq_open:
        unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
    pub(crate) endpoint:
        unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct OpsMr {
    pub(crate) size: usize,
    pub(crate) reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut FidMr,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(crate) struct FidMr {
    pub(crate) fid: Fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct AvAttr {
    pub(crate) kind: u32,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct FidAv {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut OpsAv,
}

#[repr(C)]
pub(crate) struct OpsAv {
    pub(crate) size: usize,
    pub(crate) insert:
        unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct CqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: u32,
    pub(crate) wait_obj: u32,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: u32,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct FidCq {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut OpsCq,
}

#[repr(C)]
pub(crate) struct OpsCq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
    pub(crate) readfrom: Unused,
    pub(crate) readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
    pub(crate) sread: Unused,
    pub(crate) sreadfrom: Unused,
    pub(crate) signal: Unused,
    pub(crate) strerror:
        unsafe extern "C" fn(*mut FidCq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CqDataEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
}

// SAFETY: its pointers are only compared and measured, by the holder of the endpoint.
unsafe impl Send for CqDataEntry {}

#[repr(C)]
pub(crate) struct CqErrEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: usize,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

#[repr(C)]
pub(crate) struct FidEp {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut OpsEp,
    pub(crate) cm: *mut OpsCm,
    pub(crate) msg: *mut OpsMsg,
    pub(crate) rma: *mut OpsRma,
    pub(crate) tagged: *mut c_void,
    pub(crate) atomic: *mut OpsAtomic,
    pub(crate) collective: *mut c_void,
}

#[repr(C)]
pub(crate) struct OpsEp {
    pub(crate) size: usize,
    pub(crate) cancel: Unused,
    pub(crate) getopt:
        unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub(crate) setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *const c_void, usize) -> c_int,
}

#[repr(C)]
pub(crate) struct OpsCm {
    pub(crate) size: usize,
    pub(crate) setname: Unused,
    pub(crate) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(crate) struct Msg {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct OpsMsg {
    pub(crate) size: usize,
    pub(crate) recv: Unused,
    pub(crate) recvv: Unused,
    pub(crate) recvmsg: unsafe extern "C" fn(*mut FidEp, *const Msg, u64) -> isize,
    pub(crate) send: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) sendv: Unused,
    pub(crate) sendmsg: Unused,
    pub(crate) inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64) -> isize,
}

#[repr(C)]
pub(crate) struct OpsRma {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(
        *mut FidEp,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) readv: Unused,
    pub(crate) readmsg: Unused,
    pub(crate) write: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) writev: Unused,
    pub(crate) writemsg: Unused,
    pub(crate) inject: Unused,
    pub(crate) writedata: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
}

#[repr(C)]
pub(crate) struct OpsAtomic {
    pub(crate) size: usize,
    pub(crate) write: Unused,
    pub(crate) writev: Unused,
    pub(crate) writemsg: Unused,
    pub(crate) inject: Unused,
    pub(crate) readwrite: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        u64,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> isize,
}

/// Space that a provider may use while an operation is in flight: the operation's context.
#[repr(C)]
pub(crate) struct Context2 {
    pub(crate) internal: [*mut c_void; 8],
}
