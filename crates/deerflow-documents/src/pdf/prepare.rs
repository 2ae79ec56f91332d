//! Rewrites a page to the operators that place text and draw rules.
//!
//! What goes: colours, graphics states, shadings, pictures, clipping, marked content — none of it is text, and each is a
//! place where the interpreter panics. Forms are drawn in place, cut where they would recurse.

use pdf_extract::content::{Content, Operation};
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

use super::weigh::is_image;

/// Operations one page may expand to through its forms.
const MAX_OPERATIONS: usize = 1_000_000;
/// Forms drawn on one page.
const MAX_DRAWN: usize = 2_000;
/// Forms in forms.
const MAX_FORM_DEPTH: usize = 12;
/// Steps up the page tree for inherited values.
const MAX_PARENTS: usize = 32;

/// What the interpreter does not tell.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// Degrees clockwise the page is shown at: 0, 90, 180, 270.
    pub(super) rotation: i64,
    /// Pictures drawn on the page.
    pub(super) images: usize,
    /// Whether a limit cut the page short.
    pub(super) incomplete: bool,
}

/// Rewrites one page in place; `None` when it has no dictionary.
pub(super) fn page(document: &mut Document, id: ObjectId) -> Option<Prepared> {
    let dictionary = document.get_dictionary(id).ok()?;
    let empty = Dictionary::new();
    let resources = inherited(document, dictionary, b"Resources").and_then(|o| o.as_dict().ok()).unwrap_or(&empty);
    let media_box = inherited(document, dictionary, b"MediaBox").and_then(|object| numbers(document, object));
    let rotation = inherited(document, dictionary, b"Rotate").and_then(|object| object.as_i64().ok()).unwrap_or(0);
    let content = document.get_page_content(id).ok()?;
    let mut walker =
        Walker { document, out: Vec::new(), fonts: Dictionary::new(), open: Vec::new(), images: 0, drawn: 0 };
    walker.rewrite(&content, resources, "p", false);
    let Walker { out: operations, fonts, images, drawn, .. } = walker;
    let incomplete = operations.len() >= MAX_OPERATIONS || drawn >= MAX_DRAWN;
    let content = Content { operations }.encode().ok()?;
    let content = document.add_object(Stream::new(Dictionary::new(), content));
    let media_box = media_box.filter(|values| values.len() == 4).unwrap_or_else(|| vec![0.0, 0.0, 612.0, 792.0]);
    let mut resources = Dictionary::new();
    resources.set("Font", fonts);
    if let Ok(Object::Dictionary(dictionary)) = document.get_object_mut(id) {
        dictionary.set("Contents", content);
        // Set here, so that the interpreter never walks a page tree that may be a circle.
        dictionary.set("Resources", resources);
        dictionary.set("MediaBox", Object::Array(media_box.into_iter().map(Object::Real).collect()));
        dictionary.remove(b"ArtBox");
    }
    Some(Prepared { rotation: rotation.rem_euclid(360), images, incomplete })
}

fn inherited<'a>(document: &'a Document, dictionary: &'a Dictionary, key: &[u8]) -> Option<&'a Object> {
    let mut current = dictionary;
    for _ in 0..MAX_PARENTS {
        if let Ok(value) = current.get(key)
            && let Ok((_, value)) = document.dereference(value)
        {
            return Some(value);
        }
        current = document.get_dictionary(current.get(b"Parent").and_then(Object::as_reference).ok()?).ok()?;
    }
    None
}

fn numbers(document: &Document, object: &Object) -> Option<Vec<f32>> {
    let read = |object: &Object| document.dereference(object).ok()?.1.as_float().ok();
    object.as_array().ok()?.iter().map(read).collect()
}

struct Walker<'a> {
    document: &'a Document,
    out: Vec<Operation>,
    /// The fonts of the page and of its forms, under names that cannot clash.
    fonts: Dictionary,
    /// Forms being drawn, outermost first.
    open: Vec<ObjectId>,
    images: usize,
    drawn: usize,
}

impl<'a> Walker<'a> {
    /// Appends the operations of one content stream. `prefix` makes its font names unique; `has_font` is whether a font
    /// is set where it begins, as text without one is what the interpreter panics on.
    fn rewrite(&mut self, content: &[u8], resources: &'a Dictionary, prefix: &str, has_font: bool) {
        let Ok(content) = Content::decode(content) else { return };
        let fonts = sub_dictionary(self.document, resources, b"Font");
        let objects = sub_dictionary(self.document, resources, b"XObject");
        let mut font = vec![has_font];
        for operation in content.operations {
            if self.out.len() >= MAX_OPERATIONS {
                return;
            }
            let has_font = font.last().copied().unwrap_or(false);
            match operation.operator.as_str() {
                "q" => {
                    font.push(has_font);
                    self.out.push(plain("q"));
                }
                "Q" if font.len() > 1 => {
                    font.pop();
                    self.out.push(plain("Q"));
                }
                "Tf" => {
                    if let Some(operation) = self.font(fonts, &operation, prefix)
                        && let Some(last) = font.last_mut()
                    {
                        *last = true;
                        self.out.push(operation);
                    }
                }
                "Do" => {
                    if let Some(id) = operation.operands.first().and_then(|name| target(objects, name)) {
                        self.draw(id, resources, has_font);
                    }
                }
                "BI" => self.images += 1,
                _ => keep(operation, has_font, &mut self.out),
            }
        }
        self.out.extend(std::iter::repeat_n(plain("Q"), font.len() - 1));
    }

