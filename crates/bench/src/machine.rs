//! The machine of a measurement, as the kernel describes it.

use std::fs;

use serde::Serialize;

use super::hardware;

/// The description printed with every result. It contains nothing private: no host, no user.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MachineDescription {
    /// `model name` of /proc/cpuinfo, or the architecture if the file has none.
    pub(crate) cpu: String,
    /// Online processors.
    pub(crate) cores: usize,
    /// The processors this process may use.
    pub(crate) affinity: Vec<usize>,
    /// The CPU quota of the control groups, in cores; absent without a limit.
    pub(crate) quota_cores: Option<f64>,
    /// Kernel release.
    pub(crate) kernel: String,
}

impl MachineDescription {
    /// Describes this machine; unreadable values are reported as unknown.
    pub(crate) fn describe() -> MachineDescription {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let kernel = read("/proc/sys/kernel/osrelease");
        MachineDescription {
            cpu: model(&cpuinfo).unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            affinity: hardware::affinity(),
            quota_cores: hikyaku_shm::cpu_quota(),
            kernel: if kernel.is_empty() { "unknown".into() } else { kernel.trim().to_owned() },
        }
    }

    /// One line for the head of a report.
    pub(crate) fn line(&self) -> String {
        let cores = self.affinity.len().max(1);
        let quota = self.quota_cores.map(|q| format!(", quota {q:.2} cores")).unwrap_or_default();
        format!("{}, {cores} of {} cores{quota}, Linux {}", self.cpu, self.cores, self.kernel)
    }
}

fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_off_cpuinfo() {
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\n";
        assert_eq!(model(cpuinfo).as_deref(), Some("AMD EPYC"));
        assert_eq!(model("processor : 0\n"), None);
    }

    #[test]
    fn this_machine_has_a_description() {
        let machine = MachineDescription::describe();
        assert!(!machine.cpu.is_empty() && !machine.kernel.is_empty());
        assert!(machine.line().contains("Linux"));
    }
}
