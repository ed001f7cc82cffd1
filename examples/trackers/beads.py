#!/usr/bin/env python3
"""Beads (https://github.com/steveyegge/beads) as symphony's tracker, from its JSON export.

It calls `bd export`; or it reads the file in BEADS_EXPORT, such as .beads/issues.jsonl, if something else writes that. With the verbs
tool and move it calls `bd update`. States are those of Beads: in WORKFLOW.md write

    active_states: [open, in_progress]
    terminal_states: [closed]

The type of an issue is one of its labels, so that required_labels can choose: [task].
"""
import json, os, subprocess, sys


def bd(*arguments):
    done = subprocess.run(["bd", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode != 0:
        sys.exit("bd " + arguments[0] + " failed")
    return done.stdout


def read():
    file = os.environ.get("BEADS_EXPORT")
    lines = open(file, encoding="utf-8") if file else bd("export").splitlines()
    records = [json.loads(line) for line in lines if line.strip()]
    # A deleted issue may stay in the export as a tombstone, and memories are no issues.
    return {r["id"]: r for r in records if state(r) != "tombstone" and r.get("_type", "issue") == "issue"}


def state(r):
    return r.get("status") or "open"


def issue(r, known):
    parts = [r.get("description")]
    for name in ["design", "acceptance_criteria", "notes"]:
        if r.get(name):
            parts.append("## " + name.replace("_", " ").capitalize() + "\n\n" + r[name])
    blockers = [d["depends_on_id"] for d in r.get("dependencies") or [] if d["type"] == "blocks"]
    return {
        "id": r["id"],
        "title": r["title"],
        "description": "\n\n".join(p for p in parts if p),
        "state": state(r),
        "priority": r.get("priority", 0) + 1,  # Beads counts from 0, which old exports leave out
        "labels": (r.get("labels") or []) + [r.get("issue_type") or "task"],
        "blocked_by": [{"id": b, "state": state(known[b]) if b in known else "closed"} for b in blockers],
        "created_at": r["created_at"],
        "updated_at": r["updated_at"],
        "assignee": {"id": r["assignee"]} if r.get("assignee") else None,
        "last_comment_at": max((c["created_at"] for c in r.get("comments") or []), default=None),
    }


verb, request = sys.argv[1], json.load(sys.stdin)
if verb == "candidates":
    known = read()
    wanted = [s.strip().lower() for s in request["states"]]
    found = sorted((r for r in known.values() if state(r) in wanted), key=lambda r: (r["created_at"], r["id"]))
    answer = {"issues": [issue(r, known) for r in found]}
elif verb == "by-ids":
    known = read()
    answer = {"issues": [issue(known[id], known) for id in request["ids"] if id in known]}
elif verb in ["tool", "move"]:
    id, to = (request["issue_id"], request["state"]) if verb == "move" else (request["issue"]["id"], request["arguments"]["state"])
    if id not in read():
        sys.exit(66)
    bd("update", id, "--status", to.lower())
    answer = {}
else:
    sys.exit("unknown verb " + verb)
json.dump(answer, sys.stdout)
