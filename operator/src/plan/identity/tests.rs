//! Situations of a rotation, one by one; and a model of Secrets and processes in which every write may be the last
//! one before a crash, and processes read their files whenever they like.

use super::*;
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, Scene, certificate, identity, known, now, scene, shown},
    world::{Member, Version},
};

const DAY: Duration = Duration::from_hours(24);

fn steps(scene: &Scene, at: Timestamp) -> Vec<IdentityStep> {
    missing(&scene.cluster, &scene.world.identity, at)
}

fn authority(scene: &mut Scene) -> &mut AuthoritySeen {
    match &mut scene.world.identity.authority {
        Found::Known { content, .. } => content,
        other => panic!("{other:?}"),
    }
}

/// Two members and no database of ours.
fn chat() -> Scene {
    scene(EXTERNAL).ready().running(2)
}

impl Scene {
    fn ready(self) -> Self {
        self.schema(crate::world::JobOutcome::Succeeded)
    }

    fn stage(&self) -> (Option<IdentityStep>, String) {
        let decided = decide(&self.cluster, &self.world, now());
        assert_eq!(decided.blocked, None);
        let words = decided.waiting.map_or(String::new(), |w| w.to_string());
        (decided.step, words)
    }

    fn has(self, pod: &str, certificate: &str, trusted: &[&str]) -> Self {
        self.says(pod, |m: &mut Member| {
            m.identity = Some(shown(certificate, trusted))
        })
    }
}

#[test]
fn a_new_cluster_gets_an_authority_and_then_a_certificate_for_each_role() {
    for (spec, count) in [(CASSANDRA, 3), (EXTERNAL, 2)] {
        let mut scene = scene(spec);
        scene.world.identity = IdentitySeen::default();
        assert_eq!(steps(&scene, now()), [IdentityStep::MakeAuthority]);
        scene.world.identity.authority = identity().authority;
        let all = [Role::Member, Role::Operator, Role::Agent].map(IdentityStep::Issue);
        assert_eq!(steps(&scene, now()), all[..count]);
        // And nothing that mounts them comes before them.
        let plan = scene.plan();
        let name = "chat-member-tls".to_owned();
        assert_eq!(plan.waiting, Some(WaitingOn::IdentityMade { name }));
        assert_eq!((plan.racks.len(), plan.cache), (0, None));
        scene.world.identity = identity();
        assert_eq!(steps(&scene, now()), []);
    }
}

#[test]
fn a_certificate_is_renewed_at_two_thirds_of_its_time_and_by_no_clock_that_is_behind() {
    let scene = chat();
    let none: &[IdentityStep] = &[];
    let issue: &[IdentityStep] = &[
        IdentityStep::Issue(Role::Member),
        IdentityStep::Issue(Role::Operator),
    ];
    // Both were issued a day ago.
    for (days, expected) in [
        (-400, none),
        (-2, none),
        (0, none),
        (58, none),
        (60, issue),
        (89, issue),
        // It is over, and its authority is not.
        (400, issue),
    ] {
        let at = now() + jiff::SignedDuration::from_hours(24 * days);
        assert_eq!(steps(&scene, at), expected, "{days} days from now");
    }
}

#[test]
fn a_paused_cluster_keeps_its_certificates_valid_and_gets_nothing_else() {
    let in_two_months = now() + DAY * 61;
    for (spec, count) in [(CASSANDRA, 3), (EXTERNAL, 2)] {
        let mut scene = scene(&format!("paused: true\n{}", spec.trim_start()));
        assert_eq!(steps(&scene, now() + DAY * 58), []);
        let all = [Role::Member, Role::Operator, Role::Agent].map(IdentityStep::Issue);
        assert_eq!(steps(&scene, in_two_months), all[..count]);
        // What is missing, lost or to be replaced waits.
        scene.world.identity.member = Found::default();
        assert_eq!(steps(&scene, in_two_months), all[1..count]);
        authority(&mut scene).next = Some(certificate("ca-2", AUTHORITY_VALID));
        assert_eq!(steps(&scene, now()), []);
        authority(&mut scene).issuing = None;
        assert_eq!(steps(&scene, in_two_months), []);
        scene.world.identity.authority = Found::default();
        assert_eq!(steps(&scene, in_two_months), []);
    }
}

