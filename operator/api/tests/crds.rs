//! The generated definitions: the files in the repository are not stale, and say what we promise.
//! `READSTATES_WRITE_GENERATED=1` writes the files instead of comparing them.

use std::{fs, path::PathBuf};

use readstates_operator_api::crd_files;
use serde_json::Value;

/// Where a definition is kept: for people and tools, and for the chart.
const FOLDERS: [&str; 2] = ["crds", "charts/readstates-operator/files/crds"];

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
