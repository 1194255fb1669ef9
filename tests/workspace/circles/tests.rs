//! Made crates: a circle is found through each way to name a module, and none where there is none.

use super::*;

/// A crate of these files.
fn crate_of(files: &[(&str, &str)]) -> Crate {
    let files: BTreeMap<&Path, &str> = files
        .iter()
        .map(|(file, text)| (Path::new(file), *text))
        .collect();
    Crate::read(Path::new(""), |file| {
        let text = files.get(file);
        text.unwrap_or_else(|| panic!("no file {}", file.display()))
            .to_string()
    })
}

/// The modules of each circle.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let circles = crate_of(files).circles();
    let names = circles.iter().map(|circle| {
        let names: Vec<String> = circle
            .modules
            .iter()
            .map(|place| place.join("::"))
            .collect();
        names.join(" ")
    });
    names.collect()
}

/// Whether `a` and `b` are a circle, in a crate of these texts. `b` has a module inside, and `c`
/// imports nothing.
fn is_circle(a: &str, b: &str) -> bool {
    let root =
        "mod a; pub(crate) use self::b::B; pub use b::{C, D as E}; pub mod b; mod c; fn g() {}";
    let b = format!("mod inner; {b}");
    let files = [
        ("lib.rs", root),
        ("a.rs", a),
        ("b.rs", &b),
        ("b/inner.rs", ""),
        ("c.rs", ""),
    ];
    let found = circles_of(&files);
    assert!(found.is_empty() || found == ["a b"], "{found:?}");
    !found.is_empty()
}

#[test]
fn a_circle_is_found_through_each_way_to_name_a_module() {
    let ways = [
        "use crate::b;",
        "use crate::b::B;",
        "pub(crate) use crate::b::B as C;",
        "use super::b;",
        "use super::b::inner::X;",
        "use crate::{c, b::{self, C as D}, other::X};",
        "use crate::{c::{X, Y}, b};",
        "use {std::fmt, crate::b::B};",
        "fn f() { crate::b::g() }",
        "fn f() { super::b::inner::g::<X>() }",
        "fn f() { use super::b::B; }",
        "fn f(self: &crate::b::B) {}",
        "fn f() -> impl Iterator<Item = u8> + use<> { crate::b::g() }",
        "fn f() -> impl Iterator<Item = u8> + use<> {} use crate::b;",
        "fn f() { T { x: 1, ..crate::b::B } }",
        "fn f() { <crate::b::B as X>::f() }",
        "fn f() { x::<crate::b::B>() }",
        "fn f() { println!(\"{}\", crate::b::X) }",
        "struct S { x: Vec<crate::b::B> }",
        "struct S { #[cfg(test)] x: X, y: crate::b::B }",
        "#[x(crate::b::B)] struct S;",
        "struct S { #[serde(with = \"crate::b\")] x: X }",
        "struct S { #[serde(default = \"super::b::f\")] x: X }",
        "macro_rules! m { () => { $crate::b::g() } }",
        // The root shows a module's type under its own name.
        "use crate::B;",
        "use crate::C;",
        "use super::E;",
        "fn f() { crate::B::new() }",
        // A name for the root, or for what the root shows.
        "use crate as here; fn f() { here::b::g() }",
        "use super::{self as around}; use around::b::B;",
        "mod inside { use super::super::b::B; }",
        "mod inside { fn f() { crate::b::g() } }",
        "mod inside { mod more { use super::super::super::b::B; } }",
        "#[cfg(test)] mod tests { use crate::c; } use crate::b;",
        "#[cfg(test)] use crate::c; fn f() { crate::b::g() }",
        "#[cfg(feature = \"x\")] use crate::b;",
        "#[cfg(any(test, feature = \"x\"))] use crate::b;",
    ];
    for way in ways {
        assert!(is_circle(way, "use crate::a;"), "{way}");
        assert!(!is_circle(way, ""), "{way}");
    }
}

