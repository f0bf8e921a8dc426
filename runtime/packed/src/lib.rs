//! `packed!("../python/start.py")`: a file that the program carries, as `include_str!` would, in a quarter of its bytes.
//!
//! The value is a `proctor_types::PackedText`. Several literals are one path: `packed!("../templates/" "page.html")`.

#![warn(missing_docs)]

use std::{fs, io::Write, path::Path};

use lzma_rust2::{LzmaOptions, LzmaWriter};
use proc_macro::{Literal, Span, TokenStream, TokenTree};

/// Packs the file at this path, which starts from the folder of the file that calls.
#[proc_macro]
pub fn packed(input: TokenStream) -> TokenStream {
    let out = file(input).and_then(|(path, text)| {
        let packed = Literal::byte_string(&pack(&text).map_err(|error| error.to_string())?);
        // The file is named so that cargo builds again where it changes; its bytes are not kept.
        let seen = Literal::string(&path);
        Ok(format!(
            "{{ const _: &[u8] = include_bytes!({seen}); ::proctor_types::PackedText::new({packed}) }}"
        ))
    });
    let out = out.unwrap_or_else(|why| format!("compile_error!({})", Literal::string(&why)));
    out.parse().unwrap_or_default()
}

/// The path of the file, and what it holds.
fn file(input: TokenStream) -> Result<(String, String), String> {
    let mut path = String::new();
    let mut from = Span::call_site();
    for token in input {
        let written = token.to_string();
        let text = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let (TokenTree::Literal(_) | TokenTree::Group(_), Some(text)) = (&token, text) else {
            return Err(format!("packed! takes plain literals, not {written}"));
        };
        path.push_str(text);
        from = token.span();
    }
    let source = from.local_file().ok_or("packed! stands in no file")?;
    let place = source.parent().unwrap_or(Path::new("")).join(&path);
    let place =
        fs::canonicalize(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let text =
        fs::read_to_string(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    Ok((place.display().to_string(), text))
}

fn pack(text: &str) -> std::io::Result<Vec<u8>> {
    let mut options = LzmaOptions::with_preset(9);
    // The least that holds a long text: more would be asked of the memory for nothing.
    options.dict_size = 1 << 20;
    let length = Some(text.len() as u64);
    let mut packed = LzmaWriter::new_use_header(Vec::new(), &options, length)?;
    packed.write_all(text.as_bytes())?;
    packed.finish()
}
