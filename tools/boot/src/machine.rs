//! QEMU's command line.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use hanok_system::Architecture;

use hanok_artifacts::cargo::Variant;
use hanok_console::script::ScriptStep;

/// A native boot: the guest's own machine, without the hypervisor.
pub struct Native<'a> {
    /// The machine: the argument of `-M`.
    pub machine: &'a str,
    /// The CPU model.
    pub cpu: &'a str,
    /// The number of cores.
    pub cores: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// The kernel, or the firmware.
    pub kernel: &'a Path,
    /// Whether that is a firmware.
    pub firmware: bool,
    /// The initramfs.
    pub initramfs: Option<&'a Path>,
    /// The kernel's command line.
    pub cmdline: &'a str,
}

/// Adds what every run has: no window, no network, and a reset that ends QEMU.
fn common(command: &mut Command) {
    command.args(["-nographic", "-nodefaults", "-nic", "none", "-no-reboot"]);
    // The guest's Ctrl-C is a byte like any other. The monitor stays closed, so that nothing on the
    // line reaches this PC.
    command.args([
        "-chardev",
        "stdio,id=line,signal=off",
        "-serial",
        "chardev:line",
    ]);
    command.args(["-monitor", "none"]);
}

/// Where the board's second serial port leads, if a VM has it for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SerialPlace {
    /// Nowhere.
    #[default]
    Nowhere,
    /// To a file, which gets what the VM sends.
    File(PathBuf),
    /// To a UNIX socket, at which one program at a time sends and receives.
    Socket(PathBuf),
}

impl SerialPlace {
    /// The place that is named by `file:PATH` or `socket:PATH`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("socket", path)) if !path.is_empty() => Ok(Self::Socket(path.into())),
            _ => Err("it is neither file:PATH nor socket:PATH, such as file:serial.log".to_owned()),
        }
    }

    /// The file or socket that it makes.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Nowhere => None,
            Self::File(path) | Self::Socket(path) => Some(path),
        }
    }

    /// Adds the second serial port, behind the first one.
    fn add_to(&self, command: &mut Command) {
        let device = match self {
            Self::Nowhere => {
                command.args(["-serial", "null"]);
                return;
            }
            Self::File(path) => format!("file,id=second,path={}", escaped(path)),
            // It does not wait for who reads: what is sent until somebody comes is lost.
            Self::Socket(path) => {
                format!("socket,id=second,server=on,wait=off,path={}", escaped(path))
            }
        };
        command.args(["-chardev", &device, "-serial", "chardev:second"]);
    }
}

/// The hypervisor's command line: to frame the line, as on this PC, and `append`.
pub fn words(append: &str, framed: bool) -> String {
    let frame = if framed { "hanok.console=framed " } else { "" };
    format!("{frame}{append}").trim_end().to_owned()
}

/// The words that are the hypervisor's own. It ignores all others of a boot loader's words.
const WORDS: [&str; 2] = ["hanok.console", "hanok.selftest"];

/// The variant of the hypervisor that knows all of these words.
pub fn variant(append: &str) -> Variant {
    let mut words = append.split_whitespace();
    if words.any(|word| word.starts_with("hanok.selftest=")) {
        Variant::Selftest
    } else {
        Variant::Shipped
    }
}

/// Refuses words of the hypervisor's that it does not know: it would ignore them.
pub fn check_words(append: &str) -> Result<()> {
    for word in append.split_whitespace() {
        let name = word.split('=').next().unwrap_or_default();
        if name.starts_with("hanok.") && !WORDS.contains(&name) {
            bail!(
                "--append: the hypervisor has no word {name}\n  why: it knows {}\n  \
                 fix: mend the word, or remove it",
                WORDS.join(" and ")
            );
        }
    }
    Ok(())
}

