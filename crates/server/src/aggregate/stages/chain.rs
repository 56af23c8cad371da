//! Several stages in the place of one.

use std::sync::Arc;

use super::{Documents, Run, Stage};
use crate::error::Result;

/// Stages that run one after the other.
#[derive(Debug)]
pub(super) struct Chain(pub(super) Vec<Arc<dyn Stage>>);

impl Stage for Chain {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        self.0.iter().fold(input, |documents, stage| Arc::clone(stage).run(documents, run))
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        let optimized = |stage: &Arc<dyn Stage>| Ok(stage.optimized()?.unwrap_or_else(|| Arc::clone(stage)));
        Ok(Some(Arc::new(Self(self.0.iter().map(optimized).collect::<Result<_>>()?))))
    }
}
