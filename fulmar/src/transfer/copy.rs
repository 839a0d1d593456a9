//! Carries out a plan, in batches of which each is one commit.

use rusqlite::Connection;
use xxhash_rust::xxh3::Xxh3;

use super::failure::{At, Failure, Result};
use super::plan::{Plan, Step, Table};
use super::report::Report;
use crate::shell::statement::Statement;

/// A batch ends when it has come to this: some tens of milliseconds, and a bounded part of the memory, in which a
/// transaction's changes are until its commit.
const BATCH_BYTES: usize = 4 << 20;
/// What a row costs beside its bytes, and what a statement of the schema does.
const ROW_BYTES: usize = 256;
const STATEMENT_BYTES: usize = 64 << 10;
/// A batch that has met so many conflicts, one after the other, will go on to: others write all the time.
const MOST_CONFLICTS: u32 = 20;

/// How far a plan is carried out.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// Steps done.
    pub(super) steps: usize,
    /// Rows done of the next step.
    pub(super) rows: u64,
}

/// One side of a copy.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) connection: &'a Connection,
    /// How errors call it.
    pub(super) name: &'a str,
}

/// Where is written down how far a plan is carried out.
pub(super) trait Ledger {
    /// Whether a batch can be carried out again. Not where its source is a transaction, too, which may be what has met the conflict:
    /// what is read next is of another snapshot.
    const GOES_ON: bool = true;

    /// Refuses to go on, at the beginning of a batch, if it is not this far.
    fn expect(&self, position: Position) -> Result<()>;
    /// Notes, before the batch's commit, how far it comes with it.
    fn note(&self, position: Position) -> Result<()>;
}

/// For what cannot go on.
impl Ledger for () {
    const GOES_ON: bool = false;

    fn expect(&self, _: Position) -> Result<()> {
        Ok(())
    }

    fn note(&self, _: Position) -> Result<()> {
        Ok(())
    }
}

/// A table as it was read: what a backup must hold.
pub(super) struct Content {
    pub(super) table: String,
    pub(super) rows: u64,
    pub(super) checksum: String,
}

/// Carries out what is left of `plan` from `position` on. Answers what was read of each table that was copied from its beginning.
///
/// A batch that is rolled back for a conflict is carried out again, if the ledger says that nobody else has come further: servers
/// that lose a part of it say the same.
pub(super) fn copy<L: Ledger>(
    source: Side<'_>,
    target: Side<'_>,
    plan: &Plan,
    position: Position,
    report: &mut Report,
    ledger: &L,
) -> Result<Vec<Content>> {
    let mut copy = Copy { source, target, plan, position, open: None, contents: Vec::new() };
    let mut conflicts = 0;
    while copy.position.steps < plan.steps.len() {
        let (begin, read) = (copy.position, copy.contents.len());
        match copy.batch(report, ledger) {
            Ok(()) => {
                conflicts = 0;
                report.committed();
            }
            Err(why) if L::GOES_ON && why.is_conflict() && conflicts < MOST_CONFLICTS => {
                conflicts += 1;
                copy.roll_back()?;
                (copy.position, copy.open) = (begin, None);
                copy.contents.truncate(read);
                report.go_back(plan.rows_before(begin.steps));
            }
            Err(why) => return Err(why),
        }
    }
    Ok(copy.contents)
}

/// A plan that is being carried out.
struct Copy<'a> {
    source: Side<'a>,
    target: Side<'a>,
    plan: &'a Plan,
    position: Position,
    /// The table at hand.
    open: Option<Rows<'a>>,
    contents: Vec<Content>,
}

