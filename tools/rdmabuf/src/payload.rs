// SPDX-License-Identifier: GPL-2.0

//! The file that is moved: a real one, of a size that takes more than one page and one message.

use anyhow::{Context, Result, ensure};
use nix::unistd::{AccessFlags, access};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The least number of bytes.
pub(crate) const MINIMUM: u64 = 8 << 20;

/// Where a file is looked for when none is named: programs, libraries and their data.
const FOLDERS: [&str; 5] = [
    "/usr/lib",
    "/usr/bin",
    "/usr/sbin",
    "/usr/libexec",
    "/usr/share",
];

/// A file's name and bytes.
pub(crate) struct Payload {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Payload {
    /// Reads the named file, or the smallest one of this machine that is large enough.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self> {
        let path = match named {
            Some(path) => path.to_owned(),
            // The same on every run, and the least work.
            None => smallest(FOLDERS.map(Path::new), MINIMUM).with_context(|| {
                format!(
                    "no readable file of {MINIMUM} bytes or more in {}: --file names one",
                    FOLDERS.join(", ")
                )
            })?,
        };
        let bytes = read(&path)
            .with_context(|| format!("cannot move {}: --file names another", path.display()))?;
        Ok(Self { path, bytes })
    }
}

/// All of a file that is long enough. What is no file might never end.
fn read(path: &Path) -> Result<Vec<u8>> {
    ensure!(fs::metadata(path)?.is_file(), "not a regular file");
    let bytes = fs::read(path)?;
    ensure!(
        bytes.len() as u64 >= MINIMUM,
        "{} bytes, and at least {MINIMUM} are needed",
        bytes.len()
    );
    Ok(bytes)
}

/// The smallest readable regular file of at least `minimum` bytes in the folders and what is below them.
fn smallest<'a>(folders: impl IntoIterator<Item = &'a Path>, minimum: u64) -> Option<PathBuf> {
    let mut best: Option<(u64, PathBuf)> = None;
    let mut left: Vec<PathBuf> = folders.into_iter().map(Path::to_owned).collect();
    while let Some(folder) = left.pop() {
        // What is missing or may not be read has no file for us.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let candidate = (metadata.size(), entry.path());
            if metadata.is_dir() {
                left.push(entry.path());
            } else if metadata.is_file()
                && candidate.0 >= minimum
                && best.as_ref().is_none_or(|best| candidate < *best)
                && access(&candidate.1, AccessFlags::R_OK).is_ok()
            {
                best = Some(candidate);
            }
        }
    }
    best.map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_file_that_is_large_enough_is_taken() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("rdmabuf-{}", std::process::id()));
        fs::create_dir_all(folder.join("below"))?;
        for (name, size) in [("a", 9), ("below/b", 12), ("c", 40), ("below/d", 30)] {
            fs::write(folder.join(name), vec![0; size])?;
        }
        let found = smallest([folder.as_path()], 10);
        let none = smallest([folder.as_path()], 41);
        fs::remove_dir_all(&folder)?;
        assert_eq!(found, Some(folder.join("below/b")));
        assert_eq!(none, None);
        Ok(())
    }

    #[test]
    fn what_cannot_be_moved_is_told_with_its_name() {
        for (path, told) in [
            ("/dev/zero", "not a regular file"),
            ("/usr", "not a regular file"),
            ("/etc/passwd", "at least 8388608 are needed"),
            ("/nonexistent", "No such file"),
        ] {
            let Err(error) = Payload::load(Some(Path::new(path))) else {
                panic!("{path} was read");
            };
            let error = format!("{error:#}");
            assert!(error.contains(path) && error.contains(told), "{error}");
        }
    }
}
