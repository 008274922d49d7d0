//! Messages with images, sounds and files.

use kindlm_engine::{Digest, Fingerprint};
use kindlm_source::{Code, Diagnostic, Piece};
use kindlm_types::{MediaKind, MemberPart, pointer};
use serde_json::{Map, Value};

use super::Builder;
use super::body::SubjectForm;
use crate::load::media::{MediaFiles, variable_path};
use crate::load::resolve::{ContentForm, Opening, PartKind, Prompt, PromptPart};
use crate::template::Form;

impl Builder<'_> {
    /// Reads the images, sounds and files that a prompt uses in a test.
    ///
    /// Reports unusable files. Also reports variables with a file if the model would get the path instead of the file.
    pub(super) fn load_media(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        test: &Value,
        prompt: &Prompt,
        vars: &Map<String, Value>,
    ) {
        for part in &prompt.parts {
            let (PartKind::Media(kind), false) = (part.kind, part.template.is_fixed()) else {
                continue;
            };
            // The check of the variables reports templates that cannot be rendered.
            let form = part.template.form(self.base.around.env, None);
            let Some(reference) = form.ok().and_then(|it| it.fill(vars).ok()) else { continue };
            let loaded = self.base.media.load(self.base.around.files, kind, &reference);
            if let Err(err) = loaded {
                let (message, help) = err.in_words();
                self.report_media(piece, at, (part, &reference), vars, message, help);
            }
        }
        let inserts = prompt.opening.inserts_data();
        let is_named = |(_, it): &(&String, &Value)| it.as_str().and_then(variable_path).is_some();
        for (name, value) in vars.iter().filter(is_named) {
            let place = format!("{at}/vars/{}", pointer::segment(name));
            let reference = value.as_str().unwrap_or_default();
            let loaded = inserts
                .then(|| self.base.media.load(self.base.around.files, MediaKind::File, reference));
            if let Some(Err(err)) = loaded {
                let (message, help) = err.in_words();
                let diagnostic = piece.error(Code::FILE, &place, MemberPart::Value, message);
                self.base.sink.push(diagnostic.with_help(help));
            } else if self.base.around.is_translated {
                self.check_program(piece, &place, test, name);
            }
        }
    }

    /// Reports an unusable file at the variable with its path, or else at the part of the prompt.
    fn report_media(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        (part, reference): (&PromptPart, &str),
        vars: &Map<String, Value>,
        message: String,
        help: &str,
    ) {
        let is_whole = |it: &&String| vars.get(*it).and_then(Value::as_str) == Some(reference);
        let at_part = part.source.first_line(part.span);
        let diagnostic = if let Some(name) = vars.keys().find(is_whole) {
            let at = format!("{at}/vars/{}", pointer::segment(name));
            let diagnostic = piece.error(Code::FILE, &at, MemberPart::Value, message);
            diagnostic.with_related(&part.source, at_part, "used here")
        } else {
            Diagnostic::error(Code::FILE, message, &part.source, at_part)
        };
        self.base.sink.push(diagnostic.with_help(help));
    }

    /// Reports an image or sound variable of a promptfoo config, if a model of the test receives the variables.
    ///
    /// promptfoo passes the data of the file to such models, but KindLM would pass the path.
    fn check_program(&mut self, piece: Piece<'_>, place: &str, test: &Value, name: &str) {
        let named = test.get("models").and_then(Value::as_array);
        let is_run = |id: &str| named.is_none_or(|all| all.iter().any(|it| it == id));
        let mut models = self.base.suite.models.iter();
        let Some(model) =
            models.find(|it| it.tells_vars && it.provider != "echo" && is_run(&it.id))
        else {
            return;
        };
        let message = format!(
            "the variable `{name}` is a file that is not text, and `{}` gets the variables of a test",
            model.id
        );
        let help = "use a model of a vendor, or give this provider an address of the file";
        let diagnostic = piece.error(Code::INVALID_VALUE, place, MemberPart::Value, message);
        self.base.sink.push(diagnostic.with_help(help));
    }

    /// Adds the files of a prompt to the digest of a test. Without files, the digest stays the same.
    ///
    /// With `is_task`, leaves out the files that the prompt names without a variable.
    pub(super) fn with_media(
        &self,
        digest: Fingerprint,
        subject: &SubjectForm,
        vars: &Value,
        is_task: bool,
    ) -> Fingerprint {
        let SubjectForm::Prompt(opening) = subject else { return digest };
        let none = Map::new();
        let media = &self.base.media;
        let of_prompt = if is_task { digests(opening, &none, media) } else { Vec::new() };
        let mut all = digests(opening, vars.as_object().unwrap_or(&none), media);
        all.retain(|it| !of_prompt.contains(it));
        if all.is_empty() {
            return digest;
        }
        let digest = Digest::default().fingerprint(digest);
        all.iter().fold(digest, |digest, it| digest.text(it)).finish()
    }
}

/// Returns the SHA-256 of the files that a prompt uses with these variables.
fn digests(opening: &Opening, vars: &Map<String, Value>, media: &MediaFiles) -> Vec<String> {
    let parts = opening.parts.iter().flat_map(|(_, content)| match content {
        ContentForm::Text(_) => &[][..],
        ContentForm::Parts(parts) => parts,
    });
    let of_part = |(kind, form): &(PartKind, Form)| {
        let PartKind::Media(kind) = kind else { return None };
        media.get(*kind, &form.fill(vars).ok()?).ok()?.sha256
    };
    let inserts = opening.inserts_data();
    let named = vars.values().filter_map(Value::as_str).filter(|_| inserts);
    let named = named.filter(|it| variable_path(it).is_some());
    let of_variable = named.filter_map(|it| media.get(MediaKind::File, it).ok()?.sha256);
    parts.filter_map(of_part).chain(of_variable).collect()
}