impl Copy<'_> {
    fn run(&self, sql: &str) -> Result<()> {
        self.target.connection.execute_batch(sql).at(self.target.name)
    }

    fn batch(&mut self, report: &mut Report, ledger: &impl Ledger) -> Result<()> {
        let target = self.target;
        self.run("BEGIN")?;
        ledger.expect(self.position)?;
        let mut left = BATCH_BYTES;
        let mut wrote_schema = false;
        while let (Some(step), true) = (self.plan.steps.get(self.position.steps), left > 0) {
            match step {
                Step::Create { name, sql } => {
                    let place = format!("{}: {name}", target.name);
                    create(target.connection, name, sql).at(&place)?;
                    // An index is made of all rows at once, and ends its batch.
                    let is_index = sql.starts_with("CREATE INDEX") || sql.starts_with("CREATE UNIQUE INDEX");
                    left = if is_index { 0 } else { left.saturating_sub(STATEMENT_BYTES) };
                }
                Step::Virtual { name, sql } => {
                    let insert = "INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql)
                                  VALUES('table', ?1, ?1, 0, ?2)";
                    self.run("PRAGMA writable_schema = ON")?;
                    target.connection.execute(insert, [name, sql]).at(&format!("{}: {name}", target.name))?;
                    (wrote_schema, left) = (true, 0);
                }
                Step::Rows(table) => {
                    let rows = match &mut self.open {
                        Some(rows) => rows,
                        None => self.open.insert(Rows::open(self.source, target, table, self.position.rows)?),
                    };
                    let is_done = rows.copy(&mut left, &mut self.position.rows)?;
                    report.reach(&table.name, self.position.rows);
                    if !is_done {
                        break;
                    }
                    let whole = self.open.take().and_then(|rows| rows.content(self.position.rows));
                    self.contents.extend(whole);
                    report.finish_table(table.rows);
                }
            }
            self.position = Position { steps: self.position.steps + 1, rows: 0 };
        }
        ledger.note(self.position)?;
        self.run("COMMIT")?;
        if wrote_schema {
            // Has SQLite read the schema anew.
            self.run("PRAGMA writable_schema = RESET")?;
        }
        Ok(())
    }

    /// A conflict rolls back by itself, but not when it is found by a statement.
    fn roll_back(&self) -> Result<()> {
        if self.target.connection.is_autocommit() { Ok(()) } else { self.run("ROLLBACK") }
    }
}

/// What SQLite keeps itself has a name that nobody else may give.
fn create(target: &Connection, name: &str, sql: &str) -> rusqlite::Result<()> {
    if !name.starts_with("sqlite_") {
        return target.execute_batch(sql);
    }
    target.execute_batch("PRAGMA writable_schema = ON")?;
    let created = target.execute_batch(sql);
    target.execute_batch("PRAGMA writable_schema = OFF")?;
    created
}

/// Reads all rows of all tables of a database, as a copy would.
pub(super) fn read(source: Side<'_>, plan: &Plan, report: &mut Report) -> Result<Vec<Content>> {
    let mut contents = Vec::new();
    for table in plan.tables() {
        let place = format!("{}: table {}", source.name, table.name);
        let mut select = prepare(source.connection, &table.select(0), &place)?;
        let (mut digest, mut rows) = (Xxh3::new(), 0);
        while select.step().at(&place)? {
            look_at(&mut select, Some(&mut digest));
            rows += 1;
            report.reach(&table.name, rows);
        }
        report.finish_table(table.rows);
        contents.push(Content { table: table.name.clone(), rows, checksum: checksum(&digest) });
    }
    Ok(contents)
}

/// The rows of one table on their way.
struct Rows<'a> {
    table: &'a str,
    places: [String; 2],
    select: Statement<'a>,
    insert: Statement<'a>,
    /// Of all rows, if none was skipped.
    digest: Option<Xxh3>,
}

impl<'a> Rows<'a> {
    fn open(source: Side<'a>, target: Side<'a>, table: &'a Table, skipped: u64) -> Result<Self> {
        let places = [source, target].map(|side| format!("{}: table {}", side.name, table.name));
        if table.is_kept_by_sqlite && skipped == 0 {
            target.connection.execute_batch(&format!("DELETE FROM {}", table.name)).at(&places[1])?;
        }
        Ok(Self {
            table: &table.name,
            select: prepare(source.connection, &table.select(skipped), &places[0])?,
            insert: prepare(target.connection, &table.insert(), &places[1])?,
            places,
            digest: (skipped == 0).then(Xxh3::new),
        })
    }

