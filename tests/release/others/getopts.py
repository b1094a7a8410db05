"""getopts, a parser of options in Rust: its unit tests are the program."""

from __future__ import annotations

from typing import Any

from tests.capabilities import need_rustc
from tests.release.others.program import At, Mutation, OtherProgram, from_debian_crates

LIB = "getopts/src/lib.rs"
BUILD = """\
rustc := RUSTC -g --cap-lints=allow
edition := $(shell sed -n 's/^edition = "\\(.*\\)"/--edition=\\1/p' unicode-width/Cargo.toml)
unittests: libunicode_width.rlib liblog.rlib getopts/src/lib.rs getopts/src/tests/mod.rs
	$(rustc) --test --crate-name=getopts --extern=unicode_width=libunicode_width.rlib --extern=log=liblog.rlib \\
		-o $@ getopts/src/lib.rs
libunicode_width.rlib:
	$(rustc) --crate-type=rlib --crate-name=unicode_width $(edition) -o $@ unicode-width/src/lib.rs
liblog.rlib:
	$(rustc) --crate-type=rlib --crate-name=log -o $@ log.rs
"""
# The unit tests only use this macro of the crate log.
LOG = "#[macro_export] macro_rules! debug { ($($argument:tt)*) => {}; }\n"


def unit_test(name: str) -> dict[str, Any]:
    return {"args": ["--exact", "--test-threads=1", f"tests::test_{name}"]}


def lib(text: str, **more: Any) -> dict[str, Any]:
    return {"file": LIB, "text": text, **more}


def getopts() -> OtherProgram:
    return OtherProgram(
        "getopts",
        from_debian_crates("getopts", "unicode-width"),
        BUILD.replace("RUSTC", need_rustc()),
        {
            "program": "unittests",
            **unit_test("combined"),
            "sources": [LIB, "getopts/src/tests/mod.rs"],
            "runs": {"usage": unit_test("usage"), "short-usage": unit_test("short_usage")},
        },
        (
            At({"function": "getopts::validate_names", "file": LIB, "hits": 3}, "short_name ; long_name"),
            At(
                lib("let args = args"),
                "*self ; self.grps[1] ; self.grps[0].short_name ; opts ; opts[0].aliases ; vals ; free ; size(opts)",
            ),
            At(
                lib("let mut i_arg = None;", hits=3),
                "cur ; free ; vals ; vals[0] ; opts[2] ; arg_pos ; args ; args.iter ; args.iter[1] ; size(args.iter)",
            ),
            At(
                lib("for nm in names.iter() {", hits=4),
                "names ; i_arg ; was_long ; cur ; name_pos ; vals",
            ),
            At(
                lib("Ok(Matches { opts, vals, free })"),
                "opts ; vals ; vals[4] ; free ; free[1] ; size(free)",
            ),
            At(
                {"function": "getopts::find_opt", "file": LIB, "hits": 6},
                "opts ; *nm ; nm",
            ),
            At(
                lib("Some(id) => self.vals[id].clone(),"),
                "*self ; self.vals[2] ; nm",
            ),
            At(
                lib('let mut row = "    ".to_string();', hits=2),
                "short_name ; long_name ; hint ; desc ; hasarg ; *optref ; any_short ; desc_sep",
                "usage",
            ),
            At(lib("let rowlen = row.width();", hits=3), "row ; long_name ; hasarg", "usage"),
            At(
                lib("if width <= lim {"),
                "row ; word ; words ; sep ; width ; rows ; lim",
                "usage",
            ),
            At(lib("if !opt.short_name.is_empty() {", hits=2), "*opt ; line", "short-usage"),
        ),
        (
            Mutation(LIB, "arg_pos += 1;", "arg_pos += 2;"),
            Mutation(LIB, "if nm.len() == 1 {", "if nm.len() == 4 {"),
            Mutation(LIB, "let next = j + ch.len_utf8();", "let next = j - ch.len_utf8();"),
            Mutation(LIB, '{ "-" } else { "--" }', '{ "--" } else { "-" }'),
            Mutation(
                LIB, "if opt.occur != Req {\n        line.push('[');", "if opt.occur == Req {\n        line.push('[');"
            ),
        ),
        {"log.rs": LOG},
    )
