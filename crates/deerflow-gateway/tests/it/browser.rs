//! A browser: it keeps cookies, and repeats the CSRF token as our pages do.

use crate::support::{Gateway, answer};
use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Somebody with a browser.
#[derive(Clone)]
pub(crate) struct Browser {
    url: String,
    client: reqwest::Client,
    pub(crate) cookies: BTreeMap<String, String>,
}

impl Browser {
    /// A new one, without cookies.
    pub(crate) fn new(gateway: &Gateway) -> Self {
        Self { url: gateway.url.clone(), client: gateway.client.clone(), cookies: BTreeMap::new() }
    }

    /// The first account, `admin@example.com`.
    pub(crate) async fn admin(gateway: &Gateway) -> Self {
        let mut browser = Self::new(gateway);
        let body = json!({"email": "admin@example.com", "password": "admin's passphrase"});
        let (status, answer) = browser.send(Method::POST, "/api/v1/auth/initialize", &body).await;
        assert_eq!(status, 201, "{answer}");
        browser
    }

    /// A further account, `<name>@example.com` with the password `<name>'s passphrase`.
    pub(crate) async fn user(gateway: &Gateway, name: &str) -> Self {
        let mut browser = Self::new(gateway);
        let body = json!({"email": format!("{name}@example.com"), "password": format!("{name}'s passphrase")});
        let (status, answer) = browser.send(Method::POST, "/api/v1/auth/register", &body).await;
        assert_eq!(status, 201, "{answer}");
        browser
    }

    /// A request with the cookies, and nothing else.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = self.client.request(method, format!("{}{path}", self.url));
        if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) }
    }

    /// A request as our pages make it.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let token = self.cookies.get("csrf_token").cloned().unwrap_or_default();
        self.bare(method, path).header("X-CSRF-Token", token)
    }

    /// Sends it and keeps the cookies of the answer.
    pub(crate) async fn keep(&mut self, request: RequestBuilder) -> (u16, Value) {
        let response = request.send().await.unwrap();
        for set in response.headers().get_all(SET_COOKIE) {
            let set = set.to_str().unwrap();
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            if set.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn send(&mut self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let request = self.request(method, path).json(body);
        self.keep(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn login(&mut self, email: &str, password: &str) -> (u16, Value) {
        let request = self.request(Method::POST, "/api/v1/auth/login/local");
        self.keep(form(request, &[("username", email), ("password", password)])).await
    }
}

/// The request with a form as its body.
pub(crate) fn form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let body = serde_html_form::to_string(fields).unwrap();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}
