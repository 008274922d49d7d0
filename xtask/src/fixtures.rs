//! Copies conformance vectors into the repository.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// The folders of the vectors. The source must have all folders, and each folder is replaced as a whole.
const FOLDERS: [&str; 3] = ["kindlm", "kindlm-core", "promptfoo"];

/// Replaces the vectors in `to` by the vectors in `from`.
///
/// Returns a text with the numbers of files and vectors. Fails if a folder is missing in `from`, or if a disk operation
/// fails.
pub(crate) fn bring_in(from: &Path, to: &Path) -> Result<String> {
    for folder in FOLDERS {
        if !from.join(folder).is_dir() {
            bail!("{} has no folder `{folder}`: is it the folder of the vectors?", from.display());
        }
    }
    let mut files = 0;
    let mut lines = 0;
    if from.join("README.md").is_file() {
        copy(&from.join("README.md"), &to.join("README.md"))?;
    }
    for folder in FOLDERS {
        let target = to.join(folder);
        if target.is_dir() {
            std::fs::remove_dir_all(&target)?;
        }
        copy_folder(&from.join(folder), &target, &mut files, &mut lines)?;
    }
    Ok(format!("{files} files with {lines} vectors copied to {}", to.display()))
}

fn copy_folder(from: &Path, to: &Path, files: &mut usize, lines: &mut usize) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for item in
        std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?
    {
        let path = item?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() {
            copy_folder(&path, &to.join(name), files, lines)?;
            continue;
        }
        *lines += copy(&path, &to.join(name))?;
        *files += 1;
    }
    Ok(())
}

/// Copies the content of a file, and returns the number of vectors in it.
///
/// The permissions are not copied, because the source may be read-only.
fn copy(from: &Path, to: &Path) -> Result<usize> {
    let content = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    std::fs::write(to, &content).with_context(|| format!("cannot write {}", to.display()))?;
    let is_vectors = from.extension().is_some_and(|it| it == "jsonl");
    Ok(if is_vectors {
        content.split(|&byte| byte == b'\n').filter(|it| !it.is_empty()).count()
    } else {
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_all_files_and_removes_deleted_ones() {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        for folder in FOLDERS {
            std::fs::create_dir_all(from.path().join(folder).join("schemas")).unwrap();
            std::fs::write(from.path().join(folder).join("a.jsonl"), "{}\n{}\n").unwrap();
        }
        std::fs::create_dir_all(to.path().join("kindlm")).unwrap();
        std::fs::write(to.path().join("kindlm/stale.jsonl"), "{}").unwrap();

        let summary = bring_in(from.path(), to.path()).unwrap();

        assert!(summary.starts_with("3 files with 6 vectors"), "{summary}");
        assert!(to.path().join("kindlm-core/a.jsonl").is_file());
        assert!(!to.path().join("kindlm/stale.jsonl").exists());
    }

    #[test]
    fn refuses_a_folder_without_vectors() {
        let from = tempfile::tempdir().unwrap();
        let err = bring_in(from.path(), from.path()).unwrap_err();
        assert!(err.to_string().contains("has no folder `kindlm`"), "{err}");
    }
}
