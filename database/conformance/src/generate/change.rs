//! INSERT, UPDATE and DELETE in all their parts.

use super::catalog::{Kind, Relation};
use super::{Generator, Scope};

/// More rows than a table has by rows inserted one at a time.
const MANY: usize = 100;

impl Generator {
    pub(super) fn change(&mut self) -> String {
        let Some(relation) = self.any_relation() else { return self.create_table() };
        match relation.kind {
            Kind::FullText => return self.change_full_text(&relation),
            Kind::RTree => return self.change_rtree(&relation),
            _ => {}
        }
        match self.random.weighted(&[56, 26, 14, 4, if self.rows > MANY { 10 } else { 0 }]) {
            0 => self.insert(&relation),
            1 => self.update(&relation),
            2 => self.delete(&relation),
            3 => self.shrink(&relation),
            _ => self.populate(&relation),
        }
    }

    /// Many rows at once, whose values ascend, descend, repeat, or differ in length.
    fn populate(&mut self, relation: &Relation) -> String {
        let columns = relation.writable();
        if columns.is_empty() || relation.kind == Kind::View {
            return self.insert(relation);
        }
        let count = self.rows / 3 + self.random.index(self.rows / 2);
        let start = self.random.between(-20, 2000);
        let values: Vec<String> = columns
            .iter()
            .map(|_| match self.random.index(9) {
                0 | 1 => "i".to_owned(),
                2 => "-i".to_owned(),
                3 => format!("i * {} % 1009", self.random.between(2, 900)),
                4 => "'k' || i".to_owned(),
                5 => "i / 4.0".to_owned(),
                6 => "printf('%d%.*c', i % 50, i % 120, 'x')".to_owned(),
                7 => "CAST(zeroblob(i % 7) || i AS BLOB)".to_owned(),
                _ => "NULL".to_owned(),
            })
            .collect();
        let or = self.random.pick(&[" OR IGNORE", " OR IGNORE", " OR REPLACE"]);
        format!(
            "WITH RECURSIVE n(i) AS (SELECT {start} UNION ALL SELECT i + 1 FROM n WHERE i < {}) \
             INSERT{or} INTO {}({}) SELECT {} FROM n{}",
            start + i64::try_from(count).unwrap_or(0),
            relation.path(),
            columns.join(", "),
            values.join(", "),
            self.random.pick(&["", "", " ORDER BY i DESC", " ORDER BY i * 7 % 101"]),
        )
    }

