//! Where the board's screen is shown: in a window of QEMU's, or to a VNC viewer on this PC.

use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Result, bail};
use hanok_artifacts::qemu::Qemu;
use hanok_base::process;

/// VNC's first port (RFC 6143, 1); QEMU counts from there.
const FIRST_PORT: u16 = 5900;
/// How many ports are tried if none is named.
const PORTS: u16 = 100;
/// QEMU's kinds of windows.
const WINDOWS: [&str; 2] = ["gtk", "sdl"];
/// The variables that say where windows are shown.
const PLACES: [&str; 2] = ["WAYLAND_DISPLAY", "DISPLAY"];

/// What the user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Display {
    /// A window if there can be one, else VNC.
    #[default]
    Any,
    /// A window.
    Window,
    /// VNC, at this port of the loopback interface, or at the first one that is free from 5900 on.
    Vnc(Option<u16>),
}

impl FromStr for Display {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse().ok().filter(|port| *port >= FIRST_PORT);
        match text.split_once(':') {
            None if text == "any" => Ok(Self::Any),
            None if text == "window" => Ok(Self::Window),
            None if text == "vnc" => Ok(Self::Vnc(None)),
            Some(("vnc", text)) if port(text).is_some() => Ok(Self::Vnc(port(text))),
            _ => Err(format!(
                "it is window, vnc, or vnc:PORT with a port from {FIRST_PORT} on, such as vnc:5901"
            )),
        }
    }
}

impl fmt::Display for Display {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Window => f.write_str("window"),
            Self::Vnc(None) => f.write_str("vnc"),
            Self::Vnc(Some(port)) => write!(f, "vnc:{port}"),
        }
    }
}

/// Where the screen is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In a window of this kind.
    Window(&'static str),
    /// To who asks at this port of the loopback interface.
    Vnc(u16),
}

impl Display {
    /// Where the screen of a board on `qemu` is shown.
    ///
    /// # Errors
    /// There can be no window, or the port is taken. The text says why, and what to do.
    pub fn resolve(self, qemu: &Qemu, binary: &str) -> Result<Shown> {
        let window = || window(qemu, binary);
        match self {
            Self::Vnc(Some(port)) if is_free(port) => Ok(Shown::Vnc(port)),
            Self::Vnc(Some(port)) => bail!(
                "--display: port {port} of this PC is taken\n  why: something listens at 127.0.0.1:{port} \
                 already\n  fix: name another port, or write --display vnc, which takes a free one"
            ),
            Self::Vnc(None) => free_port().map(Shown::Vnc),
            Self::Window => Ok(Shown::Window(window()?)),
            Self::Any => match window() {
                Ok(kind) => Ok(Shown::Window(kind)),
                Err(_) => free_port().map(Shown::Vnc),
            },
        }
    }
}

impl Shown {
    /// Has QEMU show the screen.
    pub fn add_to(&self, command: &mut Command) {
        match self {
            Self::Window(kind) => command.args(["-display", kind]),
            Self::Vnc(port) => {
                let number = port.saturating_sub(FIRST_PORT);
                command.args(["-vnc", &format!("127.0.0.1:{number}")])
            }
        };
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(_) => f.write_str("The screen is in a window of QEMU's."),
            Self::Vnc(port) => write!(
                f,
                "The screen is at 127.0.0.1:{port}, for a VNC viewer: vncviewer 127.0.0.1::{port}"
            ),
        }
    }
}

fn is_free(port: u16) -> bool {
    // The port that is bound here for a moment is free again for QEMU.
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn free_port() -> Result<u16> {
    let last = FIRST_PORT + PORTS;
    match (FIRST_PORT..last).find(|port| is_free(*port)) {
        Some(port) => Ok(port),
        None => bail!(
            "--display: no port of this PC from {FIRST_PORT} to {} is free\n  why: a VNC viewer \
             asks at one\n  fix: name one by --display vnc:PORT",
            last - 1
        ),
    }
}

/// The kind of window that QEMU can show here.
fn window(qemu: &Qemu, binary: &str) -> Result<&'static str> {
    let there = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !PLACES.iter().any(there) {
        bail!(
            "--display: there is no place for a window\n  why: neither of {} is set\n  fix: write \
             --display vnc, and look at the screen by a VNC viewer",
            PLACES.join(" and ")
        );
    }
    let known = process::text(qemu.command(binary).args(["-display", "help"]));
    let known = known.unwrap_or_default();
    let mut kinds = WINDOWS.into_iter();
    match kinds.find(|kind| known.lines().any(|line| line == *kind)) {
        Some(kind) => Ok(kind),
        None => bail!(
            "--display: this QEMU has no windows\n  why: it was built without, or its package for them is \
             not installed\n  fix: install qemu-system-gui and QEMU 10 or later, or write --display vnc"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_others_refused() {
        let read = |text: &str| text.parse::<Display>();
        assert_eq!(read("any"), Ok(Display::Any));
        assert_eq!(read("window"), Ok(Display::Window));
        assert_eq!(read("vnc"), Ok(Display::Vnc(None)));
        assert_eq!(read("vnc:5901"), Ok(Display::Vnc(Some(5901))));
        for bad in [
            "",
            "vnc:",
            "vnc:80",
            "vnc:70000",
            "vnc:x",
            "gtk",
            "window:1",
        ] {
            assert!(read(bad).unwrap_err().contains("such as vnc:5901"), "{bad}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_not_used() {
        let taken = (FIRST_PORT..FIRST_PORT + PORTS)
            .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
            .unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_ne!(free_port().unwrap(), port);
        let mut command = Command::new("qemu");
        Shown::Vnc(5907).add_to(&mut command);
        let args: Vec<_> = command.get_args().collect();
        assert_eq!(args, ["-vnc", "127.0.0.1:7"]);
    }
}
