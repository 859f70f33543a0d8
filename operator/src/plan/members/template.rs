//! Chooses the template of cache pods. A change of the spec is taken at once; what only a different operator version
//! makes of the same spec waits for consent, since each pod has to hand on what it owns for it.

use crate::{
    spec::ValidatedCluster,
    templates::{self, Template},
    world::World,
};

/// Length of the hash in the name of an update.
const HASH: usize = 8;

/// The template, and the name of an update that waits for consent. `schema_done`: whether pods of the wanted template
/// have the schema and the login that they need.
pub(super) fn decide(
    cluster: &ValidatedCluster,
    world: &World,
    schema_done: bool,
) -> (Template, Option<String>) {
    let Some(set) = &world.cache else {
        return (Template::Wanted, None);
    };
    let hash = templates::cache_template_hash(cluster);
    if set.template_hash.as_ref() == Some(&hash) {
        return (Template::Wanted, None);
    }
    let held = Template::as_seen(set);
    if !schema_done {
        return (held, None);
    }
    // Pods of the release before say nothing of the spec that they were made for: taken for the same.
    let same = |said: &String| *said == cluster.cache_spec_hash();
    let ours = set.spec_hash.as_ref().is_none_or(same);
    let name = &hash[..HASH];
    if ours && world.consent.update_cache.as_deref() != Some(name) {
        return (held, Some(name.to_owned()));
    }
    (Template::Wanted, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{CASSANDRA, Scene, cluster, scene},
        world::JobOutcome,
    };

    fn update(scene: &Scene) -> Option<String> {
        scene.plan().cache.unwrap().update
    }

    fn holds(scene: &Scene) -> bool {
        match scene.plan().cache.unwrap().template {
            Template::Held { .. } => true,
            Template::Wanted => false,
        }
    }

    /// Three pods that another operator has made of the same spec.
    fn upgraded() -> Scene {
        let mut scene = scene(CASSANDRA).ready_for_cache().running(3);
        let set = scene.world.cache.as_mut().unwrap();
        set.template_hash = Some("of another operator".to_owned());
        set.template = Some(Box::default());
        scene
    }

    #[test]
    fn an_upgrade_of_the_operator_restarts_no_cache_pod_until_somebody_consents() {
        let mut scene = upgraded();
        let name = update(&scene).expect("an update that waits");
        assert!(holds(&scene));
        scene.world.consent.update_cache = Some("another".to_owned());
        assert!(holds(&scene));
        scene.world.consent.update_cache = Some(name);
        assert!(!holds(&scene));
        assert_eq!(update(&scene), None);
    }

    #[test]
    fn pods_of_a_release_that_recorded_no_spec_wait_for_consent_too() {
        let mut scene = upgraded();
        let set = scene.world.cache.as_mut().unwrap();
        (set.template_hash, set.spec_hash) = (None, None);
        assert!(holds(&scene) && update(&scene).is_some());
    }

    #[test]
    fn what_the_user_changes_is_changed_at_once() {
        let mut scene = upgraded();
        let other = CASSANDRA.replace("replicas: 3", "replicas: 3\nimage: mine:2");
        scene.cluster = cluster(&other);
        // Another image is another schema Job: it runs first.
        assert!(holds(&scene) && update(&scene).is_none());
        let scene = scene.schema(JobOutcome::Succeeded);
        assert!(!holds(&scene));
    }

    #[test]
    fn who_may_call_and_how_many_pods_there_are_is_no_change_of_pods() {
        let hash = |spec: &str| cluster(spec).cache_spec_hash();
        let base = hash(CASSANDRA);
        assert_eq!(base, hash(&CASSANDRA.replace("replicas: 3", "replicas: 4")));
        let members = CASSANDRA.replace("members: 2", "members: 3");
        assert_eq!(base, hash(&members));
        let interval = CASSANDRA.replace("replicas: 3", "cache: { flushInterval: 5s }");
        assert_ne!(base, hash(&interval));
    }

    #[test]
    fn pods_are_added_while_an_update_waits() {
        let mut scene = upgraded();
        scene.cluster.replicas = 4;
        let plan = scene.plan().cache.unwrap();
        assert_eq!(plan.replicas, 4);
        assert!(holds(&scene));
    }
}
