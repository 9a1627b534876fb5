//! What the board's screen shows: bands of lines of known pictures, each pixel compared with what the picture's definition
//! says.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use hanok_console::script::Attempt;
use serde::Deserialize;

use super::monitor::Monitor;

/// Lines of the screen, and what they show.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Band {
    /// The first line, and the one behind the last.
    pub lines: (usize, usize),
    /// The picture: `black`, `fields`, `stripes16`, `stripes32`.
    pub of: String,
    /// The line of the picture that the first one shows.
    #[serde(default)]
    pub from: usize,
}

/// A picture that a guest draws, by its definition: a colour for each column and line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picture {
    /// Nothing.
    Black,
    /// The RTOS's (`guests/rtos/src/picture.rs`): red grows from left to right, green from top to bottom, and every other
    /// field of 32 by 32 pixels is blue.
    Fields,
    /// That of `tests/guest/stripes`, in pixels of 16 bits: stripe `k` of 16 lines has `8 k + 5` as each byte in its left half,
    /// and 255 less that in its right half.
    Stripes16,
    /// The same in pixels of 32 bits.
    Stripes32,
}

/// A picture of the screen, as QEMU's `screendump` writes it: Netpbm's P6 with 8 bits a colour.
struct Shot {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Shot {
    fn parse(file: &[u8]) -> Result<Self> {
        let mut parts = file.splitn(4, |byte| *byte == b'\n');
        let mut line = || Some(std::str::from_utf8(parts.next()?).ok()?.to_owned());
        let (kind, size, most) = (line(), line(), line());
        ensure!(
            kind.as_deref() == Some("P6") && most.as_deref() == Some("255"),
            "the picture has another format"
        );
        let size = size.context("no size")?;
        let (width, height) = size.split_once(' ').context("no size")?;
        let (width, height) = (width.parse()?, height.parse()?);
        let pixels = parts.next().unwrap_or_default().to_vec();
        ensure!(
            Some(pixels.len()) == checked_len(width, height),
            "the picture is cut off"
        );
        Ok(Self {
            width,
            height,
            pixels,
        })
    }

    /// Red, green and blue, as far as pixels of 16 bits have them: 5, 6 and 5 bits.
    fn at(&self, x: usize, y: usize) -> Option<[u8; 3]> {
        let at = 3 * (y * self.width + x);
        let &[red, green, blue] = self.pixels.get(at..at + 3)?.first_chunk()?;
        Some(seen([red, green, blue]))
    }
}

fn checked_len(width: usize, height: usize) -> Option<usize> {
    width.checked_mul(height)?.checked_mul(3)
}

/// What a screen of 16 bits shows of a colour.
fn seen([red, green, blue]: [u8; 3]) -> [u8; 3] {
    [red >> 3, green >> 2, blue >> 3]
}

impl Picture {
    /// The picture of this name.
    fn of(name: &str) -> Result<Self> {
        Ok(match name {
            "black" => Self::Black,
            "fields" => Self::Fields,
            "stripes16" => Self::Stripes16,
            "stripes32" => Self::Stripes32,
            _ => bail!(
                "there is no picture {name}: black, fields, stripes16 and stripes32 are known"
            ),
        })
    }

