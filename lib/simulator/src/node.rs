//! The ids of choosers. Choosers refer to each other by id, because a tree of references could not
//! be changed in place.

/// A chooser: its index in the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub usize);
