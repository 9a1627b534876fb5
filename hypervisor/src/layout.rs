//! Where everything is on the board, and the hypervisor's final translation.

use crate::fatal::refuse;
use hanok_arch::frames::Frames;
use hanok_arch::image::{BootArguments, IMAGE_BASE, ImageInfo};
use hanok_arch::mmu::{self, OwnMapError, OwnTable};
use hanok_config::{BoardTree, Enable, Gic, MAX_RAM_SPANS};
use hanok_memory::FrameMap;
use hanok_paging::Stage1Attributes;
use hanok_types::{Address, CpuId, Hpa, MAX_CPUS, PAGE_SIZE, Span};

unsafe extern "C" {
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __image_end: u8;
    static mut hanok_table_frames: [u8; 0];
}

/// Frames for the hypervisor's own tables, in its image.
const TABLE_FRAMES: u64 = 64;
/// Bytes for what lives for ever: CPUs, VMs, vCPUs.
const PLACE: u64 = 4 << 20;

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

/// The image's parts.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Physical address of its first byte.
    start: u64,
    /// Bytes it takes in memory, without the payload.
    size: u64,
    /// Physical address and length of the payload.
    pub payload: Span<Hpa>,
}

/// The board's memory and the hypervisor's translation of it.
#[derive(Debug)]
pub struct Layout {
    /// Free RAM.
    pub free: FrameMap,
    /// The translation in use from now on.
    pub table: OwnTable,
    /// For what lives for ever.
    pub place: Span<Hpa>,
}

fn symbol(of: *const u8) -> u64 {
    of as u64 - IMAGE_BASE
}

impl Image {
    /// From what the boot loader and the image tool said.
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
        }
    }

    /// Physical address of its first byte.
    pub fn start(&self) -> Hpa {
        Hpa::new(self.start)
    }

    /// The image's own memory.
    fn own(&self) -> Span<Hpa> {
        span(self.start, self.size)
    }
}

/// A span that is known not to wrap.
fn span(start: u64, len: u64) -> Span<Hpa> {
    Span::new(Hpa::new(start), len).unwrap_or_default()
}

/// Makes the final translation and goes over to it. Stacks are mapped for every CPU; the
/// caller is still on the boot stack.
pub fn establish(board: &BoardTree<'_>, image: &Image, tree: Span<Hpa>) -> Layout {
    let in_ram = |part: Span<Hpa>| board.ram.iter().any(|ram| ram.covers(&part));
    if !in_ram(image.own()) || !in_ram(image.payload) {
        refuse(format_args!(
            "the image does not lie in the board's RAM: its header is damaged, or the board has \
             too little memory for it"
        ));
    }
    let mut free = free_memory(board, image, tree);
    let place = take(&mut free, PLACE, "its own data");
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
    // SAFETY: the image (code, data, boot stack) is mapped where it is linked; the boot
    // device tree is within RAM, mapped in place.
    unsafe { table.activate() };
    Layout { free, table, place }
}

/// The board's RAM, as far as the hypervisor can map it.
fn reachable<'a>(board: &'a BoardTree<'_>) -> impl Iterator<Item = Span<Hpa>> + 'a {
    let window = mmu::reachable();
    board.ram.iter().map(move |ram| {
        let end = ram.end().get().min(window.end().get());
        span(ram.start().get(), end.saturating_sub(ram.start().get()))
    })
}

fn free_memory(board: &BoardTree<'_>, image: &Image, tree: Span<Hpa>) -> FrameMap {
    let whole = span(
        image.start,
        image.payload.end().get().max(image.own().end().get()) - image.start,
    );
    let mut reserved: heapless::Vec<_, 34> = board.reserved.iter().copied().collect();
    // Room for two more than a tree can have.
    let _ = reserved.push(whole);
    let _ = reserved.push(tree);
    let ram: heapless::Vec<_, MAX_RAM_SPANS> =
        reachable(board).filter(|ram| !ram.is_empty()).collect();
    match FrameMap::new(&ram, &reserved) {
        Ok(free) => free,
        Err(error) => refuse(format_args!("the board's memory: {error}")),
    }
}

