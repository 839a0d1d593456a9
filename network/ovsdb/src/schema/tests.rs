use super::*;
use crate::open_vswitch;
use serde_json::{Value, json};

/// A schema of one table of one column of this type.
fn of_type(kind: &Value) -> Result<Schema, Error> {
    let table = json!({"columns": {"c": {"type": kind}}});
    Schema::from_json(&json!({"name": "S", "version": "1.0.0", "tables": {"T": table}}))
}

#[test]
fn a_schema_is_read_as_it_was_written() {
    let kinds = [
        json!("integer"),
        json!("real"),
        json!("boolean"),
        json!("string"),
        json!("uuid"),
        json!({"key": {"type": "integer", "minInteger": 3}}),
        json!({"key": {"type": "integer", "maxInteger": -3}, "min": 0}),
        json!({"key": {"type": "real", "minReal": 0.5, "maxReal": 1.0}, "max": 7}),
        json!({"key": {"type": "string", "minLength": 3, "maxLength": 4}, "min": 0, "max": "unlimited"}),
        json!({"key": {"type": "string", "enum": ["set", ["a", "b"]]}}),
        json!({"key": {"type": "integer", "enum": 7}}),
        json!({"key": {"type": "uuid", "refTable": "T"}}),
        json!({"key": "string", "value": {"type": "uuid", "refTable": "T", "refType": "weak"}, "min": 0, "max": "unlimited"}),
    ];
    for kind in kinds {
        let schema = of_type(&kind).unwrap_or_else(|why| panic!("{kind}: {why}"));
        assert_eq!(schema.to_json()["tables"]["T"]["columns"]["c"]["type"], kind);
        assert_eq!(Schema::from_json(&schema.to_json()), Ok(schema));
    }
    let switch = open_vswitch();
    assert_eq!(Schema::from_json(&switch.to_json()), Ok(switch));
}

#[test]
fn types_that_are_none_are_refused() {
    let wrong = [
        (json!("text"), "`text` is no type"),
        (json!({"key": "integer", "min": 2, "max": 3}), "a `min` of 0 or 1"),
        (json!({"key": "integer", "max": 0}), "a `min` of 0 or 1"),
        (json!({"key": "integer", "max": "many"}), "`max`: expected a number"),
        (json!({"key": {"type": "integer", "minInteger": 2, "maxInteger": 1}}), "its type allows no value"),
        (json!({"key": {"type": "integer", "minReal": 2}}), "`minReal` does not go with"),
        (json!({"key": {"type": "integer", "enum": ["set", []]}}), "expected 1 elements or more"),
        (json!({"key": {"type": "integer", "enum": 1, "minInteger": 0}}), "`minInteger` does not go with"),
        (json!({"key": {"type": "uuid", "refTable": "U"}}), "there is no table U"),
        (json!({"key": {"type": "uuid", "refTable": "T", "refType": "loose"}}), "`refType`: expected"),
        (json!({"key": "integer", "colour": 1}), "no member `colour` is expected"),
        (json!({"value": "integer"}), "`key` is missing"),
    ];
    for (kind, expected) in wrong {
        let why = of_type(&kind).expect_err("it is no type");
        assert!(why.details.contains(expected), "{kind}: {why}");
        assert!(why.details.contains("table T"), "{kind}: {why}");
    }
}

#[test]
fn schemas_that_break_rules_are_refused() {
    let column = || Column::new("c", Type::one(Base::integer()));
    let refused = |name, version, tables: Vec<Table>| {
        Schema::new(name, version, tables).expect_err("it breaks a rule").details
    };
    let table = |name| Table::new(name, [column()]);
    assert!(refused("1", "1.0.0", vec![]).contains("`1` is no name"));
    assert!(refused("S", "1.0", vec![]).contains("no version"));
    assert!(refused("S", "1.0.x", vec![]).contains("no version"));
    assert!(refused("S", "1.0.0", vec![table("T"), table("T")]).contains("two tables are called T"));
    assert!(refused("S", "1.0.0", vec![table("_T")]).contains("`_T` is no name"));
    assert!(refused("S", "1.0.0", vec![Table::new("T", [])]).contains("no columns"));
    assert!(
        refused("S", "1.0.0", vec![Table::new("T", [column(), column()])])
            .contains("two columns are called c")
    );
    assert!(refused("S", "1.0.0", vec![table("T").at_most(0)]).contains("`maxRows` is 0"));
    for index in [["d"].as_slice(), &[], &["c", "c"]] {
        assert!(
            refused("S", "1.0.0", vec![table("T").indexed_by(index)]).contains("expected distinct columns")
        );
    }
    let ephemeral = Table::new("T", [column().ephemeral()]).indexed_by(&["c"]);
    assert!(refused("S", "1.0.0", vec![ephemeral]).contains("that are kept"));
    let weak = Column::new("c", Type::set(Base::weak("T"))).immutable();
    assert!(refused("S", "1.0.0", vec![Table::new("T", [weak])]).contains("must be mutable"));
}

/// Section 3.2, `isRoot`.
#[test]
fn where_no_table_is_a_root_all_are() {
    let table = |name| Table::new(name, [Column::new("c", Type::one(Base::integer()))]);
    let roots = |tables: Vec<Table>| {
        let schema = Schema::new("S", "1.0.0", tables).expect("it keeps the rules");
        schema.tables().iter().map(Table::is_root).collect::<Vec<_>>()
    };
    assert_eq!(roots(vec![table("A"), table("B")]), [true, true]);
    assert_eq!(roots(vec![table("A").root(), table("B")]), [true, false]);
}
