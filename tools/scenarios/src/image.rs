//! Makes a Debian image as a user does, and boots it on plain QEMU by firmware and GRUB: to a login,
//! through `poweroff`, and after the machine was killed while it wrote. After each end the file system
//! must be sound.

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

use crate::step::{Tally, TestStep};

/// The steps: gigabytes are written, and minutes pass.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "image-debian-boots",
        run: |root| Tally::told(boots(root)),
    },
    TestStep {
        name: "image-debian-killed",
        run: |root| Tally::told(killed(root)),
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

/// The image; both steps make it once.
static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);

fn made(root: &Path, dir: &Path) -> Result<PathBuf> {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        let folder = repo::target_dir(root).join("hanok/test/image");
        fs::create_dir_all(&folder)?;
        let (image, password) = (folder.join("debian.img"), folder.join("password"));
        fs::write(&password, PASSWORD)?;
        let words = [
            "image".to_owned(),
            "debian".to_owned(),
            "--force".to_owned(),
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
    let mut copies = Command::new("cp");
    process::run(copies.arg("--sparse=always").arg(image).arg(&copy))?;
    Ok(copy)
}

fn folder(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = repo::target_dir(root).join("hanok/test").join(name);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn boots(root: &Path) -> Result<String> {
    let dir = folder(root, "image-boots")?;
    let image = made(root, &dir)?;
    let mut steps = login();
    steps.extend([
        typed("systemctl is-system-running --wait"),
        expect("running\r\n"),
        expect(PROMPT),
        typed("systemctl is-active ssh systemd-networkd; ls /etc/ssh; findmnt -no SOURCE /"),
        expect("active\r\nactive\r\n"),
        expect("ssh_host_ed25519_key.pub"),
        expect("/dev/vda1\r\n"),
        expect(PROMPT),
        typed("poweroff"),
    ]);
    boot(&dir, &image, steps)?;
    let said = checked(&image, "-fn")?;
    fs::remove_file(image)?;
    Ok(said)
}

fn killed(root: &Path) -> Result<String> {
    let dir = folder(root, "image-killed")?;
    let image = made(root, &dir)?;
    let load = "for i in 1 2; do (while :; do cp -r /usr/share/zoneinfo /usr/lib/systemd /var/tmp/$i; \
                sync; rm -r /var/tmp/$i; mkdir /var/tmp/$i; done) & done; mkdir -p /var/tmp/1 /var/tmp/2";
    let mut steps = login();
    steps.extend([
        typed(load),
        ScriptStep::Wait(Duration::from_secs(40)),
        ScriptStep::End,
    ]);
    boot(&dir, &image, steps)?;
    let mut again = login();
    again.extend([typed("rm -r /var/tmp/1 /var/tmp/2; poweroff")]);
    boot(&dir, &image, again)?;
    let said = checked(&image, "-fn")?;
    fs::remove_file(image)?;
    Ok(said)
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

/// What e2fsck says of the root file system.
fn checked(image: &Path, how: &str) -> Result<String> {
    let place = format!("{}?offset={ROOT}", image.display());
    process::text(Command::new("/usr/sbin/e2fsck").arg(how).arg(place))
}
