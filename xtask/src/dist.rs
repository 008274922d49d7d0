//! Builds a release archive.

use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use xshell::{Shell, cmd};

/// The arguments of the last step, which links the shipped binary.
///
/// The symbols are removed here, because Cargo ignores `strip` of a profile for a package with settings of its own, and
/// `kindlm-cli` has some in `[profile.dist.package]`.
///
/// LLD folds identical functions, which saves 1 % of the size. Folded functions have the same address, so code must not
/// compare the addresses of functions. The workspace compares no such addresses. QuickJS compares the addresses of some
/// functions, but LLD folds none of these functions. On other targets, Rust does not link with LLD.
const LINK: &[&str] = if cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))
{
    &["-C", "strip=symbols", "-C", "link-arg=-Wl,--icf=all"]
} else {
    &["-C", "strip=symbols"]
};

/// Builds the binary with the `dist` profile, and packs it with its documents and completions.
///
/// Writes the archive and its SHA-256 digest to `target/dist-archive`. Fails if a command or a disk operation fails.
pub(crate) fn build(sh: &Shell, root: &Path) -> Result<()> {
    // `cargo rustc` passes the arguments only to the compilation of the binary, so no dependency is compiled again.
    cmd!(sh, "cargo rustc --profile dist -p kindlm-cli --bin kindlm --features full -- {LINK...}")
        .run()?;
    let binary = root.join("target/dist/kindlm");
    let version = cmd!(sh, "{binary} --version").read()?;
    let version = version.split_whitespace().last().context("`--version` prints a version")?;
    let name = format!("kindlm-{version}-{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let folder = root.join("target/dist-archive").join(&name);
    sh.remove_path(&folder)?;
    sh.create_dir(folder.join("completions"))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE", "LICENSE-MIT", "LICENSE-APACHE"] {
        sh.copy_file(root.join(file), &folder)?;
    }
    sh.copy_file(&binary, &folder)?;
    sh.write_file(folder.join("kindlm.1"), cmd!(sh, "{binary} man").read()?)?;
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let text = cmd!(sh, "{binary} completions {shell}").read()?;
        sh.write_file(folder.join("completions").join(format!("kindlm.{shell}")), text)?;
    }
    let parent = root.join("target/dist-archive");
    let archive = parent.join(format!("{name}.tar.gz"));
    cmd!(sh, "tar --create --gzip --file {archive} --directory {parent} {name}").run()?;
    let digest = hex(&Sha256::digest(std::fs::read(&archive)?));
    sh.write_file(
        parent.join(format!("{name}.tar.gz.sha256")),
        format!("{digest}  {name}.tar.gz\n"),
    )?;
    println!("{}\nsha256 {digest}", archive.display());
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
