//! Lists of libfabric's offers: query, read, and copy an entry to open it.

use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{self, NonNull};
use std::slice;

use super::abi::{self, Info, flag, mode, mr_mode};
use super::library::{Libfabric, string};
use crate::{EndpointKind, Error, Offer};

/// The abilities that every endpoint of ours must have.
const NEED: u64 = flag::MSG
    | flag::RMA
    | flag::SEND
    | flag::RECV
    | flag::READ
    | flag::WRITE
    | flag::REMOTE_READ
    | flag::REMOTE_WRITE
    | flag::MULTI_RECV;

/// The modes of memory registration that [`super::memory`] supports.
const MR_MODES: i32 = mr_mode::LOCAL
    | mr_mode::VIRT_ADDR
    | mr_mode::ALLOCATED
    | mr_mode::PROV_KEY
    | mr_mode::ENDPOINT;

/// One entry, copied from a list, that can open a fabric.
pub(crate) struct OwnedInfo {
    info: NonNull<Info>,
    library: &'static Libfabric,
}

impl OwnedInfo {
    /// An empty entry, for hints.
    fn new(library: &'static Libfabric) -> Result<Self, Error> {
        Self::duplicate(library, ptr::null())
    }

    fn duplicate(library: &'static Libfabric, info: *const Info) -> Result<Self, Error> {
        // SAFETY: null, which gives an empty entry, or an entry of a list that is alive.
        let copy = unsafe { (library.dupinfo)(info) };
        let error = || library.error("fi_dupinfo", "libfabric", -(libc::ENOMEM as isize));
        let info = NonNull::new(copy).ok_or_else(error)?;
        Ok(Self { info, library })
    }

    pub(crate) fn as_ptr(&self) -> *mut Info {
        self.info.as_ptr()
    }

    pub(crate) fn library(&self) -> &'static Libfabric {
        self.library
    }

    /// The entry's fields.
    pub(crate) fn get(&self) -> &Info {
        // SAFETY: fi_dupinfo has made it, and only `self` has it.
        unsafe { self.info.as_ref() }
    }

    /// The entry's tables.
    pub(crate) fn parts(&self) -> InfoTables<'_> {
        InfoTables::of(self.get())
    }

    fn register_as_devices(&mut self) {
        // SAFETY: as in `get`, and `self` is borrowed exclusively.
        let info = unsafe { self.info.as_mut() };
        // SAFETY: null, or a table that lives as long as its entry.
        if let Some(domain) = unsafe { info.domain_attr.as_mut() } {
            domain.mr_mode |= MR_MODES & !mr_mode::ENDPOINT;
        }
    }

    fn ask(&mut self, caps: u64) {
        // SAFETY: as in `get`, and `self` is borrowed exclusively.
        let info = unsafe { self.info.as_mut() };
        info.caps = caps;
        info.mode = mode::CONTEXT | mode::CONTEXT2;
        // SAFETY: fi_dupinfo allocates all tables, and only this entry has them.
        if let Some(domain) = unsafe { info.domain_attr.as_mut() } {
            domain.mode = info.mode;
            domain.mr_mode = MR_MODES;
            domain.threading = abi::THREAD_SAFE;
            if caps != 0 {
                domain.resource_mgmt = abi::RM_ENABLED;
                domain.av_type = abi::AV_TABLE;
                domain.cq_data_size = size_of::<u64>();
            }
        }
        if caps == 0 {
            return;
        }
        // SAFETY: as above.
        if let Some(endpoint) = unsafe { info.ep_attr.as_mut() } {
            endpoint.kind = abi::EP_RDM;
        }
        // SAFETY: as above.
        if let Some(send) = unsafe { info.tx_attr.as_mut() } {
            send.msg_order = abi::ORDER_SAS;
        }
        // SAFETY: as above.
        if let Some(receive) = unsafe { info.rx_attr.as_mut() } {
            receive.msg_order = abi::ORDER_SAS;
        }
    }
}

