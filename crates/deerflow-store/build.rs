//! Rebuilds the crate when a migration is added.
fn main() {
    // Cargo reads this from the build script's standard output.
    #[allow(clippy::print_stdout, reason = "the protocol between a build script and cargo")]
    {
        println!("cargo:rerun-if-changed=migrations");
    }
}
