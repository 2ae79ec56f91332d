//! Which paths are open, and which need what.

use axum::http::Method;
use std::borrow::Cow;

/// Paths that are open together with all beneath them.
const OPEN_BELOW: [&str; 3] = ["/api/v1/auth/oauth/", "/api/v1/auth/callback/", "/api/webhooks/"];
/// Paths that are open.
const OPEN: [&str; 18] = [
    "/",
    "/health",
    "/ready",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/favicon.ico",
    "/setup",
    "/login",
    "/auth/callback",
    "/account",
    "/account.js",
    "/api/v1/auth/login/local",
    "/api/v1/auth/register",
    "/api/v1/auth/logout",
    "/api/v1/auth/setup-status",
    "/api/v1/auth/initialize",
    "/api/v1/auth/providers",
];
/// What nobody can be asked a CSRF token for, having none yet: these look at the page's origin instead.
const BY_ORIGIN: [&str; 4] =
    ["/api/v1/auth/login/local", "/api/v1/auth/register", "/api/v1/auth/logout", "/api/v1/auth/initialize"];
/// Called by programs that prove themselves otherwise.
const WEBHOOKS: &str = "/api/webhooks/";

/// The path under `/api`, also when it was asked for under `/api/langgraph`; without a slash at the end.
pub(crate) fn canonical(path: &str) -> Cow<'_, str> {
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    match path.strip_prefix("/api/langgraph") {
        Some("") => "/api".into(),
        Some(rest) if rest.starts_with('/') => format!("/api{rest}").into(),
        _ => path.into(),
    }
}

/// Whether a path (canonical) is there for everybody. All others are not, whatever may be mounted there.
pub(crate) fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || OPEN_BELOW.iter().any(|prefix| path.starts_with(prefix))
}

/// How a request that changes something shows that it was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// None is needed.
    None,
    /// It comes from a page of ours, or from no page.
    Origin,
    /// It repeats the CSRF token.
    Token,
}

/// What a request to a path (canonical) needs.
pub(crate) fn proof(method: &Method, path: &str) -> Proof {
    let changes = matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
    match path {
        _ if !changes || path.starts_with(WEBHOOKS) => Proof::None,
        path if BY_ORIGIN.contains(&path) => Proof::Origin,
        _ => Proof::Token,
    }
}

/// Whether a login may begin here, so that a CSRF token is handed out.
pub(crate) fn begins_session(path: &str) -> bool {
    BY_ORIGIN.contains(&path) && !path.ends_with("/logout")
}

/// The permission that a request to a path (canonical) needs, `threads:read` say. Whatever is about threads and runs needs
/// one; the rest is for everybody who is logged in. `cancels` is whether the query asks to cancel.
pub(crate) fn permission(method: &Method, path: &str, cancels: bool) -> Option<&'static str> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let parts: Vec<&str> = path.strip_prefix("/api/")?.split('/').collect();
    Some(match parts.as_slice() {
        ["threads"] => "threads:write",
        ["threads", "search" | "count"] => "threads:read",
        ["threads", "prune"] => "threads:delete",
        ["threads", _, "runs", rest @ ..] => match rest {
            [_, "feedback", ..] => about_thread(method, reads),
            [_, "cancel"] => "runs:cancel",
            _ if cancels => "runs:cancel",
            [_, "stream" | "join"] => "runs:read",
            [_] if *method == Method::DELETE => "threads:delete",
            _ if reads => "runs:read",
            _ => "runs:create",
        },
        ["threads", _, "messages", ..] if reads => "runs:read",
        ["threads", _, "history"] | ["threads", _, "state", "checkpoint"] => "threads:read",
        ["threads", _, "goal"] if !reads => "threads:write",
        ["threads", ..] => about_thread(method, reads),
        ["runs", "cancel"] => "runs:cancel",
        ["runs", ..] | ["console", ..] if reads => "runs:read",
        ["runs", ..] => "runs:create",
        _ => return None,
    })
}

fn about_thread(method: &Method, reads: bool) -> &'static str {
    match *method {
        _ if reads => "threads:read",
        Method::DELETE => "threads:delete",
        _ => "threads:write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alias_is_the_same_path() {
        assert_eq!(canonical("/api/langgraph/threads/x"), "/api/threads/x");
        assert_eq!(canonical("/api/langgraphs/x"), "/api/langgraphs/x");
        assert_eq!(canonical("/api/v1/auth/logout/"), "/api/v1/auth/logout");
        assert_eq!(canonical("/"), "/");
        assert!(is_open("/api/v1/auth/providers") && is_open("/api/v1/auth/callback/github"));
        for closed in
            ["/api/v1/auth/me", "/api/v1/auth/oauth", "/api/threads", "/metrics", "/api", "/api/v1/auth/login/local/x"]
        {
            assert!(!is_open(closed), "{closed}");
        }
    }

    #[test]
    fn what_is_about_threads_and_runs_needs_a_permission() {
        let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
        let cases = [
            (&post, "/api/threads", "threads:write"),
            (&post, "/api/threads/search", "threads:read"),
            (&get, "/api/threads/t", "threads:read"),
            (&delete, "/api/threads/t", "threads:delete"),
            (&post, "/api/threads/t/history", "threads:read"),
            (&post, "/api/threads/t/state", "threads:write"),
            (&put, "/api/threads/t/artifacts/mnt/user-data/outputs/a.md", "threads:write"),
            (&delete, "/api/threads/t/uploads/a.md", "threads:delete"),
            (&delete, "/api/threads/t/goal", "threads:write"),
            (&post, "/api/threads/t/runs", "runs:create"),
            (&post, "/api/threads/t/runs/stream", "runs:create"),
            (&post, "/api/threads/t/runs/regenerate/prepare", "runs:create"),
            (&post, "/api/threads/t/runs/r/stream", "runs:read"),
            (&get, "/api/threads/t/runs/r/join", "runs:read"),
            (&post, "/api/threads/t/runs/r/cancel", "runs:cancel"),
            (&put, "/api/threads/t/runs/r/feedback", "threads:write"),
            (&get, "/api/threads/t/messages/page", "runs:read"),
            (&post, "/api/runs/stream", "runs:create"),
            (&get, "/api/runs/r/messages", "runs:read"),
            (&get, "/api/console/stats", "runs:read"),
        ];
        for (method, path, expected) in cases {
            assert_eq!(permission(method, path, false), Some(expected), "{method} {path}");
        }
        assert_eq!(permission(&post, "/api/threads/t/runs/r/stream", true), Some("runs:cancel"));
        assert_eq!(permission(&get, "/api/models", false), None);
    }
}
