use serde_json::json;

use super::*;

/// A value that a field may have, and one of another type.
fn samples(kind: Kind) -> (Value, Value) {
    match kind {
        Kind::Text => (json!("x"), json!(1)),
        Kind::Bool => (json!(true), json!("true")),
        Kind::Int(..) => (json!(7), json!("7")),
        Kind::Float => (json!(0.5), json!("0.5")),
        Kind::Duration => (json!("1m0.5s"), json!("1 minute")),
        Kind::Flush => (json!("5s"), json!("often")),
        Kind::Amount => (json!("500m"), json!("lots")),
        Kind::AmountOrShare => (json!("10%"), json!("10 %")),
        Kind::Share => (json!("50%"), json!("50")),
        Kind::List(of) => (json!([samples(*of).0]), json!({})),
        Kind::Members(of) => (json!({ "m": samples(*of).0 }), json!([])),
        Kind::Object(fields) => {
            let members = fields.iter();
            let members = members.map(|field| (field.name.to_owned(), samples(field.kind).0));
            (Value::Object(members.collect()), json!("x"))
        }
    }
}

/// What Go's programs and people write where they wish nothing.
fn zeros(kind: Kind) -> Vec<Value> {
    match kind {
        Kind::Text | Kind::Share | Kind::AmountOrShare => vec![json!("")],
        Kind::Bool => vec![json!(false)],
        Kind::Int(..) | Kind::Float => vec![json!(0)],
        Kind::Duration => vec![json!("0s"), json!("0")],
        Kind::Flush => vec![json!(0), json!("0s")],
        Kind::Amount => vec![json!("0"), json!(0)],
        Kind::List(_) => vec![json!([])],
        Kind::Members(of) => {
            let empty = matches!(of, Kind::Text | Kind::Amount | Kind::AmountOrShare);
            let mut all = vec![json!({})];
            all.extend(empty.then(|| json!({ "m": "" })));
            all
        }
        Kind::Object(fields) => {
            let mut all = vec![json!({})];
            for field in fields.iter().filter(|field| !field.has_zero) {
                all.extend(
                    zeros(field.kind)
                        .into_iter()
                        .map(|zero| json!({ field.name: zero })),
                );
            }
            all
        }
    }
}

#[test]
fn each_field_is_taken_with_a_value_left_out_where_zero_and_refused_with_another_type() {
    for field in FIELDS {
        let take = |value: Value| {
            let object = json!({ field.name: value }).as_object().cloned().unwrap();
            super::take(object, FIELDS, "spec.kubeletConfig")
        };
        let (good, bad) = samples(field.kind);
        assert_eq!(take(good.clone()).unwrap()[field.name], good);
        let why = take(bad).unwrap_err().to_string();
        let path = format!("spec.kubeletConfig.{}", field.name);
        assert!(why.starts_with(&path), "{why}");
        assert_eq!(take(Value::Null).unwrap(), Map::new());
        if matches!(field.kind, Kind::Duration | Kind::Amount | Kind::Share) {
            assert_eq!(take(json!("")).unwrap(), Map::new(), "{path}");
        }
        for zero in zeros(field.kind) {
            assert_eq!(
                take(zero.clone()).unwrap().is_empty(),
                !field.has_zero,
                "{path} {zero}"
            );
        }
    }
}
