//! Helpers that several assertions use: text, markup, SQL, patterns.

pub(crate) mod comments;
pub(crate) mod compare;
pub(crate) mod edit_distance;
pub(crate) mod folded;
pub(crate) mod glob;
pub(crate) mod html;
pub mod pattern;
pub(crate) mod sql;
pub mod template;
pub(crate) mod words;
