use super::*;
use crate::Base;
use fulmar_node::Random;

/// An atom by chance, now and then one at the edge.
fn atom(base: &Base, chance: &mut Random) -> Atom {
    let texts = ["", "a", "\"", "\\", "\u{0}", "é\u{10ffff}", "[\"uuid\"]", "named-uuid"];
    match base {
        Base::Integer(..) if chance.one_in(4) => [i64::MIN, i64::MAX, 0][chance.index(3)].into(),
        Base::Integer(..) => chance.between(-9, 9).into(),
        Base::Real(..) if chance.one_in(4) => {
            let edge = [f64::MAX, f64::MIN_POSITIVE, -0.0, 5e-324][chance.index(4)];
            Real::new(edge).expect("it is finite").into()
        }
        Base::Real(..) => Real::new(chance.fraction() * 1e9 - 1e6).expect("it is finite").into(),
        Base::Boolean => chance.one_in(2).into(),
        Base::String(..) | Base::Enum(_) => texts[chance.index(texts.len())].into(),
        Base::Uuid(_) => Uuid::random(chance).into(),
    }
}

fn bases() -> [Base; 5] {
    [Base::integer(), Base::real(), Base::Boolean, Base::string(), Base::uuid()]
}

fn datum(kind: &Type, chance: &mut Random) -> Datum {
    let count = chance.below(5);
    match &kind.value {
        None => Datum::set((0..count).map(|_| atom(&kind.key, chance))),
        Some(value) => Datum::map((0..count).map(|_| (atom(&kind.key, chance), atom(value, chance)))),
    }
}

fn kinds() -> Vec<Type> {
    let sets = bases().map(Type::set);
    let maps = bases().into_iter().flat_map(|key| bases().map(|value| Type::map(key.clone(), value)));
    sets.into_iter().chain(maps).collect()
}

#[test]
fn values_are_read_as_they_were_written() {
    let mut chance = Random::new(3);
    for kind in kinds() {
        for _ in 0..50 {
            let datum = datum(&kind, &mut chance);
            let text = datum.to_json().to_string();
            let json = serde_json::from_str(&text).expect("it is JSON");
            assert_eq!(Datum::from_json(&kind, &json, &mut Names::none()), Ok(datum), "{text}");
        }
    }
}

/// A client that has the old value and is told the difference has the new one (`update2`).
#[test]
fn a_difference_leads_from_the_old_value_to_the_new() {
    let mut chance = Random::new(4);
    for kind in kinds() {
        for _ in 0..50 {
            let (old, new) = (datum(&kind, &mut chance), datum(&kind, &mut chance));
            let told = new.difference(&old);
            // Pairs that it has already go, others come, and other values replace.
            let stays = |key: &Atom, _: Option<&Atom>| told.find(key).is_none();
            let comes = |key: &Atom, value: Option<&Atom>| old.find(key) != Some(value);
            assert_eq!(told.filtered(comes).union(&old.filtered(stays)), new, "{old} {new} {told}");
            assert_eq!(old == new, told.is_empty());
        }
    }
}

#[test]
fn values_tell_what_they_are() {
    assert_eq!((Datum::from(7).integer(), Datum::from(7).string()), (Some(7), None));
    assert_eq!((Datum::from("a").string(), Datum::from(true).boolean()), (Some("a"), Some(true)));
    assert_eq!(Datum::from(None::<bool>).boolean(), None);
    assert_eq!(Datum::set([1, 2, 2]).len(), 2);
    let map = Datum::map([("k", "v"), ("k", "w")]);
    assert_eq!((map.get("k"), map.get("l"), map.string()), (Some(&Atom::from("v")), None, None));
    assert!(
        Datum::from(7).is_of(&Type::one(Base::integer())) && !Datum::from(7).is_of(&Type::one(Base::real()))
    );
}

#[test]
fn a_number_that_json_cannot_write_is_none() {
    assert_eq!([f64::NAN, f64::INFINITY].map(Real::new), [None, None]);
    assert_eq!(Real::new(-0.0), Some(Real::default()));
}
