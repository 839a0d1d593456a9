//! Random statements, a fresh pair of databases for each seed.

use crate::pair::Pair;
use fulmar_node::Random;

struct Statements(Random);

impl Statements {
    fn value(&mut self) -> String {
        match self.0.below(7) {
            0 => "NULL".into(),
            1 => format!("{}.5", self.0.below(20)),
            2 => format!("'{}'", self.0.pick(&["a", "A", "b ", "b", "", "a''c", "10", "Zz"])),
            3 => format!("x'0{}'", self.0.below(4)),
            _ => self.0.below(30).to_string(),
        }
    }

    fn condition(&mut self) -> String {
        let column = self.0.pick(&["a", "b", "c", "d"]);
        let value = self.value();
        match self.0.below(5) {
            0 => format!("{column} BETWEEN {value} AND {}", self.value()),
            1 => format!("{column} IN ({value}, {}, {})", self.value(), self.value()),
            2 => format!("{column} = {value} AND {}", self.condition()),
            3 => format!("{column} IS {value}"),
            _ => format!("{column} {} {value}", self.0.pick(&["<", ">", "<=", ">=", "=", "<>"])),
        }
    }

    fn statement(&mut self) -> String {
        let table = self.0.pick(&["t", "w"]);
        let or = self.0.pick(&["", "", "OR IGNORE ", "OR REPLACE ", "OR FAIL ", "OR ROLLBACK ", "OR ABORT "]);
        match self.0.below(22) {
            0..7 => {
                let rows = (0..1 + self.0.below(3))
                    .map(|_| {
                        format!("({}, {}, {}, {})", self.value(), self.value(), self.value(), self.value())
                    })
                    .collect::<Vec<_>>();
                format!("INSERT {or}INTO {table}(a, b, c, d) VALUES {}", rows.join(", "))
            }
            7..10 => {
                let (column, value) = (self.0.pick(&["a", "b", "c", "d"]), self.value());
                format!("UPDATE {or}{table} SET {column} = {value} WHERE {}", self.condition())
            }
            10..12 => format!("DELETE FROM {table} WHERE {}", self.condition()),
            12..17 => {
                let (column, way) = (self.0.pick(&["a", "b", "c", "d"]), self.0.pick(&["", "DESC"]));
                let condition = self.condition();
                format!(
                    "SELECT * FROM {table} WHERE {condition} ORDER BY {column} {way}, 1, 2, 3, 4, typeof(a)"
                )
            }
            17 => format!(
                "INSERT {or}INTO t(a, b, c, d) SELECT a, b, c, d FROM {table} WHERE {}",
                self.condition()
            ),
            18 => self.0.pick(&["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"]).into(),
            19 => self.0.pick(&["BEGIN", "COMMIT", "ROLLBACK"]).into(),
            20 => self
                .0
                .pick(&[
                    "CREATE INDEX x ON t(d, a DESC)",
                    "DROP INDEX x",
                    "CREATE UNIQUE INDEX y ON w(d, c)",
                    "DROP INDEX y",
                    "REINDEX",
                    "ANALYZE",
                ])
                .into(),
            _ => format!(
                "INSERT INTO {table}(a, b, c, d) VALUES ({}, {}, 1, 2) ON CONFLICT DO UPDATE SET c = c + excluded.c RETURNING a, b, c",
                self.value(),
                self.value()
            ),
        }
    }
}

#[test]
fn random_statements_answer_alike() {
    for seed in 0..300 {
        let random = &mut Statements(Random::new(seed));
        let pair = Pair::new();
        let not_null = random.0.pick(&["", "NOT NULL"]);
        pair.same(&format!("CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE, c TEXT COLLATE NOCASE {not_null}, d, UNIQUE(c, d))"));
        pair.same("CREATE INDEX tc ON t(c DESC, b)");
        pair.same("CREATE INDEX td ON t(d) WHERE d > 5");
        pair.same("CREATE TABLE w(a, b COLLATE RTRIM, c, d, PRIMARY KEY(b, a DESC)) WITHOUT ROWID");
        pair.same("CREATE INDEX wc ON w(c)");
        for _ in 0..60 {
            pair.same(&random.statement());
        }
        for sql in ["SELECT * FROM t ORDER BY 1", "SELECT * FROM w", "PRAGMA integrity_check"] {
            pair.same(sql);
        }
    }
}
