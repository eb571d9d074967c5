//! The architecture's rules: layers, no import cycles, SQL in one module, and a maximum file length.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::support::fixture::project_file;

/// Each top-level module of the service with the modules of the service that it imports. A row names only modules of the rows
/// above it, so that imports have no cycle.
const IMPORTS: [(&str, &str); 21] = [
    ("threads", ""),
    // Settings are plain values. Only modules that connect or show them may read them.
    ("config", ""),
    // Metrics and logs.
    ("telemetry", "config"),
    ("dispatch", ""),
    ("executor", "telemetry"),
    ("policy", "executor"),
    ("tool", "executor"),
    ("registry", "executor policy tool"),
    ("hooks", "executor"),
    ("policies", ""),
    ("budgets", ""),
    // The caller, with its store and its tools.
    ("access", "registry"),
    ("upstreams", "executor registry"),
    ("callbacks", "executor"),
    ("auth", "executor registry access"),
    ("engine", "threads telemetry dispatch executor tool registry hooks policies budgets access"),
    // Connects all concrete types; `http` and `mcp` serve the result.
    (
        "app",
        "config telemetry executor policy tool registry hooks policies budgets access upstreams callbacks auth engine",
    ),
    ("mcp", "executor registry access engine app"),
    (
        "http",
        "threads config telemetry executor registry hooks policies budgets access upstreams callbacks auth engine app mcp",
    ),
    ("lifecycle", ""),
    ("cli", "threads config telemetry executor tool registry policies access auth engine app mcp http lifecycle"),
];
/// Beginnings of SQL statements, and the crate that runs them.
const SQL: [&str; 7] =
    ["SELECT ", "INSERT INTO ", "DELETE FROM ", "CREATE TABLE ", "ON CONFLICT ", "BEGIN IMMEDIATE", "sqlx::"];
const LONGEST_FILE: usize = 600;

/// The folders of crates, each with its modules. The compiler keeps crates from importing each other in a cycle.
const CRATES: [&str; 3] = [SERVICE, "crates/core/src", "crates/store/src"];
const SERVICE: &str = "src";

/// A source file without its tests.
struct Source {
    path: PathBuf,
    /// The path within the crate, without extension.
    relative: PathBuf,
    /// The top-level module that contains the file.
    module: String,
    lines: usize,
    /// The lines without comments and without tests.
    code: Vec<String>,
}

fn all_sources() -> Vec<Source> {
    CRATES.into_iter().flat_map(sources).collect()
}

fn sources(folder: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&project_file(folder), &mut paths);
    paths.sort();
    let texts: Vec<(PathBuf, String)> =
        paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let tests: Vec<PathBuf> = texts.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_test = |path: &Path| tests.iter().any(|test| path.with_extension("").starts_with(test));
    let kept = texts.into_iter().filter(|(path, _)| !is_test(path));
    let sources: Vec<Source> = kept
        .map(|(path, text)| {
            let relative = path.strip_prefix(project_file(folder)).unwrap().with_extension("");
            let module = relative.iter().next().unwrap().to_str().unwrap().to_owned();
            Source { module, lines: text.lines().count(), code: code(&text), relative, path }
        })
        .collect();
    assert!(sources.len() > 50);
    sources
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the paths, without extension, of test modules in files of their own (`#[cfg(test)] mod NAME;`).
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let mut lines = text.lines().map(str::trim);
    let mut found = Vec::new();
    while lines.any(|line| line == "#[cfg(test)]") {
        // Other attributes can precede the item.
        let item = lines.find(|line| !line.starts_with("#["));
        let name = item.and_then(|item| item.strip_suffix(';')?.split_once("mod "));
        found.extend(name.map(|(_, name)| path.with_extension("").join(name)));
    }
    found
}

