//! Plans while certificates are missing or unusable.

use super::racks;
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, Scene, scene, with_tls},
    templates::Template,
    world::{CertificatesSeen, JobOutcome},
};

fn absent() -> CertificatesSeen {
    CertificatesSeen::Absent { words: None }
}

fn waits(scene: &Scene) -> String {
    scene.plan().waiting.unwrap().to_string()
}

#[test]
fn a_database_is_not_begun_without_its_certificates() {
    let waiting = scene(&with_tls(CASSANDRA)).certificates(absent());
    assert_eq!(racks(&waiting.plan()), [""; 0]);
    assert_eq!(waits(&waiting), "Secret certs does not exist");
    let begun = scene(&with_tls(CASSANDRA));
    assert_eq!(racks(&begun.plan()), ["a"]);
}

#[test]
fn what_runs_is_left_as_it_is_while_they_are_missing_or_broken() {
    for seen in [
        absent(),
        CertificatesSeen::Incomplete(vec!["tls.key"]),
        CertificatesSeen::Broken("it is broken".to_owned()),
    ] {
        let scene = scene(&with_tls(CASSANDRA)).ready_for_cache().running(3);
        assert!(scene.plan().waiting.is_none());
        let plan = scene.certificates(seen).plan();
        assert_eq!(racks(&plan), ["a", "b"]);
        for rack in &plan.racks {
            assert!(matches!(rack.template, Template::Held { .. }), "{rack:?}");
        }
        assert_eq!((plan.cache, plan.schema_job), (None, false));
        assert!(plan.jobs_to_delete.is_empty());
        assert!(plan.database.update.is_none());
        assert!(plan.waiting.is_some());
    }
}

#[test]
fn the_job_of_an_external_database_stays_when_its_secret_goes() {
    let mut with_client = scene(&with_tls(EXTERNAL));
    with_client.cluster.certificates.client = true;
    let with_client = with_client.schema(JobOutcome::Succeeded);
    let plan = with_client.certificates(absent()).plan();
    assert!(plan.jobs_to_delete.is_empty());
    assert_eq!((plan.cache, plan.schema_job), (None, false));
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let said = |seen| waits(&scene(&with_tls(CASSANDRA)).certificates(seen));
    assert_eq!(
        said(CertificatesSeen::Incomplete(vec!["tls.key", "ca.crt"])),
        "Secret certs has no tls.key and no ca.crt"
    );
    assert_eq!(
        said(CertificatesSeen::Broken("tls.crt is old".to_owned())),
        "Secret certs: tls.crt is old"
    );
}

#[test]
fn cert_manager_is_asked_where_it_is_there_and_waited_for() {
    let spec = CASSANDRA.replace(
        "database:\n",
        "database:\n  tls: { issuerRef: { name: ours } }\n",
    );
    let words = Some("issuer ours not found".to_owned());
    let pending = scene(&spec).certificates(CertificatesSeen::Absent { words });
    assert!(pending.plan().certificate);
    assert_eq!(
        waits(&pending),
        "cert-manager has not made Certificate chat-db-tls yet (issuer ours not found)"
    );
    let without = CertificatesSeen::NoManager("install cert-manager".to_owned());
    let without = scene(&spec).certificates(without);
    assert!(!without.plan().certificate);
    assert_eq!(waits(&without), "install cert-manager");
    assert!(scene(&spec).plan().certificate);
    assert!(!scene(&with_tls(CASSANDRA)).plan().certificate);
}

fn with_api_tls(tls: &str) -> Scene {
    let spec = format!("cache: {{ tls: {tls} }}\n{}", CASSANDRA.trim_start());
    scene(&spec).ready_for_cache().running(3)
}

fn good() -> CertificatesSeen {
    CertificatesSeen::Complete {
        mark: "m1".to_owned(),
        client: false,
        expires: None,
    }
}

#[test]
fn no_cache_pod_is_made_or_replaced_while_the_api_has_no_certificate_that_can_be_used() {
    let mut scene = with_api_tls("{ secretName: api }");
    for (seen, words) in [
        (None, "Secret api does not exist"),
        (Some(absent()), "Secret api does not exist"),
        (
            Some(CertificatesSeen::Incomplete(vec!["tls.key"])),
            "Secret api has no tls.key",
        ),
        (
            Some(CertificatesSeen::Broken("tls.crt is old".to_owned())),
            "Secret api: tls.crt is old",
        ),
    ] {
        scene.world.api_certificate = seen;
        let plan = scene.plan();
        assert_eq!(plan.cache, None);
        assert_eq!(plan.waiting.unwrap().to_string(), words);
        // It concerns neither the database nor the callers.
        assert_eq!(racks(&scene.plan()), ["a", "b"]);
    }
    scene.world.api_certificate = Some(good());
    assert!(scene.plan().cache.is_some());
    assert_eq!(scene.plan().waiting, None);
}

#[test]
fn another_certificate_of_the_api_makes_no_other_pods() {
    let mut scene = with_api_tls("{ secretName: api }");
    let template = |scene: &Scene| {
        crate::templates::cache(&scene.cluster, 3, &crate::templates::Template::Wanted, None)
    };
    scene.world.api_certificate = Some(good());
    let before = (template(&scene), scene.plan().cache);
    scene.world.api_certificate = Some(CertificatesSeen::Complete {
        mark: "m2".to_owned(),
        client: false,
        expires: None,
    });
    assert_eq!((template(&scene), scene.plan().cache), before);
}

#[test]
fn cert_manager_is_asked_for_the_certificate_of_the_api() {
    let mut scene = with_api_tls("{ issuerRef: { name: ours } }");
    assert!(scene.plan().api_certificate);
    scene.world.api_certificate = Some(absent());
    assert_eq!(
        waits(&scene),
        "cert-manager has not made Certificate chat-api-tls yet"
    );
    let why = "install cert-manager".to_owned();
    scene.world.api_certificate = Some(CertificatesSeen::NoManager(why));
    assert!(!scene.plan().api_certificate);
    assert_eq!(waits(&scene), "install cert-manager");
}