    fn or(&mut self) -> &'static str {
        match self.random.index(14) {
            0 | 1 => " OR IGNORE",
            2 | 3 => " OR REPLACE",
            4 => " OR FAIL",
            5 => " OR ABORT",
            6 => " OR ROLLBACK",
            _ => "",
        }
    }

    pub(super) fn insert(&mut self, relation: &Relation) -> String {
        let mut columns = relation.writable();
        if columns.is_empty() {
            return format!("INSERT INTO {} DEFAULT VALUES", relation.path());
        }
        if self.random.one_in(3) && columns.len() > 1 {
            columns.remove(self.random.index(columns.len()));
        }
        let (or, path, names) = (self.or(), relation.path(), columns.join(", "));
        let verb = if self.random.one_in(10) { "REPLACE".into() } else { format!("INSERT{or}") };
        let source = match self.random.weighted(&[78, 12, 5, 5]) {
            0 => {
                let rows: Vec<String> = (0..=self.random.index(4)).map(|_| self.row(columns.len())).collect();
                format!("VALUES {}", rows.join(", "))
            }
            1 => format!("SELECT * FROM ({}) WHERE 1 LIMIT 6", self.select(columns.len(), 1)),
            2 => {
                let values: Vec<&str> =
                    columns.iter().map(|_| self.random.pick(&["x", "y", "x", "1"])).collect();
                let query = self.select(2, 1);
                return format!(
                    "WITH q(x, y) AS ({query}) {verb} INTO {path}({names}) SELECT {} FROM q LIMIT 6{}",
                    values.join(", "),
                    self.returning(relation)
                );
            }
            _ => return format!("{verb} INTO {path} DEFAULT VALUES{}", self.returning(relation)),
        };
        let upsert =
            if verb == "INSERT" && self.random.one_in(4) { self.upsert(relation) } else { String::new() };
        format!("{verb} INTO {path}({names}) {source}{upsert}{}", self.returning(relation))
    }

    fn row(&mut self, width: usize) -> String {
        let values: Vec<String> = (0..width).map(|_| self.literal()).collect();
        format!("({})", values.join(", "))
    }

    fn upsert(&mut self, relation: &Relation) -> String {
        let target = match self.random.choose(&relation.unique()) {
            Some(column) if !self.random.one_in(3) => format!(" ({column})"),
            _ if self.random.one_in(6) => format!(" ({})", self.column(&Self::scope_of(relation, false))),
            _ => String::new(),
        };
        let Some(column) = self.writable_column(relation).filter(|_| !self.random.one_in(3)) else {
            return format!(" ON CONFLICT{target} DO NOTHING");
        };
        let mut scope = Self::scope_of(relation, false);
        scope.columns.extend(relation.columns.iter().map(|c| format!("excluded.{}", c.name)));
        let value = self.expression(&scope, 1);
        let filter = if self.random.one_in(3) {
            format!(" WHERE {}", self.condition(&scope, 1))
        } else {
            String::new()
        };
        format!(" ON CONFLICT{target} DO UPDATE SET {column} = {value}{filter}")
    }

    fn returning(&mut self, relation: &Relation) -> String {
        if !self.random.one_in(8) {
            return String::new();
        }
        let scope = Self::scope_of(relation, false);
        format!(" RETURNING {}, {}", self.column(&scope), self.expression(&scope, 1))
    }

    pub(super) fn update(&mut self, relation: &Relation) -> String {
        let Some(column) = self.writable_column(relation) else { return self.delete(relation) };
        let scope = Self::scope_of(relation, true);
        let (or, path) = (self.or(), relation.path());
        let mut set = format!("{column} = {}", self.expression(&scope, 2));
        if let Some(second) = self.writable_column(relation).filter(|second| *second != column)
            && self.random.one_in(3)
        {
            set += &format!(", {second} = {}", self.operand(&scope));
        }
        if self.random.one_in(12)
            && let Some(second) = self.writable_column(relation).filter(|second| *second != column)
        {
            let (query, filter) = (self.select(2, 1), self.condition(&scope, 1));
            return format!(
                "UPDATE{or} {path} SET ({column}, {second}) = (SELECT * FROM ({query}) LIMIT 1) WHERE {filter}"
            );
        }
        if relation.kind == Kind::Rowid && self.random.one_in(16) {
            let (row, filter) = (self.random.between(-2, 30), self.condition(&scope, 1));
            let value = self.random.pick(&["rowid + 1", "rowid - 1", "-rowid", "rowid * 3"]);
            let value = if self.random.one_in(2) { row.to_string() } else { value.to_owned() };
            return format!("UPDATE{or} {path} SET rowid = {value} WHERE {filter}");
        }
        if self.random.one_in(10) {
            let (from, other) = self.from(1);
            let (left, right) = (format!("{}.{column}", relation.name), self.column(&other));
            let scope = Scope { columns: other.columns, subqueries: false };
            return format!(
                "UPDATE{or} {path} SET {column} = {} FROM {from} WHERE {left} = {right}",
                self.operand(&scope)
            );
        }
        let filter = if self.random.one_in(6) {
            String::new()
        } else {
            format!(" WHERE {}", self.condition(&scope, 2))
        };
        format!("UPDATE{or} {path} SET {set}{filter}{}", self.returning(relation))
    }

    pub(super) fn delete(&mut self, relation: &Relation) -> String {
        let scope = Self::scope_of(relation, true);
        if self.random.one_in(12) {
            return format!("DELETE FROM {}{}", relation.path(), self.returning(relation));
        }
        if self.random.one_in(10) {
            let query = self.select(1, 1);
            let path = relation.path();
            return format!("WITH q(x) AS ({query}) DELETE FROM {path} WHERE {} IN q", self.column(&scope));
        }
        format!(
            "DELETE FROM {} WHERE {}{}",
            relation.path(),
            self.condition(&scope, 2),
            self.returning(relation)
        )
    }

    /// Keeps tables small, so that joins stay fast.
    fn shrink(&mut self, relation: &Relation) -> String {
        let (path, rows) = (relation.path(), self.rows);
        let Some(column) = self.writable_column(relation) else { return self.delete(relation) };
        format!(
            "DELETE FROM {path} WHERE {column} IN (SELECT {column} FROM {path} ORDER BY {column} LIMIT max(0, (SELECT count(*) FROM {path}) - {rows}))"
        )
    }

    fn change_full_text(&mut self, relation: &Relation) -> String {
        const TEXTS: &[&str] = &["'a b'", "'ab'", "'b a a'", "'zoë A'", "''", "NULL", "'a b c d e f'"];
        let (path, a, b) = (relation.path(), self.random.pick(TEXTS), self.random.pick(TEXTS));
        let row = self.random.between(1, 12);
        match self.random.index(8) {
            0 => format!("DELETE FROM {path} WHERE rowid = {row}"),
            1 => format!("UPDATE {path} SET a = {a} WHERE rowid = {row}"),
            2 => format!("INSERT OR REPLACE INTO {path}(rowid, a, b) VALUES ({row}, {a}, {b})"),
            3 => {
                let commands = ["'optimize'", "'rebuild'", "'integrity-check'", "'flush'"];
                format!("INSERT INTO {path}({}) VALUES ({})", relation.name, self.random.pick(&commands))
            }
            4 => format!(
                "INSERT INTO {path}({0}, rank) VALUES ('merge', {1})",
                relation.name,
                self.random.between(-4, 16)
            ),
            5 => format!(
                "INSERT INTO {path}({}, rank) VALUES ('automerge', {})",
                relation.name,
                self.random.index(5)
            ),
            _ => format!("INSERT INTO {path}(a, b) VALUES ({a}, {b})"),
        }
    }

    fn change_rtree(&mut self, relation: &Relation) -> String {
        let (path, row) = (relation.path(), self.random.between(1, 30));
        let low = self.random.between(-5, 20);
        let high = low + self.random.between(-1, 6);
        match self.random.index(5) {
            0 => format!("DELETE FROM {path} WHERE id = {row}"),
            1 => format!("UPDATE {path} SET x0 = {low}, x1 = {high} WHERE id = {row}"),
            2 => format!("INSERT OR REPLACE INTO {path}(id, x0, x1) VALUES ({row}, {low}, {high})"),
            _ => format!("INSERT INTO {path}(id, x0, x1) VALUES (NULL, {low}, {high})"),
        }
    }
}
