//! Debian's kernels, and files that are scanned.

use std::path::Path;

use anyhow::{Context, Result};
use hanok_artifacts::Store;
use hanok_artifacts::kernel::{Kernel, KernelSpec};
use hanok_previrt::Scan;

/// Debian's kernels that are looked at.
pub(super) const STOCK: [&str; 2] = ["debian:6.1:armhf", "debian:6.12:armhf"];

/// The kernel behind a reference.
pub(super) fn stock(store: &Store, reference: &str) -> Result<Kernel> {
    let spec = KernelSpec::parse(reference).context("a reference that is none")?;
    store.kernel(&spec)
}

/// Scans the file at `path`.
pub(super) fn scan(path: &Path) -> Result<Scan> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    hanok_previrt::scan(bytes).with_context(|| path.display().to_string())
}
