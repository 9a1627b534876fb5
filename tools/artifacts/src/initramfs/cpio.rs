//! Writes a cpio archive in the `newc` format, which the kernel unpacks as its initramfs (Linux,
//! Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! It is made in memory from names and bytes, not from a folder: device nodes need no root, and the
//! same input gives the same bytes on any machine.

/// An archive that is being written.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

impl Archive {
    /// Adds a folder; its parent must have been added.
    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY | 0o755, (0, 0), &[]);
    }

    /// Adds a file.
    pub fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, FILE | mode, (0, 0), content);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, name: &str, target: &str) {
        self.entry(name, LINK | 0o777, (0, 0), target.as_bytes());
    }

    /// Adds a character device.
    pub fn device(&mut self, name: &str, mode: u32, number: (u32, u32)) {
        self.entry(name, CHARACTER_DEVICE | mode, number, &[]);
    }

    /// Ends the archive, and returns it.
    pub fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        let name = name.trim_start_matches('/');
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        let size = u32::try_from(content.len()).expect("no file of an initramfs has 4 GB");
        let name_size = name.len() as u32 + 1;
        // inode, mode, uid, gid, links, mtime, size, device, device number, name, checksum
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_size, 0,
        ];
        self.inode += 1;
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    /// Names and contents start at multiples of four.
    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_format_s_header() {
        let mut archive = Archive::default();
        archive.file("/init", 0o755, b"hello");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("07070100000000000081ed0000000000000000000000010000000000000005"));
        assert_eq!(&bytes[110..116], b"init\0\0".as_slice().get(..6).unwrap());
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(text.contains("TRAILER!!!"));
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn devices_and_links_are_told() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.device("dev/console", 0o600, (5, 1));
        archive.link("bin", "usr/bin");
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert!(
            text.contains("000041ed") && text.contains("00002180") && text.contains("0000a1ff")
        );
        assert!(text.contains("0000000500000001"));
    }
}
