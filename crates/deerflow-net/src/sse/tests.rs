use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn decode(input: &[u8], chunk: usize, options: SseOptions) -> Vec<Result<SseEvent, SseError<String>>> {
    let chunks: Vec<Result<&[u8], String>> = input.chunks(chunk.max(1)).map(Ok).collect();
    block_on(decode_sse(stream::iter(chunks), options).collect())
}

fn data(input: &[u8], chunk: usize) -> Vec<String> {
    decode(input, chunk, SseOptions::model_traffic()).into_iter().map(|event| event.unwrap().data).collect()
}

/// BR-031
#[test]
fn characters_cut_between_chunks_stay_whole() {
    let input = "data: 你好😀\r\n\r\ndata: a\rdata: b\r\r: ping\n\ndata:c\n\n".as_bytes();
    for chunk in 1..=input.len() {
        assert_eq!(data(input, chunk), ["你好😀", "a\nb", "c"], "{chunk} bytes a chunk");
    }
}

/// BR-030
#[test]
fn unicode_line_separators_do_not_cut_an_event() {
    assert_eq!(data("data: a\u{2028}b\u{2029}c\u{85}d\u{b}e\n\n".as_bytes(), 1), ["a\u{2028}b\u{2029}c\u{85}d\u{b}e"]);
}

/// BR-031
#[test]
fn bad_bytes_are_replaced_and_do_not_buffer_for_ever() {
    assert_eq!(data(b"data: \xff\xe4\xbd\n\ndata: ok\n\n", 3), ["\u{fffd}\u{fffd}", "ok"]);
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(data(b"\xEF\xBB\xBFdata: x\n\n", 1), ["x"]);
}

#[test]
fn the_last_event_of_model_traffic_survives_a_missing_blank_line() {
    for input in [&b"data: a\n\ndata: b"[..], b"data: a\n\ndata: b\n"] {
        assert_eq!(data(input, 2), ["a", "b"]);
        assert_eq!(decode(input, 2, SseOptions::standard()).len(), 1);
    }
}

#[test]
fn unknown_fields_and_lines_without_colon_are_harmless() {
    let input = b"foo: bar\nwhatever\nevent: message_stop\nid: 7\nretry: x\ndata\n\nevent: lonely\n\n";
    let events = decode(input, 5, SseOptions::model_traffic());
    let expected = SseEvent { event: Some("message_stop".into()), data: String::new(), id: Some("7".into()) };
    assert_eq!(events, [Ok(expected)]);
}

#[test]
fn a_bare_json_line_is_an_event_for_model_traffic_only() {
    let input = b"data: a\n{\"error\":{\"message\":\"boom\"}}\n";
    assert_eq!(data(input, 4), ["a", "{\"error\":{\"message\":\"boom\"}}"]);
    assert_eq!(decode(input, 4, SseOptions::standard()), []);
}

#[test]
fn a_huge_event_ends_the_stream_after_the_good_ones() {
    let options = SseOptions { max_event_bytes: 20, ..SseOptions::model_traffic() };
    for chunk in [1, 7, 1000] {
        let events = decode(b"data: fine\n\ndata: 0123456789\ndata: 0123456789\n\ndata: late\n\n", chunk, options);
        let fine = SseEvent { data: "fine".into(), ..SseEvent::default() };
        assert_eq!(events, [Ok(fine), Err(SseError::TooLarge { limit: 20 })]);
    }
}

#[test]
fn events_before_a_transport_fault_come_first() {
    let chunks = vec![Ok(&b"data: a\n\n"[..]), Err("reset"), Ok(b"data: b\n\n")];
    let events: Vec<_> = block_on(decode_sse(stream::iter(chunks), SseOptions::model_traffic()).collect());
    assert_eq!(events, [Ok(SseEvent { data: "a".into(), ..SseEvent::default() }), Err(SseError::Transport("reset"))]);
}

proptest! {
    #[test]
    fn chunking_never_matters(input in proptest::collection::vec(prop_oneof![
        Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), Just(b' '), Just(b'{'), any::<u8>()], 0..200), chunk in 1usize..9) {
        let mut input = input;
        input.splice(0..0, *b"data: ");
        prop_assert_eq!(
            decode(&input, chunk, SseOptions::model_traffic()),
            decode(&input, input.len(), SseOptions::model_traffic())
        );
    }

    #[test]
    fn any_line_of_text_comes_through(text in "[^\r\n]{0,60}", chunk in 1usize..5) {
        let wire = format!("data: {text}\n\n");
        prop_assert_eq!(data(wire.as_bytes(), chunk), [text]);
    }
}