/// Returns the lines without comments and without `#[cfg(test)] mod … { … }`.
fn code(text: &str) -> Vec<String> {
    let (mut kept, mut lines) = (Vec::new(), text.lines().peekable());
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.contains("mod ") && next.ends_with('{')) {
            lines.by_ref().find(|line| *line == "}");
        } else if !line.trim_start().starts_with("//") {
            kept.push(line.to_owned());
        }
    }
    kept
}

/// Returns the top-level modules that a source names: `crate::a::…`, and each of `crate::{a::…, b}`.
fn imports(source: &Source) -> BTreeSet<String> {
    let text = source.code.join("\n");
    let mut found = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => drop(found.insert(first_word(rest))),
            Some(list) => {
                let (mut depth, mut begins) = (1, true);
                for (at, letter) in list.char_indices() {
                    match letter {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => begins = true,
                        letter if begins && letter.is_alphabetic() => {
                            found.insert(first_word(&list[at..]));
                            begins = false;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    found.remove(&source.module);
    found
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Names of modules, each with the modules that it imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns the modules that are in cycles or between two cycles, each with its imports among them.
fn in_cycles(mut graph: Graph) -> Graph {
    loop {
        let names: BTreeSet<String> = graph.keys().cloned().collect();
        let imported: BTreeSet<String> = graph.values().flatten().cloned().collect();
        graph.retain(|name, imports| {
            imports.retain(|import| names.contains(import));
            !imports.is_empty() && imported.contains(name)
        });
        if graph.len() == names.len() {
            return graph;
        }
    }
}

/// A path of a module or an item from the crate's root, which is the empty path.
type CratePath = Vec<String>;

/// The paths within the crate that a file names.
#[derive(Default)]
struct Names {
    all: Vec<CratePath>,
    /// The paths that `use` imports, by their names in the module.
    bound: BTreeMap<String, CratePath>,
}

type Modules = BTreeMap<CratePath, Names>;

static COMMENT_OR_LITERAL: LazyLock<Regex> = LazyLock::new(|| {
    let raw = r##"r"[^"]*"|r#"(?s:.*?)"#"##;
    let string = r#""(?s:\\.|[^"\\])*""#;
    let character = r"'(?:\\[^']+|\\'|[^\\'])'";
    Regex::new(&format!("//[^\n]*|{raw}|{string}|{character}")).unwrap()
});
static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse\s+([^;]+);").unwrap());
static INLINE_PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\w:])((?:crate|super|self)(?:::\w+)+)").unwrap());

fn module_path(source: &Source) -> CratePath {
    if source.module == "lib" {
        return CratePath::new();
    }
    source.relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect()
}

fn modules(files: impl Iterator<Item = (CratePath, String)>) -> Modules {
    let bare = |text: String| COMMENT_OR_LITERAL.replace_all(&text, "").into_owned();
    let files: BTreeMap<CratePath, String> = files.map(|(path, text)| (path, bare(text))).collect();
    let is_module = |path: &[String]| files.contains_key(path);
    files.iter().map(|(path, text)| (path.clone(), names(path, text, is_module))).collect()
}

fn names(module: &[String], text: &str, is_module: impl Fn(&[String]) -> bool) -> Names {
    let mut names = Names::default();
    for leaf in USE.captures_iter(text).flat_map(|used| leaves(&used[1])) {
        let (path, alias) = leaf.split_once(" as ").unwrap_or((&leaf, ""));
        // In a list, `self` is the path before the list.
        let path = path.trim();
        let path = path.strip_suffix("::self").unwrap_or(path);
        let Some(absolute) = absolute(module, path, &is_module) else { continue };
        let last = path.rsplit("::").next().unwrap_or_default();
        let name = if alias.is_empty() { last } else { alias.trim() };
        names.bound.insert(name.to_owned(), absolute.clone());
        names.all.push(absolute);
    }
    let text = USE.replace_all(text, "");
    names.all.extend(INLINE_PATH.captures_iter(&text).filter_map(|path| absolute(module, &path[1], &is_module)));
    names
}

/// Splits the tree of a `use` declaration into paths without lists.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, list)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let mut depth = 0;
    let members = list.strip_suffix('}').unwrap_or(list).split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    let members = members.filter(|member| !member.trim().is_empty()).flat_map(leaves);
    members.map(|leaf| format!("{before}{leaf}")).collect()
}

/// Returns a path within a module as a path from the crate's root; `None` for other crates and local names.
fn absolute(module: &[String], path: &str, is_module: impl Fn(&[String]) -> bool) -> Option<CratePath> {
    let path: Vec<&str> = path.trim_start_matches('$').split("::").collect();
    let mut absolute = if path[0] == "crate" { CratePath::new() } else { module.to_vec() };
    for (index, name) in path.iter().enumerate() {
        match *name {
            "crate" | "self" => {}
            "super" => drop(absolute.pop()),
            name => absolute.push(name.to_owned()),
        }
        if index == 0 && !matches!(*name, "crate" | "self" | "super") && !is_module(&absolute) {
            return None;
        }
    }
    Some(absolute)
}

/// Returns the modules that a path leads to: the module that declares the item, and each module that re-exports it.
fn resolve(modules: &Modules, path: &[String]) -> BTreeSet<CratePath> {
    let (mut found, mut path) = (BTreeSet::new(), path.to_vec());
    loop {
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length])).unwrap_or(0);
        let (module, item) = path.split_at(length);
        let bound = item.first().and_then(|name| modules.get(module)?.bound.get(name));
        let next = bound.map(|bound| [bound, &item[1..]].concat());
        // Stop at a visited module: following it again would never end.
        let is_new = found.insert(module.to_vec());
        match next {
            Some(next) if is_new => path = next,
            _ => return found,
        }
    }
}