/// How the image of a system gets onto its board.
pub struct Boot<'a> {
    /// The image.
    pub image: &'a Path,
    /// Words for the hypervisor.
    pub words: String,
    /// The board's device tree, where QEMU makes none.
    pub tree: Option<&'a Path>,
    /// U-Boot, if it and not QEMU is to start the image, and the image's address.
    pub u_boot: Option<(&'a Path, u64)>,
    /// The second serial port, if a VM has it.
    pub serial: Option<&'a SerialPlace>,
}

/// Adds the arguments that boot a system on the board that `board` describes.
pub fn board(command: &mut Command, board: &[String], boot: &Boot) {
    command.args(board);
    common(command);
    if let Some(serial) = boot.serial {
        serial.add_to(command);
    }
    if let Some(tree) = boot.tree {
        command.arg("-dtb").arg(tree);
    }
    match boot.u_boot {
        None => {
            command.arg("-kernel").arg(boot.image);
            command.args(["-append", &boot.words]);
        }
        Some((u_boot, at)) => {
            command.arg("-bios").arg(u_boot);
            load(command, boot.image, at, "");
        }
    }
}

/// Adds a file that QEMU puts into memory at each reset.
fn load(command: &mut Command, file: &Path, address: u64, more: &str) {
    let file = escaped(file);
    let device = format!("loader,file={file},addr={address:#x},force-raw=on{more}");
    command.args(["-device", &device]);
}

/// A path inside one of QEMU's options.
pub fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// What is typed at U-Boot's prompt to start the image at `at`: the `words` that `-append` would
/// pass, and the tree that U-Boot itself was given (U-Boot, doc/usage/cmd/booti.rst; `bootz` takes
/// the same).
pub fn u_boot_steps(architecture: Architecture, at: u64, words: &str) -> Vec<ScriptStep> {
    let command = match architecture {
        Architecture::Arm64 => "booti",
        Architecture::Arm => "bootz",
    };
    let prompt = || ScriptStep::ExpectLog("=> ".to_owned());
    let typed = |line: String| ScriptStep::Raw((line + "\r").into_bytes());
    vec![
        ScriptStep::ExpectLog("Hit any key to stop autoboot".to_owned()),
        typed(String::new()),
        prompt(),
        typed(format!("setenv bootargs '{words}'")),
        prompt(),
        typed(format!("{command} {at:#x} - ${{fdtcontroladdr}}")),
    ]
}

