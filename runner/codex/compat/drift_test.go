package compat

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/schema"
)

// change alters a printed schema, which is JSON of objects, at a path of names and indices.
type change func(t *testing.T, files map[string]object)

// at finds an object in a file by a path of names; a list is entered by the method or the type of one of its objects.
func at(t *testing.T, files map[string]object, path string) object {
	t.Helper()
	steps := strings.Split(path, " ")
	here := files[steps[0]]
	for _, step := range steps[1:] {
		list, isList := here[step].([]any)
		if !isList {
			next, ok := here[step].(object)
			if !ok {
				t.Fatalf("%s: no %s in %v", path, step, slices.Sorted(maps.Keys(here)))
			}
			here = next
			continue
		}
		here = object{}
		for _, one := range list {
			o, _ := one.(object)
			for _, by := range []string{"method", "type"} {
				for _, word := range schema.New(o).Words() {
					here[word] = o
				}
				rules, _ := schema.New(o).Member(by)
				for _, word := range schema.WordsOf(rules) {
					here[word] = o
				}
			}
		}
	}
	return here
}

func drop(path, name string) change {
	return func(t *testing.T, files map[string]object) {
		t.Helper()
		o := at(t, files, path)
		if o[name] == nil {
			t.Fatalf("%s has no %s", path, name)
		}
		delete(o, name)
	}
}