/// Returns, for each module, the graph of imports among its children, including imports of their descendants.
fn sibling_imports(modules: &Modules) -> BTreeMap<CratePath, Graph> {
    let mut graphs: BTreeMap<CratePath, Graph> = BTreeMap::new();
    for (module, names) in modules {
        for other in names.all.iter().flat_map(|path| resolve(modules, path)) {
            let shared = module.iter().zip(&other).take_while(|(own, others)| own == others).count();
            if let (Some(own), Some(sibling)) = (module.get(shared), other.get(shared)) {
                let children = graphs.entry(module[..shared].to_vec()).or_default();
                children.entry(own.clone()).or_default().insert(sibling.clone());
            }
        }
    }
    graphs
}

#[test]
fn modules_import_what_the_table_names() {
    let mut imported = Graph::new();
    for source in sources(SERVICE).into_iter().filter(|source| !matches!(&*source.module, "lib" | "main")) {
        imported.entry(source.module.clone()).or_default().extend(imports(&source));
    }
    // What other crates have is named like a module of this one.
    let own: BTreeSet<String> = imported.keys().cloned().collect();
    imported.values_mut().for_each(|imports| imports.retain(|import| own.contains(import)));
    let names = |names: &str| names.split_whitespace().map(str::to_owned).collect::<BTreeSet<String>>();
    let table: Graph = IMPORTS.iter().map(|(module, imports)| ((*module).to_owned(), names(imports))).collect();
    assert_eq!(imported, table, "the imports of the modules and the table in tests/it/architecture.rs differ");
}

#[test]
fn rows_of_the_table_name_only_modules_above_them() {
    for (row, (module, imports)) in IMPORTS.iter().enumerate() {
        for import in imports.split_whitespace() {
            assert!(IMPORTS[..row].iter().any(|(above, _)| *above == import), "{module} imports {import}");
        }
    }
}

#[test]
fn children_of_a_module_import_each_other_without_a_cycle() {
    for folder in CRATES {
        let files = sources(folder).into_iter().filter(|source| source.module != "main");
        let modules = modules(files.map(|source| (module_path(&source), source.code.join("\n"))));
        for (parent, children) in sibling_imports(&modules) {
            let left = in_cycles(children);
            assert!(left.is_empty(), "cycles within `{}` of {folder} among {left:#?}", parent.join("::"));
        }
    }
}

