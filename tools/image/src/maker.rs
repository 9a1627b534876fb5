//! The machine that installs: QEMU with a stock kernel, which unpacks and configures the packages on
//! the image as any Debian machine does.
//!
//! Rejected: mmdebstrap or debootstrap on this PC. They need root or a user's own range of ids, and
//! binfmt_misc with an emulator in it to run the packages' scripts, which a container seldom has. A
//! machine of its own needs neither, runs the same kernel code as the result, and cannot touch the PC.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hanok_artifacts::Store;
use hanok_artifacts::initramfs::{self, modules::Selection};
use hanok_artifacts::kernel::{Kernel, KernelSpec};
use hanok_artifacts::qemu::{PROGRAM, PROGRAM_32, Qemu};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::ui::{self, LongStep};

use crate::args::{Arch, drive};

/// What begins the machine's words for us.
const MARK: &str = "hanok-image: ";
/// How many of its last lines are told where it fails.
const TOLD: usize = 15;

/// The machine, before it starts.
pub struct Maker {
    qemu: Qemu,
    kernel: Kernel,
    initramfs: PathBuf,
    arch: Arch,
}

/// The kernel that the machine runs.
pub fn kernel(arch: Arch) -> KernelSpec {
    let reference = match arch {
        Arch::Arm64 => "debian:6.1",
        Arch::Armhf => "debian:6.1:armhf",
    };
    KernelSpec::parse(reference).expect("it is well formed")
}

impl Maker {
    /// Fetches what the machine needs.
    pub fn prepare(store: &Store, arch: Arch) -> Outcome<Self> {
        let qemu = store.qemu().blame(Code::Setup)?;
        let kernel = store.kernel(&kernel(arch)).blame(Code::Setup)?;
        let initramfs = store.initramfs(&kernel, &Selection::Default);
        Ok(Self {
            qemu,
            initramfs: initramfs.blame(Code::Setup)?,
            kernel,
            arch,
        })
    }

    /// Installs the packages in the image `packages` on `disk`. The console's words go to `log`.
    pub fn install(&self, disk: &Path, packages: &Path, log: &Path) -> Outcome<()> {
        let initramfs = packages.with_file_name("initramfs");
        self.write_initramfs(&initramfs).blame(Code::Output)?;
        let mut command = self.command(disk, packages, &initramfs);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| failure(Code::Qemu, format!("cannot start QEMU: {error}")))?;
        let said = follow(&mut child, log);
        let output = child.wait_with_output().blame(Code::Qemu)?;
        match said.blame(Code::Output)? {
            Said::Done => Ok(()),
            Said::Failed(why) => Err(self.failed(&why, log)),
            Said::Nothing => {
                let words = String::from_utf8_lossy(&output.stderr).into_owned();
                let why = format!("QEMU ended ({}) {}", output.status, words.trim_end());
                Err(failure(Code::Qemu, told(&why, log)))
            }
        }
    }

    fn failed(&self, why: &str, log: &Path) -> hanok_base::exit::Failure {
        failure(Code::Refused, told(why, log))
    }

    fn write_initramfs(&self, path: &Path) -> std::io::Result<()> {
        let init = include_bytes!("../guest/init").to_vec();
        let mut bytes = fs::read(&self.initramfs)?;
        bytes.extend(initramfs::archive_of(&[("init".to_owned(), init)]));
        fs::write(path, bytes)
    }

    fn command(&self, disk: &Path, packages: &Path, initramfs: &Path) -> Command {
        let (program, machine, cpu) = match self.arch {
            Arch::Arm64 => (PROGRAM, "virt,gic-version=3,its=off", "cortex-a57"),
            Arch::Armhf => (PROGRAM_32, "virt,gic-version=2", "cortex-a15"),
        };
        let mut command = self.qemu.command(program);
        command.args(["-M", machine, "-cpu", cpu, "-smp", "2", "-m", "1G"]);
        command.args(["-nographic", "-nodefaults", "-nic", "none", "-no-reboot"]);
        command.args(["-monitor", "none", "-serial", "stdio"]);
        if let Some(time) = epoch() {
            command.args(["-rtc", &format!("base={time}")]);
        }
        command.arg("-kernel").arg(&self.kernel.image);
        command.arg("-initrd").arg(initramfs);
        command.args(["-append", "console=ttyAMA0 quiet mitigations=off panic=-1"]);
        // The image is thrown away where this ends early, so that nothing has to be safe on it.
        let written = "id=target,cache=unsafe,discard=unmap,detect-zeroes=unmap,werror=report";
        for (path, options, name) in [
            (disk, written, "target"),
            (packages, "id=packages,readonly=on", "packages"),
        ] {
            command.args(["-drive", &drive(path, options)]);
            command.args([
                "-device",
                &format!("virtio-blk-device,drive={name},serial={name}"),
            ]);
        }
        command
    }
}

/// The date that everything on the image is to have, if the environment names one, as QEMU reads it.
fn epoch() -> Option<String> {
    let seconds: i64 = std::env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()?;
    Some(date(seconds))
}

/// Seconds since 1970 as `2026-01-31T12:00:00`, in the Gregorian calendar.
fn date(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March, counted from year 0: 400 of them have 146,097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}")
}

/// What the machine said at last.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Done,
    Failed(String),
}

/// Shows the steps of a machine until its console closes.
fn follow(child: &mut Child, log: &Path) -> std::io::Result<Said> {
    let mut log = File::create(log)?;
    let (mut said, mut shown) = (Said::Nothing, None::<LongStep>);
    let Some(console) = child.stdout.take() else {
        return Ok(said);
    };
    for line in BufReader::new(console).split(b'\n') {
        let line = ui::plain(&String::from_utf8_lossy(&line?));
        writeln!(log, "{line}")?;
        let Some(words) = line.strip_prefix(MARK) else {
            continue;
        };
        if let Some(step) = shown.take() {
            step.done();
        }
        match words.split_once(' ').unwrap_or((words, "")) {
            ("step", name) => shown = Some(LongStep::new(name)),
            ("failed", why) => said = Said::Failed(why.to_owned()),
            ("done", _) => said = Said::Done,
            _ => {}
        }
    }
    Ok(said)
}

fn told(why: &str, log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    format!(
        "{why}; its last words (all are in {}):\n{}",
        log.display(),
        ui::tail(&text, TOLD)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00");
        assert_eq!(date(1_798_761_599), "2026-12-31T23:59:59");
    }

    #[test]
    fn what_the_machine_said_last_counts() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let say = |text: &str| {
            let mut echo = Command::new("printf");
            let mut child = echo.arg(text).stdout(Stdio::piped()).spawn().unwrap();
            let said = follow(&mut child, &log).unwrap();
            child.wait().unwrap();
            said
        };
        assert_eq!(say("x\\nhanok-image: step A\\n"), Said::Nothing);
        assert_eq!(
            say("hanok-image: step A\\nhanok-image: done\\n"),
            Said::Done
        );
        let failed = Said::Failed("no room".to_owned());
        assert_eq!(say("E: y\\nhanok-image: failed no room\\n"), failed);
        assert!(told("why", &log).contains("E: y"));
    }
}
