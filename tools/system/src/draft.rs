//! A VM as it was written, before the rules are applied.

use crate::backend::Architecture;
use crate::diagnostic::{Report, Words};
use crate::schedule;
use crate::schedule::draft::{Placed, ShareDraft};
use crate::screens::ClientDraft;
use crate::shared::{SharedDraft, Shares};
use crate::source::{BUSYBOX, Boot, FirmwareRef, InitramfsRef, KernelRef, Modules, VariablesRef};
use crate::table::{self, At, Reader};
use crate::vm::{DeviceRef, Marks, Vm};
use crate::watchdog;
use hanok_config::{Ask, DeviceSlots, VmConfig, firmware_slots, platform_slots};
use hanok_types::{CpuId, MAX_VCPUS, Span, platform};
use std::ops::Range;
use std::path::Path;
use toml::de::DeValue;

/// A `[[vm]]`. A value that was wrong is in the report, and missing here.
pub(crate) struct Draft {
    pub(crate) span: Range<usize>,
    pub(crate) name: Option<At<String>>,
    pub(crate) boot: Option<At<Boot>>,
    /// Whether the kernel's name says that it is for 32 bits.
    pub(crate) aarch32: bool,
    pub(crate) initramfs: Option<At<InitramfsRef>>,
    pub(crate) cmdline: Option<At<String>>,
    pub(crate) memory: Option<At<u64>>,
    pub(crate) vcpus: Option<At<u64>>,
    pub(crate) cpus: Option<At<Vec<u64>>>,
    pub(crate) devices: Vec<At<DeviceRef>>,
    pub(crate) schedule: Option<Placed>,
    /// The place of its `[vm.schedule]`.
    pub(crate) schedule_span: Option<Range<usize>>,
    /// What its vCPUs may ask for at run time.
    pub(crate) ask: Option<Ask>,
    /// What it has of what is left, if it is promised nothing.
    pub(crate) share: Option<ShareDraft>,
    /// What becomes of its firmware's variables.
    pub(crate) variables: Option<At<VariablesRef>>,
    /// Whether its kernel is rewritten beforehand.
    pub(crate) rewrite: Option<At<bool>>,
    /// Whether it has a source of random bytes.
    pub(crate) entropy: bool,
    /// Its devices that other VMs serve.
    pub(crate) shared: Vec<SharedDraft>,
    /// Its pictures on screens.
    pub(crate) screens: Vec<ClientDraft>,
    pub(crate) trusted: bool,
    /// The milliseconds after which it is reset as it hangs.
    pub(crate) watchdog: Option<At<u32>>,
    autostart: bool,
}

const A_NAME: &str = "a name of up to 31 letters, digits and dashes";
const A_KERNEL: &str = "\"debian:6.1\", \"debian:6.12\", either with \"-rt\", \"guest:NAME\", \
     each also with \":armhf\", or a path";
const A_FIRMWARE: &str =
    "\"edk2:aarch64\", \"edk2:arm\", \"u-boot:qemu_arm64\", \"u-boot:qemu_arm\" or a path";
const SOME_MODULES: &str = "\"default\", \"all\" or a list of modules";
const SOME_DEVICES: &str = "a list of devices in the board's tree, such as [\"pl061@9030000\"]";
const A_DEVICE: &str = "a device in the board's tree, such as \"pl061@9030000\"";
const AN_ACCESS: &str = "\"map\" or \"trap\"";
const SOME_VARIABLES: &str = "a file in which they are kept, or true";
const A_TRUTH: &str = "true or false";

