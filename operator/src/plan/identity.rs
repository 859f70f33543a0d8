//! The certificates with which the processes of a cluster prove their identity: which to issue, and the stages in which
//! one certificate authority (CA) replaces another. Pure, from Secrets, pods and the time.
//!
//! ```text
//!  {issuing} ── begin ──▶ {issuing, next} ── promote ──▶ {issuing, old} ── drop ──▶ {issuing}
//!      ▲                        │  all trust next              │  all use a certificate of issuing
//!      └──── MakeAuthority      └─ every Secret has all three trusted; those of processes follow the authority's
//! ```
//! The Secret of the authority is the only state: each arrow is one write to it, and every look makes the Secrets of
//! processes agree with it. A crash between two writes is repaired by the next look.

use std::time::Duration;

use jiff::Timestamp;
use readstates_api::admin::IdentityStatus;
use readstates_identity::Role;

use super::WaitingOn;
use crate::{
    spec::{Identity, Issuing, Store, ValidatedCluster},
    world::{AuthoritySeen, CertificateSeen, Found, IdentitySeen, LeafSeen, PodSeen, Seen, World},
};

/// How long the certificate of a process is valid: short enough that a stolen one ends by itself, and long
/// enough that a month without an operator (a third of it) is no trouble.
pub const LEAF_VALID: Duration = Duration::from_hours(24 * 90);
/// How long an authority is valid: replaced at two thirds, it leaves eight months for a rotation that waits for a
/// person.
pub const AUTHORITY_VALID: Duration = Duration::from_hours(24 * 365 * 2);
/// A certificate that would gain less than this is not issued again: its authority ends no later.
const LEAST_GAIN: Duration = Duration::from_hours(24);
/// A pod created this long after a Secret was written has that version of it: its kubelet has seen it by then.
const SPREAD: Duration = Duration::from_mins(1);

/// One write to one Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityStep {
    /// Make the first authority of the cluster.
    MakeAuthority,
    /// The authority was lost: make the next one, beside all that processes trust now.
    RecoverAuthority,
    /// Make the authority that is to take the place of the present one.
    BeginRotation,
    /// The next authority issues from now on.
    Promote,
    /// Those that issued before are not trusted any more.
    DropOld,
    /// Another certificate for the processes of this role.
    Issue(Role),
    /// The processes of this role trust what the authority's Secret says.
    Trust(Role),
}

impl IdentityStep {
    /// Whether a certificate is made, and with it a time written down.
    #[must_use]
    pub fn mints(&self) -> bool {
        match self {
            Self::MakeAuthority | Self::RecoverAuthority | Self::BeginRotation | Self::Issue(_) => {
                true
            }
            Self::Promote | Self::DropOld | Self::Trust(_) => false,
        }
    }
}

/// The roles that processes of a cluster have.
#[must_use]
pub fn roles(cluster: &ValidatedCluster) -> &'static [Role] {
    match cluster.store {
        Store::Managed(_) => &[Role::Member, Role::Operator, Role::Agent],
        Store::External(_) | Store::Embedded(_) => &[Role::Member, Role::Operator],
    }
}

/// What has to be written so that every process can have a valid certificate of the authority there is. Needs
/// no word of any pod, and is done before pods are looked at. While the cluster is paused: only so that those that have
/// one keep one.
#[must_use]
pub fn missing(
    cluster: &ValidatedCluster,
    seen: &IdentitySeen,
    now: Timestamp,
) -> Vec<IdentityStep> {
    match cluster.issuing {
        Issuing::Operator => {}
        Issuing::Manager(_) => return Vec::new(),
    }
    let roles = roles(cluster);
    if cluster.paused {
        return renewals(roles, seen, now);
    }
    match &seen.authority {
        Found::Foreign { .. } | Found::Leftover => Vec::new(),
        Found::Absent { .. } | Found::Broken { .. } => {
            let trusts = |role: &Role| seen.leaf(*role).content().is_some();
            vec![if roles.iter().any(trusts) {
                IdentityStep::RecoverAuthority
            } else {
                IdentityStep::MakeAuthority
            }]
        }
        Found::Known { content, .. } => roles
            .iter()
            .filter_map(|role| for_role(*role, content, seen.leaf(*role), now))
            .collect(),
    }
}

