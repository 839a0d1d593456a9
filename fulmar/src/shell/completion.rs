//! What a word on the line may become when Tab is pressed.

use std::rc::Rc;

use rusqlite::Connection;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::dot::COMMANDS;
use super::quoting::{quoted_name, sql_name};
use super::statement::keyword;

/// Completes names of dot commands, and in SQL keywords and the names of the schema.
pub(crate) struct Completion {
    /// The session's connection when the line was begun.
    pub(super) connection: Rc<Connection>,
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let begin = before
            .rfind(|character: char| !character.is_alphanumeric() && character != '_')
            .map_or(0, |end| end + before[end..].chars().next().map_or(1, char::len_utf8));
        let word = &before[begin..];
        if before[..begin] == *"." {
            let names = COMMANDS.iter().map(|command| command.name);
            return Ok((begin, names.filter(|name| name.starts_with(word)).map(str::to_owned).collect()));
        }
        Ok((begin, self.words_of_sql(word)))
    }
}

impl Completion {
    fn words_of_sql(&self, word: &str) -> Vec<String> {
        if word.is_empty() {
            return Vec::new();
        }
        // A schema that cannot be read, as while another program changes it, is no reason to disturb the line.
        let mut found: Vec<String> = self
            .schema_names()
            .unwrap_or_default()
            .into_iter()
            .filter(|name| begins_with(name, word))
            .map(|name| sql_name(&name))
            .collect();
        let in_lower_case = !word.chars().any(char::is_uppercase);
        let keywords = (0..).map_while(keyword).filter(|keyword| begins_with(keyword, word));
        found.extend(keywords.map(
            |keyword| {
                if in_lower_case { keyword.to_lowercase() } else { keyword.to_owned() }
            },
        ));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The tables, views and columns of all attached databases.
    fn schema_names(&self) -> rusqlite::Result<Vec<String>> {
        let connection = &self.connection;
        let mut databases = connection.prepare("SELECT name FROM pragma_database_list")?;
        let databases: Vec<String> = databases.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let mut names = Vec::new();
        for database in databases {
            let mut objects = connection.prepare(&format!(
                "SELECT name FROM {}.sqlite_schema WHERE type IN ('table', 'view')",
                quoted_name(&database)
            ))?;
            let objects: Vec<String> = objects.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1, ?2)")?;
            for object in &objects {
                // A view on what is gone has no columns.
                let Ok(rows) = columns.query_map([object, &database], |row| row.get(0)) else { continue };
                names.extend(rows.filter_map(Result::<String, _>::ok));
            }
            names.push(database);
            names.extend(objects);
        }
        Ok(names)
    }
}

fn begins_with(name: &str, word: &str) -> bool {
    name.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
}

impl Helper for Completion {}
impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}

#[cfg(test)]
mod tests {
    use rustyline::history::MemHistory;

    use super::*;

    fn complete(line: &str) -> (usize, Vec<String>) {
        let connection = Connection::open_in_memory().expect("memory");
        connection.execute_batch("CREATE TABLE birds(species, wing_span)").expect("a table");
        let history = MemHistory::new();
        let completion = Completion { connection: Rc::new(connection) };
        completion.complete(line, line.len(), &Context::new(&history)).expect("candidates")
    }

    #[test]
    fn words_become_commands_keywords_and_names() {
        assert_eq!(complete(".tab"), (1, vec!["tables".to_owned()]));
        assert_eq!(
            complete("select wi"),
            (7, ["window", "wing_span", "with", "without"].map(str::to_owned).to_vec())
        );
        assert_eq!(complete("SELECT * FROM BI"), (14, vec!["birds".to_owned()]));
        assert_eq!(complete("select "), (7, Vec::new()));
    }
}