impl Draft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        let folder = report.path.parent().unwrap_or(Path::new("")).to_path_buf();
        let name = reader.require(report, "name", A_NAME, vm_name);
        let (boot, aarch32) = boot(reader, report, &folder);
        let initramfs = {
            let text = reader.get(report, "initramfs", "\"busybox\" or a path", table::word);
            let modules = reader.get(report, "initramfs-modules", SOME_MODULES, modules_of);
            let agent = reader.get(report, "agent", A_TRUTH, table::truth);
            initramfs(text, (modules, agent), &folder, report)
        };
        let variables = reader.get(report, "variables", SOME_VARIABLES, |value| {
            match (table::word(value), table::truth(value)) {
                (Some(path), _) => Some(VariablesRef::Kept(folder.join(path))),
                (None, Some(true)) => Some(VariablesRef::Forgotten),
                _ => None,
            }
        });
        let rewrite = reader.get(report, "rewrite", A_TRUTH, table::truth);
        let cmdline = reader.get(report, "cmdline", "a string", table::text);
        let memory = reader.require(report, "memory", table::A_SIZE, table::size);
        let vcpus = reader.get(report, "vcpus", "a number from 1", |value| {
            table::number(value).filter(|vcpus| *vcpus > 0)
        });
        let cpus = reader.get(report, "cpus", "a list of core numbers", |value| {
            table::list(value, table::number)
        });
        let mapped = |name| DeviceRef {
            name,
            trapped: false,
        };
        let devices =
            reader.words_or_tables(report, "devices", SOME_DEVICES, mapped, |reader, report| {
                let name = reader.require(report, "name", A_DEVICE, table::word);
                let trapped = reader.get(report, "access", AN_ACCESS, |value| {
                    match table::word(value)?.as_str() {
                        "map" => Some(false),
                        "trap" => Some(true),
                        _ => None,
                    }
                });
                let (name, trapped) = (name?.value, trapped.is_some_and(|at| at.value));
                Some(DeviceRef { name, trapped })
            });
        let entropy = reader.get(report, "entropy", A_TRUTH, table::truth);
        let shared = SharedDraft::read_all(reader, report);
        let screens = ClientDraft::read_all(reader, report);
        let trusted = reader.get(report, "trusted", A_TRUTH, table::truth);
        let watchdog = watchdog::read(reader, report);
        let autostart = reader.get(report, "autostart", A_TRUTH, table::truth);
        let mut schedule_span = None;
        let mut ask = None;
        let schedule = reader.optional_table(report, "schedule", |reader, report| {
            schedule_span = Some(reader.span.clone());
            ask = schedule::draft::ask(reader, report);
            Placed::read(reader, report)
        });
        let share = reader.optional_table(report, "share", ShareDraft::read);
        Self {
            span: reader.span.clone(),
            name,
            boot,
            aarch32,
            initramfs,
            cmdline,
            memory,
            vcpus,
            cpus,
            devices,
            schedule,
            schedule_span,
            ask,
            share,
            variables,
            rewrite,
            entropy: entropy.is_some_and(|at| at.value),
            shared,
            screens,
            trusted: trusted.is_some_and(|at| at.value),
            watchdog,
            autostart: autostart.is_none_or(|at| at.value),
        }
    }

    /// The cores that it names.
    pub(crate) fn named_cores(&self) -> impl Iterator<Item = u64> {
        let own = self.cpus.iter().flat_map(|at| at.value.iter().copied());
        let wish = self
            .schedule
            .iter()
            .filter_map(|placed| placed.core.as_ref());
        own.chain(wish.map(|at| at.value))
    }

    /// The devices of the virtual platform that it has, without those that the description adds.
    pub(crate) fn platform_slots(&self) -> DeviceSlots {
        let boot = self.boot.as_ref().map(|boot| &boot.value);
        if self.variables.is_some() || matches!(boot, Some(Boot::Firmware(_))) {
            firmware_slots()
        } else {
            platform_slots()
        }
    }

    /// The VM; `None` if something that it must have is missing.
    pub(crate) fn finish(
        self,
        cpus: Vec<u8>,
        architecture: Architecture,
        shares: Shares,
        report: &Report,
    ) -> Option<Vm> {
        let (boot, memory) = (self.boot?, self.memory?);
        let rewrite = self.rewrite.is_none_or(|at| at.value);
        let initramfs_mark = self.initramfs.as_ref().map(|at| report.mark(&at.span));
        let devices = self.devices.iter().map(|at| report.mark(&at.span));
        let variables_mark = self.variables.as_ref().map(|at| report.mark(&at.span));
        let config = VmConfig {
            name: self.name?.value.as_str().try_into().ok()?,
            cpus: cpus.into_iter().take(MAX_VCPUS).map(CpuId::new).collect(),
            memory: Span::new(platform::RAM, memory.value)?,
            entry: platform::RAM,
            argument: 0,
            blobs: Default::default(),
            slots: shares.slots,
            channels: Default::default(),
            devices: Default::default(),
            trusted: self.trusted,
            autostart: self.autostart,
            aarch32: architecture == Architecture::Arm,
            rewritten: false,
            trampolines: None,
            watchdog: self.watchdog.map_or(0, |at| at.value),
        };
        Some(Vm {
            config,
            marks: Marks {
                boot: report.mark(&boot.span),
                initramfs: initramfs_mark.unwrap_or_default(),
                memory: report.mark(&memory.span),
                variables: variables_mark.unwrap_or_default(),
                devices: devices.collect(),
                schedule: self.schedule_span.as_ref().map(|span| report.mark(span)),
            },
            boot: boot.value,
            initramfs: self.initramfs.map(|at| at.value),
            variables: self.variables.and_then(|at| at.value.path()),
            cmdline: self.cmdline.map(|at| at.value).unwrap_or_default(),
            devices: self.devices.into_iter().map(|at| at.value).collect(),
            rewrite,
            back_ends: shares.back_ends,
        })
    }
}

