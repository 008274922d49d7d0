//! Tools of Google: functions, and tools that Google runs itself.

use kindlm_source::{Key, Node};

use super::Translator;
use super::build::list;
use super::settings::Settings;

impl Translator<'_> {
    /// Divides the tools into functions, which are tools of the tests, and tools that Google runs, such as
    /// `google_search`.
    pub(super) fn google_tools(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let Some(value) = self.in_place(value) else { return };
        let (mut functions, mut hosted) = (Vec::new(), Vec::new());
        for item in value.items() {
            let declared = ["functionDeclarations", "function_declarations"]
                .into_iter()
                .find_map(|it| item.get(it));
            match declared {
                Some(declared) => functions.extend(declared.items().iter().cloned()),
                None if item.get("name").is_some() || item.get("function").is_some() => {
                    functions.push(item.clone());
                }
                None => hosted.push(item.clone()),
            }
        }
        if !functions.is_empty() {
            settings.tools = self.tools(&list(value.span, functions));
        }
        let hosted = (!hosted.is_empty()).then(|| list(value.span, hosted));
        let hosted = hosted.and_then(|it| self.without_templates(key, &it));
        settings.provider.extend(hosted.map(|it| ("hostedTools", it)));
    }
}
