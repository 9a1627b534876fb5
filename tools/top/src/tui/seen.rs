//! What all parts of the screen are drawn of.

use super::app::App;
use crate::protocol::VcpuId;
use crate::state::State;
use crate::timeline::Timeline;
use crate::view::View;

/// What is drawn.
pub struct Seen<'a> {
    pub app: &'a App,
    pub state: &'a State,
    pub view: &'a View,
    pub timeline: &'a Timeline,
}

impl Seen<'_> {
    /// The place of a vCPU in the list of all, by which it has its mark.
    pub fn place(&self, id: VcpuId) -> usize {
        let mut all = self.view.vcpus.iter();
        all.position(|vcpu| vcpu.id == id).unwrap_or(usize::MAX)
    }
}
