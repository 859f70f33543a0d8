//! Compares a live object with the wanted one: every field of the latter has to be there with its value. Fields that
//! the API server or others added do not count.

use serde_json::{Map, Value};

use crate::spec::Amount;

/// Lists whose elements have a key: others may add elements of their own, and the order is not ours
/// to demand. (The same keys server-side apply merges them by.)
const KEYED: &[(&str, &str)] = &[
    ("containers", "name"),
    ("env", "name"),
    ("imagePullSecrets", "name"),
    ("ownerReferences", "uid"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// Maps that belong to one owner as a whole: a key that others add changes what the rest means. (Those
/// that server-side apply replaces as a whole.)
const WHOLE: &[&str] = &["labelSelector", "matchLabels", "nodeSelector", "selector"];

/// Maps whose values are quantities, which the API server rewrites: `2048Mi` comes back as `2Gi`.
const QUANTITIES: &[&str] = &["limits", "requests"];

/// Fields that are quantities.
const QUANTITY: &[&str] = &["divisor", "sizeLimit"];

/// Maps of strings: a key with an empty value is there, where a field with an empty value is left out.
const OF_STRINGS: &[&str] = &[
    "annotations",
    "data",
    "labels",
    "matchLabels",
    "nodeSelector",
];

/// Whether `live` has all that `wish` says.
pub(super) fn holds(wish: &Value, live: &Value) -> bool {
    field_holds("", wish, Some(live))
}

fn field_holds(name: &str, wish: &Value, live: Option<&Value>) -> bool {
    match (wish, live) {
        (wish, None) => may_be_left_out(wish),
        (Value::Object(fields), Some(Value::Object(live))) if QUANTITIES.contains(&name) => fields
            .iter()
            .all(|(key, wish)| same_amount(wish, live.get(key))),
        (Value::Object(fields), Some(Value::Object(live))) => {
            let whole = WHOLE.contains(&name);
            let keys = !OF_STRINGS.contains(&name) || fields.keys().all(|k| live.contains_key(k));
            keys && (!whole || fields.len() == live.len()) && object_holds(fields, live)
        }
        (Value::Array(items), Some(Value::Array(live))) => list_holds(name, items, live),
        (wish, live) if QUANTITY.contains(&name) => same_amount(wish, live),
        (wish, Some(live)) => wish == live,
    }
}

/// Whether the API server, which is written in Go, drops a field with this value.
fn may_be_left_out(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn object_holds(wish: &Map<String, Value>, live: &Map<String, Value>) -> bool {
    wish.iter()
        .all(|(key, wish)| field_holds(key, wish, live.get(key)))
}

fn list_holds(name: &str, wish: &[Value], live: &[Value]) -> bool {
    match KEYED.iter().find(|(list, _)| *list == name) {
        Some((_, key)) => wish.iter().all(|item| {
            let same_key = |other: &&Value| other.get(key) == item.get(key);
            // Several may have it, as constraints of one topology do.
            let mut alike = live.iter().filter(same_key);
            alike.any(|other| field_holds("", item, Some(other)))
        }),
        None => {
            wish.len() == live.len()
                && wish
                    .iter()
                    .zip(live)
                    .all(|(wish, live)| field_holds("", wish, Some(live)))
        }
    }
}

fn same_amount(wish: &Value, live: Option<&Value>) -> bool {
    let amount = |value: &Value| value.as_str().and_then(Amount::parse);
    live.is_some_and(|live| {
        wish == live || (amount(wish).is_some() && amount(wish) == amount(live))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::holds;

    #[test]
    fn what_others_added_does_not_count() {
        let wish = json!({"spec": {"replicas": 3, "containers": [{"name": "a", "image": "x"}]}});
        let live = json!({
            "status": {"replicas": 3},
            "spec": {
                "replicas": 3,
                "revisionHistoryLimit": 10,
                "containers": [
                    {"name": "injected", "image": "y"},
                    {"name": "a", "image": "x", "imagePullPolicy": "Always"},
                ],
            },
        });
        assert!(holds(&wish, &live));
    }

    #[test]
    fn of_several_with_one_key_each_has_its_own() {
        let spread = |when: &str| json!({"topologyKey": "zone", "whenUnsatisfiable": when});
        let of = |all: &[&str]| {
            let all: Vec<_> = all.iter().map(|when| spread(when)).collect();
            json!({ "topologySpreadConstraints": all })
        };
        let both = of(&["DoNotSchedule", "ScheduleAnyway"]);
        assert!(holds(&both, &both));
        assert!(holds(&of(&["ScheduleAnyway"]), &both));
        assert!(!holds(&both, &of(&["DoNotSchedule"])));
    }

    #[test]
    fn a_changed_or_missing_field_is_seen() {
        let wish = json!({"spec": {"replicas": 3, "containers": [{"name": "a", "image": "x"}]}});
        for live in [
            json!({"spec": {"replicas": 2, "containers": [{"name": "a", "image": "x"}]}}),
            json!({"spec": {"replicas": 3, "containers": [{"name": "a", "image": "z"}]}}),
            json!({"spec": {"replicas": 3, "containers": [{"name": "b", "image": "x"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "x"}]}}),
        ] {
            assert!(!holds(&wish, &live), "{live}");
        }
    }

    #[test]
    fn a_selector_that_others_narrowed_is_seen() {
        let wish = json!({"selector": {"cluster": "chat"}});
        assert!(holds(&wish, &wish));
        assert!(!holds(
            &wish,
            &json!({"selector": {"cluster": "chat", "app": "x"}})
        ));
    }

    #[test]
    fn lists_without_a_key_are_compared_as_a_whole() {
        assert!(holds(
            &json!({"args": ["a", "b"]}),
            &json!({"args": ["a", "b"]})
        ));
        assert!(!holds(
            &json!({"args": ["a", "b"]}),
            &json!({"args": ["b", "a"]})
        ));
        assert!(!holds(
            &json!({"args": ["a"]}),
            &json!({"args": ["a", "b"]})
        ));
    }

    #[test]
    fn quantities_are_compared_by_what_they_are_worth() {
        let wish = json!({"requests": {"memory": "2048Mi", "cpu": "0.5"}});
        assert!(holds(
            &wish,
            &json!({"requests": {"memory": "2Gi", "cpu": "500m"}})
        ));
        assert!(!holds(
            &wish,
            &json!({"requests": {"memory": "3Gi", "cpu": "500m"}})
        ));
        assert!(!holds(&json!({"x": "0.5"}), &json!({"x": "500m"})));
        assert!(holds(
            &json!({"emptyDir": {"sizeLimit": "2048Mi"}}),
            &json!({"emptyDir": {"sizeLimit": "2Gi"}})
        ));
    }

    #[test]
    fn what_is_empty_may_be_left_out() {
        assert!(holds(&json!({"status": {}, "list": []}), &json!({})));
        assert!(holds(
            &json!({"env": [{"name": "A", "value": ""}], "readOnly": false, "weight": 0}),
            &json!({"env": [{"name": "A"}]})
        ));
        assert!(!holds(&json!({"status": {"a": 1}}), &json!({})));
        assert!(!holds(&json!({"readOnly": true}), &json!({})));
    }

    #[test]
    fn an_empty_label_is_not_left_out() {
        let wish = json!({"metadata": {"labels": {"team": ""}}});
        assert!(holds(&wish, &wish));
        assert!(!holds(
            &wish,
            &json!({"metadata": {"labels": {"other": ""}}})
        ));
    }
}
