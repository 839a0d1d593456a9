//! The prototypes of what C calls, from `src/ffi.rs` and the files below it: one list, in one order.

/// What keeps a panic from unwinding into C: each function begins one of these.
const GUARDS: [&str; 4] = ["attempt(", "attempt_at(", "look(", "guarded("];

/// The C prototypes of all functions in `source`.
///
/// # Panics
/// If one has a type that C has no name for here, or is not guarded against panics.
pub(crate) fn prototypes(source: &str) -> String {
    let mut header = String::from("/* What src/ffi defines. */\n");
    for function in source.split("extern \"C\" fn fulmar_").skip(1) {
        let (name, rest) = function.split_once('(').expect("a function has parameters");
        let (signature, body) = rest.split_once(" {\n").expect("a function has a body");
        let body = body.split("\n}\n").next().unwrap_or(body);
        assert!(
            GUARDS.iter().any(|guard| body.contains(guard)),
            "src/ffi: a panic in fulmar_{name} would unwind into C; run it by one of {GUARDS:?}"
        );
        let (parameters, result) = match signature.rsplit_once(") -> ") {
            Some((parameters, result)) => (parameters, c_type(result)),
            None => (signature.strip_suffix(')').expect("parameters end"), "void".into()),
        };
        let parameters: Vec<String> =
            parameters.split('\n').flat_map(one_a_line).map(|(name, of)| declared(name, of)).collect();
        header.push_str(&format!("{result} fulmar_{name}({});\n", parameters.join(", ")));
    }
    header
}

/// The parameters in a line. A function's own have commas, and only one is of such a type: it has a line of its own.
fn one_a_line(line: &str) -> Vec<(&str, &str)> {
    let line = line.trim().trim_end_matches(',');
    let split = |parameter| str::split_once(parameter, ": ");
    match split(line) {
        Some((name, of)) if of.starts_with("extern") => vec![(name, of)],
        _ => line.split(", ").filter_map(split).collect(),
    }
}

fn declared(name: &str, of: &str) -> String {
    match of {
        "extern \"C\" fn(*mut c_void, *const c_char)" => format!("void (*{name})(void*, const char*)"),
        of => format!("{} {name}", c_type(of)),
    }
}

/// What C calls a type.
fn c_type(of: &str) -> String {
    if let Some(of) = of.strip_prefix("*mut ") {
        return format!("{}*", c_type(of));
    }
    if let Some(of) = of.strip_prefix("*const ") {
        return format!("const {}*", c_type(of));
    }
    let name = match of {
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "u8" | "u32" | "i64" => of,
        "Handle" => "FulmarHandle",
        "Cursor" => "FulmarCursor",
        "RawValue" => "FulmarValue",
        other => panic!("src/ffi: build/header.rs knows no type of C for {other}"),
    };
    name.into()
}
