//! Rings that one would take instead: users to the place of their member.

use hashring::HashRing;
use md5::{Digest, Md5};

/// Points of a member on a ring, as ex_hash_ring has them unless told otherwise.
const REPLICAS: u32 = 512;

/// A ring as ex_hash_ring defines it: a member's points are hashes of its name followed by a number, a key
/// belongs to the next point above its own hash, and the hash is the second half of MD5, little endian.
pub(crate) struct Md5Ring {
    points: Vec<(u64, u16)>,
}

impl Md5Ring {
    pub(crate) fn new(members: u16) -> Self {
        let points_of = |member| {
            (0..REPLICAS).map(move |point| (md5(&format!("chat-{member}{point}")), member))
        };
        let mut points: Vec<(u64, u16)> = (0..members).flat_map(points_of).collect();
        points.sort_unstable();
        Self { points }
    }

    /// The key is the user's id in digits.
    pub(crate) fn owner(&self, user: u64) -> u16 {
        let hash = md5(&user.to_string());
        let next = self.points.partition_point(|&(point, _)| point <= hash);
        self.points[next % self.points.len()].1
    }
}

fn md5(key: &str) -> u64 {
    let digest = Md5::digest(key.as_bytes());
    let mut half = [0; 8];
    half.copy_from_slice(&digest[8..]);
    u64::from_le_bytes(half)
}

/// A member's point on the ring of the `hashring` crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Point {
    member: u16,
    number: u32,
}

/// The `hashring` crate, with as many points for each member.
pub(crate) struct CrateRing(HashRing<Point>);

impl CrateRing {
    pub(crate) fn new(members: u16) -> Self {
        let points_of = |member| (0..REPLICAS).map(move |number| Point { member, number });
        let mut ring = HashRing::new();
        ring.batch_add((0..members).flat_map(points_of).collect());
        Self(ring)
    }

    pub(crate) fn owner(&self, user: u64) -> u16 {
        self.0.get(&user).map_or(u16::MAX, |point| point.member)
    }
}
