//! Copies a folder, and refuses symbolic links that lead out of the folder.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use kindlm_types::FileTree;

use crate::inside::without_setuid;
use crate::tree::{Count, Limits};

/// The resolved paths of the files that are not copied.
///
/// Agents must not see these files.
pub(crate) type Except<'a> = &'a [PathBuf];

/// Copies the content of a folder into an existing folder.
///
/// The copies share their blocks with the originals (reflinks) if the file system supports reflinks. Symbolic links are
/// copied as links. A link that leads out of the folder, a pipe, a socket and a device are errors. `.git`, `.kindlm`
/// and the files of `except` are left out.
///
/// An error message names the file. `name` is the name of the folder in error messages about the limits.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    except: Except<'_>,
    limits: Limits,
    name: &str,
) -> Result<(), String> {
    let mut count = Count::new(limits);
    let root = from.canonicalize().map_err(|err| cannot("read", from, &err))?;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let source = root.join(&folder);
        for item in fs::read_dir(&source).map_err(|err| cannot("read", &source, &err))? {
            let item = item.map_err(|err| cannot("read", &source, &err))?;
            let relative = folder.join(item.file_name());
            let source = root.join(&relative);
            if FileTree::leaves_out(&item.file_name()) || except.contains(&source) {
                continue;
            }
            let target = to.join(&relative);
            let metadata =
                fs::symlink_metadata(&source).map_err(|err| cannot("read", &source, &err))?;
            let kind = metadata.file_type();
            if kind.is_dir() {
                fs::create_dir_all(&target).map_err(|err| cannot("make", &target, &err))?;
                folders.push(relative);
                continue;
            }
            let bytes = if kind.is_file() { metadata.len() } else { 0 };
            count.add(bytes).map_err(|err| err.describe(name))?;
            if kind.is_symlink() {
                copy_link(&root, &relative, &target)?;
            } else if kind.is_file() {
                reflink_copy::reflink_or_copy(&source, &target)
                    .map_err(|err| cannot("copy", &source, &err))?;
                fs::set_permissions(&target, without_setuid(&metadata.permissions()))
                    .map_err(|err| cannot("copy", &source, &err))?;
            } else {
                return Err(format!(
                    "`{}` is neither a file nor a folder nor a link, so it cannot be copied: remove it",
                    source.display()
                ));
            }
        }
    }
    Ok(())
}

fn cannot(what: &str, path: &Path, err: &io::Error) -> String {
    format!("cannot {what} `{}`: {err}", path.display())
}

/// Copies a symbolic link. Fails if the link leads out of the folder.
///
/// Both the text and the real target of the link must stay inside the folder.
fn copy_link(root: &Path, relative: &Path, target: &Path) -> Result<(), String> {
    let source = root.join(relative);
    let leads_to = fs::read_link(&source).map_err(|err| cannot("read", &source, &err))?;
    let inside = stays_inside(relative, &leads_to)
        && match source.canonicalize() {
            Ok(real) => real.starts_with(root),
            // The target does not exist, so only the text of the link can be checked.
            Err(err) => err.kind() == io::ErrorKind::NotFound,
        };
    if !inside {
        return Err(format!(
            "the link `{}` leads out of the folder, to `{}`: an agent that follows it would leave its copy; put what it needs into the folder",
            source.display(),
            leads_to.display()
        ));
    }
    link(&leads_to, target).map_err(|err| cannot("make", target, &err))
}

/// Returns true if the text of a link stays inside the folder.
///
/// `at` is the path of the link, relative to this folder.
fn stays_inside(at: &Path, leads_to: &Path) -> bool {
    let mut depth = at.components().count() - 1;
    for part in leads_to.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(unix)]
fn link(leads_to: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(leads_to, at)
}

#[cfg(not(unix))]
fn link(_leads_to: &Path, _at: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "links cannot be made on this system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_judged_by_its_words() {
        for (at, leads_to, inside) in [
            ("a", "b", true),
            ("a", "./b/../c", true),
            ("a", "../b", false),
            ("bin/x", "../lib/x", true),
            ("bin/x", "../../x", false),
            ("a", "/etc/passwd", false),
            ("a/b/c", "../../d", true),
            ("a/b/c", "x/../../../../d", false),
        ] {
            assert_eq!(stays_inside(Path::new(at), Path::new(leads_to)), inside, "{at} {leads_to}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn copies_inner_links_and_refuses_outer_ones() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::create_dir_all(from.join("empty")).unwrap();
        fs::create_dir_all(from.join(".git")).unwrap();
        fs::write(from.join(".git/HEAD"), "x").unwrap();
        fs::write(from.join("run.sh"), "#!/bin/sh\n").unwrap();
        fs::write(from.join("secret.test"), "hidden").unwrap();
        fs::set_permissions(from.join("run.sh"), fs::Permissions::from_mode(0o6755)).unwrap();
        symlink("../run.sh", from.join("bin/run")).unwrap();
        symlink("not-there-yet", from.join("dangling")).unwrap();
        let to = folder.path().join("to");
        fs::create_dir(&to).unwrap();
        let except = [from.canonicalize().unwrap().join("secret.test")];
        copy(&from, &to, &except, Limits::NONE, "it").unwrap();
        let mode = fs::metadata(to.join("run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "a copy does not run with the rights of its owner");
        assert_eq!(fs::read_link(to.join("bin/run")).unwrap(), Path::new("../run.sh"));
        assert!(to.join("empty").is_dir() && fs::read_link(to.join("dangling")).is_ok());
        assert!(!to.join(".git").exists() && !to.join("secret.test").exists());

        // An agent that follows one of these links would write outside its copy.
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::create_dir(from.join("inner")).unwrap();
        for (at, leads_to) in [
            ("inner/way", "../../outside".to_owned()),
            ("inner/there", format!("{}/run.sh", from.canonicalize().unwrap().display())),
        ] {
            symlink(&leads_to, from.join(at)).unwrap();
            let to = tempfile::tempdir().unwrap();
            let words = copy(&from, to.path(), &[], Limits::NONE, "it").unwrap_err();
            assert!(
                words.contains(&format!("{at}` leads out of the folder, to `{leads_to}`")),
                "{words}"
            );
            fs::remove_file(from.join(at)).unwrap();
        }
        // The final target of a chain of links counts.
        symlink("inner/away", from.join("chain")).unwrap();
        symlink("../../outside", from.join("inner/away")).unwrap();
        let to = tempfile::tempdir().unwrap();
        assert!(
            copy(&from, to.path(), &[], Limits::NONE, "it")
                .unwrap_err()
                .contains("leads out of the folder")
        );
    }
}
