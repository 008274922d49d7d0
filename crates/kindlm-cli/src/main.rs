//! The `kindlm` binary.

fn main() {}
