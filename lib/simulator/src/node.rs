//! Choosers have numbers: a tree of references could not be changed in place.

/// A chooser by its place in the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub usize);
