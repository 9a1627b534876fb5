//! `hanok run`: from a description to a console.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hanok_system::{
    Architecture, Artifacts, Boot, Description, GicVersion, InitramfsRef, KernelRef, Modules,
};

use super::find;
use crate::args::RunArgs;
use crate::artifacts::Store;
use crate::artifacts::kernel::KernelSpec;
use crate::artifacts::qemu;
use crate::board::{self, Ready, Start};
use crate::console::door::{self, Running};
use crate::console::script::{self, Step};
use crate::console::session::{self, Extras, Input, Request, Sink};
use crate::console::terminal;
use crate::console::watch;
use crate::exit::{Blame, Code, Outcome, failure};
use crate::machine::{self, Native};
use crate::outputs::Outputs;
use crate::overrides::Overrides;
use crate::run_image::{Image, Kept};
use crate::system::{self, Resolved};
use crate::test::form::Form;
use crate::{cargo, key, repo, ui};

/// What `stats` cannot say of a board on an emulator.
const UNCOUNTED: &str = "no instructions are known here: QEMU counts them with --icount alone";
const OTHERS_COUNTED: &str =
    "QEMU counts all cores: instructions are right while one alone is busy";

/// A guest booted without the hypervisor where no description says otherwise.
const NATIVE_MEMORY: u64 = 512 << 20;
const NATIVE_CPU: &str = "cortex-a57";
const NATIVE_CPU_32: &str = "cortex-a15";
const NATIVE_CMDLINE: &str = "console=ttyAMA0 quiet";

/// `hanok run`.
pub fn run(root: &Path, args: &RunArgs, yes: bool) -> Outcome {
    let steps = read_script(args.script.as_deref()).blame(Code::Usage)?;
    if let (Some(port), false) = (args.gdb, args.dry_run) {
        machine::check_port(port).blame(Code::Usage)?;
    }
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let (mut ready, cores, _kept) = match args.native {
        true => (native(root, args, &store)?, 1, None),
        false => virtual_board(root, args, &store)?,
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
    announce(root, args, &ready);
    let extras = extras(root, args, &ready, cores);
    let request = request(args, ready, steps).blame(Code::Output)?;
    let report = session::run_with(request, extras)?;
    let name = match report.code {
        Code::Success => "hanok:".to_owned(),
        _ => ui::red("hanok:"),
    };
    ui::last_word(format!("{name} {}", report.why));
    Ok(report.code)
}

/// What a person's run has: a way in for other terminals, and what is known of its figures.
fn extras(root: &Path, args: &RunArgs, ready: &Ready, cores: u64) -> Extras {
    let stats = match args.icount {
        false => Some(UNCOUNTED),
        true => (cores > 1).then_some(OTHERS_COUNTED),
    };
    let system = args.file.file_stem().unwrap_or_default();
    let running = Running::new(&system.to_string_lossy(), &ready.vms);
    Extras {
        door: match ready.framed {
            true => door::of_run(&repo::target_dir(root), &running),
            false => None,
        },
        stats: stats.filter(|_| ready.framed),
        first: 0,
    }
}

fn read_script(path: Option<&Path>) -> Result<Vec<Step>> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    script::parse(&text).with_context(|| format!("in {}", path.display()))
}

