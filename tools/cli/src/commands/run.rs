//! `hanok run`: from a description to a console.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use hanok_system::{Architecture, Description};

use super::black_box::BlackBox;
use super::find;
use crate::args::RunArgs;
use hanok_artifacts::Store;
use hanok_artifacts::cargo::{self, Variant};
use hanok_artifacts::kernel::KernelSpec;
use hanok_artifacts::qemu;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::outputs::Outputs;
use hanok_base::{repo, ui};
use hanok_boot::board::{self, Ready, Start};
use hanok_boot::key;
use hanok_boot::machine::{self, SerialPlace};
use hanok_boot::memory::Memory;
use hanok_boot::native::{Changed, Guest};
use hanok_boot::overrides::Overrides;
use hanok_boot::run_image::{Image, ImageLock};
use hanok_boot::system;
use hanok_boot::variables::Kept;
use hanok_console::attach_socket::{self, RunInfo};
use hanok_console::request::{Extras, Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::{self, ScriptStep};
use hanok_console::terminal;
use hanok_console::watch;

/// What `stats` cannot tell about a board on an emulator.
const UNCOUNTED: &str = "no instructions are known here: QEMU counts them with --icount alone";
const OTHERS_COUNTED: &str =
    "QEMU counts all cores: instructions are right while one alone is busy";

/// `hanok run`.
pub fn run(root: &Path, args: &RunArgs, yes: bool) -> Outcome {
    let steps = read_script(args.script.as_deref()).blame(Code::Usage)?;
    if let (Some(port), false) = (args.gdb, args.dry_run) {
        machine::check_port(port).blame(Code::Usage)?;
    }
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let (mut ready, cores, variant, kept) = if args.native {
        let ready = native(root, args, &store)?;
        (ready, 1, Variant::Shipped, KeptOfRun::default())
    } else {
        virtual_board(root, args, &store)?
    };
    machine::extras(&mut ready.command, &args.qemu_arg, args.gdb);
    if args.dry_run {
        ui::line(format_args!("{}", machine::typed(&ready.command)));
        return Ok(Code::Success);
    }
    if let Some(name) = watch::unknown_vm(&steps, &ready.vms) {
        return Err(failure(
            Code::Usage,
            format!("the script names the VM {name}: there is none"),
        ));
    }
    announce(root, args, &ready, variant);
    let mut extras = extras(root, args, &ready, (cores, kept.memory.as_ref()));
    let black_box = BlackBox::default();
    extras.hears = Some(black_box.hears(kept.variables.as_ref().map(Kept::hears)));
    let request = request(args, ready, steps).blame(Code::Output)?;
    let report = run::run_with(request, extras)?;
    if let (Some(variables), Some(memory)) = (&kept.variables, &kept.memory) {
        variables.write(memory).blame(Code::Output)?;
    }
    // It is about an end that is bad enough: that it cannot be told is no other one.
    if let Err(why) = black_box.tell(root, kept.memory.as_ref(), report.code) {
        ui::last_word(format!("hanok: what came last cannot be told: {why:#}"));
    }
    let name = match report.code {
        Code::Success => "hanok:".to_owned(),
        _ => ui::red("hanok:"),
    };
    ui::last_word(format!("{name} {}", report.why));
    Ok(report.code)
}

/// What a run for a person has in addition: a socket for other terminals, and a note about its
/// figures.
fn extras(
    root: &Path,
    args: &RunArgs,
    ready: &Ready,
    (cores, memory): (u64, Option<&Memory>),
) -> Extras {
    let stats = if args.icount {
        (cores > 1).then_some(OTHERS_COUNTED)
    } else {
        Some(UNCOUNTED)
    };
    let system = args.file.file_stem().unwrap_or_default();
    let running = RunInfo::new(&system.to_string_lossy(), &ready.vms);
    let running = RunInfo {
        memory: memory.map(Memory::place),
        ..running.described_by(&find(root, &args.file))
    };
    Extras {
        reports: None,
        hears: None,
        attach_socket: if ready.framed {
            attach_socket::of_run(&repo::target_dir(root), &running)
        } else {
            None
        },
        stats: stats.filter(|_| ready.framed),
        first: 0,
        by_the_wall: true,
    }
}

fn read_script(path: Option<&Path>) -> Result<Vec<ScriptStep>> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    script::parse(&text).with_context(|| format!("in {}", path.display()))
}

fn announce(root: &Path, args: &RunArgs, ready: &Ready, variant: Variant) {
    if let Some(port) = args.gdb {
        let architecture = match ready.command.get_program().to_str() {
            Some(program) if program.ends_with(qemu::PROGRAM_32) => Architecture::Arm,
            _ => Architecture::Arm64,
        };
        let elf = cargo::variant_elf_of(root, architecture, variant);
        eprintln!(
            "Waiting for a debugger: gdb-multiarch {} -ex 'target remote {}'",
            elf.display(),
            machine::gdb_address(port)
        );
    }
    if args.script.is_none() && std::io::stdin().is_terminal() {
        eprintln!("{}", welcome(&ready.vms, ready.framed));
    }
}

