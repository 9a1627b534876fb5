//! The addresses of everything on the board, and the hypervisor's final translation.

use crate::fatal::refuse;
use hanok_arm_common::frames::Frames;
use hanok_arm_common::image::{BootArguments, ImageInfo};
use hanok_arm_common::mmu::{self, OwnMapError, OwnTable};
use hanok_arm_common::space::IMAGE_BASE;
use hanok_config::{BoardTree, Gic, MAX_RESERVED, SystemView};
use hanok_memory::{FrameMap, Kept, MAX_KEPT, Use, reachable};
use hanok_paging::Stage1Attributes;
use hanok_types::{Address, CpuId, Hpa, PAGE_SIZE, Span};

unsafe extern "C" {
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __image_end: u8;
    static mut hanok_table_frames: [u8; 0];
}

/// Frames for the hypervisor's own tables, in its image.
const TABLE_FRAMES: u64 = 80;

core::arch::global_asm!(
    r#"
    .section .bss.tables, "aw", %nobits
    .balign 4096
    .global hanok_table_frames
hanok_table_frames:
    .space 4096 * {frames}
"#,
    frames = const TABLE_FRAMES
);

/// The parts of the image.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// The physical address of its first byte.
    start: u64,
    /// Its size in memory in bytes, without the payload.
    size: u64,
    /// The physical addresses of the payload.
    pub payload: Span<Hpa>,
    /// The serial port that the image tool names, in one word; zero if there is none.
    pub early_console: Hpa,
    /// [`hanok_config::sum`] of the system's tree.
    pub system_sum: u64,
    /// The image tool's random key, or zeros.
    pub key: [u8; 32],
}

/// The board's memory and the hypervisor's translation of it.
#[derive(Debug)]
pub struct Layout {
    /// Free RAM.
    pub free: FrameMap,
    /// The final translation, which is in use.
    pub table: OwnTable,
    /// The first-level descriptor of the window that is in guests' translations at PL1.
    #[cfg(target_arch = "arm")]
    pub window: Option<u32>,
}

fn symbol(of: *const u8) -> u64 {
    of as u64 - IMAGE_BASE
}

impl Image {
    /// The image by the words of the boot loader and of the image tool.
    pub fn new(boot: &BootArguments, info: &ImageInfo) -> Self {
        if info.magic != *b"HANOKIMG" {
            refuse(format_args!(
                "the image's header is damaged: load the image again, or build it anew"
            ));
        }
        let start = boot.image;
        let payload = start
            .checked_add(info.payload_offset)
            .and_then(|at| Span::new(Hpa::new(at), info.payload_len));
        let Some(payload) = payload else {
            refuse(format_args!(
                "the image's header is damaged: its payload lies past the address space"
            ));
        };
        Self {
            start,
            size: symbol(&raw const __image_end),
            payload,
            early_console: Hpa::new(info.early_console),
            system_sum: info.system_sum,
            key: info.key,
        }
    }

    /// The physical address of its first byte.
    pub fn start(&self) -> Hpa {
        Hpa::new(self.start)
    }

    /// The physical addresses of the image without the payload.
    fn own(&self) -> Span<Hpa> {
        span(self.start, self.size)
    }
}

/// A span that cannot wrap around.
fn span(start: u64, len: u64) -> Span<Hpa> {
    Span::new(Hpa::new(start), len).unwrap_or_default()
}

/// Builds the final translation and changes to it. The stacks of every CPU are mapped; the caller
/// is still on the boot stack.
pub fn establish(board: &BoardTree<'_>, image: &Image, tree: Span<Hpa>) -> Layout {
    let kept = kept(board, image, tree);
    if let Some(conflict) = kept.conflict(&board.ram) {
        refuse(format_args!("{conflict}"));
    }
    let mut free = match kept.free(&board.ram, mmu::reachable()) {
        Ok(free) => free,
        Err(error) => refuse(format_args!("the board's memory: {error}")),
    };
    let frames = Hpa::new(image.start + symbol((&raw const hanok_table_frames).cast()));
    // SAFETY: frames of the image's bss, mapped at their linked address, used by this alone.
    let frames = unsafe { Frames::new(frames, TABLE_FRAMES, IMAGE_BASE - image.start) };
    let Some(mut table) = OwnTable::new(frames) else {
        refuse(format_args!(
            "no frame for the hypervisor's own translation"
        ));
    };
    if let Err(error) = map_all(&mut table, board, image, tree, &mut free) {
        refuse(format_args!("the hypervisor's own translation: {error}"));
    }
    #[cfg(target_arch = "arm")]
    let window = match map_window(&mut table, image) {
        Ok(window) => window,
        Err(error) => refuse(format_args!(
            "the window into guests' translations: {error}"
        )),
    };
    // SAFETY: the image (code, data, boot stack) is mapped where it is linked; the boot
    // device tree is within RAM, mapped in place.
    unsafe { table.activate() };
    Layout {
        free,
        table,
        #[cfg(target_arch = "arm")]
        window,
    }
}

