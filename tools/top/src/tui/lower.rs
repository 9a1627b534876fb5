//! What is below the table: exits, what is said, a console.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{Lower, Mode};
use super::seen::Seen;
use crate::state::{Said, Speaker};
use crate::text;

/// Draws it.
pub fn lower(frame: &mut Frame<'_>, area: Rect, seen: &Seen<'_>) {
    let lines = match seen.app.lower {
        Lower::Exits => exits(seen, area),
        Lower::Log => said(seen, area, None),
        Lower::Console => {
            let vm = match seen.app.mode {
                Mode::Console(vm) => Some(vm),
                _ => seen.app.chosen.map(|id| id.vm),
            };
            said(seen, area, Some(vm.unwrap_or(0)))
        }
    };
    frame.render_widget(Paragraph::new(lines), area);
}

fn exits<'a>(seen: &Seen<'a>, area: Rect) -> Vec<Line<'a>> {
    let theme = seen.app.theme;
    let Some(vcpu) = seen.app.chosen.and_then(|id| seen.view.vcpu(id)) else {
        return vec![Line::styled("exits", theme.title())];
    };
    let title = format!(
        "exits of {}: {} a second; {} throttles and {} promises not kept since the start",
        vcpu.name,
        text::number(vcpu.exit_rate),
        text::total(vcpu.throttled),
        text::total(vcpu.late)
    );
    let mut lines = vec![Line::styled(title, theme.title())];
    let most = vcpu.exits.first().map_or(0.0, |exit| exit.rate).max(1e-9);
    let room = usize::from(area.width).saturating_sub(56).min(40);
    for exit in vcpu
        .exits
        .iter()
        .take(usize::from(area.height).saturating_sub(1))
    {
        let each = exit
            .each
            .map_or(String::new(), |each| format!("{each} instr. each"));
        let bar = "█".repeat(((exit.rate / most) * room as f64).round() as usize);
        lines.push(Line::from(vec![
            Span::raw(format!(
                "{:<12} {:>8}/s {:>9} in all  {each:<17} ",
                exit.cause,
                text::number(exit.rate),
                text::total(exit.count)
            )),
            Span::styled(bar, theme.extra()),
        ]));
    }
    lines
}

/// The last lines of all, or of one VM.
fn said<'a>(seen: &Seen<'a>, area: Rect, vm: Option<u32>) -> Vec<Line<'a>> {
    let theme = seen.app.theme;
    let name = |vm: u32| {
        let mut all = seen.view.vcpus.iter();
        let own = all.find(|vcpu| vcpu.id.vm == vm);
        own.map_or_else(|| format!("VM {vm}"), |vcpu| vcpu.vm_name.clone())
    };
    let typing = matches!(seen.app.mode, Mode::Console(_));
    let title = match (vm, typing) {
        (None, _) => "what VMs and the hypervisor say".to_owned(),
        (Some(vm), true) => format!("console of {} - you type there; Ctrl-] leaves", name(vm)),
        (Some(vm), false) => format!("console of {} - c types there", name(vm)),
    };
    let room = usize::from(area.height).saturating_sub(1);
    let mut lines = Vec::new();
    if let Some(vm) = vm {
        let mut open = seen.state.log.open(Speaker::Vm(vm));
        if typing {
            open.push('_');
        }
        lines.push(Line::raw(open));
    }
    let wanted = |said: &&Said| vm.is_none_or(|vm| said.who == Speaker::Vm(vm));
    let last = seen.state.log.since(0).filter(wanted).rev();
    lines.extend(last.take(room.saturating_sub(lines.len())).map(|said| {
        let speaker = match (said.who, vm) {
            (_, Some(_)) => Span::raw(""),
            (Speaker::Hypervisor, _) => Span::styled("[hanok] ", theme.title()),
            (Speaker::Vm(vm), _) => Span::styled(format!("[{}] ", name(vm)), theme.dim()),
        };
        Line::from(vec![speaker, Span::raw(said.text.clone())])
    }));
    lines.push(Line::styled(title, theme.title()));
    lines.reverse();
    lines
}
