//! Finds a kernel's init code.
//!
//! Kallsyms names it by `_sinittext` and `_einittext`. But Linux's `scripts/kallsyms.c` reads the
//! line behind a symbol without a name as that name. Where GNU ld has put a branch for Cortex-A8's
//! erratum in front of `_einittext`, kallsyms loses that symbol, and with it all names of init
//! code.
//!
//! Then the unwinder's index tells, which has the functions of `.text` and of `.init.text`
//! ([`unwind::behind`]). In front of the first of these is assembly, which has no entry: the start
//! of `.init.text`, and before it the vectors and their stubs, which are recognised by their form
//! ([`vectors`]). A kernel without an index, or with an incomplete one, is refused: code that
//! nothing names would be missed.

use super::tables::{Init, Text};
use super::{unwind, vectors};
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use crate::refusal::{Refusal, Result};
use hanok_decode::aarch32::Isa;
use std::ops::Range;

/// The alignment of the vectors: a page.
const PAGE: u32 = 0x1000;

/// Finds the init code of an image whose other code is in `text`. `None` for a program that has
/// neither init code nor `.text` by the names that Linux gives them.
pub fn find(memory: Memory<'_>, text: &Text, symbols: &[Symbol], isa: Isa) -> Result<Option<Init>> {
    let named = |name: &str| {
        let found = symbols.iter().find(|symbol| symbol.name == name);
        found.map(|symbol| symbol.address)
    };
    match (named("_sinittext"), named("_einittext")) {
        (Some(start), Some(end)) => Ok(Some(Init {
            from: start & !(PAGE - 1),
            start,
            end,
            switched: None,
            named: true,
        })),
        _ if text.end == 0 => Ok(None),
        (_, end) => unnamed(memory, text, symbols, isa)
            .map(|init| Init {
                end: init.end.max(end.unwrap_or(0)),
                ..init
            })
            .map(Some)
            .map_err(unknown),
    }
}

/// Finds the init code by the unwinder's index. An error says why the index does not tell.
fn unnamed(
    memory: Memory<'_>,
    text: &Text,
    symbols: &[Symbol],
    isa: Isa,
) -> std::result::Result<Init, &'static str> {
    let behind = unwind::behind(memory, text, symbols)?;
    let init = Init {
        from: behind.first & !(PAGE - 1),
        start: behind.first,
        end: behind.last,
        switched: None,
        named: false,
    };
    let stubs = vectors::stubs(memory, symbols, &init)
        .filter(|stubs| vectors::targets(memory, stubs, isa).next().is_some())
        .ok_or("the vectors are not in front of what its unwinder's index has of it")?;
    Ok(Init {
        from: stubs.start & !(PAGE - 1),
        switched: switched(memory, text, stubs),
        ..init
    })
}

/// The address that the code in front of `.text`, at the image's start, goes to once the MMU is on.
/// It is the only word of that code that points between the stubs and the init code's first
/// function in the index.
fn switched(memory: Memory<'_>, text: &Text, stubs: Range<u32>) -> Option<u32> {
    let (from, to) = *text.ranges.first()?;
    let words = (from..to).step_by(4).filter_map(|at| memory.word(at));
    let mut words = words.filter(|word| stubs.contains(word));
    let found = words.next()?;
    words.all(|word| word == found).then_some(found & !1)
}

fn unknown(why: &str) -> Refusal {
    Refusal::new(
        "this kernel does not name its init code",
        format!(
            "its kallsyms has no `_sinittext` or no `_einittext`, as where the linker made a symbol without a \
             name, and {why}; so what is there would be missed"
        ),
        "scan and patch its vmlinux, or link it with `--no-fix-cortex-a8`",
    )
}