// SAFETY: it owns its memory, which is not changed once it is made.
unsafe impl Send for OwnedInfo {}
// SAFETY: as above.
unsafe impl Sync for OwnedInfo {}

impl Drop for OwnedInfo {
    fn drop(&mut self) {
        // SAFETY: fi_dupinfo has made it, and it is freed once.
        unsafe { (self.library.freeinfo)(self.info.as_ptr()) };
    }
}

/// The tables of an entry. libfabric always fills them in; `None` would be its fault.
pub(crate) struct InfoTables<'a> {
    pub(crate) send: Option<&'a abi::TxAttr>,
    pub(crate) endpoint: Option<&'a abi::EpAttr>,
    pub(crate) domain: Option<&'a abi::DomainAttr>,
    pub(crate) fabric: Option<&'a abi::FabricAttr>,
}

impl<'a> InfoTables<'a> {
    fn of(info: &'a Info) -> Self {
        Self {
            // SAFETY: null, or a table that lives as long as its entry.
            send: unsafe { info.tx_attr.as_ref() },
            // SAFETY: as above.
            endpoint: unsafe { info.ep_attr.as_ref() },
            // SAFETY: as above.
            domain: unsafe { info.domain_attr.as_ref() },
            // SAFETY: as above.
            fabric: unsafe { info.fabric_attr.as_ref() },
        }
    }
}

/// The offers of libfabric, and what is needed to open each.
pub struct Survey {
    offers: Vec<Offer>,
    /// The entry of each offer, if it fits.
    infos: Vec<Option<OwnedInfo>>,
    version: (u32, u32),
}

impl Survey {
    /// Queries libfabric three times: for all offers, for those with what the transport needs, and
    /// for those with atomics besides, since a provider may grant on request what it does not list.
    pub fn take() -> Result<Self, Error> {
        let library = Libfabric::get()?;
        let mut survey = Self { offers: Vec::new(), infos: Vec::new(), version: library.version() };
        for (offer, _) in query(library, 0)? {
            if survey.position(&offer).is_none() {
                survey.offers.push(offer);
                survey.infos.push(None);
            }
        }
        for (mut offer, info) in query(library, NEED)? {
            offer.fits = true;
            match survey.position(&offer) {
                Some(at) if survey.infos[at].is_none() => {
                    survey.offers[at] = offer;
                    survey.infos[at] = Some(info);
                }
                Some(_) => {}
                None => {
                    survey.offers.push(offer);
                    survey.infos.push(Some(info));
                }
            }
        }
        for (offer, info) in query(library, NEED | flag::ATOMIC)? {
            // The first of several is the plain one; shm's second is for device memory.
            if let Some(at) = survey.position(&offer)
                && !survey.offers[at].claims_atomics
            {
                survey.offers[at].claims_atomics = true;
                survey.infos[at] = Some(info);
            }
        }
        Ok(survey)
    }

    /// Makes all providers register memory as device providers do: they choose the keys, peers use
    /// the owner's addresses, and send buffers are registered as well. For tests: it is the nearest
    /// to a device where there is none. The providers of libfabric that share its code for keys
    /// support this.
    #[doc(hidden)]
    pub fn register_as_devices(&mut self) {
        for info in self.infos.iter_mut().flatten() {
            info.register_as_devices();
        }
    }

    /// The index of the same endpoint of the same provider, if it is listed already.
    fn position(&self, new: &Offer) -> Option<usize> {
        self.offers.iter().position(|old| {
            (&old.provider, &old.domain, old.address, old.kind)
                == (&new.provider, &new.domain, new.address, new.kind)
        })
    }

    /// All offers, in libfabric's order, the fastest interfaces first.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// Major and minor version of the library.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// A copy of the entry that opens an offer; `None` if the offer does not fit.
    pub(crate) fn info(&self, offer: usize) -> Option<Result<OwnedInfo, Error>> {
        let info = self.infos.get(offer)?.as_ref()?;
        Some(OwnedInfo::duplicate(info.library, info.as_ptr()))
    }
}

