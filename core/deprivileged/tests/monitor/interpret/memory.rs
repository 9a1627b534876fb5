//! Loads and stores (DDI 0406C, A8.8).

use super::{Abort, Bus, Core, Done, Stop, bit, field, require, signed};
use hanok_cpu32::{Fault, FaultStatus};

/// How an address comes from a base.
#[derive(Clone, Copy)]
pub struct Form {
    pub base: u32,
    pub offset: u32,
    pub add: bool,
    pub before: bool,
    pub write_back: bool,
}

/// What is transferred.
#[derive(Clone, Copy)]
pub struct Data {
    pub register: u32,
    pub bytes: u32,
    pub load: bool,
    pub signed: bool,
}

fn aligned(address: u32, write: bool) -> Done {
    if address.is_multiple_of(4) {
        return Ok(());
    }
    Err(Stop::Data(Abort {
        address,
        write,
        fault: Some(Fault::without_domain(FaultStatus::Alignment)),
    }))
}

impl<B: Bus> Core<'_, B> {
    /// The address, and the base's new value.
    fn address(&self, form: Form) -> Result<(u32, Option<u32>), Stop> {
        let writes = form.write_back || !form.before;
        require(!(writes && form.base == 15))?;
        let base = match form.base {
            15 => self.get(15) & !3,
            number => self.get(number),
        };
        let moved = if form.add {
            base.wrapping_add(form.offset)
        } else {
            base.wrapping_sub(form.offset)
        };
        let address = if form.before { moved } else { base };
        Ok((address, writes.then_some(moved)))
    }

    pub(super) fn transfer(&mut self, form: Form, data: Data) -> Done {
        let (address, moved) = self.address(form)?;
        let to = data.register;
        require(moved.is_none() || form.base != to)?;
        if !data.load {
            // The PC: deprecated, A32 and words alone.
            require(to != 15 || data.bytes == 4 && !self.thumb())?;
            self.store(address, data.bytes, self.get(to))?;
        }
        let mut value = 0;
        if data.load {
            if to == 15 {
                require(data.bytes == 4)?;
                aligned(address, false)?;
            }
            value = self.load(address, data.bytes)?;
            if data.signed {
                value = signed(value, 8 * data.bytes);
            }
        }
        if let Some(moved) = moved {
            self.set(form.base, moved);
        }
        match (data.load, to) {
            (true, 15) => self.exchange(value),
            (true, _) => {
                self.set(to, value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// LDRD and STRD.
    pub(super) fn pair(&mut self, form: Form, [first, second]: [u32; 2], load: bool) -> Done {
        let (address, moved) = self.address(form)?;
        require(first < 13 && second < 13 && first != second)?;
        require(moved.is_none() || (form.base != first && form.base != second))?;
        aligned(address, !load)?;
        if load {
            let values = [
                self.load(address, 4)?,
                self.load(address.wrapping_add(4), 4)?,
            ];
            self.set(first, values[0]);
            self.set(second, values[1]);
        } else {
            self.store(address, 4, self.get(first))?;
            self.store(address.wrapping_add(4), 4, self.get(second))?;
        }
        if let Some(moved) = moved {
            self.set(form.base, moved);
        }
        Ok(())
    }

    pub(super) fn single(&mut self, w: u32, offset: u32) -> Done {
        let (before, write_back) = (bit(w, 24), bit(w, 21));
        // LDRT and the like are sensitive.
        require(before || !write_back)?;
        let form = Form {
            base: field(w, 19, 16),
            offset,
            add: bit(w, 23),
            before,
            write_back,
        };
        let data = Data {
            register: field(w, 15, 12),
            bytes: if bit(w, 22) { 1 } else { 4 },
            load: bit(w, 20),
            signed: false,
        };
        self.transfer(form, data)
    }

    pub(super) fn extra(&mut self, w: u32) -> Done {
        let (before, write_back) = (bit(w, 24), bit(w, 21));
        require(before || !write_back)?;
        let (t, m) = (field(w, 15, 12), field(w, 3, 0));
        let offset = if bit(w, 22) {
            field(w, 11, 8) << 4 | m
        } else {
            require(m != 15 && field(w, 11, 8) == 0)?;
            self.get(m)
        };
        let form = Form {
            base: field(w, 19, 16),
            offset,
            add: bit(w, 23),
            before,
            write_back,
        };
        let kind = field(w, 6, 5);
        if !bit(w, 20) && kind != 1 {
            require(t % 2 == 0)?;
            return self.pair(form, [t, t + 1], kind == 2);
        }
        require(t != 15)?;
        let data = Data {
            register: t,
            bytes: if kind == 2 { 1 } else { 2 },
            load: bit(w, 20),
            signed: kind >= 2,
        };
        self.transfer(form, data)
    }

    pub(super) fn block(&mut self, w: u32) -> Done {
        require(!bit(w, 22))?;
        let list = field(w, 15, 0);
        let up = bit(w, 23);
        self.multiple(
            field(w, 19, 16),
            list,
            [up, bit(w, 24)],
            bit(w, 21),
            bit(w, 20),
        )
    }

    /// LDM and STM, with U and P.
    pub(super) fn multiple(
        &mut self,
        base: u32,
        list: u32,
        [up, before]: [bool; 2],
        write_back: bool,
        load: bool,
    ) -> Done {
        let count = list.count_ones();
        require(base != 15 && count > 0 && !(write_back && bit(list, base)))?;
        require(load || !bit(list, 15))?;
        let old = self.get(base);
        let (start, moved) = if up {
            (old, old.wrapping_add(4 * count))
        } else {
            (old.wrapping_sub(4 * count), old.wrapping_sub(4 * count))
        };
        let mut at = if up == before {
            start.wrapping_add(4)
        } else {
            start
        };
        aligned(at, !load)?;
        let mut target = None;
        for number in (0..16).filter(|number| bit(list, *number)) {
            if !load {
                self.store(at, 4, self.get(number))?;
            } else {
                let value = self.load(at, 4)?;
                match number {
                    15 => target = Some(value),
                    _ => self.set(number, value),
                }
            }
            at = at.wrapping_add(4);
        }
        if write_back {
            self.set(base, moved);
        }
        target.map_or(Ok(()), |target| self.exchange(target))
    }
}
