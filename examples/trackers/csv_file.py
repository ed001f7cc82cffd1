#!/usr/bin/env python3
"""A CSV file as symphony's tracker. Its columns: id,title,state,priority,labels,blocked_by,description."""
import csv, fcntl, json, os, sys

FILE = os.environ.get("ISSUES_CSV", "issues.csv")
verb, request = sys.argv[1], json.load(sys.stdin)
lock = open(FILE + ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)  # symphony may start this program several times at once
with open(FILE, newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
known = {row["id"]: row for row in rows}

def issue(row):
    return {
        "id": row["id"], "title": row["title"], "description": row["description"], "state": row["state"],
        "priority": int(row["priority"] or 0), "labels": row["labels"].split(),
        "blocked_by": [{"id": id, "state": known.get(id, {}).get("state")} for id in row["blocked_by"].split()],
    }

if verb == "candidates":
    print(json.dumps({"issues": [issue(row) for row in rows if row["state"].lower() in [s.lower() for s in request["states"]]]}))
elif verb == "by-ids":
    print(json.dumps({"issues": [issue(known[id]) for id in request["ids"] if id in known]}))
elif verb in ["tool", "move"]:
    id, state = (request["issue_id"], request["state"]) if verb == "move" else (request["issue"]["id"], request["arguments"]["state"])
    if id not in known:
        sys.exit(66)
    known[id]["state"] = state
    with open(FILE + ".new", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    os.replace(FILE + ".new", FILE)  # readers never see half of the file
    print("{}")
else:
    sys.exit("unknown verb " + verb)
