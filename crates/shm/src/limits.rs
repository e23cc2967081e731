//! The resource limits of this process, from `/proc`.
//!
//! `getrlimit` is not used: where a filter refuses it (it is implemented by `prlimit64`), the safe
//! wrapper cannot report that, and panics or returns uninitialised memory.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit};

/// The limits of a resource: address space, file sizes or open files. A `None` in them: unlimited.
pub fn limits_on(which: Resource) -> Rlimit {
    let name = match which {
        Resource::As => "Max address space",
        Resource::Fsize => "Max file size",
        Resource::Nofile => "Max open files",
        _ => return getrlimit(which),
    };
    let told = fs::read_to_string("/proc/self/limits").ok();
    told.and_then(|text| parse(&text, name)).unwrap_or_else(|| getrlimit(which))
}

/// Parses a line such as `Max open files    1024    524288    files`.
fn parse(text: &str, name: &str) -> Option<Rlimit> {
    let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut limit = || match words.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Rlimit { current: limit()?, maximum: limit()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_soft_and_hard_limits() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max file size             unlimited            unlimited            bytes\n\
                    Max open files            1024                 524288               files\n";
        let files = Rlimit { current: Some(1024), maximum: Some(524_288) };
        assert_eq!(parse(text, "Max open files"), Some(files));
        let none = Rlimit { current: None, maximum: None };
        assert_eq!(parse(text, "Max file size"), Some(none));
        assert_eq!(parse(text, "Max address space"), None);
        assert_eq!(parse("Max open files   many  1  files\n", "Max open files"), None);
    }

    #[test]
    fn proc_agrees_with_the_system_call() {
        for which in [Resource::As, Resource::Fsize, Resource::Nofile] {
            assert_eq!(limits_on(which), getrlimit(which));
        }
    }
}
