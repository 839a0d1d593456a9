//! The columns of `docs/openflow.md` are there.

use fulmar_ovsdb::open_vswitch;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openflow.md"));
const HEAD: &str = "| table | columns that are read | columns that are written |";

#[test]
fn the_page_names_columns_of_the_schema() {
    let schema = open_vswitch().to_json();
    let rows = PAGE.lines().skip_while(|line| *line != HEAD).skip(2).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let mut cells = row.split('|').skip(1);
        let table = cells.next().expect("a table").trim().trim_matches('`');
        for column in cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            // What is behind a colon is a key of it.
            let column = column.split(':').next().expect("a name");
            assert!(schema["tables"][table]["columns"].get(column).is_some(), "{table}.{column}");
            count += 1;
        }
    }
    assert!(count > 50, "{count} columns");
}
