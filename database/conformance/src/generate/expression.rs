//! Literals and expressions.

use super::{Generator, Scope};

/// Integers at the edges: of what a double holds exactly, and of 64 bits. The largest is left out: a
/// table that has it as a rowid gives its next row a random one.
const EDGE_INTEGERS: &[&str] = &[
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "4611686018427387904",
    "9223372036854775806",
    "-9223372036854775807",
    "(-9223372036854775807 - 1)",
    "2147483648",
    "-2147483649",
];

const REALS: &[&str] = &[
    "0.0",
    "-0.0",
    "1.0",
    "1.5",
    "-2.25",
    "9007199254740992.0",
    "9007199254740994.0",
    "9223372036854775807.0",
    "-9223372036854775808.0",
    "1e-320",
    "1.7976931348623157e308",
    "9e999",
    "-9e999",
    "(9e999 - 9e999)",
    "0.1",
    "3.0000000000000004",
];

const TEXTS: &[&str] = &[
    "''",
    "'a'",
    "'A'",
    "'a '",
    "'a  '",
    "'ab'",
    "'aB'",
    "'b'",
    "'é'",
    "'Zoë'",
    "' '",
    "'1'",
    "'1.0'",
    "'01'",
    "' 12'",
    "'1e3'",
    "'0x10'",
    "'9007199254740993'",
    "'nan'",
    "'{\"k\": [1, 2]}'",
    "CAST(x'610062' AS TEXT)",
    "CAST(x'610042' AS TEXT)",
    "CAST(x'00' AS TEXT)",
    "CAST(x'6100' AS TEXT)",
    "CAST(x'ff61' AS TEXT)",
];

const BLOBS: &[&str] =
    &["x''", "x'00'", "x'0000'", "x'00ff'", "x'61'", "x'6100'", "x'ff'", "zeroblob(3)", "x'deadbeef'"];

/// The collations that SQLite always has.
pub(super) const COLLATIONS: &[&str] = &["BINARY", "NOCASE", "RTRIM"];

impl Generator {
    /// A literal: mostly small integers and short texts, so that values meet.
    pub(super) fn literal(&mut self) -> String {
        match self.random.weighted(&[8, 40, 6, 10, 26, 8, 2]) {
            0 => "NULL".to_owned(),
            1 => self.random.between(-3, 25).to_string(),
            2 => self.random.pick(EDGE_INTEGERS).to_owned(),
            3 => self.random.pick(REALS).to_owned(),
            4 => self.random.pick(TEXTS).to_owned(),
            5 => self.random.pick(BLOBS).to_owned(),
            _ => self.long_value(),
        }
    }

    /// A value that may not fit a page.
    pub(super) fn long_value(&mut self) -> String {
        let length = [100, 500, 1_000, 4_090, 5_000, 20_000, 100_000][self.random.index(7)];
        let length = length + self.random.index(10);
        if self.random.one_in(2) {
            format!("zeroblob({length})")
        } else {
            let letter = self.random.pick(&["x", "Y", "é"]);
            format!("printf('%.*c', {length}, '{letter}')")
        }
    }

    /// A column of the scope, or a literal when it has none.
    pub(super) fn column(&mut self, scope: &Scope) -> String {
        self.random.choose(&scope.columns).cloned().unwrap_or_else(|| self.literal())
    }

    /// A column, or now and then a literal.
    pub(super) fn operand(&mut self, scope: &Scope) -> String {
        if self.random.one_in(4) { self.literal() } else { self.column(scope) }
    }

    /// An expression over the columns of `scope`, at most `depth` operators deep.
    pub(super) fn expression(&mut self, scope: &Scope, depth: usize) -> String {
        if depth == 0 {
            return self.operand(scope);
        }
        let next = depth - 1;
        match self.random.weighted(&[20, 16, 14, 14, 16, 4, 4, 6]) {
            0 => self.operand(scope),
            1 => {
                let operator = self.random.pick(&["+", "-", "*", "/", "%", "&", "|", "<<", ">>"]);
                format!("({} {operator} {})", self.expression(scope, next), self.expression(scope, next))
            }
            2 => self.condition(scope, depth),
            3 => self.function(scope, next),
            4 => self.conversion(scope, next),
            5 if scope.subqueries => {
                let query = self.scalar_query(next);
                format!("({query})")
            }
            6 => {
                let (when, then) = (self.condition(scope, next), self.expression(scope, next));
                format!("CASE WHEN {when} THEN {then} ELSE {} END", self.expression(scope, next))
            }
            // Cut, so that repeated updates cannot double a text for ever.
            _ => format!("substr({} || {}, 1, 64)", self.expression(scope, next), self.operand(scope)),
        }
    }

