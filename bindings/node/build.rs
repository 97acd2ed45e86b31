//! Tells the linker that Node itself has the functions of Node-API.

fn main() {
    napi_build::setup();
}
