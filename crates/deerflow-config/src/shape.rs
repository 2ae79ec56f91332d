//! What a JSON Schema says about one position of the file, in the few questions that checking asks.

use serde_json::{Map, Value};

/// Enough for any sane chain of `$ref` and `anyOf`; stops a schema that refers to itself.
const MAX_REFERENCES: usize = 16;

/// The alternatives a value may match. None at all means that anything goes.
#[derive(Debug, Clone)]
pub(crate) struct Shape<'s> {
    root: &'s Value,
    options: Vec<&'s Map<String, Value>>,
    anything: bool,
}

/// What happens to keys that a mapping's shape does not name.
#[derive(Debug)]
pub(crate) enum Extra<'s> {
    /// They are errors.
    Denied,
    /// They are dropped when the section is read.
    Ignored,
    /// They are kept, and look like this.
    Kept(Shape<'s>),
}

impl<'s> Shape<'s> {
    /// The shape of `schema`, whose `$ref`s point into `root`.
    pub(crate) fn new(root: &'s Value, schema: &'s Value) -> Self {
        let mut shape = Self { root, options: Vec::new(), anything: false };
        shape.collect(schema, MAX_REFERENCES);
        shape
    }

    fn anything(root: &'s Value) -> Self {
        Self { root, options: Vec::new(), anything: true }
    }

