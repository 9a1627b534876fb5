//! QEMU's command line.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// What a native boot needs: the guest's own machine, without ours around it.
pub struct Native<'a> {
    /// The CPU model.
    pub cpu: &'a str,
    /// How many cores.
    pub cores: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// The kernel.
    pub kernel: &'a Path,
    /// The initramfs.
    pub initramfs: Option<&'a Path>,
    /// The kernel's command line.
    pub cmdline: &'a str,
}

/// What every run has: no window, no network, no second serial port, and a reset that ends.
fn common(command: &mut Command) {
    command.args(["-nographic", "-nodefaults", "-nic", "none", "-no-reboot"]);
    // The guest's Ctrl-C is a byte like any other; the monitor stays closed, so that nothing
    // on the line reaches this PC.
    command.args([
        "-chardev",
        "stdio,id=line,signal=off",
        "-serial",
        "chardev:line",
    ]);
    command.args(["-monitor", "none"]);
}

/// Adds what boots `image` on the board that `board` describes.
pub fn board(command: &mut Command, board: &[String], image: &Path) {
    command.args(board);
    common(command);
    command
        .arg("-kernel")
        .arg(image)
        .args(["-append", "hanok.console=framed"]);
}

/// Adds what boots a guest without the hypervisor, on the machine that a VM looks like.
pub fn native(command: &mut Command, guest: &Native) {
    command.args(["-M", "virt,gic-version=3,its=off", "-cpu", guest.cpu]);
    command.args(["-smp", &guest.cores.to_string()]);
    command.args(["-m", &format!("{}M", guest.memory >> 20)]);
    common(command);
    command
        .arg("-kernel")
        .arg(guest.kernel)
        .args(["-append", guest.cmdline]);
    if let Some(initramfs) = guest.initramfs {
        command.arg("-initrd").arg(initramfs);
    }
}

/// Adds what the command line asks for besides.
pub fn extras(command: &mut Command, args: &[String], gdb: bool) {
    if gdb {
        command.args(["-s", "-S"]);
    }
    command.args(args);
}

/// `command` as one would type it.
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
