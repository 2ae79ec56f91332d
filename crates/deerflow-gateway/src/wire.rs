//! JSON shapes that several route groups share; most are those of [`deerflow_service`].

mod names;

pub(crate) use deerflow_service::{
    CheckpointChoice, ExtractPath, PINNED, Run, Select, State, Thread, iso, state_update,
};
pub(crate) use names::disposition;
