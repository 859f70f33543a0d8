//! The generated definitions: the files in the repository are not stale, and say what we promise.
//! `READSTATES_WRITE_GENERATED=1` writes the files instead of comparing them.

use std::{collections::BTreeSet, fs, path::PathBuf};

use readstates_operator_api::crd_files;
use serde_json::Value;

/// Where a definition is kept: for people and tools, and for the chart.
const FOLDERS: [&str; 2] = ["crds", "charts/readstates-operator/files/crds"];

/// Fields of `spec.database` that choose where read states are stored: exactly one is set.
const KINDS_OF_DATABASE: [&str; 3] = ["engine", "external", "embedded"];
/// Fields of `spec.database` with rules of their own about the kinds that they are valid with.
const WITH_RULES_OF_THEIR_OWN: [&str; 2] = ["developerMode", "tls"];

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_files_are_as_the_types_say() {
    for file in crd_files() {
        let wanted = serde_yaml_ng::to_string(&file.crd).unwrap();
        for folder in FOLDERS {
            let path = repository().join(folder).join(file.name);
            if std::env::var_os("READSTATES_WRITE_GENERATED").is_some() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &wanted).unwrap();
            }
            let found = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == wanted,
                "{folder}/{} is stale: run READSTATES_WRITE_GENERATED=1 cargo test -p \
                 readstates-operator-api --test crds",
                file.name
            );
        }
    }
}

/// `kubectl` and helm read YAML 1.1, in which these words are booleans unless they are quoted.
#[test]
fn no_value_is_taken_for_a_boolean() {
    let is_boolean = |word: &str| {
        let word = word.to_lowercase();
        ["on", "off", "yes", "no", "y", "n"].contains(&word.as_str())
    };
    for file in crd_files() {
        let text = serde_yaml_ng::to_string(&file.crd).unwrap();
        for line in text.lines() {
            let value = line.trim_start().trim_start_matches("- ");
            let value = value.rsplit_once(": ").map_or(value, |(_, value)| value);
            assert!(!is_boolean(value), "{}: {line}", file.name);
        }
    }
}

#[test]
fn every_field_is_explained() {
    for file in crd_files() {
        let crd = serde_json::to_value(&file.crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for part in ["spec", "status"] {
            unexplained(&schema["properties"][part], part);
        }
    }
}

/// Whether what is below is as in a pod, which `kubectl explain pod.spec` explains.
fn is_of_kubernetes(path: &str) -> bool {
    [
        "env",
        "affinity",
        "topologySpreadConstraints",
        "securityContext",
        "containers",
        "initContainers",
        "volumes",
        "volumeMounts",
    ]
    .iter()
    .any(|part| path.ends_with(&format!(".podTemplate.{part}")))
}

/// Fails at the first field at or below `path` that `kubectl explain` could say nothing about.
fn unexplained(schema: &Value, path: &str) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        assert!(
            field["description"].is_string(),
            "{path} has no description"
        );
        if is_of_kubernetes(&path) {
            continue;
        }
        unexplained(field, &path);
        unexplained(&field["items"], &path);
    }
}

/// What a field is valid with is written by hand, in a rule and in its message: a new one is in neither.
#[test]
fn every_field_of_a_database_says_which_kinds_it_is_valid_with() {
    let files = crd_files();
    let clusters = files.iter().find(|f| f.name == "readstateclusters.yaml");
    let crd = serde_json::to_value(&clusters.unwrap().crd).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let database = &schema["properties"]["spec"]["properties"]["database"];
    let rules = rules(database);

    let with_engine = rules.iter().find_map(|(rule, message)| {
        let (named, _) = message.split_once(" are valid only with engine")?;
        Some((rule, named.replace(" and ", ", ")))
    });
    let (rule, named) = with_engine.unwrap();
    let refused = rule.strip_prefix("has(self.engine) || ").unwrap();
    let refused: BTreeSet<&str> = refused
        .split("has(self.")
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .collect();
    let named: BTreeSet<&str> = named.split(", ").collect();
    assert_eq!(named, refused, "the message names other fields");

    let others = KINDS_OF_DATABASE.into_iter().chain(WITH_RULES_OF_THEIR_OWN);
    let accounted_for: BTreeSet<&str> = refused.into_iter().chain(others).collect();
    let fields = database["properties"].as_object().unwrap();
    let fields: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(accounted_for, fields);
    for field in WITH_RULES_OF_THEIR_OWN {
        let when_set = format!("!has(self.{field}) || ");
        let has_rule = rules.iter().any(|(rule, _)| rule.starts_with(&when_set));
        assert!(has_rule, "{field} has none");
    }
}

/// The CEL rules of a schema, each with its message.
fn rules(schema: &Value) -> Vec<(&str, &str)> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let rules = rules.expect("rules in CEL");
    rules
        .iter()
        .map(|rule| {
            let message = rule["message"].as_str().unwrap_or_default();
            (rule["rule"].as_str().expect("an expression"), message)
        })
        .collect()
}
