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

/// What the hypervisor is told on this PC: to frame the line, and `append`.
fn words(append: &str) -> String {
    format!("hanok.console=framed {append}")
        .trim_end()
        .to_owned()
}

/// Adds what boots `image` on the board that `board` describes, with more words for the
/// hypervisor.
pub fn board(command: &mut Command, board: &[String], image: &Path, append: &str) {
    command.args(board);
    common(command);
    command
        .arg("-kernel")
        .arg(image)
        .args(["-append", &words(append)]);
}

/// Where the parts of a board are that boots with a device tree of our own.
pub struct Placed<'a> {
    /// The image.
    pub image: (&'a Path, u64),
    /// The board's device tree.
    pub tree: (&'a Path, u64),
    /// The first instructions, as [`stub`] makes them.
    pub stub: (&'a Path, u64),
}

/// Adds what boots an image with a device tree that QEMU has neither made nor looked into:
/// what a boot loader gone wrong might hand over.
pub fn placed(command: &mut Command, board: &[String], placed: &Placed) {
    command.args(board);
    common(command);
    for ((file, address), more) in [
        (placed.image, ",force-raw=on"),
        (placed.tree, ",force-raw=on"),
        (placed.stub, ",force-raw=on,cpu-num=0"),
    ] {
        let file = file.to_string_lossy().replace(',', ",,");
        let device = format!("loader,file={file},addr={address:#x}{more}");
        command.args(["-device", &device]);
    }
}

/// A64 code that does what the boot protocol asks of a boot loader: X0 is the tree, go.
pub fn stub(tree: u64, entry: u64) -> Vec<u8> {
    // ldr x0, tree; ldr x4, entry; br x4; nop
    let code: [u32; 4] = [0x5800_0080, 0x5800_00a4, 0xd61f_0080, 0xd503_201f];
    let words = code.iter().flat_map(|word| word.to_le_bytes());
    let literals = [tree, entry].into_iter().flat_map(u64::to_le_bytes);
    words.chain(literals).collect()
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
