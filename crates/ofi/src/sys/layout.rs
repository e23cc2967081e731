//! Sizes, offsets and constants of our structures by libfabric's names, for a test to compare.

use std::mem::offset_of;

use super::abi::{self, flag, mode, mr_mode};

macro_rules! rows {
    ($($kind:ident as $c:literal { $($field:ident $(= $name:literal)?),* $(,)? })*) => {
        vec![$(
            (format!("sizeof(struct {})", $c), size_of::<abi::$kind>()),
            $({
                let name: &[&str] = &[$($name)?];
                let name = name.first().copied().unwrap_or(stringify!($field));
                (format!("offsetof(struct {}, {name})", $c), offset_of!(abi::$kind, $field))
            },)*
        )*]
    };
}

/// Expressions of C with their expected values. A structure of which we define only the beginning
/// has offsets here and no size.
pub fn layout() -> Vec<(String, u64)> {
    let whole = structures();
    let tables = tables().into_iter().filter(|(name, _)| name.starts_with("offsetof"));
    let sizes = whole.into_iter().chain(tables).map(|(name, value)| (name, value as u64));
    sizes.chain(constants()).collect()
}

fn structures() -> Vec<(String, usize)> {
    rows! {
        TxAttr as "fi_tx_attr" { caps, mode, op_flags, msg_order, comp_order, inject_size, size,
            iov_limit, rma_iov_limit, tclass }
        RxAttr as "fi_rx_attr" { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv,
            size, iov_limit }
        EpAttr as "fi_ep_attr" { kind = "type", protocol, protocol_version, max_msg_size,
            msg_prefix_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt, auth_key_size, auth_key }
        DomainAttr as "fi_domain_attr" { domain, name, threading, control_progress, data_progress,
            resource_mgmt, av_type, mr_mode, mr_key_size, cq_data_size, cq_cnt, max_ep_srx_ctx,
            cntr_cnt, mr_iov_limit, caps, mode, auth_key, mr_cnt, tclass }
        FabricAttr as "fi_fabric_attr" { fabric, name, prov_name, prov_version, api_version }
        Info as "fi_info" { next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr,
            dest_addr, handle, tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic }
        Fid as "fid" { fclass, context, ops }
        FidFabric as "fid_fabric" { fid, ops, api_version }
        FidDomain as "fid_domain" { fid, ops, mr }
        FidMr as "fid_mr" { fid, mem_desc, key }
        FidAv as "fid_av" { fid, ops }
        FidCq as "fid_cq" { fid, ops }
        FidEp as "fid_ep" { fid, ops, cm, msg, rma, tagged, atomic, collective }
        AvAttr as "fi_av_attr" { kind = "type", rx_ctx_bits, count, ep_per_node, name, map_addr,
            flags }
        CqAttr as "fi_cq_attr" { size, flags, format, wait_obj, signaling_vector, wait_cond,
            wait_set }
        CqDataEntry as "fi_cq_data_entry" { op_context, flags, len, buf, data }
        CqErrEntry as "fi_cq_err_entry" { op_context, flags, len, buf, data, tag, olen, err,
            prov_errno, err_data, err_data_size }
        Msg as "fi_msg" { msg_iov, desc, iov_count, addr, context, data }
        Context2 as "fi_context2" { internal }
    }
}

fn tables() -> Vec<(String, usize)> {
    rows! {
        Ops as "fi_ops" { size, close, bind, control }
        OpsFabric as "fi_ops_fabric" { size, domain, trywait }
        OpsDomain as "fi_ops_domain" { size, av_open, cq_open, endpoint }
        OpsMr as "fi_ops_mr" { size, reg }
        OpsAv as "fi_ops_av" { size, insert }
        OpsCq as "fi_ops_cq" { size, read, readerr, strerror }
        OpsEp as "fi_ops_ep" { size, getopt, setopt }
        OpsCm as "fi_ops_cm" { size, getname }
        OpsMsg as "fi_ops_msg" { size, recvmsg, send, inject }
        OpsRma as "fi_ops_rma" { size, read, write, writedata }
        OpsAtomic as "fi_ops_atomic" { size, readwrite }
    }
}

fn constants() -> Vec<(String, u64)> {
    let rows = [
        ("FI_MSG", flag::MSG),
        ("FI_RMA", flag::RMA),
        ("FI_ATOMIC", flag::ATOMIC),
        ("FI_READ", flag::READ),
        ("FI_WRITE", flag::WRITE),
        ("FI_RECV", flag::RECV),
        ("FI_SEND", flag::SEND),
        ("FI_REMOTE_READ", flag::REMOTE_READ),
        ("FI_REMOTE_WRITE", flag::REMOTE_WRITE),
        ("FI_MULTI_RECV", flag::MULTI_RECV),
        ("FI_REMOTE_CQ_DATA", flag::REMOTE_CQ_DATA),
        ("FI_CONTEXT", mode::CONTEXT),
        ("FI_CONTEXT2", mode::CONTEXT2),
        ("FI_MR_LOCAL", mr_mode::LOCAL as u64),
        ("FI_MR_VIRT_ADDR", mr_mode::VIRT_ADDR as u64),
        ("FI_MR_ALLOCATED", mr_mode::ALLOCATED as u64),
        ("FI_MR_PROV_KEY", mr_mode::PROV_KEY as u64),
        ("FI_MR_ENDPOINT", mr_mode::ENDPOINT as u64),
        ("FI_ORDER_SAS", abi::ORDER_SAS),
        ("FI_EP_MSG", abi::EP_MSG.into()),
        ("FI_EP_DGRAM", abi::EP_DGRAM.into()),
        ("FI_EP_RDM", abi::EP_RDM.into()),
        ("FI_PROGRESS_MANUAL", abi::PROGRESS_MANUAL.into()),
        ("FI_THREAD_SAFE", abi::THREAD_SAFE.into()),
        ("FI_RM_ENABLED", abi::RM_ENABLED.into()),
        ("FI_AV_TABLE", abi::AV_TABLE.into()),
        ("FI_SOCKADDR_IN", abi::SOCKADDR_IN.into()),
        ("FI_SOCKADDR_IN6", abi::SOCKADDR_IN6.into()),
        ("FI_ADDR_STR", abi::ADDR_STR.into()),
        ("FI_CQ_FORMAT_DATA", abi::CQ_FORMAT_DATA.into()),
        ("FI_WAIT_NONE", abi::WAIT_NONE.into()),
        ("FI_WAIT_FD", abi::WAIT_FD.into()),
        ("FI_GETWAIT", abi::GETWAIT as u64),
        ("FI_ENABLE", abi::ENABLE as u64),
        ("FI_OPT_ENDPOINT", abi::OPT_ENDPOINT as u64),
        ("FI_OPT_MIN_MULTI_RECV", abi::OPT_MIN_MULTI_RECV as u64),
        ("FI_UINT64", abi::UINT64.into()),
        ("FI_SUM", abi::SUM.into()),
        ("FI_EAVAIL", abi::EAVAIL as u64),
        ("FI_ADDR_UNSPEC", abi::ADDR_UNSPEC),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