/// Certificates that would end. Another one in the same Secret restarts nothing, and is trusted by all: its authority has
/// issued since every process trusted it.
fn renewals(roles: &[Role], seen: &IdentitySeen, now: Timestamp) -> Vec<IdentityStep> {
    let authority = seen.authority.content();
    let Some(issuing) = authority.and_then(|authority| authority.issuing.as_ref()) else {
        return Vec::new();
    };
    let ends = |role: &&Role| {
        let leaf = seen.leaf(**role).content();
        leaf.is_some_and(|leaf| renews(&leaf.certificate, issuing, now))
    };
    let ending = roles.iter().filter(ends);
    ending.map(|role| IdentityStep::Issue(*role)).collect()
}

fn for_role(
    role: Role,
    authority: &AuthoritySeen,
    leaf: &Found<LeafSeen>,
    now: Timestamp,
) -> Option<IdentityStep> {
    let issuing = authority.issuing.as_ref();
    let leaf = match leaf {
        Found::Foreign { .. } | Found::Leftover => return None,
        Found::Absent { .. } | Found::Broken { .. } => {
            return issuing.map(|_| IdentityStep::Issue(role));
        }
        Found::Known { content, .. } => content,
    };
    if let Some(issuing) = issuing {
        let other = leaf.issued_by.as_ref() != Some(&issuing.mark);
        if other || renews(&leaf.certificate, issuing, now) {
            return Some(IdentityStep::Issue(role));
        }
    }
    (leaf.trusted != authority.trusted()).then_some(IdentityStep::Trust(role))
}

/// Whether a certificate is due, and another one would be valid for longer.
fn renews(certificate: &CertificateSeen, issuing: &CertificateSeen, now: Timestamp) -> bool {
    due(certificate, now) && gains(certificate, issuing, now)
}

/// Two thirds of its time are over. One that is not valid yet is never due: then it is the clock that is wrong.
fn due(certificate: &CertificateSeen, now: Timestamp) -> bool {
    let CertificateSeen {
        mark: _,
        not_before,
        not_after,
    } = certificate;
    let third = not_after.duration_since(*not_before) / 3;
    now >= *not_before && not_after.duration_since(now) < third
}

fn gains(certificate: &CertificateSeen, issuing: &CertificateSeen, now: Timestamp) -> bool {
    let best = ends(now, LEAF_VALID).min(issuing.not_after);
    best > ends(certificate.not_after, LEAST_GAIN)
}

fn ends(from: Timestamp, after: Duration) -> Timestamp {
    from.checked_add(after).unwrap_or(Timestamp::MAX)
}

/// What there is to do about the identity, once the pods are seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Whether to ask cert-manager: only where it is installed, and would not write into a Secret that is not ours.
    pub(super) ask: bool,
    /// The next stage of a rotation.
    pub(super) step: Option<IdentityStep>,
    /// What pods that mount the Secrets wait for.
    pub(super) blocked: Option<WaitingOn>,
    /// What a rotation waits for, which nothing else has to wait for.
    pub(super) waiting: Option<WaitingOn>,
}