fn announce(root: &Path, args: &RunArgs, ready: &Ready) {
    if let Some(port) = args.gdb {
        let architecture = match ready.command.get_program().to_str() {
            Some(program) if program.ends_with(qemu::PROGRAM_32) => Architecture::Arm,
            _ => Architecture::Arm64,
        };
        let elf = cargo::hypervisor_elf_of(root, architecture);
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

/// Where a person's keys go, in one line.
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

/// The board, how many cores it has, and what keeps its image as it is meanwhile.
fn virtual_board(
    root: &Path,
    args: &RunArgs,
    store: &Store,
) -> Outcome<(Ready, u64, Option<Kept>)> {
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
    let start = Start {
        append: args.append.clone(),
        loader: args.boot,
        icount: args.icount,
        plain: false,
    };
    let image = Image::of(root, &system, &overrides).blame(Code::Usage)?;
    if args.dry_run {
        let tools = start.tools_if_there(store, &system)?;
        return Ok((
            tools.ready(&system, image.path(), &start),
            system.cores,
            None,
        ));
    }
    let tools = start.tools(store, &system)?;
    let tree = board::tree(store, &system)?;
    let resolved = system::resolve_of(root, store, &system)?;
    let key = key::of_image(args.key.build_key, args.icount)?;
    let bytes = system::build(root, &system, &resolved, tree.as_deref(), &key)?;
    system::tell_notes(&system);
    let kept = image.write(&bytes).blame(Code::Output)?;
    let ready = tools.ready(&system, image.path(), &start);
    Ok((ready, system.cores, Some(kept)))
}

/// How large the terminal is at which somebody types.
fn terminal_of_person(args: &RunArgs) -> Option<(u16, u16)> {
    let person = args.script.is_none() && std::io::stdin().is_terminal();
    (person && std::io::stdout().is_terminal()).then(terminal::size)
}

/// That what is to be written is no input, and can be.
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
    outputs.check()
}

/// That every VM named by `--console` is there, before anything long begins.
fn check_consoles(args: &RunArgs, vms: &[String]) -> Result<()> {
    match args.console.iter().find(|(name, _)| !vms.contains(name)) {
        Some((name, _)) => bail!(
            "--console names the VM {name}; there is: {}",
            vms.join(", ")
        ),
        None => Ok(()),
    }
}

/// A guest without the hypervisor around it.
struct Guest {
    artifacts: Artifacts,
    cmdline: String,
    cores: u64,
    memory: u64,
    cpu: String,
    binary: String,
    /// The interrupt controller of a 64-bit machine.
    gic: GicVersion,
    /// What is read for it, by the user's paths.
    inputs: Vec<(String, PathBuf)>,
}

impl Guest {
    /// A stock kernel with our userland.
    fn stock(spec: KernelSpec) -> Self {
        let artifacts = Artifacts {
            vm: "linux".to_owned(),
            boot: Boot::Kernel(KernelRef::Debian {
                version: spec.version,
                flavour: spec.flavour,
            }),
            architecture: spec.architecture,
            initramfs: Some(InitramfsRef::Busybox {
                modules: Modules::Default,
            }),
        };
        let (cpu, binary) = match spec.architecture {
            Architecture::Arm64 => (NATIVE_CPU, qemu::PROGRAM),
            Architecture::Arm => (NATIVE_CPU_32, qemu::PROGRAM_32),
        };
        let (cmdline, cpu) = (NATIVE_CMDLINE.to_owned(), cpu.to_owned());
        Self {
            artifacts,
            cmdline,
            cores: 1,
            memory: NATIVE_MEMORY,
            cpu,
            binary: binary.to_owned(),
            gic: GicVersion::V3,
            inputs: Vec::new(),
        }
    }

    /// The first VM of a system.
    fn first_of(root: &Path, system: &Description) -> Outcome<Self> {
        let first = system
            .artifacts()
            .into_iter()
            .next()
            .zip(system.vms.first());
        let (artifacts, vm) =
            first.ok_or_else(|| failure(Code::Refused, "there is no VM to boot"))?;
        Ok(Self {
            artifacts,
            cmdline: vm.cmdline.clone(),
            cores: vm.cpus.len() as u64,
            memory: vm.memory,
            cpu: match vm.architecture == system.board.architecture() {
                true => system.cpu.clone(),
                false => NATIVE_CPU_32.to_owned(),
            },
            binary: match vm.architecture {
                Architecture::Arm64 => qemu::PROGRAM.to_owned(),
                Architecture::Arm => qemu::PROGRAM_32.to_owned(),
            },
            gic: system.board.gic,
            inputs: system::inputs(root, system),
        })
    }

    /// QEMU as this guest's own machine.
    fn board(&self, root: &Path, store: &Store, changed: Changed<'_>) -> Outcome<Ready> {
        let (machine, architecture) = self.machine();
        // A guest of a 64-bit board may be measured as a 32-bit one, on that machine.
        let artifacts = [Artifacts {
            architecture,
            ..self.artifacts.clone()
        }];
        let qemu = system::prepare(store, &artifacts)?;
        let mut resolved = system::resolve(root, store, &artifacts)?;
        if let (Some(first), Some(more)) = (resolved.first_mut(), changed.more) {
            more.add_to(first).blame(Code::Refused)?;
        }
        if let (Some(first), Some((form, dir))) = (resolved.first_mut(), changed.form) {
            form.apply(first, architecture, dir).blame(Code::Usage)?;
        }
        let Some(found) = resolved.first() else {
            return Err(failure(Code::Refused, "there is no VM to boot"));
        };
        let native = Native {
            machine,
            cpu: &self.cpu,
            cores: self.cores,
            memory: self.memory,
            kernel: &found.kernel,
            firmware: found.firmware,
            initramfs: found.initramfs.as_deref(),
            cmdline: &self.cmdline,
        };
        let mut command = qemu.command(&self.binary);
        machine::native(&mut command, &native);
        Ok(Ready {
            command,
            vms: vec![self.artifacts.vm.clone()],
            framed: false,
            first: Vec::new(),
            poweroff: true,
        })
    }

    /// What the guest's own machine is, and what it runs.
    fn machine(&self) -> (&'static str, Architecture) {
        // A VM has the same kind of interrupt controller as its board; 32-bit CPU models of
        // QEMU's have no other one than a GICv2.
        match (self.binary == qemu::PROGRAM_32, self.gic) {
            (true, _) => ("virt,gic-version=2", Architecture::Arm),
            (false, GicVersion::V2) => ("virt,gic-version=2", Architecture::Arm64),
            (false, GicVersion::V3) => ("virt,gic-version=3,its=off", Architecture::Arm64),
        }
    }
}

/// What is changed about what a guest boots.
#[derive(Clone, Copy, Default)]
pub struct Changed<'a> {
    /// Files that are put behind its initramfs.
    pub more: Option<&'a More>,
    /// Another form for its kernel, and where that is kept.
    pub form: Option<(Form, &'a Path)>,
}

/// More files for the initramfs: an archive of them, and where the whole is to be written.
pub struct More {
    /// The files, as a cpio archive.
    pub archive: Vec<u8>,
    /// Where the initramfs with them is to be.
    pub path: PathBuf,
}

impl More {
    /// Makes `resolved`'s initramfs one with these files. The kernel unpacks archives one
    /// after the other (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).
    pub fn add_to(&self, resolved: &mut Resolved) -> Result<()> {
        let mut bytes = match &resolved.initramfs {
            Some(path) => fs::read(path)?,
            None => Vec::new(),
        };
        bytes.extend(&self.archive);
        repo::write_whole(&self.path, &bytes)?;
        resolved.initramfs = Some(self.path.clone());
        Ok(())
    }
}

/// The first VM of `system` without the hypervisor, on `binary` of QEMU's programs: what the
/// 32-bit one boots is built for it.
pub fn native_board(
    root: &Path,
    store: &Store,
    system: &Description,
    changed: Changed<'_>,
    binary: Option<&str>,
) -> Outcome<Ready> {
    let mut guest = Guest::first_of(root, system)?;
    if let Some(binary) = binary {
        guest.binary = binary.to_owned();
    }
    if guest.binary == qemu::PROGRAM_32 {
        guest.cpu = NATIVE_CPU_32.to_owned();
    }
    guest.board(root, store, changed)
}

/// A stock kernel without the hypervisor.
pub fn stock_board(root: &Path, store: &Store, spec: KernelSpec, cores: u64) -> Outcome<Ready> {
    let mut guest = Guest::stock(spec);
    guest.cores = cores;
    guest.board(root, store, Changed::default())
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

fn request(args: &RunArgs, ready: Ready, steps: Vec<Step>) -> Result<Request> {
    let mut consoles: Vec<Sink> = ready.vms.iter().map(|_| Sink::Show).collect();
    for (name, path) in &args.console {
        // That there is one of this name is known: `check_consoles`.
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
