//! Handles of different kinds of objects differ, so that none is taken for another's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns every source file of the library.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let of = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    };
    paths.flat_map(of).collect()
}

#[test]
fn every_kind_of_object_has_its_own_number() {
    let mut known = BTreeMap::new();
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = std::fs::read_to_string(&path).expect("a listed file can be read");
        for line in text.lines() {
            let number = line.trim().strip_prefix("const KIND: u8 = ");
            if let Some(number) = number.and_then(|number| number.strip_suffix(';')) {
                let other = known.insert(number.to_owned(), path.clone());
                assert_eq!(other, None, "{} has {number}, too", path.display());
            }
        }
    }
    assert!(known.len() > 10, "there are kinds of objects");
}
