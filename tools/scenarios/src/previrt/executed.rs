//! Boots stock kernels on QEMU's board with two CPUs and loads them, while the plugin lists every
//! instruction: each sensitive one of the image has to be in the scan.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::stock::{STOCK, scan, stock};
use hanok_artifacts::Store;
use hanok_artifacts::cargo;
use hanok_artifacts::kernel::KernelSpec;
use hanok_base::exit::Code;
use hanok_base::{process, repo, ui};
use hanok_boot::machine;
use hanok_boot::native;
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::ScriptStep;
use hanok_previrt::oracle::executed;

/// The plugin's package, and what cargo makes of it.
const PACKAGE: &str = "hanok-plugin";
const LIBRARY: &str = "libhanok_plugin.so";
/// The address of memory on QEMU's board.
const MEMORY: u32 = 0x4000_0000;
/// On a PC that does other things as well, under a plugin.
const PATIENCE: Duration = Duration::from_secs(1200);
/// Pipes, processes, files, memory, a CPU that goes and comes, a program that faults.
const LOAD: &str = "for n in 1 2 3 4; do (dd if=/dev/urandom bs=64k count=8 | gzip | gunzip | \
    md5sum) & done; wait; find / -xdev -type f | head -200 | xargs cat | wc -c; \
    sh -c 'kill -SEGV $$'; echo 0 >/sys/devices/system/cpu/cpu1/online; \
    echo 1 >/sys/devices/system/cpu/cpu1/online; sleep 1; free; ps; echo load-$((1+1))\n";

/// Each of Debian's kernels.
pub fn run(root: &Path) -> Result<usize> {
    let store = Store::open(true, false)?;
    process::run(cargo::cargo(root).args(["build", "-p", PACKAGE]))?;
    let plugin = repo::target_dir(root).join("debug").join(LIBRARY);
    for reference in STOCK {
        let kernel = stock(&store, reference)?;
        let list = boot(root, &store, reference, &plugin)?;
        let list = fs::read(&list).context("QEMU's plugin wrote no list")?;
        let found = executed(&scan(&kernel.image)?, &list, MEMORY)?;
        let name = &kernel.resolved.package;
        eprintln!("{}", ui::dim(&format!("     {name}: {found}")));
        ensure!(found.missing.is_empty(), "{name}: {:x?}", found.missing);
        ensure!(found.sensitive > 1000, "{name}: {found}");
    }
    Ok(STOCK.len())
}

/// Boots a kernel and loads it; returns the path of the list.
fn boot(root: &Path, store: &Store, reference: &str, plugin: &Path) -> Result<PathBuf> {
    let name = reference.replace(':', "-");
    let dir = repo::target_dir(root).join(format!("hanok/test/previrt-executed-{name}"));
    fs::create_dir_all(&dir)?;
    let spec = KernelSpec::parse(reference).context("a reference that is none")?;
    let ready = native::stock_board(root, store, spec, 2).map_err(|failure| failure.error)?;
    let mut command = ready.command;
    let list = dir.join("list");
    let [plugin, out] = [plugin, &*list].map(machine::escaped);
    command.args(["-plugin", &format!("{plugin},what=words,out={out}")]);
    let file = |name: &str| Sink::create(&dir.join(name));
    let steps = [
        ScriptStep::Expect("linux:~# ".to_owned()),
        ScriptStep::Send(LOAD.into()),
        ScriptStep::Expect("load-2".to_owned()),
        ScriptStep::Send("poweroff\n".into()),
    ];
    let request = Request {
        command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: ready.first.into_iter().chain(steps).collect(),
        until: None,
        timeout: Some(PATIENCE),
        consoles: vec![file("linux.console")?],
        log: file("hanok.log")?,
        input: Input::None,
        before_end: None,
        vms: ready.vms,
    };
    let ended = run::run(request).map_err(|failure| failure.error)?;
    ensure!(
        ended.code == Code::Success && ended.missed.is_none(),
        "{reference} ended otherwise than wanted ({}); its console is in {}",
        ended.why,
        dir.display()
    );
    Ok(list)
}
