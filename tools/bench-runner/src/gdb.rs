//! Asks QEMU's gdb stub for a register that no guest can read.
//!
//! A guest's virtual counter begins where its hypervisor sets it: without CNTVOFF_EL2 (Arm ARM,
//! D12.1.3), which only EL2 may read, its value says nothing about the time since the reset. The
//! stub reads that register and changes nothing: the machine stands still meanwhile. The protocol
//! is in the GDB manual, appendix E; this module has the part it needs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// How long an answer may take: only a QEMU that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(600);
/// The register's name on a 64-bit and on a 32-bit CPU.
const OFFSETS: [&str; 2] = ["CNTVOFF_EL2", "CNTVOFF"];
/// How often the machine is let run for a while before its offset counts as zero.
const LOOKS: u32 = 200;

/// The virtual counter's offset of the guest that runs on the machine behind `socket`.
///
/// Where a kernel is its own hypervisor (KVM without VHE) the offset is the guest's only
/// while the guest runs, so that `expected` says whether to look again while it is zero.
pub fn counter_offset(socket: &Path, expected: bool) -> Result<u64> {
    let mut stub = Stub::connect(socket)?;
    let register = stub.register(OFFSETS)?;
    for _ in 0..LOOKS {
        let offset = stub.read_register(register)?;
        if offset != 0 || !expected {
            return Ok(offset);
        }
        stub.go_on(Duration::from_millis(7))?;
    }
    bail!("the counter's offset was never seen")
}

struct Stub {
    stream: UnixStream,
}

impl Stub {
    /// Connects, which stops the machine.
    fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("QEMU does not listen at {}", socket.display()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stub = Self { stream };
        stub.send("qSupported:xmlRegisters=aarch64")?;
        // Where another debugger was before, it is first told that the machine stopped.
        while !stub.answer()?.contains("PacketSize") {}
        Ok(stub)
    }

    /// Sends a command and gives back the answer.
    fn ask(&mut self, command: &str) -> Result<String> {
        self.send(command)?;
        self.answer()
    }

    fn send(&mut self, command: &str) -> Result<()> {
        let sum = checksum(command.as_bytes());
        Ok(write!(self.stream, "${command}#{sum:02x}")?)
    }

    /// The content of the next packet; acknowledgements before it are ignored.
    fn answer(&mut self) -> Result<String> {
        while self.byte()? != b'$' {}
        let mut body = Vec::new();
        loop {
            match self.byte()? {
                b'#' => break,
                // An escaped byte (appendix E.1).
                b'}' => body.push(self.byte()? ^ 0x20),
                byte => body.push(byte),
            }
        }
        // The line is a socket: nothing is damaged on it.
        let _sum = [self.byte()?, self.byte()?];
        self.stream.write_all(b"+")?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.stream
            .read_exact(&mut byte)
            .context("QEMU's gdb stub says nothing")?;
        Ok(byte[0])
    }

    /// The number of the register that has one of these names.
    fn register(&mut self, names: [&str; 2]) -> Result<u64> {
        let target = self.document("target.xml")?;
        for file in values(&target, "href") {
            let document = self.document(&file)?;
            let mut found = names.iter().filter_map(|name| number_of(&document, name));
            if let Some(number) = found.next() {
                return Ok(number);
            }
        }
        bail!("QEMU's gdb stub knows no register {}", names.join(" or "))
    }

    /// A file of the target's description, piece by piece (appendix E.8.3).
    fn document(&mut self, file: &str) -> Result<String> {
        let mut text = String::new();
        loop {
            let offset = text.len();
            let piece = self.ask(&format!("qXfer:features:read:{file}:{offset:x},800"))?;
            let (more, piece) = piece.split_at_checked(1).context("an empty answer")?;
            text += piece;
            match more {
                "m" => {}
                "l" => return Ok(text),
                _ => bail!("QEMU's gdb stub does not give {file}"),
            }
        }
    }

    /// The value of a register of 64 bits; on the wire the least byte is first.
    fn read_register(&mut self, number: u64) -> Result<u64> {
        let answer = self.ask(&format!("p{number:x}"))?;
        ensure!(answer.len() == 16, "the register reads as {answer:?}");
        let value = u64::from_str_radix(&answer, 16);
        Ok(value
            .context("the register reads as no number")?
            .swap_bytes())
    }

    /// Lets the machine run for `time`, and stops it again.
    fn go_on(&mut self, time: Duration) -> Result<()> {
        self.send("c")?;
        sleep(time);
        self.stream.write_all(&[3])?;
        self.answer().map(drop)
    }
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// The values of the attribute `name`, wherever it stands.
fn values(xml: &str, name: &str) -> Vec<String> {
    let before = format!(" {name}=");
    let parts = xml.split(&before).skip(1);
    parts.filter_map(quoted).map(str::to_owned).collect()
}

/// What stands in quotes at the beginning of `text`.
fn quoted(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|c| "\"'".contains(*c))?;
    text[1..].split(mark).next()
}

/// The number that a description gives the register called `name`.
fn number_of(xml: &str, name: &str) -> Option<u64> {
    let tags = xml.split('<').filter(|tag| tag.starts_with("reg "));
    let mut fitting = tags.filter(|tag| values(tag, "name").iter().any(|found| found == name));
    values(fitting.next()?, "regnum").first()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    const REGISTERS: &str = "<feature name=\"x\"><reg name=\"CNTVCT\" bitsize=\"64\" regnum=\"7\"/>\
        <reg name='CNTVOFF_EL2' bitsize='64' regnum='300' type='int'/></feature>";

    #[test]
    fn a_register_is_found_by_its_name() {
        assert_eq!(number_of(REGISTERS, "CNTVOFF_EL2"), Some(300));
        assert_eq!(number_of(REGISTERS, "CNTVOFF"), None);
        let target = "<target><xi:include href=\"a.xml\"/><xi:include href='b.xml'/></target>";
        assert_eq!(values(target, "href"), ["a.xml", "b.xml"]);
        assert_eq!(checksum(b"qSupported"), 0x37);
    }

    /// Answers as QEMU does: the offset is there at the second look.
    fn play(listener: &UnixListener) {
        let (stream, _) = listener.accept().unwrap();
        let mut stub = Stub { stream };
        let mut looks = 0;
        while let Ok(command) = stub.answer() {
            let answer = match command.as_str() {
                "p12c" => {
                    looks += 1;
                    ["0000000000000000", "1000000000000000"][looks.min(2) - 1].to_owned()
                }
                "c" => {
                    assert_eq!(stub.byte().unwrap(), 3);
                    "T02".to_owned()
                }
                _ if command.starts_with("qSupported") => {
                    stub.send("T02thread:01;").unwrap();
                    "PacketSize=1000;qXfer:features:read+".to_owned()
                }
                _ if command.contains("target.xml:0,") => {
                    "l<xi:include href=\"s.xml\"/>".to_owned()
                }
                _ if command.contains("s.xml:0,") => format!("m{}", &REGISTERS[..50]),
                _ if command.contains("s.xml:32,") => format!("l{}", &REGISTERS[50..]),
                _ => String::new(),
            };
            stub.send(&answer).unwrap();
        }
    }

    #[test]
    fn the_offset_is_looked_for_until_the_guest_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gdb");
        let listener = UnixListener::bind(&path).unwrap();
        let player = thread::spawn(move || play(&listener));
        assert_eq!(counter_offset(&path, true).unwrap(), 16);
        player.join().unwrap();
    }
}
