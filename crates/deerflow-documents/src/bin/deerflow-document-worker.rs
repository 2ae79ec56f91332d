//! A program that is only the conversion worker: for tests, and for callers whose own binary cannot re-execute itself.

fn main() {
    if deerflow_documents::is_worker_invocation() {
        deerflow_documents::worker_main();
    }
    std::process::exit(2);
}