pub(super) fn decide(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> Decision {
    if let Some(blocked) = blocked(cluster, &world.identity) {
        return Decision {
            ask: may_ask(cluster, &world.identity),
            blocked: Some(blocked),
            ..Decision::default()
        };
    }
    let authority = match (&cluster.issuing, &world.identity.authority) {
        (Issuing::Operator, Found::Known { content, .. }) => content,
        (Issuing::Operator | Issuing::Manager(_), _) => {
            return Decision {
                ask: may_ask(cluster, &world.identity),
                ..Decision::default()
            };
        }
    };
    let clock = world.identity.clock.clone();
    let clock = clock.map(|words| WaitingOn::Clock { words });
    match rotate(cluster, world, authority, now) {
        Next::Step(step) => Decision {
            step: Some(step),
            ..Decision::default()
        },
        Next::Wait(waiting) => Decision {
            waiting: clock.or(Some(waiting)),
            ..Decision::default()
        },
        Next::Nothing => Decision {
            waiting: clock,
            ..Decision::default()
        },
    }
}

fn may_ask(cluster: &ValidatedCluster, seen: &IdentitySeen) -> bool {
    let managed = match cluster.issuing {
        Issuing::Operator => false,
        Issuing::Manager(_) => true,
    };
    let free = |role: &Role| !matches!(seen.leaf(*role), Found::Foreign { .. } | Found::Leftover);
    managed && seen.no_manager.is_none() && roles(cluster).iter().all(free)
}

/// Pods that mount a Secret that is not there would not start, and one that is not ours proves nothing.
fn blocked(cluster: &ValidatedCluster, seen: &IdentitySeen) -> Option<WaitingOn> {
    let id = &cluster.id;
    let managed = match cluster.issuing {
        Issuing::Operator => false,
        Issuing::Manager(_) => true,
    };
    if let Some(why) = &seen.no_manager {
        return Some(WaitingOn::CertManager { why: why.clone() });
    }
    let authority = (!managed).then(|| {
        let name = id.identity_authority();
        unusable(id, name, &seen.authority, managed, seen.clock.as_ref())
    });
    let leaves = roles(cluster).iter().map(|role| {
        let name = id.identity_secret(*role);
        unusable(id, name, seen.leaf(*role), managed, seen.clock.as_ref())
    });
    authority.into_iter().chain(leaves).flatten().next()
}

fn unusable<T>(
    id: &Identity,
    name: String,
    found: &Found<T>,
    managed: bool,
    clock: Option<&String>,
) -> Option<WaitingOn> {
    Some(match found {
        Found::Known { .. } => return None,
        Found::Foreign { owner } => WaitingOn::IdentityTaken {
            words: id.conflict(&format!("Secret {name}"), owner.as_deref()),
        },
        Found::Leftover => WaitingOn::Leftover {
            object: format!("Secret {name}"),
        },
        Found::Absent { words } if managed => WaitingOn::CertificateIssued {
            name,
            words: words.clone(),
        },
        Found::Broken { why, .. } if managed => WaitingOn::CertificateUsable {
            name,
            why: why.clone(),
        },
        Found::Absent { .. } | Found::Broken { .. } => match clock {
            Some(words) => WaitingOn::Clock {
                words: words.clone(),
            },
            None => WaitingOn::IdentityMade { name },
        },
    })
}

enum Next {
    Step(IdentityStep),
    Wait(WaitingOn),
    Nothing,
}

fn rotate(
    cluster: &ValidatedCluster,
    world: &World,
    authority: &AuthoritySeen,
    now: Timestamp,
) -> Next {
    let AuthoritySeen {
        issuing,
        next,
        old,
        request,
    } = authority;
    let over = |ca: &CertificateSeen| ca.not_after < now;
    if let Some(next) = next {
        // Authorities that have expired are trusted by no process, so they keep nothing waiting.
        let before = || issuing.iter().chain(old);
        if before().all(over) {
            return Next::Step(IdentityStep::Promote);
        }
        let trusts = |marks: &Marks<'_>| marks.trusted.contains(&next.mark);
        return stage(cluster, world, "trust the next authority", trusts)
            .map_or(Next::Step(IdentityStep::Promote), Next::Wait);
    }
    if !old.is_empty() {
        if old.iter().all(over) {
            return Next::Step(IdentityStep::DropOld);
        }
        let uses = |marks: &Marks<'_>| marks.wanted.is_some_and(|w| w == marks.certificate);
        return stage(
            cluster,
            world,
            "use a certificate of the new authority",
            uses,
        )
        .map_or(Next::Step(IdentityStep::DropOld), Next::Wait);
    }
    let asked = cluster.rotation.is_some() && cluster.rotation != *request;
    match issuing {
        Some(ca) if asked || due(ca, now) => Next::Step(IdentityStep::BeginRotation),
        Some(_) | None => Next::Nothing,
    }
}

/// The certificates of one process.
struct Marks<'a> {
    certificate: &'a str,
    trusted: &'a [String],
    /// What it should show: the certificate in the Secret of its role.
    wanted: Option<&'a str>,
}

