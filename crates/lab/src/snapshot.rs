//! Text that a test holds to a file beside it. `HEDGEROW_BLESS=1` writes the file anew.

use std::path::Path;

/// Compares with `src/<name>`.
#[track_caller]
pub(crate) fn same(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name);
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder for the snapshot");
        }
        std::fs::write(&path, actual).expect("the snapshot can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == actual, "{name} is\n{expected}\nand this is\n{actual}");
}
