//! The packages, as the installing machine gets them: unpacked, because an emulated CPU would take
//! minutes over xz.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hanok_base::process;

/// The folders of the root that are links into usr/, in all releases that are known here.
const MERGED: [&str; 3] = ["bin", "sbin", "lib"];

/// What of packages is left out, by patterns of paths.
const UNWANTED: [&str; 4] = [
    "/usr/share/doc/*/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
];
/// What stays of it: licences.
const WANTED: &str = "/usr/share/doc/*/copyright";

/// The same for dpkg.
pub fn unwanted() -> String {
    let mut text: String = UNWANTED
        .iter()
        .map(|pattern| format!("path-exclude={pattern}\n"))
        .collect();
    text += &format!("path-include={WANTED}\n");
    text
}

/// Unpacks the essential packages into `tree`, for the programs that install the others. Debian
/// leaves it to whoever makes a system to link the folders first.
pub fn unpack_essential(debs: &[PathBuf], tree: &Path) -> Result<()> {
    for name in MERGED {
        fs::create_dir_all(tree.join("usr").join(name))?;
        std::os::unix::fs::symlink(format!("usr/{name}"), tree.join(name))?;
    }
    debs.iter().try_for_each(|deb| unpack_into_links(deb, tree))
}

/// Unpacks a package, and leaves links to folders as they are: `dpkg-deb -x` would make folders of
/// them.
fn unpack_into_links(deb: &Path, tree: &Path) -> Result<()> {
    let mut archive = tempfile::tempfile()?;
    tar_of(deb, "--fsys-tarfile", &archive)?;
    archive.rewind()?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "--keep-directory-symlink", "--no-same-owner"]);
    // dpkg unpacks them again, with what stays of the documentation.
    tar.args(UNWANTED.map(|pattern| format!("--exclude=.{pattern}")));
    tar.arg("-C");
    process::run(tar.arg(tree).stdin(Stdio::from(archive))).map(drop)
}

/// Writes `deb` to `to` with nothing compressed.
pub fn store(deb: &Path, to: &Path) -> Result<()> {
    let mut file = File::create(to)?;
    file.write_all(b"!<arch>\n")?;
    member(&mut file, "debian-binary", |file| {
        Ok(file.write_all(b"2.0\n")?)
    })?;
    for (name, option) in [
        ("control.tar", "--ctrl-tarfile"),
        ("data.tar", "--fsys-tarfile"),
    ] {
        member(&mut file, name, |file| tar_of(deb, option, file))?;
    }
    Ok(())
}

/// Adds a member to an archive (ar(5)): its header has its size, which is known afterwards.
fn member(file: &mut File, name: &str, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let at = file.stream_position()?;
    file.write_all(&header(name, 0))?;
    fill(file)?;
    let end = file.seek(SeekFrom::End(0))?;
    let size = end - at - 60;
    if size % 2 == 1 {
        file.write_all(b"\n")?;
    }
    let next = file.stream_position()?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(&header(name, size))?;
    file.seek(SeekFrom::Start(next))?;
    Ok(())
}

/// The 60 bytes of a member's header.
fn header(name: &str, size: u64) -> Vec<u8> {
    format!(
        "{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n",
        0, 0, 0, 100_644
    )
    .into_bytes()
}

fn tar_of(deb: &Path, option: &str, file: &File) -> Result<()> {
    let mut command = Command::new("dpkg-deb");
    command
        .arg(option)
        .arg(deb)
        .stdout(Stdio::from(file.try_clone()?));
    let output = command.stderr(Stdio::piped()).output();
    let output = output.context("cannot start dpkg-deb")?;
    ensure!(
        output.status.success(),
        "{} cannot be unpacked: {}",
        deb.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// The bytes of all files in `dir`.
pub fn bytes_in(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let data = entry?.metadata()?;
        sum += data.len().next_multiple_of(4096);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_package_is_a_package() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, deb, plain) = (
            dir.path().join("t"),
            dir.path().join("a.deb"),
            dir.path().join("b.deb"),
        );
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir(tree.join("bin")).unwrap();
        let control =
            "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n";
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        fs::write(tree.join("bin/file"), "content").unwrap();
        let mut build = Command::new("dpkg-deb");
        hanok_base::process::run(build.arg("--build").arg(&tree).arg(&deb)).unwrap();
        store(&deb, &plain).unwrap();
        let mut field = Command::new("dpkg-deb");
        let text = hanok_base::process::text(field.arg("-f").arg(&plain).arg("Package")).unwrap();
        assert_eq!(text, "x\n");
        let out = dir.path().join("out");
        unpack_essential(&[plain], &out).unwrap();
        assert_eq!(fs::read_to_string(out.join("bin/file")).unwrap(), "content");
        assert!(out.join("bin").is_symlink(), "it is a link still");
        assert_eq!(header("data.tar", 12).len(), 60);
    }
}
