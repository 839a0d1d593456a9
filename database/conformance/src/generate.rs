//! Random statements, mostly valid, over a small world of names and values so that they meet.
//!
//! Left out on purpose: VACUUM (SQLite's may renumber rows, ours does nothing), the PRAGMAs that answer differently
//! (`docs/sql.md` lists them), and anything that depends on time or chance.

mod catalog;
mod change;
mod definition;
mod expression;
mod query;

pub(crate) use catalog::{Catalog, schemas};

use crate::random::Random;
use catalog::{Kind, Relation};

/// More relations than this are not made.
const RELATIONS: usize = 8;
/// Values a table may gather before rows are deleted from it again: joins of three tables stay fast.
const ROWS: usize = 25;

/// Draws statements that fit the catalog it has learned last.
pub(crate) struct Generator {
    random: Random,
    catalog: Catalog,
    aliases: usize,
}

/// What an expression can name.
pub(crate) struct Scope {
    columns: Vec<String>,
    subqueries: bool,
}

impl Generator {
    /// A generator whose statements follow from `seed` and from what it learns.
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), catalog: Catalog::default(), aliases: 0 }
    }

    /// From now on statements are about these relations.
    pub(crate) fn learn(&mut self, catalog: Catalog) {
        self.catalog = catalog;
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.random.one_in(n)
    }

    /// The next statement.
    pub(crate) fn statement(&mut self) -> String {
        self.aliases = 0;
        let tables = self.catalog.relations.len();
        if tables < 2 {
            return self.create_table();
        }
        match self.random.weighted(&[34, 44, 8, 12, 3]) {
            0 => self.query(),
            1 => self.change(),
            2 => self.definition(),
            3 => self.transaction(),
            _ => self.maintenance(),
        }
    }

    fn transaction(&mut self) -> String {
        let name = self.random.pick(&["s", "s", "u"]);
        match self.random.weighted(&[22, 16, 6, 20, 12, 14]) {
            0 => {
                let kind = self.random.pick(&["", "", "", " IMMEDIATE", " DEFERRED", " EXCLUSIVE"]);
                format!("BEGIN{kind}")
            }
            1 => "COMMIT".into(),
            2 => "ROLLBACK".into(),
            3 => format!("SAVEPOINT {name}"),
            4 => format!("ROLLBACK TO {name}"),
            _ => format!("RELEASE {name}"),
        }
    }

    fn maintenance(&mut self) -> String {
        let relation = self.any_relation();
        let path = relation.as_ref().map_or_else(|| "nothing".into(), Relation::path);
        let name = relation.map_or_else(|| "nothing".into(), |relation| relation.name);
        match self.random.below(12) {
            0 => "ANALYZE".into(),
            1 => format!("ANALYZE {path}"),
            2 => "REINDEX".into(),
            3 => format!("REINDEX {path}"),
            4 => format!("PRAGMA foreign_keys = {}", self.random.below(2)),
            5 => format!("PRAGMA recursive_triggers = {}", self.random.below(2)),
            6 => "PRAGMA foreign_key_check".into(),
            7 => "PRAGMA integrity_check".into(),
            8 => format!("PRAGMA table_xinfo({name})"),
            9 => format!("PRAGMA index_list({name})"),
            10 => format!("PRAGMA user_version = {}", self.random.below(9)),
            _ => "PRAGMA user_version".into(),
        }
    }

    fn any_relation(&mut self) -> Option<Relation> {
        self.random.choose(&self.catalog.relations).cloned()
    }

    fn any_table(&mut self) -> Option<Relation> {
        let is_table = |relation: &&Relation| matches!(relation.kind, Kind::Rowid | Kind::WithoutRowid);
        let tables: Vec<Relation> = self.catalog.relations.iter().filter(is_table).cloned().collect();
        self.random.choose(&tables).cloned()
    }

    /// Its columns, by their names alone.
    fn scope_of(relation: &Relation, subqueries: bool) -> Scope {
        Scope { columns: relation.columns.iter().map(|column| column.name.clone()).collect(), subqueries }
    }
}
