//! `lib.rs` lists the modules in data-flow order, and a module uses only itself and modules listed above it.

#[allow(dead_code)]
#[path = "../xtask/src/source.rs"]
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use source::{code_only, is_test_file, line_of, without_tests};

#[test]
fn a_module_uses_only_modules_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let order = declared_modules(&read(&src.join("lib.rs")));
    let files = rust_files(&src);
    assert!(
        order.len() > 5 && files.len() > order.len(),
        "found {} modules, {} files",
        order.len(),
        files.len()
    );

    let wrong: Vec<String> = files.iter().flat_map(|file| violations(&src, file, &order)).collect();
    assert!(wrong.is_empty(), "order in src/lib.rs: {}\n{}", order.join(", "), wrong.join("\n"));
}

#[test]
fn every_way_to_name_a_module_is_seen() {
    let used = |path: &[&str], code: &str| -> Vec<String> {
        top_modules_used(&code_only(code), path).into_iter().map(|used| used.module).collect()
    };
    assert_eq!(used(&["graph"], "use crate::kv::Cell;"), ["kv"]);
    assert_eq!(used(&["graph"], "use crate::{error, kv::{Cell, Page}, text};"), ["error", "kv", "text"]);
    assert_eq!(used(&["graph"], "fn f() -> crate :: kv::Cell {}"), ["kv"]);
    assert_eq!(used(&["graph", "ops"], "use super::super::kv;"), ["kv"]);
    assert_eq!(used(&["graph"], "mod inner { use super::super::{kv, text as t}; }"), ["kv", "text"]);
    assert_eq!(used(&["graph"], "mod inner { use super::kv; }"), [""; 0]);
    assert_eq!(used(&["graph"], "// crate::kv\nlet s = \"crate::kv\"; crate::check!(1);"), [""; 0]);
}

#[test]
fn tests_may_use_any_module() {
    let code = "use crate::error;\n#[cfg(test)]\nmod tests { use crate::cli; }\nuse crate::kv;";
    let code = without_tests(&code_only(code));
    let modules: Vec<_> = top_modules_used(&code, &["graph"]).into_iter().map(|used| used.module).collect();
    assert_eq!(modules, ["error", "kv"]);
}

/// A top-level module that some code names, and where.
struct Used {
    module: String,
    offset: usize,
}

/// The modules of `lib.rs` in their order.
fn declared_modules(lib: &str) -> Vec<String> {
    let code = without_tests(&code_only(lib));
    code.lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
        .map(String::from)
        .collect()
}

fn violations(src: &Path, file: &Path, order: &[String]) -> Vec<String> {
    let path: Vec<String> = module_path(file.strip_prefix(src).expect("files lie under src"));
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let code = without_tests(&code_only(&read(file)));
    let rank = |module: &str| order.iter().position(|name| name == module);
    let own = rank(path[0]).unwrap_or_else(|| panic!("{}: not declared in src/lib.rs", file.display()));
    top_modules_used(&code, &path)
        .into_iter()
        .filter(|used| rank(&used.module).is_none_or(|theirs| theirs > own))
        .map(|used| {
            let why = if rank(&used.module).is_some() { "is listed below" } else { "is not a module" };
            let line = line_of(&code, used.offset);
            format!("{}:{line}: {} uses {}, which {why}", file.display(), path[0], used.module)
        })
        .collect()
}

/// `graph/ops/add.rs` is `graph::ops::add`, `graph/mod.rs` is `graph`.
fn module_path(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> = file.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let stem = parts.pop().unwrap_or_default().trim_end_matches(".rs").to_string();
    if stem != "mod" {
        parts.push(stem);
    }
    parts
}

/// Every top-level module that `code`, which is the module `path`, names through `crate::` or a chain of `super::`.
fn top_modules_used(code: &str, path: &[&str]) -> Vec<Used> {
    let tokens = tokens(code);
    let mut used = Vec::new();
    // One entry per open brace: does it belong to an inline module?
    let mut braces: Vec<bool> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let depth = path.len() + braces.iter().filter(|&&is_module| is_module).count();
        match tokens[at].0 {
            "{" => braces.push(at >= 2 && tokens[at - 2].0 == "mod"),
            "}" => drop(braces.pop()),
            "crate" | "super" => {
                let supers = tokens[at..].chunks(2).take_while(|step| step[0].0 == "super").count();
                let steps = supers.max(1);
                if tokens[at].0 == "crate" || supers == depth {
                    used.extend(first_names(&tokens, at + 2 * steps - 1));
                }
                at += 2 * steps - 2;
            }
            _ => {}
        }
        at += 1;
    }
    used
}

/// The names right after the `::` at `at`: one, or the first of every entry of a `{…}` group.
fn first_names(tokens: &[(&str, usize)], at: usize) -> Vec<Used> {
    let name = |&(text, offset): &(&str, usize)| Used { module: text.to_string(), offset };
    let [("::", _), rest @ ..] = &tokens[at.min(tokens.len())..] else { return Vec::new() };
    match rest {
        [("{", _), group @ ..] => {
            let mut depth = 0;
            let mut names = Vec::new();
            let mut starts_entry = true;
            for token in group {
                match token.0 {
                    "{" => depth += 1,
                    "}" if depth == 0 => break,
                    "}" => depth -= 1,
                    _ if starts_entry && depth == 0 => names.push(name(token)),
                    _ => {}
                }
                starts_entry = token.0 == "," && depth == 0;
            }
            names
        }
        [_, ("!", _), ..] => Vec::new(),
        [first, ..] => vec![name(first)],
        [] => Vec::new(),
    }
}

/// Words, `::` and single punctuation marks with their offsets.
fn tokens(code: &str) -> Vec<(&str, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let len = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        if !first.is_whitespace() {
            found.push((&rest[..len], at));
        }
        at += len;
    }
    found
}

/// All source files of the library that are not tests, without `lib.rs` and the program's `main.rs`.
fn rust_files(src: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("source folders can be listed") {
            let path = entry.expect("source folders can be listed").path();
            let inner =
                path.strip_prefix(src).expect("entries lie under src").to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                folders.push(path);
            } else if inner.ends_with(".rs")
                && !["lib.rs", "main.rs"].contains(&&*inner)
                && !is_test_file(&inner)
            {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
