//! Transcripts: conversations that were recorded by another tool.

use std::sync::Arc;

use kindlm_engine::Digest;
use kindlm_providers::transcript::parse_transcript;
use kindlm_source::{Code, Node, Piece};
use kindlm_types::MemberPart;

use super::Builder;
use super::body::{ReadTranscript, SubjectForm};
use crate::load::FILE;

impl Builder<'_> {
    /// Reads a transcript: the value itself, or the file that a `file://` text names.
    ///
    /// Returns `None` after an error, which is reported.
    pub(super) fn transcript(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        node: &Node,
    ) -> Option<SubjectForm> {
        let Some(text) = node.text() else {
            return self.understood(piece, at, node).map(SubjectForm::Transcript);
        };
        let Some(path) = text.strip_prefix(FILE).filter(|it| !it.is_empty()) else {
            // The check of the test's shape has already reported this text.
            return None;
        };
        let read = if let Some(known) = self.transcripts.get(path) {
            known.clone()
        } else {
            let read = self.transcript_file(piece, at, path);
            self.transcripts.insert(path.to_owned(), read.clone());
            read
        };
        read.map(SubjectForm::Transcript)
    }

    fn transcript_file(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        path: &str,
    ) -> Option<ReadTranscript> {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        if ["jsonl", "ndjson"].contains(&extension.to_ascii_lowercase().as_str()) {
            let message =
                format!("`{path}` has a value on each line, and a transcript is one value");
            let help = "write one list of messages; for a file of many transcripts, `tests: file://cases.jsonl` has a test with its `transcript` on each line";
            let diagnostic =
                piece.error(Code::FILE, at, MemberPart::Value, message).with_help(help);
            self.base.sink.push(diagnostic);
            return None;
        }
        let (source, root) = self.base.tree_of(piece, at, path)?;
        self.understood(Piece::new(&source, &root, ""), "", &root)
    }

    fn understood(&mut self, piece: Piece<'_>, at: &str, node: &Node) -> Option<ReadTranscript> {
        let value = node.to_json();
        match parse_transcript(&value) {
            Ok(transcript) => Some(ReadTranscript {
                transcript: Arc::new(transcript),
                digest: Digest::default().value(&value).finish(),
            }),
            Err(problem) => {
                self.base.sink.report(piece, at, vec![problem]);
                None
            }
        }
    }
}
