//! Copies of the database.

use std::fs::{OpenOptions, remove_file};
use std::path::Path;

use super::{Store, StoreError};

/// The reason why a backup was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The database is PostgreSQL, which has its own programs for backups.
    #[error(
        "PostgreSQL makes its own backups: `pg_dump --format=custom --file=kindlm.dump <database>`"
    )]
    Postgres,
    /// The path of the file is not UTF-8, so SQLite cannot open it.
    #[error("cannot create `{0}`: the path is not UTF-8; use another path")]
    Path(String),
    /// The file cannot be created.
    #[error("cannot create `{0}`: {1}")]
    File(String, #[source] std::io::Error),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Copies an SQLite database to a new file, which only this user can read.
    ///
    /// The copy has the state of one moment. Servers may use the database meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - the database is PostgreSQL
    /// - the path is not UTF-8
    /// - the file exists, or cannot be created
    /// - the database fails
    pub async fn back_up(&self, file: &Path) -> Result<(), BackupError> {
        if !self.is_sqlite {
            return Err(BackupError::Postgres);
        }
        // SQLite reads a name that begins with `file:` as a URL, so a relative path gets a `./`.
        let path = if file.is_absolute() { file.to_owned() } else { Path::new(".").join(file) };
        let Some(name) = path.to_str() else {
            return Err(BackupError::Path(file.display().to_string()));
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let failed = |err| BackupError::File(file.display().to_string(), err);
        options.open(file).map_err(failed)?;
        // `VACUUM INTO` accepts the new file, because it is empty.
        let copied = sqlx::query("VACUUM INTO $1").bind(name).execute(&self.pool).await;
        if let Err(err) = copied {
            // An incomplete copy would look like a backup. Return the error of the copy, even if the removal fails too.
            let _ = remove_file(file);
            return Err(StoreError::from(err).into());
        }
        Ok(())
    }
}
