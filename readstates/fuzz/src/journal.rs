//! As much of the journal as reading a file needs, and what must hold of it.

#[allow(dead_code, reason = "the writer's side is not called by any target")]
#[path = "../../src/journal/record/mod.rs"]
mod record;
#[allow(dead_code, reason = "the writer's side is not called by any target")]
#[path = "../../src/journal/segment.rs"]
mod segment;

use record::Entry;
use segment::{HEAD, Head};

/// Whether these bytes are records. Those are written as they were read, and a frame of them is read from a file that ends
/// anywhere as all of them or as none.
pub fn holds(data: &[u8]) -> bool {
    // Whatever a file has in it.
    let _ = Head::decode(data);
    let _ = segment::frames(data, 1);
    let Ok(changes) = record::decode_all(data) else {
        return false;
    };
    let mut again = Vec::new();
    for change in &changes {
        let entry = Entry {
            user: change.user,
            first_version: change.first_version,
            version: change.version,
            before: change.before,
            operations: &change.operations,
        };
        entry.encode(&mut again);
    }
    assert_eq!(again, data);
    let mut file = vec![0; HEAD];
    segment::put_frame(&mut file, 1, 0, data);
    let whole = segment::frames(&file, 1);
    assert!(whole.holes.is_empty() && whole.end == file.len());
    assert_eq!(whole.frames[0].records, data);
    let ends = data.first().map_or(0, |&byte| usize::from(byte));
    let torn = &file[..HEAD + ends.min(file.len() - HEAD - 1)];
    assert!(segment::frames(torn, 1).frames.is_empty());
    true
}
