//! Makes a table of the dashboard's files, each as it is and compressed.

use flate2::{Compression, write::GzEncoder};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard");
    println!("cargo::rerun-if-changed={}", from.display());
    let mut files = Vec::new();
    for folder in [from.clone(), from.join("vendor")] {
        for entry in fs::read_dir(folder).expect("the dashboard's files") {
            let path = entry.expect("a file").path();
            let ends = path.extension().and_then(|end| end.to_str());
            if matches!(ends, Some("html" | "css" | "js" | "svg" | "txt")) {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut table = "static FILES: &[Asset] = &[\n".to_owned();
    for (number, path) in files.iter().enumerate() {
        let plain = fs::read(path).expect("a file that can be read");
        let zipped = out.join(format!("{number}.gz"));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&plain).expect("memory");
        fs::write(&zipped, encoder.finish().expect("memory")).expect("a file that can be written");
        let name = path.strip_prefix(&from).expect("below the folder");
        let path = path.canonicalize().expect("a path");
        writeln!(
            table,
            "    Asset {{ path: {:?}, plain: include_bytes!({path:?}), gzip: include_bytes!({zipped:?}) }},",
            format!("/{}", name.display()),
        )
        .expect("memory");
    }
    table.push_str("];\n");
    fs::write(out.join("dashboard.rs"), table).expect("a file that can be written");
}
