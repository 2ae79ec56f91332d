//! The kernel: loop, middleware trait, chain.
