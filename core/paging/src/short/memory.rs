//! Memory types, with and without TEX remap (DDI 0406C, B3.8).

/// The cacheability of normal memory, encoded as in TEX and NMRR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cacheability {
    /// Non-cacheable.
    NonCacheable = 0b00,
    /// Write-back, write-allocate.
    WriteBackAllocate = 0b01,
    /// Write-through, no write-allocate.
    WriteThrough = 0b10,
    /// Write-back, no write-allocate.
    WriteBack = 0b11,
}

impl Cacheability {
    /// The value of the low two bits of `bits`.
    const fn of(bits: u32) -> Self {
        match bits & 0b11 {
            0b00 => Self::NonCacheable,
            0b01 => Self::WriteBackAllocate,
            0b10 => Self::WriteThrough,
            _ => Self::WriteBack,
        }
    }
}

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Strongly-ordered.
    StronglyOrdered,
    /// Device.
    Device,
    /// Normal, with its cacheability.
    Normal {
        /// That of the inner caches.
        inner: Cacheability,
        /// That of the outer caches.
        outer: Cacheability,
    },
}

/// With whom memory is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shareability {
    /// With nobody.
    None,
    /// Inside the inner domain.
    Inner,
    /// Outside of it, too.
    Outer,
}

/// A memory type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryType {
    /// The kind.
    pub kind: MemoryKind,
    /// The shareability.
    pub shareability: Shareability,
}

impl MemoryType {
    /// Strongly-ordered, which is always shareable.
    pub const STRONGLY_ORDERED: Self = Self {
        kind: MemoryKind::StronglyOrdered,
        shareability: Shareability::Outer,
    };
    /// Device, shareable.
    pub const DEVICE: Self = Self {
        kind: MemoryKind::Device,
        shareability: Shareability::Outer,
    };
    /// Normal, write-back and write-allocate, shareable.
    pub const WRITE_BACK: Self = Self::normal(Cacheability::WriteBackAllocate, Shareability::Outer);
    /// Normal, non-cacheable, shareable.
    pub const NON_CACHEABLE: Self = Self::normal(Cacheability::NonCacheable, Shareability::Outer);

    /// Normal memory with one cacheability for all caches.
    pub const fn normal(cacheability: Cacheability, shareability: Shareability) -> Self {
        Self {
            kind: MemoryKind::Normal {
                inner: cacheability,
                outer: cacheability,
            },
            shareability,
        }
    }

    /// The type of TEX, C, B (five bits) and S without remap (B3.8.2). Reserved and implementation
    /// defined encodings are taken for strongly-ordered.
    pub(crate) fn by_default(texcb: u8, shareable: bool) -> Self {
        let s = if shareable {
            Shareability::Outer
        } else {
            Shareability::None
        };
        match texcb {
            0b00001 => Self::DEVICE,
            0b00010 => Self::normal(Cacheability::WriteThrough, s),
            0b00011 => Self::normal(Cacheability::WriteBack, s),
            0b00100 => Self::normal(Cacheability::NonCacheable, s),
            0b00111 => Self::normal(Cacheability::WriteBackAllocate, s),
            0b01000 => Self {
                shareability: Shareability::None,
                ..Self::DEVICE
            },
            0b10000..=0b11111 => Self {
                kind: MemoryKind::Normal {
                    inner: Cacheability::of(texcb.into()),
                    outer: Cacheability::of(u32::from(texcb) >> 2),
                },
                shareability: s,
            },
            _ => Self::STRONGLY_ORDERED,
        }
    }

    /// The type of TEX\[0\], C, B and S by PRRR and NMRR (B3.8.3). The reserved type and the
    /// implementation defined region 6 are taken for strongly-ordered.
    pub(crate) fn remapped(texcb: u8, shareable: bool, prrr: u32, nmrr: u32) -> Self {
        let region = u32::from(texcb & 0b111);
        let shareability = |zero: u32| match prrr >> (zero + u32::from(shareable)) & 1 {
            0 => Shareability::None,
            _ if prrr >> (24 + region) & 1 == 0 => Shareability::Outer,
            _ => Shareability::Inner,
        };
        match (region, prrr >> (2 * region) & 0b11) {
            (6, _) => Self::STRONGLY_ORDERED,
            // DS0 and DS1.
            (_, 0b01) => Self {
                kind: MemoryKind::Device,
                shareability: shareability(16),
            },
            // NS0 and NS1.
            (_, 0b10) => Self {
                kind: MemoryKind::Normal {
                    inner: Cacheability::of(nmrr >> (2 * region)),
                    outer: Cacheability::of(nmrr >> (2 * region + 16)),
                },
                shareability: shareability(18),
            },
            _ => Self::STRONGLY_ORDERED,
        }
    }

    /// TEX, C, B (five bits) and S that mean this type without remap. Inner and outer shareable
    /// are one there.
    pub(crate) fn to_default(self) -> (u8, bool) {
        let shareable = self.shareability != Shareability::None;
        let texcb = match self.kind {
            MemoryKind::StronglyOrdered => 0b00000,
            MemoryKind::Device if shareable => 0b00001,
            MemoryKind::Device => 0b01000,
            MemoryKind::Normal { inner, outer } => 0b10000 | (outer as u8) << 2 | inner as u8,
        };
        (texcb, shareable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_an_encoding_that_means_it() {
        for texcb in 0..32 {
            for shareable in [false, true] {
                let meant = MemoryType::by_default(texcb, shareable);
                let (again, s) = meant.to_default();
                assert_eq!(MemoryType::by_default(again, s), meant, "{texcb:#b}");
            }
        }
    }
}
