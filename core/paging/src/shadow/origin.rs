//! What the guest's descriptors behind a megabyte of a shadow are, kept in the domain field.

use crate::short::{GuestMapping, MappingSize};

/// The first domain in use here; domain 0 is the hypervisor's own.
const FIRST: u8 = 1;
/// The sizes that are told apart.
const SIZES: [MappingSize; 4] = [
    MappingSize::Small,
    MappingSize::Large,
    MappingSize::Section,
    MappingSize::Supersection,
];

/// DACR while a shadow is used: client of domain 0 and of all domains that the entries are in.
pub const SHADOW_DACR: u32 = 0x0001_5555;

/// What is known of the guest's descriptors behind a megabyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// How much one of them maps at most.
    pub size: MappingSize,
    /// Whether one of them may be global.
    pub global: bool,
}

impl Origin {
    pub fn of(mapping: &GuestMapping) -> Self {
        let size = match mapping.size {
            // Without the MMU no invalidation matters, so any size does.
            MappingSize::Flat => MappingSize::Section,
            size => size,
        };
        Self {
            size,
            global: mapping.global,
        }
    }

    /// What is known of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            size: self.size.max(other.size),
            global: self.global || other.global,
        }
    }

    /// The domain that stands for it.
    pub fn domain(self) -> u8 {
        let size = SIZES.iter().position(|one| *one == self.size);
        FIRST + 2 * size.unwrap_or(SIZES.len() - 1) as u8 + u8::from(self.global)
    }

    /// What this domain stands for.
    pub fn of_domain(domain: u8) -> Self {
        let number = domain.saturating_sub(FIRST);
        let size = SIZES.get(usize::from(number / 2));
        Self {
            size: size.copied().unwrap_or(MappingSize::Supersection),
            global: number & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_origin_has_a_domain_of_its_own_of_which_one_is_client() {
        let mut seen = std::collections::BTreeSet::from([0]);
        for size in SIZES {
            for global in [false, true] {
                let origin = Origin { size, global };
                let domain = origin.domain();
                assert!(seen.insert(domain));
                assert_eq!(Origin::of_domain(domain), origin);
            }
        }
        let clients = seen.iter().map(|domain| 1u32 << (2 * domain)).sum::<u32>();
        assert_eq!(clients, SHADOW_DACR);
    }
}
