//! The built-in modules: small ones of our own, in JavaScript, for the parts of Node that scripts use.

/// Name and source, sorted by name. Some have no name in Node; they hold globals.
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

/// The name of a built-in module that scripts may ask for, without `node:`.
pub(crate) fn public(specifier: &str) -> Option<&'static str> {
    find(specifier).filter(|name| !HIDDEN.contains(name))
}

/// The name of any built-in module, without `node:`.
pub(crate) fn find(specifier: &str) -> Option<&'static str> {
    let name = specifier.strip_prefix("node:").unwrap_or(specifier);
    BUILTINS.iter().find(|(known, _)| *known == name).map(|(known, _)| *known)
}

/// The source of a built-in module.
pub(crate) fn source(name: &str) -> &'static str {
    BUILTINS.iter().find(|(known, _)| *known == name).map_or("", |(_, source)| source)
}

/// The built-in modules that `require` and `import` find, for messages.
pub(crate) fn names() -> String {
    let names = BUILTINS.iter().map(|(name, _)| *name);
    names.filter(|name| !HIDDEN.contains(name)).collect::<Vec<_>>().join(", ")
}

/// Built-in modules that only hold globals.
const HIDDEN: [&str; 3] = ["clone", "encoding", "web"];
