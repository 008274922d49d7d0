//! `kindlm-server token`: creates, lists and revokes tokens.

use clap::Subcommand;
use kindlm_server::store::tokens::{Scope, Token};
use kindlm_server::store::{Store, StoreError};

/// The commands below `token`.
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Creates a token, and prints it once
    Create {
        /// The name of the client
        name: String,
        /// The permissions, comma-separated: evaluate, ingest, read, admin
        #[arg(long, required = true, value_delimiter = ',', value_parser = scope)]
        scopes: Vec<Scope>,
    },
    /// Lists all tokens, also revoked ones: id, scopes, creation, state, name
    List,
    /// Revokes a token at once
    Revoke {
        /// The id of the token, as `list` prints it
        id: String,
    },
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).ok_or_else(|| "expected evaluate, ingest, read or admin".to_owned())
}

/// Runs a `token` command, and returns its output, or the error message.
pub(crate) async fn run(store: &Store, command: &TokenCommand) -> Result<String, String> {
    let shown = |err: StoreError| err.to_string();
    match command {
        TokenCommand::Create { name, scopes } => {
            store.create_token(name, scopes).await.map_err(shown)
        }
        TokenCommand::List => {
            let tokens = store.tokens().await.map_err(shown)?;
            Ok(tokens.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        TokenCommand::Revoke { id } => {
            if store.revoke_token(id).await.map_err(shown)? {
                Ok(format!("revoked {id}"))
            } else {
                Err(format!("no valid token has the id \"{id}\"; see `token list`"))
            }
        }
    }
}

fn line(Token { id, name, scopes, created_at, revoked_at, .. }: &Token) -> String {
    let scopes: Vec<&str> = scopes.iter().map(|it| it.name()).collect();
    let scopes = scopes.join(",");
    let state =
        revoked_at.as_ref().map_or_else(|| "valid".to_owned(), |at| format!("revoked {at}"));
    format!("{id}\t{scopes}\t{created_at}\t{state}\t{name}")
}
