//! The tables and columns that SQL statements touch, with the action on each.
//!
//! The notation is `select::database::table` and `update::table::column`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, Insert, ObjectName, OnConflict, OnConflictAction,
    OnInsert, OrderByExpr, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement,
    TableFactor, TableObject, Visit, Visitor,
};

/// The placeholder for a database or a table that is not named.
const UNNAMED: &str = "null";

/// The placeholder for all columns, or for unknown tables.
const ALL: &str = "(.*)";

/// The tables and columns that the statements touch, sorted and without duplicates.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Touched {
    pub(super) tables: Vec<String>,
    pub(super) columns: Vec<String>,
}

/// Returns the tables and columns that the statements touch.
///
/// Names that cannot be resolved are included, so that they are not allowed by mistake.
pub(super) fn touched(statements: &[Statement]) -> Touched {
    let (mut tables, mut columns) = (BTreeSet::new(), BTreeSet::new());
    for statement in statements {
        let mut reader = Reader { action: action(statement), ..Reader::default() };
        let ControlFlow::Continue(()) = statement.visit(&mut reader) else { continue };
        reader.changed(statement);
        if reader.action != SELECT && !reader.tables.iter().any(|it| it.0 == reader.action) {
            tables.insert(format!("{}::{UNNAMED}::{ALL}", reader.action));
        }
        tables.extend(
            reader.tables.iter().map(|(does, base, table)| format!("{does}::{base}::{table}")),
        );
        columns.extend(reader.named_columns());
    }
    Touched { tables: tables.into_iter().collect(), columns: columns.into_iter().collect() }
}

const SELECT: &str = "select";

/// Returns the action of a statement: `select` for every query, otherwise the first word, such as `update`.
fn action(statement: &Statement) -> String {
    match statement {
        Statement::Query(_) => SELECT.to_owned(),
        Statement::Insert(Insert { replace_into: true, .. }) => "replace".to_owned(),
        other => {
            let text = other.to_string();
            let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
            word.to_lowercase()
        }
    }
}

/// The tables that the `WITH` of a query defines.
///
/// `hides` is for a query that defines a table of an outer `WITH`. In this query, that table and all later tables of
/// the outer `WITH` are not visible.
#[derive(Debug, Default)]
struct Scope {
    defines: BTreeSet<String>,
    hides: BTreeSet<String>,
}

/// A visitor that collects the tables and columns that one statement touches.
#[derive(Debug, Default)]
struct Reader {
    action: String,
    /// The scopes of the queries around the visited place, outermost first.
    scopes: Vec<Scope>,
    /// The value of `Scope::hides` for each query that is not visited yet, by the address of the query.
    hides: BTreeMap<usize, BTreeSet<String>>,
    /// The number of `ORDER BY` clauses around the visited place.
    ordering: usize,
    /// The aliases of result columns, which `ORDER BY` may use.
    results: BTreeSet<String>,
    /// The touched tables: action, database, table.
    tables: BTreeSet<(String, String, String)>,
    /// The tables that each name refers to. A name is a table's own name or an alias.
    names: BTreeMap<String, BTreeSet<String>>,
    /// The names of subqueries. Their columns are collected inside the subqueries.
    derived: BTreeSet<String>,
    /// The touched columns: action, table name, column.
    columns: BTreeSet<(String, Option<String>, String)>,
}

impl Reader {
    /// Returns true if a `WITH` around this place defines the name.
    fn is_defined(&self, name: &str) -> bool {
        let mut hidden = &BTreeSet::new();
        for scope in self.scopes.iter().rev() {
            if scope.defines.contains(name) && !hidden.contains(name) {
                return true;
            }
            hidden = &scope.hides;
        }
        false
    }

    fn column(&mut self, action: &str, table: Option<&Ident>, column: &str) {
        let table = table.map(|it| it.value.clone());
        self.columns.insert((action.to_owned(), table, column.to_owned()));
    }

    /// Adds the columns that a statement writes.
    fn changed(&mut self, statement: &Statement) {
        let targets: Vec<&ObjectName> = match statement {
            Statement::Update(update) => update.assignments.iter().flat_map(assigned).collect(),
            Statement::Insert(insert) => {
                insert.assignments.iter().flat_map(assigned).chain(&insert.columns).collect()
            }
            _ => Vec::new(),
        };
        let updated = match statement {
            Statement::Insert(insert) => upserted(insert),
            _ => &[],
        };
        let whole = targets.is_empty() && self.action != SELECT;
        let targets = targets.into_iter().chain(updated.iter().flat_map(assigned));
        let names: Vec<String> = targets.map(last).collect();
        let tables = self.tables.iter().filter(|it| it.0 == self.action);
        let tables: Vec<String> = tables.map(|it| it.2.clone()).collect();
        for table in tables {
            let columns = names.iter().map(String::as_str).chain(whole.then_some(ALL));
            for column in columns {
                self.columns.insert((self.action.clone(), Some(table.clone()), column.to_owned()));
            }
        }
    }

    /// Returns the columns in this module's notation, with tables instead of aliases.
    ///
    /// Columns of subqueries with a name are left out, because the columns inside the subqueries are collected.
    fn named_columns(&self) -> Vec<String> {
        let mut named = Vec::new();
        for (action, table, column) in &self.columns {
            let Some(table) = table else {
                named.push(format!("{action}::{UNNAMED}::{column}"));
                continue;
            };
            match self.names.get(table) {
                Some(tables) => {
                    named.extend(tables.iter().map(|it| format!("{action}::{it}::{column}")));
                }
                None if self.derived.contains(table) => {}
                None => named.push(format!("{action}::{table}::{column}")),
            }
        }
        named
    }
}

