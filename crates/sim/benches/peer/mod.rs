//! The same halo exchange on SimGrid's SMPI: the peer of `halo-wormhole-torus-1024`.
//!
//! SMPI runs MPI programs in virtual time on models of shared bandwidth (Casanova et al., JPDC 74,
//! 2014). Its torus has the same sizes, rate and latency as ours. The time of a step is the
//! difference of a long and a short run, so that the start is not included.

use std::path::Path;
use std::process::{Command, Stdio};

/// The number of ranks, and of messages per rank and step.
const RANKS: u32 = 1024;
const MESSAGES: u32 = 6;

/// The processor seconds, user and system, of finished children (Linux).
fn children_seconds() -> f64 {
    super::stat_ticks(&[13, 14]) as f64 / 100.0
}

/// The messages per second of processor time.
///
/// # Errors
/// One line that names the missing tool or the failure.
pub(crate) fn halo() -> Result<f64, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path)
    };
    let hosts: String = (0..RANKS).map(|node| format!("node-{node}\n")).collect();
    let (hosts, platform) = (write("hosts", &hosts)?, write("torus.xml", PLATFORM)?);
    let program = folder.join("smpi-halo");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer/halo.c");
    run(Command::new("smpicc").arg("-O2").arg(source).arg("-o").arg(&program))?;
    let seconds = |steps: u32| {
        let before = children_seconds();
        run(Command::new("smpirun")
            .args(["-np", &RANKS.to_string(), "--log=root.thres:error", "-platform"])
            .arg(&platform)
            .arg("-hostfile")
            .arg(&hosts)
            .arg(&program)
            .arg(steps.to_string()))?;
        Ok::<_, String>(children_seconds() - before)
    };
    let (short, long) = (1, 11);
    let took = seconds(long)? - seconds(short)?;
    Ok(f64::from((long - short) * RANKS * MESSAGES) / took)
}

/// The version of SimGrid, from `smpirun`: `SimGrid version 3.32`.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("smpirun").arg("-version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status =
        command.stdout(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} ended with {status}")) }
}

/// 8 x 8 x 16 nodes, 1 GB/s and 50 ns per link.
const PLATFORM: &str = r#"<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="world" routing="Full">
    <cluster id="torus" topology="TORUS" topo_parameters="8,8,16" prefix="node-" suffix=""
             radical="0-1023" speed="1Gf" bw="1GBps" lat="50ns"/>
  </zone>
</platform>
"#;