/// Maps the window where guests' translations have it, too.
#[cfg(target_arch = "arm")]
fn map_window(table: &mut OwnTable, image: &Image) -> Result<Option<u32>, OwnMapError> {
    use hanok_arch::deprivileged::{Place, RECORD_PAGES, code, records};
    let page = |linked: u64| Hpa::new(image.start + linked - IMAGE_BASE);
    let (code, records) = (code(), records());
    let pages = core::array::from_fn::<_, { 1 + RECORD_PAGES as usize }, _>(|number| {
        let Some(number) = number.checked_sub(1) else {
            return (code.offset, page(code.linked), Stage1Attributes::TEXT);
        };
        let distance = number as u64 * PAGE_SIZE;
        let frame = page(records.linked + distance);
        (records.offset + distance, frame, Stage1Attributes::DATA)
    });
    let others = Place::all().skip(1).map(|place| u64::from(place.address()));
    table.map_window(Place::FIRST.address().into(), &pages, others)
}

/// The ranges of RAM that are not plain data.
fn kept<'a>(board: &'a BoardTree<'_>, image: &Image, tree: Span<Hpa>) -> Kept<'a> {
    Kept {
        own: image.own(),
        payload: image.payload,
        tree,
        reserved: &board.reserved,
    }
}

// The plan has room for each reserved range of a tree.
const _: () = assert!(MAX_RESERVED <= MAX_KEPT);

/// Allocates `len` bytes of free memory, page aligned; refuses to start for lack of memory for
/// `what`.
pub fn take(free: &mut FrameMap, len: u64, what: &str) -> Span<Hpa> {
    match free.allocate(len, PAGE_SIZE) {
        Ok(block) => block,
        Err(error) => refuse(format_args!("no memory for {what} ({len} bytes): {error}")),
    }
}

fn map_all(
    table: &mut OwnTable,
    board: &BoardTree<'_>,
    image: &Image,
    tree: Span<Hpa>,
    free: &mut FrameMap,
) -> Result<(), OwnMapError> {
    map_image(table, image)?;
    let kept = kept(board, image, tree);
    for ram in reachable(&board.ram, mmu::reachable()) {
        kept.each(ram, |span, what| match what {
            Use::Data => table.map_in_place(span, Stage1Attributes::DATA),
            Use::ReadOnly => table.map_in_place(span, Stage1Attributes::RODATA),
        })?;
    }
    map_devices(table, board, image.early_console)?;
    const STACKS: u64 = mmu::STACK + mmu::EMERGENCY_STACK;
    let all = take(free, STACKS * board.cpus.len() as u64, "the CPUs' stacks");
    for cpu in 0..board.cpus.len() as u8 {
        let frames = Hpa::new(all.start().get() + u64::from(cpu) * STACKS);
        table.map_stacks(CpuId::new(cpu), frames)?;
    }
    Ok(())
}

/// Maps the image at the addresses at which it is linked: code, constants and data, each with its
/// rights.
fn map_image(table: &mut OwnTable, image: &Image) -> Result<(), OwnMapError> {
    let parts = [
        (
            symbol(&raw const __text_start),
            symbol(&raw const __text_end),
            Stage1Attributes::TEXT,
        ),
        (
            symbol(&raw const __text_end),
            symbol(&raw const __rodata_end),
            Stage1Attributes::RODATA,
        ),
        (
            symbol(&raw const __rodata_end),
            symbol(&raw const __image_end),
            Stage1Attributes::DATA,
        ),
    ];
    for (from, to, rights) in parts {
        table.map(
            IMAGE_BASE + from,
            Hpa::new(image.start + from),
            to - from,
            rights,
        )?;
    }
    Ok(())
}

/// Maps the registers of devices that VMs have by exits alone.
pub fn map_registers(table: &mut OwnTable, system: &SystemView<'_>) {
    for device in system.vms.iter().flat_map(|vm| &vm.devices) {
        for range in &device.registers {
            if device.trapped {
                map_device(table, span(range.host.get(), range.len));
            }
        }
    }
}

/// Maps the registers of a device that a VM has, or of one that the hypervisor has because of it.
pub fn map_device(table: &mut OwnTable, registers: Span<Hpa>) {
    if let Err(error) = table.map_in_place(registers, Stage1Attributes::DEVICE) {
        refuse(format_args!("the registers of a VM's device: {error}"));
    }
}

fn map_devices(table: &mut OwnTable, board: &BoardTree<'_>, early: Hpa) -> Result<(), OwnMapError> {
    let device = Stage1Attributes::DEVICE;
    // For the console, if the port that the tree names does not answer.
    let early = span(early.align_down(PAGE_SIZE).get(), PAGE_SIZE);
    if early.start() != Hpa::new(0) && board.owner(&early).is_none() {
        table.map_in_place(early, device)?;
    }
    if let Some(console) = &board.console {
        table.map_in_place(console.registers, device)?;
    }
    for page in board.release_pages() {
        table.map_in_place(page, device)?;
    }
    if let Some(clock) = board.rtc {
        table.map_in_place(clock, device)?;
    }
    match &board.gic {
        Gic::V3 {
            distributor,
            redistributors,
            ..
        } => {
            table.map_in_place(*distributor, device)?;
            redistributors
                .iter()
                .try_for_each(|frames| table.map_in_place(*frames, device))
        }
        Gic::V2 {
            distributor,
            cpu,
            virtualization,
            ..
        } => {
            table.map_in_place(*distributor, device)?;
            table.map_in_place(*cpu, device)?;
            // GICV is mapped only for guests.
            virtualization.map_or(Ok(()), |(control, _)| table.map_in_place(control, device))
        }
        // Its timers are in the same page.
        #[cfg(target_arch = "arm")]
        Gic::Allwinner(registers) => table.map_in_place(*registers, device),
    }
}