#[test]
fn what_names_no_module_beside_closes_no_circle() {
    let others = [
        "",
        "use crate::c::C;",
        "use crate::g;",
        "use crate::D;",
        "use other::b;",
        "use ::b::B;",
        "use b::B;",
        "fn f() { b::g(); ::b::g(); x.b::<X>(); <X>::b::g() }",
        "fn f(b: B) { b.g() }",
        "fn f() { super::g() }",
        "fn f() { \"crate::b::g\"; } // crate::b::g",
        "/// [`crate::b::B`]\nstruct S;",
        "#[expect(x, reason = \"crate::b::B is there\")] struct S;",
        "mod b { struct B; } use self::b::B;",
        "mod inside { use super::b::B; }",
        "use anyhow::anyhow; fn f() { anyhow::g() }",
        "#[cfg(test)] use crate::b;",
        "#[cfg(test)] use crate::b::{self, B};",
        "#[cfg(test)] mod tests { use crate::b; }",
        "#[cfg(test)] #[expect(x)] pub(crate) mod tests { use crate::b; }",
        "#[cfg(all(test, feature = \"x\"))] mod tests { use crate::b; }",
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] const fn f() -> crate::b::B { crate::b::B }",
    ];
    for other in others {
        assert!(!is_circle(other, "use crate::a;"), "{other}");
    }
}

#[test]
fn a_module_and_those_inside_it_are_one_room() {
    let room = [
        ("lib.rs", "mod a; use a::A;"),
        (
            "a.rs",
            "mod x; mod y; use self::x::X; use y::Y; use crate::g;",
        ),
        ("a/x.rs", "use super::A; use super::y::Y; use crate::a::B;"),
        ("a/y.rs", "use super::A; use crate::g;"),
    ];
    assert!(circles_of(&room).is_empty());
}

#[test]
fn modules_inside_one_are_held_against_each_other_and_those_beside_it() {
    let inside = |y: &'static str, b: &'static str| {
        circles_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod x; mod y; use self::x::X; use y::Y;"),
            ("a/x.rs", "use super::y; use crate::b::B;"),
            ("a/y.rs", y),
            ("b.rs", b),
        ])
    };
    assert_eq!(inside("", ""), [""; 0]);
    assert_eq!(inside("use super::x;", ""), ["a::x a::y"]);
    assert_eq!(inside("use crate::a::x;", ""), ["a::x a::y"]);
    // The module around them imports it, for itself alone.
    assert_eq!(inside("use super::X;", ""), ["a::x a::y"]);
    assert_eq!(inside("use crate::a; type Z = a::x::X;", ""), ["a::x a::y"]);
    assert_eq!(inside("", "use crate::a::A;"), ["a b"]);
    assert_eq!(inside("", "use crate::a::y::Y;"), ["a b"]);
    assert_eq!(
        inside("use super::x;", "use crate::a;"),
        ["a b", "a::x a::y"]
    );
}

#[test]
fn a_circle_may_lead_over_many_modules() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::c;"),
        ("c.rs", "use crate::a; use crate::d;"),
        ("d.rs", ""),
    ];
    assert_eq!(circles_of(&files), ["a b c"]);
}

#[test]
fn modules_for_tests_alone_are_not_read() {
    let root = "mod a; mod b; #[cfg(test)] mod fixture;";
    let files = [("lib.rs", root), ("a.rs", ""), ("b.rs", "")];
    assert_eq!(crate_of(&files).modules.len(), 3);
}

#[test]
fn a_wildcard_of_the_same_crate_is_found() {
    let wildcards = |a| {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "")];
        crate_of(&files).wildcards().len()
    };
    assert_eq!(wildcards("use super::*;"), 1);
    assert_eq!(wildcards("use crate::b::{self, *};"), 1);
    assert_eq!(wildcards("use proptest::prelude::*;"), 0);
    assert_eq!(wildcards("#[cfg(test)] mod tests { use super::*; }"), 0);
}

#[test]
fn a_fault_names_the_modules_and_the_files_with_the_arrows() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod x;"),
        ("a/x.rs", "use crate::b::{B, C};"),
        ("b.rs", "fn f() { super::a::g() }"),
    ];
    let circles = crate_of(&files).circles();
    let expected = "toy: 2 modules in circles, 0 may be: move what they share below them
  a circle of 2: a, b
    a → b: a/x.rs: crate::b::B, crate::b::C
    b → a: b.rs: super::a::g";
    assert_eq!(fault("toy", &circles, 0).as_deref(), Some(expected));
}

#[test]
fn an_exception_only_shrinks() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::a;"),
    ];
    let circles = crate_of(&files).circles();
    assert!(fault("toy", &circles, 0).is_some());
    assert!(fault("toy", &circles, 1).is_some());
    assert_eq!(fault("toy", &circles, 2), None);
    let lower = "toy: 2 modules in circles, not 3 any more: lower EXCEPTIONS";
    assert_eq!(fault("toy", &circles, 3).as_deref(), Some(lower));
    let none = "toy: 0 modules in circles, not 2 any more: lower EXCEPTIONS";
    assert_eq!(fault("toy", &[], 2).as_deref(), Some(none));
    assert_eq!(fault("toy", &[], 0), None);
}