#[test]
fn what_ends_with_its_authority_is_not_issued_again_and_again() {
    let mut scene = chat();
    let soon = certificate("ca-1", DAY * 20);
    authority(&mut scene).issuing = Some(soon.clone());
    for role in [Role::Member, Role::Operator] {
        let leaf = match role {
            Role::Member => &mut scene.world.identity.member,
            Role::Operator | Role::Agent => &mut scene.world.identity.operator,
        };
        if let Found::Known { content, .. } = leaf {
            content.certificate.not_after = soon.not_after;
        }
    }
    assert_eq!(steps(&scene, now() + DAY * 18), []);
}

#[test]
fn the_authority_is_replaced_at_two_thirds_of_its_time_or_on_request_once() {
    let mut scene = chat();
    assert_eq!(scene.stage().0, None);
    scene.cluster.rotation = Some("please".to_owned());
    assert_eq!(scene.stage().0, Some(IdentityStep::BeginRotation));
    authority(&mut scene).request = Some("please".to_owned());
    assert_eq!(scene.stage().0, None);
    // Removing the request does not cancel it.
    scene.cluster.rotation = None;
    assert_eq!(scene.stage().0, None);
    for (days, expected) in [(400, None), (490, Some(IdentityStep::BeginRotation))] {
        let decided = decide(&scene.cluster, &scene.world, now() + DAY * days);
        assert_eq!(decided.step, expected, "{days} days from now");
    }
}

/// In the middle of a rotation: `ca-2` is trusted and `ca-1` issues.
fn begun() -> Scene {
    let mut scene = chat();
    authority(&mut scene).next = Some(certificate("ca-2", AUTHORITY_VALID));
    let trust = [
        IdentityStep::Trust(Role::Member),
        IdentityStep::Trust(Role::Operator),
    ];
    assert_eq!(steps(&scene, now()), trust);
    let both = || vec!["ca-1".to_owned(), "ca-2".to_owned()];
    for leaf in [
        &mut scene.world.identity.member,
        &mut scene.world.identity.operator,
    ] {
        if let Found::Known { content, .. } = leaf {
            content.trusted = both();
            content.written = Some(now() - Duration::from_mins(10));
        }
    }
    assert_eq!(steps(&scene, now()), []);
    scene
}

#[test]
fn the_next_authority_issues_once_every_running_member_trusts_it() {
    let waits = |scene: &Scene, who: &str| {
        let (step, words) = scene.stage();
        assert_eq!(step, None);
        assert!(words.starts_with(who), "{words}");
    };
    waits(&begun(), "chat-0 is to trust the next authority");
    let one = begun().has("chat-0", "member-1", &["ca-1", "ca-2"]);
    waits(&one, "chat-1 is to trust");
    let both = ["ca-1", "ca-2"];
    let all = || one_more(begun().has("chat-0", "member-1", &both), &both);
    assert_eq!(all().stage().0, Some(IdentityStep::Promote));

    // Unknown is not absent.
    waits(
        &all().silent("chat-1"),
        "chat-1 is to trust the next authority: timed out",
    );
    // A pod without a process reads the files when it starts.
    assert_eq!(all().down("chat-1").stage().0, Some(IdentityStep::Promote));
    // One that was made after the Secret was written has them, whatever it says.
    let fresh = all()
        .silent("chat-1")
        .pod("chat-1", |p| p.created = Some(now()));
    assert_eq!(fresh.stage().0, Some(IdentityStep::Promote));
    // Pods of the release before have no identity.
    let old = begun()
        .has("chat-0", "member-1", &both)
        .pod("chat-1", |p| p.mutual_tls = false);
    assert_eq!(old.stage().0, Some(IdentityStep::Promote));
}

fn one_more(scene: Scene, trusted: &[&str]) -> Scene {
    scene.has("chat-1", "member-1", trusted)
}