    /// Copies rows until the batch is full; answers whether there are no more.
    fn copy(&mut self, left: &mut usize, rows: &mut u64) -> Result<bool> {
        while *left > 0 {
            if !self.select.step().at(&self.places[0])? {
                return Ok(true);
            }
            for column in 0..self.select.column_count() {
                self.insert.bind_column(column + 1, &self.select, column).at(&self.places[1])?;
            }
            let inserted = self.insert.step();
            self.insert.reset();
            inserted.at(&self.places[1])?;
            let bytes = look_at(&mut self.select, self.digest.as_mut());
            *left = left.saturating_sub(bytes + ROW_BYTES);
            *rows += 1;
        }
        Ok(false)
    }

    fn content(self, rows: u64) -> Option<Content> {
        let digest = self.digest?;
        Some(Content { table: self.table.into(), rows, checksum: checksum(&digest) })
    }
}

/// Adds a row to a digest; answers how many bytes it has.
fn look_at(row: &mut Statement<'_>, mut digest: Option<&mut Xxh3>) -> usize {
    let mut sum = 0;
    for column in 0..row.column_count() {
        row.look_at(column, |kind, bytes| {
            sum += bytes.len();
            if let Some(digest) = &mut digest {
                digest.update(&kind.to_le_bytes());
                digest.update(&(bytes.len() as u64).to_le_bytes());
                digest.update(bytes);
            }
        });
    }
    sum
}

fn checksum(digest: &Xxh3) -> String {
    format!("{:032x}", digest.digest128())
}