/// All entries that have these capabilities.
fn query(library: &'static Libfabric, caps: u64) -> Result<Vec<(Offer, OwnedInfo)>, Error> {
    let mut hints = OwnedInfo::new(library)?;
    hints.ask(caps);
    let (major, minor) = library.version();
    let version = abi::API_VERSION.min(major << 16 | minor);
    let mut head: *mut Info = ptr::null_mut();
    // SAFETY: the strings may be null, the hints are alive, `head` takes the list.
    let result = unsafe {
        (library.getinfo)(version, ptr::null(), ptr::null(), 0, hints.as_ptr(), &raw mut head)
    };
    if result == -libc::ENODATA {
        return Ok(Vec::new());
    }
    if result != 0 {
        return Err(library.error("fi_getinfo", "libfabric", result as isize));
    }
    let mut found = Vec::new();
    let mut entry = head;
    let mut failed = None;
    // SAFETY: null, or an entry of the list, which is freed below.
    while let Some(info) = unsafe { entry.as_ref() } {
        match OwnedInfo::duplicate(library, info) {
            Ok(copy) => found.push((offer(copy.get()), copy)),
            Err(error) => failed = Some(error),
        }
        entry = info.next;
    }
    if !head.is_null() {
        // SAFETY: fi_getinfo has made the list, and it is freed once.
        unsafe { (library.freeinfo)(head) };
    }
    failed.map_or(Ok(found), Err)
}

/// Converts an entry to plain data.
fn offer(info: &Info) -> Offer {
    let InfoTables { send, endpoint, domain, fabric, .. } = InfoTables::of(info);
    // SAFETY: null, or the string of an entry that is alive.
    let text = |text| unsafe { string(text) }.unwrap_or_default();
    Offer {
        provider: fabric.map(|fabric| text(fabric.prov_name)).unwrap_or_default(),
        domain: domain.map(|domain| text(domain.name)).unwrap_or_default(),
        address: address(info),
        kind: match endpoint.map_or(0, |endpoint| endpoint.kind) {
            abi::EP_MSG => EndpointKind::Connection,
            abi::EP_DGRAM => EndpointKind::Datagram,
            abi::EP_RDM => EndpointKind::Reliable,
            _ => EndpointKind::Other,
        },
        fits: false,
        claims_atomics: false,
        manual_progress: domain.is_some_and(|domain| domain.data_progress == abi::PROGRESS_MANUAL),
        inject: send.map_or(0, |send| send.inject_size),
        max_message: endpoint.map_or(0, |endpoint| endpoint.max_msg_size),
    }
}

/// The address that an endpoint would have, if it is an internet address.
fn address(info: &Info) -> Option<IpAddr> {
    if info.src_addr.is_null() || info.src_addrlen > 128 {
        return None;
    }
    let start = info.src_addr.cast_const().cast::<u8>();
    // SAFETY: the entry says that `src_addrlen` bytes are there.
    let bytes = unsafe { slice::from_raw_parts(start, info.src_addrlen) };
    match (info.addr_format, bytes) {
        // struct sockaddr_in: family 2, port 2, address 4.
        (abi::SOCKADDR_IN, [_, _, _, _, a, b, c, d, ..]) => {
            Some(Ipv4Addr::new(*a, *b, *c, *d).into())
        }
        // struct sockaddr_in6: family 2, port 2, flow 4, address 16.
        (abi::SOCKADDR_IN6, bytes) => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

/// Names the provider of an entry.
pub(crate) fn provider(info: &OwnedInfo) -> String {
    let name = info.parts().fabric.map_or(ptr::null_mut(), |fabric| fabric.prov_name);
    // SAFETY: null, or the string of an entry that is alive.
    unsafe { string(name) }.unwrap_or_default()
}

/// A null pointer for context arguments that are never read.
pub(crate) const NO_CONTEXT: *mut c_void = ptr::null_mut();