/// What the present stage waits for; none: it is complete.
fn stage(
    cluster: &ValidatedCluster,
    world: &World,
    what: &'static str,
    done: impl Fn(&Marks<'_>) -> bool,
) -> Option<WaitingOn> {
    let seen = &world.identity;
    let issuing = seen.authority.content().and_then(|a| a.issuing.as_ref());
    let wait = |who: String, why: String| Some(WaitingOn::IdentityRotating { who, what, why });
    for role in roles(cluster) {
        let secret = || format!("Secret {}", cluster.id.identity_secret(*role));
        let Some(leaf) = seen.leaf(*role).content() else {
            if issuing.is_none() {
                // It is made by the next authority.
                continue;
            }
            return wait(secret(), "it cannot be used".to_owned());
        };
        let marks = Marks {
            certificate: &leaf.certificate.mark,
            trusted: &leaf.trusted,
            wanted: Some(leaf.certificate.mark.as_str())
                .filter(|_| leaf.issued_by.as_deref() == issuing.map(|ca| ca.mark.as_str())),
        };
        if !done(&marks) {
            return wait(secret(), "it is not written yet".to_owned());
        }
    }
    holders(world).find_map(|holder| {
        let leaf = seen.leaf(holder.role).content();
        match holder.says {
            Ok((certificate, trusted)) => {
                let wanted = leaf.map(|leaf| leaf.certificate.mark.as_str());
                let marks = Marks {
                    certificate,
                    trusted,
                    wanted,
                };
                let files = "it has not read the files of the Secret yet";
                (!done(&marks)).then(|| wait(holder.pod.name.clone(), files.to_owned()))?
            }
            Err(why) => {
                let fresh = leaf.is_some_and(|leaf| younger(holder.pod, leaf));
                (!fresh).then(|| wait(holder.pod.name.clone(), why))?
            }
        }
    })
}

/// Whether the pod was made after the Secret was written, both by the API server's clock.
fn younger(pod: &PodSeen, leaf: &LeafSeen) -> bool {
    let written = leaf.written.map(|at| ends(at, SPREAD));
    pod.created
        .zip(written)
        .is_some_and(|(made, written)| made > written)
}

/// What a process says of its certificates.
fn told(identity: Option<&IdentityStatus>) -> Result<(&str, &[String]), String> {
    match identity {
        Some(status) => Ok((&status.certificate, &status.trusted)),
        None => Err("it does not say which certificates it has".to_owned()),
    }
}

/// A running process that has an identity.
struct Holder<'a> {
    pod: &'a PodSeen,
    role: Role,
    /// Its certificate and the authorities that it trusts, or why that is not known.
    says: Result<(&'a str, &'a [String]), String>,
}

/// Pods of the release before have no identity, and pods without a process take the files as they are when
/// they start.
fn holders(world: &World) -> impl Iterator<Item = Holder<'_>> {
    let members = world.cache_pods.iter().filter(|pod| pod.mutual_tls);
    let members = members.filter_map(|pod| {
        let says = match world.members.get(&pod.name)? {
            Seen::Known(member) => told(member.identity.as_ref()),
            Seen::Unknown(why) => Err(why.clone()),
        };
        let role = Role::Member;
        Some(Holder { pod, role, says })
    });
    let agents = world.database_pods.iter().filter(|pod| pod.mutual_tls);
    let agents = agents.filter_map(|pod| {
        let says = match world.nodes.reports.get(&pod.name)? {
            Seen::Known(report) => told(report.identity.as_ref()),
            Seen::Unknown(why) => Err(why.clone()),
        };
        let role = Role::Agent;
        Some(Holder { pod, role, says })
    });
    members.chain(agents)
}

#[cfg(test)]
mod tests;