/// Adds the arguments that make time a count of instructions, and all runs alike: a constant seed,
/// and a wall clock that begins at a constant time.
pub fn by_instructions(command: &mut Command) {
    command.args(["-icount", "shift=0,sleep=off", "-seed", "1"]);
    command.args(["-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
}

/// The parts of a board that boots with a device tree of our own, and their addresses.
pub struct Placed<'a> {
    /// The image.
    pub image: (&'a Path, u64),
    /// The board's device tree.
    pub tree: (&'a Path, u64),
    /// The first instructions, made by [`stub`].
    pub stub: (&'a Path, u64),
}

/// Adds the arguments that boot an image with a device tree that QEMU has neither made nor read:
/// what a faulty boot loader might pass.
pub fn placed(command: &mut Command, board: &[String], placed: &Placed) {
    command.args(board);
    common(command);
    for ((file, address), more) in [
        (placed.image, ""),
        (placed.tree, ""),
        (placed.stub, ",cpu-num=0"),
    ] {
        load(command, file, address, more);
    }
}

/// Code that does what the boot protocol asks of a boot loader, and jumps to `entry`: X0 has the
/// tree's address; for 32 bits R0 is zero, R1 is no board's number, and R2 has the tree's address.
pub fn stub(architecture: Architecture, tree: u64, entry: u64) -> Vec<u8> {
    match architecture {
        // ldr x0, tree; ldr x4, entry; br x4; nop
        Architecture::Arm64 => {
            let code = [0x5800_0080, 0x5800_00a4, 0xd61f_0080, 0xd503_201f];
            let literals = [tree, entry].into_iter().flat_map(u64::to_le_bytes);
            bytes(&code).chain(literals).collect()
        }
        // ldr r2, tree; mov r0, #0; mvn r1, #0; ldr pc, entry
        Architecture::Arm => {
            let code = [0xe59f_2008, 0xe3a0_0000, 0xe3e0_1000, 0xe59f_f000];
            bytes(&code)
                .chain(bytes(&[tree as u32, entry as u32]))
                .collect()
        }
    }
}

fn bytes(words: &[u32]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes())
}

/// Adds the arguments that boot a guest without the hypervisor, on the machine that a VM looks
/// like.
pub fn native(command: &mut Command, guest: &Native) {
    command.args(["-M", guest.machine, "-cpu", guest.cpu]);
    command.args(["-smp", &guest.cores.to_string()]);
    command.args(["-m", &format!("{}M", guest.memory >> 20)]);
    common(command);
    if guest.firmware {
        command.arg("-bios").arg(guest.kernel);
        return;
    }
    command.arg("-kernel").arg(guest.kernel);
    command.args(["-append", guest.cmdline]);
    if let Some(initramfs) = guest.initramfs {
        command.arg("-initrd").arg(initramfs);
    }
}

/// The address of QEMU's gdb stub. Whoever reaches it reads and writes all of the board, so that
/// only this PC can (`-s` would be every address).
pub fn gdb_address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Refuses a port that is in use, for example by the board of another run.
pub fn check_port(port: u16) -> Result<()> {
    let address = gdb_address(port);
    // The port that is bound here for a moment is free again for QEMU.
    let Err(error) = TcpListener::bind(address) else {
        return Ok(());
    };
    let other = if port == 1234 { 2345 } else { 1234 };
    match error.kind() {
        ErrorKind::AddrInUse => bail!(
            "--gdb: port {port} of this PC is taken\n  why: something listens at {address} \
             already, perhaps another run that waits for its debugger\n  fix: end that, or name \
             another port: --gdb {other}"
        ),
        ErrorKind::PermissionDenied => bail!(
            "--gdb: you may not listen on port {port} of this PC\n  why: ports below 1024 are for \
             the administrator\n  fix: name another port: --gdb {other}"
        ),
        _ => bail!("--gdb: cannot listen at {address}: {error}"),
    }
}

/// Adds the arguments that the command line asks for.
pub fn extras(command: &mut Command, args: &[String], gdb: Option<u16>) {
    if let Some(port) = gdb {
        command.args(["-gdb", &format!("tcp:{}", gdb_address(port)), "-S"]);
    }
    command.args(args);
}

/// `command` as a person would type it.
pub fn typed(command: &Command) -> String {
    let environment = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(quoted);
    environment.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(boot: &Boot) -> String {
        let mut command = Command::new("qemu");
        board(&mut command, &["-M".into(), "virt".into()], boot);
        typed(&command)
    }

    #[test]
    fn the_image_is_started_by_qemu_or_by_u_boot() {
        let mut boot = Boot {
            image: Path::new("a,b"),
            words: words("x=1", true),
            tree: Some(Path::new("t.dtb")),
            u_boot: None,
            serial: None,
        };
        let line = args(&boot);
        assert!(line.starts_with("qemu -M virt "), "{line}");
        let end = "-dtb t.dtb -kernel a,b -append 'hanok.console=framed x=1'";
        assert!(line.ends_with(end), "{line}");
        boot.u_boot = Some((Path::new("u-boot.bin"), 0x40_0000));
        let line = args(&boot);
        let end = "-bios u-boot.bin -device loader,file=a,,b,addr=0x400000,force-raw=on";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn a_second_serial_port_follows_the_first() {
        let args_with = |serial: &SerialPlace| {
            args(&Boot {
                image: Path::new("i"),
                words: String::new(),
                tree: None,
                u_boot: None,
                serial: Some(serial),
            })
        };
        for (place, words) in [
            (
                "file:a,b",
                "-chardev file,id=second,path=a,,b -serial chardev:second",
            ),
            (
                "socket:/tmp/s",
                "-chardev socket,id=second,server=on,wait=off,path=/tmp/s -serial chardev:second",
            ),
        ] {
            let line = args_with(&SerialPlace::parse(place).unwrap());
            let both = format!("-serial chardev:line -monitor none {words} ");
            assert!(line.contains(&both), "{line}");
        }
        let line = args_with(&SerialPlace::Nowhere);
        assert!(
            line.contains("chardev:line -monitor none -serial null "),
            "{line}"
        );
        for wrong in ["", "pty", "file:", "socket", "tcp:1"] {
            assert!(SerialPlace::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Each literal is where its load reads: at the distance that the load says, plus 8 in A32.
    #[test]
    fn a_stub_finds_the_tree_and_the_entry() {
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        let stub = super::stub(Architecture::Arm, 0x4011_0000, 0x4020_0000);
        let literal = |at: usize| word(&stub, at + 8 + (word(&stub, at) & 0xfff) as usize);
        assert_eq!((literal(0), literal(12)), (0x4011_0000, 0x4020_0000));
        let stub = super::stub(Architecture::Arm64, 0x4011_0000, 0x4020_0000);
        let literal = |at: usize| word(&stub, at + (word(&stub, at) >> 5 & 0x7_ffff) as usize * 4);
        assert_eq!((literal(0), literal(4)), (0x4011_0000, 0x4020_0000));
    }

    #[test]
    fn u_boot_is_told_the_words_and_its_own_tree() {
        let steps = u_boot_steps(Architecture::Arm64, 0x40_0000, &words("x=1", true));
        let typed: Vec<_> = steps
            .iter()
            .filter_map(|step| match step {
                ScriptStep::Raw(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                _ => None,
            })
            .collect();
        let wanted = [
            "\r",
            "setenv bootargs 'hanok.console=framed x=1'\r",
            "booti 0x400000 - ${fdtcontroladdr}\r",
        ];
        assert_eq!(typed, wanted);
    }

    #[test]
    fn unknown_words_of_the_hypervisor_s_are_refused() {
        assert!(check_words("quiet hanok.selftest=panic hanok.console=framed").is_ok());
        let error = check_words("hanok.bogus=1").unwrap_err().to_string();
        assert!(error.contains("no word hanok.bogus"), "{error}");
        assert!(check_words("hanok.selftests=panic").is_err());
    }

    #[test]
    fn a_fault_on_demand_takes_the_image_that_has_them() {
        assert_eq!(variant("quiet hanok.selftest=panic"), Variant::Selftest);
        assert_eq!(variant("hanok.console=framed"), Variant::Shipped);
        assert_eq!(variant(""), Variant::default());
    }

    #[test]
    fn a_debugger_is_awaited_on_this_pc_alone() {
        let mut command = Command::new("qemu");
        extras(&mut command, &["-d".to_owned()], Some(1234));
        assert_eq!(typed(&command), "qemu -gdb tcp:127.0.0.1:1234 -S -d");
        let mut command = Command::new("qemu");
        extras(&mut command, &[], Some(2345));
        assert_eq!(typed(&command), "qemu -gdb tcp:127.0.0.1:2345 -S");
    }

    #[test]
    fn a_port_that_is_taken_is_told_before_anything_is_built() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = check_port(port).unwrap_err().to_string();
        let what = format!("port {port} of this PC is taken");
        assert!(error.contains(&what) && error.contains("fix: "), "{error}");
        drop(taken);
        assert!(check_port(port).is_ok());
    }

    #[test]
    fn a_typed_command_can_be_pasted() {
        let mut command = Command::new("qemu");
        command
            .args(["-append", "a b", "it's", "", "x=1,y"])
            .env("L", "/a:/b");
        assert_eq!(
            typed(&command),
            "L=/a:/b qemu -append 'a b' 'it'\\''s' '' x=1,y"
        );
    }
}
