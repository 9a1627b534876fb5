//! Makes a Debian image as a user does, and boots it, on plain QEMU and in a VM whose disk a driver VM
//! serves: by firmware and GRUB or with its kernel loaded directly, to a login, through `poweroff`, and after
//! the machine was killed while it wrote. After each end the file system must be sound.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hanok_artifacts::Store;
use hanok_artifacts::qemu::PROGRAM;
use hanok_base::exit::Code;
use hanok_base::{process, repo};
use hanok_console::request::{Extras, Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::ScriptStep;
use hanok_image::args::ImageCommand;

use crate::matrix;
use crate::runner::Runner;
use crate::step::{Tally, TestStep};

/// The steps: gigabytes are written, and minutes pass.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "debian-image-boots",
        run: |root| Tally::told(boots(root)),
    },
    TestStep {
        name: "debian-image-killed",
        run: |root| Tally::told(killed(root)),
    },
    TestStep {
        name: "debian-image-vm-kernel",
        run: |root| Tally::told(vm_boots(root, "debian-image-vm-kernel", &kernel)),
    },
    TestStep {
        name: "debian-image-vm-efi",
        run: |root| {
            Tally::told(vm_boots(root, "debian-image-vm-efi", &|_| {
                Ok(EFI.to_owned())
            }))
        },
    },
    TestStep {
        name: "debian-image-vm-u-boot",
        run: |root| {
            Tally::told(vm_boots(root, "debian-image-vm-u-boot", &|_| {
                Ok(U_BOOT.to_owned())
            }))
        },
    },
    TestStep {
        name: "debian-image-vm-killed",
        run: |root| Tally::told(vm_killed(root)),
    },
];

/// The time limit of a boot, on however slow a PC.
const PATIENCE: Duration = Duration::from_secs(1_500);
/// The first byte of the root file system, on an image with an EFI system partition.
const ROOT: u64 = 65 << 20;
const PASSWORD: &str = "correct-horse";
/// What the shell prints for the scripts: no line that is typed has it.
const PROMPT: &str = "root@debian:~# ";

#[derive(Parser)]
struct Words {
    #[command(subcommand)]
    command: ImageCommand,
}

/// Names an image that was made before, with `--boot-files` and this password, in place of a new one.
const BEFORE: &str = "HANOK_DEBIAN_IMAGE";

/// The image; the steps make it once.
static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);

fn made(root: &Path, dir: &Path) -> Result<PathBuf> {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        *made = std::env::var_os(BEFORE).map(PathBuf::from);
    }
    if made.is_none() {
        let folder = repo::target_dir(root).join("hanok/test/debian-image");
        fs::create_dir_all(&folder)?;
        let (image, password) = (folder.join("debian.img"), folder.join("password"));
        fs::write(&password, PASSWORD)?;
        let words = [
            "image".to_owned(),
            "debian".to_owned(),
            "--force".to_owned(),
            "--boot-files".to_owned(),
        ];
        let more = [
            format!("-o{}", image.display()),
            format!("--root-password=file:{}", password.display()),
        ];
        let words = Words::try_parse_from(words.into_iter().chain(more))?;
        let code = hanok_image::run(root, &words.command, true).map_err(|failure| failure.error)?;
        ensure!(code == Code::Success, "no image was made");
        *made = Some(image);
    }
    let image = made.as_ref().context("an image was made")?;
    let copy = dir.join("debian.img");
    for ending in ["img", "vmlinuz", "initrd"] {
        let mut copies = Command::new("cp");
        copies
            .arg("--sparse=always")
            .arg(image.with_extension(ending));
        process::run(copies.arg(copy.with_extension(ending)))?;
    }
    Ok(copy)
}

