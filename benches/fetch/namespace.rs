//! A network of the benchmark's own: nothing else talks in it, and its site has an address that counts as public.

use std::net::Ipv4Addr;
use std::process::{ExitCode, Stdio};

use crate::process::{Failure, command};

pub const SITE_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The hidden flag of the run inside.
pub const INSIDE_FLAG: &str = "inside";

/// Takes the address of the site and the program with its arguments. The namespace ends with its last process.
const SCRIPT: &str = "PATH=$PATH:/usr/sbin:/sbin; ip addr add \"$0\"/15 dev lo && ip link set lo up && exec \"$@\"";

/// Runs this program once more, inside, with these further arguments.
pub fn run_inside(further: &[String]) -> Result<ExitCode, Failure> {
    // Root makes a network namespace by itself; anyone else is root of a user namespace first.
    let kind = if nix::unistd::Uid::effective().is_root() { "-n" } else { "-rn" };
    let mut unshare = command("/usr/bin/unshare");
    unshare
        .args([kind, "/bin/sh", "-c", SCRIPT, &SITE_IP.to_string()])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg(format!("--{INSIDE_FLAG}"))
        .args(further)
        .env("PATH", "/usr/bin:/bin")
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit());
    let status = unshare.status().map_err(|error| format!("could not start unshare (util-linux): {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
