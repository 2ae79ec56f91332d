//! The store as its callers see it: through the ports, on real files.

mod concurrency;
mod crash;
mod faults;
mod growth;
mod history;
mod journal;
mod replay;
mod runs;
mod support;
mod threads;