/// `len` bytes of free memory, page aligned, for `what`.
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
    let pieces = pieces(board, image, tree);
    for ram in reachable(board) {
        map_ram(table, ram, &pieces)?;
    }
    map_devices(table, board)?;
    for cpu in 0..board.cpus.len() as u8 {
        let frames = take(free, mmu::STACK + mmu::EMERGENCY_STACK, "a CPU's stacks");
        table.map_stacks(CpuId::new(cpu), frames.start())?;
    }
    Ok(())
}

/// The image where it is linked: code, constants, data, each with its rights.
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

/// What of RAM is mapped otherwise than as data: with these rights, or not at all.
type Piece = (Span<Hpa>, Option<Stage1Attributes>);

/// The image's own frames (no second mapping), the payload and the board's tree (read-only),
/// and what the firmware keeps for itself (not mapped, so that nothing is even speculated
/// there), by address.
fn pieces(board: &BoardTree<'_>, image: &Image, tree: Span<Hpa>) -> heapless::Vec<Piece, 80> {
    let read_only = Some(Stage1Attributes::RODATA);
    let mut pieces = heapless::Vec::<Piece, 80>::new();
    // Three and at most two for each reserved range: they fit. Each at its place at once: they
    // are few, and the library's sort is 4 KB of code.
    let mut add = |piece: Piece| {
        let behind = |other: &Piece| other.0.start() > piece.0.start();
        let place = pieces.iter().position(behind).unwrap_or(pieces.len());
        let _ = pieces.insert(place, piece);
    };
    for piece in [
        (image.own(), None),
        (image.payload, read_only),
        (tree, read_only),
    ] {
        add(piece);
    }
    for reserved in &board.reserved {
        // A boot loader may reserve the tree's memory, too.
        for part in without(*reserved, tree) {
            add((part, None));
        }
    }
    pieces
}

/// The parts of `whole` before and after the pages of `hole`.
fn without(whole: Span<Hpa>, hole: Span<Hpa>) -> [Span<Hpa>; 2] {
    let (start, end) = (whole.start().get(), whole.end().get());
    let from = hole.start().align_down(PAGE_SIZE).get().clamp(start, end);
    let to = hole
        .end()
        .get()
        .next_multiple_of(PAGE_SIZE)
        .clamp(start, end);
    [span(start, from - start), span(to, end - to)]
}

/// RAM in place as data, but for the pieces that lie in it.
fn map_ram(table: &mut OwnTable, ram: Span<Hpa>, pieces: &[Piece]) -> Result<(), OwnMapError> {
    let mut at = ram.start().get();
    for (piece, rights) in pieces {
        let start = piece.start().align_down(PAGE_SIZE).get();
        let end = piece.end().get().next_multiple_of(PAGE_SIZE);
        if piece.is_empty() || start >= ram.end().get() || end <= at {
            continue;
        }
        table.map_in_place(span(at, start.saturating_sub(at)), Stage1Attributes::DATA)?;
        if let Some(rights) = rights {
            table.map_in_place(*piece, *rights)?;
        }
        at = end;
    }
    let left = span(at, ram.end().get().saturating_sub(at));
    table.map_in_place(left, Stage1Attributes::DATA)
}

fn map_devices(table: &mut OwnTable, board: &BoardTree<'_>) -> Result<(), OwnMapError> {
    let device = Stage1Attributes::DEVICE;
    if let Some(console) = &board.console {
        table.map_in_place(console.registers, device)?;
    }
    for page in release_pages(board) {
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
            // GICV is mapped for guests alone.
            virtualization.map_or(Ok(()), |(control, _)| table.map_in_place(control, device))
        }
    }
}

/// The pages in which CPUs look for where to start: of a spin table, which are reserved, so that
/// they are nobody's RAM; or of the board's system registers.
fn release_pages(board: &BoardTree<'_>) -> heapless::Vec<Span<Hpa>, MAX_CPUS> {
    let mut pages: heapless::Vec<Span<Hpa>, MAX_CPUS> = heapless::Vec::new();
    for cpu in &board.cpus {
        if let Enable::SpinTable(at) | Enable::SystemFlags(at) = cpu.enable {
            let page = span(at.align_down(PAGE_SIZE).get(), PAGE_SIZE);
            if !pages.contains(&page) {
                // As many as CPUs at most.
                let _ = pages.push(page);
            }
        }
    }
    pages
}
