//! Statements that change the schema.

use super::catalog::{Attachment, Kind, Relation};
use super::expression::COLLATIONS;
use super::{Generator, RELATIONS, Scope};

const TYPES: &[&str] = &["", "", "INTEGER", "INT", "TEXT", "REAL", "BLOB", "NUMERIC", "VARCHAR(10)"];
const STRICT_TYPES: &[&str] = &["INTEGER", "INT", "TEXT", "REAL", "BLOB", "ANY"];
const COLUMNS: &[&str] = &["a", "b", "c", "d", "e"];

impl Generator {
    pub(super) fn definition(&mut self) -> String {
        let is_full = self.catalog.relations.len() >= RELATIONS;
        match self.random.weighted(&[
            if is_full { 2 } else { 24 },
            24,
            6,
            10,
            14,
            if is_full { 30 } else { 8 },
            8,
            3,
        ]) {
            0 => self.create_table(),
            1 => self.create_index(),
            2 => self.create_view(),
            3 => self.create_trigger(),
            4 => self.alter(),
            5 => self.drop_relation(),
            6 => self.drop_attachment(),
            _ => self.create_virtual(),
        }
    }

    /// The beginning of a name in one of the databases, mostly in `main`.
    fn schema(&mut self) -> String {
        match self.random.index(5) {
            0 => "temp.".into(),
            1 | 2 => {
                self.random.choose(&self.catalog.attached).map_or_else(String::new, |name| format!("{name}."))
            }
            _ => String::new(),
        }
    }

    pub(super) fn create_table(&mut self) -> String {
        let (schema, name) = (self.schema(), self.random.index(7));
        if self.catalog.relations.len() > 2 && self.random.one_in(8) {
            let query = self.select(3, 1);
            return format!(
                "CREATE TABLE {schema}t{name} AS WITH q(a, b, c) AS ({query}) SELECT * FROM q LIMIT 12"
            );
        }
        let exists = self.random.pick(&["", "", "", "IF NOT EXISTS "]);
        let strict = self.random.one_in(8);
        let width = 2 + self.random.index(4);
        let key = self.random.weighted(&[30, 25, 8, 12, 25]);
        let scope =
            Scope { columns: COLUMNS[..width].iter().map(|c| (*c).to_owned()).collect(), subqueries: false };
        let mut parts: Vec<String> = Vec::new();
        match key {
            1 => {
                let (order, conflict) = (self.random.pick(&["", "", "", " DESC"]), self.conflict_clause());
                parts.push(format!("id INTEGER PRIMARY KEY{order}{conflict}"));
            }
            2 => parts.push("id INTEGER PRIMARY KEY AUTOINCREMENT".into()),
            _ => {}
        }
        for column in &COLUMNS[..width] {
            let mut part =
                format!("{column} {}", self.random.pick(if strict { STRICT_TYPES } else { TYPES }));
            if key == 3 && *column == "a" {
                part += " PRIMARY KEY";
                part += self.random.pick(&["", "", " DESC"]);
                part += self.conflict_clause();
            }
            part += &self.column_constraints(&scope);
            parts.push(part);
        }
        if self.random.one_in(6) {
            let storage = self.random.pick(&["STORED", "VIRTUAL"]);
            let kind = if strict { "ANY" } else { "" };
            let constraint = self.random.pick(&["", "", "", " UNIQUE", " NOT NULL", " COLLATE NOCASE"]);
            parts.push(format!("g {kind} AS ({}) {storage}{constraint}", self.expression(&scope, 1)));
        }
        if key == 4 {
            parts.push(format!("PRIMARY KEY ({})", self.index_columns(&scope, false)));
        }
        if self.random.one_in(4) {
            let conflict = self.conflict_clause();
            parts.push(format!("UNIQUE ({}){conflict}", self.index_columns(&scope, false)));
        }
        if self.random.one_in(8) {
            parts.push(format!("CHECK ({})", self.lenient_condition(&scope)));
        }
        if self.random.one_in(3) {
            parts.push(self.foreign_key(&scope));
        }
        let mut options = Vec::new();
        if key >= 3 && self.random.one_in(2) {
            options.push("WITHOUT ROWID");
        }
        if strict {
            options.push("STRICT");
        }
        format!("CREATE TABLE {exists}{schema}t{name}({}) {}", parts.join(", "), options.join(", "))
    }

    fn column_constraints(&mut self, scope: &Scope) -> String {
        let mut constraints = String::new();
        if self.random.one_in(10) {
            constraints += " NOT NULL";
            constraints += self.conflict_clause();
        }
        if self.random.one_in(10) {
            constraints += " UNIQUE";
            constraints += self.conflict_clause();
        }
        if self.random.one_in(5) {
            constraints += &format!(" DEFAULT ({})", self.literal());
        }
        if self.random.one_in(6) {
            constraints += &format!(" COLLATE {}", self.random.pick(COLLATIONS));
        }
        if self.random.one_in(20) {
            constraints += &format!(" CHECK ({})", self.lenient_condition(scope));
        }
        if self.random.one_in(14) {
            constraints += &self.references(1);
        }
        constraints
    }