#[test]
fn sql_stands_in_the_store_only() {
    for source in all_sources().iter().filter(|source| source.module != "store") {
        for line in &source.code {
            let found = SQL.iter().find(|sql| line.contains(**sql));
            assert!(found.is_none(), "{}: {line}", source.path.display());
        }
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for source in all_sources() {
        assert!(source.lines <= LONGEST_FILE, "{} has {} lines", source.path.display(), source.lines);
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let text = "use crate::a::B;\nuse crate::{b::{C, D}, c, own};\n// crate::x\nlet y = crate::d::e();\n\
        #[cfg(test)]\nmod tests {\n    use crate::f;\n}\nuse $crate::g::H;";
    let source =
        Source { path: PathBuf::new(), relative: PathBuf::new(), module: "own".into(), lines: 1, code: code(text) };
    assert_eq!(imports(&source).into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "g"]);
}

#[test]
fn siblings_are_found_in_every_form() {
    let siblings = |file: &str, text: &str| {
        let others = [
            ("", "mod p;"),
            ("p", "mod a;\npub use b::{Item, c as d};\nuse self::c::Thing as Alias;\nstruct Own;"),
            ("p::a", ""),
            ("p::b", "pub use super::e::Moved;"),
            ("p::c", ""),
            ("p::c::deep", ""),
            ("p::e", ""),
        ];
        let files = others.into_iter().filter(|(other, _)| *other != file).chain([(file, text)]);
        let path = |file: &str| file.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let code = |text: &str| code(text).join("\n");
        let mut graphs = sibling_imports(&modules(files.map(|(file, text)| (path(file), code(text)))));
        let of_a = graphs.remove(["p".to_owned()].as_slice()).and_then(|mut children| children.remove("a"));
        of_a.unwrap_or_default().into_iter().collect::<Vec<_>>().join(" ")
    };
    for (file, text, expected) in [
        ("p::a", "use super::b::X;", "b"),
        ("p::a", "pub(super) use crate::p::c::{self, deep::{X, Y as Z}};", "c"),
        ("p::a", "use super::{\n    Own, b::X,\n    c,\n};", "b c"),
        ("p::a", "use $crate::p::c::X;", "c"),
        ("p::a", "fn f(x: &crate::p::b::X) -> super::c::deep::Y {}", "b c"),
        ("p::a", "use super::Item;", "b"),
        ("p::a", "use super::Alias;", "c"),
        ("p::a", "use crate::p::b::Moved;", "b e"),
        ("p::a::inner", "use super::super::b::X;", "b"),
        ("p::a::inner", "super::f(crate::p::Item::new())", "b"),
        ("p::a", "use super::Own;\nuse self::inner::X;\nuse other::b::X;\nlet my_super::b = b::x();", ""),
        (
            "p::a",
            "// super::b\nlet x = 1; // super::b\nlet y = (\"\\\"super::b\", r#\"\"super::b\"#, '\"', super::c::x);",
            "c",
        ),
        ("p::a", "fn f<'a>(x: &'a super::c::X) {}\n#[cfg(test)]\nmod tests {\n    use super::b;\n}", "c"),
    ] {
        assert_eq!(siblings(file, text), expected, "{text}");
    }
}

#[test]
fn only_modules_in_cycles_are_left() {
    let graph = |imports: &[(&str, &str)]| -> Graph {
        let all = |names: &str| names.split(' ').map(str::to_owned).collect();
        imports.iter().map(|(name, names)| ((*name).to_owned(), all(names))).collect()
    };
    assert!(in_cycles(graph(&[("a", "b c"), ("b", "c d")])).is_empty());
    let left = in_cycles(graph(&[("a", "b"), ("b", "c"), ("c", "b d"), ("d", "e")]));
    assert_eq!(left, graph(&[("b", "c"), ("c", "b")]));
}