/// The kernel or the firmware, of which one must be there; and whether the kernel's name says that
/// it is for 32 bits.
fn boot(
    reader: &mut Reader<'_, '_>,
    report: &mut Report,
    folder: &Path,
) -> (Option<At<Boot>>, bool) {
    let firmware = reader.get(report, "firmware", A_FIRMWARE, table::word);
    let firmware =
        firmware.and_then(|at| at.judged(report, |text| FirmwareRef::parse(&text, folder)));
    let kernel = if reader.has("firmware") {
        reader.get(report, "kernel", A_KERNEL, table::word)
    } else {
        reader.require(report, "kernel", A_KERNEL, table::word)
    };
    let aarch32 = kernel
        .as_ref()
        .is_some_and(|at| KernelRef::is_for_32_bits(&at.value));
    let kernel = kernel.and_then(|at| at.judged(report, |text| KernelRef::parse(&text, folder)));
    if !reader.has("firmware") {
        return (kernel.map(|at| at.map(Boot::Kernel)), aarch32);
    }
    if let (Some(_), Some(firmware)) = (&kernel, &firmware) {
        let what = "both `kernel` and `firmware`";
        let why = "a VM begins either with a kernel in RAM or with a firmware in flash";
        let remedy = "remove one of them; a firmware loads its kernel by itself";
        report.refuse(&firmware.span, Words::new(what, why, remedy));
    }
    (firmware.map(|at| at.map(Boot::Firmware)), false)
}

pub(crate) fn vm_name(value: &DeValue<'_>) -> Option<String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-';
    table::word(value).filter(|name| name.len() < 32 && name.chars().all(sound))
}

fn modules_of(value: &DeValue<'_>) -> Option<Modules> {
    match table::text(value).as_deref() {
        Some("default") => Some(Modules::Default),
        Some("all") => Some(Modules::All),
        Some(_) => None,
        None => table::list(value, table::word).map(Modules::List),
    }
}

fn initramfs(
    text: Option<At<String>>,
    (modules, agent): (Option<At<Modules>>, Option<At<bool>>),
    folder: &Path,
    report: &mut Report,
) -> Option<At<InitramfsRef>> {
    let busybox = text.as_ref().is_some_and(|text| text.value == BUSYBOX);
    if let Some(modules) = modules.as_ref().filter(|_| !busybox) {
        let what = "`initramfs-modules` without `initramfs = \"busybox\"`";
        let why = "modules are put only into the initramfs that is made at build time";
        let remedy = "remove it, or write initramfs = \"busybox\"";
        report.refuse(&modules.span, Words::new(what, why, remedy));
    }
    if let Some(agent) = agent.as_ref().filter(|_| !busybox) {
        let what = "`agent` without `initramfs = \"busybox\"`";
        let why = "the agent is put only into the initramfs that is made at build time";
        let remedy = "remove it, or write initramfs = \"busybox\"";
        report.refuse(&agent.span, Words::new(what, why, remedy));
    }
    let agent = agent.is_some_and(|agent| agent.value);
    let modules = modules.map_or(Modules::Default, |modules| modules.value);
    text.map(|text| {
        text.map(|text| {
            if busybox {
                InitramfsRef::Busybox { modules, agent }
            } else {
                InitramfsRef::Path(folder.join(text))
            }
        })
    })
}
