//! Says that this is the client for shuttle, and that it has no engine of the client's features.

fn main() {
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rustc-check-cfg=cfg(shuttle)");
    let features = "\"file\", \"metrics\", \"postgres\", \"redis\", \"simulation\"";
    println!("cargo::rustc-check-cfg=cfg(feature, values({features}))");
}
