//! What the program says, as whoever has its standard error gets it.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

/// Between two writes the kernel may say something on the same console.
#[test]
fn a_line_is_one_write() {
    // Each write to such a socket is a message of its own.
    let (error, outside) = UnixDatagram::pair().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_hanok-driver-linux"));
    program.args(["create", "file", "much"]);
    let status = program.stderr(OwnedFd::from(error)).status().unwrap();
    assert_eq!(status.code(), Some(1));
    outside.set_nonblocking(true).unwrap();
    let mut message = [0; 100];
    let len = outside.recv(&mut message).unwrap();
    let line = "hanok-driver: \"much\" is no size: write such as 64M or 4G\n";
    assert_eq!(str::from_utf8(&message[..len]), Ok(line));
}
