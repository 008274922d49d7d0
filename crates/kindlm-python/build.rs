//! Lets the linker of macOS leave the symbols of Python undefined, as Linux does by default.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