#[test]
fn an_authority_that_is_over_keeps_nobody_waiting() {
    let mut scene = begun();
    let over = CertificateSeen {
        not_after: now() - DAY,
        ..certificate("ca-1", DAY)
    };
    authority(&mut scene).issuing = Some(over.clone());
    assert_eq!(scene.stage().0, Some(IdentityStep::Promote));
    let issuing = Some(certificate("ca-2", AUTHORITY_VALID));
    *authority(&mut scene) = AuthoritySeen {
        issuing,
        old: vec![over],
        ..AuthoritySeen::default()
    };
    assert_eq!(scene.stage().0, Some(IdentityStep::DropOld));
}

#[test]
fn an_authority_that_was_lost_is_made_again_beside_what_is_trusted() {
    let mut scene = chat();
    scene.world.identity.authority = Found::default();
    assert_eq!(steps(&scene, now()), [IdentityStep::RecoverAuthority]);
    let why = "ca.key is missing".to_owned();
    let version = Version::default();
    scene.world.identity.authority = Found::Broken { version, why };
    assert_eq!(steps(&scene, now()), [IdentityStep::RecoverAuthority]);
}

#[test]
fn what_is_somebody_elses_is_left_alone_and_told() {
    let mut scene = chat();
    let owner = Some("Deployment web".to_owned());
    scene.world.identity.member = Found::Foreign { owner };
    assert_eq!(steps(&scene, now()), []);
    let plan = scene.plan();
    assert_eq!(plan.cache, None);
    let words = plan.waiting.unwrap().to_string();
    let expected = "Secret chat-member-tls exists already and belongs to Deployment web";
    assert!(words.starts_with(expected), "{words}");
}

#[test]
fn cert_manager_is_asked_where_it_is_there_and_the_names_are_free() {
    let spec = format!("identity: {{ issuerRef: {{ name: ours }} }}{CASSANDRA}");
    let with = |change: fn(&mut IdentitySeen)| {
        let mut scene = scene(&spec);
        scene.world.identity = IdentitySeen::default();
        change(&mut scene.world.identity);
        assert_eq!(steps(&scene, now()), []);
        let plan = scene.plan();
        (
            plan.ask_identity,
            plan.waiting.map(|w| w.reason().to_string()).unwrap(),
        )
    };
    let is = |reason: &str| (true, reason.to_owned());
    assert_eq!(with(|_| ()), is("CertificatePending"));
    let foreign = with(|seen| seen.agent = Found::Foreign { owner: None });
    assert!(!foreign.0, "{foreign:?}");
    let none = with(|seen| seen.no_manager = Some("install cert-manager".to_owned()));
    assert_eq!(none, (false, "CertManagerMissing".to_owned()));
    // What it has made is used, and it is asked on: it renews.
    let made = with(|seen| {
        *seen = IdentitySeen {
            authority: Found::default(),
            ..identity()
        };
    });
    assert_eq!(made, is("DatabaseNotReady"));
}

/// What a process has read: its certificate, the issuer, and the authorities that it trusts.
#[derive(Clone)]
struct Process {
    mark: String,
    issued_by: String,
    trusted: Vec<String>,
}

/// Secrets, and members that read theirs now and then.
struct Model {
    scene: Scene,
    processes: Vec<Process>,
    now: Timestamp,
    made: u32,
    random: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut model = Self {
            scene: scene(EXTERNAL).ready().running(3),
            processes: Vec::new(),
            now: now(),
            made: 1,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        model.processes = vec![model.process(Role::Member); 3];
        model
    }

    fn chance(&mut self, of: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(of)
    }

    fn process(&self, role: Role) -> Process {
        let leaf = self.scene.world.identity.leaf(role).content().unwrap();
        Process {
            mark: leaf.certificate.mark.clone(),
            issued_by: leaf.issued_by.clone().unwrap(),
            trusted: leaf.trusted.clone(),
        }
    }

    fn made(&mut self, kind: &str, valid: Duration) -> CertificateSeen {
        self.made += 1;
        CertificateSeen {
            mark: format!("{kind}-{}", self.made),
            not_before: self.now,
            not_after: self.now + valid,
        }
    }

