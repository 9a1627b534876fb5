//! The same in C: compiled, and run on a channel that is a file, by which it exchanges messages with the Rust code.

use hanok_channel::{Receiver, Sender};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU32;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// Where the file has the registers and the memory, for which a file has no room at the channel's own places.
const REGISTERS: u64 = 0;
const MEMORY: u64 = 4096;
const LEN: u64 = 8192;

fn compile(to: &Path, files: &[&str], flags: &[&str]) {
    let fixed = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-Ic"];
    let mut command = Command::new("cc");
    let output = command
        .current_dir(HERE)
        .args(fixed)
        .args(flags)
        .arg("-o")
        .arg(to)
        .args(files)
        .output();
    let output = output.expect("a C compiler, which Rust needs to link, too");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The words of a ring of 16 words.
fn part() -> Vec<AtomicU32> {
    (0..18).map(|_| AtomicU32::new(0)).collect()
}

fn bytes(words: &[AtomicU32]) -> Vec<u8> {
    let words = words
        .iter()
        .map(|word| word.load(std::sync::atomic::Ordering::Relaxed));
    words.flat_map(u32::to_le_bytes).collect()
}

#[test]
fn c_and_rust_understand_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("tree/channel@b000000");
    std::fs::create_dir_all(&node).unwrap();
    let reg = [REGISTERS, 4096, MEMORY, LEN].map(u64::to_be_bytes);
    std::fs::write(node.join("reg"), reg.as_flattened()).unwrap();
    std::fs::write(node.join("hanok,name"), "sensor\0").unwrap();
    let sent = part();
    Sender::new(&sent).unwrap().send(b"from Rust").unwrap();
    let mut memory = vec![0; (MEMORY + LEN) as usize];
    for (register, value) in [(3, 0x201_u32), (8, 0x5_0001)] {
        memory[4 * register..][..4].copy_from_slice(&value.to_le_bytes());
    }
    let there = MEMORY as usize + 4096;
    memory[there..there + 72].copy_from_slice(&bytes(&sent));
    let file = folder.path().join("memory");
    std::fs::write(&file, memory).unwrap();
    let program = folder.path().join("channel");
    compile(&program, &["tests/channel.c", "c/hanok_channel.c"], &[]);
    let output = Command::new(program)
        .arg(folder.path().join("tree"))
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        said,
        "c: all as wanted\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let memory = std::fs::read(&file).unwrap();
    let words = memory[MEMORY as usize..].as_chunks::<4>().0.iter().take(18);
    let words: Vec<_> = words
        .map(|word| AtomicU32::new(u32::from_le_bytes(*word)))
        .collect();
    let mut buffer = [0; 16];
    assert_eq!(
        Receiver::new(&words).unwrap().receive(&mut buffer),
        Ok(&b"from C"[..])
    );
}

#[test]
fn the_c_file_needs_no_system() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("channel.o");
    compile(
        &object,
        &["c/hanok_channel.c"],
        &["-DHANOK_BARE", "-c", "-ffreestanding"],
    );
}
