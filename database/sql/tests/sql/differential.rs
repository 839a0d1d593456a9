//! Random statements, a fresh pair of databases for each seed.

use crate::pair::Pair;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }

    fn value(&mut self) -> String {
        match self.below(7) {
            0 => "NULL".into(),
            1 => format!("{}.5", self.below(20)),
            2 => format!("'{}'", self.pick(&["a", "A", "b ", "b", "", "a''c", "10", "Zz"])),
            3 => format!("x'0{}'", self.below(4)),
            _ => self.below(30).to_string(),
        }
    }

    fn condition(&mut self) -> String {
        let column = self.pick(&["a", "b", "c", "d"]);
        let value = self.value();
        match self.below(5) {
            0 => format!("{column} BETWEEN {value} AND {}", self.value()),
            1 => format!("{column} IN ({value}, {}, {})", self.value(), self.value()),
            2 => format!("{column} = {value} AND {}", self.condition()),
            3 => format!("{column} IS {value}"),
            _ => format!("{column} {} {value}", self.pick(&["<", ">", "<=", ">=", "=", "<>"])),
        }
    }

    fn statement(&mut self) -> String {
        let table = self.pick(&["t", "w"]);
        let or = self.pick(&["", "", "OR IGNORE ", "OR REPLACE ", "OR FAIL ", "OR ROLLBACK ", "OR ABORT "]);
        match self.below(22) {
            0..7 => {
                let rows = (0..1 + self.below(3))
                    .map(|_| {
                        format!("({}, {}, {}, {})", self.value(), self.value(), self.value(), self.value())
                    })
                    .collect::<Vec<_>>();
                format!("INSERT {or}INTO {table}(a, b, c, d) VALUES {}", rows.join(", "))
            }
            7..10 => {
                let (column, value) = (self.pick(&["a", "b", "c", "d"]), self.value());
                format!("UPDATE {or}{table} SET {column} = {value} WHERE {}", self.condition())
            }
            10..12 => format!("DELETE FROM {table} WHERE {}", self.condition()),
            12..17 => {
                let (column, way) = (self.pick(&["a", "b", "c", "d"]), self.pick(&["", "DESC"]));
                let condition = self.condition();
                format!(
                    "SELECT * FROM {table} WHERE {condition} ORDER BY {column} {way}, 1, 2, 3, 4, typeof(a)"
                )
            }
            17 => format!(
                "INSERT {or}INTO t(a, b, c, d) SELECT a, b, c, d FROM {table} WHERE {}",
                self.condition()
            ),
            18 => self.pick(&["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"]).into(),
            19 => self.pick(&["BEGIN", "COMMIT", "ROLLBACK"]).into(),
            20 => self
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
        let random = &mut Random(seed);
        let pair = Pair::new();
        let not_null = random.pick(&["", "NOT NULL"]);
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