/// One line that says where a person's keys go.
fn welcome(vms: &[String], framed: bool) -> String {
    match vms.first() {
        Some(vm) if framed => {
            let more = match vms.len() {
                1 => String::new(),
                more => format!(" (1 of {more} VMs)"),
            };
            format!(
                "Booting. This is the console of {vm}{more}. Ctrl-] opens Hanok's prompt, Ctrl-A x \
                 ends the run, Ctrl-A h shows the keys."
            )
        }
        _ => "Booting. Ctrl-A x ends the run, Ctrl-A h shows the keys.".to_owned(),
    }
}

/// What is kept of a run while it goes on.
#[derive(Default)]
struct KeptOfRun {
    /// The lock that keeps its image unchanged.
    _image: Option<ImageLock>,
    /// The board's memory, if somebody reads it.
    memory: Option<Memory>,
    /// VMs' variables.
    variables: Option<Kept>,
}

/// The board, its number of cores, its hypervisor, and what is kept meanwhile.
fn virtual_board(
    root: &Path,
    args: &RunArgs,
    store: &Store,
) -> Outcome<(Ready, u64, Variant, KeptOfRun)> {
    let overrides = Overrides {
        cpu: args.cpu.clone(),
        cores: args.cores,
        memory: args.memory,
        ..Overrides::default()
    };
    let mut system = system::load(root, &find(root, &args.file), &overrides)?;
    system.terminal = terminal_of_person(args);
    check_consoles(args, &board::names(&system)).blame(Code::Usage)?;
    machine::check_words(&args.append).blame(Code::Usage)?;
    check_outputs(args, system::inputs(root, &system))?;
    for forward in &args.forward {
        let led = system.forward(forward);
        led.map_err(|why| anyhow!("--forward {forward}: {why}"))
            .blame(Code::Usage)?;
    }
    let start = Start {
        append: args.append.clone(),
        loader: args.boot,
        icount: args.icount,
        plain: false,
        serial: serial_of(args, &system).blame(Code::Usage)?,
    };
    check_screen(args, &system).blame(Code::Usage)?;
    let variant = machine::variant(&args.append).with_pools(system.has_pools());
    let image = Image::of(root, &system, &overrides, variant).blame(Code::Usage)?;
    if args.dry_run {
        let tools = start.tools_if_there(store, &system)?;
        let mut ready = tools.ready(&system, image.path(), &start);
        if let Some(display) = args.display {
            let shown = tools.shown(&system, display).blame(Code::Usage)?;
            shown.add_to(&mut ready.command);
        }
        return Ok((ready, system.cores, variant, KeptOfRun::default()));
    }
    let tools = start.tools(store, &system)?;
    let tree = board::tree(store, &system)?;
    let resolved = system::resolve_of(root, store, &system)?;
    let key = key::of_image(args.key.build_key, args.icount)?;
    let bytes = system::build_variant(root, variant, &system, &resolved, tree.as_deref(), &key)?;
    system::print_notes(&system);
    let kept = image.write(&bytes).blame(Code::Output)?;
    let mut ready = tools.ready(&system, image.path(), &start);
    if let Some(display) = args.display {
        let shown = tools.shown(&system, display).blame(Code::Usage)?;
        eprintln!("{shown}");
        if has_keyboard(&system) {
            eprintln!("Ctrl+Shift+1, 2, ... show one VM's picture, Ctrl+Shift+0 halves of two.");
        }
        shown.add_to(&mut ready.command);
    }
    let kept = KeptOfRun {
        _image: Some(kept),
        memory: Memory::of(&system, &mut ready.command).blame(Code::Output)?,
        variables: Kept::of(&system),
    };
    Ok((ready, system.cores, variant, kept))
}

/// Whether a keyboard of the board's chooses who is shown.
fn has_keyboard(system: &Description) -> bool {
    let mut screens = system
        .channels
        .iter()
        .filter_map(|channel| channel.screen.as_ref());
    screens.any(|screen| screen.keyboard.is_some())
}

/// Refuses to show the screen of a board that has none.
fn check_screen(args: &RunArgs, system: &Description) -> Result<()> {
    let made = system
        .channels
        .iter()
        .any(|channel| channel.screen.is_some());
    if args.display.is_none() || made || system.board.qemu.virtio_mmio.is_none() {
        return Ok(());
    }
    bail!(
        "--display: board {} has no screen\n  why: QEMU makes one where the description has a [[screen]]\n  \
         fix: remove --display, or share a screen (docs/shared-devices.md)",
        system.board.name
    )
}

