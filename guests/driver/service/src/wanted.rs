//! What the driver VM is to serve, and with what.

use hanok_abi::back_end::DISPLAY_STATE;
use heapless::Vec;

/// The most back ends.
pub const MOST: usize = 16;
/// The most screens.
pub const MOST_SCREENS: usize = 2;

/// A virtio device of another VM.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The back end's registers.
    pub registers: u64,
    /// The back end's interrupt.
    pub interrupt: u32,
    /// The other VM.
    pub client: &'static str,
    /// What the device is.
    pub kind: &'static str,
    /// The device of the board behind it.
    pub device: Option<BoardDevice>,
    /// Of a network, the client's MAC address.
    pub mac: [u8; 6],
    /// Of a network, its VLAN; 0 if it is in none.
    pub vlan: u32,
    /// Of sockets, the client's CID.
    pub cid: u64,
}

/// A device of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardDevice {
    /// Its registers.
    pub registers: u64,
    /// Its interrupt.
    pub interrupt: u32,
}

/// A screen on which other VMs show their pictures.
#[derive(Clone, Copy, Debug)]
pub struct WantedScreen {
    /// The registers of the channel whose memory holds the pictures (`hanok_abi::channel`).
    pub registers: u64,
    /// The channel's interrupt.
    pub interrupt: u32,
    /// The pictures' address here.
    pub frames: u64,
    /// The same on the board.
    pub board: u64,
    /// The bytes there: of the pictures, and of what this VM keeps of displays.
    pub bytes: u64,
    /// The number of clients.
    pub clients: usize,
    /// The names of this VM and of the clients, each with a zero behind it.
    pub members: &'static [u8],
    /// Pixels in a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Bytes from a line to the next.
    pub stride: u32,
    /// Who is shown at first: a client from 1, or 0 for two side by side.
    pub front: usize,
    /// The board's display.
    pub device: BoardDevice,
    /// The board's keyboard.
    pub keyboard: Option<BoardDevice>,
    /// The board's mouse.
    pub mouse: Option<BoardDevice>,
}

impl WantedScreen {
    /// The place of the client with this name, from 0.
    pub fn client(&self, name: &str) -> Option<usize> {
        let mut members = self.members.split(|byte| *byte == 0).skip(1);
        members.position(|member| member == name.as_bytes())
    }

    /// Where this VM keeps what it knows of the display of the client with this number, from 0: behind all pictures.
    pub fn display_state(&self, client: usize) -> Option<u64> {
        let pictures = self.picture() * self.clients as u64;
        let start = pictures + client as u64 * DISPLAY_STATE;
        (start + DISPLAY_STATE <= self.bytes).then_some(self.frames + start)
    }

    /// The bytes of a picture.
    pub fn picture(&self) -> u64 {
        u64::from(self.stride) * u64::from(self.height)
    }
}

/// What this VM serves.
pub struct Served {
    /// The devices of other VMs.
    pub back_ends: Vec<Wanted, MOST>,
    /// The screens of other VMs.
    pub screens: Vec<WantedScreen, MOST_SCREENS>,
    /// What is to be added to an address of this VM's RAM for a device of the board's; `None` if they cannot reach it.
    pub to_board: Option<u64>,
}