func put(path, name, value string) change {
	return func(t *testing.T, files map[string]object) {
		t.Helper()
		v, err := schema.Decode([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		at(t, files, path)[name] = v
	}
}

func all(changes ...change) change {
	return func(t *testing.T, files map[string]object) {
		t.Helper()
		for _, c := range changes {
			c(t, files)
		}
	}
}

const (
	turnStart    = "ClientRequest definitions TurnStartParams"
	threadStart  = "ClientRequest definitions ThreadStartParams"
	turnEnd      = "ServerNotification definitions TurnCompletedParams properties turn properties"
	turnPolicies = turnStart + " properties sandboxPolicy oneOf"
)

// What a later codex may do to its protocol, and what is said of it.
func TestDrift(t *testing.T) {
	const tools = ": the tool linear_graphql is not offered to the model"
	for name, row := range map[string]struct {
		change            change
		missing, warnings string
	}{
		"a field gone":       {drop(turnStart+" properties", "sandboxPolicy"), "does not know turn/start.sandboxPolicy", ""},
		"a field renamed":    {all(drop(turnStart+" properties", "cwd"), put(turnStart+" properties", "workdir", `{"type":"string"}`)), "does not know turn/start.cwd", ""},
		"another type":       {put(turnStart+" properties", "cwd", `{"type":["array","null"]}`), "wants turn/start.cwd to be array or null", ""},
		"another item type":  {put(turnStart+" properties", "input", `{"type":"array","items":{"type":"string"}}`), "wants turn/start.input[0] to be string", ""},
		"a value gone":       {put(threadStart+" properties", "approvalPolicy", `{"enum":["always","on-request"]}`), "allows for thread/start.approvalPolicy only always, on-request", ""},
		"a kind gone":        {put(turnStart+" properties", "sandboxPolicy", `{"oneOf":[{"type":"object","properties":{"type":{"enum":["jail"]}},"required":["type"]}]}`), "allows for turn/start.sandboxPolicy.type only jail", ""},
		"a policy's field":   {drop(turnPolicies+" workspaceWrite properties", "excludeSlashTmp"), "does not know turn/start.sandboxPolicy.excludeSlashTmp", ""},
		"a new requirement":  {put(turnStart, "required", `["threadId","input","model"]`), "wants turn/start.model, which symphony does not send", ""},
		"a request gone":     {drop("ClientRequest oneOf turn/interrupt properties", "method"), "does not know turn/interrupt", ""},
		"its answer":         {drop("TurnStartResponse properties turn properties", "id"), "does not send the answer to turn/start.turn.id", ""},
		"a notification":     {drop("ServerNotification oneOf turn/completed properties", "method"), "does not know turn/completed", ""},
		"one of its fields":  {drop(turnEnd, "status"), "does not send turn/completed.turn.status", ""},
		"its type":           {put(turnEnd, "status", `{"type":"object"}`), "sends turn/completed.turn.status as object, not as string", ""},
		"its values":         {put(turnEnd, "status", `{"type":"string","enum":["done","failed","interrupted"]}`), `does not send turn/completed.turn.status "completed"`, ""},
		"a member of tokens": {drop("ServerNotification definitions ThreadTokenUsageUpdatedParams properties tokenUsage properties total properties", "inputTokens"), "does not send thread/tokenUsage/updated.tokenUsage.total.inputTokens", ""},
		"an answer of ours": {
			put("ItemCommandExecutionRequestApprovalResponse properties", "decision", `{"enum":["accept","decline","cancel"]}`),
			"allows for item/commandExecution/requestApproval.decision only accept, decline, cancel", "",
		},
		"another wants an answer": {put("ItemToolCallResponse", "required", `["contentItems","success","summary"]`), "wants item/tool/call.summary, which symphony does not send", ""},
		"a tool's answer":         {put("ItemToolCallResponse", "properties", `{"text":{"type":"string"},"success":{"type":"boolean"}}`), "does not know item/tool/call.contentItems", ""},
		"several":                 {all(drop(turnStart+" properties", "cwd"), drop(threadStart+" properties", "cwd")), "does not know thread/start.cwd; does not know turn/start.cwd", ""},

		"the tools gone":       {drop(threadStart+" properties", "dynamicTools"), "", "does not know thread/start.dynamicTools" + tools},
		"tools of another way": {put(threadStart+" properties dynamicTools items properties", "inputSchema", `{"type":"string"}`), "", "wants thread/start.dynamicTools[0].inputSchema to be string" + tools},
		"no token usage": {
			drop("ServerNotification oneOf thread/tokenUsage/updated properties", "method"), "",
			"does not know thread/tokenUsage/updated: its tokens are not counted: the totals stay zero, and agent.max_tokens never holds an issue",
		},
		"a last message": {
			drop("ServerNotification definitions ItemCompletedParams properties item anyOf agentMessage properties", "text"), "",
			"does not send item/completed.item(agentMessage).text: the agent's last words are not shown",
		},
		"a new question": {
			put("ServerRequest oneOf currentTime/read properties method", "enum", `["currentTime/read","item/mood/read"]`), "",
			"may ask with item/mood/read, which this version of symphony refuses",
		},

		"a tool's answer of old": {
			all(put("ItemToolCallResponse", "required", `["output","success"]`), put("ItemToolCallResponse", "properties", `{"output":{"type":"string"},"success":{"type":"boolean"}}`)), "", "",
		},
		"nothing of ours":      {put(turnStart+" properties", "mood", `{"type":"string"}`), "", ""},
		"a title that is none": {drop(turnStart+" properties", "title"), "", ""},
		"more values":          {put(turnEnd, "status", `{"type":"string","enum":["completed","failed","interrupted","paused"]}`), "", ""},
		"no capabilities":      {drop("ClientRequest definitions InitializeParams properties", "capabilities"), "", ""},
		"another capability":   {put("ClientRequest definitions InitializeParams properties capabilities", "properties", `{"preview":{"type":"boolean"}}`), "", "does not know initialize.capabilities.experimentalApi" + tools},
		"tools without types":  {drop(threadStart+" properties dynamicTools items properties", "type"), "", ""},
		"a question gone":      {drop("ServerRequest oneOf item/tool/requestUserInput properties", "method"), "", ""},
		"words nobody knows":   {put(turnStart+" properties cwd", "unevaluatedThings", `{"a":[1]}`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := Report{Version: "0.200.0"}
			r.judge(doctored(t, row.change))
			if got := strings.Join(r.Missing, "; "); got != row.missing {
				t.Errorf("missing %q, want %q", got, row.missing)
			}
			if got := strings.Join(r.Warnings, "; "); got != row.warnings {
				t.Errorf("warnings %q, want %q", got, row.warnings)
			}
			var e *codex.Error
			if errors.As(r.Err(), &e) != (row.missing != "") {
				t.Errorf("error %v", r.Err())
			} else if e != nil && (e.Code != codex.CodeIncompatible || e.Message != "codex 0.200.0 "+row.missing) {
				t.Errorf("error %+v", e)
			}
		})
	}
}

// doctored is the printed schema after a change.
func doctored(t *testing.T, c change) printed {
	t.Helper()
	dir := t.TempDir()
	if err := Print(dir); err != nil {
		t.Fatal(err)
	}
	files := readAll(t, dir)
	c(t, files)
	writeAll(t, dir, files)
	p, err := readPrinted(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Values of the workflow, and what is said of those that codex does not take.
func TestWrongValues(t *testing.T) {
	p := printedAnew(t)
	r := Report{Version: "0.169.0", Allowed: allowed(p)}
	// It has to hold after it was kept, too.
	kept, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	r = Report{}
	if err := json.Unmarshal(kept, &r); err != nil {
		t.Fatal(err)
	}
	const policies = "; it allows untrusted, on-request, never, granular"
	for _, row := range []struct{ key, value, want string }{
		{KeyApprovalPolicy, `"never"`, ""},
		{KeyApprovalPolicy, `{"granular":{"rules":true}}`, ""},
		{KeyApprovalPolicy, `"on-failure"`, `codex.approval_policy: "on-failure" is unknown to codex 0.169.0` + policies},
		{KeyApprovalPolicy, `{"reject":{"rules":true}}`, `codex.approval_policy: {"reject":{"rules":true}} is unknown to codex 0.169.0` + policies},
		{KeyApprovalPolicy, `{"granular":{"rules":"yes"}}`, `codex.approval_policy.granular.rules: "yes" is no boolean, which codex 0.169.0 wants`},
		{KeyApprovalPolicy, `7`, "codex.approval_policy: 7 is unknown to codex 0.169.0" + policies},
		{KeyThreadSandbox, `"workspace-write"`, ""},
		{KeyThreadSandbox, `"workspaceWrite"`, `codex.thread_sandbox: "workspaceWrite" is unknown to codex 0.169.0; it allows read-only, workspace-write, danger-full-access`},
		{KeyThreadSandbox, `"workspaces"`, `codex.thread_sandbox: "workspaces" is unknown to codex 0.169.0; it allows read-only, workspace-write, danger-full-access`},
		{KeyTurnSandboxPolicy, `{"type":"workspaceWrite","networkAccess":true}`, ""},
		{KeyTurnSandboxPolicy, `{"type":"externalSandbox","networkAccess":"enabled"}`, ""},
		{KeyTurnSandboxPolicy, `{"type":"jail"}`, `codex.turn_sandbox_policy.type: "jail" is unknown to codex 0.169.0; it allows dangerFullAccess, readOnly, externalSandbox, workspaceWrite`},
		{KeyTurnSandboxPolicy, `{"type":"workspaceWrite","networkAccess":"enabled"}`, `codex.turn_sandbox_policy.networkAccess: "enabled" is no boolean, which codex 0.169.0 wants`},
		{KeyTurnSandboxPolicy, `{"type":"externalSandbox","networkAccess":"all"}`, `codex.turn_sandbox_policy.networkAccess: "all" is unknown to codex 0.169.0; it allows restricted, enabled`},
		{KeyTurnSandboxPolicy, `{"type":"workspaceWrite","writableRoots":["/a",7]}`, `codex.turn_sandbox_policy.writableRoots[1]: 7 is no string, which codex 0.169.0 wants`},
		{KeyTurnSandboxPolicy, `{"networkAccess":true}`, `codex.turn_sandbox_policy.type is missing, which codex 0.169.0 wants; it allows dangerFullAccess, readOnly, externalSandbox, workspaceWrite`},
		{KeyTurnSandboxPolicy, `{"type":"workspaceWrite","networkAcess":true}`, `ignored: codex.turn_sandbox_policy.networkAcess: codex 0.169.0 does not know it, and overlooks it`},
	} {
		var got []string
		for _, w := range r.Wrong(map[string]json.RawMessage{row.key: json.RawMessage(row.value)}) {
			text := w.Message
			if w.Ignored {
				text = "ignored: " + text
			}
			if w.Key != row.key {
				t.Errorf("%s: the key is %s", row.value, w.Key)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "\n"); text != row.want {
			t.Errorf("%s %s:\n got %s\nwant %s", row.key, row.value, text, row.want)
		}
	}
	if wrong := (Report{Unchecked: "no schema"}).Wrong(map[string]json.RawMessage{KeyApprovalPolicy: json.RawMessage(`"x"`)}); wrong != nil {
		t.Errorf("of a codex that is not known: %v", wrong)
	}
}
