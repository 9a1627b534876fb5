//! What a call leaves to its caller: TLB maintenance, and work that is not finished.

/// What has to be invalidated in the TLB of the CPU that the vCPU was entered on last, before the
/// guest runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Owed {
    /// Nothing.
    Nothing,
    /// The entries for an address under one ASID (TLBIMVA).
    Page {
        /// A virtual address in what was mapped; its low twelve bits mean nothing.
        at: u32,
        /// The hardware's ASID.
        asid: u8,
    },
    /// As [`Self::Page`], for so many pages that follow each other.
    #[allow(missing_docs)] // as there
    Pages { at: u32, asid: u8, count: u16 },
    /// The entries for an address under all ASIDs (TLBIMVAA; a CPU without the multiprocessing
    /// extensions may have none, and then does TLBIALL).
    PageEverywhere {
        /// A virtual address in what was mapped; its low twelve bits mean nothing.
        at: u32,
    },
    /// As [`Self::PageEverywhere`], for pages at equal distances ([`Doorbells`](super::Doorbells)).
    #[allow(missing_docs)] // as there
    PagesEverywhere { first: u32, step: u8, count: u16 },
    /// All entries (TLBIALL).
    Everything,
}

impl Owed {
    /// What is owed by two changes.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, Self::Nothing) | (Self::Nothing, one) => one,
            (one, other) if one == other => one,
            (one, other) => match (one.span(), other.span()) {
                ((at, 1), (also, 1)) if at == also => Self::PageEverywhere { at },
                (one, other) => Self::together(one, other),
            },
        }
    }

    /// The first page of those that follow each other, and how many they are; none if it is anything else.
    fn span(self) -> (u32, u16) {
        match self {
            Self::Page { at, .. } | Self::PageEverywhere { at } => (at, 1),
            Self::Pages { at, count, .. } => (at, count),
            Self::PagesEverywhere {
                first,
                step: 1,
                count,
            } => (first, count),
            Self::Nothing | Self::PagesEverywhere { .. } | Self::Everything => (0, 0),
        }
    }

    /// Both spans and what is between them, if they are near each other.
    fn together((one, count): (u32, u16), (other, also): (u32, u16)) -> Self {
        let [first, second] = [one >> 12, other >> 12];
        let start = first.min(second);
        let end = (first + u32::from(count)).max(second + u32::from(also));
        if count == 0 || also == 0 || end - start > MOST {
            return Self::Everything;
        }
        Self::PagesEverywhere {
            first: start << 12,
            step: 1,
            count: (end - start) as u16,
        }
    }
}

/// The pages that two debts may have together, with what is between them; for more of them everything is invalidated.
const MOST: u32 = 64;

/// Whether a call has finished its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress<T> {
    /// It has, with this result.
    Done(T),
    /// The call is to be made again with the same arguments; the guest may not run before.
    Again,
}

#[cfg(test)]
mod tests {
    use super::*;

    // It is copied at each exit.
    const _: () = assert!(size_of::<Owed>() == 8);

    #[test]
    fn two_debts_are_paid_by_one_operation() {
        let page = |at, asid| Owed::Page { at, asid };
        let row = |count| Owed::PagesEverywhere {
            first: 0,
            step: 1,
            count,
        };
        let pages = |at, count| Owed::Pages { at, asid: 4, count };
        let near = Owed::PagesEverywhere {
            first: 0x1000,
            step: 1,
            count: 4,
        };
        let both = [
            (Owed::Nothing, page(1, 2), page(1, 2)),
            (page(1, 2), page(1, 2), page(1, 2)),
            (page(1, 2), page(1, 3), Owed::PageEverywhere { at: 1 }),
            (page(0x1001, 2), page(0x4002, 2), near),
            (page(0x1001, 2), page(0x10_1000, 2), Owed::Everything),
            (pages(0x2000, 3), page(0x1000, 9), near),
            (pages(0x2000, 3), pages(0x1000, 2), near),
            (pages(0x2000, 3), pages(0x2000, 3), pages(0x2000, 3)),
            (pages(0x2000, 3), Owed::Everything, Owed::Everything),
            (Owed::Everything, page(1, 2), Owed::Everything),
            (Owed::Nothing, row(2), row(2)),
            (row(2), row(2), row(2)),
            (row(2), row(3), row(3)),
            (row(2), page(0, 2), row(2)),
        ];
        for (one, other, sum) in both {
            assert_eq!(one.and(other), sum);
            assert_eq!(other.and(one), sum);
        }
    }
}
