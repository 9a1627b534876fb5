//! For how long a driver VM may leave an interrupt of a device that it serves alone, before it is reset.

use crate::diagnostic::{Report, Words};
use crate::shared::BackEnd;
use crate::table::{self, At, Reader};

/// The shortest and the longest time in microseconds.
const SHORTEST: u64 = 10_000;
const LONGEST: u64 = 600_000_000;
const A_WATCHDOG: &str = "a time from \"10ms\" to \"600s\", in whole milliseconds";

/// The key `watchdog`, in milliseconds.
pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<At<u32>> {
    reader.get(report, "watchdog", A_WATCHDOG, |value| {
        let micros = table::time(value)?;
        let fits = (SHORTEST..=LONGEST).contains(&micros) && micros.is_multiple_of(1000);
        let millis = u32::try_from(micros / 1000).ok()?;
        fits.then_some(millis)
    })
}

/// Refuses it for a VM that serves nothing, and on a core of a global pool, where no core has the VM for itself to look at.
pub(crate) fn refuse_without_use(
    report: &mut Report,
    watchdog: Option<&At<u32>>,
    served: &[BackEnd],
    in_pool: bool,
) {
    let Some(watchdog) = watchdog else {
        return;
    };
    let words = if served.is_empty() {
        let why = "a VM hangs that leaves an interrupt of a device that it serves alone, and this one serves none";
        let remedy = "remove it, or have another VM name this one as `from` in its [[vm.disk]], [[vm.network]] or the like";
        Words::new("`watchdog` of a VM that serves no device", why, remedy)
    } else if in_pool {
        let why = "the core of its first vCPU looks after it, and in a global pool that is any";
        let remedy = "remove it, or give the VM a core outside of the pool";
        Words::new("`watchdog` of a VM in a global pool", why, remedy)
    } else {
        return;
    };
    report.refuse(&watchdog.span, words);
}
