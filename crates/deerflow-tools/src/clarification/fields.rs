//! Forms. One breach of a limit drops the whole form: half a form would ask half a question.

use deerflow_core::JsonMap;
use serde_json::{Value, json};

use super::{options, scalar_text};

const MAX_FIELDS: usize = 16;
const MAX_OPTIONS: usize = 24;
const MAX_CHARS: usize = 200;
const MAX_BYTES: usize = 16_384;
/// Members of every JavaScript object: as field names they would break clients.
const RESERVED: [&str; 13] = [
    "__proto__",
    "constructor",
    "prototype",
    "toString",
    "toLocaleString",
    "valueOf",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
];

/// One field of a form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    name: String,
    pub(super) label: String,
    pub(super) kind: FieldKind,
    pub(super) required: bool,
    pub(super) options: Vec<String>,
    placeholder: Option<String>,
}

/// How a field is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Text,
    Textarea,
    Number,
    Select,
    MultiSelect,
    Checkbox,
    Date,
}

impl FieldKind {
    fn parse(value: Option<&Value>) -> Self {
        match value.and_then(Value::as_str).map(|name| name.trim().to_lowercase()).as_deref() {
            Some("textarea") => Self::Textarea,
            Some("number") => Self::Number,
            Some("select") => Self::Select,
            Some("multi_select") => Self::MultiSelect,
            Some("checkbox") => Self::Checkbox,
            Some("date") => Self::Date,
            _ => Self::Text,
        }
    }
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Textarea => "textarea",
            Self::Number => "number",
            Self::Select => "select",
            Self::MultiSelect => "multi_select",
            Self::Checkbox => "checkbox",
            Self::Date => "date",
        }
    }
    fn has_options(self) -> bool {
        matches!(self, Self::Select | Self::MultiSelect)
    }
}

impl Field {
    /// The field in the payload, its options with ids.
    pub(super) fn to_value(&self) -> Value {
        let prefix = format!("{}-option", self.name);
        self.render(|options| options::with_ids(&prefix, options))
    }

    fn render(&self, options: impl Fn(&[String]) -> Value) -> Value {
        let mut map = JsonMap::new();
        map.insert("name".into(), json!(self.name));
        map.insert("label".into(), json!(self.label));
        map.insert("type".into(), json!(self.kind.name()));
        map.insert("required".into(), json!(self.required));
        if !self.options.is_empty() {
            map.insert("options".into(), options(&self.options));
        }
        if let Some(placeholder) = &self.placeholder {
            map.insert("placeholder".into(), json!(placeholder));
        }
        Value::Object(map)
    }
}

/// The form, or `None` if there is none or any part of it breaches a limit.
pub(super) fn normalise(value: &Value) -> Option<Vec<Field>> {
    let parsed;
    let value = match value {
        Value::String(text) => {
            parsed = serde_json::from_str::<Value>(text).ok()?;
            &parsed
        }
        other => other,
    };
    let entries = match value {
        Value::Array(list) => list.as_slice(),
        Value::Object(_) => std::slice::from_ref(value),
        _ => return None,
    };
    if entries.is_empty() || entries.len() > MAX_FIELDS {
        return None;
    }
    let mut form: Vec<Field> = Vec::with_capacity(entries.len());
    for entry in entries {
        let field = field(entry.as_object()?)?;
        if form.iter().any(|other| other.name == field.name) {
            return None;
        }
        form.push(field);
    }
    let serialised: Value = form.iter().map(|field| field.render(|options| json!(options))).collect();
    (serialised.to_string().len() <= MAX_BYTES).then_some(form)
}

fn field(map: &JsonMap) -> Option<Field> {
    let name = scalar_text(map.get("name")).filter(|name| !RESERVED.contains(&name.as_str()))?;
    let label = scalar_text(map.get("label")).unwrap_or_else(|| name.clone());
    let placeholder = scalar_text(map.get("placeholder"));
    let mut options = map.get("options").map(options::normalise).unwrap_or_default();
    let texts = [Some(&name), Some(&label), placeholder.as_ref()];
    let too_long = texts.into_iter().flatten().chain(&options).any(|text| text.chars().nth(MAX_CHARS).is_some());
    if too_long || options.len() > MAX_OPTIONS {
        return None;
    }
    let mut kind = FieldKind::parse(map.get("type"));
    if kind.has_options() && options.is_empty() {
        kind = FieldKind::Text;
    }
    if !kind.has_options() {
        options.clear();
    }
    Some(Field { name, label, kind, required: truthy(map.get("required")), options, placeholder })
}

fn truthy(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => number.as_f64().is_some_and(|number| number != 0.0),
        Some(Value::String(text)) => {
            matches!(text.trim().to_lowercase().as_str(), "true" | "yes" | "y" | "on" | "1" | "required")
        }
        _ => false,
    }
}
