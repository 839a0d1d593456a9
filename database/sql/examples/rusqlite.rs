//! `rusqlite` on a Fulmar database: `cargo run -p fulmar-sql --example rusqlite -- /tmp/notes`.

use fulmar_sql as _; // links SQLite on Fulmar's tree; rusqlite's feature `in_gecko` leaves that to us

fn main() -> rusqlite::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "notes".into());
    let connection = rusqlite::Connection::open(format!("fulmar:{directory}"))?;
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS note(id INTEGER PRIMARY KEY, text TEXT NOT NULL)")?;
    let id: i64 = connection.query_row(
        "INSERT INTO note(text) VALUES (?1) RETURNING id",
        ["a petrel, of the same order as the albatross"],
        |row| row.get(0),
    )?;
    let notes: i64 = connection.query_row("SELECT count(*) FROM note", [], |row| row.get(0))?;
    println!("note {id} of {notes}, by SQLite {} on {directory}", fulmar_sql::version());
    Ok(())
}
