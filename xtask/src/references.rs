//! Finds the references between the files of a crate.
//!
//! A `use` that is not private re-exports an item: using the re-export counts as using the file that defines the item.
//! A `mod.rs`, `lib.rs` or `main.rs` does not use the items that it re-exports; any other file does. Files in `bin` do
//! not count.
//!
//! Items and methods of an `impl` with `#[cfg(test)]` do not count. Associated constants, functions of a trait, fields
//! and statements count even with `#[cfg(test)]`.
//!
//! `use b::*` counts as a use of `b`, whatever `b` re-exports. The names that come through `*` are not resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemUse, Meta, Token, UseTree, Visibility};

/// The names of a path, from the root of the crate.
pub(crate) type ModulePath = Vec<String>;

/// The files of a crate, by their module paths.
pub(crate) type Modules = BTreeMap<ModulePath, Module>;

/// The references of one file to other files.
#[derive(Default)]
pub(crate) struct Module {
    /// The names that the file re-exports, with the paths of the items.
    re_exports: BTreeMap<String, ModulePath>,
    /// The names that the file imports, with the paths of the items.
    imports: BTreeMap<String, ModulePath>,
    /// The modules whose names the file imports with `*`.
    globs: Vec<ModulePath>,
    /// The paths in the code of the file, as written.
    used: BTreeSet<ModulePath>,
    /// The modules of the file that are only compiled for tests.
    tests: BTreeSet<ModulePath>,
}

/// Reads the references between the files of a crate. Fails if a file cannot be read or parsed.
pub(crate) fn read_modules(src: &Path, files: &[PathBuf]) -> Result<Modules> {
    let mut modules = Modules::new();
    for file in files {
        let inside = file.strip_prefix(src)?.with_extension("");
        let mut path: ModulePath =
            inside.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        let is_facade = matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main"));
        if is_facade {
            path.pop();
        }
        if path.iter().any(|it| it == "bin") {
            continue;
        }
        let text = std::fs::read_to_string(file)?;
        let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        let mut module = Module::default();
        Reader { module: &mut module, path: &path, is_facade }.visit_file(&parsed);
        let known = modules.entry(path).or_default();
        known.re_exports.extend(module.re_exports);
        known.imports.extend(module.imports);
        known.globs.extend(module.globs);
        known.used.extend(module.used);
        known.tests.extend(module.tests);
    }
    let tests: Vec<ModulePath> = modules.values().flat_map(|it| it.tests.iter().cloned()).collect();
    modules.retain(|path, _| !tests.iter().any(|it| path.starts_with(it)));
    Ok(modules)
}

/// Returns the files whose items a file uses. The items that the file only re-exports do not count.
pub(crate) fn used(modules: &Modules, path: &ModulePath) -> Vec<ModulePath> {
    let Some(module) = modules.get(path) else { return Vec::new() };
    let imported = module.imports.values().cloned();
    let used = module.used.iter().filter_map(|it| absolute(modules, path, it));
    let items = imported.chain(used).filter_map(|it| defining(modules, &it, 0));
    let globs = module.globs.iter().filter(|it| modules.contains_key(*it)).cloned();
    items.chain(globs).collect()
}

/// Returns the files whose items a file re-exports.
pub(crate) fn re_exported(modules: &Modules, path: &ModulePath) -> Vec<ModulePath> {
    let Some(module) = modules.get(path) else { return Vec::new() };
    module.re_exports.values().filter_map(|it| defining(modules, it, 0)).collect()
}

/// Resolves a path in the code of a module, relative to the root of the crate.
///
/// Returns `None` if the path leads out of the crate.
fn absolute(modules: &Modules, from: &ModulePath, written: &ModulePath) -> Option<ModulePath> {
    let first = written.first()?;
    if matches!(first.as_str(), "crate" | "self" | "super") {
        return rooted(from, written);
    }
    let child: ModulePath = from.iter().chain([first]).cloned().collect();
    let module = modules.get(from)?;
    let start = match module.imports.get(first) {
        Some(import) => import.clone(),
        None if modules.contains_key(&child) => child,
        None => module.re_exports.get(first)?.clone(),
    };
    Some(start.into_iter().chain(written.iter().skip(1).cloned()).collect())
}

/// Resolves a path that begins with `crate`, `self` or `super`, relative to the root of the crate. A path without one
/// of these words is relative to `from`. Returns `None` for an empty path.
fn rooted(from: &ModulePath, written: &ModulePath) -> Option<ModulePath> {
    let mut base = match written.first()?.as_str() {
        "crate" => Vec::new(),
        _ => from.clone(),
    };
    let mut rest = written.iter().peekable();
    while let Some(word) = rest.next_if(|it| matches!(it.as_str(), "crate" | "self" | "super")) {
        if word == "super" {
            base.pop();
        }
    }
    base.extend(rest.cloned());
    Some(base)
}