    /// What `apply` would write.
    fn write(&mut self, step: &IdentityStep) {
        let wish = self.scene.cluster.rotation.clone();
        match step {
            IdentityStep::MakeAuthority | IdentityStep::RecoverAuthority => unreachable!(),
            IdentityStep::BeginRotation => {
                let next = self.made("ca", AUTHORITY_VALID);
                let authority = authority(&mut self.scene);
                authority.next = Some(next);
                authority.request = wish;
            }
            IdentityStep::Promote => {
                let authority = authority(&mut self.scene);
                authority.old.extend(authority.issuing.take());
                authority.issuing = authority.next.take();
            }
            IdentityStep::DropOld => authority(&mut self.scene).old.clear(),
            IdentityStep::Issue(role) | IdentityStep::Trust(role) => {
                let new = self.made(role.as_str(), LEAF_VALID);
                let trusted = authority(&mut self.scene).trusted();
                let issuing = authority(&mut self.scene).issuing.clone().unwrap();
                let mut leaf = self
                    .scene
                    .world
                    .identity
                    .leaf(*role)
                    .content()
                    .unwrap()
                    .clone();
                leaf.trusted = trusted;
                if *step == IdentityStep::Issue(*role) {
                    leaf.certificate = new;
                    leaf.issued_by = Some(issuing.mark);
                }
                match role {
                    Role::Member => self.scene.world.identity.member = known(leaf),
                    Role::Operator => self.scene.world.identity.operator = known(leaf),
                    Role::Agent => unreachable!(),
                }
            }
        }
        self.check();
    }

    /// All processes trust each other, at every moment.
    fn check(&self) {
        let operator = self.process(Role::Operator);
        let all = || self.processes.iter().chain([&operator]);
        for one in all() {
            for other in all() {
                let (mark, by) = (&other.mark, &other.issued_by);
                assert!(
                    one.trusted.contains(by),
                    "{} does not trust {mark} of {by}",
                    one.mark
                );
            }
        }
    }

    fn look(&mut self) {
        for round in 0..3 {
            let seen = missing(&self.scene.cluster, &self.scene.world.identity, self.now);
            assert!(
                round < 2 || seen.is_empty(),
                "it does not come to an end: {seen:?}"
            );
            for step in seen {
                if self.chance(4) {
                    // A crash.
                    return;
                }
                self.write(&step);
            }
        }
        for (ordinal, process) in self.processes.clone().into_iter().enumerate() {
            let trusted: Vec<_> = process.trusted.iter().map(String::as_str).collect();
            let status = shown(&process.mark, &trusted);
            let pod = format!("chat-{ordinal}");
            if let Some(Seen::Known(member)) = self.scene.world.members.get_mut(&pod) {
                member.identity = Some(status);
            }
        }
        let decided = decide(&self.scene.cluster, &self.scene.world, self.now);
        if let Some(step) = decided.step {
            self.write(&step);
        }
    }
}

#[test]
fn whenever_it_crashes_and_whenever_files_are_read_everybody_believes_everybody() {
    for seed in 1..200 {
        let mut model = Model::new(seed);
        model.scene.cluster.rotation = Some("1".to_owned());
        for _ in 0..400 {
            model.look();
            for member in 0..3 {
                if model.chance(3) {
                    model.processes[member] = model.process(Role::Member);
                    model.check();
                }
            }
            if model.chance(3) {
                model.now += DAY;
            }
            if model.chance(90) {
                model.scene.cluster.rotation = Some(model.made.to_string());
            }
        }
        // The rotation ends: one authority, which all processes use.
        for _ in 0..60 {
            model.look();
            model.processes = vec![model.process(Role::Member); 3];
        }
        let authority = authority(&mut model.scene).clone();
        assert_eq!(authority.trusted().len(), 1, "{authority:?}");
        assert_eq!(authority.request, model.scene.cluster.rotation);
        assert_ne!(authority.trusted(), ["ca-1"]);
    }
}
