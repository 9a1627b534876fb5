//! The guest's memory, as instructions reach it that the virtual CPU carries out.

use crate::code::Code;
use crate::host::Host;
use crate::translation::fault;
use crate::view::{Executable, View};
use core::cell::Cell;
use hanok_cpu32::{Access, Fault, FaultStatus, GuestAccess, Refusal, Rights};
use hanok_hal::AccessError;
use hanok_paging::shadow::HostMemory;
use hanok_paging::short::{self, AccessKind, Privilege, ShortRegime, WalkError};
use hanok_types::{Address, GuestPage, Ipa, PAGE_SIZE, Width};

/// The memory of a guest whose translation is controlled by `regime`.
pub(crate) struct Memory<'a, H> {
    pub host: &'a H,
    pub code: &'a Code,
    pub regime: ShortRegime,
    /// A page that holds code, and was to be written.
    pub written: Cell<Option<GuestPage>>,
    /// An absent page.
    pub absent: Cell<Option<GuestPage>>,
    /// The page that was translated last: most instructions load from one alone.
    latest: Cell<Option<Latest>>,
}

/// A page of the guest's, and where it is for accesses of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Latest {
    page: u32,
    kind: AccessKind,
    rights: Rights,
    at: Ipa,
}

/// The bits of an address that its page does not say.
const OFFSET: u32 = PAGE_SIZE as u32 - 1;

impl<'a, H: Host> Memory<'a, H> {
    pub fn new(host: &'a H, code: &'a Code, regime: ShortRegime) -> Self {
        Self {
            host,
            code,
            regime,
            written: Cell::new(None),
            absent: Cell::new(None),
            latest: Cell::new(None),
        }
    }

    /// Where an access goes.
    fn translate(&self, access: &Access, kind: AccessKind) -> Result<Ipa, Refusal> {
        let Access {
            address, rights, ..
        } = *access;
        let page = address & !OFFSET;
        if let Some(latest) = self.latest.get()
            && (latest.page, latest.kind, latest.rights) == (page, kind, rights)
        {
            return Ok(Ipa::new(latest.at.get() | u64::from(address & OFFSET)));
        }
        let found = self.walk(access, kind)?;
        self.latest.set(Some(Latest {
            page,
            kind,
            rights,
            at: found.align_down(PAGE_SIZE),
        }));
        Ok(found)
    }

    /// Where an access goes, by the guest's tables.
    #[inline(never)]
    fn walk(&self, access: &Access, kind: AccessKind) -> Result<Ipa, Refusal> {
        let view = View::new(self.host, self.code, Executable::Sound);
        let wanted = short::Access {
            address: access.address,
            kind,
            by: match access.rights {
                Rights::Kernel => Privilege::Kernel,
                Rights::User => Privilege::User,
            },
        };
        let found = self.regime.walk(&wanted, |at| view.word(at));
        if let Some(page) = view.absent.get() {
            self.absent.set(Some(page));
            return Err(Refusal::Again);
        }
        match found {
            Ok(mapping) => Ok(mapping.output),
            Err(WalkError::Fault(found)) => Err(Refusal::Fault(fault(&found))),
            Err(WalkError::Beyond(_)) => Err(external()),
        }
    }

    /// Where each byte of a store goes, if it can be made but for code that is in the way.
    pub(crate) fn places(&self, access: Access) -> Result<[Ipa; 4], Refusal> {
        let mut places = [Ipa::new(0); 4];
        let count = access.width.bytes().min(4) as u32;
        for (place, index) in places.iter_mut().zip(0..count) {
            let address = access.address.wrapping_add(index);
            let at = self.translate(&Access { address, ..access }, AccessKind::Write)?;
            if !self.host.is_writable(at) {
                return Err(external());
            }
            self.checked(self.host.frame(at))?;
            *place = at;
        }
        Ok(places)
    }

    /// The word at an aligned address, as the guest wrote it.
    fn word(&self, at: Ipa) -> Result<u32, Refusal> {
        match self.code.word(at) {
            Some(word) => Ok(word),
            None => self.checked(self.host.word(at)),
        }
    }

    fn checked<T>(&self, done: Result<T, AccessError>) -> Result<T, Refusal> {
        done.map_err(|error| match error {
            AccessError::Absent(page) => {
                self.absent.set(Some(page));
                Refusal::Again
            }
            AccessError::NoMemory(_) => external(),
        })
    }
}

/// Nothing answers, or a device does, which these instructions do not reach.
const fn external() -> Refusal {
    Refusal::Fault(Fault::without_domain(FaultStatus::External))
}

/// Whether an access passes the end of a word.
fn straddles(address: u32, width: Width) -> bool {
    u64::from(address % 4) + width.bytes() > 4
}

impl<H: Host> GuestAccess for Memory<'_, H> {
    fn load(&mut self, access: Access) -> Result<u32, Refusal> {
        if access.width == Width::Word && access.address.is_multiple_of(4) {
            let word = self.word(self.translate(&access, AccessKind::Read)?)?;
            return Ok(if access.big_endian {
                word.swap_bytes()
            } else {
                word
            });
        }
        let mut bytes = [0; 4];
        let count = access.width.bytes().min(4) as u32;
        // An access that is not aligned may pass the end of a page: each byte has its translation.
        let whole = (!straddles(access.address, access.width))
            .then(|| self.translate(&access, AccessKind::Read))
            .transpose()?;
        for (byte, index) in bytes.iter_mut().zip(0..count) {
            let at = match whole {
                Some(at) => Ipa::new(at.get() + u64::from(index)),
                None => {
                    let address = access.address.wrapping_add(index);
                    self.translate(&Access { address, ..access }, AccessKind::Read)?
                }
            };
            let word = self.word(Ipa::new(at.get() & !3))?;
            *byte = (word >> (at.get() % 4 * 8)) as u8;
        }
        let value = u32::from_le_bytes(bytes);
        Ok(if access.big_endian {
            value.swap_bytes() >> (32 - 8 * count)
        } else {
            value
        })
    }

    fn store(&mut self, access: Access, value: u32) -> Result<(), Refusal> {
        let count = access.width.bytes().min(4) as u32;
        let value = if access.big_endian {
            value.swap_bytes() >> (32 - 8 * count)
        } else {
            value
        };
        // Nothing is stored if any byte cannot be.
        let places = self.places(access)?;
        let mut pages = places
            .iter()
            .take(count as usize)
            .copied()
            .filter_map(GuestPage::of);
        if let Some(page) = pages.find(|page| self.code.is_known(*page)) {
            self.written.set(Some(page));
            return Err(Refusal::Again);
        }
        let bytes = value.to_le_bytes();
        if let Some(bytes) = bytes.get(..count as usize)
            && places[0].is_aligned(count.into())
        {
            // At once, as siblings may see it.
            return self.checked(self.host.store(places[0], bytes));
        }
        for (place, byte) in places.iter().zip(bytes).take(count as usize) {
            self.checked(self.host.store(*place, &[byte]))?;
        }
        Ok(())
    }
}
