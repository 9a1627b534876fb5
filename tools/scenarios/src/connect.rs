//! Connections that the PC makes with a VM, by a port that QEMU's own network leads there (`hanok run --forward`).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hanok_console::script::Attempt;
use hanok_system::Forward;

/// How long an answer may take. QEMU takes each connection, also where the guest does not listen yet: then none comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The way from a port of the PC that nobody has to `to`, a VM and its port as `VM:PORT`.
///
/// # Errors
/// `to` is written otherwise, or the PC has no free port.
pub fn way(to: &str) -> Result<Forward> {
    // The kernel chooses it. It is free again when this returns, until QEMU takes it.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    let host = listener.local_addr()?.port();
    let parsed = format!("{host}:{to}").parse();
    parsed.map_err(|_| anyhow::anyhow!("`forward` is VM:PORT, such as \"left:80\""))
}

/// The step that connects with `port` of the PC, sends `text` and then the end of what it sends, and is done if the answer begins
/// with `answer`.
pub fn answers(port: Option<u16>, text: &str, answer: &str) -> Attempt {
    let (text, answer) = (text.to_owned(), answer.to_owned());
    let what = format!("a connection from the PC that is answered with {answer:?}");
    Attempt::new(what, move || {
        let port = port.context("no port leads to a VM")?;
        let said = asked(port, &text, answer.len())?;
        ensure!(said == answer.as_bytes(), "it says {:?}", lossy(&said));
        Ok(())
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first `count` bytes that come, or all if it is less.
fn asked(port: u16, text: &str, count: usize) -> Result<Vec<u8>> {
    let mut line = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("nobody listens")?;
    line.set_read_timeout(Some(PATIENCE))?;
    line.write_all(text.as_bytes())?;
    line.shutdown(Shutdown::Write)?;
    let mut said = Vec::new();
    line.take(count as u64)
        .read_to_end(&mut said)
        .with_context(|| format!("after {:?} nothing comes", lossy(&said)))?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn an_answer_is_compared() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        // It answers with what was asked, in capitals, once all of it has come.
        let server = thread::spawn(move || {
            for _ in 0..3 {
                let (mut line, _) = listener.accept().unwrap();
                let mut text = String::new();
                line.read_to_string(&mut text).unwrap();
                // Whoever has read enough has hung up.
                let _ = line.write_all(text.to_uppercase().as_bytes());
            }
        });
        assert_eq!(asked(port, "who\n", 4).unwrap(), b"WHO\n");
        assert_eq!(asked(port, "me", 9).unwrap(), b"ME");
        assert_eq!(asked(port, "long", 2).unwrap(), b"LO");
        server.join().unwrap();
        assert!(asked(port, "who\n", 4).is_err());
    }

    #[test]
    fn a_way_has_a_free_port() {
        let found = way("left:80").unwrap();
        assert_eq!((&*found.vm, found.port), ("left", 80));
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, found.host)).is_ok());
        for bad in ["left", "left:0", "left:http", ":80"] {
            assert!(way(bad).is_err(), "{bad}");
        }
    }
}