    fn collect(&mut self, schema: &'s Value, depth: usize) {
        let Value::Object(map) = schema else {
            self.anything |= *schema == Value::Bool(true);
            return;
        };
        if depth == 0 {
            self.anything = true;
            return;
        }
        let mut constrained = false;
        if let Some(Value::String(reference)) = map.get("$ref") {
            constrained = true;
            match reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => self.collect(target, depth - 1),
                None => self.anything = true,
            }
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            if let Some(Value::Array(options)) = map.get(keyword) {
                constrained = true;
                options.iter().for_each(|option| self.collect(option, depth - 1));
            }
        }
        if ["type", "properties", "enum", "const"].iter().any(|keyword| map.contains_key(*keyword)) {
            self.options.push(map);
        } else if !constrained {
            self.anything = true;
        }
    }

    /// Whether any value at all is fine here.
    pub(crate) fn is_anything(&self) -> bool {
        self.anything || self.options.is_empty()
    }

    /// Whether a value of this JSON type (`integer` also for whole numbers) may stand here.
    pub(crate) fn accepts(&self, kind: &str) -> bool {
        self.is_anything()
            || self.options_for(kind).next().is_some()
            || (kind == "integer" && self.options_for("number").next().is_some())
    }

    fn options_for<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'s Map<String, Value>> + 'a {
        self.options.iter().copied().filter(move |option| types_of(option).any(|accepted| accepted == kind))
    }

    /// The types that may stand here in words: `a number`, `a string or a list`.
    pub(crate) fn expected(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        for kind in self.options.iter().flat_map(|option| types_of(option)) {
            let word = match kind {
                "integer" => "a whole number",
                "number" => "a number",
                "boolean" => "`true` or `false`",
                "string" => "a string",
                "array" => "a list",
                "object" => "a mapping",
                _ => continue,
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(" or ")
    }

    /// All keys that a mapping here may have by name, each with its schema.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&'s str, &'s Value)> + '_ {
        self.options_for("object")
            .filter_map(|option| option.get("properties")?.as_object())
            .flat_map(|properties| properties.iter().map(|(key, schema)| (key.as_str(), schema)))
    }

    /// The shape of the value under a named key.
    pub(crate) fn property(&self, key: &str) -> Option<Shape<'s>> {
        let mut shape = Self { root: self.root, options: Vec::new(), anything: false };
        let mut found = false;
        for (_, schema) in self.properties().filter(|(name, _)| *name == key) {
            found = true;
            shape.collect(schema, MAX_REFERENCES);
        }
        found.then_some(shape)
    }

    /// The key that `alias` is another name of.
    pub(crate) fn canonical(&self, alias: &str) -> Option<&'s str> {
        self.properties().find(|(_, schema)| strings(schema.get("x-aliases")).any(|a| a == alias)).map(|(key, _)| key)
    }

    /// All names that are right here, other spellings and well-known extras included.
    pub(crate) fn known_keys(&self) -> Vec<&'s str> {
        let mut keys: Vec<&str> = self.properties().map(|(key, _)| key).collect();
        keys.extend(self.properties().flat_map(|(_, schema)| strings(schema.get("x-aliases"))));
        keys.extend(self.known_extras().into_iter().flatten());
        keys
    }

    /// Extras that the section declares as well known; `None` when it declares none.
    pub(crate) fn known_extras(&self) -> Option<Vec<&'s str>> {
        let mut lists = self.options.iter().filter_map(|option| option.get("x-known-extras")).peekable();
        lists.peek()?;
        Some(lists.flat_map(|list| strings(Some(list))).collect())
    }

    /// What happens to other keys.
    pub(crate) fn extra(&self) -> Extra<'s> {
        let mut denied = true;
        let mut kept = Self { root: self.root, options: Vec::new(), anything: false };
        let mut keeps = false;
        for option in self.options_for("object") {
            match option.get("additionalProperties") {
                Some(Value::Bool(false)) => {}
                Some(schema) => {
                    keeps = true;
                    kept.collect(schema, MAX_REFERENCES);
                }
                None if option.contains_key("properties") => denied = false,
                // A mapping of which nothing is said.
                None => {
                    keeps = true;
                    kept.anything = true;
                }
            }
        }
        match (keeps, denied) {
            (true, _) => Extra::Kept(kept),
            (false, true) => Extra::Denied,
            (false, false) => Extra::Ignored,
        }
    }

    /// Keys that every mapping allowed here must have.
    pub(crate) fn required(&self) -> Vec<&'s str> {
        let mut options = self.options_for("object").map(|option| strings(option.get("required")).collect::<Vec<_>>());
        let Some(mut required) = options.next() else { return Vec::new() };
        for other in options {
            required.retain(|key| other.contains(key));
        }
        required
    }

    /// The shape of the items of a list.
    pub(crate) fn items(&self) -> Shape<'s> {
        let mut shape = Self { root: self.root, options: Vec::new(), anything: false };
        for option in self.options_for("array") {
            match option.get("items") {
                Some(items) => shape.collect(items, MAX_REFERENCES),
                None => return Self::anything(self.root),
            }
        }
        shape
    }

    /// The texts allowed here, with their other spellings, when only some are: `(text, canonical text)`.
    pub(crate) fn texts(&self) -> Option<Vec<(&'s str, &'s str)>> {
        let mut texts = Vec::new();
        for option in self.options_for("string") {
            match (option.get("const"), option.get("enum")) {
                (Some(Value::String(text)), _) => {
                    texts.push((text.as_str(), text.as_str()));
                    texts.extend(strings(option.get("x-aliases")).map(|alias| (alias, text.as_str())));
                }
                (_, Some(list @ Value::Array(_))) => texts.extend(strings(Some(list)).map(|text| (text, text))),
                _ => return None,
            }
        }
        (!texts.is_empty()).then_some(texts)
    }

    /// Why a number is out of range: `must be at least 1`. `None` when some alternative takes it.
    pub(crate) fn out_of_range(&self, number: f64) -> Option<String> {
        let mut reason = None;
        for option in self.options_for("integer").chain(self.options_for("number")) {
            let limit =
                |keyword: &str| option.get(keyword).and_then(|value| Some((value.as_f64()?, value.to_string())));
            let format = option.get("format").and_then(Value::as_str).unwrap_or_default();
            let largest = largest_of(format).map(|max| (f64::from(max), max.to_string()));
            let broken = match (
                limit("minimum"),
                limit("exclusiveMinimum"),
                limit("maximum").or(largest),
                limit("exclusiveMaximum"),
            ) {
                (Some((min, text)), ..) if number < min => Some(format!("must be at least {text}")),
                (_, Some((min, text)), ..) if number <= min => Some(format!("must be more than {text}")),
                (_, _, Some((max, text)), _) if number > max => Some(format!("must be at most {text}")),
                (.., Some((max, text))) if number >= max => Some(format!("must be less than {text}")),
                _ => None,
            };
            match broken {
                None => return None,
                Some(broken) => reason = Some(broken),
            }
        }
        reason
    }
}

/// The largest number of an integer format. 64 bits are more than a file can overflow by accident.
fn largest_of(format: &str) -> Option<u32> {
    match format {
        "uint8" => Some(u8::MAX.into()),
        "uint16" => Some(u16::MAX.into()),
        "uint32" => Some(u32::MAX),
        "int32" => Some(i32::MAX.unsigned_abs()),
        _ => None,
    }
}

/// The JSON types an alternative allows.
fn types_of(option: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let named = option.get("type");
    let mut types: Vec<&str> = match named {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(list) => strings(Some(list)).collect(),
        None => Vec::new(),
    };
    if named.is_none() {
        let values = option.get("enum").and_then(Value::as_array).into_iter().flatten().chain(option.get("const"));
        for value in values {
            types.push(json_type(value));
        }
        if option.contains_key("properties") {
            types.push("object");
        }
    }
    types.into_iter()
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
