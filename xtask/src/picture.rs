//! Creates the terminal picture of the README, from a run of the quickstart's broken suite.

use std::path::Path;

use anyhow::{Context as _, Result};
use xshell::{Shell, cmd};

/// The path of the picture.
const PICTURE: &str = "docs/images/terminal.svg";

/// The minimum number of columns at which no line of the output is wrapped.
const COLUMNS: &str = "84";

pub(crate) fn draw(sh: &Shell, root: &Path) -> Result<()> {
    let _color = sh.push_env("CLICOLOR_FORCE", "1");
    let _width = sh.push_env("COLUMNS", COLUMNS);
    let suite = "fixtures/quickstart/broken.yaml";
    let run = cmd!(sh, "cargo run --quiet -- test -c {suite}");
    // The tests of the suite fail on purpose, so the exit code is 1.
    let text = run.ignore_status().ignore_stderr().read()?;
    let whole = format!("\u{1b}[2m$\u{1b}[0m kindlm test -c {suite}\n{text}\n");
    let picture = anstyle_svg::Term::new().render_svg(&whole);
    std::fs::write(root.join(PICTURE), picture).context(PICTURE)
}
