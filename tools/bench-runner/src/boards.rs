//! Makes a board for each side: the same emulated CPU and memory, with another hypervisor between
//! it and the guest.
//!
//! The guest has the same kernel, initramfs, memory and command line everywhere; only the console
//! has another name in Xen. KASLR, KPTI and the mitigations are off everywhere: a guest would
//! otherwise choose others than the machine itself does, and the ratio would mislead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hanok_bench::{Gic, Side};
use hanok_system::Architecture;

use super::counting::{Counting, What};
use super::materials::{self, Materials, VMM_PROGRAM};
use super::plan::{Job, Load, Plan};
use super::xen::{Domain, Domains};
use hanok_artifacts::Store;
use hanok_artifacts::initramfs;
use hanok_artifacts::qemu::{PROGRAM, PROGRAM_32};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::repo;
use hanok_boot::board::{self, Ready, Start};
use hanok_boot::machine::{self, Native};
use hanok_boot::overrides::{Overrides, VmOverrides};
use hanok_boot::{key, system};

/// The guest's memory.
pub const GUEST_MEMORY: u64 = 256 << 20;
/// The board's memory in bytes where a hypervisor runs on it.
pub const BOARD_MEMORY: u64 = 1 << 30;

/// The start of every Linux's command line.
pub const CMDLINE: &str = "quiet panic=-1 norandmaps nokaslr kpti=off mitigations=off";
/// The rest of the measured Linux's command line.
const MEASURED: &str = "rdinit=/bench/init";

/// How often each row is done where operations are counted: with one round, and then with eleven, in loops of 5 ms, as the plugin takes its time.
const WHILE_COUNTING: &str = "bench.rounds=1,11 bench.many=1 bench.enough=5000";

/// The addresses where Xen finds dom0's kernel and initramfs: far from what QEMU itself puts into
/// memory (kernel and device tree, within the first 130 MiB), and from each other.
pub const XEN_KERNEL: u64 = 0x5000_0000;
/// See [`XEN_KERNEL`].
pub const XEN_INITRAMFS: u64 = 0x5800_0000;
/// The same of the initramfs of a domain that Xen begins beside dom0, with dom0's kernel. All are close together: dom0 has RAM at the same
/// addresses as the board, and needs it in one piece.
const XEN_OTHER_INITRAMFS: u64 = 0x5c00_0000;

/// Makes boards.
pub struct Boards<'a> {
    /// The repository.
    pub root: &'a Path,
    /// The cache.
    pub store: &'a Store,
    /// What is measured.
    pub plan: &'a Plan,
    /// What is booted.
    pub materials: &'a Materials,
    /// The plugin that counts the hypervisor's instructions, if it is used.
    pub counting: Option<Counting>,
    /// The sizes of the hypervisors' images in bytes.
    pub images: Vec<(Side, u64)>,
    /// The folder for images.
    pub dir: &'a Path,
}

/// The measured guest, as its boot loader sees it.
struct Guest {
    kernel: PathBuf,
    initramfs: Option<PathBuf>,
    cmdline: String,
}

