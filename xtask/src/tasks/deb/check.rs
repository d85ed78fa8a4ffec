//! The life of the package on a clean machine: it is installed, works, is upgraded, removed and purged.

use super::machine::{self, Machine};
use crate::{process, repo, setup};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The most that `systemd-analyze security` may say of a unit, in tenths.
const MOST_EXPOSURE: &str = "20";
/// All files but those of other file systems, and what apt, dpkg and systemd keep for themselves.
const FILES: &str = "find / -xdev \\( -path /var/cache/apt -o -path /var/lib/apt -o -path /var/log -o -path \
                     /var/lib/dpkg -o -path /var/cache/ldconfig -o -path /var/cache/debconf -o -path /proc -o -path \
                     /sys -o -path /run -o -path /tmp -o -path /dev -o -path /packages -o -path \
                     /var/lib/systemd/random-seed -o -path '/etc/*-' -o -path /etc/ld.so.cache \\) -prune -o -print";
/// Processes of the package. Brackets keep the pattern from finding itself.
const PROCESSES: &str =
    "pgrep --list-full --full '^[/a-z]*[g]ridmux (serve|device-host|compiler|metrics)'";

/// Has lintian look at a package.
///
/// # Errors
/// It finds an error, or a warning.
pub(super) fn lint(package: &Path) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian
        .args(["--fail-on", "error,warning", "--allow-root"])
        .arg(package);
    process::aloud(&mut lintian)?;
    eprintln!("lintian: no error, no warning");
    Ok(())
}

/// Takes a package through its life; `newer` is the same with a higher version, and that version.
///
/// # Errors
/// Something is not as it is to be, or this machine cannot boot another.
pub(super) fn life(folder: &Path, package: &Path, newer: (&Path, &str)) -> Result<()> {
    if !setup::is_root() {
        bail!("only root can make and boot a clean machine; the package itself is checked");
    }
    let root = machine::make_root(folder)?;
    let packages = root.join("packages");
    fs::create_dir(&packages)?;
    for (name, file) in [("gridmux.deb", package), ("newer.deb", newer.0)] {
        fs::copy(file, packages.join(name)).with_context(|| repo::shown(file))?;
    }
    // What the package depends on is fetched here, because a booted machine has no network.
    let mut fetch = Command::new("chroot");
    fetch.arg(&root).args([
        "sh",
        "-c",
        "apt-get update && apt-get install -y --download-only /packages/gridmux.deb",
    ]);
    fetch
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    process::output(&mut fetch)?;
    let machine = Machine::boot(&root, folder)?;
    machine.until("systemctl is-system-running | grep -E 'running|degraded'")?;
    let before = files(&machine)?;
    installed(&machine)?;
    upgraded(&machine, newer.1)?;
    removed(&machine)?;
    let left: Vec<String> = files(&machine)?.difference(&before).cloned().collect();
    if !left.is_empty() {
        bail!("these are left after the purge:\n{}", left.join("\n"));
    }
    eprintln!("deb: purged, nothing is left but the users");
    drop(machine);
    machine::remove_root(&root)
}

fn files(machine: &Machine) -> Result<BTreeSet<String>> {
    let list = machine.must(FILES)?;
    Ok(list.lines().map(ToOwned::to_owned).collect())
}

/// Installs the package: the service starts, serves its tenants, and is closed.
fn installed(machine: &Machine) -> Result<()> {
    machine.must("apt-get install -y /packages/gridmux.deb")?;
    machine.until("systemctl is-active --quiet gridmux")?;
    for (unit, state) in [("gridmux", "enabled"), ("gridmux-metrics", "disabled")] {
        machine.must(&format!(
            "test \"$(systemctl is-enabled {unit})\" = {state}"
        ))?;
        let limit = format!("--threshold={MOST_EXPOSURE}");
        let security = format!("systemd-analyze security --no-pager {limit} {unit} | tail -n 1");
        let file = format!("/lib/systemd/system/{unit}.service");
        machine.must(&format!("systemd-analyze verify --man=no {file}"))?;
        machine.must(&format!(
            "systemd-analyze security --offline=true {limit} {file}"
        ))?;
        eprintln!("deb: {}", machine.must(&security)?.trim());
    }
    machine.must("gridmux serve --check")?;
    machine.must("gridmux tenant list | grep admin")?;
    machine.must("gridmux workload run vecadd --size tiny --launches 3 --tenant admin")?;
    // What it says of the kernel is this machine's affair, and not the package's.
    eprint!("{}", machine.must("gridmux doctor || test $? = 1")?);
    machine.must("systemctl start gridmux-metrics")?;
    let asked = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9400; printf \"GET /metrics HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3'";
    machine.until(&format!("{asked} | grep '^gridmux_up 1.0'"))?;
    machine.must("ps -eo user=,args= | grep '[d]evice-host' | grep '^gridmux '")?;
    machine.must("test -e /usr/share/man/man1/gridmux-serve.1.gz")?;
    // The symbols are in the other package.
    machine.must("! test -e /usr/lib/debug/.build-id")?;
    eprintln!("deb: installed, the service serves, its figures are asked for");
    Ok(())
}

/// Upgrades it: the service is another process then, and what its operator changed and it kept stays.
fn upgraded(machine: &Machine, version: &str) -> Result<()> {
    let process = "systemctl show --property MainPID --value gridmux";
    let before = machine.must(process)?;
    machine.must("sed -i 's/^weight = 1/weight = 7/' /etc/gridmux/gridmux.toml")?;
    machine.must("echo kept > /var/lib/gridmux/kept")?;
    machine.must("apt-get install -y /packages/newer.deb")?;
    machine.until("systemctl is-active --quiet gridmux")?;
    machine.must("systemctl is-active --quiet gridmux-metrics")?;
    machine.must(&format!("dpkg-query --show gridmux | grep -F '{version}'"))?;
    if machine.must(process)? == before {
        bail!("the service was not started again by the upgrade");
    }
    machine.until("gridmux -j tenant list | tr -d ' \\n' | grep '\"weight\":7'")?;
    machine.must("grep kept /var/lib/gridmux/kept")?;
    machine.must(PROCESSES)?;
    eprintln!("deb: upgraded, with its configuration and state");
    Ok(())
}

/// Removes it, which keeps configuration and state, and then purges it.
fn removed(machine: &Machine) -> Result<()> {
    machine.must("apt-get remove -y gridmux")?;
    machine.must(&format!("! {PROCESSES}"))?;
    machine.must("! test -e /usr/bin/gridmux && ! test -e /usr/lib/gridmux")?;
    machine.must("grep 'weight = 7' /etc/gridmux/gridmux.toml && test -e /var/lib/gridmux/kept")?;
    machine.must("! test -e /run/gridmux")?;
    machine.must("! systemctl is-enabled --quiet gridmux 2>&1")?;
    machine.must("test -z \"$(ls -d /sys/fs/bpf/gridmux* 2>&1 | grep '^/')\"")?;
    eprintln!("deb: removed, configuration and state are kept");
    machine.must("apt-get purge -y gridmux && apt-get autopurge -y")?;
    machine.must("getent passwd gridmux && getent group gridmux-operators")?;
    machine.must("test -z \"$(systemctl --no-pager --no-legend list-unit-files 'gridmux*')\"")?;
    Ok(())
}