    /// A condition that many rows meet.
    fn lenient_condition(&mut self, scope: &Scope) -> String {
        format!("{} IS NOT {} OR {}", self.column(scope), self.literal(), self.condition(scope, 1))
    }

    fn conflict_clause(&mut self) -> &'static str {
        match self.random.index(12) {
            0 => " ON CONFLICT REPLACE",
            1 => " ON CONFLICT IGNORE",
            2 => " ON CONFLICT FAIL",
            3 => " ON CONFLICT ROLLBACK",
            _ => "",
        }
    }

    fn foreign_key(&mut self, scope: &Scope) -> String {
        if self.random.one_in(4) {
            let (first, second) = (self.column(scope), self.column(scope));
            return format!("FOREIGN KEY ({first}, {second}){}", self.references(2));
        }
        format!("FOREIGN KEY ({}){}", self.column(scope), self.references(1))
    }

    /// The parent of a foreign key of `width` columns, and what happens to the child.
    fn references(&mut self, width: usize) -> String {
        const ACTIONS: &[&str] = &["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"];
        let (parent, columns) = match self.any_table() {
            Some(parent) => {
                let (scope, unique) = (Self::scope_of(&parent, false), parent.unique());
                let columns: Vec<String> = (0..width)
                    .map(|_| match self.random.choose(&unique) {
                        Some(column) if !self.random.one_in(8) => (*column).to_owned(),
                        _ => self.column(&scope),
                    })
                    .collect();
                let columns = format!("({})", columns.join(", "));
                (parent.name, if self.random.one_in(4) { String::new() } else { columns })
            }
            None => ("t0".into(), String::new()),
        };
        let (delete, update) = (self.random.pick(ACTIONS), self.random.pick(ACTIONS));
        let deferred = self.random.pick(&["", " DEFERRABLE INITIALLY DEFERRED"]);
        format!(" REFERENCES {parent}{columns} ON DELETE {delete} ON UPDATE {update}{deferred}")
    }

    fn index_columns(&mut self, scope: &Scope, expressions: bool) -> String {
        let columns: Vec<String> = (0..=self.random.index(3))
            .map(|_| {
                let what = if expressions && self.random.one_in(5) {
                    format!("({})", self.expression(scope, 1))
                } else {
                    self.column(scope)
                };
                let collation = if self.random.one_in(4) {
                    format!(" COLLATE {}", self.random.pick(COLLATIONS))
                } else {
                    String::new()
                };
                format!("{what}{collation}{}", self.random.pick(&["", "", " ASC", " DESC"]))
            })
            .collect();
        columns.join(", ")
    }

    fn create_index(&mut self) -> String {
        let Some(table) = self.any_table() else { return self.create_table() };
        let scope = Self::scope_of(&table, false);
        let unique = if self.random.one_in(4) { "UNIQUE " } else { "" };
        let schema = if table.schema == "main" { String::new() } else { format!("{}.", table.schema) };
        let columns = self.index_columns(&scope, true);
        let exists = self.random.pick(&["", "", "", "IF NOT EXISTS "]);
        let mut sql = format!(
            "CREATE {unique}INDEX {exists}{schema}i{} ON {}({columns})",
            self.random.index(8),
            table.name
        );
        if self.random.one_in(4) {
            sql += &format!(" WHERE {}", self.condition(&scope, 1));
        }
        sql
    }

    fn create_view(&mut self) -> String {
        let query = match self.random.weighted(&[60, 15, 15, 10]) {
            0 => self.select(2, 1),
            1 => self.compound(2),
            2 => self.with(2),
            _ => self.recursive(),
        };
        let columns = self.random.pick(&["(x, y)", "(x, y)", "(x, y)", ""]);
        format!(
            "CREATE {}VIEW v{}{columns} AS {query}",
            self.random.pick(&["", "TEMP "]),
            self.random.index(3)
        )
    }

    fn create_trigger(&mut self) -> String {
        let Some(on) =
            self.any_relation().filter(|r| matches!(r.kind, Kind::Rowid | Kind::WithoutRowid | Kind::View))
        else {
            return self.create_view();
        };
        let when = if on.kind == Kind::View { "INSTEAD OF" } else { self.random.pick(&["BEFORE", "AFTER"]) };
        let event = self.random.pick(&["INSERT", "UPDATE", "DELETE"]);
        let rows: &[&str] = match event {
            "INSERT" => &["NEW"],
            "DELETE" => &["OLD"],
            _ => &["NEW", "OLD"],
        };
        let names = on.columns.iter().flat_map(|c| rows.iter().map(move |row| format!("{row}.{}", c.name)));
        let scope = Scope { columns: names.collect(), subqueries: false };
        let of = match self.writable_column(&on) {
            Some(column) if event == "UPDATE" && self.random.one_in(3) => format!(" OF {column}"),
            _ => String::new(),
        };
        let temporary = self.random.pick(&["", "", "", "TEMP "]);
        let number = self.random.index(4);
        let mut sql = format!("CREATE {temporary}TRIGGER r{number} {when} {event}{of} ON {}", on.path());
        if self.random.one_in(3) {
            sql += &format!(" WHEN {}", self.condition(&scope, 1));
        }
        let body: Vec<String> = (0..=self.random.index(2)).map(|_| self.trigger_step(&scope)).collect();
        format!("{sql} BEGIN {}; END", body.join("; "))
    }

    fn trigger_step(&mut self, row: &Scope) -> String {
        if self.random.one_in(8) {
            let action = self.random.pick(&["IGNORE", "ABORT, 'no'", "FAIL, 'no'", "ROLLBACK, 'no'"]);
            return format!("SELECT RAISE({action}) WHERE {}", self.condition(row, 1));
        }
        let Some(table) = self.any_table() else { return "SELECT 1".into() };
        let Some(column) = self.writable_column(&table) else { return "SELECT 2".into() };
        let value = self.expression(row, 1);
        let name = &table.name;
        match self.random.index(6) {
            0 | 1 => {
                let or = self.random.pick(&["", " OR IGNORE", " OR REPLACE"]);
                let source = match self.random.index(3) {
                    0 => format!("SELECT {value} UNION ALL SELECT {}", self.literal()),
                    _ => format!("VALUES ({value})"),
                };
                format!("INSERT{or} INTO {name}({column}) {source}")
            }
            2 => format!(
                "INSERT INTO {name}({column}) SELECT {column} FROM {name} WHERE {column} IS NOT {value} LIMIT 2"
            ),
            3 => format!(
                "INSERT INTO {name}({column}) VALUES ({value}) ON CONFLICT DO UPDATE SET {column} = {}",
                self.operand(row)
            ),
            4 => {
                let or = self.random.pick(&["", " OR IGNORE", " OR REPLACE"]);
                format!("UPDATE{or} {name} SET {column} = {value} WHERE {column} IS {}", self.operand(row))
            }
            _ => format!("DELETE FROM {name} WHERE {column} = {value}"),
        }
    }

    pub(super) fn writable_column(&mut self, relation: &Relation) -> Option<String> {
        let columns = relation.writable();
        self.random.choose(&columns).map(|column| (*column).to_owned())
    }

    fn alter(&mut self) -> String {
        let Some(table) = self.any_table() else { return self.create_table() };
        let (path, scope) = (table.path(), Self::scope_of(&table, false));
        let column = self.column(&scope);
        match self.random.index(6) {
            0 => format!("ALTER TABLE {path} RENAME TO t{}", self.random.below(7)),
            1 => format!(
                "ALTER TABLE {path} RENAME COLUMN {column} TO {}",
                self.random.pick(&["a", "b", "c", "f", "h"])
            ),
            2 | 3 => format!("ALTER TABLE {path} DROP COLUMN {column}"),
            _ => format!("ALTER TABLE {path} ADD COLUMN {}", self.added_column(&scope)),
        }
    }

    fn added_column(&mut self, scope: &Scope) -> String {
        let (name, kind) = (self.random.pick(&["f", "h", "k"]), self.random.pick(TYPES));
        let constraint = match self.random.index(8) {
            0 | 1 => format!(" DEFAULT {}", self.literal()),
            2 => format!(" NOT NULL DEFAULT {}", self.literal()),
            3 => format!(" CHECK ({})", self.lenient_condition(scope)),
            4 => self.references(1),
            5 => format!(" AS ({}) VIRTUAL", self.expression(scope, 1)),
            6 => format!(" COLLATE {} DEFAULT {}", self.random.pick(COLLATIONS), self.literal()),
            _ => String::new(),
        };
        format!("{name} {kind}{constraint}")
    }

    fn drop_relation(&mut self) -> String {
        let Some(relation) = self.any_relation() else { return "DROP TABLE IF EXISTS t0".into() };
        let kind = if relation.kind == Kind::View { "VIEW" } else { "TABLE" };
        let exists = self.random.pick(&["", "", "IF EXISTS "]);
        format!("DROP {kind} {exists}{}", relation.path())
    }

    fn drop_attachment(&mut self) -> String {
        let of_index = self.random.one_in(2);
        let from: Vec<Attachment> =
            if of_index { &self.catalog.indexes } else { &self.catalog.triggers }.clone();
        let kind = if of_index { "INDEX" } else { "TRIGGER" };
        match self.random.choose(&from) {
            Some(found) => format!("DROP {kind} {}.{}", found.schema, found.name),
            None => format!("DROP {kind} IF EXISTS i0"),
        }
    }

    fn create_virtual(&mut self) -> String {
        let (schema, number) = (self.schema(), self.random.index(2));
        if self.random.one_in(2) {
            let options = self.random.pick(&[
                "",
                "",
                ", prefix='1 2'",
                ", detail=none",
                ", detail=column",
                ", columnsize=0",
                ", tokenize='porter'",
                ", tokenize='trigram'",
            ]);
            return format!("CREATE VIRTUAL TABLE {schema}fts{number} USING fts5(a, b{options})");
        }
        let (module, auxiliary) =
            (self.random.pick(&["rtree", "rtree_i32"]), self.random.pick(&["", ", +note"]));
        format!("CREATE VIRTUAL TABLE {schema}rt{number} USING {module}(id, x0, x1{auxiliary})")
    }
}
