//! Xen's side: a Linux as the first domain has the board's devices, and its back ends serve them to domains that Xen begins itself.
//!
//! Such a domain is told of Xen's store by a program in the first one (`init-dom0less`), so that it finds its devices as any other domain does. What a
//! toolstack would write to the store for them is written by the first domain's script, `guest/xen-host`.

use std::fs;
use std::path::Path;

use hanok_artifacts::initramfs::modules::Selection;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::repo;
use hanok_bench::Gic;
use hanok_boot::board::Ready;

use super::cases::{System, Work};
use crate::boards::Boards;

/// The modules of Linux that the first domain needs.
const MODULES: [&str; 10] = [
    "virtio_mmio",
    "virtio_blk",
    "virtio_net",
    "bridge",
    "xen_evtchn",
    "xen_gntdev",
    "xen_privcmd",
    "xenfs",
    "xen_blkback",
    "xen_netback",
];

/// The board with Xen, the first domain and those that are measured, which are told `words`, but without the board's devices; `None` for what is
/// not measured there.
pub fn prepare(
    boards: &Boards,
    (work, gic): (Work, Gic),
    userland: &Path,
    words: &str,
) -> Outcome<Option<Ready>> {
    let (serves, roles) = match work {
        Work::Disks => ("disks", &[""][..]),
        Work::Networks => ("networks", &[" bench.role=send", " bench.role=receive"][..]),
        Work::Incoming => ("networks", &[""][..]),
        Work::Screens | Work::ScreensPl1 | Work::Kills => return Ok(None),
    };
    let Some(programs) = &boards.materials.xen_host else {
        return Ok(None);
    };
    let modules = MODULES.map(str::to_owned).to_vec();
    let kernel = &boards.materials.kernel;
    let host = boards.store.initramfs(kernel, &Selection::Named(modules));
    let mut host = fs::read(host.blame(Code::Setup)?).blame(Code::Setup)?;
    host.extend(programs);
    let name = work.name(System::Xen);
    let path = boards.dir.join(&name).with_extension("initramfs");
    repo::write_whole(&path, &host).blame(Code::Output)?;
    let lines = roles.iter().map(|role| format!("{words}{role}"));
    let serves = format!("bench.serve={serves}");
    let domains = (userland, lines.collect());
    let ready = boards.xen_linux((&name, gic), (&path, &serves), domains)?;
    Ok(Some(ready))
}

#[cfg(test)]
mod tests {
    use super::super::networks;
    use super::*;

    const SCRIPT: &str = include_str!("../../guest/xen-host");

    #[test]
    fn the_first_domain_has_the_modules_that_its_script_loads() {
        let mut lines = SCRIPT.lines();
        let line = lines.find_map(|line| line.strip_prefix("for module in "));
        let names = line.and_then(|line| line.strip_suffix("; do")).unwrap();
        assert_eq!(names.split(' ').collect::<Vec<_>>(), MODULES);
    }

    #[test]
    fn the_first_domain_s_clients_have_the_addresses_of_both_ends() {
        for (mac, domain) in networks::ENDS.iter().zip(1..) {
            assert!(SCRIPT.contains(&format!("interface {domain} {mac}\n")));
        }
    }
}
