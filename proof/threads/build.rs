//! Says that this is the client for shuttle, and that it has no engine of the client's features.

fn main() {
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rustc-check-cfg=cfg(shuttle)");
    println!(
        "cargo::rustc-check-cfg=cfg(feature, values(\"file\", \"metrics\", \"redis\", \"simulation\"))"
    );
}
