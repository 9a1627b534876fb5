//! What `hanok sched check` says of a description, by the same code.

use std::path::Path;

use anyhow::{Context, Result, bail};
use hanok_analysis::Analysis;
use hanok_task_model::{ComponentId, Model, ResourceInterface};

/// What it says.
pub struct Checked {
    /// The model of the description.
    pub model: Model,
    /// What was found.
    pub analysis: Analysis,
    /// Whether all deadlines are kept, with a certificate that was checked.
    pub kept: bool,
}

/// Checks `text`, a description whose board is in `boards`.
///
/// # Errors
/// The description has faults, or the certificate is not believed: faults of these programs.
pub fn check(text: &str, boards: &Path) -> Result<Checked> {
    let schedule = hanok_system::parse_schedule(Path::new("random.toml"), text, boards);
    let schedule = match schedule {
        Ok(schedule) => schedule,
        Err(found) => bail!("{found:#?}\n{text}"),
    };
    let model = schedule.model;
    let analysis = hanok_analysis::analyse(&model);
    let analysis = analysis.map_err(|faults| anyhow::anyhow!("{faults:?}\n{text}"))?;
    let certificate = analysis.certificate();
    if let Some(certificate) = &certificate {
        let believed = hanok_certificate_checker::check(&model, certificate);
        believed
            .map_err(|why| anyhow::anyhow!("a certificate that is not believed: {why}\n{text}"))?;
    }
    let kept = certificate.is_some();
    Ok(Checked {
        model,
        analysis,
        kept,
    })
}

impl Checked {
    /// The interface of the component called `name`, if the analysis has one.
    pub fn interface(&self, name: &str) -> Option<ResourceInterface> {
        self.analysis.interface(self.model.find(name)?)
    }

    /// The component called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn component(&self, name: &str) -> Result<ComponentId> {
        self.model
            .find(name)
            .with_context(|| format!("no component {name}"))
    }
}
