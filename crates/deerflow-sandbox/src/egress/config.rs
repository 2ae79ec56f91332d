//! `sandbox.network` in the configuration.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::allow::{AllowList, BadPattern};
use crate::SandboxError;

/// Network of commands.
///
/// In YAML and JSON: `off` (which YAML takes for `false`, so that means the same), or a mapping with the one key `allow`, a list of patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetworkConfig {
    /// Loopback of the sandbox only.
    #[default]
    Off,
    /// What these patterns name, through a proxy: a host name (`pypi.org`), the names beneath one (`*.pythonhosted.org`), an
    /// address, or `*` for every public host. `:port` may follow; without it the ports are 80 and 443. A private or loopback
    /// address must be written out with its port; no name ever leads to one.
    Allow(Vec<String>),
}

/// What commands can reach, for descriptions and reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkAccess {
    /// Loopback of the sandbox only.
    Off,
    /// What a list names, through the proxy in the environment.
    AllowList {
        /// The patterns; without a port they mean 80 and 443.
        patterns: Vec<String>,
        /// One of them is an address of the server's loopback, which a client does not ask a proxy for by itself.
        loopback: bool,
    },
    /// All that the host can reach.
    Unconfined,
}

impl NetworkConfig {
    /// The patterns, read; `None` where the network is off.
    pub(crate) fn allow_list(&self) -> Result<Option<AllowList>, SandboxError> {
        match self {
            Self::Off => Ok(None),
            Self::Allow(patterns) => AllowList::parse(patterns).map(Some).map_err(|bad| {
                let problem = |bad: BadPattern| format!("{}; hint: {}", bad.problem, bad.help);
                let problems: Vec<String> = bad.into_iter().map(problem).collect();
                SandboxError::Config { message: format!("sandbox.network.allow: {}", problems.join("; ")) }
            }),
        }
    }

    /// What commands can reach where this is enforced.
    pub(crate) fn access(&self) -> NetworkAccess {
        match self.allow_list() {
            Ok(Some(list)) => NetworkAccess::AllowList { patterns: list.texts(), loopback: list.has_loopback() },
            Ok(None) | Err(_) => NetworkAccess::Off,
        }
    }

    /// Tells the configuration's checks what is wrong, pattern by pattern. `network` is where this stands.
    pub(crate) fn check(&self, network: &deerflow_config::KeyPath, problems: &mut deerflow_config::Problems) {
        let Self::Allow(patterns) = self else { return };
        let allow = network.key("allow");
        if patterns.is_empty() {
            let help = "write `network: off`, or name what commands may reach".to_owned();
            problems.warning(allow.clone(), "an empty list allows nothing", Some(help));
        }
        for BadPattern { index, problem, help } in AllowList::parse(patterns).err().into_iter().flatten() {
            problems.error(allow.index(index), problem, Some(help));
        }
    }
}

impl fmt::Display for NetworkAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::AllowList { patterns, .. } if patterns.is_empty() => f.write_str("off: the allow-list is empty"),
            Self::AllowList { patterns, .. } => write!(f, "only to {}, through a proxy", patterns.join(", ")),
            Self::Unconfined => f.write_str("that of the host, without limits"),
        }
    }
}

impl Serialize for NetworkConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::Allow(patterns) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("allow", patterns)?;
                map.end()
            }
        }
    }
}

// By hand, because the errors of an untagged enum say nothing.
impl<'de> Deserialize<'de> for NetworkConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = NetworkConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`off`, or a list of what commands may reach, like `network: {allow: [pypi.org]}`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<NetworkConfig, E> {
                match text {
                    "off" => Ok(NetworkConfig::Off),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            // What YAML makes of `off`.
            fn visit_bool<E: Error>(self, on: bool) -> Result<NetworkConfig, E> {
                if on { Err(E::invalid_value(Unexpected::Bool(on), &self)) } else { Ok(NetworkConfig::Off) }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NetworkConfig, A::Error> {
                let mut allow: Option<Vec<String>> = None;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "allow" => allow = Some(map.next_value()?),
                        other => return Err(A::Error::unknown_field(other, &["allow"])),
                    }
                }
                allow.map(NetworkConfig::Allow).ok_or_else(|| A::Error::missing_field("allow"))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for NetworkConfig {
    fn schema_name() -> Cow<'static, str> {
        "NetworkConfig".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Network of commands.",
            "anyOf": [
                { "type": "string", "pattern": "^off$", "description": "`off`: loopback of the sandbox only." },
                { "type": "boolean", "const": false, "description": "What YAML makes of `off`." },
                {
                    "type": "object",
                    "properties": {
                        "allow": {
                            "type": "array",
                            "items": { "type": "string" },
                            "description": "What commands may reach, through a proxy in their environment: a host name (`pypi.org`), \
                                the names beneath one (`*.pythonhosted.org`), an address, or `*` for every public host. `:port` may \
                                follow; without it the ports are 80 and 443. A private or loopback address must be written out with \
                                its port (`10.0.0.5:8080`); no name ever leads to one."
                        }
                    },
                    "required": ["allow"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Result<NetworkConfig, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn both_forms_are_read_and_written() {
        for value in [json!("off"), json!({"allow": ["pypi.org", "*.pythonhosted.org:443"]}), json!({"allow": []})] {
            assert_eq!(serde_json::to_value(read(value.clone()).unwrap()).unwrap(), value);
        }
        assert_eq!(
            read(json!({"allow": ["PyPI.org"]})).unwrap().access().to_string(),
            "only to pypi.org, through a proxy"
        );
        assert_eq!(NetworkConfig::default().access(), NetworkAccess::Off);
        assert_eq!(read(json!(false)).unwrap(), NetworkConfig::Off);
    }

    #[test]
    fn other_forms_are_refused_with_the_right_one() {
        for value in [json!("allow-list"), json!("on"), json!(true), json!(["pypi.org"])] {
            let error = read(value).unwrap_err();
            assert!(error.contains("expected `off`, or a list of what commands may reach"), "{error}");
        }
        assert!(read(json!({"deny": []})).unwrap_err().contains("expected `allow`"));
        assert!(read(json!({})).unwrap_err().contains("missing field `allow`"));
        let bad = read(json!({"allow": ["localhost"]})).unwrap().allow_list().unwrap_err().to_string();
        assert!(
            bad.contains("sandbox.network.allow: `localhost` is a name") && bad.contains("127.0.0.1:8080"),
            "{bad}"
        );
    }
}
