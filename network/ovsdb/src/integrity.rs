//! What must hold when a transaction ends (RFC 7047, section 3.2): references lead to rows, rows that are no roots are referred to,
//! indexes are unique, tables are not too large, and what rows hold is allowed.
//!
//! Only what is touched is looked at: what a transaction leaves as it was, was right before. Who refers to a row is known by the
//! [links](crate::database::Links) of what is committed, and by the rows that were touched.

use crate::database::{index_keys, references};
use crate::row::{Row, RowKey};
use crate::schema::Strength;
use crate::{Draft, Error, Tag};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deletes what nothing refers to, forgets weak references to what is gone, and checks the rest.
pub(crate) fn settle(draft: &mut Draft<'_>) -> Result<(), Error> {
    // Forgetting a pair of a map may take a strong reference along, and so a row.
    loop {
        collect_garbage(draft);
        if !forget_weak_references(draft)? {
            break;
        }
    }
    check_values(draft)?;
    check_strong_references(draft)?;
    check_sizes(draft)?;
    check_indexes(draft)
}

/// `isRoot`: a row of any other table is there for as long as another row refers to it strongly. Rows of a circle keep each other.
fn collect_garbage(draft: &mut Draft<'_>) {
    #[cfg(test)]
    if draft.database.defect == Some(crate::database::Defect::KeepsGarbage) {
        return;
    }
    let mut suspects: Vec<RowKey> = draft.touched.keys().copied().collect();
    let lost = draft.touched.keys().flat_map(|key| targets(draft, *key, draft.database.get(*key)));
    suspects.extend(lost.collect::<Vec<_>>());
    let mut counts = new_referrers(draft);
    while let Some(key) = suspects.pop() {
        let Some(row) = draft.get(key) else { continue };
        if draft.database.table(key.table).is_root() || counts.get(&key).is_some_and(|count| *count > 0) {
            continue;
        }
        if untouched_referrers(draft, key).next().is_some() {
            continue;
        }
        let lost: Vec<RowKey> = targets(draft, key, Some(row)).collect();
        if draft.touched.contains_key(&key) {
            // It counts no more.
            lost.iter().for_each(|target| *counts.entry(*target).or_default() -= 1);
        }
        draft.remove(key);
        suspects.extend(lost);
    }
}

/// The rows that a row keeps alive.
fn targets<'r>(
    draft: &'r Draft<'_>,
    key: RowKey,
    row: Option<&'r Arc<Row>>,
) -> impl Iterator<Item = RowKey> + 'r {
    let all = row.into_iter().flat_map(move |row| references(draft.database.schema(), key, row));
    all.filter(move |(to, strength)| *strength == Strength::Strong && *to != key).map(|(to, _)| to)
}

/// How many references to each row there are in those that were touched.
fn new_referrers(draft: &Draft<'_>) -> BTreeMap<RowKey, usize> {
    let mut counts = BTreeMap::new();
    for (key, row) in &draft.touched {
        targets(draft, *key, row.as_ref()).for_each(|target| *counts.entry(target).or_default() += 1);
    }
    counts
}

/// Who refers to a row strongly and is as it was.
fn untouched_referrers(draft: &Draft<'_>, target: RowKey) -> impl Iterator<Item = RowKey> {
    let committed = draft.database.links.to(target, Strength::Strong);
    committed.filter(|key| !draft.touched.contains_key(key))
}

/// `refType`: a weak reference to a row that is gone, or never was, goes too. Whether there were any.
fn forget_weak_references(draft: &mut Draft<'_>) -> Result<bool, Error> {
    let gone = draft.touched.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| *key);
    let bereft = gone.flat_map(|key| draft.database.links.to(key, Strength::Weak));
    let mut suspects: Vec<RowKey> = bereft.chain(draft.touched.keys().copied()).collect();
    suspects.sort_unstable();
    suspects.dedup();
    let mut any = false;
    for key in suspects {
        let Some(row) = draft.get(key) else { continue };
        let Some(row) = without_dangling(draft, key, row)? else { continue };
        draft.put(key, row);
        any = true;
    }
    Ok(any)
}

