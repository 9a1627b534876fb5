//! Numbers of the SMC Calling Convention (DEN0028G) and of the functions that use it.

/// Function identifiers (DEN0028G 6, DEN0022F 5).
pub mod function {
    /// SMCCC_VERSION.
    pub const SMCCC_VERSION: u32 = 0x8000_0000;
    /// SMCCC_ARCH_FEATURES.
    pub const SMCCC_ARCH_FEATURES: u32 = 0x8000_0001;
    /// PSCI_VERSION.
    pub const PSCI_VERSION: u32 = 0x8400_0000;
    /// CPU_SUSPEND.
    pub const CPU_SUSPEND: u32 = 0x8400_0001;
    /// CPU_OFF.
    pub const CPU_OFF: u32 = 0x8400_0002;
    /// CPU_ON.
    pub const CPU_ON: u32 = 0x8400_0003;
    /// AFFINITY_INFO.
    pub const AFFINITY_INFO: u32 = 0x8400_0004;
    /// MIGRATE_INFO_TYPE.
    pub const MIGRATE_INFO_TYPE: u32 = 0x8400_0006;
    /// SYSTEM_OFF.
    pub const SYSTEM_OFF: u32 = 0x8400_0008;
    /// SYSTEM_RESET.
    pub const SYSTEM_RESET: u32 = 0x8400_0009;
    /// PSCI_FEATURES.
    pub const PSCI_FEATURES: u32 = 0x8400_000a;
    /// TRNG_VERSION (DEN0098, 2).
    pub const TRNG_VERSION: u32 = 0x8400_0050;
    /// TRNG_FEATURES.
    pub const TRNG_FEATURES: u32 = 0x8400_0051;
    /// TRNG_GET_UUID.
    pub const TRNG_GET_UUID: u32 = 0x8400_0052;
    /// TRNG_RND32; with [`SMC64`] TRNG_RND64.
    pub const TRNG_RND: u32 = 0x8400_0053;
    /// PV_TIME_FEATURES (DEN0057A, 3.1), with 64-bit arguments alone.
    pub const PV_TIME_FEATURES: u32 = 0xc500_0020;
    /// PV_TIME_ST (DEN0057A, 3.2).
    pub const PV_TIME_ST: u32 = 0xc500_0021;
    /// The bit that distinguishes calls with 64-bit arguments from those with 32-bit arguments.
    pub const SMC64: u32 = 1 << 30;
}

pub(crate) const SUCCESS: i64 = 0;
pub(crate) const NOT_SUPPORTED: i64 = -1;
pub(crate) const INVALID_PARAMETERS: i64 = -2;
