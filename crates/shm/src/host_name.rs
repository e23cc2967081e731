//! The name of this machine, for errors and for programs that ask for it. No name is resolved.

/// The host's name; empty if the system does not provide it.
pub fn own_host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
