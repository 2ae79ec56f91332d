//! Where requests go.

use url::Url;

/// The address of the method for `model` below `base`, which may be the host alone, the API with its version, the
/// OpenAI-compatible address that people copy, or the address of a method already.
///
/// `None` when `base` cannot have a path.
pub(crate) fn address(base: &Url, model: &str, streaming: bool) -> Option<Url> {
    let mut url = base.clone();
    let path = base.path().trim_end_matches('/');
    let path = path.strip_suffix("/openai").or_else(|| path.strip_suffix("/openai/chat/completions")).unwrap_or(path);
    let path = path.split_once("/models/").map_or(path, |(before, _)| before);
    let path = path.strip_suffix("/models").unwrap_or(path);
    let versioned = path.contains("/publishers/") || path.rsplit('/').next().is_some_and(is_version);
    url.set_path(path);
    let method = if streaming { "streamGenerateContent" } else { "generateContent" };
    let model = model.trim().trim_start_matches('/');
    {
        let mut segments = url.path_segments_mut().ok()?;
        segments.pop_if_empty();
        if !versioned {
            segments.push("v1beta");
        }
        // `models/x` is how the API itself lists a model; a tuned one stands in a collection of its own.
        let (collection, name) = model.split_once('/').unwrap_or(("models", model));
        segments.push(collection).push(&format!("{name}:{method}"));
    }
    if streaming {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    Some(url)
}

/// `v1`, `v1beta`, `v1beta1`
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn every_way_to_write_the_address_leads_to_the_method() {
        let own = "https://generativelanguage.googleapis.com";
        let of = |base: &str, model: &str| address(&base.parse().unwrap(), model, true).unwrap().to_string();
        let whole = format!("{own}/v1beta/models/gemini-x:streamGenerateContent?alt=sse");
        for base in ["", "/", "/v1beta", "/v1beta/", "/v1beta/openai/", "/v1beta/models/other:generateContent"] {
            assert_eq!(of(&format!("{own}{base}"), "gemini-x"), whole, "{base}");
        }
        assert_eq!(of(own, "models/gemini-x"), whole);
        assert_eq!(of(own, "tunedModels/mine"), format!("{own}/v1beta/tunedModels/mine:streamGenerateContent?alt=sse"));
        let vertex = "https://x-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google";
        assert_eq!(of(vertex, "gemini-x"), format!("{vertex}/models/gemini-x:streamGenerateContent?alt=sse"));
        let proxy: Url = "http://localhost:4000/gemini?tenant=a".parse().unwrap();
        assert_eq!(
            address(&proxy, "gemini-x", false).unwrap().as_str(),
            "http://localhost:4000/gemini/v1beta/models/gemini-x:generateContent?tenant=a"
        );
        // A name cannot lead elsewhere.
        let odd = of(own, "../../evil?x#y");
        assert_eq!(odd, format!("{own}/v1beta/..%2Fevil%3Fx%23y:streamGenerateContent?alt=sse"));
    }
}