    fn font(&mut self, fonts: Option<&Dictionary>, operation: &Operation, prefix: &str) -> Option<Operation> {
        let [name, size] = operation.operands.as_slice() else { return None };
        let name = name.as_name().ok()?;
        let font = fonts?.get(name).ok()?;
        let dictionary = self.document.dereference(font).ok()?.1.as_dict().ok()?;
        if !is_number(size) || dictionary.get(b"Subtype").and_then(Object::as_name).is_err() {
            return None;
        }
        let unique = [prefix.as_bytes(), name].concat();
        self.fonts.set(unique.clone(), font.clone());
        Some(Operation::new("Tf", vec![Object::Name(unique), size.clone()]))
    }

    /// A form's operations are put where it is drawn: the interpreter would lose its place and its outer font.
    fn draw(&mut self, id: ObjectId, outer: &'a Dictionary, has_font: bool) {
        let document = self.document;
        let Ok(Object::Stream(stream)) = document.get_object(id) else { return };
        if is_image(stream) {
            self.images += 1;
            return;
        }
        if self.open.contains(&id) || self.open.len() >= MAX_FORM_DEPTH || self.drawn >= MAX_DRAWN {
            return;
        }
        self.drawn += 1;
        let Ok(content) = stream.decompressed_content() else { return };
        let own = stream.dict.get(b"Resources").ok().and_then(|r| document.dereference(r).ok()?.1.as_dict().ok());
        self.out.push(plain("q"));
        let matrix = stream.dict.get(b"Matrix").ok().and_then(|object| numbers(document, object));
        if let Some(matrix) = matrix.filter(|matrix| matrix.len() == 6) {
            self.out.push(Operation::new("cm", matrix.into_iter().map(Object::Real).collect()));
        }
        self.open.push(id);
        self.rewrite(&content, own.unwrap_or(outer), &format!("x{}_", id.0), has_font);
        self.open.pop();
        self.out.push(plain("Q"));
    }
}

fn plain(name: &str) -> Operation {
    Operation::new(name, Vec::new())
}

fn sub_dictionary<'a>(document: &'a Document, resources: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    document.dereference(resources.get(key).ok()?).ok()?.1.as_dict().ok()
}

fn target(objects: Option<&Dictionary>, name: &Object) -> Option<ObjectId> {
    objects?.get(name.as_name().ok()?).ok()?.as_reference().ok()
}

fn is_number(object: &Object) -> bool {
    matches!(object, Object::Integer(_) | Object::Real(_))
}

/// Copies an operation when it is one of ours, with the operands it must have.
fn keep(operation: Operation, has_font: bool, out: &mut Vec<Operation>) {
    let operands = &operation.operands;
    let numeric = |count: usize| operands.len() == count && operands.iter().all(is_number);
    match operation.operator.as_str() {
        "BT" | "ET" | "T*" | "h" | "S" | "f" | "n" => out.push(plain(&operation.operator)),
        "F" | "f*" => out.push(plain("f")),
        "B" | "B*" => out.push(plain("S")),
        "s" | "b" | "b*" => out.extend([plain("h"), plain("S")]),
        "Tc" | "Tw" | "Tz" | "TL" | "Ts" if numeric(1) => out.push(operation),
        "Td" | "TD" | "m" | "l" if numeric(2) => out.push(operation),
        "re" if numeric(4) => out.push(operation),
        "Tm" | "cm" if numeric(6) => out.push(operation),
        "Tj" if has_font => {
            if let [Object::String(..)] = operands.as_slice() {
                out.push(operation);
            }
        }
        "TJ" if has_font => {
            if let [Object::Array(_)] = operands.as_slice() {
                out.push(operation);
            }
        }
        // "Next line and show", with and without spacing: unknown to the interpreter, so said in its words.
        "'" if has_font => {
            if let [text @ Object::String(..)] = operands.as_slice() {
                out.extend([plain("T*"), Operation::new("Tj", vec![text.clone()])]);
            }
        }
        "\"" if has_font => {
            if let [word, character, text @ Object::String(..)] = operands.as_slice()
                && is_number(word)
                && is_number(character)
            {
                out.push(Operation::new("Tw", vec![word.clone()]));
                out.push(Operation::new("Tc", vec![character.clone()]));
                out.extend([plain("T*"), Operation::new("Tj", vec![text.clone()])]);
            }
        }
        _ => {}
    }
}