    fn conversion(&mut self, scope: &Scope, depth: usize) -> String {
        let inner = self.expression(scope, depth);
        match self.random.index(6) {
            0 => format!("-{inner}"),
            1 => format!("+{inner}"),
            2 => format!("~{inner}"),
            3 => format!("({inner} COLLATE {})", self.random.pick(COLLATIONS)),
            _ => {
                let affinity = self.random.pick(&["INTEGER", "TEXT", "REAL", "BLOB", "NUMERIC"]);
                format!("CAST({inner} AS {affinity})")
            }
        }
    }

    fn function(&mut self, scope: &Scope, depth: usize) -> String {
        let a = self.expression(scope, depth);
        let b = self.operand(scope);
        match self.random.index(24) {
            0 => format!("abs({a})"),
            1 => format!("coalesce({a}, {b})"),
            2 => format!("nullif({a}, {b})"),
            3 => format!("length({a})"),
            4 => format!("lower({a})"),
            5 => format!("upper({a})"),
            6 => format!("substr({a}, {}, {})", self.random.between(-3, 4), self.random.between(-2, 5)),
            7 => format!("instr({a}, {b})"),
            8 => format!("hex(substr({a}, 1, 16))"),
            9 => format!("quote(substr({a}, 1, 16))"),
            10 => format!("typeof({a})"),
            11 => format!("round({a}, {})", self.random.between(0, 3)),
            12 => format!("trim({a})"),
            13 => format!("substr(replace({a}, {b}, 'z'), 1, 64)"),
            14 => format!("min({a}, {b})"),
            15 => format!("max({a}, {b})"),
            16 => format!("iif({a}, {b}, 1)"),
            17 => format!("unicode({a})"),
            18 => format!("printf('%d|%g|%s', {a}, {b}, 'x')"),
            19 => format!("octet_length({a})"),
            20 => format!("sign({a})"),
            21 => format!("json_array({}, 1)", self.random.between(0, 9)),
            22 => {
                format!("json_extract('{{\"k\": [1, \"b\", null, 2.5]}}', '$.k[{}]')", self.random.below(5))
            }
            _ => format!("likely({a})"),
        }
    }

    /// An expression that is meant to be true or false.
    pub(super) fn condition(&mut self, scope: &Scope, depth: usize) -> String {
        let next = depth.saturating_sub(1);
        match self.random.weighted(&[40, 10, 10, 8, 6, 6, 6, 4, 4, 6]) {
            1 => format!("({} AND {})", self.condition(scope, next), self.comparison(scope, next)),
            2 => format!("({} OR {})", self.condition(scope, next), self.comparison(scope, next)),
            3 => {
                let column = self.column(scope);
                let (low, high) = (self.literal(), self.literal());
                format!("{column} BETWEEN {low} AND {high}")
            }
            4 => {
                let list: Vec<String> = (0..=self.random.index(5)).map(|_| self.literal()).collect();
                format!("{} IN ({})", self.column(scope), list.join(", "))
            }
            5 => {
                let operator = self.random.pick(&["IS NULL", "IS NOT NULL"]);
                format!("{} {operator}", self.column(scope))
            }
            6 => {
                let operator = self.random.pick(&["LIKE", "NOT LIKE", "GLOB"]);
                let pattern = self.random.pick(&["'a%'", "'%b'", "'A*'", "'_'", "'%'", "''", "'[a-z]*'"]);
                format!("{} {operator} {pattern}", self.column(scope))
            }
            7 if scope.subqueries => {
                let query = self.scalar_query(next);
                format!("{} IN ({query})", self.column(scope))
            }
            8 if scope.subqueries => {
                let query = self.correlated_query(scope);
                format!("EXISTS ({query})")
            }
            9 => {
                let (first, second) = (self.column(scope), self.column(scope));
                let operator = self.random.pick(&["<", "<=", ">", ">=", "=", "IS"]);
                format!("({first}, {second}) {operator} ({}, {})", self.literal(), self.literal())
            }
            _ => self.comparison(scope, next),
        }
    }

    fn comparison(&mut self, scope: &Scope, depth: usize) -> String {
        let operators = ["=", "=", "=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT", "IS DISTINCT FROM"];
        let operator = self.random.pick(&operators);
        let right = if self.random.one_in(3) { self.expression(scope, depth) } else { self.literal() };
        format!("{} {operator} {right}", self.column(scope))
    }
}
