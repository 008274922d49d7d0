//! Which names a template gives a value itself, and where that holds.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::machinery::ast::Expr;

use crate::tree::targets;

/// The variable that loops have.
pub(crate) const LOOP: &str = "loop";

/// What a name is that the template gives a value itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// What a loop gives to it, or a `with`.
    Given,
    /// What it is set to.
    Set,
}

/// What the template gives a value itself, where a walk is.
#[derive(Default)]
pub(crate) struct Scope<'t> {
    /// By the blocks that are open; what is outside of all of them is not among these.
    blocks: Vec<BTreeMap<&'t str, Own>>,
    outside: BTreeMap<&'t str, Own>,
    /// The loops that are open, by how many blocks were open before.
    loops: Vec<usize>,
    /// What is set in a loop and was set outside of it: that is one variable, which the engine would take for several.
    shared: BTreeSet<&'t str>,
}

impl<'t> Scope<'t> {
    /// Outside of everything. These names are one variable, wherever they are set.
    pub(crate) fn sharing(shared: BTreeSet<&'t str>) -> Self {
        Self { shared, ..Self::default() }
    }

    /// What was found to be one variable.
    pub(crate) fn shared(self) -> BTreeSet<&'t str> {
        self.shared
    }

    pub(crate) fn open(&mut self) {
        self.blocks.push(BTreeMap::new());
    }

    pub(crate) fn close(&mut self) {
        self.blocks.pop();
    }

    pub(crate) fn open_loop(&mut self, target: &Expr<'t>) {
        self.loops.push(self.blocks.len());
        self.blocks.push(BTreeMap::from([(LOOP, Own::Given)]));
        self.declare(target, Own::Given);
    }

    pub(crate) fn close_loop(&mut self) {
        self.loops.pop();
        self.close();
    }

    pub(crate) fn is_in_loop(&self) -> bool {
        !self.loops.is_empty()
    }

    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.own(name).is_some()
    }

    /// True if a name is a variable that is set in a loop and outside of it.
    pub(crate) fn is_shared(&self, name: &str) -> bool {
        self.shared.contains(name) && self.own(name).is_some_and(|(_, own)| own == Own::Set)
    }

    /// Notes what has a value from here on.
    pub(crate) fn declare(&mut self, target: &Expr<'t>, own: Own) {
        let mut names = BTreeSet::new();
        targets(target, &mut names);
        let known = self.blocks.last_mut().unwrap_or(&mut self.outside);
        known.extend(names.into_iter().map(|it| (it, own)));
    }

    /// Notes what is set. One variable that is set before a loop and in it is the same one there, as in nunjucks.
    pub(crate) fn set(&mut self, target: &Expr<'t>) {
        let Expr::Var(it) = target else { return self.declare(target, Own::Set) };
        match self.own(it.id) {
            // It is that one which is set.
            Some((_, Own::Given)) => {}
            Some((depth, Own::Set)) => {
                if self.loops.last().is_some_and(|before| depth <= *before) {
                    self.shared.insert(it.id);
                }
                self.declare(target, Own::Set);
            }
            None => self.declare(target, Own::Set),
        }
    }

    /// What a name is here, and in how many blocks that is.
    fn own(&self, name: &str) -> Option<(usize, Own)> {
        let blocks = self.blocks.iter().enumerate().rev().map(|(at, names)| (at + 1, names));
        let mut all = blocks.chain([(0, &self.outside)]);
        all.find_map(|(depth, names)| Some((depth, *names.get(name)?)))
    }
}
