"""ninja, a build tool in C++: containers, owning pointers and iterators.

Not recorded, because ``record`` named them as unstable: ``running_edges_`` (times) and ``config_`` (the number of
processors).
"""

from __future__ import annotations

from typing import Any

from tests.capabilities import need_program
from tests.release.others.program import At, Mutation, OtherProgram, from_pypi

BUILD = """\
# the program without its tests and what is for Windows
other := %_test %_perftest %.in %-win32 browse test hash_collision_bench
names := $(filter-out $(other),$(basename $(notdir $(wildcard src/*.cc))))
ninja: $(names:%=out/%.o)
	g++ -o $@ $^
out/%.o: src/%.cc
	@mkdir -p out
	g++ -g -O0 -std=c++14 -w -MMD -c -o $@ $<
-include out/*.d
"""
MANIFEST = """\
cflags = -O2 -Wall
builddir = out

pool linker
  depth = 2

rule cc
  command = gcc $cflags -c $in -o $out
  description = CC $out
rule link
  command = gcc $in -o $out
  pool = linker

build out/main.o: cc main.c | config.h
build out/text.o: cc text.c
  cflags = -O0 -g
build app: link out/main.o out/text.o
default app
"""


def cc(name: str, text: str, hits: int = 1) -> dict[str, Any]:
    return {"file": f"src/{name}.cc", "text": text, "hits": hits}


SOURCES = ("manifest_parser", "eval_env", "state", "build", "ninja", "edit_distance")


def ninja() -> OtherProgram:
    need_program("g++")
    return OtherProgram(
        "ninja",
        from_pypi("ninja==1.13.2", "ninja-upstream"),
        BUILD,
        {
            "program": "ninja",
            "args": ["-n", "-C", "project"],
            "sources": [f"src/{name}.cc" for name in SOURCES],
            "runs": {"misspelt": {"args": ["-n", "-C", "project", "out/mian.o"]}},
        },
        (
            At(
                cc("manifest_parser", "env_->AddBinding(name, value);", 2),
                "name ; value ; let_value ; env_->bindings_ ; *env_ ; token",
            ),
            At(
                cc("manifest_parser", "state_->AddPool(new Pool(name, depth));"),
                'name ; depth ; state_->pools_ ; *state_->pools_["console"] ; size(state_->pools_)',
            ),
            At(
                cc("manifest_parser", "env_->AddRule(std::move(rule));", 2),
                'rule ; rule->bindings_["command"].parsed_ ; rule->bindings_["pool"] ; env_->rules_'
                ' ; *env_->rules_["cc"]',
            ),
            At(
                cc("manifest_parser", "Edge* edge = state_->AddEdge(rule);", 2),
                "rule_name ; rule->name_ ; *rule ; outs_ ; ins_ ; *env ; env->bindings_ ; has_indent_token",
            ),
            At(
                cc("state", "node->AddOutEdge(edge);", 4),
                "path ; *node ; node->path_ ; paths_ ; *edge->inputs_[0] ; *edge ; edges_ ; size(edges_)",
            ),
            At({"function": "State::GetNode", "hits": 5}, "path.len_ ; slash_bits ; paths_ ; defaults_ ; bindings_"),
            At(
                cc("eval_env", "result.append(env->LookupVariable(i->first));", 5),
                "*i ; i ; i->first ; i->second ; result ; parsed_ ; single_token_ ; size(parsed_)",
            ),
            At(
                cc("build", "if (dyndep_walk && want == kWantToFinish)", 3),
                "*node ; node->path_ ; dependent->path_ ; want ; want_ins ; want_ ; size(want_) ; targets_"
                " ; *targets_[0]",
            ),
            At(
                cc("build", "running_edges_.insert(make_pair(edge, start_time_millis));", 2),
                "edge->outputs_[0]->path_ ; edge->env_->bindings_ ; *edge->rule_ ; plan_.ready_"
                " ; size(plan_.ready_) ; size(running_edges_) ; config_.dry_run",
            ),
            At(
                cc("build", "finished_.pop();"),
                "*result ; finished_ ; result->edge->inputs_[0]->path_ ; result->output",
            ),
            At(
                {"file": "src/edit_distance.cc", "text": "return row[n];"}, "row ; m ; n ; row[1] ; s1 ; s2", "misspelt"
            ),
            At(
                cc("ninja", "Node* suggestion = state_.SpellcheckNode(path);"),
                "path ; *err ; state_.paths_",
                "misspelt",
            ),
        ),
        (
            Mutation(
                "src/manifest_parser.cc",
                "env->AddBinding(key, val.Evaluate(env_));",
                "env_->AddBinding(key, val.Evaluate(env));",
            ),
            Mutation("src/eval_env.cc", "if (i->second == RAW)", "if (i->second != RAW)"),
            Mutation("src/state.cc", "edge->id_ = edges_.size();", "edge->id_ = paths_.size();"),
            Mutation("src/build.cc", "want = kWantToStart;", "want = kWantNothing;"),
            Mutation("src/edit_distance.cc", "? 0 : 1),", "? 0 : 2),"),
        ),
        {"project/build.ninja": MANIFEST, "project/main.c": "", "project/text.c": "", "project/config.h": ""},
    )
