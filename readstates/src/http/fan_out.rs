//! Many users in one request: grouped by owner, one request per owner.

use crate::membership::{Member, Membership, Owner};

/// What belongs to another member.
#[derive(Debug)]
pub(super) struct Part<'a, T> {
    pub(super) index: usize,
    pub(super) owner: &'a Member,
    pub(super) items: Vec<T>,
}

/// What belongs to this member, and what to each of the others, in the order in which it came.
pub(super) fn by_owner<T>(
    membership: &Membership,
    items: impl Iterator<Item = (u64, T)>,
) -> (Vec<T>, Vec<Part<'_, T>>) {
    let mut mine = Vec::new();
    let mut others: Vec<Part<'_, T>> = Vec::new();
    // Where the part of each member is in `others`.
    let mut places = vec![None; membership.members().len()];
    for (user, item) in items {
        match membership.owner(user) {
            Owner::Me => mine.push(item),
            Owner::Other(index, owner) => {
                let place = *places[index].get_or_insert_with(|| {
                    let items = Vec::new();
                    others.push(Part {
                        index,
                        owner,
                        items,
                    });
                    others.len() - 1
                });
                others[place].items.push(item);
            }
        }
    }
    (mine, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_grouped_by_owner_and_keep_their_order() {
        let members = ["a", "b", "c"].map(|name| Member {
            name: name.into(),
            url: format!("http://{name}"),
        });
        let membership = Membership::new(1, members.into(), "b", 0, None).unwrap();
        let (mine, others) = by_owner(&membership, (1..=300_u64).map(|user| (user, user)));
        let owner = |user: &u64| membership.ring().owner_of_user(*user);
        assert!(mine.iter().all(|user| owner(user) == 1));
        assert_eq!(others.len(), 2);
        let mut all = mine.clone();
        for part in &others {
            assert!(part.items.iter().all(|user| owner(user) == part.index));
            assert_eq!(part.owner.name, membership.members()[part.index].name);
            assert!(part.items.is_sorted());
            all.extend(&part.items);
        }
        assert!(mine.is_sorted());
        all.sort_unstable();
        assert_eq!(all, (1..=300).collect::<Vec<u64>>());
    }
}
