//! Random statements, mostly valid, over a small world of names and values so that they meet.
//!
//! Left out on purpose: VACUUM (SQLite's may renumber rows, ours does nothing), the PRAGMAs that answer differently
//! (`docs/sql.md` lists them), `optimize` and `analysis_limit` (they go by an estimate of a table's size, which is exact
//! here), and anything that depends on time or chance.

mod catalog;
mod change;
mod definition;
mod expression;
mod query;
mod step;

pub(crate) use catalog::{Catalog, contents, schemas};
pub use step::Step;

use catalog::{Kind, Relation};
use fulmar_node::Random;

/// More relations than this are not made.
const RELATIONS: usize = 8;

/// Draws statements that fit the catalog it has learned last.
pub(crate) struct Generator {
    random: Random,
    catalog: Catalog,
    aliases: usize,
    /// Rows a table may gather before some are deleted from it again.
    rows: usize,
}

/// What an expression can name.
pub(crate) struct Scope {
    columns: Vec<String>,
    subqueries: bool,
}

impl Generator {
    /// A generator whose statements follow from `seed` and from what it learns. Tables keep to some `rows` rows.
    pub(crate) fn new(seed: u64, rows: usize) -> Self {
        Self { random: Random::new(seed), catalog: Catalog::default(), aliases: 0, rows }
    }

    /// From now on statements are about these relations.
    pub(crate) fn learn(&mut self, catalog: Catalog) {
        self.catalog = catalog;
    }

    /// The next step of a script.
    pub(crate) fn step(&mut self) -> Step {
        match self.random.weighted(&[400, 40, 7, 6, 5, 2]) {
            1 => self.during(),
            2 => Step::Compare,
            3 => Step::Reopen,
            4 => Step::Attach,
            5 => Step::Sql("DETACH aux".into()),
            _ => Step::Sql(self.statement()),
        }
    }

    /// A query, and a statement that is likely to change what it still has to read.
    ///
    /// Only scans of a table by rowid meet changes of rows: in a scan of an index or WITHOUT ROWID table, SQLite does not
    /// define whether a row that is written again is seen again, and its own storage goes by columns outside the key.
    fn during(&mut self) -> Step {
        self.aliases = 0;
        let rows = 1 + self.random.index(5);
        let Some(table) = self.any_table() else { return Step::Sql(self.statement()) };
        if table.kind == Kind::WithoutRowid || self.random.one_in(3) {
            let query = self.query();
            let change = if self.random.one_in(2) { self.transaction() } else { self.definition() };
            return Step::During { query, rows, change };
        }
        let path = table.path();
        let filter = self.condition(&Self::scope_of(&table, false), 1);
        let query = match self.random.index(4) {
            0 => format!("SELECT * FROM {path} NOT INDEXED"),
            1 => format!("SELECT * FROM {path} NOT INDEXED WHERE {filter}"),
            2 => format!("SELECT * FROM {path} NOT INDEXED ORDER BY rowid"),
            _ => format!("SELECT * FROM {path} NOT INDEXED WHERE {filter} ORDER BY rowid DESC"),
        };
        let change = match self.random.weighted(&[30, 25, 25, 20]) {
            0 => self.insert(&table),
            1 => self.update(&table),
            2 => self.delete(&table),
            _ => self.change(),
        };
        Step::During { query, rows, change }
    }

    /// The next statement.
    fn statement(&mut self) -> String {
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
        match self.random.index(20) {
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
            11 => format!("PRAGMA reverse_unordered_selects = {}", self.random.below(2)),
            12 => format!("PRAGMA defer_foreign_keys = {}", self.random.below(2)),
            13 => format!("PRAGMA ignore_check_constraints = {}", self.random.below(2)),
            14 => format!("PRAGMA foreign_key_list({name})"),
            15 => "PRAGMA quick_check".into(),
            16 => "PRAGMA schema_version".into(),
            17 => format!("PRAGMA application_id = {}", self.random.between(-9, 9)),
            18 => "PRAGMA application_id".into(),
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