/// Returns the columns that an assignment writes.
fn assigned(assignment: &Assignment) -> &[ObjectName] {
    match &assignment.target {
        AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
        AssignmentTarget::Tuple(names) => names,
    }
}

/// Returns the assignments to a row that exists already, such as those of `ON DUPLICATE KEY UPDATE`.
fn upserted(insert: &Insert) -> &[Assignment] {
    match &insert.on {
        Some(OnInsert::DuplicateKeyUpdate(assignments)) => assignments,
        Some(OnInsert::OnConflict(OnConflict {
            action: OnConflictAction::DoUpdate(update),
            ..
        })) => &update.assignments,
        _ => &[],
    }
}

/// Returns the last part of a name.
fn last(name: &ObjectName) -> String {
    let last = name.0.last();
    last.and_then(|it| it.as_ident()).map_or_else(|| name.to_string(), |it| it.value.clone())
}

impl Visitor for Reader {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let address = std::ptr::from_ref(query).addr();
        let mut scope =
            Scope { hides: self.hides.remove(&address).unwrap_or_default(), ..Scope::default() };
        if let Some(with) = &query.with {
            let mut later = BTreeSet::new();
            for table in with.cte_tables.iter().rev() {
                let name = table.alias.name.value.clone();
                later.insert(name.clone());
                if !with.recursive {
                    let body = std::ptr::from_ref(table.query.as_ref()).addr();
                    self.hides.insert(body, later.clone());
                }
                self.derived.insert(name.clone());
                scope.defines.insert(name);
            }
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let table = last(relation);
        if relation.0.len() == 1 && self.is_defined(&table) {
            return ControlFlow::Continue(());
        }
        let before = &relation.0[..relation.0.len().saturating_sub(1)];
        let base: Vec<String> = before
            .iter()
            .map(|it| it.as_ident().map_or_else(|| it.to_string(), |it| it.value.clone()))
            .collect();
        let base = if base.is_empty() { UNNAMED.to_owned() } else { base.join(".") };
        let action = if self.scopes.is_empty() { self.action.clone() } else { SELECT.to_owned() };
        self.names.entry(table.clone()).or_default().insert(table.clone());
        self.tables.insert((action, base, table));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias: Some(alias), .. } => {
                let (alias, table) = (alias.name.value.clone(), last(name));
                if name.0.len() == 1 && self.is_defined(&table) {
                    self.derived.insert(alias);
                } else {
                    self.names.entry(alias).or_default().insert(table);
                }
            }
            TableFactor::Derived { alias: Some(alias), .. } => {
                self.derived.insert(alias.name.value.clone());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        if let Statement::Insert(Insert {
            table: TableObject::TableName(name),
            table_alias: Some(alias),
            ..
        }) = statement
        {
            self.names.entry(alias.alias.value.clone()).or_default().insert(last(name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => self.column(SELECT, None, ALL),
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let table = last(name);
                    self.columns.insert((SELECT.to_owned(), Some(table), ALL.to_owned()));
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    self.results.insert(alias.value.clone());
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_order_by_expr(&mut self, _expr: &OrderByExpr) -> ControlFlow<()> {
        self.ordering += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_order_by_expr(&mut self, _expr: &OrderByExpr) -> ControlFlow<()> {
        self.ordering -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) if self.ordering == 0 || !self.results.contains(&name.value) => {
                self.column(SELECT, None, &name.value);
            }
            Expr::CompoundIdentifier(parts) => {
                if let [.., table, column] = parts.as_slice() {
                    self.column(SELECT, Some(table), &column.value);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::MySqlDialect;
    use sqlparser::parser::Parser;

    #[test]
    fn tables_and_columns_are_listed_with_their_operation() {
        for (sql, tables, columns) in [
            ("SELECT a FROM t", "select::null::t", "select::null::a"),
            ("SELECT * FROM db.t", "select::db::t", "select::null::(.*)"),
            ("SELECT x.a FROM t x", "select::null::t", "select::t::a"),
            ("SELECT x.* FROM t AS x", "select::null::t", "select::t::(.*)"),
            (
                "SELECT u.a AS z FROM u JOIN v ON u.i = v.i ORDER BY z",
                "select::null::u select::null::v",
                "select::u::a select::u::i select::v::i",
            ),
            (
                "SELECT a FROM t WHERE b IN (SELECT c FROM s)",
                "select::null::s select::null::t",
                "select::null::a select::null::b select::null::c",
            ),
            ("WITH w AS (SELECT a FROM t) SELECT a FROM w", "select::null::t", "select::null::a"),
            ("WITH t AS (SELECT a FROM t) SELECT a FROM t", "select::null::t", "select::null::a"),
            ("SELECT s.a FROM (SELECT a FROM t) s", "select::null::t", "select::null::a"),
            ("INSERT INTO t (a, b) VALUES (1, 2)", "insert::null::t", "insert::t::a insert::t::b"),
            (
                "INSERT INTO t SELECT a FROM s",
                "insert::null::t select::null::s",
                "insert::t::(.*) select::null::a",
            ),
            (
                "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE b = 2",
                "insert::null::t",
                "insert::t::a insert::t::b",
            ),
            (
                "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 2",
                "insert::null::t",
                "insert::t::a insert::t::b",
            ),
            ("UPDATE t SET a = 1 WHERE b = 2", "update::null::t", "select::null::b update::t::a"),
            ("DELETE FROM t WHERE a = 1", "delete::null::t", "delete::t::(.*) select::null::a"),
            ("DROP TABLE t", "drop::null::(.*)", ""),
        ] {
            let statements = Parser::parse_sql(&MySqlDialect {}, sql).unwrap();
            let touched = touched(&statements);
            assert_eq!(
                (touched.tables.join(" "), touched.columns.join(" ")),
                (tables.to_owned(), columns.to_owned()),
                "{sql}"
            );
        }
    }
}
