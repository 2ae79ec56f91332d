//! `merge_viewed_images`: newest facts win; an empty map clears.

use crate::state::ViewedImage;
use indexmap::IndexMap;

/// Shallow merge; `{}` clears.
pub fn merge_viewed_images(
    old: &mut Option<IndexMap<String, ViewedImage>>,
    new: Option<&IndexMap<String, ViewedImage>>,
) {
    let Some(new) = new else { return };
    let map = old.get_or_insert_default();
    if new.is_empty() {
        map.clear();
    }
    map.extend(new.iter().map(|(path, image)| (path.clone(), image.clone())));
}
