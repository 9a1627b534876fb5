//! A guest booted by QEMU itself, without the hypervisor around it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hanok_system::{
    Architecture, Artifacts, Boot, Description, GicVersion, InitramfsRef, KernelRef, Modules,
};

use crate::board::Ready;
use crate::form::Form;
use crate::machine::{self, Native};
use crate::system::{self, Resolved};
use hanok_artifacts::Store;
use hanok_artifacts::kernel::KernelSpec;
use hanok_artifacts::qemu;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::repo;

/// The memory in bytes of a guest without the hypervisor, where no description says otherwise.
const NATIVE_MEMORY: u64 = 512 << 20;
const NATIVE_CPU: &str = "cortex-a57";
const NATIVE_CPU_32: &str = "cortex-a15";
const NATIVE_CMDLINE: &str = "console=ttyAMA0 quiet";

/// A guest that runs without the hypervisor.
pub struct Guest {
    /// The files that it boots.
    pub artifacts: Artifacts,
    /// Its command line.
    pub cmdline: String,
    /// The number of the machine's cores.
    pub cores: u64,
    /// The machine's memory, in bytes.
    pub memory: u64,
    /// The CPU model.
    pub cpu: String,
    /// The QEMU program that is the machine.
    binary: String,
    /// The interrupt controller of a 64-bit machine.
    gic: GicVersion,
    /// The files that are read for it, by the user's paths.
    pub inputs: Vec<(String, PathBuf)>,
}

impl Guest {
    /// A stock kernel with our userland.
    pub fn stock(spec: KernelSpec) -> Self {
        let artifacts = Artifacts {
            vm: "linux".to_owned(),
            boot: Boot::Kernel(KernelRef::Debian {
                version: spec.version,
                flavour: spec.flavour,
                release: spec.release,
            }),
            architecture: spec.architecture,
            initramfs: Some(InitramfsRef::Busybox {
                modules: Modules::Default,
                agent: false,
            }),
            serves_by_linux: false,
            variables: None,
            examine: false,
            rewrite: false,
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
    pub fn first_of(root: &Path, system: &Description) -> Outcome<Self> {
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
            cores: vm.config.cpus.len() as u64,
            memory: vm.memory(),
            cpu: if vm.architecture() == system.board.architecture() {
                system.cpu.clone()
            } else {
                NATIVE_CPU_32.to_owned()
            },
            binary: match vm.architecture() {
                Architecture::Arm64 => qemu::PROGRAM.to_owned(),
                Architecture::Arm => qemu::PROGRAM_32.to_owned(),
            },
            gic: system.board.gic,
            inputs: system::inputs(root, system),
        })
    }

    /// QEMU as this guest's own machine.
    pub fn board(&self, root: &Path, store: &Store, changed: Changed<'_>) -> Outcome<Ready> {
        let (machine, architecture) = self.machine();
        // A guest of a 64-bit board may be measured as a 32-bit one, on that machine.
        let artifacts = [Artifacts {
            architecture,
            // QEMU's CPU runs it as it is.
            examine: false,
            rewrite: false,
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

    /// The guest's own machine, and the architecture that it executes.
    fn machine(&self) -> (&'static str, Architecture) {
        // A VM has the same kind of interrupt controller as its board; QEMU's 32-bit CPU models
        // only have a GICv2.
        match (self.binary == qemu::PROGRAM_32, self.gic) {
            (true, _) => ("virt,gic-version=2", Architecture::Arm),
            (false, GicVersion::V2) => ("virt,gic-version=2", Architecture::Arm64),
            (false, GicVersion::V3) => ("virt,gic-version=3,its=off", Architecture::Arm64),
        }
    }
}

/// Changes to what a guest boots.
#[derive(Clone, Copy, Default)]
pub struct Changed<'a> {
    /// Files that are put behind its initramfs.
    pub more: Option<&'a More>,
    /// Another form for its kernel, and the folder where that is kept.
    pub form: Option<(Form, &'a Path)>,
}

/// Further files for the initramfs: an archive of them, and where the combined initramfs is
/// written.
pub struct More {
    /// The files, as a cpio archive.
    pub archive: Vec<u8>,
    /// The path of the combined initramfs.
    pub path: PathBuf,
}

impl More {
    /// Puts these files behind `resolved`'s initramfs. The kernel unpacks archives one after the
    /// other (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).
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

/// The first VM of `system` without the hypervisor, on the QEMU program `binary`: for the 32-bit
/// one, the guest is built for 32 bits.
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
