//! SELECT in all its parts.

use super::catalog::{Kind, Relation};
use super::expression::COLLATIONS;
use super::{Generator, Scope};

/// One source of a FROM clause.
struct Source {
    sql: String,
    alias: String,
    columns: Vec<String>,
}

impl Generator {
    /// A whole query of one to four columns.
    pub(super) fn query(&mut self) -> String {
        let width = 1 + self.random.index(4);
        let explained = if self.random.one_in(12) { "EXPLAIN QUERY PLAN " } else { "" };
        let body = match self.random.weighted(&[50, 12, 12, 6, 12, 6, 6, 6, 5]) {
            0 => self.select(width, 2),
            1 => self.compound(width),
            2 => self.with(width),
            3 => self.recursive(),
            4 => self.windowed(),
            5 => self.full_text_or_rtree(),
            6 => self.range_of_one_table(),
            7 => self.walk(),
            _ => return format!("{explained}{}", self.count()),
        };
        format!("{explained}{body}")
    }

    /// A query of one column that returns few rows.
    pub(super) fn scalar_query(&mut self, depth: usize) -> String {
        let query = self.select_plain(1, depth);
        format!("{query} LIMIT {}", 1 + self.random.below(3))
    }

    /// A query that depends on a row of the query around it.
    pub(super) fn correlated_query(&mut self, outer: &Scope) -> String {
        let (from, inner) = self.from(1);
        let (left, right) = (self.column(&inner), self.column(outer));
        format!("SELECT 1 FROM {from} WHERE {left} = {right}")
    }

    /// A select with everything but a WITH clause.
    pub(super) fn select(&mut self, width: usize, depth: usize) -> String {
        let query =
            if self.random.one_in(3) { self.aggregate(width) } else { self.select_plain(width, depth) };
        let ordered = self.order_by_position(width);
        let limited = self.limit();
        format!("{query}{ordered}{limited}")
    }

    fn select_plain(&mut self, width: usize, depth: usize) -> String {
        let sources = 1 + self.random.weighted(&[60, 30, 10]);
        let (from, scope) = self.from(sources);
        let columns: Vec<String> = (0..width).map(|_| self.expression(&scope, depth.min(2))).collect();
        let distinct = if self.random.one_in(8) { "DISTINCT " } else { "" };
        let mut sql = format!("SELECT {distinct}{} FROM {from}", columns.join(", "));
        if !self.random.one_in(4) {
            sql += &format!(" WHERE {}", self.condition(&scope, depth));
        }
        sql
    }

    fn aggregate(&mut self, width: usize) -> String {
        let sources = 1 + self.random.weighted(&[75, 25]);
        let (from, scope) = self.from(sources);
        let key = self.operand(&scope);
        let mut columns = vec![key.clone()];
        columns.extend((1..width).map(|_| self.aggregate_call(&scope)));
        let keys = if self.random.one_in(4) { format!("{key}, {}", self.expression(&scope, 1)) } else { key };
        let mut sql = format!("SELECT {} FROM {from}", columns.join(", "));
        if self.random.one_in(2) {
            sql += &format!(" WHERE {}", self.condition(&scope, 1));
        }
        if !self.random.one_in(5) {
            sql += &format!(" GROUP BY {keys}");
            if self.random.one_in(4) {
                sql += &format!(" HAVING {} > {}", self.aggregate_call(&scope), self.literal());
            }
        }
        sql
    }

    fn aggregate_call(&mut self, scope: &Scope) -> String {
        let argument = self.column(scope);
        let distinct = if self.random.one_in(4) { "DISTINCT " } else { "" };
        let mut call = match self.random.index(9) {
            0 => "count(*)".to_owned(),
            1 => format!("count({distinct}{argument})"),
            2 => format!("sum({distinct}{argument})"),
            3 => format!("total({argument})"),
            4 => format!("avg({argument})"),
            5 => format!("min({argument})"),
            6 => format!("max({argument})"),
            7 => format!("json_group_array(quote({argument}))"),
            _ => return format!("substr(group_concat({argument} ORDER BY {argument}), 1, 200)"),
        };
        if self.random.one_in(6) {
            call += &format!(" FILTER (WHERE {})", self.condition(scope, 1));
        }
        call
    }