impl Boards<'_> {
    /// The board of `job`; QEMU's gdb stub listens at `socket`.
    pub fn board(&self, job: &Job, socket: &Path) -> Outcome<Ready> {
        let mut ready = match job.side {
            Side::Native => self.native(job)?,
            Side::Hanok => self.hanok(job)?,
            Side::Xen => self.xen(job)?,
            Side::Kvm => self.kvm(job)?,
        };
        let socket = machine::escaped(socket);
        let stub = format!("unix:{socket},server=on,wait=off");
        ready.command.args(["-gdb", &stub]);
        Ok(ready)
    }

    /// Makes the board of `job` count, where that is possible; returns the path that it writes to.
    pub fn count(&self, job: &Job, ready: &mut Ready, what: What) -> Option<(PathBuf, What)> {
        let counting = self.counting.as_ref()?;
        let report = self.dir.join(format!("{}.report", job.name()));
        match what {
            What::Operations => {
                let ours = job.side == Side::Hanok;
                let start = self.materials.kernel_start;
                counting.attach_operations(&mut ready.command, &report, ours, start);
            }
            _ => counting.attach(&mut ready.command, &report, what),
        }
        Some((report, what))
    }

    fn guest(&self, job: &Job, console: &str) -> Outcome<Guest> {
        let found = self.materials;
        if job.load.is_linux() {
            return Ok(Guest {
                kernel: found.kernel.image.clone(),
                initramfs: self.userland(job),
                cmdline: format!("console={console} {CMDLINE} {}", self.rows(job)),
            });
        }
        let moved = found.payload_in_xen.clone();
        let moved = moved.filter(|_| job.side == Side::Xen);
        let payload = moved.or_else(|| found.payload.clone());
        Ok(Guest {
            kernel: payload.ok_or_else(|| failure(Code::Refused, "no payload was built"))?,
            initramfs: None,
            cmdline: self.figures(job),
        })
    }

    /// The measured Linux' initramfs: where operations are counted, the one with markers.
    fn userland(&self, job: &Job) -> Option<PathBuf> {
        match job.load {
            Load::Operations => self.materials.marked.clone(),
            _ => self.materials.userland.clone(),
        }
    }

    /// The words that tell the script in Linux what to run; the boot gives its figure by itself.
    fn rows(&self, job: &Job) -> String {
        let (rounds, names) = (self.plan.inner_rounds, self.names(job));
        let rounds = match job.load {
            Load::Operations => WHILE_COUNTING.to_owned(),
            _ => format!("bench.rounds={rounds}"),
        };
        format!("{MEASURED} {rounds} bench.rows={names}")
    }

    /// The words that tell the payload what to measure.
    fn figures(&self, job: &Job) -> String {
        format!("bench.figures={}", self.names(job))
    }

    fn names(&self, job: &Job) -> String {
        let figures = self.plan.of_boot(job.load, job.side);
        let names: Vec<_> = figures.iter().map(|figure| figure.id).collect();
        names.join(",")
    }

    fn native(&self, job: &Job) -> Outcome<Ready> {
        let guest = self.guest(job, "ttyAMA0")?;
        let machine = self.machine("off", job.gic);
        let mut command = self.qemu();
        machine::native(&mut command, &self.of(&guest, &machine, GUEST_MEMORY));
        Ok(plain(command))
    }

    /// Xen whose first domain is a Linux with `host` as its initramfs that is also told `words`, beside a Linux with `initramfs` for each of the
    /// command lines, which Xen begins itself.
    pub fn xen_linux(
        &self,
        (name, gic): (&str, Gic),
        (host, words): (&Path, &str),
        (initramfs, lines): (&Path, Vec<String>),
    ) -> Outcome<Ready> {
        let kernel = &self.materials.kernel.image;
        let words = format!("console=hvc0 {CMDLINE} rdinit=/bench/xen-host {words}");
        let domain = |line: &String| Domain {
            kernel: kernel.clone(),
            at: XEN_KERNEL,
            initramfs: Some((initramfs.to_owned(), XEN_OTHER_INITRAMFS)),
            is_enhanced: true,
            cmdline: self.linux(initramfs, line).cmdline,
            memory: GUEST_MEMORY >> 10,
            has_console: true,
        };
        let domains = Domains {
            first: Some((kernel, XEN_KERNEL, &words)),
            initramfs: Some((host, XEN_INITRAMFS)),
            others: lines.iter().map(domain).collect(),
            words: &first_domain(),
        };
        self.xen_of(name, gic, &domains)
    }

    /// The machine itself with the measured Linux, or with the payload, with the command line
    /// `cmdline`.
    pub fn native_of(&self, gic: Gic, linux: bool, cmdline: String) -> Outcome<Ready> {
        let found = self.materials;
        let payload = || found.payload.clone();
        let (kernel, initramfs) = if linux {
            (Some(found.kernel.image.clone()), found.userland.clone())
        } else {
            (payload(), None)
        };
        let guest = Guest {
            kernel: kernel.ok_or_else(|| failure(Code::Refused, "no payload was built"))?,
            initramfs,
            cmdline,
        };
        let machine = self.machine("off", gic);
        let mut command = self.qemu();
        machine::native(&mut command, &self.of(&guest, &machine, GUEST_MEMORY));
        Ok(plain(command))
    }

    /// The machine itself with Linux, `initramfs` and `cmdline`.
    pub fn native_linux(&self, gic: Gic, initramfs: &Path, cmdline: &str) -> Ready {
        let guest = self.linux(initramfs, cmdline);
        let machine = self.machine("off", gic);
        let mut command = self.qemu();
        machine::native(&mut command, &self.of(&guest, &machine, GUEST_MEMORY));
        plain(command)
    }

    /// Any machine itself, with what it boots.
    pub fn native_machine(&self, native: &Native) -> Ready {
        let mut command = self.qemu();
        machine::native(&mut command, native);
        plain(command)
    }

    fn linux(&self, initramfs: &Path, cmdline: &str) -> Guest {
        Guest {
            kernel: self.materials.kernel.image.clone(),
            initramfs: Some(initramfs.to_owned()),
            cmdline: format!("console=ttyAMA0 {CMDLINE} {cmdline}"),
        }
    }

    /// A Linux with `host` as its initramfs, whose VMM starts Linux with `initramfs` and `cmdline`, and is also told
    /// `words`.
    pub fn kvm_linux(
        &self,
        (name, gic): (&str, Gic),
        (host, words): (&[u8], &[&str]),
        initramfs: &Path,
        cmdline: &str,
    ) -> Outcome<Ready> {
        let guest = self.linux(initramfs, cmdline);
        let host = self.host_initramfs((name, gic), guest, (host, words))?;
        Ok(self.kvm_of(gic, host))
    }

    /// QEMU for the machines of this plan, without arguments.
    fn qemu(&self) -> Command {
        let program = match self.plan.architecture {
            Architecture::Arm64 => PROGRAM,
            Architecture::Arm => PROGRAM_32,
        };
        self.materials.qemu.command(program)
    }

    /// The machine for the guest itself, or for a hypervisor that is not ours, as `boards/` has
    /// it for ours.
    fn machine(&self, virtualization: &str, gic: Gic) -> String {
        let below = match self.plan.architecture {
            Architecture::Arm64 => "",
            // Xen for armhf prints nothing where devices are above 4 GiB.
            Architecture::Arm => "highmem=off,",
        };
        let version = version(gic);
        format!("virt,its=off,{below}virtualization={virtualization},{version}")
    }

    fn of<'a>(&'a self, guest: &'a Guest, machine: &'a str, memory: u64) -> Native<'a> {
        Native {
            machine,
            cpu: &self.plan.cpu,
            cores: 1,
            memory,
            kernel: &guest.kernel,
            firmware: false,
            initramfs: guest.initramfs.as_deref(),
            cmdline: &guest.cmdline,
        }
    }

    fn hanok(&self, job: &Job) -> Outcome<Ready> {
        let (file, words) = match job.load {
            Load::Linux | Load::Operations => {
                ("bench-linux", format!("{CMDLINE} {}", self.rows(job)))
            }
            Load::Payload => ("bench-micro", self.figures(job)),
            Load::Switch => ("bench-switch", self.figures(job)),
            Load::SwitchBudgets => ("bench-switch-budgets", self.figures(job)),
            Load::WakeBeside => ("bench-wake-beside", self.figures(job)),
            Load::Ipi => ("bench-ipi", self.figures(job)),
        };
        let overrides = Overrides {
            board: Some(self.plan.board(job.gic).to_owned()),
            cpu: Some(self.plan.cpu.clone()),
            cores: Some(if job.load == Load::Ipi { 2 } else { 1 }),
            memory: Some(BOARD_MEMORY),
            vm: VmOverrides {
                kernel: job
                    .load
                    .is_linux()
                    .then(|| materials::kernel(self.plan).to_owned()),
                cmdline: words,
                ..VmOverrides::default()
            },
            ..Overrides::default()
        };
        let path = self.root.join("systems").join(file).with_extension("toml");
        let userland = self.userland(job).filter(|_| job.load.is_linux());
        self.hanok_of(&job.name(), &path, &overrides, userland)
    }

    /// The board of the description at `path`, as changed; its first VM, and all others with an initramfs, have `userland` where that is given.
    pub fn hanok_of(
        &self,
        name: &str,
        path: &Path,
        overrides: &Overrides,
        userland: Option<PathBuf>,
    ) -> Outcome<Ready> {
        let system = system::load(self.root, path, overrides)?;
        let start = Start {
            icount: true,
            ..Start::default()
        };
        let tools = start.tools(self.store, &system)?;
        let artifacts = system.artifacts();
        let mut resolved = system::resolve(self.root, self.store, &artifacts)?;
        if let Some(userland) = userland {
            for (index, one) in resolved.iter_mut().enumerate() {
                if index == 0 || one.initramfs.is_some() {
                    one.initramfs = Some(userland.clone());
                }
            }
        }
        let tree = board::tree(self.store, &system)?;
        let key = key::of_image(None, start.icount)?;
        let bytes = system::build(self.root, &system, &resolved, tree.as_deref(), &key)?;
        let image = self.dir.join(format!("{name}.img"));
        repo::write_whole(&image, &bytes).blame(Code::Refused)?;
        Ok(tools.ready(&system, &image, &start))
    }

    /// QEMU with Xen, which is told `words`.
    fn xen_alone(&self, gic: Gic, words: &str) -> Outcome<Command> {
        let xen = self.materials.xen.clone();
        let xen = Guest {
            kernel: xen.ok_or_else(|| failure(Code::Setup, "there is no Xen"))?,
            initramfs: None,
            cmdline: words.to_owned(),
        };
        let mut command = self.qemu();
        let machine = self.machine("on", gic);
        machine::native(&mut command, &self.of(&xen, &machine, BOARD_MEMORY));
        Ok(command)
    }

    /// Xen with the payload, told `cmdline`, as dom0, beside `idle` domains that Xen begins itself.
    pub fn xen_beside(&self, name: &str, gic: Gic, cmdline: &str, idle: usize) -> Outcome<Ready> {
        let found = self.materials;
        let payload = found.payload_in_xen.as_ref().or(found.payload.as_ref());
        let payload = payload.ok_or_else(|| failure(Code::Refused, "no payload was built"))?;
        let path = self.dir.join(name).with_extension("idle");
        let sleeps = Domain::idle(path, XEN_INITRAMFS, self.plan.architecture);
        let domains = Domains {
            first: Some((payload, XEN_KERNEL, cmdline)),
            initramfs: None,
            others: vec![sleeps.blame(Code::Output)?; idle],
            words: &first_domain(),
        };
        self.xen_of(name, gic, &domains)
    }

    /// Xen with these domains.
    pub fn xen_of(&self, name: &str, gic: Gic, domains: &Domains) -> Outcome<Ready> {
        let path = self.dir.join(name).with_extension("dtb");
        let mut draft = self.xen_alone(gic, domains.words)?;
        let tree = domains.tree(&mut draft, &path).blame(Code::Qemu)?;
        let mut command = self.xen_alone(gic, domains.words)?;
        domains.put(&mut command, &tree);
        Ok(plain(command))
    }

    /// Xen, with the guest as dom0: QEMU's guest loader puts it into memory and names it in
    /// the tree, as Xen's boot protocol wants (Xen, docs/misc/arm/device-tree/booting.txt).
    fn xen(&self, job: &Job) -> Outcome<Ready> {
        let guest = self.guest(job, "hvc0")?;
        let mut command = self.xen_alone(job.gic, &first_domain())?;
        let kernel = machine::escaped(&guest.kernel);
        let words = guest.cmdline.replace(',', ",,");
        command.arg("-device").arg(format!(
            "guest-loader,addr={XEN_KERNEL:#x},kernel={kernel},bootargs={words}"
        ));
        if let Some(initramfs) = &guest.initramfs {
            let initramfs = machine::escaped(initramfs);
            command.arg("-device").arg(format!(
                "guest-loader,addr={XEN_INITRAMFS:#x},initrd={initramfs}"
            ));
        }
        Ok(plain(command))
    }

    /// A Linux that starts the guest in a VMM of its own.
    fn kvm(&self, job: &Job) -> Outcome<Ready> {
        let guest = self.guest(job, "ttyAMA0")?;
        let common = self.materials.host.as_deref().unwrap_or_default();
        let host = self.host_initramfs((&job.name(), job.gic), guest, (common, &[]))?;
        Ok(self.kvm_of(job.gic, host))
    }

    fn kvm_of(&self, gic: Gic, host: PathBuf) -> Ready {
        let host = Guest {
            kernel: self.materials.kernel.image.clone(),
            initramfs: Some(host),
            cmdline: format!("console=ttyAMA0 {CMDLINE} rdinit=/bench/host"),
        };
        let mut command = self.qemu();
        let machine = self.machine("on", gic);
        machine::native(&mut command, &self.of(&host, &machine, BOARD_MEMORY));
        plain(command)
    }

    /// The initramfs of KVM's host: what all have in `common`, the guest, and the line that starts it, which also
    /// has `words`.
    fn host_initramfs(
        &self,
        (name, gic): (&str, Gic),
        outside: Guest,
        (common, words): (&[u8], &[&str]),
    ) -> Outcome<PathBuf> {
        let inside = Guest {
            kernel: "/bench/kernel".into(),
            initramfs: outside
                .initramfs
                .as_ref()
                .map(|_| "/bench/initramfs".into()),
            cmdline: outside.cmdline,
        };
        let machine = format!("virt,accel=kvm,its=off,{}", version(gic));
        let mut command = Command::new(format!("/{VMM_PROGRAM}"));
        let native = Native {
            cpu: "host",
            ..self.of(&inside, &machine, GUEST_MEMORY)
        };
        machine::native(&mut command, &native);
        command.args(["-seed", "1"]).args(words);
        let line = format!("{}\n", machine::typed(&command)).into_bytes();
        let mut files = vec![("bench/vmm".to_owned(), line)];
        for (to, from) in [
            ("bench/kernel", Some(&outside.kernel)),
            ("bench/initramfs", outside.initramfs.as_ref()),
        ] {
            let Some(from) = from else { continue };
            files.push((to.to_owned(), fs::read(from).blame(Code::Refused)?));
        }
        let bytes = [common, &initramfs::archive_of(&files)].concat();
        let path = self.dir.join(format!("{name}.initramfs"));
        repo::write_whole(&path, &bytes).blame(Code::Refused)?;
        Ok(path)
    }
}

/// What Xen is told of its first domain: it has the guest's memory.
fn first_domain() -> String {
    format!("dom0_mem={}M dom0_max_vcpus=1", GUEST_MEMORY >> 20)
}

/// A board that our hypervisor is not on, with time as a count of instructions.
fn plain(mut command: Command) -> Ready {
    machine::by_instructions(&mut command);
    Ready {
        command,
        vms: vec!["guest".to_owned()],
        framed: false,
        first: Vec::new(),
        poweroff: true,
    }
}

fn version(gic: Gic) -> &'static str {
    match gic {
        Gic::V2 => "gic-version=2",
        Gic::V3 => "gic-version=3",
    }
}