fn folder(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = repo::target_dir(root).join("hanok/test").join(name);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn boots(root: &Path) -> Result<String> {
    let dir = folder(root, "debian-image-boots")?;
    let image = made(root, &dir)?;
    let mut steps = login();
    steps.extend(checks());
    steps.push(typed("poweroff"));
    boot(&dir, &image, steps)?;
    let said = checked(&image, "-fn")?;
    fs::remove_file(image)?;
    Ok(said)
}

/// Looks at the system.
fn checks() -> Vec<ScriptStep> {
    vec![
        typed("systemctl is-system-running --wait"),
        expect("running\r\n"),
        expect(PROMPT),
        typed("systemctl is-active ssh systemd-networkd; ls /etc/ssh; findmnt -no SOURCE /"),
        expect("active\r\nactive\r\n"),
        expect("ssh_host_ed25519_key.pub"),
        expect("/dev/vda1\r\n"),
        expect(PROMPT),
    ]
}

/// Writes for ever. What was there before is on the disk, and three rounds have been.
fn writes() -> Vec<ScriptStep> {
    vec![
        typed("cp -r /usr/lib/systemd kept; sync; echo kept-$((1+1))"),
        expect("kept-2"),
        typed(
            "(for i in $(seq 1000); do cp -r /usr/lib/systemd /var/tmp/a; sync; echo wrote-$i; \
             rm -r /var/tmp/a; done) &",
        ),
        expect("wrote-3\r\n"),
    ]
}

/// What was written before the kill is there.
fn finds() -> Vec<ScriptStep> {
    vec![
        typed("diff -r /usr/lib/systemd kept && echo same-$((1+1))"),
        expect("same-2"),
        typed("poweroff"),
    ]
}

fn killed(root: &Path) -> Result<String> {
    let dir = folder(root, "debian-image-killed")?;
    let image = made(root, &dir)?;
    let mut steps = login();
    steps.extend(writes());
    steps.push(ScriptStep::End);
    boot(&dir, &image, steps)?;
    let recovered = recovered(&image)?;
    let mut again = login();
    again.extend(finds());
    boot(&dir, &image, again)?;
    let said = checked(&image, "-fn")?;
    fs::remove_file(image)?;
    Ok(recovered + &said)
}

/// A port of the PC leads to the SSH server, which says at once what it is (RFC 4253, 4.2).
const SSH_ANSWERS: &str = "{ connect = ['SSH-2.0-test', 'SSH-2.0-OpenSSH_'] }, ";

/// The lines of a description that say what the VM boots with `image`.
type Boots = dyn Fn(&Path) -> Result<String>;

/// EDK2 finds GRUB on the disk.
const EFI: &str = "firmware = \"edk2:aarch64\"";

/// So does U-Boot, by its own EFI.
const U_BOOT: &str = "firmware = \"u-boot:qemu_arm64\"";

/// Debian's own kernel and initrd.
fn kernel(image: &Path) -> Result<String> {
    let image = image.with_extension("");
    let image = image.to_str().context("the path is not UTF-8")?;
    Ok(format!(
        "kernel = \"{image}.vmlinuz\"\ninitramfs = \"{image}.initrd\"\n\
         cmdline = \"root=/dev/vda1 console=ttyAMA0\""
    ))
}

fn vm_boots(root: &Path, name: &str, boots: &Boots) -> Result<String> {
    let dir = folder(root, &format!("{name}-disk"))?;
    let image = made(root, &dir)?;
    let mut steps = login();
    steps.extend(checks());
    let off = [
        typed("poweroff"),
        ScriptStep::ExpectLog("vm debian: off".to_owned()),
    ];
    let steps = all_written(&steps) + SSH_ANSWERS + &all_written(&off);
    boot_vm(root, name, &image, boots, &steps)?;
    let said = checked(&image, "-fn")?;
    fs::remove_file(image)?;
    Ok(said)
}

fn vm_killed(root: &Path) -> Result<String> {
    let name = "debian-image-vm-killed";
    let dir = folder(root, &format!("{name}-disk"))?;
    let image = made(root, &dir)?;
    let mut steps = login();
    steps.extend(writes());
    boot_vm(root, name, &image, &kernel, &all_written(&steps))?;
    let recovered = recovered(&image)?;
    let mut again = login();
    again.extend(finds());
    again.push(ScriptStep::ExpectLog("vm debian: off".to_owned()));
    boot_vm(root, name, &image, &kernel, &all_written(&again))?;
    let said = checked(&image, "-fn")?;
    fs::remove_file(image)?;
    Ok(recovered + &said)
}

/// Boots `systems/debian.toml` with this disk, and does `steps`. The board is killed after the last one.
fn boot_vm(root: &Path, name: &str, image: &Path, boots: &Boots, steps: &str) -> Result<()> {
    let text = fs::read_to_string(root.join("systems/debian.toml"))?;
    let disk = image.to_str().context("the path is not UTF-8")?;
    let lines = [("../debian.img", disk), (EFI, &boots(image)?)];
    let mut described = text;
    for (old, new) in lines {
        ensure!(described.contains(old), "systems/debian.toml has no {old}");
        described = described.replace(old, new);
    }
    let file = image.with_extension("toml");
    fs::write(&file, described)?;
    let scenario = format!(
        "system = \"{}\"\nend = \"until\"\ntimeout = {}\nforward = \"debian:22\"\nsteps = [{steps}]\n\
         forbid = [\"Kernel panic\", \"I/O error\", \"panicked\", \"EXT4-fs error\"]\n",
        file.display(),
        PATIENCE.as_secs()
    );
    let runner = Runner::new(root, Store::open(true, false)?);
    for case in matrix::parse(name, &scenario)? {
        let tally = runner.run(&case);
        ensure!(tally.failed == 0, "{}", tally.details);
    }
    Ok(())
}

fn all_written(steps: &[ScriptStep]) -> String {
    steps.iter().map(written).collect()
}

/// A step as a scenario has it.
fn written(step: &ScriptStep) -> String {
    match step {
        ScriptStep::Expect(text) => format!("{{ expect = {text:?} }}, "),
        ScriptStep::ExpectLog(text) => format!("{{ expect-log = {text:?} }}, "),
        ScriptStep::Send(bytes) => {
            format!("{{ send = {:?} }}, ", String::from_utf8_lossy(bytes))
        }
        _ => String::new(),
    }
}

fn login() -> Vec<ScriptStep> {
    vec![
        expect("debian login: "),
        typed("root"),
        expect("Password: "),
        typed(PASSWORD),
        expect(PROMPT),
    ]
}

fn expect(text: &str) -> ScriptStep {
    ScriptStep::Expect(text.to_owned())
}

fn typed(line: &str) -> ScriptStep {
    ScriptStep::Send(format!("{line}\n").into_bytes())
}

/// Boots the image by EDK2 and GRUB, and does `steps`.
fn boot(dir: &Path, image: &Path, steps: Vec<ScriptStep>) -> Result<()> {
    let store = Store::open(true, false)?;
    let firmware = store.debian("qemu-efi-aarch64:all")?;
    let mut command = store.qemu()?.command(PROGRAM);
    command.args([
        "-M",
        "virt,gic-version=3",
        "-cpu",
        "cortex-a57",
        "-smp",
        "2",
        "-m",
        "1G",
    ]);
    command.args([
        "-nographic",
        "-nodefaults",
        "-no-reboot",
        "-monitor",
        "none",
    ]);
    command.args(["-serial", "stdio", "-nic", "none", "-bios"]);
    command.arg(firmware.join("usr/share/qemu-efi-aarch64/QEMU_EFI.fd"));
    let drive = format!("file={},format=raw,if=none,id=d", image.display());
    command.args(["-drive", &drive, "-device", "virtio-blk-device,drive=d"]);
    let request = Request {
        consoles: vec![Sink::create(&dir.join("debian.console"))?],
        command,
        framed: false,
        poweroff: true,
        steps,
        until: None,
        timeout: Some(PATIENCE),
        log: Sink::create(&dir.join("hanok.log"))?,
        input: Input::None,
        before_end: None,
        vms: vec!["debian".to_owned()],
    };
    let report = run::run_with(request, Extras::default()).map_err(|failure| failure.error)?;
    ensure!(report.code == Code::Success, "{}", report.why);
    Ok(())
}

/// Has e2fsck do what a boot does after a power failure, and nothing else: the journal's transactions, and
/// files that were deleted while they were open. It cannot do so within an image, so it gets a copy of the
/// file system, and the next boot has to do the same.
fn recovered(image: &Path) -> Result<String> {
    let copy = image.with_extension("root");
    let mut dd = Command::new("dd");
    dd.args(["bs=1M", "conv=sparse", &format!("skip={}", ROOT >> 20)]);
    dd.arg(format!("if={}", image.display()));
    process::run(dd.arg(format!("of={}", copy.display())))?;
    let output = Command::new(E2FSCK).arg("-fp").arg(&copy).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let strange = said.lines().find(|line| !is_recovery(line));
    ensure!(strange.is_none(), "{said}");
    let wrote = said.contains(REPLAYED);
    ensure!(wrote, "the machine was not killed while it wrote: {said}");
    process::text(Command::new(E2FSCK).arg("-fn").arg(&copy))?;
    fs::remove_file(copy)?;
    Ok(said)
}

const E2FSCK: &str = "/usr/sbin/e2fsck";
const REPLAYED: &str = "recovering journal";

/// Whether a line of e2fsck's tells of what any boot after a power failure does, or counts what there is.
fn is_recovery(line: &str) -> bool {
    let known = [REPLAYED, "Clearing orphaned inode", " files ("];
    line.is_empty() || known.iter().any(|words| line.contains(words))
}

/// What e2fsck says of the root file system.
fn checked(image: &Path, how: &str) -> Result<String> {
    let place = format!("{}?offset={ROOT}", image.display());
    process::text(Command::new(E2FSCK).arg(how).arg(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_is_told_from_damage() {
        let sound = "root: recovering journal\nroot: Clearing orphaned inode 5 (uid=0)\n\n\
                     root: 10/20 files (0.1% non-contiguous), 1/2 blocks";
        assert!(sound.lines().all(is_recovery));
        for damage in [
            "root: Entry 'x' in /y (1) has deleted/unused inode 2.  CLEARED.",
            "root: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.",
            "Free blocks count wrong (1, counted=2).",
        ] {
            assert!(!is_recovery(damage), "{damage}");
        }
    }
}
