//! Results of finished parts, kept on disk so that a run that was stopped goes on where it was.
//!
//! A part's key says everything that determines its result, beside the program itself: results lie in a folder named by
//! the hash of the running executable, which holds parameters, tables and policies. Runs on the SM model take so long
//! that theirs is named by the hash of the sources that decide them (`build.rs`): a change to a table keeps them.
//!
//! Rules: a file is written under another name and renamed, so it is whole or absent; it repeats its key, so that two
//! keys of one hash cannot be mixed up; a file that cannot be read counts as absent.

use anyhow::{Context, Result};
use gridmux_policy::hash::Fnv;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// The store of one version of the program.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// What a file holds.
#[derive(Deserialize, Serialize)]
struct Kept<T> {
    key: String,
    value: T,
}

impl Store {
    /// Opens the store of the running program, below a folder.
    pub(crate) fn open(cache: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the running program")?;
        let bytes = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
        Self::of(cache, &bytes)
    }

    /// Opens the store of runs on the SM model, below a folder.
    pub(crate) fn of_sources(cache: &Path) -> Result<Self> {
        Self::of(cache, env!("CORUN_SOURCES").as_bytes())
    }

    fn of(cache: &Path, program: &[u8]) -> Result<Self> {
        let folder = cache.join(format!("{:016x}", hash(program)));
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Returns what was kept under a key.
    pub(crate) fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let text = fs::read_to_string(self.file(key)).ok()?;
        let kept: Kept<T> = serde_json::from_str(&text).ok()?;
        (kept.key == key).then_some(kept.value)
    }

    /// Keeps a result under a key.
    pub(crate) fn put<T: Serialize>(&self, key: &str, value: &T) -> Result<()> {
        let file = self.file(key);
        let kept = Kept {
            key: key.to_owned(),
            value,
        };
        let unfinished = file.with_extension(format!("{}.new", process::id()));
        let written = fs::write(&unfinished, serde_json::to_string(&kept)?);
        written
            .and_then(|()| fs::rename(&unfinished, &file))
            .with_context(|| format!("writing {}", file.display()))
    }

    fn file(&self, key: &str) -> PathBuf {
        let name = format!("{:016x}.json", hash(key.as_bytes()));
        self.folder.join(name)
    }
}

/// Returns the 64-bit FNV-1a hash of bytes.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    Fnv::default().bytes(bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::Store;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Returns the files of a folder and of those in it.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let below = paths.flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        });
        below.collect()
    }

    #[test]
    fn runs_are_kept_by_sources_that_name_them() {
        let room = Path::new(env!("CARGO_MANIFEST_DIR"));
        let list = fs::read_to_string(room.join("build.rs")).expect("reads");
        let is_named = |path: &Path| {
            let mut above = path.ancestors().filter_map(Path::to_str);
            above.any(|path| list.contains(&format!("\"{path}\"")))
        };
        let keeps = concat!("context", ".runs(");
        for file in files(&room.join("src")) {
            let path = file.strip_prefix(room).expect("below it");
            let text = fs::read_to_string(&file).expect("reads");
            assert!(
                !text.contains(keeps) || is_named(path),
                "{path:?} keeps runs and is not among the sources of build.rs"
            );
            let uses = text.split("crate::").skip(1).filter(|_| is_named(path));
            for used in uses {
                let name = used.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                let name = Path::new("src").join(name.take(1).collect::<String>());
                let is_known = is_named(&name) || is_named(&name.with_extension("rs"));
                let is_context = name.ends_with("context");
                assert!(is_known || is_context, "{path:?} uses {name:?}");
            }
        }
    }

    #[test]
    fn what_is_kept_is_found_again_by_the_same_program_under_the_same_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::of(folder.path(), b"program").expect("opens");
        assert_eq!(store.get::<Vec<f64>>("pairs"), None);
        let values = vec![0.1, 1.0 / 3.0, 1e-300];
        store.put("pairs", &values).expect("writes");
        assert_eq!(store.get("pairs"), Some(values));
        assert_eq!(store.get::<Vec<f64>>("other"), None);
        let again = Store::of(folder.path(), b"program").expect("opens");
        assert!(again.get::<Vec<f64>>("pairs").is_some());
        let changed = Store::of(folder.path(), b"program 2").expect("opens");
        assert_eq!(changed.get::<Vec<f64>>("pairs"), None);
    }

    #[test]
    fn a_file_that_is_broken_or_of_another_key_counts_as_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::of(folder.path(), b"program").expect("opens");
        store.put("pairs", &7).expect("writes");
        fs::rename(store.file("pairs"), store.file("other")).expect("moves");
        assert_eq!(store.get::<u32>("other"), None, "it holds another key");
        fs::write(store.file("pairs"), "{\"key\":\"pai").expect("writes");
        assert_eq!(store.get::<u32>("pairs"), None, "it is cut off");
        store.put("pairs", &8).expect("writes over it");
        assert_eq!(store.get("pairs"), Some(8));
        let left = fs::read_dir(&store.folder).expect("lists").count();
        assert_eq!(left, 2, "no unfinished file stays");
    }
}
