//! What a source file names: the modules inside it, what its `use` declarations import, the other
//! paths in its text, and its literals. Items that are compiled for tests alone are left out.

use proc_macro2::{Delimiter, Literal, Spacing, TokenStream, TokenTree};

/// A path, name by name.
pub(crate) type Names = Vec<String>;

/// First words of an item, behind its attributes and `pub`.
const ITEMS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// What a source file names.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    /// Modules inside it that have a file of their own.
    pub(super) modules: Names,
    /// What its `use` declarations import, wherever they stand.
    pub(super) imports: Vec<Import>,
    /// All other paths of two names or more.
    pub(super) paths: Vec<Names>,
    /// Its strings and numbers, as they are written; no comments.
    pub(crate) literals: Names,
}

/// One path of a `use` declaration.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Names,
    /// The name that it has in the file, or none for `*`.
    pub(super) name: Option<String>,
}

impl Naming {
    /// Reads the text of a file.
    pub(crate) fn of(text: &str) -> Self {
        let mut this = Self::default();
        this.read(&trees(text.parse().unwrap()), 0);
        this
    }

    /// Reads tokens that stand in so many modules inside this file.
    fn read(&mut self, tokens: &[TokenTree], depth: usize) {
        let mut rest = tokens;
        while let [token, after @ ..] = rest {
            rest = after;
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    if let [TokenTree::Group(attribute), item @ ..] = after {
                        let attribute = attribute.stream();
                        rest = if is_for_tests(&attribute) {
                            after_item(item).unwrap_or(item)
                        } else {
                            self.read_attribute(&trees(attribute), depth);
                            item
                        };
                    }
                }
                // What follows `::` here is of a type or another crate: `<T>::new`, `::std::mem`.
                TokenTree::Punct(_) => {
                    if let Some(after) = after_colons(tokens_from(tokens, after)) {
                        rest = after;
                        if let [TokenTree::Ident(_), after @ ..] = rest {
                            rest = path_behind(&mut Names::new(), after);
                        }
                    }
                }
                // `use<'a>` says what a type borrows.
                TokenTree::Ident(word) if word == "use" && !begins_with(after, '<') => {
                    let end = after.iter().position(|token| is_mark(token, ';'));
                    let (tree, after) = after.split_at(end.unwrap_or(after.len()));
                    rest = after;
                    if after_colons(tree).is_none() {
                        self.read_tree(&[], tree, depth);
                    }
                }
                TokenTree::Ident(word) if word == "mod" => {
                    if let [TokenTree::Ident(name), body, after @ ..] = after {
                        rest = after;
                        if let TokenTree::Group(body) = body {
                            self.read(&trees(body.stream()), depth + 1);
                        } else {
                            self.modules.push(plain(name));
                        }
                    }
                }
                TokenTree::Ident(word) => {
                    let mut path = vec![plain(word)];
                    rest = path_behind(&mut path, after);
                    if path.len() > 1 {
                        self.paths.extend(from_file(&path, depth));
                    }
                }
                TokenTree::Group(group) => self.read(&trees(group.stream()), depth),
                TokenTree::Literal(literal) => self.literals.push(literal.to_string()),
            }
        }
    }

    /// Reads what follows `use`, inside the braces behind some names.
    fn read_tree(&mut self, before: &[String], tree: &[TokenTree], depth: usize) {
        for branch in tree.split(|token| is_mark(token, ',')) {
            let mut path = before.to_vec();
            let mut name = None;
            let mut is_whole = false;
            let mut rest = branch;
            while let [token, after @ ..] = rest {
                rest = after;
                match (token, after) {
                    (TokenTree::Ident(word), [TokenTree::Ident(other), after @ ..])
                        if word == "as" =>
                    {
                        name = Some(plain(other));
                        rest = after;
                    }
                    (TokenTree::Ident(word), _) => {
                        // `a::{self}` is `a`.
                        if word != "self" || path.is_empty() {
                            path.push(plain(word));
                        }
                        name = path.last().cloned();
                        is_whole = true;
                    }
                    (TokenTree::Group(group), _) => {
                        self.read_tree(&path, &trees(group.stream()), depth);
                        is_whole = false;
                    }
                    (TokenTree::Punct(mark), _) if mark.as_char() == '*' => {
                        name = None;
                        is_whole = true;
                    }
                    _ => {}
                }
            }
            if is_whole && let Some(path) = from_file(&path, depth) {
                self.imports.push(Import { path, name });
            }
        }
    }

    /// Reads an attribute, and the paths that it has in quotes: `#[serde(with = "crate::mode")]`.
    fn read_attribute(&mut self, attribute: &[TokenTree], depth: usize) {
        if let [TokenTree::Ident(word), ..] = attribute
            && word == "doc"
        {
            return;
        }
        self.read(attribute, depth);
        for token in attribute {
            if let TokenTree::Group(group) = token {
                self.read_attribute(&trees(group.stream()), depth);
            } else if let TokenTree::Literal(literal) = token
                && let Some(path) = quoted_path(literal)
            {
                self.paths.extend(from_file(&path, depth));
            }
        }
    }
}