    /// The colour of a pixel of the picture, which is `width` by `height`: 5, 6 and 5 bits.
    fn colour(self, (x, y): (usize, usize), (width, height): (usize, usize)) -> [u8; 3] {
        match self {
            Self::Black => [0; 3],
            Self::Fields => {
                let blue = (x / 32 + y / 32) % 2 == 1;
                let part = |at: usize, of: usize, steps: usize| (at * steps / of) as u8;
                [
                    part(x, width, 32),
                    part(y, height, 64),
                    if blue { 31 } else { 0 },
                ]
            }
            Self::Stripes16 | Self::Stripes32 => {
                let left = (8 * (y / 16) + 5) as u8;
                let byte = if x < width / 2 { left } else { 255 - left };
                if self == Self::Stripes32 {
                    return seen([byte; 3]);
                }
                let pixel = u16::from_le_bytes([byte; 2]);
                [pixel >> 11, pixel >> 5 & 0x3f, pixel & 0x1f].map(|part| part as u8)
            }
        }
    }
}

/// Compares a picture of the screen with `bands`.
fn compare(file: &[u8], bands: &[Band]) -> Result<()> {
    let shot = Shot::parse(file)?;
    let size = (shot.width, shot.height);
    for band in bands {
        let picture = Picture::of(&band.of)?;
        ensure!(
            band.lines.1 <= shot.height,
            "the screen has {} lines",
            shot.height
        );
        for y in band.lines.0..band.lines.1 {
            for x in 0..shot.width {
                let wanted = picture.colour((x, y - band.lines.0 + band.from), size);
                let shown = shot.at(x, y).context("no such pixel")?;
                if shown != wanted {
                    bail!("column {x} of line {y} is {shown:?}, and {picture:?} is {wanted:?}");
                }
            }
        }
    }
    Ok(())
}

/// The step that awaits `bands` on the screen.
pub fn shows(monitor: Option<&Monitor>, bands: &[Band]) -> Result<Attempt> {
    if bands.is_empty() || bands.iter().any(|band| band.lines.0 >= band.lines.1) {
        bail!("`screen` names lines of the screen: a first one, and a later one behind the last");
    }
    // What stands for a name is put in later.
    let mut names = bands.iter().map(|band| &*band.of);
    if let Some(unknown) = names.find(|name| !name.starts_with('@') && Picture::of(name).is_err()) {
        Picture::of(unknown)?;
    }
    let (monitor, bands) = (monitor.cloned(), bands.to_vec());
    Ok(Attempt::new(
        format!("the screen shows {bands:?}"),
        move || {
            let monitor = monitor.as_ref().context("there is no monitor")?;
            let file = monitor.file("screen.ppm");
            let said = monitor.tell(&format!("screendump {}", file.display()))?;
            ensure!(said.is_empty(), "QEMU's monitor says: {said}");
            compare(&fs::read(&file)?, &bands)
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of the screen whose pixels `colour` says, in 8 bits.
    fn shot(size: (usize, usize), colour: impl Fn(usize, usize) -> [u8; 3]) -> Vec<u8> {
        let mut file = format!("P6\n{} {}\n255\n", size.0, size.1).into_bytes();
        for y in 0..size.1 {
            file.extend((0..size.0).flat_map(|x| colour(x, y)));
        }
        file
    }

    fn band(lines: (usize, usize), of: &str, from: usize) -> Band {
        let of = of.to_owned();
        Band { lines, of, from }
    }

    #[test]
    fn two_halves_are_told_from_one_picture_and_from_another_order() {
        let size = (64, 64);
        let grey = |byte: u8| [byte; 3];
        let stripes = |x: usize, y: usize| {
            let byte = (y / 16 * 8 + 5) as u8;
            grey(if x < 32 { byte } else { !byte })
        };
        let fields = |x: usize, y: usize| {
            let blue = u8::from((x & 32 != 0) != (y & 32 != 0)) * 255;
            [(x * 4) as u8, (y * 4) as u8, blue]
        };
        let halves = shot(size, |x, y| match y {
            0..32 => stripes(x, y + 32),
            _ => fields(x, y - 32),
        });
        let wanted = [band((0, 32), "stripes32", 32), band((32, 64), "fields", 0)];
        compare(&halves, &wanted).unwrap();
        let swapped = [band((0, 32), "fields", 0), band((32, 64), "stripes32", 32)];
        let black = [band((0, 64), "black", 0)];
        let other_line = [band((0, 32), "stripes32", 16)];
        let beyond = [band((0, 65), "stripes32", 0)];
        for wrong in [&swapped[..], &black, &other_line, &beyond] {
            assert!(compare(&halves, wrong).is_err(), "{wrong:?}");
        }
        let mut damaged = halves.clone();
        *damaged.last_mut().unwrap() ^= 0x80;
        let error = compare(&damaged, &wanted).unwrap_err().to_string();
        assert!(error.starts_with("column 63 of line 63 is "), "{error}");
        assert!(compare(&halves[..halves.len() - 1], &wanted).is_err());
    }

    #[test]
    fn pixels_of_16_bits_are_two_equal_bytes() {
        // Stripe 1 has 0x0d0d: 1, 40, 13; its right half 0xf2f2: 30, 23, 18.
        let at = |x| Picture::Stripes16.colour((x, 16), (640, 480));
        assert_eq!((at(0), at(320)), ([1, 40, 13], [30, 23, 18]));
    }
}
