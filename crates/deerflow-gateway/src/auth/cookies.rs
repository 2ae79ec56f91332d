//! The cookies of a session.

use super::origin::Target;
use axum::http::{HeaderMap, HeaderValue, header};
use cookie::time::Duration;
use cookie::{Cookie, SameSite};

/// Holds the session; scripts cannot read it.
pub(crate) const SESSION: &str = "access_token";
/// Whether the session outlives the browser, `1` or `0`.
pub(crate) const PERSISTENT: &str = "deerflow_session_persistent";
/// Holds what requests that change something must repeat in [`CSRF_HEADER`]; scripts of our pages read it.
pub(crate) const CSRF: &str = "csrf_token";
/// Repeats [`CSRF`].
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// What holds for all cookies of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CookieRules {
    /// Sent over HTTPS only.
    secure: bool,
    /// Seconds that they live; as long as the browser when absent.
    max_age: Option<u64>,
}

impl CookieRules {
    /// For a client that addresses us like this. What is to last lasts only where nobody on the way can read it, or where
    /// `insecure` allows it.
    pub(crate) fn new(target: Option<&Target>, remember: bool, seconds: u64, insecure: bool) -> Self {
        let secure = target.is_some_and(Target::is_https);
        let safe = secure || insecure || target.is_some_and(Target::is_loopback);
        Self { secure, max_age: (remember && safe).then_some(seconds) }
    }

    /// `Set-Cookie` of a new session, and of what goes with it.
    pub(crate) fn login(self, token: String) -> Vec<HeaderValue> {
        let persistent = if self.max_age.is_some() { "1" } else { "0" };
        let hidden = |name, value: String| self.cookie(name, value).http_only(true).same_site(SameSite::Lax).build();
        [hidden(SESSION, token), hidden(PERSISTENT, persistent.to_owned())]
            .iter()
            .filter_map(render)
            .chain(self.csrf())
            .collect()
    }

    /// `Set-Cookie` of a new CSRF token.
    pub(crate) fn csrf(self) -> Option<HeaderValue> {
        render(&self.cookie(CSRF, super::random_text(64)).same_site(SameSite::Strict).build())
    }

    /// A cookie that only the paths beneath `path` get, and scripts do not.
    pub(crate) fn scoped(self, name: String, value: String, path: &'static str) -> Option<HeaderValue> {
        render(&self.cookie(name, value).path(path).http_only(true).same_site(SameSite::Lax).build())
    }

    fn cookie(self, name: impl Into<std::borrow::Cow<'static, str>>, value: String) -> cookie::CookieBuilder<'static> {
        let mut builder = Cookie::build((name.into(), value)).path("/").secure(self.secure);
        if let Some(seconds) = self.max_age {
            builder = builder.max_age(Duration::seconds(i64::try_from(seconds).unwrap_or(i64::MAX)));
        }
        builder
    }
}

/// `Set-Cookie` that ends the session.
pub(crate) fn logout() -> Vec<HeaderValue> {
    let gone = |name| Cookie::build((name, "")).path("/").max_age(Duration::ZERO).build();
    [SESSION, PERSISTENT, CSRF].into_iter().filter_map(|name| render(&gone(name))).collect()
}

fn render(cookie: &Cookie<'static>) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(cookie.to_string()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The value of a cookie of the request.
pub(crate) fn read<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let value = pairs.flat_map(|value| value.split(';')).find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == name).then_some(value.trim())
    })?;
    Some(value.trim_matches('"')).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(host: &'static str, proto: &'static str, remember: bool, insecure: bool) -> CookieRules {
        let headers = [("host", host), ("x-forwarded-proto", proto)];
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        CookieRules::new(Target::of(&headers.into_iter().collect()).as_ref(), remember, 604_800, insecure)
    }

    #[test]
    fn only_a_safe_way_keeps_a_session() {
        let kept = CookieRules { secure: true, max_age: Some(604_800) };
        assert_eq!(rules("app.example", "https", true, false), kept);
        assert_eq!(rules("app.example", "https", false, false), CookieRules { max_age: None, ..kept });
        assert_eq!(rules("app.example", "http", true, false), CookieRules { secure: false, max_age: None });
        assert_eq!(rules("app.example", "http", true, true), CookieRules { secure: false, ..kept });
        assert_eq!(rules("127.0.0.1:2026", "http", true, false), CookieRules { secure: false, ..kept });
    }

    #[test]
    fn cookies_say_who_may_read_them() {
        let set: Vec<String> = rules("localhost", "https", true, false)
            .login("tok".to_owned())
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect();
        assert_eq!(set[0], "access_token=tok; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=604800");
        assert_eq!(set[1], "deerflow_session_persistent=1; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=604800");
        let (token, rest) = set[2].strip_prefix("csrf_token=").unwrap().split_once(';').unwrap();
        assert_eq!((token.len(), rest), (86, " SameSite=Strict; Secure; Path=/; Max-Age=604800"));
        assert_eq!(logout()[0], "access_token=; Path=/; Max-Age=0");
    }

    #[test]
    fn cookies_are_found_in_any_header() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; access_token=x=y"));
        headers.append(header::COOKIE, HeaderValue::from_static(" csrf_token=\"q\" ;empty="));
        assert_eq!(read(&headers, "access_token"), Some("x=y"));
        assert_eq!(read(&headers, "csrf_token"), Some("q"));
        assert_eq!((read(&headers, "empty"), read(&headers, "token")), (None, None));
    }
}