fn trees(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

/// A name without the mark of one that is a keyword, too.
fn plain(name: &proc_macro2::Ident) -> String {
    name.to_string().trim_start_matches("r#").to_owned()
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn begins_with(tokens: &[TokenTree], mark: char) -> bool {
    tokens.first().is_some_and(|token| is_mark(token, mark))
}

/// The end of `tokens` that begins one token before `after`.
fn tokens_from<'a>(tokens: &'a [TokenTree], after: &[TokenTree]) -> &'a [TokenTree] {
    &tokens[tokens.len() - after.len() - 1..]
}

/// What follows `::`.
fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [TokenTree::Punct(first), second, after @ ..]
            if first.as_char() == ':'
                && first.spacing() == Spacing::Joint
                && is_mark(second, ':') =>
        {
            Some(after)
        }
        _ => None,
    }
}

/// Adds the names that follow a path's first ones, each behind `::`. What comes after them.
fn path_behind<'a>(path: &mut Names, tokens: &'a [TokenTree]) -> &'a [TokenTree] {
    let mut rest = tokens;
    while let Some([TokenTree::Ident(name), after @ ..]) = after_colons(rest) {
        path.push(plain(name));
        rest = after;
    }
    rest
}

/// The path that stands in an attribute's string, and one more name: a function, or what is called
/// in a module.
fn quoted_path(literal: &Literal) -> Option<Names> {
    let text = literal.to_string();
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut path: Names = text.split("::").map(str::to_owned).collect();
    let is_name = |name: &String| {
        let mut letters = name.chars();
        !name.is_empty() && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    let is_path = path.len() > 1 && path.iter().all(is_name);
    path.push("_".to_owned());
    is_path.then_some(path)
}

/// Whether an attribute leaves its item to tests alone.
fn is_for_tests(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// What follows an item, or nothing where none begins: a field for tests alone is read.
fn after_item(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    let mut rest = tokens;
    loop {
        match rest {
            [hash, TokenTree::Group(_), after @ ..] if is_mark(hash, '#') => rest = after,
            [TokenTree::Ident(word), TokenTree::Group(group), after @ ..]
                if word == "pub" && group.delimiter() == Delimiter::Parenthesis =>
            {
                rest = after;
            }
            [TokenTree::Ident(word), after @ ..] if word == "pub" => rest = after,
            [TokenTree::Ident(word), ..] if ITEMS.contains(&word.to_string().as_str()) => break,
            _ => return None,
        }
    }
    let is_end = |token: &TokenTree| {
        if let TokenTree::Group(group) = token {
            return group.delimiter() == Delimiter::Brace;
        }
        is_mark(token, ';')
    };
    let end = rest.iter().position(is_end)?;
    Some(&rest[end + 1..])
}

/// A path of a module inside a file, as the file's own module would write it. None if it does not
/// lead out of that module.
fn from_file(path: &[String], depth: usize) -> Option<Names> {
    let mut rest = path;
    while let [first, second, ..] = rest
        && first == "self"
        && second == "super"
    {
        rest = &rest[1..];
    }
    let supers = rest.iter().take_while(|name| *name == "super").count();
    match rest.first()?.as_str() {
        "super" if supers < depth => None,
        "super" if depth > 0 => Some([&["self".to_owned()], &rest[depth..]].concat()),
        "self" if depth > 0 => None,
        _ => Some(rest.to_vec()),
    }
}