    fn windowed(&mut self) -> String {
        let (from, scope) = self.from(1);
        let mut columns = vec![self.column(&scope)];
        for _ in 0..=self.random.index(2) {
            let argument = self.column(&scope);
            let call = match self.random.index(14) {
                0 => "row_number()".to_owned(),
                1 => "rank()".to_owned(),
                2 => "dense_rank()".to_owned(),
                3 => format!("lag({argument}, 1, 0)"),
                4 => format!("first_value({argument})"),
                5 => format!("ntile({})", 1 + self.random.below(4)),
                6 => format!("sum({argument})"),
                7 => "percent_rank()".to_owned(),
                8 => "cume_dist()".to_owned(),
                9 => format!("nth_value({argument}, 2)"),
                10 => format!("lead({argument}, 2)"),
                11 => format!("last_value({argument})"),
                12 => format!("min({argument})"),
                _ => "count(*)".to_owned(),
            };
            let partition = if self.random.one_in(2) {
                format!("PARTITION BY {} ", self.column(&scope))
            } else {
                String::new()
            };
            let order =
                format!("{}{}", self.column(&scope), self.random.pick(&["", "", " DESC", " NULLS LAST"]));
            let frame = self.random.pick(&[
                " RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING",
                " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE TIES",
                "",
                " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
                " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            ]);
            columns.push(format!("{call} OVER ({partition}ORDER BY {order}{frame})"));
        }
        let limit = self.limit();
        format!("SELECT {} FROM {from}{limit}", columns.join(", "))
    }

    pub(super) fn compound(&mut self, width: usize) -> String {
        let mut sql = self.select_plain(width, 1);
        for _ in 0..=self.random.index(2) {
            let operator = self.random.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
            let next =
                if self.random.one_in(4) { self.aggregate(width) } else { self.select_plain(width, 1) };
            sql += &format!(" {operator} {next}");
        }
        let ordered = self.order_by_position(width);
        let limited = self.limit();
        format!("{sql}{ordered}{limited}")
    }

    pub(super) fn with(&mut self, width: usize) -> String {
        let inner = self.select_plain(2, 1);
        let hint = self.random.pick(&["", "MATERIALIZED ", "NOT MATERIALIZED "]);
        let (from, mut scope) = self.from(1);
        scope.columns.extend(["c.x".to_owned(), "c.y".to_owned()]);
        let columns: Vec<String> = (0..width).map(|_| self.expression(&scope, 1)).collect();
        let join = self.condition(&scope, 1);
        let limit = self.limit();
        format!(
            "WITH c(x, y) AS {hint}({inner} LIMIT 30) SELECT {} FROM c JOIN {from} ON {join}{limit}",
            columns.join(", ")
        )
    }

    pub(super) fn recursive(&mut self) -> String {
        let (from, scope) = self.from(1);
        let steps = 1 + self.random.index(12);
        let union = self.random.pick(&["UNION", "UNION ALL"]);
        let column = self.column(&scope);
        format!(
            "WITH RECURSIVE r(n) AS (SELECT 1 {union} SELECT n + 1 FROM r WHERE n < {steps}) \
             SELECT n, {column} FROM r LEFT JOIN {from} ON {column} = n ORDER BY 1, 2"
        )
    }

    fn count(&mut self) -> String {
        let (from, scope) = self.from(1);
        if self.random.one_in(2) {
            return format!("SELECT count(*) FROM {from}");
        }
        let column = self.column(&scope);
        format!("SELECT min({column}), max({column}), count(DISTINCT {column}) FROM {from}")
    }

    /// What an index or the rowid can answer alone: a range of keys, from either end.
    fn range_of_one_table(&mut self) -> String {
        let Some(table) = self.any_table() else { return self.select(1, 1) };
        let scope = Self::scope_of(&table, false);
        let (first, second) = (self.column(&scope), self.column(&scope));
        let (way, second_way) = (self.random.pick(&["", " DESC"]), self.random.pick(&["", " DESC"]));
        let path = table.path();
        let condition = match self.random.index(6) {
            0 => format!("{first} = {} AND {second} > {}", self.literal(), self.literal()),
            1 => format!("{first} BETWEEN {} AND {}", self.literal(), self.literal()),
            2 => format!("{first} IN ({}, {}, {})", self.literal(), self.literal(), self.literal()),
            3 => format!("{first} < {} OR {second} = {}", self.literal(), self.literal()),
            4 => format!("({first}, {second}) IN (SELECT {first}, {second} FROM {path} LIMIT 5)"),
            _ => format!("{first} >= {}", self.literal()),
        };
        let distinct = self.random.pick(&["", "", "DISTINCT "]);
        let limit = self.limit();
        format!(
            "SELECT {distinct}{first}, {second} FROM {path} WHERE {condition} \
             ORDER BY {first}{way}, {second}{second_way}{limit}"
        )
    }

    /// A walk along the rows of a table, each step by a search.
    fn walk(&mut self) -> String {
        let Some(table) = self.any_table() else { return self.select(1, 1) };
        let scope = Self::scope_of(&table, false);
        let (from, to, path) = (self.column(&scope), self.column(&scope), table.path());
        let (union, order) = (
            self.random.pick(&["UNION", "UNION ALL"]),
            self.random.pick(&["", " ORDER BY 1", " ORDER BY 2 DESC"]),
        );
        format!(
            "WITH RECURSIVE w(x, n) AS (SELECT {from}, 0 FROM {path} {union} \
             SELECT {to}, n + 1 FROM w JOIN {path} ON {from} = x WHERE n < 3{order} LIMIT 60) SELECT x, n FROM w"
        )
    }

    fn full_text_or_rtree(&mut self) -> String {
        let virtuals: Vec<Relation> = self
            .catalog
            .relations
            .iter()
            .filter(|r| matches!(r.kind, Kind::FullText | Kind::RTree))
            .cloned()
            .collect();
        let Some(relation) = self.random.choose(&virtuals).cloned() else {
            return self.select(2, 1);
        };
        let path = relation.path();
        if relation.kind == Kind::RTree {
            let (low, high) = (self.random.between(-5, 10), self.random.between(5, 30));
            return format!("SELECT * FROM {path} WHERE x0 >= {low} AND x1 <= {high} ORDER BY id");
        }
        let term = self.random.pick(&["a", "b", "ab", "\"a b\"", "a OR b", "a NOT b", "a*", "zoë"]);
        format!("SELECT rowid, * FROM {path}('{term}') ORDER BY rank, rowid")
    }

    /// A FROM clause of `count` sources, and what can be named in the rest of the query.
    pub(super) fn from(&mut self, count: usize) -> (String, Scope) {
        let mut scope = Scope { columns: Vec::new(), subqueries: true };
        let mut sql = String::new();
        for index in 0..count {
            let source = self.source();
            let join = self.random.pick(&[
                ", ",
                " JOIN ",
                " LEFT JOIN ",
                " CROSS JOIN ",
                " RIGHT JOIN ",
                " FULL JOIN ",
                " NATURAL JOIN ",
                " NATURAL LEFT JOIN ",
            ]);
            let left = self.column(&scope);
            scope.columns.extend(source.columns.iter().map(|c| format!("{}.{c}", source.alias)));
            if index == 0 {
                sql = source.sql;
                continue;
            }
            sql += join;
            sql += &source.sql;
            if join.ends_with("JOIN ") && !join.contains("NATURAL") {
                let right = self.random.choose(&source.columns).cloned().unwrap_or_default();
                sql += &format!(" ON {left} = {}.{right}", source.alias);
            }
        }
        (sql, scope)
    }

    fn source(&mut self) -> Source {
        self.aliases += 1;
        let alias = format!("s{}", self.aliases);
        let relations = self.catalog.relations.len();
        if relations == 0 || self.random.one_in(20) {
            let sql = match self.random.index(3) {
                0 => format!("json_each('[1, \"a\", null, 2.5]') AS {alias}"),
                1 => format!("(SELECT 1 AS value UNION ALL SELECT 'a') AS {alias}"),
                _ => format!("(VALUES (1), (NULL), (3)) AS {alias}"),
            };
            let column = if sql.starts_with("(VALUES") { "column1" } else { "value" };
            return Source { sql, alias, columns: vec![column.to_owned()] };
        }
        let relation = self.catalog.relations[self.random.index(relations)].clone();
        let mut columns: Vec<String> = relation.columns.iter().map(|c| c.name.clone()).collect();
        if relation.kind == Kind::Rowid && self.random.one_in(4) {
            columns.push("rowid".to_owned());
        }
        let path = relation.path();
        if self.random.one_in(12) {
            let limit = 1 + self.random.index(20);
            columns.retain(|c| c != "rowid");
            return Source {
                sql: format!("(SELECT * FROM {path} LIMIT {limit}) AS {alias}"),
                alias,
                columns,
            };
        }
        let indexed = self.index_hint(&relation);
        Source { sql: format!("{path} AS {alias}{indexed}"), alias, columns }
    }

    fn index_hint(&mut self, relation: &Relation) -> String {
        if !self.random.one_in(10) || matches!(relation.kind, Kind::View | Kind::FullText | Kind::RTree) {
            return String::new();
        }
        let index =
            self.catalog.indexes.iter().find(|i| i.table == relation.name && i.schema == relation.schema);
        index.map_or_else(|| " NOT INDEXED".to_owned(), |index| format!(" INDEXED BY {}", index.name))
    }

    fn order_by_position(&mut self, width: usize) -> String {
        if self.random.one_in(2) {
            return String::new();
        }
        let terms: Vec<String> = (0..=self.random.index(2))
            .map(|_| {
                let position = 1 + self.random.index(width);
                let collation = if self.random.one_in(6) {
                    format!(" COLLATE {}", self.random.pick(COLLATIONS))
                } else {
                    String::new()
                };
                let order = self.random.pick(&["", "", " ASC", " DESC", " DESC NULLS FIRST", " NULLS LAST"]);
                format!("{position}{collation}{order}")
            })
            .collect();
        format!(" ORDER BY {}", terms.join(", "))
    }

    fn limit(&mut self) -> String {
        match self.random.index(6) {
            0 => format!(" LIMIT {}", self.random.below(10)),
            1 => format!(" LIMIT {} OFFSET {}", self.random.below(10), self.random.below(5)),
            _ => String::new(),
        }
    }
}
