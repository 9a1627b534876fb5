//! Every compression, on files that the usual programs made with the options by which Linux packs
//! its kernels.

use hanok_previrt::Compression;

const TEXT: &[u8] = include_bytes!("../../fuzz-targets/seeds/text");

#[test]
fn every_compression_is_unpacked() {
    let packed: [(Compression, &[u8]); 7] = [
        (
            Compression::Gzip,
            include_bytes!("../../fuzz-targets/seeds/text.gz"),
        ),
        (
            Compression::Xz,
            include_bytes!("../../fuzz-targets/seeds/text.xz"),
        ),
        (
            Compression::Lzma,
            include_bytes!("../../fuzz-targets/seeds/text.lzma"),
        ),
        (
            Compression::Lz4,
            include_bytes!("../../fuzz-targets/seeds/text.lz4"),
        ),
        (
            Compression::Lz4Frame,
            include_bytes!("../../fuzz-targets/seeds/text.lz4f"),
        ),
        (
            Compression::Lzo,
            include_bytes!("../../fuzz-targets/seeds/text.lzo"),
        ),
        (
            Compression::Zstd,
            include_bytes!("../../fuzz-targets/seeds/text.zst"),
        ),
    ];
    for (kind, bytes) in packed {
        assert_eq!(Compression::of(bytes), Some(kind));
        assert_eq!(kind.unpack(bytes).as_deref(), Ok(TEXT), "{}", kind.name());
        let cut = bytes.get(..bytes.len() / 2).unwrap_or(&[]);
        assert!(kind.unpack(cut).is_err(), "half of {}", kind.name());
    }
}