/// The row without weak references that lead nowhere, if it has any.
fn without_dangling(draft: &Draft<'_>, key: RowKey, row: &Row) -> Result<Option<Row>, Error> {
    let schema = draft.database.schema();
    let dangles = |(table, strength, uuid): (&str, Strength, _)| {
        let is_gone = |table| draft.get(RowKey { table, uuid }).is_none();
        strength == Strength::Weak && schema.find(table).is_none_or(is_gone)
    };
    let table = draft.database.table(key.table);
    let mut changed: Option<Row> = None;
    for (at, column) in table.columns().iter().enumerate() {
        let (datum, kind) = (&row.0[at], column.kind());
        if !datum.references(kind).any(dangles) {
            continue;
        }
        let kept = datum.filtered(|key, value| {
            let alone = match value {
                Some(value) => crate::Datum::map([(key.clone(), value.clone())]),
                None => crate::Datum::set([key.clone()]),
            };
            !alone.references(kind).any(dangles)
        });
        if !kind.allows(kept.len()) {
            return Err(Error::constraint(format!(
                "table {}, row {}, column {}: rows to which it refers are not there, and without them it would be empty, \
                 which it must not be",
                table.name(),
                key.uuid,
                column.name()
            )));
        }
        changed.get_or_insert_with(|| row.clone()).0[at] = kept;
    }
    Ok(changed)
}

/// Columns hold what their types allow. What is ephemeral is as by default after a restart, whether that is allowed or not.
fn check_values(draft: &Draft<'_>) -> Result<(), Error> {
    for (key, row) in draft.touched.iter().filter_map(|(key, row)| Some((key, row.as_ref()?))) {
        let table = draft.database.table(key.table);
        for (column, datum) in table.columns().iter().zip(&row.0).filter(|(column, _)| !column.is_ephemeral())
        {
            let place = || format!("table {}, row {}, column {}", table.name(), key.uuid, column.name());
            datum.check(column.kind()).map_err(|why| why.within(place()))?;
        }
    }
    Ok(())
}

/// A strong reference leads to a row.
fn check_strong_references(draft: &Draft<'_>) -> Result<(), Error> {
    #[cfg(test)]
    if draft.database.defect == Some(crate::database::Defect::LetsReferencesDangle) {
        return Ok(());
    }
    let violation = |from: RowKey, to: RowKey| {
        let name =
            |key: RowKey| format!("row {} of table {}", key.uuid, draft.database.table(key.table).name());
        let details = format!("{} refers to {}, which is not there", name(from), name(to));
        Err(Error::new(Tag::ReferentialIntegrityViolation, details))
    };
    for (key, row) in &draft.touched {
        if let Some(row) = row {
            let mut all = references(draft.database.schema(), *key, row);
            if let Some((to, _)) = all.find(|(to, _)| draft.get(*to).is_none()) {
                return violation(*key, to);
            }
        } else if let Some(from) = untouched_referrers(draft, *key).next() {
            return violation(from, *key);
        }
    }
    Ok(())
}

/// `maxRows`: enforced when garbage is gone.
fn check_sizes(draft: &Draft<'_>) -> Result<(), Error> {
    for (at, table) in draft.database.schema().tables().iter().enumerate() {
        let Some(max) = table.max_rows() else { continue };
        if !draft.touched.keys().any(|key| key.table == at) {
            continue;
        }
        let rows = draft.rows_at(at).count();
        if rows > max {
            let details = format!("table {} would have {rows} rows: expected {max} at most", table.name());
            return Err(Error::constraint(details));
        }
    }
    Ok(())
}

/// `indexes`: no two rows have the same values. Within a transaction they may, for a while.
fn check_indexes(draft: &Draft<'_>) -> Result<(), Error> {
    let schema = draft.database.schema();
    let mut taken = BTreeMap::new();
    for (key, row) in draft.touched.iter().filter_map(|(key, row)| Some((key, row.as_ref()?))) {
        for entry in index_keys(schema, *key, row) {
            let committed = draft.database.indexed.get(&entry).copied();
            let is_touched = |uuid: &_| draft.touched.contains_key(&RowKey { uuid: *uuid, ..*key });
            let holder = committed.filter(|uuid| !is_touched(uuid)).or_else(|| taken.get(&entry).copied());
            if let Some(holder) = holder {
                let table = draft.database.table(key.table);
                let values: Vec<String> = entry.values.iter().map(ToString::to_string).collect();
                return Err(Error::constraint(format!(
                    "table {}: rows {holder} and {} would both have {} in the index ({})",
                    table.name(),
                    key.uuid,
                    values.join(", "),
                    table.indexes()[entry.index].join(", ")
                )));
            }
            taken.insert(entry, key.uuid);
        }
    }
    Ok(())
}
