//! The database `_Server`, in which a server tells of the one that it keeps: clients of `ovsdb-server` look there first, and speak an
//! older dialect if it is missing.

use crate::{Base, Column, Database, Draft, Schema, Table, Type};
use fulmar_node::Random;
use std::sync::Arc;

fn schema() -> Schema {
    let optional = |name, base| Column::new(name, Type::optional(base));
    let columns = [
        Column::new("name", Type::one(Base::string())),
        Column::new("model", Type::one(Base::one_of(["standalone", "clustered", "relay"]))),
        Column::new("connected", Type::one(Base::Boolean)),
        Column::new("leader", Type::one(Base::Boolean)),
        optional("schema", Base::string()),
        optional("cid", Base::uuid()),
        optional("sid", Base::uuid()),
        optional("index", Base::integer()),
    ];
    let tables = [Table::new("Database", columns).root()];
    Schema::new("_Server", "1.2.0", tables).expect("it keeps the rules")
}

/// It tells of one database, which is always there.
pub(super) fn database(kept: &Schema, chance: &mut Random) -> Database {
    let mut database = Database::new(Arc::new(schema()));
    let mut draft = Draft::new(&database);
    let row = draft.insert("Database", chance);
    let told = [
        draft.set("Database", row, "name", kept.name()),
        draft.set("Database", row, "model", "standalone"),
        draft.set("Database", row, "connected", true),
        draft.set("Database", row, "leader", true),
        draft.set("Database", row, "schema", kept.to_json().to_string()),
    ];
    let told = told.into_iter().collect::<Result<(), _>>().and_then(|()| draft.finish(chance));
    database.apply(&told.expect("it keeps the rules"));
    database
}