/// Where the board's second serial port leads.
fn serial_of(args: &RunArgs, system: &Description) -> Result<SerialPlace> {
    match (&args.serial, system.second_serial()) {
        (Some(place), Some(_)) => Ok(place.clone()),
        (Some(_), None) => bail!(
            "--serial: no VM has a second serial port of the board\n  why: it is the VM's that names it \
             in `devices`\n  fix: remove --serial, or give a VM the port (docs/describe-a-system.md)"
        ),
        (None, Some((vm, name))) => {
            eprintln!(
                "The serial port {name} of VM {} leads nowhere; --serial file:PATH or --serial \
                 socket:PATH would lead it there.",
                vm.name()
            );
            Ok(SerialPlace::Nowhere)
        }
        (None, None) => Ok(SerialPlace::Nowhere),
    }
}

/// The size of the terminal at which a person types.
fn terminal_of_person(args: &RunArgs) -> Option<(u16, u16)> {
    let person = args.script.is_none() && std::io::stdin().is_terminal();
    (person && std::io::stdout().is_terminal()).then(terminal::size)
}

/// Checks that the outputs are no inputs, and can be written.
fn check_outputs(args: &RunArgs, mut reads: Vec<(String, PathBuf)>) -> Outcome<()> {
    reads.extend(
        args.script
            .iter()
            .map(|path| ("the script".to_owned(), path.clone())),
    );
    let mut outputs = Outputs::default().reads_all(reads);
    for (vm, path) in &args.console {
        outputs = outputs.writes(format!("--console {vm}"), path);
    }
    if let Some(path) = &args.log {
        outputs = outputs.writes("--log", path);
    }
    if let Some(path) = args.serial.as_ref().and_then(SerialPlace::path) {
        outputs = outputs.writes("--serial", path);
    }
    outputs.check()
}

/// Checks that every VM named by `--console` exists, before anything long begins.
fn check_consoles(args: &RunArgs, vms: &[String]) -> Result<()> {
    match args.console.iter().find(|(name, _)| !vms.contains(name)) {
        Some((name, _)) => bail!(
            "--console names the VM {name}; there is: {}",
            vms.join(", ")
        ),
        None => Ok(()),
    }
}

fn native(root: &Path, args: &RunArgs, store: &Store) -> Outcome<Ready> {
    let mut guest = match args.file.to_str().and_then(KernelSpec::parse) {
        Some(spec) => Guest::stock(spec),
        None => {
            let file = find(root, &args.file);
            Guest::first_of(root, &system::load(root, &file, &Overrides::default())?)?
        }
    };
    check_consoles(args, std::slice::from_ref(&guest.artifacts.vm)).blame(Code::Usage)?;
    check_outputs(args, guest.inputs.clone())?;
    if !args.append.is_empty() {
        guest.cmdline = format!("{} {}", guest.cmdline, args.append);
    }
    guest.cpu = args.cpu.clone().unwrap_or(guest.cpu);
    guest.cores = args.cores.unwrap_or(guest.cores);
    guest.memory = args.memory.unwrap_or(guest.memory);
    let mut ready = guest.board(root, store, Changed::default())?;
    if args.icount {
        machine::by_instructions(&mut ready.command);
    }
    Ok(ready)
}

fn request(args: &RunArgs, ready: Ready, steps: Vec<ScriptStep>) -> Result<Request> {
    let mut consoles: Vec<Sink> = ready.vms.iter().map(|_| Sink::Show).collect();
    for (name, path) in &args.console {
        // `check_consoles` has checked that the name exists.
        let vm = ready.vms.iter().position(|vm| vm == name);
        if let Some(console) = vm.and_then(|vm| consoles.get_mut(vm)) {
            *console = Sink::create(path)?;
        }
    }
    let log = args
        .log
        .as_ref()
        .map(|path| Sink::create(path))
        .transpose()?
        .unwrap_or(Sink::Show);
    let input = if args.script.is_some() {
        Input::None
    } else {
        Input::Stdin
    };
    Ok(Request {
        command: ready.command,
        vms: ready.vms,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: ready.first.into_iter().chain(steps).collect(),
        until: args.until.clone(),
        timeout: args.timeout,
        consoles,
        log,
        input,
        before_end: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_who_is_attached_and_how_to_go_elsewhere() {
        let vms = ["linux".to_owned(), "rtos".to_owned()];
        let line = welcome(&vms, true);
        assert!(line.contains("the console of linux (1 of 2 VMs). Ctrl-] opens"));
        assert!(welcome(&vms[..1], true).contains("the console of linux. Ctrl-]"));
        assert!(!welcome(&vms[..1], false).contains("Ctrl-]"));
    }
}
