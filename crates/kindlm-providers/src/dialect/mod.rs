//! What the APIs of several vendors have in common, so that no provider needs to know another.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod chat;
pub(crate) mod failure;
pub(crate) mod part;
pub(crate) mod settings;
pub(crate) mod text;
