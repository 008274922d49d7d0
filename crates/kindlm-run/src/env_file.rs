//! Files with environment variables, such as `.env`.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use crate::{Failure, World};

impl World {
    /// Adds the variables of files in `.env` syntax. The environment of this process does not change.
    ///
    /// A variable of the environment keeps its value if the value is not empty. If several files have a variable, the
    /// last file counts.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or a line has a syntax error.
    pub fn with_env_files(mut self, files: &[impl AsRef<Path>]) -> Result<Self, Failure> {
        if files.is_empty() {
            return Ok(self);
        }
        let mut added = HashMap::new();
        for file in files {
            let file = file.as_ref();
            let text = std::fs::read(self.working_dir.join(file)).map_err(|err| {
                let why = kindlm_store::describe_io_error(&err);
                Failure::input(format!("cannot read `{}`: {why}", file.display()))
            })?;
            for variable in dotenvy::from_read_iter(Cursor::new(text)) {
                let (name, value) = variable.map_err(|err| syntax_error(file, &err))?;
                added.insert(name, value);
            }
        }
        let env = Arc::clone(&self.env);
        // An empty variable counts as not set, like in the rest of the library.
        let own = move |name: &str| env(name).filter(|it| !it.is_empty());
        self.variables.extend(added.keys().filter(|it| own(it).is_none()).cloned());
        let env = Arc::clone(&self.env);
        self.env = Arc::new(move |name| {
            own(name).or_else(|| added.get(name).cloned()).or_else(|| env(name))
        });
        Ok(self)
    }
}

/// Returns the failure of a line. The message leaves out the text of the line, which may be a secret.
fn syntax_error(file: &Path, err: &dotenvy::Error) -> Failure {
    let file = file.display();
    let why = match err {
        dotenvy::Error::LineParse(_, at) => format!("a line has a syntax error at byte {at}"),
        dotenvy::Error::Io(err) => kindlm_store::describe_io_error(err),
        _ => "it has a syntax error".to_owned(),
    };
    Failure::input(format!("cannot read `{file}`: {why}"))
        .with_help("write one `NAME=value` on each line; quote values with spaces or `#`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(folder: &Path) -> World {
        let env = |name: &str| (name == "OUTER").then(|| "outer".to_owned());
        World::new(folder, Arc::new(env))
    }

    #[test]
    fn the_environment_and_later_files_win() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.env", "# comment\nexport KEY_A='a b'\nBOTH=1\nOUTER=inner\n");
        write("b.env", "BOTH=\"2\"\n");
        let world = world(folder.path()).with_env_files(&["a.env", "b.env"]).unwrap();
        for (name, expected) in
            [("KEY_A", Some("a b")), ("BOTH", Some("2")), ("OUTER", Some("outer")), ("NONE", None)]
        {
            assert_eq!(world.var(name).as_deref(), expected, "{name}");
        }
        let mut names = world.variables.clone();
        names.sort();
        assert_eq!(names, ["BOTH", "KEY_A"]);
    }

    #[test]
    fn errors_do_not_show_the_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".env"), "KEY='sk-not-closed\n").unwrap();
        for (file, expected) in
            [(".env", "cannot read `.env`: a line"), ("none", "cannot read `none`: ")]
        {
            let Err(failure) = world(folder.path()).with_env_files(&[file]) else {
                panic!("{file}");
            };
            let message = failure.message.unwrap();
            assert!(message.starts_with(expected) && !message.contains("sk-"), "{message}");
        }
    }
}
