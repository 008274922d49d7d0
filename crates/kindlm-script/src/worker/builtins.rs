//! The built-in modules: small JavaScript versions of the Node modules that scripts use.

/// The names and sources, sorted by name. Some modules only define globals and do not exist in Node.
const BUILTINS: [(&str, &str); 17] = [
    ("assert", include_str!("../js/assert.js")),
    ("assert/strict", include_str!("../js/assert_strict.js")),
    ("buffer", include_str!("../js/buffer.js")),
    ("clone", include_str!("../js/clone.js")),
    ("crypto", include_str!("../js/crypto.js")),
    ("encoding", include_str!("../js/encoding.js")),
    ("fs", include_str!("../js/fs.js")),
    ("fs/promises", include_str!("../js/fs_promises.js")),
    ("path", include_str!("../js/path.js")),
    ("path/posix", include_str!("../js/path.js")),
    ("process", include_str!("../js/process.js")),
    ("querystring", include_str!("../js/querystring.js")),
    ("timers", include_str!("../js/timers.js")),
    ("timers/promises", include_str!("../js/timers_promises.js")),
    ("url", include_str!("../js/url.js")),
    ("util", include_str!("../js/util.js")),
    ("web", include_str!("../js/web.js")),
];

/// Returns the name of a built-in module that scripts may import, without `node:`. Returns `None` for any other name.
pub(crate) fn public(specifier: &str) -> Option<&'static str> {
    find(specifier).filter(|name| !HIDDEN.contains(name))
}

/// Returns the name of any built-in module, without `node:`. Returns `None` for any other name.
pub(crate) fn find(specifier: &str) -> Option<&'static str> {
    let name = specifier.strip_prefix("node:").unwrap_or(specifier);
    BUILTINS.iter().find(|(known, _)| *known == name).map(|(known, _)| *known)
}

/// Returns the source of a built-in module; empty for an unknown name.
pub(crate) fn source(name: &str) -> &'static str {
    BUILTINS.iter().find(|(known, _)| *known == name).map_or("", |(_, source)| source)
}

/// Returns the names of the modules that scripts may import, for error messages.
pub(crate) fn names() -> String {
    let names = BUILTINS.iter().map(|(name, _)| *name);
    names.filter(|name| !HIDDEN.contains(name)).collect::<Vec<_>>().join(", ")
}

/// The built-in modules that only define globals.
const HIDDEN: [&str; 3] = ["clone", "encoding", "web"];
