//! Serves what the device tree says, for ever; or makes an image that grows: see the library.

use hanok_driver_linux::{image, nodes, service, words};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: hanok-driver, which serves what the device tree says; or hanok-driver create FILE SIZE, which makes a qcow2 \
                     image (SIZE such as 64M or 4G)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        [] => {
            words::say("starts");
            service::want_many_files();
            nodes::read(Path::new(nodes::TREE)).and_then(service::serve_all)
        }
        ["create", file, size] => create(file, size),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            words::say(&why);
            ExitCode::FAILURE
        }
    }
}

fn create(file: &str, size: &str) -> Result<(), String> {
    let bytes = image::size(size)
        .ok_or_else(|| format!("\"{size}\" is no size: write such as 64M or 4G"))?;
    image::create(Path::new(file), bytes).map_err(|error| format!("{file}: {error}"))
}
