//! The names that a template defines itself, and their scopes.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::machinery::ast::Expr;

use crate::tree::targets;

/// The variable that the engine defines in loops.
pub(crate) const LOOP: &str = "loop";

/// The way in which a template defines a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// A loop or `with` block defines the name.
    Given,
    /// `set` defines the name.
    Set,
}

/// The names that are defined at the current position in the syntax tree.
#[derive(Default)]
pub(crate) struct Scope<'t> {
    /// The names of each open block. `outside` has the names outside of all blocks.
    blocks: Vec<BTreeMap<&'t str, Binding>>,
    outside: BTreeMap<&'t str, Binding>,
    /// For each open loop, the number of blocks around it.
    loops: Vec<usize>,
    /// The names that are set before a loop and changed in the loop. nunjucks has one variable for such a name, but the
    /// engine would have two variables.
    shared: BTreeSet<&'t str>,
}

impl<'t> Scope<'t> {
    /// Creates the outermost scope. The `shared` names have one variable in all blocks.
    pub(crate) fn sharing(shared: BTreeSet<&'t str>) -> Self {
        Self { shared, ..Self::default() }
    }

    /// Returns the names that have one variable in all blocks.
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
        self.blocks.push(BTreeMap::from([(LOOP, Binding::Given)]));
        self.declare(target, Binding::Given);
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

    /// Returns true for a shared name that a `set` defines at this position, and not a loop or `with` block.
    pub(crate) fn is_shared(&self, name: &str) -> bool {
        self.shared.contains(name) && self.own(name).is_some_and(|(_, own)| own == Binding::Set)
    }

    /// Defines the names of an assignment target in the current block.
    pub(crate) fn declare(&mut self, target: &Expr<'t>, own: Binding) {
        let mut names = BTreeSet::new();
        targets(target, &mut names);
        let known = self.blocks.last_mut().unwrap_or(&mut self.outside);
        known.extend(names.into_iter().map(|it| (it, own)));
    }

    /// Records a `set` statement. As in nunjucks, `set` in a loop changes the variable that was set before the loop.
    pub(crate) fn set(&mut self, target: &Expr<'t>) {
        let Expr::Var(it) = target else { return self.declare(target, Binding::Set) };
        match self.own(it.id) {
            // The `set` changes the existing variable of the loop or `with` block.
            Some((_, Binding::Given)) => {}
            Some((depth, Binding::Set)) => {
                if self.loops.last().is_some_and(|before| depth <= *before) {
                    self.shared.insert(it.id);
                }
                self.declare(target, Binding::Set);
            }
            None => self.declare(target, Binding::Set),
        }
    }

    /// Returns the depth and the kind of a name's definition; `None` if the template does not define the name here.
    ///
    /// The depth is the number of blocks that were open at the definition.
    fn own(&self, name: &str) -> Option<(usize, Binding)> {
        let blocks = self.blocks.iter().enumerate().rev().map(|(at, names)| (at + 1, names));
        let mut all = blocks.chain([(0, &self.outside)]);
        all.find_map(|(depth, names)| Some((depth, *names.get(name)?)))
    }
}
