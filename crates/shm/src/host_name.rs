//! What this machine calls itself, for errors and for whoever asks. Nothing is resolved.

/// The host's name; empty if the system does not say.
pub fn own_host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
