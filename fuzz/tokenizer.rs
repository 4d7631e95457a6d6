//! The tokenizer, given a hostile vocabulary and a hostile text.

use minfer::gguf::StrArray;
use minfer::text::{SpecialIds, Specials, Tokenizer, Vocab};

/// The first line is the text; each further line is a token whose first byte is its type, or, with a space in it, a
/// merge. Encoding and decoding must neither panic nor split a character.
pub fn tokenizer(data: &[u8]) {
    let mut lines = data.split(|&byte| byte == b'\n');
    let text = lines.next().unwrap_or_default();
    let (mut tokens, mut types, mut merges) = (StrArray::default(), Vec::new(), StrArray::default());
    for line in lines {
        match line.split_first() {
            Some(_) if line.iter().skip(1).any(|&byte| byte == b' ') => merges.push(line),
            Some((token_type, token)) => {
                tokens.push(token);
                types.push(i64::from(token_type % 8));
            }
            None => {}
        }
    }
    let ids = SpecialIds { bos: Some(text.len() as u32), eos: Some(1), ..SpecialIds::default() };
    let pre = Some(if text.len() % 2 == 0 { "llama-bpe" } else { "smollm" });
    let types = Some(types);
    let vocab = Vocab {
        model: "gpt2",
        pre,
        tokens: &tokens,
        types,
        merges: &merges,
        ids,
        add_bos: None,
        add_eos: None,
    };
    let Ok(tokenizer) = Tokenizer::new(vocab) else { return };
    for specials in [Specials::Parse, Specials::Plain] {
        if let Ok(ids) = tokenizer.encode_bytes(text, specials) {
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_vocab()));
            let mut decoder = tokenizer.decoder();
            let streamed: String = ids.iter().map(|&id| decoder.push(id)).collect();
            assert_eq!(streamed + &decoder.finish(), tokenizer.decode(&ids));
        }
    }
}
