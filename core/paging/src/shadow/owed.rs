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
            (one, other) => match (one.page(), other.page()) {
                (Some(at), Some(also)) if at == also => Self::PageEverywhere { at },
                _ => Self::Everything,
            },
        }
    }

    fn page(self) -> Option<u32> {
        match self {
            Self::Page { at, .. } | Self::PageEverywhere { at } => Some(at),
            Self::Nothing | Self::PagesEverywhere { .. } | Self::Everything => None,
        }
    }
}

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
        let both = [
            (Owed::Nothing, page(1, 2), page(1, 2)),
            (page(1, 2), page(1, 2), page(1, 2)),
            (page(1, 2), page(1, 3), Owed::PageEverywhere { at: 1 }),
            (page(1, 2), page(4, 2), Owed::Everything),
            (Owed::Everything, page(1, 2), Owed::Everything),
            (Owed::Nothing, row(2), row(2)),
            (row(2), row(2), row(2)),
            (row(2), row(3), Owed::Everything),
            (row(2), page(0, 2), Owed::Everything),
        ];
        for (one, other, sum) in both {
            assert_eq!(one.and(other), sum);
            assert_eq!(other.and(one), sum);
        }
    }
}
