//! Links functions that came out alike once: a program of generics has thousands of them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| std::env::var(key).is_ok_and(|found| found == value);
    let rusts_own = std::env::var_os("RUSTC_LINKER").is_none()
        && std::env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| !flags.contains("link"));
    // Rust brings its linker for this platform, and that one knows the option. Another may stop at it.
    if rusts_own && is("TARGET", "x86_64-unknown-linux-gnu") && is("PROFILE", "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
