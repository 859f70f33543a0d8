//! When cache pods write and what survives a crash of one, from the spec.

use super::environment;
use crate::{
    fixtures::{CASSANDRA, cluster},
    templates::Template,
};

fn told(cache: &str) -> Vec<String> {
    let cluster = cluster(&format!("{cache}{}", CASSANDRA.trim_start()));
    let set = crate::templates::cache(&cluster, 3, &Template::Wanted, None);
    let pod = set.spec.unwrap().template.spec.unwrap();
    let told = environment(&pod.containers[0]).into_iter();
    let of_the_spec = ["READSTATES_FLUSH_MODE=", "READSTATES_DURABILITY="];
    told.filter(|variable| of_the_spec.iter().any(|name| variable.starts_with(name)))
        .collect()
}

#[test]
fn a_spec_without_them_leaves_the_pods_as_they_are() {
    assert_eq!(told("\n"), [""; 0]);
}

#[test]
fn a_flush_mode_is_passed_on() {
    for (wanted, said) in [("Adaptive", "adaptive"), ("Interval", "interval")] {
        let cache = format!("\ncache: {{ flushMode: {wanted} }}\n");
        assert_eq!(told(&cache), [format!("READSTATES_FLUSH_MODE={said}")]);
    }
}

#[test]
fn a_durability_is_passed_on() {
    for (wanted, said) in [
        ("Journal", "journal"),
        ("Interval", "interval"),
        ("Available", "available"),
        ("Replicated", "replicated"),
    ] {
        let cache = format!("\ncache: {{ durability: {wanted} }}\n");
        assert_eq!(told(&cache), [format!("READSTATES_DURABILITY={said}")]);
    }
}
