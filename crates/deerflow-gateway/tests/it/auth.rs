//! Who may use the server.

mod disabled;
mod edges;
mod every_route;
mod keys;
mod oidc;
mod policy;
mod quiet;
mod sessions;
