//! Reference data that is not part of the product: read in place where it is there, skipped loudly where it is not.

use std::path::PathBuf;

/// The folder of reference data: `BACKFIRE_SHARED`, or `shared` beside the repository.
pub fn folder(part: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("BACKFIRE_SHARED") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
    };
    let folder = root.join(part);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: {} is not there; set BACKFIRE_SHARED to the folder that holds '{part}'", folder.display());
    None
}
