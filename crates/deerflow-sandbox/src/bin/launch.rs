//! The launcher alone, for tests.

fn main() {
    if deerflow_sandbox::is_launcher_invocation() {
        deerflow_sandbox::launcher_main();
    }
}