/// Returns the module whose file defines an item. Follows re-exports and imports of the item, or of a module in its
/// path.
///
/// Returns `None` if the path names a module, not an item.
fn defining(modules: &Modules, path: &ModulePath, depth: usize) -> Option<ModulePath> {
    /// The maximum number of re-exports and imports that are followed.
    const DEEPEST: usize = 16;
    let length = (0..=path.len()).rev().find(|it| modules.contains_key(&path[..*it]))?;
    let (name, rest) = path.get(length..)?.split_first()?;
    let module = modules.get(&path[..length])?;
    match module.re_exports.get(name).or_else(|| module.imports.get(name)) {
        Some(behind) if depth < DEEPEST => {
            let behind: ModulePath = behind.iter().chain(rest).cloned().collect();
            defining(modules, &behind, depth + 1)
        }
        _ => Some(path[..length].to_vec()),
    }
}

/// A visitor that records the references of one file in a [`Module`].
struct Reader<'a> {
    module: &'a mut Module,
    path: &'a ModulePath,
    is_facade: bool,
}

impl Reader<'_> {
    fn import(&mut self, tree: &UseTree, before: &ModulePath, is_re_export: bool) {
        let join = |name: &syn::Ident| {
            let mut path = before.clone();
            path.push(name.to_string());
            path
        };
        match tree {
            UseTree::Path(it) => self.import(&it.tree, &join(&it.ident), is_re_export),
            UseTree::Group(it) => {
                it.items.iter().for_each(|it| self.import(it, before, is_re_export));
            }
            UseTree::Name(it) if it.ident == "self" => {
                let name = before.last().cloned().unwrap_or_default();
                self.name(name, before, is_re_export);
            }
            UseTree::Name(it) => self.name(it.ident.to_string(), &join(&it.ident), is_re_export),
            UseTree::Rename(it) => self.name(it.rename.to_string(), &join(&it.ident), is_re_export),
            UseTree::Glob(_) => self.module.globs.extend(rooted(self.path, before)),
        }
    }

    fn name(&mut self, name: String, written: &ModulePath, is_re_export: bool) {
        let first = written.first().map(String::as_str);
        let is_rooted = matches!(first, Some("crate" | "self" | "super"));
        let path = if is_rooted { rooted(self.path, written) } else { None };
        if is_re_export {
            // A path without `crate`, `self` or `super` begins in this module. A path in another crate resolves to this
            // module, which is harmless.
            let begins_here = || self.path.iter().chain(written).cloned().collect();
            let path = path.clone().unwrap_or_else(begins_here);
            self.module.re_exports.insert(name.clone(), path);
            if self.is_facade {
                return;
            }
        }
        if let Some(path) = path {
            self.module.imports.insert(name, path);
        } else if !written.is_empty() {
            self.module.used.insert(written.clone());
        }
    }
}

impl Reader<'_> {
    /// Records the paths in the arguments of a macro: names with `::` between them.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = ModulePath::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if path.is_empty() || colons == 2 => {
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(it) if it.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.macro_path(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(name) => path.push(name.to_string()),
                        TokenTree::Group(it) => self.tokens(it.stream()),
                        TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                    }
                }
            }
        }
        self.macro_path(path);
    }

    fn macro_path(&mut self, path: ModulePath) {
        if path.len() > 1 {
            self.module.used.insert(path);
        }
    }
}

/// Returns the attributes of an item; none for syntax that stable Rust does not have.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::ExternCrate(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::ForeignMod(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg") && it.parse_args::<Meta>().is_ok_and(|it| needs_test(&it))
    })
}

/// Returns true if a condition of `cfg` holds only in tests.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|it| it.iter().any(needs_test)),
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            if let Item::Mod(it) = item {
                let path = self.path.iter().cloned().chain([it.ident.to_string()]);
                self.module.tests.insert(path.collect());
            }
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, it: &'ast ImplItemFn) {
        if !is_for_tests(&it.attrs) {
            visit::visit_impl_item_fn(self, it);
        }
    }

    fn visit_item_use(&mut self, it: &'ast ItemUse) {
        let is_re_export = !matches!(it.vis, Visibility::Inherited);
        self.import(&it.tree, &Vec::new(), is_re_export);
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.tokens(it.tokens.clone());
        visit::visit_macro(self, it);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: ModulePath = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if words.len() > 1 {
            self.module.used.insert(words);
        }
        visit::visit_path(self, path);
    }
}
