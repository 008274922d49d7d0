//! Published examples, and what must hold for any counts.

mod properties;
mod vectors;