fn prepare<'a>(connection: &'a Connection, sql: &str, place: &str) -> Result<Statement<'a>> {
    let (statement, _) = Statement::prepare(connection, sql).at(place)?;
    statement.ok_or_else(|| Failure::Refused(format!("{place}: no statement in {sql:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    fn schema(connection: &Connection) -> Vec<String> {
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_schema ORDER BY name").expect("a schema");
        let names = statement.query_map([], |row| row.get(0)).expect("names");
        names.map(|name| name.expect("a name")).collect()
    }

    /// Has every batch meet two conflicts before its commit.
    struct Contested {
        reached: Cell<Position>,
        batches: Cell<u32>,
    }

    impl Ledger for Contested {
        fn expect(&self, position: Position) -> Result<()> {
            assert_eq!(position, self.reached.get());
            Ok(())
        }

        fn note(&self, position: Position) -> Result<()> {
            self.batches.update(|batches| batches + 1);
            if !self.batches.get().is_multiple_of(3) {
                let code = rusqlite::ffi::SQLITE_BUSY_SNAPSHOT;
                return Err(Failure::Sql { place: "target".into(), code, message: "conflict".into() });
            }
            self.reached.set(position);
            Ok(())
        }
    }

    #[test]
    fn a_batch_that_meets_a_conflict_is_carried_out_again() {
        let source = Connection::open_in_memory().expect("a database");
        let rows = "CREATE TABLE t(a, b);
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 30)
                    INSERT INTO t SELECT i, zeroblob(1000000) FROM n;
                    CREATE TABLE u(a UNIQUE); INSERT INTO u VALUES (1), (2); CREATE INDEX t_a ON t(a);
                    CREATE VIEW v AS SELECT a FROM t; CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES('y')";
        source.execute_batch(rows).expect("SQL");
        let plan = Plan::of(&source, |_| false, "source").expect("a plan");
        let target = Connection::open_in_memory().expect("a database");
        let [from, to] =
            [(&source, "source"), (&target, "target")].map(|(connection, name)| Side { connection, name });
        let mut report = Report::new(plan.rows, 0);
        let ledger = Contested { reached: Cell::default(), batches: Cell::new(0) };
        copy(from, to, &plan, Position::default(), &mut report, &ledger).expect("a copy");
        assert!(ledger.batches.get() > 20, "{} batches", ledger.batches.get());
        assert_eq!(schema(&source), schema(&target));
        let all = |connection| {
            let plan = Plan::of(connection, |_| false, "it").expect("a plan");
            let contents = read(Side { connection, name: "it" }, &plan, &mut Report::new(plan.rows, 0));
            contents
                .expect("rows")
                .into_iter()
                .map(|c| (c.table, c.rows, c.checksum))
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(all(&source), all(&target));
    }

    /// Counts batches, none of which gets far.
    #[derive(Default)]
    struct Lost<const GOES_ON: bool>(Cell<u32>);

    impl<const GOES_ON: bool> Ledger for Lost<GOES_ON> {
        const GOES_ON: bool = GOES_ON;

        fn expect(&self, _: Position) -> Result<()> {
            self.0.update(|batches| batches + 1);
            let code = rusqlite::ffi::SQLITE_BUSY_SNAPSHOT;
            Err(Failure::Sql { place: "target".into(), code, message: "conflict".into() })
        }

        fn note(&self, _: Position) -> Result<()> {
            Ok(())
        }
    }

    /// Who writes all the time keeps an import from going on, not from ending; and a lost snapshot ends an export at once.
    #[test]
    fn a_batch_that_only_meets_conflicts_fails() {
        fn attempts<const GOES_ON: bool>() -> u32 {
            let [source, target] = [(); 2].map(|()| Connection::open_in_memory().expect("a database"));
            source.execute_batch("CREATE TABLE t(a)").expect("SQL");
            let plan = Plan::of(&source, |_| false, "source").expect("a plan");
            let [from, to] = [(&source, "source"), (&target, "target")]
                .map(|(connection, name)| Side { connection, name });
            let ledger = Lost::<GOES_ON>::default();
            let failure = copy(from, to, &plan, Position::default(), &mut Report::new(0, 0), &ledger);
            assert!(failure.is_err_and(|why| why.is_conflict()));
            ledger.0.get()
        }
        assert_eq!((attempts::<true>(), attempts::<false>()), (1 + MOST_CONFLICTS, 1));
    }

    #[test]
    fn indexes_of_large_tables_are_made_before_the_rows() {
        let source = Connection::open_in_memory().expect("a database");
        source
            .execute_batch(
                "CREATE TABLE t(a, b); CREATE UNIQUE INDEX t_a ON t(a); INSERT INTO t VALUES(1, 2), (3, 4);
                 CREATE VIEW v AS SELECT a FROM t; CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES('y')",
            )
            .expect("SQL");
        for is_large in [true, false] {
            let plan = Plan::of(&source, |_| is_large, "source").expect("a plan");
            let at = |wanted: &dyn Fn(&Step) -> bool| plan.steps.iter().position(wanted).expect("a step");
            let index = at(&|step| matches!(step, Step::Create { name, .. } if name == "t_a"));
            let rows = at(&|step| matches!(step, Step::Rows(table) if table.name == "t"));
            assert_eq!(index < rows, is_large);
            let target = Connection::open_in_memory().expect("a database");
            let (from, to) =
                (Side { connection: &source, name: "source" }, Side { connection: &target, name: "target" });
            let mut report = Report::new(plan.rows, 0);
            let copied = copy(from, to, &plan, Position::default(), &mut report, &()).expect("a copy");
            assert_eq!(schema(&source), schema(&target));
            let plan = Plan::of(&target, |_| is_large, "target").expect("a plan");
            let read = read(to, &plan, &mut report).expect("rows");
            let summary = |contents: &[Content]| {
                let mut all: Vec<_> =
                    contents.iter().map(|c| (c.table.clone(), c.rows, c.checksum.clone())).collect();
                all.sort();
                all
            };
            assert_eq!(summary(&copied), summary(&read));
        }
    }
}
