#!/usr/bin/env python3
"""Asana as symphony's tracker: the tasks of one project, with its sections as states. It needs these variables:

    ASANA_PROJECT_GID  the number of the project, which its address has: https://app.asana.com/0/PROJECT/list
    ASANA_PAT          a personal access token; write tracker.api_key: $ASANA_PAT, so that neither hooks nor agents get it
    ASANA_DONE         the state of completed tasks, whatever their section; Done if it is not set
    ASANA_ENDPOINT     https://app.asana.com/api/1.0 if it is not set

In WORKFLOW.md write, with the names of your sections,

    provider: {command: [python3, asana.py], verbs: [tool, comment, move]}
    active_states: [To do, Doing]
    terminal_states: [Done]

Tags are labels. Asana shows comments as they are written, so people see the marks by which symphony knows its own.
"""
import json, os, re, sys, urllib.error, urllib.parse, urllib.request

API = os.environ.get("ASANA_ENDPOINT", "https://app.asana.com/api/1.0").rstrip("/")
DONE = os.environ.get("ASANA_DONE", "Done")
FIELDS = (
    "name,notes,completed,created_at,modified_at,permalink_url,assignee.email,tags.name,"
    "memberships.project.gid,memberships.section.name,dependencies.completed"
)


def setting(name):
    value = os.environ.get(name, "").strip()
    if not value:
        print(name + " is not set", file=sys.stderr)
        sys.exit(78)
    return value


PROJECT, TOKEN = setting("ASANA_PROJECT_GID"), setting("ASANA_PAT")


class Gone(Exception):
    pass


class SameHost(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):  # the token must not go elsewhere
        return None


opener = urllib.request.build_opener(SameHost)


def call(method, path, query=None, data=None):
    """Returns the whole answer of Asana; exits with the code of its error, and raises Gone for 404."""
    url = API + path + ("?" + urllib.parse.urlencode(query) if query else "")
    body = json.dumps({"data": data}).encode() if data is not None else None
    head = {"Authorization": "Bearer " + TOKEN, "Accept": "application/json", "Content-Type": "application/json"}
    try:
        with opener.open(urllib.request.Request(url, body, head, method=method), timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        if e.code == 404:
            raise Gone(path)
        said = e.read(300).decode("utf-8", "replace")
        print("Asana answers %s %s with HTTP %d: %s" % (method, path, e.code, said), file=sys.stderr)
        if e.code == 429 and e.headers.get("Retry-After"):
            print("Retry-After: " + e.headers["Retry-After"], file=sys.stderr)
        sys.exit({401: 77, 403: 77, 429: 75}.get(e.code, 1))
    except (OSError, ValueError) as e:
        sys.exit("%s %s: %s" % (method, path, e))


def pages(path, query):
    """Returns the elements of all pages of a list."""
    query, found = dict(query, limit=100), []
    while True:
        answer = call("GET", path, query)
        found += answer["data"]
        if not answer.get("next_page"):
            return found
        query["offset"] = answer["next_page"]["offset"]


def sections():
    return {s["name"]: s["gid"] for s in pages("/projects/%s/sections" % PROJECT, {"opt_fields": "name"})}


def section(task):
    """Returns the task's section in the project; None for a task of another project."""
    for m in task.get("memberships") or []:
        if (m.get("project") or {}).get("gid") == PROJECT:
            return (m.get("section") or {}).get("name") or "Untitled section"


def state(task):
    return DONE if task["completed"] else section(task)


def comments(gid):
    fields = "type,text,created_at,created_by.name,is_edited"
    return [s for s in pages("/tasks/%s/stories" % gid, {"opt_fields": fields}) if s.get("type") == "comment"]


def issue(task):
    assignee = task.get("assignee") or {}
    return {
        "id": task["gid"],
        "identifier": "AS-" + task["gid"],
        "title": task["name"],
        "description": task.get("notes") or None,
        "state": state(task),
        "labels": [t["name"] for t in task.get("tags") or []],
        "url": task.get("permalink_url"),
        "created_at": task["created_at"],
        "updated_at": task.get("modified_at"),
        "assignee": {"id": assignee["gid"], "email": assignee.get("email")} if assignee else None,
        "blocked_by": [
            {"id": d["gid"], "identifier": "AS-" + d["gid"], "state": DONE if d.get("completed") else "open"}
            for d in task.get("dependencies") or []
        ],
    }


def read(gid):
    """Returns a task of the project; None if there is none."""
    if not re.fullmatch("[0-9]{1,20}", gid):
        return None
    try:
        task = call("GET", "/tasks/" + gid, {"opt_fields": FIELDS})["data"]
    except Gone:
        return None
    return task if section(task) is not None else None


def comment(s):
    by = s.get("created_by") or {}
    return {
        "id": s["gid"],
        "author": by.get("gid") or "somebody",
        "body": s.get("text") or "",
        "created_at": s["created_at"],
        "edited": bool(s.get("is_edited")),
    }


def move(gid, to):
    task = read(gid)
    if task is None:
        sys.exit(66)
    same = lambda name: name.strip().lower() == to.strip().lower()
    known = sections()
    target = [name for name in known if same(name)]
    if not target and not same(DONE):
        sys.exit("there is no state %s, but %s" % (to, ", ".join(dict.fromkeys([*known, DONE]))))
    if same(state(task)):
        return
    if target and section(task) != target[0]:
        call("POST", "/sections/%s/addTask" % known[target[0]], data={"task": gid})
    if task["completed"] != same(DONE):
        call("PUT", "/tasks/" + gid, data={"completed": same(DONE)})


def answer(verb, request):
    if verb == "candidates":
        wanted = [s.strip().lower() for s in request["states"]]
        query = {"project": PROJECT, "opt_fields": FIELDS}
        if DONE.lower() not in wanted:
            query["completed_since"] = "now"  # those that are not completed
        found = [t for t in pages("/tasks", query) if section(t) is not None]
        found.sort(key=lambda t: (t["created_at"], t["gid"]))
        return {"issues": [issue(t) for t in found if state(t).lower() in wanted]}
    if verb == "by-ids":
        found, gone = [], False
        for gid in dict.fromkeys(request["ids"]):
            task = read(gid)
            if task is None:
                gone = True
                continue
            newest = max((c["created_at"] for c in comments(gid)), default=None)
            found.append(dict(issue(task), last_comment_at=newest))
        if gone:  # or the project is hidden, and nothing is gone
            call("GET", "/projects/" + PROJECT, {"opt_fields": "name"})
        return {"issues": found}
    if verb == "tool":
        move(request["issue"]["id"], request["arguments"]["state"])
        return {}
    if verb == "move":
        move(request["issue_id"], request["state"])
        return {}
    if verb == "comment":
        gid = request["issue_id"]
        if request["action"] == "list":
            return {"comments": [comment(s) for s in comments(gid)]}
        if request["action"] == "post":
            return {"comment": comment(call("POST", "/tasks/%s/stories" % gid, data={"text": request["body"]})["data"])}
        call("PUT", "/stories/" + request["comment_id"], data={"text": request["body"]})
        return {}
    sys.exit("unknown verb " + verb)


try:
    json.dump(answer(sys.argv[1], json.load(sys.stdin)), sys.stdout)
except Gone as e:
    print("Asana shows nothing at %s" % e, file=sys.stderr)
    sys.exit(66)
